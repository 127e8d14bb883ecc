import inspect
import math
import re
import string
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.profile import limits_of, rules
from rlhfdoctor.rules import Rule
from rlhfdoctor.runs import read_runs
from rlhfdoctor.vocabulary import METRICS
from tests.builders import FIXTURES, HEALTHY, run_of

RULES = [pytest.param(rule, id=f"{rule.code} {rule.name}") for rule in rules()]
SICK = sorted(path.name for path in FIXTURES.iterdir() if path.name not in HEALTHY)
NAN = float("nan")


@cache
def fixture(name: str) -> tuple[Run, ...]:
    return tuple(read_runs(FIXTURES / name))


def judged(rule: Rule, run: Run) -> list[Finding] | Skip:
    return rule.outcome(run, limits_of(rule, {}))


def module_of(rule: Rule) -> str:
    return rule.judge.__module__.rpartition(".")[2]


def constant(value: float | None, rows: int = 30) -> Run:
    """A log that holds every column of the vocabulary, always with the same value."""
    columns: dict[str, Any] = dict.fromkeys(METRICS, [value] * rows)
    return run_of(**columns)


@cache
def findings_of_sick_runs() -> tuple[Finding, ...]:
    """Findings of the fixtures, and of two illnesses that none of them has."""
    stuck = run_of(loss_total=[math.log(2)] * 12, dpo_margin=[0.0] * 12)
    broken = run_of(loss_total=[1.0] * 10 + [NAN] * 10)
    runs = [run for name in SICK for run in fixture(name)]
    found: list[Finding] = []
    for run in (*runs, stuck, broken):
        for rule in rules():
            outcome = judged(rule, run)
            found += [] if isinstance(outcome, Skip) else outcome
    return tuple(found)


# What a rule must say about itself


@pytest.mark.parametrize("rule", RULES)
def test_a_code_is_letters_and_three_digits(rule: Rule) -> None:
    assert re.fullmatch(r"[A-Z]{2,3}\d{3}", rule.code)


def test_no_two_rules_share_a_code_or_a_name() -> None:
    assert len({rule.code for rule in rules()}) == len(rules())
    assert len({rule.name for rule in rules()}) == len(rules())


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_named_after_its_module_and_has_a_test_file(rule: Rule) -> None:
    assert rule.name == module_of(rule)
    path = Path(__file__).parent / "rules" / f"test_{module_of(rule)}.py"
    assert path.is_file()
    assert f'"{rule.code}"' in path.read_text(encoding="utf-8")


def test_every_test_file_of_a_rule_has_its_rule() -> None:
    known = {f"test_{module_of(rule)}.py" for rule in rules()}
    assert {path.name for path in (Path(__file__).parent / "rules").glob("test_*.py")} == known


@pytest.mark.parametrize("rule", RULES)
def test_the_explanation_begins_with_one_sentence(rule: Rule) -> None:
    first, blank, *_ = rule.doc.splitlines()
    assert re.fullmatch(r"[A-Z].*[^.]\.", first), first
    assert not re.search(r"[.!?] ", first), first
    assert blank == ""


@pytest.mark.parametrize("rule", RULES)
def test_the_explanation_ends_with_a_remedy(rule: Rule) -> None:
    paragraphs = rule.doc.split("\n\n")
    assert [text.startswith("Remedy: ") for text in paragraphs].count(True) == 1
    assert paragraphs[-1].startswith("Remedy: ")
    assert rule.remedy.endswith(".")


@pytest.mark.parametrize("rule", RULES)
def test_every_limit_is_a_number_with_a_meaning(rule: Rule) -> None:
    names = [item.name for item in fields(rule.limits)]
    if not names:
        return
    source = inspect.getsource(rule.limits)
    defaults = rule.limits()
    for name in names:
        kind = type(getattr(defaults, name))
        assert kind in (int, float)
        pattern = rf"^    {name}: {kind.__name__} = \S+  # \S.*$"
        assert re.search(pattern, source, re.MULTILINE), f"{rule.code}.{name} has no comment"


@pytest.mark.parametrize("rule", RULES)
def test_no_argument_of_a_sentence_is_positional(rule: Rule) -> None:
    for template in (rule.text, rule.brief):
        for _, name, _, _ in string.Formatter().parse(template):
            assert name is None or name.isidentifier()


# What every finding must hold


def test_every_rule_finds_something_on_a_sick_run_and_every_sentence_can_be_filled() -> None:
    found = findings_of_sick_runs()
    for finding in found:
        for said in (finding.message, finding.summary):
            assert said
            assert not re.search(r"[{}]", said), said
    assert {finding.code for finding in found} == {rule.code for rule in rules()}


def test_every_finding_can_be_looked_up() -> None:
    for finding in findings_of_sick_runs():
        for evidence in finding.evidence:
            assert evidence.where.file, finding.code
            if evidence.kind != "checkpoint":
                assert evidence.where.key or evidence.where.line, finding.code
                assert evidence.unit, finding.code


def test_every_onset_lies_within_its_interval() -> None:
    dated = [item for item in findings_of_sick_runs() if item.onset is not None]
    assert dated
    for finding in dated:
        assert finding.onset is not None
        assert 0 <= finding.onset.low <= finding.onset.step <= finding.onset.high, finding.code


# What no rule may do


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.parametrize("rule", RULES)
def test_a_healthy_run_has_information_at_most(rule: Rule, name: str) -> None:
    runs = fixture(name)
    assert runs
    for run in runs:
        outcome = judged(rule, run)
        if not isinstance(outcome, Skip):
            assert [item for item in outcome if item.severity != "info"] == []


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "run",
    [
        pytest.param(run_of(), id="an empty run"),
        pytest.param(constant(1.0, rows=1), id="one row"),
        pytest.param(constant(NAN, rows=1), id="one row of NaN"),
        pytest.param(constant(0.0), id="zeros throughout"),
    ],
)
def test_no_rule_raises_on_a_strange_log(rule: Rule, run: Run) -> None:
    outcome = judged(rule, run)
    if isinstance(outcome, Skip):
        assert outcome.code == rule.code
        assert outcome.missing
    else:
        for finding in outcome:
            assert finding.code == rule.code
            assert finding.message
            assert finding.summary


@pytest.mark.parametrize("rule", RULES)
def test_an_empty_run_is_never_judged(rule: Rule) -> None:
    assert isinstance(judged(rule, run_of()), Skip)
