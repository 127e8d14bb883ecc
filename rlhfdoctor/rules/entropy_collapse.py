"""Entropy that falls to less than half of the run's own start."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._alarm import alarms
from rlhfdoctor.series import start_level


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as a fall."""

    fall: float = 0.5  # of the run's own start
    deep: float = 0.2  # of the start; above it a fall that nothing else shows is information
    least: float = 0.1  # nats per token that must have been lost
    patience: int = 5  # consecutive logged rows


@rule(
    "ENT001",
    signal="entropy",
    any_of=["entropy", "entropy_unknown"],
    needs=["rows>=8"],
    limits=Limits,
    text="entropy falls from {start:.3g} to {level:.3g} {unit}, below {fall:.0%} of its start for "
    "{rows} logged rows ({steps} steps)",
    brief="entropy {start:.2g} -> {level:.2g}",
)
def entropy_collapse(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The policy lost its entropy and did not get it back.

    Entropy pays for reward (R = -a exp(H) + b in published fits), so a decline is the price of
    learning; below half of the start, policies explore less and less. Healthy runs go there too, so
    a fall that no other class of evidence shows is information above a fifth of the start and a
    warning below. The start is the median of the first five rows: longer baselines hide a collapse
    that begins at once. A fall of less than 0.1 nats is nothing, however small the start. Where the
    unit is unknown the ratio is judged, not the number. [H]

    Remedy: go back to before entropy halved; a lower learning rate, a higher upper clip range
    (0.28), a KL penalty or a higher sampling temperature keep it up.
    """
    entropy = track(run, "entropy", "entropy_unknown")
    start = start_level(entropy.values)
    if start <= 0.0:
        yield Skip("", (f"{entropy.metric}: not positive at the start, so no entropy in nats",))
        return
    floor = min(limits.fall * start, start - limits.least)
    yield from alarms(
        run,
        entropy,
        below=floor,
        patience=limits.patience,
        weak=lambda level: "warning" if level < limits.deep * start else "info",
    )
