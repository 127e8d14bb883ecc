"""A checkpoint whose save was not finished."""

from collections.abc import Iterator

from rlhfdoctor.model import Checkpoint, Evidence, Finding, Location, Run, Skip
from rlhfdoctor.rules import NoLimits, rule


@rule(
    "CKP001",
    signal="checkpoint",
    needs=["checkpoints"],
    text="{names} {verb} incomplete: {why}",
    brief="{names} {verb} incomplete",
)
def checkpoint_incomplete(run: Run, limits: NoLimits) -> Iterator[Finding | Skip]:
    """A checkpoint lacks a file, or has one that is empty or shorter than its own header says.

    It cannot be resumed from, and is never suggested to go back to. Weights without optimizer state
    are complete: one can go back to them, not resume the optimizer.

    Remedy: delete it, or complete it from a copy; check the free space of the disk.
    """
    broken = [item for item in run.checkpoints if not item.complete]
    if broken:
        yield Finding(
            "info",
            tuple(
                Evidence(
                    kind="checkpoint",
                    subject=item.name,
                    observed=_why(item),
                    where=Location(item.path),
                    first_step=item.step,
                    last_step=item.step,
                )
                for item in broken
            ),
            {
                "names": _names([item.name for item in broken]),
                "verb": "is" if len(broken) == 1 else "are",
                "why": "; ".join(dict.fromkeys(map(_why, broken))),
            },
        )


def _names(names: list[str]) -> str:
    more = [f"{len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else []
    return ", ".join((*names[:MOST_NAMES], *more))


MOST_NAMES = 8
"""Checkpoints that are named; the evidence has the others."""


def _why(checkpoint: Checkpoint) -> str:
    return ", ".join(checkpoint.missing) or "its reader does not say why"
