import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlhfdoctor.doctor import diagnose
from rlhfdoctor.errors import BadProfile, DoctorError
from rlhfdoctor.model import SEVERITIES, Diagnosis, Evidence, Finding, Location, Severity
from rlhfdoctor.policy import (
    NOTHING,
    Baseline,
    Ignore,
    Known,
    Policy,
    accept,
    exit_code,
    policy_of,
    read_baseline,
    worst,
)
from tests.builders import run_of

TODAY = date(2027, 1, 31)
HEALTHY = diagnose(run_of(entropy=[2.0, 2.1] * 10, grad_norm=[1.0, 1.1] * 10))


def found(code: str, severity: Severity = "critical", subject: str = "kl") -> Finding:
    evidence = Evidence("metric", subject, 5.0, Location("log.jsonl", key=subject))
    return Finding(severity, (evidence,), code=code, text="seen")


def diagnosis(*findings: Finding, unanswered: Sequence[str] = (), run: str = "run") -> Diagnosis:
    return replace(
        HEALTHY,
        run=replace(HEALTHY.run, name=run),
        findings=findings,
        clear=("NUM001",),
        unanswered=(*unanswered,),
        notes=(),
    )


# the exit code


@pytest.mark.parametrize("fail_on", SEVERITIES)
@pytest.mark.parametrize("severity", SEVERITIES)
def test_a_finding_fails_from_the_severity_up(severity: Severity, fail_on: Severity) -> None:
    fails = SEVERITIES.index(severity) <= SEVERITIES.index(fail_on)
    assert exit_code(diagnosis(found("KL002", severity)), fail_on) == int(fails)


@pytest.mark.parametrize(
    ("unanswered", "allow", "require", "code"),
    [
        pytest.param((), False, (), 0, id="all was looked at"),
        pytest.param(("KL",), False, (), 3, id="something was not looked at"),
        pytest.param(("KL",), True, (), 0, id="which is allowed"),
        pytest.param(("KL",), True, ("KL002",), 3, id="but not of a rule that is required by name"),
        pytest.param(("KL",), True, ("NUM001",), 0, id="which did look"),
        pytest.param((), False, ("KL002",), 3, id="a required rule that did not look"),
    ],
)
def test_who_did_not_look(
    unanswered: tuple[str, ...], allow: bool, require: tuple[str, ...], code: int
) -> None:
    judged = diagnosis(unanswered=unanswered)
    assert exit_code(judged, "critical", allow_inconclusive=allow, require=require) == code


def test_a_finding_outranks_who_did_not_look() -> None:
    assert exit_code(diagnosis(found("KL002"), unanswered=("KL",)), "critical") == 1
    accepted = accept(
        diagnosis(found("KL002"), unanswered=("KL",)),
        [Ignore("KL002", "known", TODAY)],
        NOTHING,
        TODAY,
    )
    assert exit_code(accepted, "critical") == 3, "an accepted finding does not make one see"


# ignores


@pytest.mark.parametrize(
    ("ignore", "covered"),
    [
        pytest.param(Ignore("KL002", "why", TODAY), True, id="on its last day"),
        pytest.param(Ignore("KL002", "why", date(2027, 1, 30)), False, id="a day too late"),
        pytest.param(Ignore("KL003", "why", TODAY), False, id="another rule"),
        pytest.param(Ignore("KL002", "why", TODAY, run="grpo_*"), True, id="a run of the pattern"),
        pytest.param(Ignore("KL002", "why", TODAY, run="ppo_*"), False, id="another run"),
        pytest.param(Ignore("KL002", "why", TODAY, run="GRPO_*"), False, id="another case"),
        pytest.param(
            Ignore("KL002", "why", TODAY, fingerprint=found("KL002").fingerprint),
            True,
            id="the very finding",
        ),
        pytest.param(
            Ignore("KL002", "why", TODAY, fingerprint=found("KL002", subject="x").fingerprint),
            False,
            id="the rule's finding on another column",
        ),
    ],
)
def test_an_ignore_covers_what_it_names_until_its_day(ignore: Ignore, covered: bool) -> None:
    judged = accept(diagnosis(found("KL002"), run="grpo_7"), [ignore], NOTHING, TODAY)
    (finding,) = judged.findings
    assert exit_code(judged, "critical") == int(not covered)
    if covered:
        assert finding.accepted is not None
        told = (finding.accepted.by, finding.accepted.reason, finding.accepted.until)
        assert told == ("ignore", "why", "2027-01-31")
    else:
        assert finding.accepted is None
    assert judged.verdict == HEALTHY.verdict, "a verdict is what was found, not what is borne"
    assert finding.severity == "critical"


