from collections.abc import Callable
from dataclasses import replace
from xml.etree import ElementTree

import pytest
import xmlschema
from hypothesis import given
from hypothesis import strategies as st

from rlhfdoctor.model import Acceptance, Diagnosis, Severity
from rlhfdoctor.reports import Page
from rlhfdoctor.reports.junit import junit
from tests.reports.gates import EVIL, FAILED, ROOT, blind, diagnosed, gate, sick

SCHEMA = xmlschema.XMLSchema10(str(ROOT / "tests/schemas/junit-10.xsd"))
ANY = st.text(st.integers(0, 0x10FFFF).map(chr))


def read(diagnoses: list[Diagnosis], page: Page) -> ElementTree.Element:
    """Return the document; it is valid, and its counts are those of its cases."""
    text = junit.render(diagnoses, page)
    SCHEMA.validate(text)
    root = ElementTree.fromstring(text.encode())
    for element in (root, *root.iter("testsuite")):
        assert int(element.attrib["tests"]) == len([*element.iter("testcase")])
        assert int(element.attrib["failures"]) == len([*element.iter("failure")])
        assert int(element.attrib["errors"]) == len([*element.iter("error")])
    for element in root.iter("testsuite"):
        assert int(element.attrib["skipped"]) == len([*element.iter("skipped")])
    return root


def red(element: ElementTree.Element) -> bool:
    return element.attrib["failures"] != "0" or element.attrib["errors"] != "0"


def case(root: ElementTree.Element, name: str) -> ElementTree.Element:
    (found,) = root.iterfind(f".//testcase[@name='{name}']")
    return found


def test_a_gate_is_printed_as_it_was(
    gated: tuple[list[Diagnosis], Page], golden: Callable[[str, str], None]
) -> None:
    read(*gated)
    golden("gate.junit.xml", junit.render(*gated))


def test_a_suite_is_red_where_the_run_s_code_is_not_0(
    gated: tuple[list[Diagnosis], Page],
) -> None:
    diagnoses, page = gated
    assert page.gate is not None
    suites = [*read(diagnoses, page)]
    assert [red(suite) for suite in suites] == [*(code != 0 for code in page.gate.codes), True]


@pytest.mark.parametrize("fail_on", ["critical", "warning", "info"])
@pytest.mark.parametrize("name", ["ppo_healthy", "grpo_late", "dpo_collapsed"])
def test_it_is_red_at_every_severity_where_the_gate_fails(
    name: str, fail_on: Severity, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    page = gate([diagnosed(name)], fail_on)
    assert red(read([diagnosed(name)], page)) is (page.exit_code != 0)


@pytest.mark.parametrize(
    ("severity", "fail_on", "accepted", "child"),
    [
        pytest.param("critical", "critical", None, "failure", id="what fails"),
        pytest.param("warning", "critical", None, "system-out", id="what is below"),
        pytest.param("warning", "warning", None, "failure", id="what is below, asked for"),
        pytest.param(
            "critical",
            "critical",
            Acceptance("ignore", "known", "2027-01-31"),
            "system-out",
            id="what is accepted",
        ),
    ],
)
def test_a_finding_fails_or_is_told(
    severity: Severity, fail_on: Severity, accepted: Acceptance | None, child: str
) -> None:
    told = sick("it broke", severity)
    told = replace(told, findings=(replace(told.findings[0], accepted=accepted),), unanswered=())
    (found,) = case(read([told], gate([told], fail_on)), "KL001")
    assert found.tag == child
    assert "it broke" in (found.text or "")
    if accepted:
        assert "accepted (ignore, until 2027-01-31): known" in (found.text or "")


def test_what_could_not_look_is_skipped_with_the_reason() -> None:
    (found,) = case(read([sick("x")], gate([sick("x")])), "LEN001")
    assert (found.tag, found.attrib["message"]) == ("skipped", "could not look: wants x; x")


@pytest.mark.parametrize(("allow", "tag"), [(False, "error"), (True, "skipped")])
def test_what_nobody_looked_at_is_an_error_unless_it_is_allowed(allow: bool, tag: str) -> None:
    page = gate([blind()], allow_inconclusive=allow)
    (found,) = case(read([blind()], page), "required")
    assert found.tag == tag
    assert found.attrib["message"].startswith("could not look at: 10 logged rows")


@pytest.mark.parametrize(("code", "kind"), [(2, "could not judge"), (4, "bug")])
def test_a_run_that_could_not_be_judged_is_an_error(code: int, kind: str) -> None:
    root = read([], gate([], failed=[{**FAILED, "exit_code": code}]))
    (found,) = root.iter("error")
    assert found.attrib == {"type": kind, "message": FAILED["error"]}
    assert found.text == FAILED["hint"]


def test_several_findings_of_a_rule_are_one_case() -> None:
    told = sick("x", count=2)
    told = replace(told, findings=tuple(replace(item, code="KL001") for item in told.findings))
    assert case(read([told], gate([told])), "KL001").attrib["classname"] == "x"


def test_runs_of_one_name_are_told_apart_by_their_paths() -> None:
    runs = [blind(), blind()]
    runs = [
        replace(item, run=replace(item.run, path=f"{place}/short"))
        for place, item in enumerate(runs)
    ]
    names = [suite.attrib["name"] for suite in read(runs, gate(runs))]
    assert names == ["0/short", "1/short"]


def test_without_a_gate_critical_findings_fail() -> None:
    assert [red(read([sick("x", kind)], Page())) for kind in ("critical", "info")] == [True, True]
    calm = replace(sick("x", "warning"), unanswered=())
    assert not red(read([calm], Page()))


def test_no_runs_are_a_document_too() -> None:
    assert [*read([], gate([]))] == []


@pytest.mark.parametrize("text", EVIL)
def test_what_a_run_says_is_text(text: str) -> None:
    failed = {**FAILED, "path": text, "error": text, "hint": text}
    root = read([sick(text)], gate([sick(text)], failed=[failed]))
    assert len([*root.iter("testcase")]) == 4


@given(ANY)
def test_whatever_a_run_says_is_valid_xml(text: str) -> None:
    read([sick(text)], gate([sick(text)]))
