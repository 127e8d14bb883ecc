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
