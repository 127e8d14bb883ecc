"""Checkpoints between which no weight changed."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import drifted, scan_evidence, scans
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule


@dataclass(frozen=True, slots=True)
class Limits:
    """When the log shows updates that the files do not."""

    standard_errors: float = 4.0  # between the halves of a metric: a trend needs an update


@rule(
    "CKP003",
    signal="update",
    needs=["scans"],
    limits=Limits,
    text="all {count} checkpoints hold the same weights, bit for bit: none was updated between "
    "steps {first} and {last}",
    brief="{count} checkpoints with identical weights",
)
def checkpoints_identical(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """All checkpoints of the run have the same weights.

    A single update of a single weight changes the hash, so nothing was trained: frozen parameters,
    an adapter loaded without ``is_trainable`` (TRL 6700), a learning rate of 0, or updates below
    the rounding of half-precision weights. Optimizer state and metadata are not compared, nor is
    the sharding. Where a metric of the log drifts by more than four standard errors between its
    halves, something was updated and the saves are at fault, not the training: CKP007.

    Remedy: count the parameters that require a gradient; there is nothing to go back to, restart
    after the fix.
    """
    found = [item for item in scans(run) if item.finite]
    if len({item.step for item in found}) < 2:
        yield Skip("", ("finite weights of checkpoints at two steps",))
        return
    if len({item.hash for item in found}) > 1 or drifted(run, limits.standard_errors):
        return
    begun = min(run.first_step or 0, found[0].step)
    yield Finding(
        "critical",
        tuple(
            scan_evidence(item, f"sha256 {item.hash[:16]}", before=before)
            for before, item in zip((None, *found), found, strict=False)
        ),
        {"count": len(found), "first": found[0].step, "last": found[-1].step},
        onset=Onset(begun, begun, begun),
        alone=True,
    )
