"""Recomputed perplexity that falls to less than half of where the policy began."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.scores import between, ladders, principal, score_evidence, starts


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as a fall."""

    fall: float = 0.5  # of the perplexity at step 0, else of the first checkpoint's


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
    on the responses of step 0; only on-policy rows tell. It is judged as PPL001: a change from the
    run's own start, standing to the last checkpoint. [H]

    Remedy: as for PPL001; read perplexity by position in ``recompute --format json``.
    """
    reference = principal(run)
    looked = False
    for ladder in ladders(run, reference.name) if reference else ():
        own = [row for row in ladder if row["on_policy"]]
        start = starts(run, own[0]["reference"], own[0]["samples_file"]) if own else None
        known = [start, *own] if start is not None else own
        if len(known) < 2:
            continue
        looked = True
        begun = known[0]["perplexity_policy"]
        low = limits.fall * begun
        bad = len(own)
        while bad and own[bad - 1]["perplexity_policy"] < low:
            bad -= 1
        if bad == len(own):
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
    if not looked:
        yield Skip("", ("checkpoints scored on their own samples",))
