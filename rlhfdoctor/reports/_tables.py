"""Recomputed numbers laid out as tables of text, for any report."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rich.cells import cell_len

from rlhfdoctor.reports._cells import fit, fit_middle, padded
from rlhfdoctor.reports._lines import shown

Row = Mapping[str, Any]


LEAST_TEXT = 20
"""Cells that a column of sample text must have for a table to keep all its other columns."""

NAME = 60
"""Cells of a name in the first column of a table that is split; a third of a page with a width."""

LEAST_NAME = 8
"""Cells of such a name that are left on any page."""

MOST_TEXT = 160
"""Cells after which sample text is cut where the page has no width."""


@dataclass(frozen=True, slots=True)
class TextTable:
    """A title, a line of column names, and rows of cells.

    spare: columns that a narrow page does without, the first to go first. left: columns whose
    cells stand left, the first where none are named; numbers stand right. text: the last column is
    text of samples, which stands left and is cut to the page.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    spare: tuple[str, ...] = ()
    left: tuple[str, ...] | None = None
    text: bool = False

    def widths(self) -> list[int]:
        """Return the width of each column, in cells; of sample text, the least that it needs."""
        columns = list(zip(self.header, *self.rows, strict=True))
        widths = [max(cell_len(shown(cell)) for cell in column) for column in columns[:-1]]
        if self.text:
            longest = max(cell_len(fit(cell, LEAST_TEXT)) for cell in columns[-1])
            return [*widths, longest]
        return [*widths, max(cell_len(shown(cell)) for cell in columns[-1])]

    def within(self, width: int) -> TextTable:
        """Return the table without as many of its spare columns as do not fit; 0: no limit."""
        if not width or not self.spare or sum(self.widths()) + 2 * len(self.header) <= width:
            return self
        place = self.header.index(self.spare[0])
        return replace(
            self,
            header=_without(self.header, place),
            rows=tuple(_without(row, place) for row in self.rows),
            spare=self.spare[1:],
        ).within(width)

    def split(self, width: int) -> Iterator[TextTable]:
        """Yield the table as several that fit, each with the first column; 0: as one.

        Columns without any cell are left out. The names of the first column are cut, to a third of
        the page or to what the widest other column leaves.
        """
        most = min(width // 3, NAME) if width else NAME
        if width:
            most = max(min(most, width - 2 - max(self.widths()[1:], default=0)), LEAST_NAME)
        rows = tuple((fit_middle(first, most), *cells) for first, *cells in self.rows)
        first, *widths = replace(self, rows=rows).widths()
        groups: list[list[int]] = [[0]]
        used = first
        for place, room in enumerate(widths, start=1):
            if not any(row[place] for row in rows):
                continue
            if width and len(groups[-1]) > 1 and used + 2 + room > width:
                groups.append([0])
                used = first
            groups[-1].append(place)
            used += 2 + room
        for group in groups:
            yield replace(
                self,
                header=tuple(self.header[place] for place in group),
                rows=tuple(tuple(row[place] for place in group) for row in rows),
            )

    def lines(self, width: int) -> list[str]:
        """Return header and rows with their columns aligned, safe to show; 0: no limit."""
        *widths, last = self.widths()
        if self.text:
            last = max(width - sum(widths) - 2 * len(widths), 2) if width else MOST_TEXT
        left = (*(self.header[:1] if self.left is None else self.left),)
        found = []
        for row in (self.header, *self.rows):
            parts = [
                padded(shown(cell), room, left=name in left)
                for name, cell, room in zip(self.header, row, widths, strict=False)
            ]
            ends_left = self.text or self.header[-1] in left
            end = fit(row[-1], last) if self.text else shown(row[-1])
            parts.append(end if ends_left else padded(end, last, left=False))
            found.append("  ".join(parts))
        return found


Part = str | TextTable
"""What stands below a title: a sentence or a table."""

Sections = Iterable[tuple[str, Sequence[Part]]]
"""Titles of a page and what stands below each; the first is the page's own."""


def _without(cells: tuple[str, ...], place: int) -> tuple[str, ...]:
    return cells[:place] + cells[place + 1 :]


def scan_lines(scans: Sequence[Row]) -> Iterator[str]:
    """Yield how many checkpoints were scanned, then those not finite or not readable."""
    if not scans:
        yield "no checkpoints"
        return
    sound = all(scan["finite"] and not scan["error"] for scan in scans)
    yield f"{len(scans)} checkpoints scanned" + (", all finite" if sound else "")
    for scan in scans:
        if scan["error"]:
            yield f"{scan['checkpoint']}: {scan['error']}"
        elif not scan["finite"]:
            where = scan["first_non_finite"]
            yield f"{scan['checkpoint']}: {scan['non_finite']} values not finite, first in {where}"


def score_tables(rows: Sequence[Row], references: Sequence[Row]) -> Iterator[TextTable]:
    """Yield, for each reference and sample file, KL and perplexity, then perplexity by position."""
    for reference, file in dict.fromkeys((row["reference"], row["samples_file"]) for row in rows):
        own = [row for row in rows if (row["reference"], row["samples_file"]) == (reference, file)]
        told = next((item for item in references if item["name"] == reference), {})
        responses = [row for row in own if row["part"] == "response"]
        if responses:
            yield _responses(responses, told, f"against {reference}, on {file}")
            if reference == rows[0]["reference"]:
                yield from _positions(responses, f"on {file}")
        pairs = [row for row in own if row["part"] != "response"]
        if pairs:
            yield _pairs(pairs, f"pairs against {reference}, on {file}")


def reference_lines(references: Sequence[Row]) -> Iterator[str]:
    """Yield what is known of each reference, one sentence each."""
    for item in references:
        started = {
            True: "training started from it (its log-probabilities are those of step 0)",
            False: "training did not start from it",
            None: "nothing tells whether training started from it",
        }[item["training_started_from_it"]]
        matches = {
            True: "the logged KL is the distance to it",
            False: "the logged KL is not the distance to it",
            None: "no logged KL above zero at a checkpoint scored on its own samples",
        }[item["matches_logged_kl"]]
        warmth = item.get("temperature", 1.0)
        at = "" if warmth == 1.0 else f"; logits divided by {warmth:g}, the temperature"
        yield f"{item['name']}: {started}; {matches}{at}"


def _responses(rows: Sequence[Row], reference: Row, where: str) -> TextTable:
    logged = {item["checkpoint"]: item for item in reference.get("comparisons", ())}
    columns = ["samples", "tokens", "KL/token", "95 %", "KL/response", "k1", "k3"]
    columns += ["logged"] if logged else []
    columns += ["entropy", "ppl policy", "ppl reference"]
    cells = []
    for row in rows:
        interval = row["interval"] if row["role"] == "policy" else None
        at = logged.get(row["checkpoint"]) if row["role"] == "policy" else None
        cells.append(
            (
                _name(row),
                str(row["samples"]),
                str(row["tokens"]),
                _kl(row),
                "" if interval is None else f"{_short(interval[0])} - {_short(interval[1])}",
                _short(row["kl_ref_response_exact"]),
                *(_short(row[name]) if row["on_policy"] else "" for name in _ESTIMATES),
                *([_logged(at)] if logged else []),
                _short(row["entropy_token"]),
                _short(row["perplexity_policy"]),
                _short(row["perplexity_reference"]),
            )
        )
    spare = ("tokens", "samples", "KL/response", "95 %", "k1", "k3", "ppl reference")
    return TextTable(where, ("checkpoint", *columns), tuple(cells), spare)


def _positions(rows: Sequence[Row], where: str) -> Iterator[TextTable]:
    longest = max(rows, key=lambda row: len(row["perplexity_by_position"]))
    bins = [
        str(item["first"]) if item["first"] == item["last"] else f"{item['first']}-{item['last']}"
        for item in longest["perplexity_by_position"]
    ]
    if len(bins) > 1:
        yield TextTable(
            f"perplexity under the policy by position in the response, {where}",
            ("checkpoint", *bins),
            tuple(
                (
                    _name(row),
                    *(_at(item) for item in row["perplexity_by_position"]),
                    *([""] * (len(bins) - len(row["perplexity_by_position"]))),
                )
                for row in rows
            ),
        )


_ESTIMATES = ("kl_k1_token", "kl_k3_token")

_FEWEST = 8
"""Tokens at a range of positions below which its perplexity is not shown: it is their luck."""


def _at(item: Row) -> str:
    few = item["tokens"] is not None and item["tokens"] < _FEWEST
    return "-" if few else _short(item["policy"])


def _pairs(rows: Sequence[Row], where: str) -> TextTable:
    columns = ("part", "pairs", "log-prob", "reference", "KL/token", "perplexity", "reward")
    return TextTable(
        where,
        ("checkpoint", *columns, "margin", "accuracy"),
        tuple(
            (
                _name(row),
                row["part"],
                str(row["samples"]),
                _short(row["logprob_response_policy"]),
                _short(row["logprob_response_reference"]),
                _kl(row),
                _short(row["perplexity_policy"]),
                _short(row["reward"]),
                *(
                    _short(row[name]) if row["part"] == "chosen" else ""
                    for name in ("margin", "accuracy")
                ),
            )
            for row in rows
        ),
        ("pairs", "reference", "perplexity", "log-prob"),
    )


def _name(row: Row) -> str:
    if row["role"] == "reference":
        return f"{row['checkpoint']} (itself)"
    return str(row["checkpoint"]) + ("" if row["on_policy"] else " *")


def _kl(row: Row) -> str:
    if row["below_floor"] and row["noise_floor"] is not None:
        return f"< {row['noise_floor']:.0e}"
    return _short(row["kl_ref_token_exact"])


def _logged(comparison: Row | None) -> str:
    if comparison is None:
        return ""
    unit = "/response" if comparison["unit"] == "nats/response" else ""
    return f"{_short(comparison['logged'])}{unit} ({comparison['estimator']})"


def _short(value: object) -> str:
    if value is None:
        return ""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


OFF_POLICY = (
    "* not drawn from this checkpoint: its KL is exact at these tokens, k1 and k3 would not be"
)
"""What the mark behind a checkpoint means."""


def has_off_policy(rows: Sequence[Row]) -> bool:
    """Say whether the mark is used."""
    return any(row["role"] == "policy" and not row["on_policy"] for row in rows)
