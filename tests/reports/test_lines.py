import pytest
from rich.cells import cell_len

from rlhfdoctor.reports._cells import bar, curve, fit, fit_middle, padded
from rlhfdoctor.reports._lines import shown


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        pytest.param("plain [bold]text[/]", "plain [bold]text[/]", id="markup is text"),
        pytest.param("\x1b[2J\x00\x7f\x9b", r"\x1b[2J\x00\x7f\x9b", id="control characters"),
        pytest.param("a\nb\r\tc\u2028\u2029", r"a\nb\r\tc\u2028\u2029", id="ends of lines"),
        pytest.param("\u202eabc\u2066", r"\u202eabc\u2066", id="overrides of direction"),
        pytest.param("a\u200bb\u200d\ufeff", r"a\u200bb\u200d\ufeff", id="zero width"),
        pytest.param("\ud800", r"\ud800", id="a lone surrogate"),
        pytest.param("a\u3164\u2800\u034f", r"a\u3164\u2800\u034f", id="letters without a shape"),
        pytest.param("a\ufe0f\U000e0141", r"a\ufe0f\U000e0141", id="variation selectors"),
        pytest.param("\U000e0041", r"\U000e0041", id="tags that hide text"),
        pytest.param("\ue000\uffff", r"\ue000\uffff", id="characters that nobody defined"),
        pytest.param("e\u0301 \u0e17\u0e35\u0e48", "e\u0301 \u0e17\u0e35\u0e48", id="accents stay"),
        pytest.param(
            "z" + "\u0301" * 6, "z" + "\u0301" * 4 + r"\u0301\u0301", id="a heap of accents"
        ),
        pytest.param(" ::error::x", r" \x3a:error::x", id="a command to GitHub's runner"),
        pytest.param("::stop-commands::t", r"\x3a:stop-commands::t", id="an end of commands"),
        pytest.param("a ##[group]b", r"a \x23#[group]b", id="a command of old, anywhere"),
        pytest.param("##vso[task.x]", r"\x23#vso[task.x]", id="a command to Azure's runner"),
        pytest.param("[::1]:8080 ::1 a::b #1 ##", "[::1]:8080 ::1 a::b #1 ##", id="mere colons"),
        pytest.param("\u4e2d\u6587 \u3000", "\u4e2d\u6587 \u3000", id="Chinese and its space"),
    ],
)
def test_nothing_in_a_text_is_obeyed_or_hidden(text: str, seen: str) -> None:
    assert shown(text) == seen


TEXTS = [
    pytest.param("", id="nothing"),
    pytest.param("abc def ghi jkl", id="Latin"),
    pytest.param("\u6a21\u578b\u5d29\u6e83\u4e86" * 9, id="Chinese"),
    pytest.param("e\u0301" * 50, id="accents"),
    pytest.param("\u0301" * 50, id="accents alone"),
    pytest.param("\x1b[31m" * 30, id="escapes"),
    pytest.param("a\u6a21" * 5000, id="a long text"),
]


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("room", [2, 3, 7, 8, 20, 99])
def test_a_text_takes_no_more_than_its_room(text: str, room: int) -> None:
    for cut in (fit, fit_middle):
        found = cut(text, room)
        assert cell_len(found) <= room
        whole = cell_len(shown(text)) <= room
        assert (found == shown(text)) is whole
        assert whole or "\u2026" in found


def test_a_text_cut_in_the_middle_keeps_both_ends() -> None:
    assert fit_middle("begin " + "x" * 999 + " end", 20) == "begin xxxx\u2026xxxxx end"


@pytest.mark.parametrize("text", ["ab", "\u4e2d", "e\u0301"])
def test_texts_are_padded_by_the_cells_that_they_take(text: str) -> None:
    assert cell_len(padded(text, 8)) == cell_len(padded(text, 8, left=False)) == 8
    assert padded(text, 8).startswith(text)
    assert padded(text, 8, left=False).endswith(text)


@pytest.mark.parametrize(
    ("share", "drawn"),
    [
        (0.0, ""),
        (1e-9, "\u258f"),
        (0.5, "\u2588" * 2),
        (0.53125, "\u2588\u2588\u258f"),
        (1, "\u2588" * 4),
    ],
    ids=str,
)
def test_a_bar_is_as_long_as_its_share(share: float, drawn: str) -> None:
    assert bar(share, 4) == drawn


@pytest.mark.parametrize(
    ("values", "drawn"),
    [
        pytest.param([0, 7, None, 3.5], "\u2581\u2588 \u2585", id="a gap"),
        pytest.param([9, -9], "\u2588\u2581", id="beyond the ends"),
    ],
)
def test_a_curve_has_a_column_for_each_value(values: list[float | None], drawn: str) -> None:
    assert curve(values, 0, 7) == drawn
    assert curve([2.0, 2.0], 2, 2) == "\u2581\u2581"
