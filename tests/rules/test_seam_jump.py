from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from rlhfdoctor.model import Finding, Location, Onset, Run, Seam
from tests.builders import clear, judge, only, run_of
from tests.rules.shapes import NAN, log_of, logged

WOBBLE = (0.0, 0.02, -0.02)


def around(level: float, count: int, noise: float = 1.0) -> list[float]:
    """Rows about a level, 2 % of it apart."""
    return [level * (1 + noise * WOBBLE[index % 3]) for index in range(count)]


def resumed(at: int = 21, **columns: Any) -> Run:
    """A run whose log goes back to step ``at`` from five steps later."""
    seam = Seam(at + 5, at, Location("log.jsonl", line=at + 6))
    return replace(log_of(columns), seams=(seam,))


FALL = around(0.5, 20) + around(0.001, 20)
SICK = (resumed(kl_ref_token=FALL), resumed(reward_raw_mean=around(2.0, 20) + around(0.5, 20)))


def found(**columns: Any) -> list[Finding]:
    outcome = judge("REF008", resumed(**columns))
    assert isinstance(outcome, list)
    return outcome


def test_a_kl_that_falls_to_nothing_was_measured_anew() -> None:
    finding = only("REF008", SICK[0])
    assert finding.severity == "warning"
    assert finding.onset == Onset(21, 21, 21)
    assert logged(finding.evidence[0], "kl_ref_token", "nats/token")
    assert finding.evidence[0].first_step == 21
    assert finding.message == (
        "at step 21, where the log was resumed: KL 0.5 -> 0.001 nats/token: the reference was "
        "captured anew"
    )


@pytest.mark.parametrize(
    ("metric", "before", "after", "severity"),
    [
        pytest.param("kl_ref_token", 0.5, 0.049, "warning", id="below a tenth"),
        pytest.param("kl_ref_token", 0.5, 0.051, "info", id="above a tenth"),
        pytest.param("kl_ref_token", 0.5, 0.0, "warning", id="to exactly nothing"),
        pytest.param("kl_ref_token", 0.011, 0.0001, "warning", id="from just enough a token"),
        pytest.param("kl_ref_token", 0.009, 0.0001, "info", id="from next to nothing a token"),
        pytest.param("kl_ref_response", 1.1, 0.01, "warning", id="from just enough a response"),
        pytest.param("kl_ref_response", 0.9, 0.01, "info", id="from next to nothing a response"),
        pytest.param("kl_ref_token", 0.05, 0.5, "info", id="a KL that rises"),
        pytest.param("reward_raw_mean", 2.0, 0.5, "info", id="a reward that falls"),
        pytest.param("response_length_mean", 200.0, 400.0, "info", id="a length that doubles"),
        pytest.param("entropy", 1.0, 0.5, "info", id="an entropy that halves"),
        pytest.param("grad_norm", 0.2, 5.0, "info", id="a gradient norm that spikes"),
    ],
)
def test_only_a_vanished_kl_is_more_than_information(
    metric: str, before: float, after: float, severity: str
) -> None:
    [finding] = found(**{metric: around(before, 20) + around(after, 20)})
    assert finding.severity == severity


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(around(2.0, 40), id="it goes on where it was"),
        pytest.param(around(2.0, 20) + around(2.5, 20), id="a quarter more"),
        pytest.param(around(2.0, 22) + around(0.5, 18), id="it jumps a row after the first two"),
        pytest.param(around(2.0, 5) + around(0.5, 35), id="it jumps elsewhere"),
        pytest.param([0.0, 2.0, 1.0, 3.0] * 5 + [1.0, 4.0, 3.0, 2.0] * 5, id="within the noise"),
        pytest.param([*around(2.0, 20), 0.5, NAN, NAN] + [NAN] * 17, id="one row after it"),
        pytest.param([2.0 + 0.1 * row for row in range(40)], id="a trend"),
    ],
)
def test_what_goes_on_is_clear(values: Sequence[float]) -> None:
    assert found(reward_raw_mean=values) == []


@pytest.mark.parametrize(
    ("noise", "jumps"),
    [
        pytest.param(2.5, True, id="more than six deviations"),
        pytest.param(4.0, False, id="fewer than six deviations"),
    ],
)
def test_a_jump_stands_out_of_the_noise(noise: float, jumps: bool) -> None:
    values = around(2.0, 20, noise) + around(3.2, 20, noise)
    assert bool(found(reward_raw_mean=values)) is jumps


@pytest.mark.parametrize(
    ("rows", "jumps"), [pytest.param(3, True, id="three"), pytest.param(2, False, id="two")]
)
@pytest.mark.parametrize(
    "first", [pytest.param(True, id="before"), pytest.param(False, id="after")]
)
def test_it_takes_rows_on_both_sides(rows: int, jumps: bool, first: bool) -> None:
    sizes = (rows, 20) if first else (20, rows)
    values = around(2.0, sizes[0]) + around(0.5, sizes[1])
    run = resumed(sizes[0] + 1, reward_raw_mean=values)
    assert clear("REF008", run) is not jumps


def test_a_log_in_one_piece_is_clear() -> None:
    assert clear("REF008", replace(SICK[0], seams=()))


def test_another_unit_is_not_judged() -> None:
    columns = {"reward_raw_mean": [1.0] * 40, "kl_unknown": FALL}
    assert found(**columns) == []


def test_what_jumps_together_is_told_together_and_the_kl_apart() -> None:
    findings = found(
        kl_ref_token=FALL,
        reward_raw_mean=around(2.0, 20) + around(0.5, 20),
        entropy=around(1.0, 20) + around(2.0, 20),
    )
    assert [item.severity for item in findings] == ["warning", "info"]
    assert findings[1].message == (
        "at step 21, where the log was resumed: reward 2 -> 0.5 reward, entropy 1 -> 2 nats/token"
    )
    assert [item.subject for item in findings[1].evidence] == ["reward_raw_mean", "entropy"]


def test_each_seam_is_judged() -> None:
    values = around(2.0, 20) + around(0.5, 20) + around(2.0, 20)
    places = (Seam(25, 21, Location("log.jsonl", line=26)), Seam(45, 41, Location("log.jsonl")))
    run = replace(run_of(reward_raw_mean=values), seams=(*places, places[1]))
    outcome = judge("REF008", run)
    assert isinstance(outcome, list)
    assert [item.onset_step for item in outcome] == [21, 41]


def test_of_many_seams_the_first_are_judged() -> None:
    values = [value for _ in range(30) for value in (*around(2.0, 10), *around(0.5, 10))]
    seams = tuple(Seam(at + 5, at, Location("log.jsonl")) for at in range(11, 600, 10))
    outcome = judge("REF008", replace(run_of(reward_raw_mean=values), seams=seams))
    assert isinstance(outcome, list)
    assert [item.onset_step for item in outcome] == list(range(11, 211, 10))


@pytest.mark.parametrize(
    ("limits", "severities"),
    [
        pytest.param({"fall": 0.001}, ["info"], id="fall"),
        pytest.param({"token": 0.6}, ["info"], id="token"),
        pytest.param({"fall": 0.001, "share": 2.0}, [], id="share"),
        pytest.param({"deviations": 1e3}, [], id="deviations"),
        pytest.param({"rows": 21}, [], id="rows"),
    ],
)
def test_the_limits_can_be_set(limits: dict[str, float], severities: list[str]) -> None:
    outcome = judge("REF008", SICK[0], **limits)
    assert isinstance(outcome, list)
    assert [item.severity for item in outcome] == severities
