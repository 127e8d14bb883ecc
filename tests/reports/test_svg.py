import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlhfdoctor.curves import Line, Marks
from rlhfdoctor.model import Onset
from rlhfdoctor.reports._svg import PIXELS, POINTS, Axis, Drawn, figure

LABELS = re.compile(r'<text x="-8"[^>]*>([^<]*)<')


def line(*values: float, first: int = 1) -> Line:
    return Line("current", "kl", tuple(range(first, first + len(values))), values)


def axis(last: int, *, low: int = 1) -> Axis:
    return Axis(low, last, Marks(None, (), None))


def drawn(*values: float, broken: tuple[int, ...] = (), points: bool = False) -> str:
    item = Drawn(line(*values), 0, points=points, broken=broken)
    return figure([item], axis(len(values)), name="f", title="KL", text="it rises")


def places(picture: str) -> list[tuple[float, float]]:
    (path,) = re.findall(r'class="(?:line|points) c0" d="([^"]*)"', picture)
    found = re.findall(r"[ML](-?[\d.]+) (-?[\d.]+)", path)
    return [(float(x), float(y)) for x, y in found]


def test_a_curve_goes_from_the_first_step_to_the_last_and_up_where_values_do() -> None:
    assert places(drawn(0.0, 1.0, 2.0)) == [
        (0.0, 150.0),
        (PIXELS / 2, pytest.approx(77.9, abs=0.1)),
        (PIXELS, pytest.approx(5.8, abs=0.1)),
    ]


@pytest.mark.parametrize(
    ("values", "labels"),
    [
        pytest.param((0.0, 1.0), ["0", "0.25", "0.5", "0.75", "1"], id="round quarters"),
        pytest.param((1.0, 1e6), ["1", "100", "10,000", "1e+06"], id="a logarithmic axis"),
        pytest.param((0.0, 0.0), ["0", "0.25", "0.5", "0.75", "1"], id="nothing but zeros"),
        pytest.param((1.00001, 1.00002), None, id="a tiny change far from zero"),
        pytest.param((-1e308, 1e308), None, id="a span that no float holds"),
        pytest.param((5e-324, 5e-324), None, id="the smallest number"),
    ],
)
def test_an_axis_has_few_labels_that_differ(
    values: tuple[float, ...], labels: list[str] | None
) -> None:
    found = LABELS.findall(drawn(*values))
    assert labels is None or found == labels
    assert 1 <= len(found) <= 7
    assert len(set(found)) == len(found)


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30),
    st.integers(-(10**15), 10**18),
)
def test_whatever_is_finite_lies_in_the_picture(values: list[float], first: int) -> None:
    item = Drawn(line(*values, first=first), 0)
    picture = figure([item], axis(first + 40, low=first), name="f", title="t", text="d", height=100)
    assert not re.search(r"\b(?:nan|inf)\b", picture)
    assert all(0 <= x <= PIXELS and 0 <= y <= 100 for x, y in places(picture))
    assert len(places(picture)) == len(values)


def test_a_value_that_is_not_finite_breaks_the_curve_and_is_ticked() -> None:
    picture = drawn(1.0, 2.0, 3.0, 4.0, 5.0, broken=(3,))
    (path,) = re.findall(r'class="line c0" d="([^"]*)"', picture)
    assert re.sub(r"[\d. ]+", "", path) == "MhLMhLL"
    assert f'class="lost" d="M{PIXELS // 2} 0v8"' in picture


def test_points_are_not_joined() -> None:
    (path,) = re.findall(r'class="points c0" d="([^"]*)"', drawn(1.0, 2.0, 3.0, points=True))
    assert "L" not in path


def test_a_curve_of_a_million_steps_has_two_points_a_pixel_and_keeps_its_peak() -> None:
    values = [1.0] * 100_000
    values[77_777] = 3.0
    found = places(drawn(*values))
    assert len(found) <= POINTS
    assert min(y for _, y in found) < 10


def test_onset_checkpoints_and_the_way_back_are_marked_by_step() -> None:
    marks = Marks(Onset(50, 40, 60), ((20, "<checkpoint-20>"), (80, "b")), (20, "<checkpoint-20>"))
    marked = Axis(0, 100, marks)
    picture = figure(
        [Drawn(line(1.0, 2.0), 0)], marked, name="f", title="KL", text="it rises", labels=True
    )
    assert '<rect class="onset" x="40.00%" y="0" width="20.00%"' in picture
    assert '<line class="onset" x1="50.00%"' in picture
    assert '<path class="saved" d="M152 150v-9M608 150v-9"/>' in picture
    assert '<line class="back" x1="20.00%"' in picture
    assert "onset 50 (40-60)" in picture
    assert "go back to &lt;checkpoint-20&gt;" in picture


def test_a_figure_tells_what_it_shows_to_those_who_do_not_see_it() -> None:
    picture = drawn(1.0, 2.0)
    assert picture.startswith('<svg class="figure" width="100%" height="150" role="img"')
    assert '<title id="f-t">KL</title><desc id="f-d">it rises</desc>' in picture
