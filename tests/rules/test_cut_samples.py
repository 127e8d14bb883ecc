from typing import Any

import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import prose, sampled, sharing, silent


def cut(*counts: int, of: int = 20, **fields: Any) -> list[dict[str, Any]]:
    """Responses of which so many carry the mark that they were cut."""
    rows = sharing(*counts, of=of, text=lambda place: f"cut {prose(place)}", **fields)
    for row in rows:
        row["truncated"] = row["response"].startswith("cut")
    return rows


def unended(*counts: int, of: int = 20) -> list[dict[str, Any]]:
    """Responses of which so many lack the end token, 2."""
    rows = cut(*counts, of=of)
    for place, row in enumerate(rows):
        row["token_ids"] = [1000 + 10 * place + index for index in range(5 + place % 4)]
        row["token_ids"][-1] = row["token_ids"][-1] if row.pop("truncated") else 2
    return rows


SICK = (run_of(samples=cut(20, steps=False)),)


@pytest.mark.parametrize(
    ("count", "severity"),
    [
        pytest.param(10, None, id="a tenth"),
        pytest.param(11, "info", id="more than a tenth"),
        pytest.param(50, "info", id="half"),
        pytest.param(51, "warning", id="more than half"),
    ],
)
def test_a_file_is_graded_by_its_share(count: int, severity: str | None) -> None:
    run = run_of(samples=cut(count, of=100, steps=False))
    if severity is None:
        assert clear("LEN010", run)
        return
    finding = only("LEN010", run)
    assert (finding.severity, finding.onset) == (severity, None)
    assert f"{count}.0% of the responses in samples.jsonl are cut" in finding.message
    assert "no earlier samples" in finding.message
    assert f"{count}% of responses cut" in finding.summary
    assert sampled(finding.evidence[0], "samples.jsonl", "share of responses")


@pytest.mark.parametrize(
    ("counts", "found"),
    [
        pytest.param((60, 60, 60), True, id="cut from the start"),
        pytest.param((25, 90, 90), True, id="a quarter at the start, and more since"),
        pytest.param((24, 90, 90), False, id="fewer at the start: a change, another rule's"),
        pytest.param((0, 0, 0), False, id="none"),
    ],
)
def test_what_was_so_at_the_start(counts: tuple[int, ...], found: bool) -> None:
    run = run_of(samples=cut(*counts, of=100))
    assert clear("LEN010", run) is not found
    if found:
        assert only("LEN010", run).severity == "warning"


def test_the_end_token_tells_where_no_field_does() -> None:
    finding = only("LEN010", run_of(samples=unended(12, 12)))
    assert finding.severity == "warning"
    assert finding.evidence[0].observed == 0.6
    assert clear("LEN010", run_of(samples=unended(0, 0)))


def test_a_reward_that_rises_all_the_same_makes_it_information() -> None:
    rising = run_of(samples=cut(20, 20), reward_raw_mean=[0.01 * row for row in range(40)])
    flat = run_of(samples=cut(20, 20), reward_raw_mean=[0.1, 0.2] * 20)
    assert only("LEN010", rising).severity == "info"
    assert only("LEN010", flat).severity == "warning"


def test_a_log_that_tells_the_share_is_judged_elsewhere() -> None:
    assert clear("LEN010", run_of(samples=cut(20, 20), truncation_rate=[0.9] * 20))


@pytest.mark.parametrize(
    ("count", "looked"),
    [pytest.param(19, False, id="nineteen"), pytest.param(20, True, id="twenty")],
)
def test_twenty_responses_are_needed(count: int, looked: bool) -> None:
    run = run_of(samples=cut(count, of=count, steps=False))
    assert skipped("LEN010", run) is not looked
    assert silent("LEN010", run) is not looked


def test_a_sign_of_the_end_is_needed() -> None:
    assert skipped("LEN010", run_of(samples=sharing(20, text=prose)))
    assert skipped("LEN010", run_of(response_length_mean=[50.0] * 20))


@pytest.mark.parametrize(
    ("count", "compared"),
    [pytest.param(7, False, id="seven responses"), pytest.param(8, True, id="eight responses")],
)
def test_steps_of_eight_responses_are_compared(count: int, compared: bool) -> None:
    finding = only("LEN010", run_of(samples=cut(count, count, count, of=count)))
    assert ("at step 0" in finding.message) is compared


def test_the_limits_can_be_set() -> None:
    run = run_of(samples=cut(30, of=100, steps=False))
    assert only("LEN010", run, most=0.2).severity == "warning"
    assert clear("LEN010", run, few=0.4)
    assert silent("LEN010", run, alone=101)
    assert "no earlier" in only("LEN010", run_of(samples=cut(20, 20)), fewest=21).message
    assert only("LEN010", run_of(samples=cut(10, 90, of=100)), start=0.05)
