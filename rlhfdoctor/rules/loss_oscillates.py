"""A preference loss that swings from row to row."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import polars as pl

from rlhfdoctor.measures import metric_evidence, prefers, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._sustained import appeared
from rlhfdoctor.series import LARGEST, stretches


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as swinging."""

    variance: float = 0.5  # loss^2, over the window
    share: float = 0.5  # share of the mean loss that the standard deviation exceeds
    window: int = 10  # logged rows


@rule(
    "OPT007",
    signal="optimiser",
    needs=["loss_total", "rows>=10"],
    limits=Limits,
    text="the loss swings from row to row: variance {level:.3g} over {window} logged rows, above "
    "{variance:g}, around a mean of {mean:.3g}",
    brief="loss variance {level:.2g} over {window} rows",
)
def loss_oscillates(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The loss of a preference run swings instead of settling.

    The practitioners' rule: a variance of the loss above 0.5 over the last ten steps, and then half
    the learning rate. It is made for a sigmoid loss, which begins at ln 2; one that begins at 25
    (IPO) or sums several terms varies more by its scale alone, so the standard deviation must also
    exceed half of the mean. A rule of thumb, and small batches swing: information. The variance is
    half the mean squared change from row to row, which a falling loss leaves small. The loss of
    GRPO and PPO is cosmetic and is never judged. [H]

    Remedy: half the learning rate, or a larger batch.
    """
    if not prefers(run) and run.algorithm != "RM":
        yield Skip("", ("a loss that means something: that of a preference or reward model",))
        return
    loss = track(run, "loss_total")
    values = pl.Series(loss.values)
    if float(values.abs().max() or 0.0) > LARGEST:  # type: ignore[arg-type]
        return
    size = limits.window - 1
    swings = (values.diff() ** 2).slice(1).rolling_mean(size) / 2
    means = values.rolling_mean(limits.window).slice(1)
    seen = [
        (row + 1, swing, mean)
        for row, (swing, mean) in enumerate(zip(swings, means, strict=True))
        if swing is not None and mean is not None
    ]
    high = [
        swing > limits.variance and swing > (limits.share * mean) ** 2 for _, swing, mean in seen
    ]
    spans = stretches([float(item) for item in high], bool, 1)
    if not spans:
        return
    stands = spans[-1][1] == len(high) - 1
    first, last = spans[-1] if stands else (spans[0][0], spans[-1][1])
    worst = max(range(first, last + 1), key=lambda place: seen[place][1])
    row, level, mean = seen[worst]
    evidence = metric_evidence(run, loss, row - size, row, level, limit_high=limits.variance)
    yield Finding(
        "info",
        (replace(evidence, unit="loss^2", estimator="half the mean squared change"),),
        {"level": level, "mean": mean},
        onset=appeared(loss.steps, seen[first][0] - size),
        recovered_at=None if stands else loss.steps[seen[last][0] + 1],
    )
