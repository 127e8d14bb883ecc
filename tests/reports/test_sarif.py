import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft4Validator

from rlhfdoctor.model import Acceptance, Diagnosis
from rlhfdoctor.reports import Page
from rlhfdoctor.reports.sarif import sarif
from tests.reports.gates import EVIL, FAILED, ROOT, blind, gate, sick

SCHEMA = Draft4Validator(
    json.loads((ROOT / "tests/schemas/sarif-2.1.0-rtm.5.json").read_text(encoding="utf-8"))
)


def read(diagnoses: list[Diagnosis], page: Page) -> dict[str, Any]:
    """Return the one analysis of a document that is valid and whose references lead somewhere."""
    document = json.loads(sarif.render(diagnoses, page))
    SCHEMA.validate(document)
    (analysis,) = document["runs"]
    driver = analysis["tool"]["driver"]
    for result in analysis["results"]:
        assert driver["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    for item in analysis["invocations"][0]["toolExecutionNotifications"]:
        place = item["descriptor"]["index"]
        assert driver["notifications"][place]["id"] == item["descriptor"]["id"]
    return dict(analysis)


def uris(analysis: dict[str, Any]) -> list[str]:
    return [
        place["physicalLocation"]["artifactLocation"]["uri"]
        for result in analysis["results"]
        for place in result["locations"]
    ]


def test_a_gate_is_printed_as_it_was(
    gated: tuple[list[Diagnosis], Page], golden: Callable[[str, str], None]
) -> None:
    read(*gated)
    golden("gate.sarif.json", sarif.render(*gated))


def test_a_finding_lies_in_a_file_of_the_repository(gated: tuple[list[Diagnosis], Page]) -> None:
    found = uris(read(*gated))
    assert found
    assert all((ROOT / uri).is_file() for uri in found)


def test_a_file_outside_has_an_absolute_uri(tmp_path: Path) -> None:
    told = sick("x y.jsonl")
    told = replace(told, run=replace(told.run, path=str(tmp_path / "a:b#c?%")))
    (uri,) = uris(read([told], gate([told])))
    assert uri.startswith("file:///")
    assert unquote(urlsplit(uri).path) == str(tmp_path / "x y.jsonl")


def test_a_result_says_what_where_and_how_grave() -> None:
    told = sick("x")
    (result,) = read([told], gate([told]))["results"]
    assert result["level"] == "error"
    assert result["message"] == {"text": "x: x"}
    (place,) = result["locations"]
    assert place["physicalLocation"]["region"] == {"startLine": 3}
    assert place["logicalLocations"] == [{"fullyQualifiedName": "x"}]
    assert result["partialFingerprints"] == {"rlhfdoctor/v1": told.findings[0].fingerprint}
    assert result["properties"]["evidence"][0]["observed"] == "x"
    assert "suppressions" not in result


def test_an_accepted_finding_is_suppressed_with_the_reason() -> None:
    told = sick("x")
    borne = replace(told.findings[0], accepted=Acceptance("ignore", "known", "2027-01-31"))
    told = replace(told, findings=(borne,))
    (result,) = read([told], gate([told]))["results"]
    (suppression,) = result["suppressions"]
    assert (suppression["kind"], suppression["status"]) == ("external", "accepted")
    assert suppression["justification"] == "accepted (ignore, until 2027-01-31): known"


@pytest.mark.parametrize(
    ("diagnoses", "failed", "allow", "successful", "level"),
    [
        pytest.param([blind()], [], False, False, "error", id="inconclusive"),
        pytest.param([blind()], [], True, True, "warning", id="inconclusive and allowed"),
        pytest.param([], [FAILED], False, False, "error", id="a run that could not be judged"),
    ],
)
def test_what_nobody_looked_at_is_notified(
    diagnoses: list[Diagnosis], failed: list[Any], allow: bool, successful: bool, level: str
) -> None:
    page = gate(diagnoses, failed=failed, allow_inconclusive=allow)
    (invocation,) = read(diagnoses, page)["invocations"]
    assert invocation["executionSuccessful"] is successful
    assert invocation["exitCode"] == page.exit_code
    first, *skips = invocation["toolExecutionNotifications"]
    assert first["level"] == level
    assert {item["level"] for item in skips} <= {"note"}
    assert bool(skips) is bool(diagnoses)


def test_a_message_holds_no_link_and_no_placeholder() -> None:
    told = sick("[x](1) {0} \\")
    (result,) = read([told], gate([told]))["results"]
    assert result["message"]["text"].endswith(r"\[x\](1) {{0}} \\")


@pytest.mark.parametrize("text", EVIL)
def test_what_a_run_says_is_text(text: str) -> None:
    failed = {**FAILED, "path": text, "error": text, "hint": text}
    analysis = read([sick(text)], gate([sick(text)], failed=[failed]))
    assert all(uri.isascii() and not set(uri) & set(' <>"\\^`{|}') for uri in uris(analysis))


@given(st.text(st.integers(0, 0x10FFFF).map(chr)))
def test_whatever_a_run_says_is_valid(text: str) -> None:
    read([sick(text)], gate([sick(text)]))
