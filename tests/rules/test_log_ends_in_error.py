import pytest

from rlhfdoctor.model import Onset, Skip
from tests.builders import judge, only, run_of


def test_without_a_console_log_nobody_looked() -> None:
    outcome = judge("LOG004", run_of(loss_total=[1.0]))
    assert isinstance(outcome, Skip)
    assert outcome.missing == ("config.ended_with",)


def test_the_last_exception_is_information_at_the_end_of_the_log() -> None:
    run = run_of(loss_total=[1.0, 2.0], config={"ended_with": "RuntimeError: {disk} full"})
    finding = only("LOG004", run)
    assert finding.severity == "info"
    assert finding.message == "the program ended with: RuntimeError: {disk} full"
    assert finding.onset == Onset(2, 2, 2)
    assert finding.evidence[0].observed == "RuntimeError: {disk} full"


@pytest.mark.parametrize(
    ("error", "lengths", "hint"),
    [
        pytest.param(
            "Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLGATHER, "
            "Timeout(ms)=1800000)",
            [300.0] * 10,
            "; another process failed first: look for an exception before it, in the reward too",
            id="a watchdog reports who waited",
        ),
        pytest.param(
            "torch.OutOfMemoryError: CUDA out of memory.",
            [300.0] * 5 + [600.0] * 5,
            "; the responses had grown from 300 to 600 tokens",
            id="memory after the length doubled",
        ),
        pytest.param(
            "torch.OutOfMemoryError: CUDA out of memory.",
            [300.0] * 5 + [590.0] * 5,
            "",
            id="memory while the length grew by less",
        ),
        pytest.param(
            "torch.OutOfMemoryError: CUDA out of memory.",
            [300.0] * 5 + [1000.0] + [300.0] * 3 + [600.0] * 2,
            "",
            id="memory after three long rows of the last five",
        ),
        pytest.param(
            "requests.exceptions.ReadTimeout: HTTPConnectionPool(host='0.0.0.0', port=8000): "
            "Read timed out. (read timeout=300)",
            [300.0] * 10,
            "; another process failed first: look for an exception before it, in the reward too",
            id="a client that waited for its server",
        ),
        pytest.param(
            "TimeoutException: Operation timed out!",
            [300.0] * 10,
            "",
            id="a reward that took too long is what failed",
        ),
        pytest.param("OSError: no space left", [300.0] * 5 + [600.0] * 5, "", id="another error"),
    ],
)
def test_a_symptom_says_what_to_look_at_first(error: str, lengths: list[float], hint: str) -> None:
    run = run_of(response_length_mean=lengths, config={"ended_with": error})
    assert only("LOG004", run).message == f"the program ended with: {error}{hint}"


@pytest.mark.parametrize(
    ("limits", "told"),
    [
        pytest.param({}, True, id="as they are"),
        pytest.param({"longer": 2.1}, False, id="longer"),
        pytest.param({"rows": 10}, False, id="rows"),
    ],
)
def test_the_limits_can_be_set(limits: dict[str, float], told: bool) -> None:
    run = run_of(
        response_length_mean=[300.0] * 5 + [600.0] * 5,
        config={"ended_with": "CUDA out of memory"},
    )
    assert ("had grown" in only("LOG004", run, **limits).message) is told
