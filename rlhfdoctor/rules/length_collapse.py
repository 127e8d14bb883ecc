"""Response length that collapses to a small share of the run's own start."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import Track, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Severity, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._reward import blocks, change, falls, reward_of, rises
from rlhfdoctor.series import end_level, onset, start_level, stretches


@dataclass(frozen=True, slots=True)
class Limits:
    """What is left of the length, and what the reward did meanwhile."""

    fall: float = 0.5  # of the run's own start: worth a line
    deep: float = 0.25  # of the run's own start: a collapse, where nothing was earned by it
    few: float = 8.0  # tokens; answers shorter than this hardly say anything
    hint: float = 2.0  # standard errors from which the reward may have risen
    material: float = 0.2  # of the reward's level: what a reward that falls must lose at least
    patience: int = 5  # consecutive logged rows
    short: int = 2  # the same in a log of fewer than twice the patience


@rule(
    "LEN006",
    signal="length",
    needs=["response_length_mean", "rows>=3"],
    limits=Limits,
    text="mean response length falls from {start:.4g} to {level:.4g} {unit} and stays there "
    "for {rows} logged rows; the reward {meanwhile}",
    brief="length {start:.3g} -> {level:.3g}",
)
def length_collapse(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The policy's answers shrink to a small share of what they were, and stay short.

    Answers that are cut and punished, a KL that is summed over the answer and a loss averaged over
    each answer all pay for brevity, down to the bare end-of-sequence token. Short-answer tasks
    shrink their answers for good reason and earn by it, so a fall with a reward that rises, or may
    have risen, is information; brevity may cost a little, too. Below a quarter of the start it is
    a fault where a fifth of the reward is lost with it, and where answers of a few tokens are left
    that earn no more than the long ones did. The start is the median of the first rows; short logs
    are judged by their first rows against their last two, as information. [H]

    Remedy: raise the length limit or punish overlong answers softly, average the loss over tokens
    instead of answers, do not sum the KL over the answer; check what an empty answer earns.
    """
    length, reward = track(run, "response_length_mean"), reward_of(run)
    brief = len(length) < 2 * limits.patience
    patience = limits.short if brief else limits.patience
    start = length.values[0] if brief else start_level(length.values)
    floor = limits.fall * start
    low = stretches(length.values, lambda value: value < floor, patience)
    if not low or start <= 0.0 or low[-1][1] < len(length) - 1:
        return
    first, last = low[-1]
    level = end_level(length.values, patience)
    meanwhile, lost = _meanwhile(reward.values if reward else [], limits)
    bad = level < limits.deep * start and (
        lost or (meanwhile == STAYS and level < min(limits.few, length.values[0]))
    )
    severity: Severity = "critical" if bad and not brief else "info"
    yield Finding(
        severity,
        (metric_evidence(run, length, first, last, level, limit_low=floor),),
        {
            "start": start,
            "level": level,
            "unit": length.column.unit,
            "rows": last - first + 1,
            "meanwhile": meanwhile,
        },
        onset=_onset(length, first, patience, brief=brief),
    )


STAYS = "does not rise"


def _meanwhile(reward: list[float], limits: Limits) -> tuple[str, bool]:
    """Return what the reward did, in words, and whether much of it was lost."""
    if len(reward) < 2 * limits.patience:
        return ("rises" if reward and reward[-1] > reward[0] else "says nothing"), False
    parts = blocks(len(reward), limits.patience)
    paid = change(reward[parts[0]], reward[parts[-1]])
    if falls(reward) and paid.loses(limits.material):
        return "falls", True
    return ("rises" if rises(reward, limits.hint) else STAYS), False


def _onset(length: Track, first: int, patience: int, *, brief: bool) -> Onset:
    if brief:
        return Onset(length.steps[first], length.steps[0], length.steps[first])
    return onset(length.steps, length.values, first, patience)
