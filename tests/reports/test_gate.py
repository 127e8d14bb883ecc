from dataclasses import replace
from typing import Any

import pytest

from rlhfdoctor.model import Acceptance, Diagnosis, Verdict
from rlhfdoctor.policy import failing
from rlhfdoctor.reports import Gated, Page
from rlhfdoctor.reports._gate import Row, accepted_lines, counted_words, gate_rows, gated
from rlhfdoctor.reports.json import finding
from rlhfdoctor.reports.markdown import markdown
from rlhfdoctor.reports.terminal import terminal
from tests.reports.gates import FAILED, blind, gate, sick

BORNE = Acceptance("ignore", "known", "2027-01-31")


def told(*severities: Any, borne: int = 0, verdict: Verdict = "collapsed") -> Diagnosis:
    """Return a run with a finding of each severity, of which the first ``borne`` are accepted."""
    made = sick("it broke", count=len(severities))
    findings = tuple(
        replace(item, severity=severity, accepted=BORNE if place < borne else None)
        for place, (item, severity) in enumerate(zip(made.findings, severities, strict=True))
    )
    return replace(made, findings=findings, unanswered=(), verdict=verdict, headline="the headline")


@pytest.mark.parametrize(
    ("diagnosis", "code", "word", "why"),
    [
        pytest.param(told("critical"), 1, "FAIL", "the headline", id="what fails"),
        pytest.param(told("info", verdict="healthy"), 0, "PASS", "the headline", id="healthy"),
        pytest.param(
            told("info", verdict="healthy"), 1, "FAIL", "KL001 it broke", id="fails on information"
        ),
        pytest.param(
            told("warning", verdict="degraded"), 0, "WARN", "the headline", id="degraded, passes"
        ),
        pytest.param(
            told("warning", borne=1, verdict="degraded"), 0, "PASS", "the headline", id="accepted"
        ),
        pytest.param(
            told("critical", "info", "warning", borne=1),
            1,
            "FAIL",
            "KL003 it broke",
            id="what is not accepted is named, the gravest",
        ),
        pytest.param(blind(), 3, "UNKNOWN", blind().headline, id="inconclusive"),
        pytest.param(blind(), 0, "WARN", blind().headline, id="inconclusive and allowed"),
        pytest.param(
            replace(told(verdict="healthy"), unanswered=("KL",)),
            3,
            "UNKNOWN",
            "the headline; could not look at: KL",
            id="not all looked at",
        ),
    ],
)
def test_a_run_has_its_word(diagnosis: Diagnosis, code: int, word: str, why: str) -> None:
    name = diagnosis.run.name
    (row,) = gate_rows([diagnosis], Gated("info", (code,)))
    assert row[:4] == (word, name, diagnosis.verdict, why)


def test_without_a_gate_critical_findings_fail_and_blindness_is_told() -> None:
    runs = [told("critical"), told("warning"), blind(), told("critical", borne=1)]
    assert gated(runs, Page()).codes == (1, 0, 3, 0)
    assert gated(runs, gate(runs, "warning")).fail_on == "warning"


def test_what_fails_is_ordered_by_severity() -> None:
    diagnosis = told("warning", "critical", "info", "critical", borne=1)
    assert [item.code for item in failing(diagnosis, "info")] == ["KL002", "KL004", "KL003"]
    assert [item.code for item in failing(diagnosis, "critical")] == ["KL002", "KL004"]


def test_findings_that_one_reason_bears_share_a_line() -> None:
    diagnosis = told("warning", "critical", "info", borne=2)
    assert accepted_lines(diagnosis) == ["KL001, KL002 accepted (ignore, until 2027-01-31): known"]
    bare = replace(diagnosis.findings[2], accepted=Acceptance("baseline", ""))
    lines = accepted_lines(replace(diagnosis, findings=(bare, *diagnosis.findings[:2])))
    assert lines[0] == "KL003 accepted (baseline)"
    assert len(lines) == 2


def test_words_are_counted_from_the_worst() -> None:
    words = ("PASS", "FAIL", "PASS", "WARN", "UNKNOWN")
    assert (
        counted_words([Row(word, "run", "", "") for word in words])
        == "1 FAIL, 1 UNKNOWN, 1 WARN, 2 PASS"
    )
    assert counted_words([]) == "no runs"


def test_every_report_says_who_bears_a_finding_why_and_until_when() -> None:
    diagnosis = told("critical", borne=1)
    page = gate([diagnosis], failed=[FAILED])
    said = "accepted (ignore, until 2027-01-31): known"
    gate_line, below, lost, _ = terminal.render([diagnosis], page).splitlines()
    assert lost.startswith("UNKNOWN")
    assert gate_line == "PASS     it broke  collapsed  the headline"
    assert below.strip() == f"KL001 {said}"
    assert said in terminal.render([diagnosis], Page())
    table, report = markdown.render([diagnosis], page).split("# COLLAPSED")
    assert table.startswith("# Gate: 1 UNKNOWN, 1 PASS\n")
    assert said in table
    assert "| UNKNOWN | fixtures/base | not judged |" in table
    assert said in report
    assert finding(diagnosis.findings[0])["accepted"] == {
        "by": "ignore",
        "reason": "known",
        "until": "2027-01-31",
    }