def test_an_ignore_that_ended_is_told_where_it_would_have_counted() -> None:
    ended = Ignore("KL002", "a new reward model", date(2027, 1, 30))
    (note,) = accept(diagnosis(found("KL002")), [ended], NOTHING, TODAY).notes
    assert note.where == "ignore of KL002"
    assert "2027-01-30" in note.text
    assert "a new reward model" in note.text
    assert accept(diagnosis(found("KL003")), [ended], NOTHING, TODAY).notes == ()


def test_of_two_ignores_the_one_that_holds_counts() -> None:
    ended, holds = Ignore("KL002", "old", date(2026, 1, 1)), Ignore("KL002", "new", TODAY)
    for order in ([ended, holds], [holds, ended]):
        (finding,) = accept(diagnosis(found("KL002")), order, NOTHING, TODAY).findings
        assert finding.accepted is not None
        assert finding.accepted.reason == "new"


# the configuration


def test_a_configuration_is_read() -> None:
    table = {
        "fail-on": "warning",
        "allow-inconclusive": True,
        "baseline": "known/baseline.json",
        "ignore": [{"code": "KL002", "reason": " why ", "until": TODAY, "run": "a*"}],
    }
    assert policy_of(table, Path("project"), str) == Policy(
        "warning",
        True,
        str(Path("project/known/baseline.json")),
        (Ignore("KL002", "why", TODAY, "a*"),),
    )
    assert policy_of({}, Path(), str) == Policy()


def test_the_code_of_an_ignore_is_the_rules_own_and_is_looked_up_first() -> None:
    entry = {"code": "kl002", "reason": "why", "until": TODAY}
    (ignore,) = policy_of({"ignore": [entry]}, Path(), str.upper).ignores
    assert ignore.code == "KL002"

    def unknown(code: str) -> str:
        raise BadProfile(f"no rule has the code {code}", "")

    with pytest.raises(BadProfile, match="no rule has the code KL02"):
        policy_of({"ignore": [{"code": "KL02"}]}, Path(), unknown)


@pytest.mark.parametrize(
    ("table", "told"),
    [
        pytest.param({"fail-on": "error"}, "no severity", id="an unknown severity"),
        pytest.param({"fail-on": "warn"}, r"did you mean warning\?", id="half a severity"),
        pytest.param({"fail-on": 1}, "no severity", id="a number for a severity"),
        pytest.param({"allow-inconclusive": "yes"}, "true or false", id="a word for a flag"),
        pytest.param({"baseline": 3}, "path", id="a number for a path"),
        pytest.param({"baseline": "a\0b"}, "path", id="a path that is none"),
        pytest.param({"ignore": {"code": "KL002"}}, "tables", id="one table for several"),
        pytest.param({"ignore": ["KL002"]}, "ignore 1 is no table", id="a word for a table"),
        pytest.param(
            {"ignore": [{"codes": "KL002"}]},
            r"ignore 1 has an unknown entry codes; did you mean code\?",
            id="an unknown key",
        ),
        pytest.param(
            {"ignore": [{"code": "KL002", "fail-on": "info"}]},
            "ignore 1 has an unknown entry fail-on$",
            id="an entry of the whole file below an ignore",
        ),
        pytest.param(
            {"ignore": [{"code": ["KL002", "KL003"]}]},
            r"ignore 1: code takes one rule; write one \[\[ignore\]\] for each",
            id="several rules",
        ),
        pytest.param({"ignore": [{"reason": "x", "until": TODAY}]}, "names no rule", id="no rule"),
        pytest.param({"ignore": [{"code": "KL002", "until": TODAY}]}, "a reason", id="no reason"),
        pytest.param(
            {"ignore": [{"code": "KL002", "until": TODAY, "reason": "  "}]},
            "a reason",
            id="an empty reason",
        ),
        pytest.param({"ignore": [{"code": "KL002", "reason": "x"}]}, "the day", id="no end"),
        pytest.param(
            {"ignore": [{"code": "KL002", "reason": "x", "until": "2027-01-31"}]},
            "until of KL002 must be a TOML date without quotes: until = 2027-01-01",
            id="a text for a day",
        ),
        pytest.param(
            {"ignore": [{"code": "KL002", "reason": "x", "until": datetime(2027, 1, 31)}]},
            "until of KL002 must be a TOML date, a day: until = 2027-01-01",
            id="an hour for a day",
        ),
        pytest.param(
            {"ignore": [{"code": "KL002", "reason": "x", "until": TODAY, "run": 1}]},
            "texts",
            id="a number for a run",
        ),
    ],
)
def test_a_wrong_configuration_is_an_error(table: dict[str, Any], told: str) -> None:
    with pytest.raises(BadProfile, match=told):
        policy_of(table, Path(), str)


