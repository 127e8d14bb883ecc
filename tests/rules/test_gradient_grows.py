import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import NAN, log_of, logged

GROWING = [1.0] * 20 + [1.0 + 0.1 * index for index in range(80)]
SICK = (run_of(grad_norm=GROWING),)


def stairs(levels: tuple[float, float, float, float], wobble: float = 0.0) -> list[float]:
    """Quarters of ten rows each, the last growing a little within itself."""
    rows = [level for level in levels for _ in range(10)]
    rows[-4:] = [levels[3] + 0.1] * 4
    return [value + (wobble if index % 2 else -wobble) for index, value in enumerate(rows)]


def test_steady_growth_is_information() -> None:
    finding = only("OPT008", run_of(grad_norm=GROWING))
    assert finding.severity == "info"
    assert finding.onset is None
    assert logged(finding.evidence[0], "grad_norm", "L2 norm")
    assert (finding.evidence[0].first_step, finding.evidence[0].last_step) == (26, 100)
    assert "grows from quarter to quarter" in finding.message
    assert finding.summary == "gradient norm grows 2.7 -> 8.45"


@pytest.mark.parametrize(
    ("end", "grows"),
    [
        pytest.param(2.8, False, id="less than threefold"),
        pytest.param(2.9, True, id="threefold"),
    ],
)
def test_growth_is_threefold(end: float, grows: bool) -> None:
    assert clear("OPT008", run_of(grad_norm=stairs((1.0, 1.0, 2.0, end)))) is not grows


@pytest.mark.parametrize(
    ("wobble", "grows"),
    [
        pytest.param(3.0, True, id="more than four standard errors"),
        pytest.param(5.6, False, id="noise hides it"),
    ],
)
def test_the_halves_differ(wobble: float, grows: bool) -> None:
    norms = stairs((6.0, 6.0, 9.0, 18.0), wobble)
    assert clear("OPT008", run_of(grad_norm=norms)) is not grows


@pytest.mark.parametrize(
    "norms",
    [
        pytest.param(stairs((1.0, 1.0, 5.0, 4.0)), id="a peak in the third quarter"),
        pytest.param(stairs((0.1, 1.0, 1.2, 1.4)), id="a warm-up in the first quarter"),
        pytest.param(stairs((9.0, 5.0, 2.0, 1.0)), id="a gradient that falls"),
        pytest.param([1.0] * 40, id="a flat gradient"),
        pytest.param([1.0] * 36 + [50.0] * 4, id="a late jump is another rule's"),
    ],
)
def test_what_does_not_grow_steadily_is_clear(norms: list[float]) -> None:
    assert clear("OPT008", run_of(grad_norm=norms))


@pytest.mark.parametrize(
    ("norms", "looks"),
    [
        pytest.param([1.0] * 19, False, id="nineteen rows are too few"),
        pytest.param([1.0] * 20, True, id="twenty rows are enough"),
        pytest.param([1.0] * 19 + [0.0] * 9, False, id="rows without a gradient do not count"),
        pytest.param([1.0] * 19 + [NAN] * 9, False, id="rows of NaN do not count"),
    ],
)
def test_twenty_rows_with_a_gradient_are_needed(norms: list[float], looks: bool) -> None:
    assert skipped("OPT008", run_of(grad_norm=norms)) is not looks


def test_another_norm_is_never_judged() -> None:
    assert skipped("OPT008", log_of({"grad_norm_critic": GROWING}))


def test_the_limits_can_be_set() -> None:
    run = run_of(grad_norm=GROWING)
    assert clear("OPT008", run, growth=4.0, standard_errors=4.0)
    assert clear("OPT008", run, standard_errors=50.0)
