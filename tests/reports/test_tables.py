from dataclasses import replace
from typing import Any

import pytest

from rlhfdoctor.model import Run
from rlhfdoctor.reports import Page
from rlhfdoctor.reports._tables import TextTable, has_off_policy, reference_lines, score_tables
from rlhfdoctor.reports.json import recomputed, score_rows
from rlhfdoctor.reports.terminal import recompute_lines, write
from rlhfdoctor.scores import references
from tests.builders import began, run_of, scored

NAN = float("nan")


def positions(last: int) -> list[dict[str, Any]]:
    """Ranges of positions up to a length that is 1 below a power of two."""
    ranges, first = [], 1
    while first <= last:
        ranges.append({"first": first, "last": 2 * first - 1, "policy": 20.0})
        first *= 2
    return ranges


def ladder(**columns: Any) -> Run:
    scores = [
        began(perplexity_by_position=positions(31)),
        scored(1000, 0.1, perplexity_by_position=positions(15), **columns),
        scored(2000, 12.345678, perplexity_by_position=positions(31), **columns),
    ]
    kl = [0.1, 12.0]
    return run_of(steps=[1000, 2000], kl_ref_token=kl, scores=scores)


def tables(run: Run) -> list[TextTable]:
    return [*score_tables(score_rows(run), references(run))]


# Tables that give way


@pytest.mark.parametrize("width", range(40, 201, 5))
def test_a_table_gives_up_what_it_can_spare_and_no_more(width: int) -> None:
    table = tables(ladder())[0]
    fitting = table.within(width)
    assert {*table.header} - {*fitting.header} <= {*table.spare}
    assert {"checkpoint", "KL/token", "logged", "entropy", "ppl policy"} <= {*fitting.header}
    assert all(len(row) == len(fitting.header) for row in fitting.rows)
    assert [row[0] for row in fitting.rows] == [row[0] for row in table.rows]
    assert [row[fitting.header.index("KL/token")] for row in fitting.rows] == ["0", "0.1", "12.35"]
    if fitting.spare and fitting.header != table.header:
        place = len(table.spare) - len(fitting.spare) - 1
        kept = replace(table, spare=table.spare[:place]).within(width)
        assert sum(kept.widths()) + 2 * len(kept.header) > width


def test_spare_columns_go_in_their_order() -> None:
    table = TextTable("", ("name", "b", "c"), (("x", "22", "33"),), ("c", "b"))
    assert table.within(0) == table
    assert table.within(100) == table
    assert table.within(13).header == ("name", "b")
    assert table.within(1).header == ("name",)


def test_a_page_without_width_drops_nothing() -> None:
    table = tables(ladder())[0]
    assert table.within(0) is table


def test_a_column_of_sample_text_is_cut_to_the_page_and_the_others_are_not() -> None:
    rows = (("1,000", "\u4e2d" * 99), ("1", "\x1b[31mred"))
    table = TextTable("", ("count", "text"), rows, left=("text",), text=True)
    assert table.lines(20) == [
        "count  text",
        "1,000  " + "\u4e2d" * 6 + "\u2026",
        "    1  \\x1b[31mred",
    ]
    assert table.lines(0)[1] == "1,000  " + "\u4e2d" * 79 + "\u2026"


def test_names_stand_left_and_numbers_right() -> None:
    table = TextTable("", ("name", "n"), (("a", "1"), ("bcdef", "100")))
    assert table.lines(0) == ["name     n", "a        1", "bcdef  100"]
    other = TextTable("", ("n", "name"), (("1", "a"), ("100", "\u4e2d")), left=("name",))
    assert other.lines(0) == ["  n  name", "  1  a", "100  \u4e2d"]


def test_a_table_without_rows_has_the_width_of_its_header() -> None:
    assert TextTable("", ("a", "bcd"), ()).widths() == [1, 3]


