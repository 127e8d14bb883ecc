from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bench.validate import (
    Claim,
    Label,
    Told,
    alarm,
    constant,
    dated,
    document,
    error,
    framework,
    judged,
    label_of,
    mistake,
    named,
)


def label(*verdicts: str, **others: Any) -> Label:
    given: dict[str, Any] = {
        "id": "001",
        "framework": "TRL",
        "verdicts": verdicts,
        "families": (),
        "interval": None,
        "collapsed_at": None,
    }
    return Label(**{**given, **others})


def test_the_best_constant_answer_is_counted() -> None:
    labels = [label("healthy"), label("healthy", "degraded"), label("degraded", "collapsed")]
    assert constant(labels) == {"degraded": 2, "healthy": 2, "collapsed": 1, "inconclusive": 0}
    assert next(iter(constant([*labels, label("healthy")]))) == "healthy"


@pytest.mark.parametrize(
    ("accepted", "verdict", "wrong"),
    [
        pytest.param(("healthy",), "healthy", None, id="accepted"),
        pytest.param(("healthy",), "degraded", "false alarm", id="a sound run accused"),
        pytest.param(("healthy",), "inconclusive", "could not say", id="a sound run left open"),
        pytest.param(("degraded",), "healthy", "false healthy", id="an ill run passed"),
        pytest.param(("degraded",), "collapsed", "wrong degree", id="an ill run buried"),
        pytest.param(("inconclusive",), "healthy", "false healthy", id="health without evidence"),
    ],
)
def test_a_mistake_has_a_name(accepted: tuple[str, ...], verdict: str, wrong: str | None) -> None:
    assert mistake(label(*accepted), verdict) == wrong


@pytest.mark.parametrize(
    ("onset", "length", "gap", "inside"),
    [
        pytest.param(50, 0, 1, True, id="on the low end"),
        pytest.param(48, 100, 1, True, id="two rows before it"),
        pytest.param(47, 100, 1, False, id="three rows before it"),
        pytest.param(40, 500, 1, True, id="two hundredths of the run before it"),
        pytest.param(39, 500, 1, False, id="more than two hundredths before it"),
        pytest.param(80, 100, 10, True, id="two rows after it, ten steps apart"),
        pytest.param(81, 100, 10, False, id="more than two rows after it"),
        pytest.param(None, 100, 1, False, id="no onset"),
    ],
)
def test_the_interval_is_widened_by_rows_or_by_the_run(
    onset: int | None, length: int, gap: float, inside: bool
) -> None:
    told = Told("degraded", onset=onset, length=length, gap=gap)
    assert dated(label("degraded", interval=(50, 60)), told) is inside


def test_an_end_left_open_is_open_and_a_missing_interval_is_outside() -> None:
    late = Told("degraded", onset=10_000)
    assert dated(label(interval=(50, None)), late)
    assert not dated(label(interval=(None, 50)), late)
    assert error(label(interval=(None, 50)), late) == 9_950
    assert error(label(interval=(50, 60)), Told("degraded", onset=40)) == -10
    assert error(label(), late) is None


def test_only_the_first_findings_name_a_family() -> None:
    findings = [(f"KL00{place}", "KL", "info") for place in range(3)]
    told = Told("degraded", findings=(*findings, ("LEN001", "LEN", "warning")))
    assert named(label(families=("KL",)), told)
    assert not named(label(families=("LEN",)), told)


@pytest.mark.parametrize(
    ("values", "at"),
    [
        pytest.param([6.0] * 9, None, id="nine rows are no alarm"),
        pytest.param([6.0] * 10, 10, id="ten rows are"),
        pytest.param([5.0] * 20, None, id="five itself is not above"),
        pytest.param([6.0] * 9 + [5.0] + [6.0] * 10, 20, id="they follow each other"),
    ],
)
def test_the_claims_alarm_rings_at_its_tenth_row(values: list[float], at: int | None) -> None:
    assert alarm(range(1, len(values) + 1), values) == at


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        pytest.param("trl (a fork of mine)", "TRL", id="what is in brackets is left out"),
        pytest.param("custom (my-project)", "other", id="a home-made trainer is not named"),
        pytest.param("my-project, wandb offline", "other", id="nor is a project"),
        pytest.param("", "other", id="nothing told"),
    ],
)
def test_only_known_frameworks_are_named(told: str, shown: str) -> None:
    assert framework(told) == shown


def test_a_reading_becomes_a_label() -> None:
    reading: Mapping[str, Any] = {
        "framework": "verl",
        "expect": {"verdicts": ["collapsed"], "families": ["KL"]},
        "second_reading": {"verdict": "collapsed", "onset": "start", "onset_interval": [1, 4]},
    }
    assert label_of("007", reading) == Label("007", "verl", ("collapsed",), ("KL",), (1, 4), 1)


def test_a_refused_file_is_inconclusive(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("nothing")
    told = judged(tmp_path / "log.txt")
    assert (told.verdict, told.read) == ("inconclusive", False)


def test_the_claim_is_not_measured_on_few_alarms() -> None:
    ill = label("collapsed", collapsed_at=30, interval=(25, 40))
    told = Told("collapsed", onset=30, length=100, claim=Claim(100, 20))
    few = "\n".join(document([ill] * 9, [told] * 9, [], []))
    assert "**Not measurable** on 9 alarms" in few
    many = "\n".join(document([ill] * 10, [told] * 10, [], []))
    assert "| (a) our verdict | 10/10 (100%) | 83% | 80% | 37% |" in many
    assert "| onset inside, of all that may not be called healthy | 10/10 (100%) |" in many