# the baseline


def written(tmp_path: Path, text: str) -> Baseline:
    path = tmp_path / "baseline.json"
    path.write_text(text, encoding="utf-8")
    return read_baseline(path)


def kept(tmp_path: Path, *diagnoses: Diagnosis) -> Baseline:
    """Write a baseline of these runs, and read it."""
    return written(tmp_path, Baseline(str(tmp_path)).renewed(diagnoses).text())


def test_what_a_baseline_records_passes_and_nothing_else(tmp_path: Path) -> None:
    old = diagnosis(found("KL002", "warning"), found("ENT001", "critical", "entropy"))
    known = kept(tmp_path, old)
    assert exit_code(accept(old, (), known, TODAY), "info") == 0
    for other in (
        diagnosis(found("KL002", "critical")),
        diagnosis(found("KL002", "warning", "kl_2")),
        diagnosis(found("LEN002", "warning")),
        diagnosis(found("KL002", "warning"), run="another"),
    ):
        assert exit_code(accept(other, (), known, TODAY), "info") == 1
    milder = diagnosis(found("KL002", "info"))
    assert exit_code(accept(milder, (), known, TODAY), "info") == 0


def test_a_new_baseline_keeps_other_runs_and_forgets_what_is_gone(tmp_path: Path) -> None:
    one = diagnosis(found("KL002"), run="one")
    two = diagnosis(found("ENT001"), run="two")
    known = kept(tmp_path, one, two)
    again = known.renewed([diagnosis(found("LEN002"), run="two")])
    told = [(item.run, item.code) for item in again.known]
    assert told == [("one", "KL002"), ("two", "LEN002")]


def test_a_baseline_keeps_what_it_accepted_and_leaves_ignored_findings_out(tmp_path: Path) -> None:
    judged = diagnosis(found("KL002"), found("ENT001"))
    ignores = [Ignore("ENT001", "why", TODAY)]
    known = kept(tmp_path, accept(judged, ignores, NOTHING, TODAY))
    assert [item.code for item in known.known] == ["KL002"]
    assert known.renewed([accept(judged, ignores, known, TODAY)]) == known


def test_a_run_of_the_same_name_elsewhere_is_a_stranger(tmp_path: Path) -> None:
    def final(folder: str) -> Diagnosis:
        judged = diagnosis(found("KL002"), run="final")
        return replace(judged, run=replace(judged.run, path=str(tmp_path / folder / "final")))

    known = kept(tmp_path, final("one"))
    assert known.known[0].path == "one/final"
    assert exit_code(accept(final("one"), (), known, TODAY), "critical") == 0
    assert exit_code(accept(final("two"), (), known, TODAY), "critical") == 1


@pytest.mark.parametrize(
    ("codes", "code"),
    [([], 0), ([0, 0], 0), ([0, 3], 3), ([3, 1], 1), ([1, 2, 3], 2), ([2, 4, 1], 4)],
)
def test_of_several_exit_codes_one_outranks_the_others(codes: list[int], code: int) -> None:
    assert worst(codes) == code


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param("{", "no JSON", id="cut"),
        pytest.param("[" * 100_000, "no JSON", id="too deep"),
        pytest.param("[]", "no baseline", id="a list"),
        pytest.param('{"baseline": 2, "accepted": []}', "this version", id="a later version"),
        pytest.param('{"baseline": 1}', "accepts nothing", id="without entries"),
        pytest.param('{"baseline": 1, "accepted": [3]}', "has no run", id="an entry that is none"),
        pytest.param(
            '{"baseline": 1, "accepted": [{"run": "a", "path": "a", "code": "KL002", '
            '"fingerprint": "f", "severity": "bad"}]}',
            "no severity",
            id="an unknown severity",
        ),
    ],
)
def test_a_broken_baseline_is_an_error(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(DoctorError, match=told):
        written(tmp_path, text)


def test_a_missing_baseline_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DoctorError, match="cannot read the baseline"):
        read_baseline(tmp_path / "nowhere.json")


@given(
    st.lists(st.tuples(st.sampled_from(["KL002", "ENT001", "LEN002"]), st.sampled_from(SEVERITIES)))
)
def test_a_run_passes_its_own_baseline(told: list[tuple[str, Severity]]) -> None:
    judged = diagnosis(*(found(code, severity) for code, severity in told))
    entries = json.loads(Baseline().renewed([judged]).text())["accepted"]
    known = Baseline(known=tuple(Known(**entry) for entry in entries))
    assert exit_code(accept(judged, (), known, TODAY), "info") == 0
