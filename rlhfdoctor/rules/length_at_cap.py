"""Responses that all have the length of the limit, from the first row on."""

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
    """How near the limit, how often, and from how many rows."""

    near: float = 0.99  # of the limit; a mean this near leaves hardly an answer that ended
    share: float = 0.9  # share of the logged rows
    rows: int = 10  # logged rows from which a length that repeats shows an unknown limit
    least: int = 16  # tokens; shorter limits belong to short-answer tasks


@rule(
    "LEN007",
    signal="length",
    needs=["response_length_mean", "rows>=2"],
    limits=Limits,
    text="mean response length is at {cap:g} {unit} in {count} of {rows} logged rows, {which}: "
    "hardly any answer ends by itself; the reward {reward}",
    brief="length at its cap of {cap:g} throughout",
)
def length_at_cap(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Every answer is as long as it may be, from the first row to the last.

    Trainers that log no share of cut answers show it by a mean that never leaves one number: the
    configured limit, or the greatest length of the run in nine rows of ten. Where the reward is
    stuck at one value beside it, answers are cut before they can earn: a warning. Where the reward
    moves, the limit may be what the task asks for (texts of a fixed length), hence information.
    Where the share of cut answers is logged, LEN003 and LEN009 judge that. [H]

    Remedy: raise the length limit; check that the prompt template and the end-of-sequence token are
    those the model was trained with; judge the reward on answers that were not cut.
    """
    if finite_rows(run, "truncation_rate"):
        return
    length, reward = track(run, "response_length_mean"), reward_of(run)
    limit = run.number("max_response_length")
    if limit is None and len(length) < limits.rows:
        yield Skip("", ("config.max_response_length", f"rows>={limits.rows}"))
        return
    cap = max(length.values) if limit is None else limit
    near = [value >= limits.near * cap for value in length.values]
    if cap < limits.least or sum(near) < limits.share * len(near):
        return
    earns_nothing = reward is not None and len(reward) > 1 and stuck(reward.values)
    said = f"is stuck at {median(reward.values):.3g}" if reward and earns_nothing else "moves"
    first = near.index(True)
    yield Finding(
        "warning" if earns_nothing else "info",
        (
            metric_evidence(
                run,
                length,
                first,
                len(length) - 1,
                end_level(length.values),
                limit_high=limits.near * cap,
            ),
        ),
        {
            "cap": cap,
            "unit": length.column.unit,
            "count": sum(near),
            "rows": len(near),
            "which": "the greatest of the run" if limit is None else "the configured limit",
            "reward": said if reward else "is not logged",
        },
        onset=Onset(length.steps[0], length.steps[0], length.steps[0]),
    )
