import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, logged, silent

SICK = (run_of(kto_kl_baseline=[0.0] * 12),)


@pytest.mark.parametrize(
    ("values", "zero"),
    [
        pytest.param([0.0] * 10, True, id="ten rows of exactly zero"),
        pytest.param([0.0] * 9, False, id="nine rows may be a start"),
        pytest.param([0.0] * 11 + [1e-9], False, id="a tiny baseline is one"),
        pytest.param([0.0] * 10 + [NAN] * 2, True, id="NaN is no baseline"),
        pytest.param([0.0] * 9 + [NAN] * 3, False, id="NaN is no row"),
    ],
)
def test_zero_is_exactly_zero_in_ten_rows(values: list[float], zero: bool) -> None:
    assert silent("DPO011", run_of(kto_kl_baseline=values)) is not zero


def test_it_is_information_from_the_first_row() -> None:
    finding = only("DPO011", SICK[0])
    assert finding.severity == "info"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (1, 1, 1)
    assert logged(finding.evidence[0], "kto_kl_baseline", "nats/response")
    assert "exactly 0 in all 12 logged rows" in finding.message
    assert finding.summary == "KTO baseline 0 in every row"


def test_another_kl_is_none() -> None:
    assert skipped("DPO011", run_of(kl_ref_token=[0.0] * 12))


def test_the_limits_can_be_set() -> None:
    assert skipped("DPO011", run_of(kto_kl_baseline=[0.0] * 6))
    assert only("DPO011", run_of(kto_kl_baseline=[0.0] * 6), rows=6)
    assert clear("DPO011", run_of(kto_kl_baseline=[1.0] * 12))