@pytest.mark.parametrize("width", [80, 100, 132])
def test_the_terminal_s_tables_fit_into_its_width(width: int) -> None:
    document = recomputed(ladder(), references(ladder()))
    text = write(recompute_lines(document, width), Page(0, width=width))
    assert max(map(len, text.splitlines())) <= width
    (first, *rows) = [line for line in text.splitlines() if "KL/token" in line or "(k" in line]
    assert len(rows) == 2
    assert {len(first), *map(len, rows)} == {len(first)}


# What they hold


def test_each_file_and_reference_has_a_table_and_pairs_have_their_own() -> None:
    scores = [
        scored(10, samples_file="a"),
        scored(10, samples_file="b", reference="other"),
        scored(10, samples_file="a", part="chosen", accuracy=0.5, margin=NAN),
        scored(10, samples_file="a", part="rejected"),
    ]
    told = tables(run_of(scores=scores))
    assert [table.title for table in told] == [
        "against base, on a",
        "pairs against base, on a",
        "against other, on b",
    ]
    assert [row[1] for row in told[1].rows] == ["chosen", "rejected"]
    assert told[1].rows[0][-2:] == ("nan", "0.5")
    assert told[1].rows[1][-2:] == ("", "")


def test_a_kl_below_the_floor_is_said_to_be() -> None:
    table = tables(run_of(scores=[scored(10, 1e-7), scored(20, 1e-4)]))[0]
    place = table.header.index("KL/token")
    assert [row[place] for row in table.rows] == ["< 1e-05", "0.0001"]


def test_what_the_log_says_stands_beside_it() -> None:
    run = run_of(steps=[10, 15], kl_ref_response=[2.0, 3.0], scores=[scored(10), scored(20)])
    table = tables(run)[0]
    place = table.header.index("logged")
    assert [row[place] for row in table.rows] == ["2/response (k1)", ""]
    assert "logged" not in tables(run_of(scores=[scored(10)]))[0].header


def test_positions_are_filled_up_to_the_longest_response() -> None:
    (_, by_position) = tables(ladder())
    assert by_position.header == ("checkpoint", "1", "2-3", "4-7", "8-15", "16-31")
    assert by_position.rows[1] == ("checkpoint-1000", "20", "20", "20", "20", "")


@pytest.mark.parametrize(("tokens", "shown"), [(7, "-"), (8, "20"), (None, "20")], ids=str)
def test_a_perplexity_of_few_tokens_is_not_shown(tokens: int | None, shown: str) -> None:
    ranges = [{**item, "tokens": tokens} for item in positions(3)]
    run = run_of(scores=[scored(10, perplexity_by_position=ranges)])
    assert tables(run)[1].rows == (("checkpoint-10", shown, shown),)


def test_k1_and_k3_of_others_samples_are_not_shown() -> None:
    table = tables(run_of(scores=[scored(10, on_policy=False)]))[0]
    row = dict(zip(table.header, table.rows[0], strict=True))
    assert (row["KL/token"], row["k1"], row["k3"]) == ("0.05", "", "")


def test_rows_of_others_samples_are_marked() -> None:
    own, others = run_of(scores=[scored(10)]), run_of(scores=[scored(10, on_policy=False)])
    assert not has_off_policy(score_rows(own))
    assert has_off_policy(score_rows(others))
    assert tables(others)[0].rows[0][0] == "checkpoint-10 *"
    assert not has_off_policy(score_rows(run_of(scores=[began(on_policy=False)])))


@pytest.mark.parametrize(
    ("logged", "gap", "said"),
    [
        pytest.param(0.5, 0.01, ["training started from it", "is the distance"], id="the one"),
        pytest.param(5.0, 2.0, ["did not start from it", "is not the distance"], id="another"),
        pytest.param(None, None, ["nothing tells", "no logged KL"], id="nobody knows"),
    ],
)
def test_what_is_known_of_a_reference_is_said(
    logged: float | None, gap: float | None, said: list[str]
) -> None:
    scores = [began(gap=gap), scored(2, 0.5)]
    (line,) = reference_lines(references(run_of(kl_ref_token=[logged] * 3, scores=scores)))
    assert line.startswith("base: ")
    assert all(part in line for part in said)
