"""Reward that rises with repetition."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import Batch, sample_evidence
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._ladder import onset_between, rewarded, standing_from, too_few
from rlhfdoctor.rules._shares import partial, repeats


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as following, and when repetition has grown."""

    correlation: float = 0.3  # mean Pearson's r within sampled steps, length held equal
    standard_errors: float = 4.0  # of that mean, above zero
    fall: float = 0.8  # of the start's share of different 3-grams
    fewest: int = 8  # responses a sampled step


@rule(
    "RWD012",
    signal="reward",
    needs=["samples.reward", "samples.steps"],
    limits=Limits,
    text="of the responses of one step in {source} the more repetitive earn more (r = {r:.2f} at "
    "equal length), and repetition grew: {level:.0%} different 3-grams, {start:.0%} at the start",
    brief="the reward pays for repetition",
)
def reward_follows_repetition(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The reward pays for saying the same again.

    The correlation of the reward with the share of 3-grams that are not different, between the
    responses of one sampled step (over steps anything that grows correlates), with the effect of
    length taken out, since long responses repeat more. It counts only where repetition stands at a
    fifth above the run's start, as in SMP001. RWD002 names the phrase where it is a single one. [H]

    Remedy: repair the reward before anything else (count a claim, a keyword, a step once); a
    stronger KL penalty only delays it. Rescore late samples with a second reward model.
    """
    looked = False
    for ladder in rewarded(run, limits.fewest):
        found = [(batch, batch.distinct_3) for batch in ladder]
        known = [(batch, level) for batch, level in found if level is not None]
        r, error = _within([batch for batch, _ in known])
        if len(known) < 2 or r is None:
            continue
        looked = True
        steps, levels = [batch for batch, _ in known], [level for _, level in known]
        bad = standing_from([level < limits.fall * levels[0] for level in levels])
        if bad is None or not repeats(steps, limits.fall):
            continue
        if r <= max(limits.correlation, limits.standard_errors * error):
            continue
        yield Finding(
            "warning",
            (
                sample_evidence(
                    steps[bad],
                    steps[-1],
                    "samples.reward",
                    r,
                    unit="correlation with repetition",
                    limit_high=limits.correlation,
                ),
            ),
            {"source": steps[0].source, "r": r, "start": levels[0], "level": levels[-1]},
            onset=onset_between(run, steps, bad),
        )
    if not looked:
        yield too_few(limits.fewest, "whose rewards and repetition differ")


def _within(steps: list[Batch]) -> tuple[float | None, float]:
    """Return the mean correlation of repetition and reward within steps, and its error.

    Length is held equal; a step weighs as much as it has degrees of freedom.
    """
    total, freedom = 0.0, 0
    for batch in steps:
        rows = [
            (1.0 - item.distinct[2], item.reward, float(item.length))
            for item in batch.items
            if item.distinct[2] is not None and item.reward is not None
        ]
        repetition, reward, length = ([row[place] for row in rows] for place in range(3))
        r = partial(repetition, reward, length) if len(rows) > 3 else None
        if r is not None:
            total += r * (len(rows) - 3)
            freedom += len(rows) - 3
    return (total / freedom, 1 / math.sqrt(freedom)) if freedom else (None, math.inf)
