"""docs/rules.md is made by ``make docs`` and says what the rules say."""

import re
from collections import Counter

from rlhfdoctor.profile import explanation, rules
from rlhfdoctor.reports.markdown import FAMILIES, rules_markdown
from tests.builders import FIXTURES

PAGE = FIXTURES.parent / "docs" / "rules.md"
MADE = rules_markdown([explanation(rule) for rule in rules()])


def test_the_page_is_what_make_docs_would_write() -> None:
    assert PAGE.read_text(encoding="utf-8") == MADE, "stale: make docs"


def test_every_family_has_a_title_and_stands_in_the_order_of_the_questions() -> None:
    families = re.findall(r"^## .+ \((\w+)\)$", MADE, re.MULTILINE)
    assert families == [family for family in FAMILIES if family in families]
    assert {*families} == {rule.code.rstrip("0123456789") for rule in rules()}


def test_every_link_of_the_contents_leads_to_a_heading() -> None:
    headings = re.findall(r"^### (.+)$", MADE, re.MULTILINE)
    anchors = [heading.lower().replace(" ", "-") for heading in headings]
    assert re.findall(r"\]\(#([^)]+)\)", MADE) == anchors
    assert len(anchors) == len(rules())


def test_every_section_holds_what_the_rule_says_of_itself() -> None:
    _, *parts = re.split(r"^### (\w+) .+$", MADE, flags=re.MULTILINE)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    for rule in rules():
        section = sections[rule.code]
        assert rule.text in section
        assert "**Remedy:**" in section
        for limit in explanation(rule)["limits"]:
            assert f"| `{limit['limit']}` | {limit['default']} |" in section


def test_code_is_balanced_and_tags_do_nothing() -> None:
    for line in MADE.splitlines():
        outside = "".join(line.split("`")[::2])
        assert Counter(line)["`"] % 2 == 0, line
        assert not re.search(r"(?<!\\)<\w", outside), line


def test_rules_of_another_package_have_a_place() -> None:
    foreign = {**explanation(rules()[0]), "code": "ZZ001"}
    assert "## ZZ (ZZ)" in rules_markdown([foreign])
