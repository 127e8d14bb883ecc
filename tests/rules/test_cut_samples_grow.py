import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import prose, sampled, sharing, silent
from tests.rules.test_cut_samples import cut, unended

SICK = (run_of(samples=cut(0, 20)),)


@pytest.mark.parametrize(
    ("counts", "severity"),
    [
        pytest.param((0, 10, 51), "critical", id="more than half"),
        pytest.param((0, 10, 50), "info", id="half"),
        pytest.param((0, 11, 20), "info", id="a fifth"),
        pytest.param((24, 60, 90), "critical", id="some at the start"),
    ],
)
def test_a_rise_is_graded_by_the_last_step(counts: tuple[int, ...], severity: str) -> None:
    assert only("LEN011", run_of(samples=cut(*counts, of=100))).severity == severity


@pytest.mark.parametrize(
    ("counts", "of"),
    [
        pytest.param((0, 90, 0), 100, id="cuts that went away again"),
        pytest.param((25, 90, 90), 100, id="many at the start: the limit is too low"),
        pytest.param((60, 60, 60), 100, id="no change"),
        pytest.param((0, 100), 1000, id="a tenth"),
    ],
)
def test_what_is_no_change_is_clear(counts: tuple[int, ...], of: int) -> None:
    assert clear("LEN011", run_of(samples=cut(*counts, of=of)))


def test_the_end_token_tells_where_no_field_does() -> None:
    finding = only("LEN011", run_of(samples=unended(0, 0, 20, of=20), log_offset=1))
    assert finding.severity == "critical"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (12, 21, 21)
    assert sampled(finding.evidence[0], "samples.jsonl", "share of responses")
    assert "100% of the responses in samples.jsonl are cut at the length limit, 0% at step 0" in (
        finding.message
    )
    assert "100% of responses cut" in finding.summary


def test_a_sign_of_the_end_at_two_steps_is_needed() -> None:
    assert skipped("LEN011", run_of(samples=sharing(20, 20, text=prose)))
    assert skipped("LEN011", run_of(samples=cut(20)))


@pytest.mark.parametrize(
    ("count", "looked"),
    [pytest.param(7, False, id="seven responses"), pytest.param(8, True, id="eight responses")],
)
def test_eight_responses_a_step_are_needed(count: int, looked: bool) -> None:
    run = run_of(samples=cut(0, count, of=count))
    assert skipped("LEN011", run) is not looked
    assert silent("LEN011", run) is not looked


def test_the_limits_can_be_set() -> None:
    run = run_of(samples=cut(10, 40, of=100))
    assert only("LEN011", run, most=0.3).severity == "critical"
    assert clear("LEN011", run, few=0.5)
    assert clear("LEN011", run, start=0.05)
    assert silent("LEN011", run, fewest=101)
