"""Reward that rose and has stopped rising."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import metric_evidence, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._reward import blocks, change
from rlhfdoctor.series import halves_differ


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as a rise, and as its end."""

    standard_errors: float = 4.0  # between the first and the last quarter of the run
    hint: float = 2.0  # standard errors within the second half; fewer are a plateau
    share: float = 0.1  # of the whole gain that the second half may still have added


@rule(
    "RWD010",
    signal="reward",
    needs=["reward_raw_mean", "rows>=20"],
    zeros=True,
    limits=Limits,
    text="reward rose from {start:.3g} to {level:.3g} in the first half of the run and no further",
    brief="reward on a plateau at {level:.3g}",
)
def reward_saturated(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The reward is on a plateau: what it can teach has been learnt.

    Near its ceiling most answers of a group earn the same and the gradient fades (E2); steps after
    that cost compute and let the policy drift. Information: where to stop. [H]

    Remedy: stop, or harder prompts; choose the checkpoint by a held-out score.
    """
    reward = track(run, "reward_raw_mean")
    parts = blocks(len(reward), 5, 4)
    whole = change(reward.values[parts[0]], reward.values[parts[-1]])
    late = reward.values[len(reward) // 2 :]
    ends = blocks(len(late), 5, 2)
    added = change(late[ends[0]], late[ends[-1]])
    flat = abs(halves_differ(late)) < limits.hint and abs(added.gain) < limits.share * whole.gain
    if whole.errors > limits.standard_errors and flat:
        first = len(reward) // 2
        yield Finding(
            "info",
            (metric_evidence(run, reward, first, len(reward) - 1, whole.after),),
            {"start": whole.before, "level": whole.after},
        )
