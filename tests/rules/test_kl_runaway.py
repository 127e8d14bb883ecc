from typing import Any

import pytest

from rlhfdoctor.doctor import settle
from tests.builders import batch, clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

CALM = [0.05 * index for index in range(20)]


@pytest.mark.parametrize(
    ("rows_above", "alarms"),
    [
        pytest.param(9, False, id="nine rows above the ceiling are patience"),
        pytest.param(10, True, id="ten rows above the ceiling are an alarm"),
    ],
)
def test_patience_counts_consecutive_rows(rows_above: int, alarms: bool) -> None:
    run = run_of(kl_ref_response=CALM + [7.0] * rows_above)
    assert clear("KL002", run) is not alarms


@pytest.mark.parametrize(
    ("level", "alarms"),
    [
        pytest.param(5.0, False, id="the ceiling itself is not above it"),
        pytest.param(5.01, True, id="just above the ceiling"),
        pytest.param(NAN, False, id="NaN is never above"),
        pytest.param(-20.0, False, id="a negative estimate is not above"),
    ],
)
def test_the_ceiling_is_five_nats_a_response(level: float, alarms: bool) -> None:
    run = run_of(kl_ref_response=[*CALM, *[level] * 12])
    assert clear("KL002", run) is not alarms


@pytest.mark.parametrize(
    ("level", "severity"),
    [
        pytest.param(6.0, "info", id="six nats are what controllers aim at"),
        pytest.param(10.0, "info", id="ten nats are what the guide still calls fine"),
        pytest.param(10.1, "critical", id="beyond ten nats"),
    ],
)
def test_ten_nats_part_information_from_critical(level: float, severity: str) -> None:
    assert only("KL002", run_of(kl_ref_response=CALM + [level] * 12)).severity == severity


def test_a_runaway_is_dated_where_it_speeds_up() -> None:
    run = run_of(kl_ref_response=CALM + [1.0 + 1.5 * index for index in range(25)])
    finding = only("KL002", run)
    assert finding.severity == "critical"
    assert finding.onset is not None
    assert 19 <= finding.onset.step <= 22
    assert finding.onset.low <= finding.onset.step <= finding.onset.high
    assert logged(finding.evidence[0], "kl_ref_response", "nats/response")
    assert finding.evidence[0].limit_high == 5.0
    assert "above 5 nats/response" in finding.message
    assert "KL 0 ->" in finding.summary


def test_a_stretch_that_recovers_is_information_however_far_it_went() -> None:
    finding = only("KL002", run_of(kl_ref_response=CALM + [50.0] * 12 + [1.0] * 15))
    assert finding.severity == "info"
    assert finding.recovered_at == 33


@pytest.mark.parametrize(
    "value", [pytest.param(0.0, id="zeros throughout"), pytest.param(NAN, id="NaN throughout")]
)
def test_what_was_never_computed_is_not_judged(value: float) -> None:
    assert skipped("KL002", run_of(kl_ref_response=[value] * 30))


@pytest.mark.parametrize(
    ("values", "looks"),
    [
        pytest.param([50.0] * 9, False, id="nine rows are too few"),
        pytest.param([50.0] * 10, True, id="ten rows are enough"),
        pytest.param([50.0] * 9 + [NAN] * 20, False, id="rows of NaN do not count"),
        pytest.param([50.0] * 10 + [NAN] * 20, True, id="rows of NaN do not harm"),
    ],
)
def test_ten_rows_are_needed(values: list[float], looks: bool) -> None:
    assert skipped("KL002", run_of(kl_ref_response=values)) is not looks


@pytest.mark.parametrize(
    "column",
    [
        pytest.param("kl_ref_token", id="kl_ref_token is another quantity"),
        pytest.param("kl_unknown", id="kl_unknown is another quantity"),
        pytest.param("kl_old_token", id="kl_old_token is another quantity"),
    ],
)
def test_another_unit_is_never_judged(column: str) -> None:
    assert skipped("KL002", log_of({column: [50.0] * 30}))


