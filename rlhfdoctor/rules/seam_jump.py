"""Numbers that jump exactly where a run was resumed."""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from rlhfdoctor.measures import Track, logged, metric_evidence, track
from rlhfdoctor.model import SEVERITIES, Finding, Onset, Run, Severity, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.series import noise

WATCHED = {
    "kl_ref_token": "KL",
    "kl_ref_response": "KL",
    "reward_raw_mean": "reward",
    "response_length_mean": "response length",
    "entropy": "entropy",
    "grad_norm": "gradient norm",
}
"""The columns that are compared across a seam, and what the sentence calls them."""

JUDGED = 20
"""Seams that are looked at, the first of a log: one that has more was never one run."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as a jump."""

    rows: int = 3  # logged rows on each side of the seam
    fall: float = 0.1  # of the KL before; below it the reference was captured anew
    token: float = 0.01  # nats per token, KL before; below it a fall is noise
    response: float = 1.0  # nats per response, likewise
    deviations: float = 6.0  # standard deviations of the row-to-row noise
    share: float = 0.3  # of the level before; a smaller change is none


@rule(
    "REF008",
    signal="log",
    any_of=list(WATCHED),
    limits=Limits,
    text="at step {step}, where the log was resumed: {jumps}{meaning}",
    brief="{jumps} at the resume at step {step}",
)
def seam_jump(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """A metric jumps between the last rows before a resume and the first rows after.

    A resume that restores everything goes on where it was. A KL that falls below a tenth of what it
    was means that the reference was built from the resumed weights (NeMo-RL 3722): every later KL
    and penalty is then measured against the wrong model, a warning; only a recomputation proves it
    (REF005). Reward or length that jump and then follow the old trend mean rollouts from stale
    weights (ms-swift 8275), a gradient norm that spikes for a thousand steps means a lost optimizer
    state; another batch size or data order jumps as well, so these are information. The rows
    compared are those of the steps on both sides, not those that were logged twice. The numbers
    are rules of thumb: the difference of two medians of three rows has about the noise of one. [H]

    Remedy: go back to the last checkpoint before the resume; give the reference by its path,
    restore the optimizer state (look for optimizer.pt) and synchronise the rollout engine's weights
    before the first rollout.
    """
    tracks = [track(run, name) for name in WATCHED if logged(run, name)]
    noises = {item.metric: noise(item.values) for item in tracks}
    for step in list(dict.fromkeys(seam.step for seam in run.seams))[:JUDGED]:
        jumps = [
            jump for item in tracks if (jump := _jump(item, step, noises[item.metric], limits))
        ]
        for severity in SEVERITIES[1:]:
            told = [jump for jump in jumps if jump.severity == severity]
            if told:
                yield _finding(run, step, severity, told, limits)


class _Jump(NamedTuple):
    """A metric that jumps at row ``place`` of its track, and what it is worth."""

    severity: Severity
    track: Track
    place: int
    before: float
    after: float

    @property
    def words(self) -> str:
        """What the sentence says of it."""
        unit = self.track.column.unit
        name = WATCHED[self.track.metric]
        return f"{name} {self.before:.3g} -> {self.after:.3g} {unit}"


def _jump(item: Track, step: int, wobble: float, limits: Limits) -> _Jump | None:
    """Compare the rows on both sides of a seam; None where they go on as they were."""
    place = bisect_left(item.steps, step)
    if min(place, len(item) - place) < limits.rows:
        return None
    before = median(item.values[place - limits.rows : place])
    after = median(item.values[place : place + limits.rows])
    change = abs(after - before)
    if change <= limits.deviations * wobble:
        return None
    least = {"kl_ref_token": limits.token, "kl_ref_response": limits.response}.get(item.metric)
    if least is not None and before >= least and after < limits.fall * before:
        return _Jump("warning", item, place, before, after)
    if change <= limits.share * abs(before):
        return None
    return _Jump("info", item, place, before, after)


def _finding(
    run: Run, step: int, severity: Severity, jumps: Sequence[_Jump], limits: Limits
) -> Finding:
    """Make the finding of one seam."""
    return Finding(
        severity,
        tuple(
            metric_evidence(
                run,
                jump.track,
                jump.place,
                jump.place + limits.rows - 1,
                jump.after,
                limit_low=limits.fall * jump.before if severity == "warning" else None,
            )
            for jump in jumps
        ),
        {
            "step": step,
            "jumps": ", ".join(jump.words for jump in jumps),
            "meaning": ": the reference was captured anew" if severity == "warning" else "",
        },
        onset=Onset(step, step, step),
    )
