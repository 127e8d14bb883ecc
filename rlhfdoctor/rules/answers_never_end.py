"""No answer ever ends by itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from rlhfdoctor.measures import finite_rows, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._reward import reward_of, stuck
from rlhfdoctor.series import end_level


@dataclass(frozen=True, slots=True)
class Limits:
    """When the zeros are believed."""

    cut: float = 0.5  # least share of cut answers, where logged, that agrees with the zeros


@rule(
    "LEN008",
    signal="length",
    any_of=[
        "num_eos_tokens",
        "eos_rate",
        "num_terminated",
        "response_length_terminated_mean",
    ],
    needs=["rows>=2"],
    zeros=True,
    limits=Limits,
    text="no answer ends by itself in any of {count} logged rows ({key} is 0 in all of them); the "
    "reward {reward}",
    brief="no answer ever ends",
)
def answers_never_end(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Not one answer of the run ended with an end-of-sequence token.

    Trainers count finished answers, or average over them and log 0 where there are none. Zeros in
    every row mean that each answer was cut: a limit that is too low, a tokenizer whose pad token is
    the end token and was masked in training (TRL 3750), a template that does not ask for an end.
    TRL's PPO counts the tokens of rank 0 in the last batch, and texts that only continue a prompt
    have no end to find there, so by itself it is information; beside a reward that is stuck at one
    value it is what keeps the reward there: a warning. Zeros beside a share of cut answers below
    one half contradict it and were never computed. [H]

    Remedy: raise the length limit; check the end-of-sequence token and the stop token of the
    trainer (TRL: ``stop_token eos`` with ``missing_eos_penalty``), and that pad is not eos.
    """
    ended = track(
        run,
        "num_eos_tokens",
        "eos_rate",
        "num_terminated",
        "response_length_terminated_mean",
    )
    if not ended.placeholder or _contradicted(run, limits):
        return
    reward = reward_of(run)
    nothing = reward is not None and len(reward) > 1 and stuck(reward.values)
    said = f"is stuck at {median(reward.values):.3g}" if reward and nothing else "moves"
    last = len(ended) - 1
    yield Finding(
        "warning" if nothing else "info",
        (metric_evidence(run, ended, 0, last, 0.0, limit_low=0.0),),
        {
            "count": len(ended),
            "key": ended.column.sources[0].key,
            "reward": said if reward else "is not logged",
        },
        onset=Onset(ended.steps[0], ended.steps[0], ended.steps[0]),
    )


def _contradicted(run: Run, limits: Limits) -> bool:
    if not finite_rows(run, "truncation_rate"):
        return False
    return end_level(track(run, "truncation_rate").values) < limits.cut
