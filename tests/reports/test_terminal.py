import pytest
from rich.cells import cell_len
from rich.text import Text

from rlhfdoctor.reports import Page
from rlhfdoctor.reports.terminal import write


@pytest.mark.parametrize("indent", [0, 2, 17])
@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a" * 500, id="one long word"),
        pytest.param("\u6a21\u578b" * 200, id="a sentence of Chinese"),
        pytest.param("SMP002 \t" + "a" * 500, id="a long word beside a name"),
    ],
)
def test_what_is_wider_than_the_page_is_folded_and_never_cut(text: str, indent: int) -> None:
    lines = write([(indent, Text(text))], Page(width=60)).splitlines()
    assert "".join("".join(lines).split()) == "".join(text.split())
    assert max(map(cell_len, lines)) <= 60


@pytest.mark.parametrize("indent", [0, 2, 17])
def test_a_line_may_fill_the_page(indent: int) -> None:
    whole = "a" * (60 - indent)
    assert write([(indent, Text(whole))], Page(width=60)) == " " * indent + whole + "\n"
