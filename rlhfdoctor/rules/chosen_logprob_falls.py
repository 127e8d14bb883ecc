"""Log-probability of the chosen answers that falls far below the start."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median

from rlhfdoctor.measures import Track, logged, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._alarm import alarms
from rlhfdoctor.series import start_level


@dataclass(frozen=True, slots=True)
class Limits:
    """How far is too far."""

    fall: float = 0.5  # of the start's magnitude
    patience: int = 5  # consecutive logged rows


@rule(
    "DPO001",
    signal="logp",
    needs=["logp_chosen", "rows>=8"],
    limits=Limits,
    text="log-probability of the chosen answers falls from {start:.4g} to {level:.4g} "
    "nats/response for {rows} logged rows",
    brief="chosen log-probability {start:.3g} -> {level:.3g} nats",
)
def chosen_logprob_falls(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The policy unlearns the very answers that it should prefer.

    Both log-probabilities fall in every DPO run while the margin grows, the chosen one slowly. A
    fall of half its magnitude is at least 0.5 nats a token for answers of ordinary perplexity:
    displacement, or a learning rate ten times too high (DPO 36: 4.6e-4; LLaMA-Factory 7734: 1e-4).
    Where beta is in the configuration, each row's own start is known, logps / chosen minus
    rewards / chosen over beta: the same answers under the reference. Otherwise the start is the
    median of the first rows. [H]

    Remedy: lower the learning rate ten times, then beta, then add a supervised term (RPO,
    ``pref_ftx``); the best checkpoint is usually that of the first epoch.
    """
    logp, start = _from_start(run)
    if start >= 0.0:
        yield Skip("", ("logp_chosen: not negative at the start, so no log-probability",))
        return
    yield from alarms(
        run,
        logp,
        below=start - limits.fall * abs(start),
        patience=limits.patience,
        args={"start": start},
    )


def _from_start(run: Run) -> tuple[Track, float]:
    """Return the log-probability and its start; with beta known, without the batches' noise."""
    logp, beta = track(run, "logp_chosen"), run.number("kl_coef")
    if not beta or not logged(run, "dpo_reward_chosen"):
        return logp, start_level(logp.values)
    rewards = track(run, "dpo_reward_chosen")
    if rewards.column.unit != "nats*beta" or rewards.placeholder:
        return logp, start_level(logp.values)
    falls = {step: value / beta for step, value in zip(rewards.steps, rewards.values, strict=True)}
    rows = [
        (step, value, falls[step])
        for step, value in zip(logp.steps, logp.values, strict=True)
        if step in falls
    ]
    if 2 * len(rows) < len(logp):
        return logp, start_level(logp.values)
    start = median(value - fall for _, value, fall in rows)
    steps, values = [step for step, _, _ in rows], [start + fall for _, _, fall in rows]
    return replace(logp, steps=steps, values=values), start
