"""A trainer's reference that moved, seen beside the model that training started from."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._ladder import standing_from
from rlhfdoctor.scores import Comparison, Held, around, compared_evidence, held


@dataclass(frozen=True, slots=True)
class Limits:
    """When a calm log is contradicted."""

    share: float = 0.5  # of the recomputed KL; what the logged one does not reach
    least: float = 0.1  # nats per token, exact KL from which on it matters


@rule(
    "REF003",
    signal="kl",
    needs=["scores"],
    limits=Limits,
    text="the trainer logs a KL of {logged:.3g} {unit} at step {logged_step}; recomputed against "
    "{reference}, {checkpoint} is at {recomputed:.3g} ({estimator}; exact {exact:.3g} nats/token): "
    "the trainer's reference moved",
    brief="KL logged {logged:.3g}, recomputed {recomputed:.3g} {unit}",
)
def reference_moved(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The logged KL is calm while the policy is far from where training started.

    The samples of step 0 show that training started from the given reference, or the logged KL
    agreed with it at first; at later checkpoints the logged KL is less than half of the recomputed
    one, and of the exact one, in the row itself and in most of those about it: k1 scatters and k3
    spikes. The trainer measured against a reference that followed the policy: ``sync_ref_model``,
    shared weights, a reference captured anew at a resume. Same estimator, same unit, same step: the
    log row is the one that the checkpoint's weights sampled. [H]

    Remedy: judge the run by the recomputed KL. Switch the reference update off or slow it down, and
    restart from before the distance grew.
    """
    known = [item for item in held(run) if item.comparisons]
    if not known:
        yield Skip("", ("a logged KL at the step of a checkpoint scored on its own samples",))
    for item in known:
        found = _moved(run, item, limits)
        if found is not None:
            yield found
            return


def _moved(run: Run, item: Held, limits: Limits) -> Finding | None:
    bad = standing_from([_calmer(run, found, limits) for found in item.comparisons])
    if bad is None:
        return None
    before, after = item.comparisons[:bad], item.comparisons[bad:]
    agreed = any(found.agrees and found.exact > limits.least for found in before)
    if not (item.started or agreed):
        return None
    worst = max(after, key=lambda found: found.exact)
    at = after[0].logged_step
    earliest = before[-1].logged_step + 1 if before else run.first_step
    return Finding(
        "warning",
        compared_evidence(run, worst),
        {
            "reference": item.name,
            "logged": worst.logged,
            "recomputed": worst.recomputed,
            "exact": worst.exact,
            "unit": worst.unit,
            "estimator": worst.estimator,
            "logged_step": worst.logged_step,
            "checkpoint": worst.checkpoint,
        },
        onset=Onset(at, at if earliest is None else min(earliest, at), at),
    )


def _calmer(run: Run, found: Comparison, limits: Limits) -> bool:
    """Say whether the log is calmer than the weights; the nearest of the estimators counts."""
    far = found.exact > limits.least and not found.agrees
    logged = max(found.logged, around(run, found))
    return far and logged < limits.share * min(found.recomputed, found.level)
