"""Public reports with a confirmed cause: the tool must come to the same one."""

from __future__ import annotations

from functools import cache

import pytest

from rlhfdoctor.doctor import diagnose
from rlhfdoctor.model import Diagnosis, Finding, Run
from tests.cases import CASES, Case, dpo, grpo, ppo

IDS = (
    "C001 C003 C007 C016 C018 C020 C033 C035 C038 C041 C047 C049 C052 C056 C058 C060 C062 C064 "
    "C066 C068 C072 C074 C085 C087 C089 C091 C094 C096 C108 C116 C122 C139 C143 C146 C161 C170 "
    "C172 C178 C180 C185"
)
KNOWN = {case.id: case for case in CASES}
TOLD = [pytest.param(case.id, id=f"{case.id} {case.url}") for case in CASES if case.run]
CALM = [
    pytest.param(run, id=f"{case.id} {place}")
    for case in CASES
    for place, run in enumerate(case.calm, start=1)
]


@cache
def judged(name: str) -> Diagnosis:
    run = KNOWN[name].run
    assert run is not None
    return diagnose(run)


def of(code: str, findings: tuple[Finding, ...], *, loud: bool) -> list[Finding]:
    """Return the findings of a code or a family; the loud ones are those above information."""
    return [
        item
        for item in findings
        if code in (item.code, item.family) and (item.severity != "info" or not loud)
    ]


def test_every_report_is_accounted_for() -> None:
    assert [case.id for case in CASES] == IDS.split()
    assert len(KNOWN) == 40
    for case in CASES:
        assert case.url.startswith("https://")
        assert (case.run is None) is bool(case.why), case.id


@pytest.mark.parametrize("name", TOLD)
def test_the_verdict_is_that_of_the_confirmed_cause(name: str) -> None:
    found = judged(name)
    assert found.verdict in KNOWN[name].verdicts, found.headline


@pytest.mark.parametrize("name", [case.id for case in CASES if case.cause])
def test_the_confirmed_cause_leads(name: str) -> None:
    assert [cause.name for cause in judged(name).causes][:1] == [KNOWN[name].cause]


@pytest.mark.parametrize("name", TOLD)
def test_what_shows_it_is_found(name: str) -> None:
    case: Case = KNOWN[name]
    findings = judged(name).findings
    for code in case.finds:
        assert of(code, findings, loud=True), (code, [item.message for item in findings])
    for code in case.told:
        assert of(code, findings, loud=False), (code, [item.message for item in findings])
    for words in case.words:
        assert any(words in item.message for item in findings), [item.message for item in findings]


@pytest.mark.parametrize("name", TOLD)
def test_what_it_is_not_is_not_found(name: str) -> None:
    for code in KNOWN[name].never:
        assert not [item.message for item in of(code, judged(name).findings, loud=True)]


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(grpo(), id="GRPO"),
        pytest.param(ppo(), id="PPO"),
        pytest.param(dpo(), id="DPO"),
        *CALM,
    ],
)
def test_the_same_run_without_the_fault_is_healthy(run: Run) -> None:
    found = diagnose(run)
    assert found.verdict == "healthy", found.headline
