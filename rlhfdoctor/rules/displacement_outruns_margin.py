"""Chosen answers that become unlikely while the margin hardly grows."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import Track, metric_evidence
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._ladder import standing_from
from rlhfdoctor.rules._preference import rewards_and_margins
from rlhfdoctor.series import end_level, onset


@dataclass(frozen=True, slots=True)
class Limits:
    """How far the chosen reward falls, by itself and for the margin that it buys."""

    times: float = 5.0  # fall of the chosen reward, over the margin
    fall: float = 5.0  # nats*beta of the chosen reward, where beta is not known
    nats: float = 50.0  # nats per response of the chosen answers, where beta is known
    rows: int = 8  # logged rows of training; of evaluations two are enough
    patience: int = 5  # last logged rows of training whose median is judged


@rule(
    "DPO004",
    signal="logp",
    any_of=["dpo_reward_chosen", "eval_dpo_reward_chosen"],
    limits=Limits,
    text="the chosen reward falls from {start:.3g} to {level:.3g} nats*beta{where} for a margin of "
    "{margin:.3g}: chosen and rejected answers become unlikely together",
    brief="chosen reward {start:.2g} -> {level:.3g} for a margin of {margin:.2g}",
)
def displacement_outruns_margin(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The policy gives up the chosen answers and learns next to nothing for it.

    A preference loss sees the margin alone, so it lets both log-probabilities fall; the chosen one
    falls slowly in an ordinary run, by a fraction of the margin up to twice it (Zephyr's published
    run ends near -4.5 for a margin of 3.8). A fall of five times the margin is likelihood
    displacement: the probability goes to answers that are neither, and the loss, barely below ln 2,
    says nothing of it (DPO 8, DPO 36). Five nats*beta are 50 nats a response at the usual beta of
    0.1. An evaluation asks the same pairs each time, so two tell; in training the median of the
    last rows does. [H]

    Remedy: lower the learning rate ten times, then add a supervised term (RPO, ``pref_ftx``); leave
    out pairs whose two answers are nearly alike; read samples, which often loop by then.
    """
    training, held_out = (rewards_and_margins(run, prefix) for prefix in ("", "eval_"))
    beta = run.number("kl_coef")
    floor = limits.nats * beta if beta else limits.fall
    looked = False
    if training and len(training[0]) >= limits.rows:
        looked = True
        chosen, margins = training
        level = end_level(chosen.values, limits.patience)
        margin = end_level(margins, limits.patience)
        if _outruns(chosen.values[0] - level, margin, floor, limits):
            low = next(i for i, value in enumerate(chosen.values) if _fell(chosen, value, floor))
            when = onset(chosen.steps, chosen.values, low, limits.patience)
            yield _finding(run, chosen, low, level, margin, floor, "", when)
            return
    if held_out and len(held_out[0]) > 1:
        looked = True
        chosen, margins = held_out
        bad = standing_from(
            [
                _outruns(chosen.values[0] - value, margin, floor, limits)
                for value, margin in zip(chosen.values, margins, strict=True)
            ]
        )
        if bad is not None:
            when = Onset(chosen.steps[bad], chosen.steps[bad - 1] + 1, chosen.steps[bad])
            level, margin = chosen.values[-1], margins[-1]
            yield _finding(run, chosen, bad, level, margin, floor, " in evaluation", when)
            return
    if not looked:
        wanted = f"rewards in nats*beta with their margins, {limits.rows} rows or two evaluations"
        yield Skip("", (wanted,))


def _outruns(fall: float, margin: float, floor: float, limits: Limits) -> bool:
    return fall >= floor and fall >= limits.times * max(margin, 0.0)


def _fell(chosen: Track, value: float, floor: float) -> bool:
    return chosen.values[0] - value >= floor


def _finding(
    run: Run,
    chosen: Track,
    first: int,
    level: float,
    margin: float,
    floor: float,
    where: str,
    when: Onset,
) -> Finding:
    start = chosen.values[0]
    evidence = metric_evidence(run, chosen, first, len(chosen) - 1, level, limit_low=start - floor)
    return Finding(
        "warning",
        (evidence,),
        {"start": start, "level": level, "margin": margin, "where": where},
        onset=when,
    )
