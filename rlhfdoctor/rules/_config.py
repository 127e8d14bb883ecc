"""What rules about the configuration share: who samples, and what evidence a setting is."""

from __future__ import annotations

from rlhfdoctor.model import Evidence, Onset, Run

SAMPLERS = ("PPO", "GRPO", "RLOO", "REINFORCE")
"""Algorithms that learn from responses of their own policy."""


def algorithms(run: Run) -> frozenset[str]:
    """Return the algorithms that the run may have: two where the log leaves it open."""
    return frozenset(run.algorithm.split(" or "))


def samples_itself(run: Run) -> bool:
    """Say whether every algorithm that the run may have learns from the policy's own responses."""
    return algorithms(run) <= {*SAMPLERS}


def setting_evidence(
    run: Run,
    name: str,
    *,
    unit: str,
    low: float | None = None,
    high: float | None = None,
) -> Evidence:
    """Make evidence of a value of the configuration."""
    setting = run.config[name]
    value = setting.value
    return Evidence(
        kind="config",
        subject=name,
        observed=value if isinstance(value, str) else float(value),
        where=setting.where,
        limit_low=low,
        limit_high=high,
        unit=unit,
    )


def from_the_start(run: Run) -> Onset | None:
    """Date a fault of the configuration: the first logged step, or None without a log."""
    first = run.first_step
    return None if first is None else Onset(first, first, first)
