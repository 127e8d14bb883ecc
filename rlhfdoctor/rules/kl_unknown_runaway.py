"""A KL whose unit is unknown, many times what it was."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from rlhfdoctor.measures import track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._alarm import alarms
from rlhfdoctor.rules._kl import may_be_distance


@dataclass(frozen=True, slots=True)
class Limits:
    """How far it must have run from its own first quarter."""

    growth: float = 30.0  # times the median of the run's first quarter; a straight line makes 8
    least: float = 1.0  # in whichever unit: below it near per response, not yet far per token
    patience: int = 5  # consecutive logged rows


@rule(
    "KL012",
    signal="kl",
    needs=["kl_unknown", "rows>=10"],
    limits=Limits,
    text="a KL of unknown unit is more than {growth:g} times that of the run's first quarter "
    "({early:.3g}) for {rows} logged rows ({steps} steps): {level:.3g} at the end",
    brief="KL {early:.2g} -> {level:.3g} (unit unknown)",
)
def kl_unknown_runaway(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """A KL without a unit runs away from its own first quarter.

    No band judges a number whose unit is unknown, and this rule accuses nobody by itself: alone it
    is information. Its shape is evidence all the same, where entropy, length, text or reward went
    wrong as well: a distance that grows in proportion to the steps is 8 times the median of its
    first quarter at the end, and 30 times is a runaway, whatever it is counted in. A KL below 1
    is left out: per response it is near, and per token it is what KL003 would not yet call far.
    Names of a KL to the policy that sampled, or of one with its coefficient inside, are no
    distance. [H]

    Remedy: state the unit with --map, so that it can be judged; recompute it from the checkpoints.
    """
    kl = track(run, "kl_unknown")
    if not may_be_distance(kl.column):
        yield Skip("", ("a KL that its name calls the distance from the reference",))
        return
    early = median(kl.values[: max(len(kl) // 4, limits.patience)])
    if early > 0.0:
        yield from alarms(
            run,
            kl,
            above=max(limits.growth * early, limits.least),
            patience=limits.patience,
            weak=lambda level: "info",
            args={"early": early},
        )
