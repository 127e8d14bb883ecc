"""Reward that rises with response length."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from rlhfdoctor.measures import (
    Batch,
    common,
    logged,
    metric_evidence,
    sample_evidence,
    track,
)
from rlhfdoctor.model import Evidence, Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._ladder import longest, rewarded
from rlhfdoctor.series import correlation, end_level, start_level


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as following, and when it matters."""

    correlation: float = 0.8  # Pearson's r over logged rows
    within: float = 0.5  # mean Pearson's r between responses of one sampled step
    growth: float = 1.5  # mean length at the end over that at the start
    share: float = 0.5  # share of responses at the limit from which it is a warning
    fewest: int = 8  # responses a sampled step


@rule(
    "RWD001",
    signal="reward",
    any_of=["reward_raw_mean", "samples.reward"],
    zeros=True,
    limits=Limits,
    text="reward rises with response length ({how}), while the length grows from {start:.4g} to "
    "{level:.4g}",
    brief="reward follows length",
)
def reward_follows_length(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The reward pays for length.

    Two series that both rise correlate whatever they are, so the correlation over logged rows is
    asked for only where lengths grew, and the correlation between the responses of one sampled
    step, where there is a sample file, must not contradict it. Reasoning runs grow reward and
    length together and are healthy: it is a warning only where most responses end at the length
    limit, information otherwise. [H]

    Remedy: normalise the reward by length, penalise overlong answers (DAPO), use a token-level loss
    instead of a mean over each response (Dr. GRPO).
    """
    files = rewarded(run, limits.fewest)
    within = _within(files)
    in_log = logged(run, "reward_raw_mean") and logged(run, "response_length_mean")
    if not in_log and within is None:
        yield Skip("", ("response_length_mean", "samples.reward"))
        return
    evidence: list[Evidence] = []
    how: list[str] = []
    starts: list[float] = []
    levels: list[float] = []
    at_limit = _ends_at_limit(run, files, limits.share)
    if in_log:
        reward, length = track(run, "reward_raw_mean"), track(run, "response_length_mean")
        r = correlation(*common(reward, length))
        if r is None or r < limits.correlation:
            return
        evidence.append(
            metric_evidence(run, reward, 0, len(reward) - 1, r, limit_high=limits.correlation)
        )
        how.append(f"r = {r:.2f} over logged rows")
        starts.append(start_level(length.values))
        levels.append(end_level(length.values))
    if within is not None:
        if within < limits.within:
            return
        ladder = files[0]
        evidence.append(
            sample_evidence(
                ladder[0],
                ladder[-1],
                "samples.reward",
                within,
                unit="correlation with length",
                limit_high=limits.within,
            )
        )
        how.append(f"r = {within:.2f} between the responses of a step")
        starts.append(ladder[0].mean_length)
        levels.append(ladder[-1].mean_length)
    if levels[0] < limits.growth * starts[0]:
        return
    yield Finding(
        "warning" if at_limit else "info",
        tuple(evidence),
        {"how": ", ".join(how), "start": starts[0], "level": levels[0]},
    )


def _within(files: list[list[Batch]]) -> float | None:
    """Return the mean correlation of reward and length between the responses of each step."""
    found = []
    for ladder in files:
        for batch in ladder:
            lengths = [float(item.length) for item in batch.items]
            rewards = [item.reward for item in batch.items if item.reward is not None]
            r = correlation(lengths, rewards)
            if r is not None:
                found.append(r)
    return fmean(found) if found else None


def _ends_at_limit(run: Run, files: list[list[Batch]], share: float) -> bool:
    if logged(run, "truncation_rate"):
        return end_level(track(run, "truncation_rate").values) > share
    return any(ladder[-1].share_of_length(longest(ladder)) > share for ladder in files)
