from typing import Any

import pytest

from rlhfdoctor.model import Run
from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import files, sampled


def thirds(*ends: tuple[float, float], tokens: int = 30, count: int = 8, **rest: Any) -> Run:
    """A sample file whose steps have these nats a token in the first third and in the last."""
    rows = files(steps=range(0, 10 * len(ends), 10), count=count)
    for row in rows:
        early, late = ends[row["step"] // 10]
        third = tokens // 3
        middle = tokens - 2 * third
        row["logprobs"] = [-early] * third + [-1.0] * middle + [-late] * third
        row["token_ids"] = list(range(tokens))
    return run_of(samples=rows, **rest)


SOUND = (2.0, 2.0)
SICK = (thirds(SOUND, (2.0, 0.1)),)


@pytest.mark.parametrize(
    ("early", "late", "found"),
    [
        pytest.param(2.0, 0.51, False, id="more than a quarter of what they were"),
        pytest.param(2.0, 0.49, True, id="less than a quarter of what they were"),
        pytest.param(1.5, 0.39, False, id="more than a quarter of the beginning"),
        pytest.param(1.5, 0.36, True, id="less than a quarter of the beginning"),
        pytest.param(0.99, 0.1, False, id="next to nothing, as the beginning collapsed too"),
        pytest.param(1.01, 0.1, True, id="next to nothing, while the beginning has half"),
        pytest.param(8.0, 0.6, False, id="little beside a beginning that rose"),
    ],
)
def test_the_ends_fall_to(early: float, late: float, found: bool) -> None:
    assert clear("PPL005", thirds(SOUND, (early, late))) is not found


def test_it_is_information_between_two_sampled_steps() -> None:
    run = thirds(SOUND, SOUND, (1.9, 0.1), (1.8, 0.05), log_offset=1)
    finding = only("PPL005", run)
    assert finding.severity == "info"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (12, 21, 21)
    evidence = finding.evidence[0]
    assert sampled(evidence, "samples.jsonl", "nats/token")
    assert evidence.observed == pytest.approx(0.05)
    assert evidence.limit_low == pytest.approx(0.45)
    assert (evidence.first_step, evidence.last_step) == (20, 30)
    assert "falls to 0.05 nats/token beside 1.8 in their first third" in finding.message
    assert "(2 and 2 at step 0)" in finding.message


def test_it_must_stand_to_the_end() -> None:
    assert clear("PPL005", thirds(SOUND, (2.0, 0.1), SOUND))


def test_ends_that_were_always_known_by_heart_are_clear() -> None:
    assert clear("PPL005", thirds((2.0, 0.1), (2.0, 0.1)))


@pytest.mark.parametrize(
    ("tokens", "count", "looks"),
    [
        pytest.param(30, 8, True, id="eight responses of thirty tokens are enough"),
        pytest.param(29, 8, False, id="shorter responses are not"),
        pytest.param(30, 7, False, id="fewer responses are not"),
        pytest.param(2, 8, False, id="two tokens have no thirds"),
    ],
)
def test_what_it_needs(tokens: int, count: int, looks: bool) -> None:
    run = thirds(SOUND, (2.0, 0.1), tokens=tokens, count=count)
    assert skipped("PPL005", run) is not looks


def test_without_log_probabilities_it_cannot_look() -> None:
    rows = files()
    for row in rows:
        row["logprobs"] = None
    assert skipped("PPL005", run_of(samples=rows))


def test_the_limits_can_be_set() -> None:
    run = thirds(SOUND, (1.5, 0.3))
    assert not clear("PPL005", run)
    assert clear("PPL005", run, share=0.1)
    assert clear("PPL005", run, sound=0.8)
    assert not clear("PPL005", thirds(SOUND, (2.0, 0.1), tokens=12), shortest=12)
    assert not clear("PPL005", thirds(SOUND, (2.0, 0.1), count=4), fewest=4)
