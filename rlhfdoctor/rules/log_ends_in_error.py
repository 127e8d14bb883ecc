"""A console log that ends with an exception."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import logged, track
from rlhfdoctor.model import Evidence, Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.series import end_level, start_level

MEMORY = re.compile(r"out of memory|OOM|cannot allocate memory", re.IGNORECASE)
"""What the messages of an exhausted memory have in common."""

WAITED = re.compile(
    r"watchdog|Timeout\(ms\)|collective.*time|NCCL.*timeout|Read timed out", re.IGNORECASE
)
"""What those of a process that waited in vain for another have in common."""


@dataclass(frozen=True, slots=True)
class Limits:
    """When memory ran out because the responses grew."""

    longer: float = 2.0  # times the mean response length of the first rows
    rows: int = 5  # logged rows of each end


@rule(
    "LOG004",
    signal="log",
    needs=["config.ended_with"],
    limits=Limits,
    text="the program ended with: {error}{hint}",
    brief="ended with {error}",
)
def log_ends_in_error(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The console log ends with an exception, or with the message of a killed process.

    It says why the process stopped, not how the policy fared until then: a full disk ends a healthy
    run as well. So it is information, and no verdict rests on it. Two messages name a symptom:
    memory that ran out after the responses grew to twice their length ran out because of it [H],
    and a watchdog (``Timeout(ms)=1800000``, open-r1 658) reports the process that waited, not the
    one that failed: a reward function that raised (``math_verify`` timeouts) or a metric that only
    some processes log (TRL 7310) leaves the others waiting.

    Remedy: mend what the message names, then resume from the last complete checkpoint.
    """
    ended = run.config["ended_with"]
    last = run.last_step
    yield Finding(
        "info",
        (
            Evidence(
                kind="log",
                subject="ended_with",
                observed=str(ended.value),
                where=ended.where,
                unit="text",
                last_step=last,
            ),
        ),
        {"error": str(ended.value), "hint": _hint(run, str(ended.value), limits)},
        onset=None if last is None else Onset(last, last, last),
    )


def _hint(run: Run, error: str, limits: Limits) -> str:
    """Say what to look at before the message itself; "" where it speaks for itself."""
    if WAITED.search(error):
        return "; another process failed first: look for an exception before it, in the reward too"
    if MEMORY.search(error) and logged(run, "response_length_mean"):
        lengths = track(run, "response_length_mean").values
        before, after = (level(lengths, limits.rows) for level in (start_level, end_level))
        if after >= limits.longer * before > 0.0:
            return f"; the responses had grown from {before:.4g} to {after:.4g} tokens"
    return ""