def test_the_limits_can_be_set() -> None:
    run = run_of(kl_ref_response=CALM + [4.0] * 12)
    assert clear("KL002", run)
    assert judge("KL002", run, ceiling=3.0)
    assert clear("KL002", run, ceiling=3.0, patience=13)
    assert only("KL002", run, ceiling=3.0, far=3.5).severity == "critical"


@pytest.mark.parametrize(
    ("length", "severity"),
    [
        pytest.param(199.0, "critical", id="20 nats over fewer than 200 tokens"),
        pytest.param(201.0, "info", id="20 nats over more than 200 tokens are 0.1 a token"),
    ],
)
def test_a_long_response_sums_up_to_more(length: float, severity: str) -> None:
    run = run_of(kl_ref_response=[1.0] * 10 + [20.0] * 12, response_length_mean=[length] * 22)
    assert only("KL002", run).severity == severity


def test_a_length_of_unknown_unit_excuses_nothing() -> None:
    run = run_of(
        kl_ref_response=[1.0] * 10 + [20.0] * 12,
        response_length_mean=[4000.0] * 22,
        units={"response_length_mean": "unknown"},
    )
    assert only("KL002", run).severity == "critical"


def test_the_length_of_samples_will_do() -> None:
    samples = batch(0, [list(range(300))] * 2) + batch(5, [list(range(300))] * 2)
    run = run_of(kl_ref_response=[1.0] * 10 + [20.0] * 12, samples=samples)
    assert only("KL002", run).severity == "info"


def weak(level: float, **columns: Any) -> str:
    """What an alarm is worth where no other class of evidence agrees."""
    return only("KL002", run_of(kl_ref_response=[1.0] * 10 + [level] * 12, **columns)).weak


@pytest.mark.parametrize(
    ("level", "expected"),
    [
        pytest.param(29.9, "info", id="300 tokens at a tenth of a nat"),
        pytest.param(30.1, "warning", id="more than that"),
    ],
)
def test_without_a_length_three_hundred_tokens_are_assumed(level: float, expected: str) -> None:
    assert weak(level) == expected
    assert weak(level, response_length_mean=[NAN] * 22) == expected
    assert weak(level, response_length_mean=[100.0] * 22) == "warning"


def test_below_thirty_nats_another_class_must_agree() -> None:
    finding = only("KL002", run_of(kl_ref_response=[1.0] * 10 + [20.0] * 12))
    beside = only("ENT001", run_of(entropy=[2.0] * 10 + [0.2] * 12))
    assert finding.severity == "critical"
    assert settle([finding])[0].severity == "info"
    assert settle([finding, beside])[0].severity == "critical"


@pytest.mark.parametrize(
    ("total", "each", "severity", "worth"),
    [
        pytest.param([402.0] * 22, [2.0] * 22, "info", None, id="201 tokens"),
        pytest.param([398.0] * 22, [2.0] * 22, "critical", "warning", id="199 tokens"),
        pytest.param(
            [100.0] * 22, [2.0] * 12 + [0.1] * 10, "critical", "warning", id="certain in the end"
        ),
        pytest.param(
            [100.0] * 22, [0.051] * 22, "info", None, id="an entropy just above a twentieth"
        ),
        pytest.param(
            [100.0] * 22, [0.049] * 22, "critical", "info", id="an entropy that measures nothing"
        ),
        pytest.param([-9.0] * 22, [2.0] * 22, "critical", "info", id="a negative sum is no length"),
        pytest.param([NAN] * 22, [2.0] * 22, "critical", "info", id="a sum of NaN"),
        pytest.param([402.0] * 22, [NAN] * 22, "critical", "info", id="an entropy of NaN"),
    ],
)
def test_the_length_can_be_told_from_the_log_probability(
    total: list[float], each: list[float], severity: str, worth: str | None
) -> None:
    kl = [1.0] * 10 + [20.0] * 12
    finding = only("KL002", run_of(kl_ref_response=kl, neg_logp_response=total, entropy=each))
    assert finding.severity == severity
    assert worth in (None, finding.weak)


def test_an_entropy_of_unknown_unit_tells_no_length() -> None:
    columns = {"neg_logp_response": [402.0] * 22, "entropy_unknown": [2.0] * 22}
    assert weak(20.0, **columns) == "info"
