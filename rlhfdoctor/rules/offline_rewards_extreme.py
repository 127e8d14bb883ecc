"""Rewards of preference training that no policy near its reference can have."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import Track, metric_evidence
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._preference import against_reference
from rlhfdoctor.series import end_level, onset, start_level


@dataclass(frozen=True, slots=True)
class Limits:
    """Which rewards are impossible, at the start and later."""

    at_start: float = 100.0  # nats*beta, either sign, in the first rows
    later: float = 1000.0  # nats*beta, either sign, to the end (LLaMA-Factory 1447)
    rows: int = 3  # first and last logged rows whose median is judged


@rule(
    "DPO007",
    signal="config",
    any_of=["dpo_reward_chosen", "dpo_reward_rejected"],
    needs=["rows>=3"],
    limits=Limits,
    text="{metric} is {level:.4g} nats*beta {when}: no policy near its reference is there",
    brief="{metric} {level:.3g} nats*beta",
)
def offline_rewards_extreme(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The rewards of chosen and rejected answers are of a size that only a fault explains.

    Such a reward is beta x the log-ratio to the reference: about 0 at the start, a few units
    later. At the usual beta of 0.1, 100 are a thousand nats a response. In the first rows that
    means labels that are not shifted, another template, or another tokenizer for one of the two
    models; thousands later (LLaMA-Factory 1447) that, or a policy that is destroyed. [H]

    Remedy: compare policy and reference on one batch before the first update: both must give the
    same log-probabilities; check the shift of the labels, the template, and the reference's path.
    """
    names = ("dpo_reward_chosen", "dpo_reward_rejected")
    tracks = [found for name in names if (found := against_reference(run, name)) is not None]
    if not any(len(found) >= limits.rows for found in tracks):
        yield Skip("", (f"{limits.rows} rows of a reward in nats*beta",))
        return
    for found in tracks:
        first = start_level(found.values, limits.rows)
        last = end_level(found.values, limits.rows)
        if abs(first) > limits.at_start:
            start = Onset(found.steps[0], found.steps[0], found.steps[0])
            yield _finding(run, found, 0, first, "in the first rows", limits.at_start, start)
            return
        if abs(last) > limits.later:
            high = next(i for i, value in enumerate(found.values) if abs(value) > limits.later)
            when = onset(found.steps, found.values, high, limits.rows)
            yield _finding(run, found, high, last, "in the last rows", limits.later, when)
            return


def _finding(
    run: Run, found: Track, first: int, level: float, when: str, limit: float, begun: Onset
) -> Finding:
    low, high = (None, limit) if level > 0.0 else (-limit, None)
    evidence = metric_evidence(
        run, found, first, len(found) - 1, level, limit_low=low, limit_high=high
    )
    args = {"metric": found.metric, "level": level, "when": when}
    return Finding("warning", (evidence,), args, onset=begun)
