"""Rows of a weight matrix that became zero."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import neighbours, scan_evidence, scan_onset, scans
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule


@dataclass(frozen=True, slots=True)
class Limits:
    """How many rows must become zero."""

    rows: int = 1  # all-zero rows more than in the previous checkpoint


@rule(
    "CKP005",
    signal="checkpoint",
    needs=["scans"],
    limits=Limits,
    text="{name} has {count} rows of exact zeros in its weight matrices, {before} had {known}",
    brief="{count} rows of zeros in {name}",
)
def rows_zeroed(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Rows of a weight matrix became exactly zero between two checkpoints.

    No optimizer step makes a whole row exactly zero: a save that was cut or gathered wrongly
    (sharded parameters), or an embedding that was resized and never initialised does. Rows that
    were zero before, as the padding of a vocabulary, are normal; so are LoRA's zero matrices, which
    are not counted.

    Remedy: do not go back to this checkpoint; look at the rows named, and gather the full
    parameters before saving.
    """
    pairs = neighbours(scans(run))
    if not pairs:
        yield Skip("", ("the weights of two comparable checkpoints",))
        return
    for before, item in pairs:
        if item.zero_rows >= before.zero_rows + limits.rows:
            new = item.first_zero_row != before.first_zero_row
            yield Finding(
                "warning",
                (
                    scan_evidence(
                        item,
                        float(item.zero_rows),
                        before=before,
                        unit="rows",
                        limit_high=float(before.zero_rows + limits.rows - 1),
                        tensor=item.first_zero_row if new else None,
                    ),
                ),
                {
                    "name": item.checkpoint,
                    "before": before.checkpoint,
                    "count": item.zero_rows,
                    "known": before.zero_rows,
                },
                onset=scan_onset(run, item, before),
            )
