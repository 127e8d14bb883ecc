"""What a run logs about prompts that it does not train on, or about solving its task."""

from __future__ import annotations

from rlhfdoctor.measures import Track, finite_rows, track
from rlhfdoctor.model import Run
from rlhfdoctor.vocabulary import metric_of

HELD_OUT = ("heldout_score", "heldout_reward", "heldout_rate", "success_rate")
"""Metrics of held-out prompts, and the share of solved tasks."""

BETTER = ("heldout_score", "heldout_reward", "success_rate", "reward_raw_mean")
"""Those of which more is better."""

BOOKKEEPING = ("num_tokens", "batch_tokens", "num_samples", "step_time", "throughput", "lr")
"""Metrics that say nothing of the policy, also where they stand in an evaluation's row."""


def name_of(column: str) -> str:
    """Return the canonical name behind a column, whatever split and part it belongs to."""
    metric = metric_of(column)
    return metric.name if metric else column


def held_out(run: Run) -> list[Track]:
    """Return every held-out quantity of a run, in the order of its columns."""
    return [
        track(run, column)
        for column in run.columns
        if (name_of(column) in HELD_OUT or column.startswith("eval_"))
        and name_of(column) not in BOOKKEEPING
        and finite_rows(run, column)
    ]


def rewarding(tracks: list[Track]) -> list[Track]:
    """Return those of which more is better."""
    return [found for found in tracks if name_of(found.metric) in BETTER]
