"""What the rules of preference training share: rewards against a reference, paired with margins."""

from __future__ import annotations

from dataclasses import replace

from rlhfdoctor.measures import Track, common, logged, track
from rlhfdoctor.model import Run

REFERENCE_FREE = ("ORPO", "SimPO", "CPO")
"""Algorithms whose rewards are the log-probabilities themselves, far from 0 at the start."""


def reference_free(run: Run) -> bool:
    """Say whether no reference is in the run's rewards ("ORPO or SimPO" included)."""
    return any(name in run.algorithm for name in REFERENCE_FREE)


def against_reference(run: Run, metric: str) -> Track | None:
    """Return a reward that is beta x a log-ratio to a reference; None where it is logged as none.

    The unit tells: what has no reference, or no beta, has another.
    """
    if not logged(run, metric):
        return None
    found = track(run, metric)
    return found if found.column.unit == "nats*beta" else None


def rewards_and_margins(run: Run, prefix: str) -> tuple[Track, list[float]] | None:
    """Return the chosen reward and the margin at the steps that have both; None where none has.

    prefix: "" for training, "eval_" for evaluations. Where no margin is logged it is the difference
    of the rewards.
    """
    chosen = against_reference(run, f"{prefix}dpo_reward_chosen")
    margin = against_reference(run, f"{prefix}dpo_margin")
    rejected = against_reference(run, f"{prefix}dpo_reward_rejected")
    other = margin or rejected
    if chosen is None or other is None:
        return None
    values, others = common(chosen, other)
    if not values:
        return None
    there = set(other.steps)
    steps = [step for step in chosen.steps if step in there]
    margins = others if margin else [a - b for a, b in zip(values, others, strict=True)]
    return replace(chosen, steps=steps, values=values), margins
