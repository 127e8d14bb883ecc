"""One part of the samples' reward is earned by all while another is lost."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import Batch, ladders, sample_evidence
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._ladder import onset_between, too_few
from rlhfdoctor.rules._shares import Values, mean, rises


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as lost, and as earned by all."""

    lost: float = 0.1  # of the mean at the first step: a part below it is lost
    everyone: float = 0.9  # share of the last responses that earn the other part at its highest
    fewest: int = 8  # responses a sampled step


@rule(
    "RWD013",
    signal="reward",
    needs=["samples.reward_components", "samples.steps"],
    limits=Limits,
    text="nearly every response in {source} now earns {owner} ({owned_before:.3g} -> "
    "{owned_after:.3g}), and {other} is lost ({before:.3g} -> {after:.3g})",
    brief="{owner} earned by all, {other} {before:.2g} -> {after:.2g}",
)
def samples_lose_component(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Every response earns one part of the reward, and another part that was earned is gone.

    The cheap part (a format, a length) is learnt at the expense of the dear one: format 1, accuracy
    0 (open-r1 373, 255). RWD005 sees it in a log that names the parts; this is for samples that
    carry them. A part is lost below a tenth of where it began, surely so, while the other surely
    rose. Parts that were never earned are not judged: samples cannot tell a hard task from a parser
    that never matches. A penalty that is no longer paid, and tasks that grow harder, look the same:
    information. [H]

    Remedy: as for RWD005.
    """
    looked = False
    for ladder in ladders(run, limits.fewest):
        parts = _parts(ladder)
        if len(parts) < 2:
            continue
        looked = True
        owners = [name for name, steps in parts.items() if _owned(steps, limits)]
        lost = {name: _lost(steps, limits) for name, steps in parts.items()}
        gone = [(since, name) for name, since in lost.items() if since is not None]
        if not owners or not gone:
            continue
        since, other = min(gone)
        owned, left = parts[owners[0]], parts[other]
        yield Finding(
            "info",
            (
                sample_evidence(
                    ladder[since],
                    ladder[-1],
                    "samples.reward_components",
                    mean(left[-1]),
                    unit="reward",
                    limit_low=limits.lost * mean(left[0]),
                ),
            ),
            {
                "source": ladder[0].source,
                "owner": owners[0],
                "owned_before": mean(owned[0]),
                "owned_after": mean(owned[-1]),
                "other": other,
                "before": mean(left[0]),
                "after": mean(left[-1]),
            },
            onset=onset_between(run, ladder, since),
        )
    if not looked:
        yield too_few(limits.fewest, "and two parts of the reward each")


def _parts(ladder: list[Batch]) -> dict[str, list[Values]]:
    """Return the parts of the reward of which every response of a file has a finite number."""
    known = [
        {name for name, value in (item.components or {}).items() if math.isfinite(value)}
        for batch in ladder
        for item in batch.items
    ]
    return {
        name: [
            [(item, item.components[name]) for item in batch.items if item.components]
            for batch in ladder
        ]
        for name in sorted(set.intersection(*known))
    }


def _owned(steps: list[Values], limits: Limits) -> bool:
    """Say whether a part rose until nearly every response earns it at its highest."""
    last = [value for _, value in steps[-1]]
    best = max(value for step in steps for _, value in step)
    return rises(steps) is not None and last.count(best) >= limits.everyone * len(last)


def _lost(steps: list[Values], limits: Limits) -> int | None:
    """Return the step from which a part that was earned is missing; None where it is not lost."""
    if mean(steps[0]) <= 0.0 or mean(steps[-1]) >= limits.lost * mean(steps[0]):
        return None
    return rises([[(item, -value) for item, value in step] for step in steps])
