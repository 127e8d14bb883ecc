"""Recomputed perplexity that falls to less than half of where the policy began."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._ladder import standing_from
from rlhfdoctor.scores import (
    Held,
    Score,
    between,
    ladders,
    measured,
    principal,
    score_evidence,
    starts,
    unmeasured,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as a fall."""

    fall: float = 0.5  # of the perplexity at step 0, else of the first checkpoint's
    fewest: int = 8  # samples a step


@rule(
    "PPL003",
    signal="entropy",
    needs=["scores"],
    limits=Limits,
    text="recomputed perplexity under the policy falls from {start:.3g} to {level:.3g} on its own "
    "samples ({source}); {checkpoint} is the first below {share:.0%} of the start",
    brief="recomputed perplexity {start:.3g} -> {level:.3g}",
)
def perplexity_recomputed(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The policy has become too sure of what it writes, by its own weights.

    Perplexity of each checkpoint on the responses that it drew itself, beside that of the reference
    on the responses of step 0, where training started from it; else the first checkpoint is the
    start. Only on-policy rows tell. It is judged as PPL001: a change from the run's own start,
    standing to the last checkpoint. [H]

    Remedy: as for PPL001; read perplexity by position in ``recompute --format json``.
    """
    reference = principal(run)
    looked = False
    missing: list[str] = []
    for ladder in ladders(run, reference.name) if reference else ():
        scored = [
            row for row in ladder if row["on_policy"] and (row["samples"] or 0) >= limits.fewest
        ]
        own = measured(scored, "perplexity_policy")
        missing += unmeasured(scored, "perplexity_policy") if scored else ()
        known = [*_start(run, reference, own[0]["samples_file"]), *own] if own else []
        if len(known) < 2:
            continue
        looked = True
        begun = known[0]["perplexity_policy"]
        low = limits.fall * begun
        bad = standing_from([row["perplexity_policy"] < low for row in own])
        if bad is None:
            continue
        first, last = own[bad], own[-1]
        yield Finding(
            "critical",
            (
                score_evidence(
                    first, "perplexity_policy", unit="perplexity", last=last, limit_low=low
                ),
            ),
            {
                "start": begun,
                "level": last["perplexity_policy"],
                "source": last["samples_file"],
                "checkpoint": first["checkpoint"],
                "share": limits.fall,
            },
            onset=between(run, own, bad),
        )
    if missing or not looked:
        yield Skip("", (*dict.fromkeys(missing),) or ("checkpoints scored on their own samples",))


def _start(run: Run, reference: Held | None, samples_file: str) -> list[Score]:
    """Return the row of where the policy began, or none where the reference was not there."""
    if reference is None or reference.started is False:
        return []
    if reference.started is None and not reference.matches:
        return []
    row = starts(run, reference.name, samples_file)
    return measured([row], "perplexity_policy") if row is not None else []
