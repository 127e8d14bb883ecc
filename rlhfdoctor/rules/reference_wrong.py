"""A trainer that measured its KL against another model than training started from."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.scores import Comparison, Held, around, compared_evidence, held


@dataclass(frozen=True, slots=True)
class Limits:
    """How far a log must be off before it is another model's."""

    times: float = 2.0  # as much as recomputed, or as little
    least: float = 0.1  # nats per token, by which they differ then


@rule(
    "REF004",
    signal="kl",
    needs=["scores"],
    limits=Limits,
    text="the trainer's logged KL is not the distance to {reference}, from which training started: "
    "{logged:.3g} {unit} at step {logged_step} against {recomputed:.3g} ({estimator}) recomputed"
    "{matched}",
    brief="KL logged {logged:.3g}, recomputed {recomputed:.3g} {unit}",
)
def reference_wrong(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The logged KL was never the distance to the model that training started from.

    The samples of step 0 are one model's own, and the trainer's KL disagrees with the recomputed
    distance to it at every checkpoint, beyond a quarter and 0.02 nats a token; it may agree with
    another of the given models, which is then the reference that was used: the bare base under a
    supervised policy (TRL 1340, 3194, 6591), a wrong path. A logged KL that stays below the
    recomputed one and matches no other model is REF003's. Batches of few responses scatter by a
    quarter and more, and k3 spikes: at one checkpoint the log must be twice as high, in the row and
    in most of those about it, or match another model at two checkpoints. Without samples of step 0
    that carry log-probabilities nobody can tell what training started from. [H]

    Remedy: restart from the supervised model with itself as the reference: every checkpoint is
    tainted by the wrong leash.
    """
    known = [item for item in held(run) if item.comparisons]
    matching = [item for item in known if item.matches]
    origins = [item for item in held(run) if item.started]
    if not origins:
        yield Skip("", ("samples of step 0 with log-probabilities that one reference gives back",))
        return
    if not known:
        yield Skip("", ("a logged KL at the step of a checkpoint scored on its own samples",))
    origin = origins[0]
    apart = [found for found in origin.comparisons if found.telling]
    within = (found.agrees for item in origins for found in item.comparisons if found.telling)
    if not apart or any(within):
        return
    others = [item.name for item in matching if item not in origins]
    higher = any(_higher(run, found, limits) for found in apart)
    lower = any(_lower(run, found, limits) for found in apart)
    if higher or (others and (lower or len(apart) > 1)):
        yield _finding(run, origin, apart, others)


def _higher(run: Run, found: Comparison, limits: Limits) -> bool:
    logged = min(found.logged, around(run, found))
    recomputed = max(found.recomputed, found.level)
    return logged > limits.times * recomputed and logged - recomputed > limits.least * found.scale


def _lower(run: Run, found: Comparison, limits: Limits) -> bool:
    logged = max(found.logged, around(run, found))
    recomputed = min(found.recomputed, found.level)
    return logged < recomputed / limits.times and recomputed - logged > limits.least * found.scale


def _finding(run: Run, origin: Held, apart: list[Comparison], others: list[str]) -> Finding:
    worst = max(apart, key=lambda found: abs(found.logged - found.recomputed) / found.limit)
    at = apart[0].logged_step if run.first_step is None else run.first_step
    return Finding(
        "warning",
        compared_evidence(run, worst),
        {
            "reference": origin.name,
            "logged": worst.logged,
            "recomputed": worst.recomputed,
            "unit": worst.unit,
            "estimator": worst.estimator,
            "logged_step": worst.logged_step,
            "matched": f"; it matches {', '.join(others)}" if others else "",
        },
        onset=Onset(at, at, at),
    )
