import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

MOVING = [0.01 * row + 0.001 for row in range(1, 21)]
SICK = (run_of(kl_ref_token=[*MOVING, *[0.3, 0.15] * 5]),)


def hit(times: int, level: float = 0.3) -> list[float]:
    """Rows that never repeat, with so many at one and the same maximum among them."""
    rows = list(MOVING)
    for place in range(times):
        rows.insert(3 * place + 2, level)
    return rows


@pytest.mark.parametrize(
    ("times", "found"),
    [
        pytest.param(4, False, id="four times may be chance"),
        pytest.param(5, True, id="five times is a clamp"),
    ],
)
def test_the_maximum_is_hit_exactly(times: int, found: bool) -> None:
    assert clear("KL008", run_of(kl_ref_token=hit(times))) is not found


def test_a_clamp_is_told_with_its_value_and_its_rows() -> None:
    finding = only("KL008", run_of(kl_ref_token=hit(6)))
    assert finding.severity == "info"
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (3, 3, 3)
    evidence = finding.evidence[0]
    assert logged(evidence, "kl_ref_token", "nats/token")
    assert (evidence.first_step, evidence.last_step) == (3, 18)
    assert "exactly 0.3 nats/token in 6 of 26 logged rows: a clamp" in finding.message
    assert "pinned at 0.3" in finding.summary


@pytest.mark.parametrize(
    ("column", "level", "severity"),
    [
        pytest.param("kl_ref_token", 0.0999, "info", id="near, per token"),
        pytest.param("kl_ref_token", 0.1, "warning", id="far, per token"),
        pytest.param("kl_ref_response", 9.99, "info", id="near, per response"),
        pytest.param("kl_ref_response", 10.0, "warning", id="far, per response"),
        pytest.param("kl_unknown", 50.0, "info", id="of unknown unit, whatever its value"),
    ],
)
def test_to_the_end_a_clamp_weighs_by_what_it_hides(
    column: str, level: float, severity: str
) -> None:
    values = [0.001 * value for value in MOVING] + [level] * 10
    assert only("KL008", log_of({column: values})).severity == severity


@pytest.mark.parametrize(
    ("last", "severity"),
    [
        pytest.param(5, "warning", id="half of the last ten rows"),
        pytest.param(4, "info", id="fewer of the last ten rows"),
    ],
)
def test_a_clamp_that_the_run_left_is_information(last: int, severity: str) -> None:
    values = [*hit(6), *(0.2 + 0.001 * row for row in range(10 - last)), *[0.3] * last]
    assert only("KL008", run_of(kl_ref_token=values)).severity == severity


@pytest.mark.parametrize(
    ("level", "rows", "found"),
    [
        pytest.param(0.0123, 9, False, id="nine rows of one value"),
        pytest.param(0.0123, 10, True, id="ten rows of one value"),
        pytest.param(0.012, 10, False, id="two digits may be rounded"),
        pytest.param(0.9, 10, False, id="a coarse number below one may be rounded"),
        pytest.param(1.0, 10, True, id="a coarse number from one on is none"),
    ],
)
def test_one_value_throughout(level: float, rows: int, found: bool) -> None:
    run = run_of(
        kl_ref_token=[0.0, *[level] * rows], loss_total=[1.0 * row for row in range(rows + 1)]
    )
    assert clear("KL008", run) is not found


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([0.001, 0.002, 0.003, 0.004] * 8, id="a rounded log repeats everywhere"),
        pytest.param([value for value in MOVING for _ in range(10)], id="each value ten times"),
        pytest.param(MOVING, id="values that never repeat"),
        pytest.param([*MOVING, *[NAN] * 10], id="NaN"),
        pytest.param([*(-value for value in MOVING), *[0.0] * 10], id="a maximum of zero"),
    ],
)
def test_what_is_no_clamp(values: list[float]) -> None:
    assert clear("KL008", run_of(kl_ref_token=values))


def test_rows_that_repeat_as_a_whole_are_one() -> None:
    assert clear("KL008", run_of(kl_ref_token=[0.0123] * 20, entropy=[2.0] * 20))
    moving = run_of(kl_ref_token=[0.0123] * 20, entropy=MOVING)
    assert only("KL008", moving).args["rows"] == 20


@pytest.mark.parametrize(
    ("repeats", "found"),
    [
        pytest.param(2, True, id="nine tenths of the others differ"),
        pytest.param(3, False, id="fewer of the others differ"),
    ],
)
def test_a_log_that_is_partly_rounded(repeats: int, found: bool) -> None:
    others = [*MOVING[: 20 - repeats], *MOVING[:repeats]]
    assert clear("KL008", run_of(kl_ref_token=[*others, *[0.3] * 10])) is not found


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(9, False, id="nine rows are too few"),
        pytest.param(10, True, id="ten rows are enough"),
    ],
)
def test_ten_rows_are_needed(rows: int, looks: bool) -> None:
    assert skipped("KL008", run_of(kl_ref_token=[3.0] * rows)) is not looks


def test_zeros_throughout_were_never_computed() -> None:
    assert skipped("KL008", run_of(kl_ref_token=[0.0] * 30))


def test_the_limits_can_be_set() -> None:
    run = run_of(kl_ref_token=[*hit(6), *[0.3] * 10])
    assert only("KL008", run).severity == "warning"
    assert only("KL008", run, token=0.4).severity == "info"
    assert clear("KL008", run, hits=17)
    assert clear("KL008", run, alike=1.1)
    assert clear("KL008", run_of(kl_ref_token=[3.0] * 12), constant=13)
    assert clear("KL008", run_of(kl_ref_token=[3.0] * 12), coarse=4.0)
    response = run_of(kl_ref_response=[5.0] * 12)
    assert only("KL008", response).severity == "info"
    assert only("KL008", response, response=4.0).severity == "warning"
