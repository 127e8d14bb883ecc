from dataclasses import replace

import pytest

from rlhfdoctor.doctor import diagnose
from rlhfdoctor.model import Location, Run
from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, logged

CALM = [0.05] * 20
SICK = (run_of(kl_unknown=[*CALM, *[4.0] * 10]),)


def called(key: str) -> Run:
    """A runaway of a KL that the log calls so."""
    run = SICK[0]
    column = replace(run.columns["kl_unknown"], sources=(Location("log.jsonl", key=key),))
    return replace(run, columns={"kl_unknown": column})


@pytest.mark.parametrize(
    ("level", "found"),
    [
        pytest.param(1.49, False, id="less than thirty times its first quarter"),
        pytest.param(1.51, True, id="more than thirty times"),
        pytest.param(NAN, False, id="NaN is never above"),
    ],
)
def test_growth_is_held_against_the_first_quarter(level: float, found: bool) -> None:
    assert clear("KL012", run_of(kl_unknown=CALM + [level] * 6)) is not found


@pytest.mark.parametrize(
    ("level", "found"),
    [
        pytest.param(0.99, False, id="below one it is near in one unit and not far in the other"),
        pytest.param(1.01, True, id="above one"),
    ],
)
def test_tiny_numbers_are_left_out(level: float, found: bool) -> None:
    assert clear("KL012", run_of(kl_unknown=[0.001] * 20 + [level] * 6)) is not found


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        pytest.param(4, False, id="four rows are patience"),
        pytest.param(5, True, id="five rows are an alarm"),
    ],
)
def test_patience_counts_rows(rows: int, found: bool) -> None:
    assert clear("KL012", run_of(kl_unknown=CALM + [4.0] * rows)) is not found


def test_a_distance_that_grows_in_a_straight_line_is_no_runaway() -> None:
    assert clear("KL012", run_of(kl_unknown=[0.1 * row for row in range(100)]))


def test_a_start_at_or_below_zero_is_held_against_nothing() -> None:
    assert clear("KL012", run_of(kl_unknown=[0.0] * 20 + [4.0] * 10))
    assert clear("KL012", run_of(kl_unknown=[-0.1] * 20 + [4.0] * 10))


@pytest.mark.parametrize("key", ["approx_kl", "kl_loss", "ppo_kl", "old_kl"])
def test_another_distance_is_never_judged(key: str) -> None:
    assert skipped("KL012", called(key))
    assert not skipped("KL012", called("kl"))


def test_a_known_unit_is_left_to_its_own_rules() -> None:
    assert skipped("KL012", run_of(kl_ref_token=[*CALM, *[4.0] * 10]))
    assert skipped("KL012", run_of(kl_unknown=[4.0] * 9))


def test_it_accuses_nobody_alone_and_corroborates_another_class() -> None:
    (run,) = SICK
    assert {item.severity for item in diagnose(run).findings if item.code == "KL012"} == {"info"}
    kl = [*CALM, *[4.0] * 10]
    both = run_of(kl_unknown=kl, entropy=[2.0] * 20 + [0.1] * 10, grad_norm=[1.0] * 30)
    diagnosis = diagnose(both)
    assert diagnosis.verdict == "collapsed"
    assert {"KL012", "ENT001"} <= {
        item.code for item in diagnosis.findings if item.severity == "critical"
    }


def test_the_evidence_is_the_column() -> None:
    finding = only("KL012", SICK[0])
    assert logged(finding.evidence[0], "kl_unknown", "unknown")
    assert finding.onset is not None
    assert finding.onset.step == 21
    assert "0.05 -> 4 (unit unknown)" in finding.summary


def test_the_limits_can_be_set() -> None:
    run = run_of(kl_unknown=CALM + [1.2] * 6)
    assert clear("KL012", run)
    assert not clear("KL012", run, growth=20)
    assert clear("KL012", run, growth=20, least=1.3)
    assert clear("KL012", run, growth=20, patience=7)
