"""A logged KL that falls to nothing at once while the policy stays where it was."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from rlhfdoctor.measures import Track, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.scores import Score, ladders, measured, principal, score_evidence


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as a fall, and as staying."""

    rows: int = 3  # logged rows on each side
    fall: float = 0.2  # of the logged KL before; what it is below after
    token: float = 0.05  # nats per token, logged before; below it a fall is noise
    response: float = 1.0  # nats per response, likewise
    stays: float = 0.5  # of the KL before; what the recomputed one is above after


@rule(
    "REF005",
    signal="kl",
    needs=["scores", "rows>=6"],
    any_of=["kl_ref_token", "kl_ref_response"],
    limits=Limits,
    text="the logged KL falls from {before:.3g} to {after:.3g} {unit} at step {step}{seam}, while "
    "{checkpoint} is still at {exact:.3g} nats/token (exact) from {reference}: the reference was "
    "captured anew",
    brief="KL falls from {before:.3g} to {after:.3g} {unit} at step {step}",
)
def reference_recaptured(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The trainer took the policy of that moment for its reference.

    A resumed run that builds its reference from the resumed weights (NeMo-RL 3722) logs a KL that
    falls to next to nothing from one row to the next; the weights did not go back. The recomputed
    KL of the checkpoints before and after tells: the one after is still as far as both the one
    before and the log before the fall, and the log at its row does not say so. A fall
    that takes many rows is REF003's. [H]

    Remedy: everything since was held to the wrong model; go back to the last checkpoint before the
    resume and give the reference by its path.
    """
    kl = track(run, "kl_ref_token", "kl_ref_response")
    reference = principal(run)
    if reference is None:
        return
    known = [
        [row for row in measured(each, "kl_ref_token_exact") if row["on_policy"]]
        for each in ladders(run, reference.name)
    ]
    ladder = max(known, key=len, default=[])
    missing = ""
    least = limits.token if kl.metric == "kl_ref_token" else limits.response
    for place in range(limits.rows, len(kl) - limits.rows + 1):
        before = median(kl.values[place - limits.rows : place])
        after = median(kl.values[place : place + limits.rows])
        fell = kl.values[place] < limits.fall * kl.values[place - 1]
        if before < least or not fell or after >= limits.fall * before:
            continue
        step = kl.steps[place]
        earlier = [row for row in ladder if row["step"] + run.log_offset < step]
        later = [row for row in ladder if row["step"] + run.log_offset >= step]
        if not earlier or not later:
            missing = missing or f"scored checkpoints on both sides of step {step}"
            continue
        was, stayed = earlier[-1]["kl_ref_token_exact"], later[0]["kl_ref_token_exact"]
        if stayed < limits.stays * was or later[0]["below_floor"]:
            continue
        far = _in_unit(kl, later[0])
        if not far >= limits.stays * before or _logged_at(run, kl, later[0]) >= limits.stays * far:
            continue
        yield Finding(
            "warning",
            (
                metric_evidence(run, kl, place, place, kl.values[place]),
                score_evidence(
                    later[0], "kl_ref_token_exact", unit="nats/token", estimator="exact"
                ),
            ),
            {
                "before": before,
                "after": after,
                "unit": kl.column.unit,
                "step": step,
                "seam": ", where the log was resumed" if _seam(run, kl, place) else "",
                "checkpoint": later[0]["checkpoint"],
                "exact": stayed,
                "reference": reference.name,
            },
            onset=Onset(step, step, step),
        )
        return
    if missing:
        yield Skip("", (missing,))


def _in_unit(kl: Track, row: Score) -> float:
    """Return the recomputed KL in the unit of the log."""
    scale = row["mean_length"] if kl.metric == "kl_ref_response" else 1.0
    return float(row["kl_ref_token_exact"] * scale)


def _logged_at(run: Run, kl: Track, row: Score) -> float:
    """Return the median of the three logged rows about a checkpoint's."""
    at = row["step"] + run.log_offset
    place = sum(step < at for step in kl.steps)
    return median(kl.values[max(place - 1, 0) : place + 2] or kl.values[-1:])


def _seam(run: Run, kl: Track, place: int) -> bool:
    """Say whether the log was begun again between two rows."""
    before, after = kl.steps[place - 1], kl.steps[place]
    return any(before < seam.step <= after for seam in run.seams)
