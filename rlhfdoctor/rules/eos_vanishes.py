"""End-of-sequence tokens that vanish from the batch."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._alarm import alarms
from rlhfdoctor.series import start_level


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as vanished."""

    fall: float = 0.25  # of the run's own start
    patience: int = 5  # consecutive logged rows


@rule(
    "LEN004",
    signal="length",
    any_of=["num_eos_tokens", "eos_rate"],
    needs=["rows>=8"],
    limits=Limits,
    text="responses that end by themselves fall from {start:.3g} to {level:.3g} {unit}",
    brief="finished responses {start:.3g} -> {level:.3g}",
)
def eos_vanishes(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The policy stops ending its answers.

    Trainers that log no truncation share often count finished responses instead; a quarter of the
    start is far outside the noise of a batch. TRL's ``val/num_eos_tokens`` counts rank 0 only,
    which does not matter for a ratio. [H]

    Remedy: as for LEN003.
    """
    finished = track(run, "eos_rate", "num_eos_tokens")
    start = start_level(finished.values)
    if start <= 0.0:
        yield Skip("", (f"{finished.metric}: zero at the start, so nothing can vanish",))
        return
    yield from alarms(run, finished, below=limits.fall * start, patience=limits.patience)
