"""A clip range that no one is known to use."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._config import samples_itself, setting_evidence

_RANGES = ("clip_range", "clip_range_low", "clip_range_high")


@dataclass(frozen=True, slots=True)
class Limits:
    """What is in use."""

    low: float = 0.1  # distance of the ratio from 1, over tokens
    high: float = 0.3  # distance of the ratio from 1, over tokens
    sequence_low: float = 1e-4  # the same over sequences (GSPO)
    sequence_high: float = 1e-3  # the same over sequences (GSPO)


@rule(
    "CFG007",
    signal="config",
    any_of=[f"config.{name}" for name in _RANGES],
    limits=Limits,
    text="{told}: known are {low:g} to {high:g} over tokens, {sequence_low:g} to {sequence_high:g} "
    "over sequences",
    brief="{told}",
)
def clip_range(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The importance ratio is clipped at an unusual distance from 1.

    The PPO paper compared 0.1, 0.2 and 0.3; TRL and verl default to 0.2, DAPO clips high at 0.28,
    GSPO over whole sequences at 3e-4 and 4e-4. Narrower than any of these nearly every token is
    clipped and little is learnt; wider, clipping does nothing. Methods that clip the weights
    instead (CISPO, IS caps of 2 to 10) are outside on purpose. Information only.

    Remedy: 0.2, with an upper bound of 0.28 where the entropy falls.
    """
    if not samples_itself(run):
        yield Skip("", ("an algorithm that clips the ratio",))
        return
    widths = {name: run.number(name) for name in _RANGES}
    odd = {
        name: width
        for name, width in widths.items()
        if width is not None
        and not limits.low <= width <= limits.high
        and not limits.sequence_low <= width <= limits.sequence_high
    }
    if odd:
        yield Finding(
            "info",
            tuple(
                setting_evidence(run, name, unit="1", low=limits.low, high=limits.high)
                for name in odd
            ),
            {"told": ", ".join(f"{name} {width:g}" for name, width in odd.items())},
        )
