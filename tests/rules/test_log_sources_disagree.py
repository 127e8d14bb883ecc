from dataclasses import replace

from rlhfdoctor.model import Conflict, Location
from tests.builders import clear, judge, only, run_of

ONE = run_of(loss_total=[1.0, 2.0, 3.0])
KL = run_of(kl_ref_token=[1.0, 2.0, 3.0])


def conflict(key: str, steps: int = 1, first: int = 2) -> Conflict:
    kept = Location("trainer_state.json", key=key)
    return Conflict(key, steps, first, (2.5, 2.0), ("old.jsonl", "trainer_state.json"), kept)


def test_sources_that_agree_are_clear() -> None:
    assert clear("LOG002", ONE)


def test_a_disagreement_is_information_with_both_numbers() -> None:
    finding = only("LOG002", replace(ONE, conflicts=(conflict("loss"),)))
    assert finding.severity == "info"
    assert finding.message == (
        "old.jsonl, trainer_state.json tell different numbers for loss, first at step 2: 2.5, 2; "
        "trainer_state.json is believed"
    )
    evidence = finding.evidence[0]
    assert (evidence.observed, evidence.limit_low) == (2.0, 2.5)
    assert evidence.where == Location("trainer_state.json", key="loss")


def test_the_earliest_is_told_and_the_longest_are_the_evidence() -> None:
    many = tuple(conflict(f"key{number}", number, 10 - number) for number in range(1, 9))
    finding = only("LOG002", replace(ONE, conflicts=many))
    assert "for key8 and 7 more keys, first at step 2" in finding.message
    assert [item.subject for item in finding.evidence] == ["key8", "key7", "key6", "key5", "key4"]
    outcome = judge("LOG002", replace(ONE, conflicts=many), keys=2)
    assert isinstance(outcome, list)
    assert len(outcome[0].evidence) == 2


def test_the_unit_is_that_of_the_column_where_it_is_known() -> None:
    known = only("LOG002", replace(KL, conflicts=(conflict("kl_ref_token"),)))
    assert known.evidence[0].unit == "nats/token"
    assert only("LOG002", replace(KL, conflicts=(conflict("own"),))).evidence[0].unit == "unknown"
