"""Training reward that falls."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Severity, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._reward import blocks, change


@dataclass(frozen=True, slots=True)
class Limits:
    """How sure, how large, and how much of what was gained."""

    standard_errors: float = 4.0  # between the best and the last fifth of the run
    effect: float = 1.0  # standard deviations of the rows, likewise: worth a line
    large: float = 2.0  # standard deviations of the rows: a fault
    material: float = 0.2  # of the best level or of the last, whichever is larger
    gain: float = 0.5  # share that was lost of what the run had gained until then


@rule(
    "RWD008",
    signal="reward",
    needs=["reward_raw_mean", "rows>=10"],
    zeros=True,
    limits=Limits,
    text="reward falls from {best:.3g} to {level:.3g} by the end of the run "
    "({effect:.1f} standard deviations of its rows; {start:.3g} at the start)",
    brief="reward {best:.3g} -> {level:.3g}",
)
def reward_falls(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The run ends with a lower reward than it had reached: it made the policy worse.

    Fifths of the run (five rows at least) are compared, the best with the last. Batches of few
    prompts are noisy, and curricula, growing penalties and harder prompts lower the reward of sound
    runs a little; so the fall must be four standard errors and a standard deviation to be
    worth a line, and two, with half of what had been gained and a fifth of the level lost, to be a
    fault. A learning rate that is too high, a value model that diverges and a policy that ran away
    look like this. [H]

    Remedy: go back to the best fifth; lower the learning rate; if prompts grew harder on purpose,
    judge by a held-out score instead.
    """
    reward = track(run, "reward_raw_mean")
    parts = blocks(len(reward), 5)
    changes = [(part, change(reward.values[part], reward.values[parts[-1]])) for part in parts[:-1]]
    part, lost = max(changes, key=lambda item: item[1].before)
    if lost.errors > -limits.standard_errors or lost.effect > -limits.effect:
        return
    start = changes[0][1].before
    level = max(abs(lost.before), abs(lost.after))
    grave = (
        lost.effect <= -limits.large
        and -lost.gain >= limits.material * level
        and -lost.gain >= limits.gain * (lost.before - start)
    )
    severity: Severity = "critical" if grave else "info"
    last = len(reward) - 1
    first = parts[-1].start
    yield Finding(
        severity,
        (metric_evidence(run, reward, first, last, lost.after, limit_low=lost.before),),
        {"best": lost.before, "level": lost.after, "effect": -lost.effect, "start": start},
        onset=Onset(
            reward.steps[part.stop], reward.steps[part.start], reward.steps[parts[-1].stop - 1]
        ),
    )
