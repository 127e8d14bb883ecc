"""A save that wrote the weights of the save before."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from rlhfdoctor.measures import drifted, scan_evidence, scans
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule


@dataclass(frozen=True, slots=True)
class Limits:
    """When the log shows updates that the files do not."""

    standard_errors: float = 4.0  # between the halves of a metric: a trend needs an update


@rule(
    "CKP007",
    signal="checkpoint",
    needs=["scans"],
    limits=Limits,
    text="{name} has the weights of {before}, bit for bit, although the run moved elsewhere: "
    "{moved}",
    brief="{name} has the weights of {before}",
)
def checkpoint_stale(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """A checkpoint has the weights of an earlier one although the run trains.

    The save wrote what it had written before (peft 353: an adapter's state dict replaced by another
    one), or training stood still in between. What is served from that folder does not change. It
    tells nothing of the policy, so it has no onset. Where all checkpoints are the same and the log
    shows no drift either, nothing was trained: CKP003.

    Remedy: save again from the live weights and compare the hashes; call the library's own
    ``save_pretrained``; do not evaluate the folder as if it were a later policy.
    """
    found = [item for item in scans(run) if item.finite]
    if len({item.step for item in found}) < 2:
        yield Skip("", ("finite weights of checkpoints at two steps",))
        return
    same = [
        (before, item)
        for before, item in pairwise(found)
        if before.hash == item.hash and before.step < item.step
    ]
    if len({item.hash for item in found}) > 1:
        moved = "other checkpoints differ"
    else:
        drift = drifted(run, limits.standard_errors)
        if drift is None:
            return
        moved = f"{drift} drifts"
    if same:
        yield Finding(
            "warning",
            tuple(
                scan_evidence(item, f"sha256 {item.hash[:16]}", before=before)
                for before, item in same
            ),
            {"name": same[0][1].checkpoint, "before": same[0][0].checkpoint, "moved": moved},
        )
