from dataclasses import replace

from rlhfdoctor.model import Location, Onset, Seam
from tests.builders import clear, only, run_of

ONE = run_of(loss_total=[1.0, 2.0, 3.0])


def test_a_log_in_one_piece_is_clear() -> None:
    assert clear("LOG003", ONE)


def test_a_seam_is_information_and_says_where() -> None:
    seams = (Seam(30, 21, Location("log.jsonl", line=31)), Seam(60, 51, Location("log.jsonl")))
    finding = only("LOG003", replace(ONE, seams=seams))
    assert finding.severity == "info"
    assert finding.message == (
        "the run was resumed 2 times: the log goes back from step 30 to 21, then to 51"
    )
    assert finding.onset == Onset(21, 21, 30)
    assert [item.where.line for item in finding.evidence] == [31, None]
    assert (finding.evidence[0].first_step, finding.evidence[0].last_step) == (21, 30)
