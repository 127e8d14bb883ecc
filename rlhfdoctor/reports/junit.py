"""JUnit XML, as CI systems show tests: one suite a run, one case a rule.

A rule that could not look is skipped. What the case ``required`` says of a run is what its rules
cannot: that something which had to be looked at was not. So a suite is red exactly where the run's
exit code is not 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rlhfdoctor.model import Diagnosis, Finding, Severity
from rlhfdoctor.policy import failing
from rlhfdoctor.reports import Page, report
from rlhfdoctor.reports._gate import outward, unseen, wants
from rlhfdoctor.reports._lines import shown, stated, told, where

UNSEEN = "could not look"
"""Of what kind a skip is."""


@dataclass(frozen=True, slots=True)
class Case:
    """One test case: passed, or what became of it, of which kind, and what it says."""

    name: str
    outcome: Literal["passed", "failure", "error", "skipped"] = "passed"
    kind: str = ""
    message: str = ""
    lines: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Suite:
    """One run: its name, what else is known of it, its cases."""

    name: str
    properties: Mapping[str, str]
    cases: Sequence[Case]


@report("junit")
def junit(diagnoses: Sequence[Diagnosis], page: Page) -> str:
    """Print each run as a suite; without a gate, as one that fails on critical findings."""
    diagnoses, gate = outward(diagnoses, page)
    names = Counter(item.run.name for item in diagnoses)
    suites = []
    for diagnosis, code in zip(diagnoses, gate.codes, strict=True):
        run = diagnosis.run
        name = run.name if names[run.name] == 1 else run.path
        suites.append(_suite(name, diagnosis, code, gate.fail_on))
    for item in gate.failed:
        kind = "could not judge" if item["exit_code"] == 2 else "bug"
        case = Case("required", "error", kind, str(item["error"]), (str(item["hint"]),))
        suites.append(Suite(str(item["path"]), {"path": str(item["path"])}, [case]))
    return _xml(suites)


def _suite(name: str, diagnosis: Diagnosis, code: int, fail_on: Severity) -> Suite:
    run = diagnosis.run
    properties = {
        "path": run.path,
        "framework": run.framework,
        "algorithm": run.algorithm,
        "profile": "; ".join((diagnosis.profile, *stated(diagnosis))),
        "verdict": diagnosis.verdict,
        "headline": diagnosis.headline,
    }
    return Suite(name, properties, [*_rules(diagnosis, fail_on), _required(diagnosis, code)])


def _rules(diagnosis: Diagnosis, fail_on: Severity) -> list[Case]:
    cases = [Case(code) for code in diagnosis.clear]
    cases += [Case(skip.code, "skipped", UNSEEN, wants(skip)) for skip in diagnosis.skipped]
    found: dict[str, list[Finding]] = {}
    for item in diagnosis.findings:
        found.setdefault(item.code, []).append(item)
    grave = failing(diagnosis, fail_on)
    for code, items in found.items():
        lines = tuple(line for item in items for line in _lines(item))
        first = next((item for item in grave if item.code == code), None)
        if first is None:
            cases.append(Case(code, lines=lines))
        else:
            cases.append(Case(code, "failure", first.severity, first.message, lines))
    return sorted(cases, key=lambda case: case.name)


def _lines(finding: Finding) -> Iterator[str]:
    yield f"{finding.severity} {finding.name}: {told(finding)}"
    yield from (where(item) for item in finding.evidence)
    yield from finding.advice


def _required(diagnosis: Diagnosis, code: int) -> Case:
    """Return the case of what had to be looked at; it is no error where the gate allows that."""
    if code != 3 and not diagnosis.unanswered:
        return Case("required")
    outcome: Literal["error", "skipped"] = "error" if code == 3 else "skipped"
    return Case("required", outcome, UNSEEN, unseen(diagnosis))


def _counts(cases: Sequence[Case]) -> dict[str, str]:
    return {
        "tests": str(len(cases)),
        "failures": _count(cases, "failure"),
        "errors": _count(cases, "error"),
    }


def _count(cases: Sequence[Case], outcome: str) -> str:
    return str(sum(case.outcome == outcome for case in cases))


def _xml(suites: Sequence[Suite]) -> str:
    """Write suites as XML; every text is shown first, for XML 1.0 forbids control characters."""
    from xml.etree.ElementTree import Element, SubElement, indent, tostring

    every = [case for suite in suites for case in suite.cases]
    root = Element("testsuites", {"name": "rlhfdoctor", **_counts(every)})
    for suite in suites:
        name = shown(suite.name)
        counts = {**_counts(suite.cases), "skipped": _count(suite.cases, "skipped")}
        element = SubElement(root, "testsuite", {"name": name, **counts})
        properties = SubElement(element, "properties")
        for key, value in suite.properties.items():
            SubElement(properties, "property", name=key, value=shown(value))
        for case in suite.cases:
            test = SubElement(element, "testcase", name=shown(case.name), classname=name)
            text = "\n".join(map(shown, case.lines))
            if case.outcome != "passed":
                about = {"type": case.kind, "message": shown(case.message)}
                SubElement(test, case.outcome, about).text = text
            elif text:
                SubElement(test, "system-out").text = text
    indent(root)
    return f'<?xml version="1.0" encoding="utf-8"?>\n{tostring(root, "unicode")}\n'
