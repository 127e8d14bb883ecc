"""Log-probability of the chosen answers that falls far below the start."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from statistics import median

from rlhfdoctor.measures import Track, best, logged, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._alarm import alarms
from rlhfdoctor.rules._ladder import standing_from
from rlhfdoctor.series import start_level


@dataclass(frozen=True, slots=True)
class Limits:
    """How far is too far."""

    fall: float = 0.5  # of the start's magnitude
    least: float = 20.0  # nats per response besides, where sums are logged
    nats: float = 1.0  # nats per token besides, where token means are logged
    patience: int = 5  # consecutive logged rows
    rows: int = 8  # logged rows of training; of evaluations two are enough


@rule(
    "DPO001",
    signal="logp",
    any_of=["logp_chosen", "logp_chosen_token", "eval_logp_chosen"],
    limits=Limits,
    text="log-probability of the chosen answers falls from {start:.4g} to {level:.4g} "
    "{unit} for {rows} logged {what}",
    brief="chosen log-probability {start:.3g} -> {level:.3g} nats",
)
def chosen_logprob_falls(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The policy unlearns the very answers that it should prefer.

    Both log-probabilities fall in every DPO run while the margin grows, the chosen one slowly. A
    fall of half its magnitude is at least 0.5 nats a token for answers of ordinary perplexity:
    displacement, or a learning rate ten times too high (DPO 36: 4.6e-4; LLaMA-Factory 7734: 1e-4).
    Where beta is in the configuration, each row's own start is known, logps / chosen minus
    rewards / chosen over beta: the same answers under the reference. Otherwise the start is the
    median of the first rows. Answers of a few words begin at 25 nats and lose half of that while a
    sound margin grows, so the fall must be 20 nats as well: two of the reward at the usual beta of
    0.1. Where only token means are logged (ORPO, SimPO) the fall must be a
    whole nat a token as well: policies that sampled their own answers begin at 0.3, and SimPO lets
    them fall. Where training logs neither, evaluations are asked: the same answers each time, so
    two tell. [H]

    Remedy: lower the learning rate ten times, then beta, then add a supervised term (RPO,
    ``pref_ftx``); the best checkpoint is usually that of the first epoch.
    """
    metric = best(run, ("logp_chosen", "logp_chosen_token"))
    if metric is None:
        yield from _in_evaluation(run, limits)
        return
    logp, start = _from_start(run) if metric == "logp_chosen" else _first_rows(run, metric)
    if len(logp) < limits.rows:
        yield Skip("", (f"rows>={limits.rows}",))
        return
    if start >= 0.0:
        yield Skip("", (f"{metric}: not negative at the start, so no log-probability",))
        return
    least = limits.nats if metric == "logp_chosen_token" else limits.least
    yield from alarms(
        run,
        logp,
        below=start - max(limits.fall * abs(start), least),
        patience=limits.patience,
        args={"start": start, "what": "rows"},
    )


def _in_evaluation(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Hold the last evaluations against the first."""
    logp = track(run, "eval_logp_chosen")
    start = logp.values[0]
    if len(logp) < 2 or start >= 0.0:
        yield Skip("", ("two evaluations of a log-probability",))
        return
    floor = start - max(limits.fall * abs(start), limits.least)
    first = standing_from([value < floor for value in logp.values])
    if first is None:
        return
    level = logp.values[-1]
    yield Finding(
        "critical",
        (metric_evidence(run, logp, first, len(logp) - 1, level, limit_low=floor),),
        {
            "start": start,
            "level": level,
            "unit": logp.column.unit,
            "rows": len(logp) - first,
            "what": "evaluations",
        },
        onset=Onset(logp.steps[first], logp.steps[first - 1] + 1, logp.steps[first]),
    )


def _first_rows(run: Run, metric: str) -> tuple[Track, float]:
    logp = track(run, metric)
    return logp, start_level(logp.values)


def _from_start(run: Run) -> tuple[Track, float]:
    """Return the log-probability and its start; with beta known, without the batches' noise."""
    logp, beta = track(run, "logp_chosen"), run.number("kl_coef")
    if not beta or not logged(run, "dpo_reward_chosen"):
        return _first_rows(run, "logp_chosen")
    rewards = track(run, "dpo_reward_chosen")
    if rewards.column.unit != "nats*beta" or rewards.placeholder:
        return _first_rows(run, "logp_chosen")
    falls = {step: value / beta for step, value in zip(rewards.steps, rewards.values, strict=True)}
    rows = [
        (step, value, falls[step])
        for step, value in zip(logp.steps, logp.values, strict=True)
        if step in falls
    ]
    if 2 * len(rows) < len(logp):
        return _first_rows(run, "logp_chosen")
    start = median(value - fall for _, value, fall in rows)
    steps, values = [step for step, _, _ in rows], [start + fall for _, _, fall in rows]
    return replace(logp, steps=steps, values=values), start
