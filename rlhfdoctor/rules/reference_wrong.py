"""A trainer that measured its KL against another model than training started from."""

from collections.abc import Iterator

from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import NoLimits, rule
from rlhfdoctor.scores import Comparison, Held, compared_evidence, held


@rule(
    "REF004",
    signal="kl",
    needs=["scores"],
    text="the trainer's logged KL is not the distance to {reference}, from which training started: "
    "{logged:.3g} {unit} at step {logged_step} against {recomputed:.3g} ({estimator}) recomputed"
    "{matched}",
    brief="KL logged {logged:.3g}, recomputed {recomputed:.3g} {unit}",
)
def reference_wrong(run: Run, limits: NoLimits) -> Iterator[Finding | Skip]:
    """The logged KL was never the distance to the model that training started from.

    The samples of step 0 are one model's own, and the trainer's KL disagrees with the recomputed
    distance to it at every checkpoint, beyond a quarter and 0.02 nats a token; it may agree with
    another of the given models, which is then the reference that was used: the bare base under a
    supervised policy (TRL 1340, 3194, 6591), a wrong path. A logged KL that stays below the
    recomputed one and matches no other model is REF003's. Without samples of step 0 that carry
    log-probabilities nobody can tell what training started from. [H]

    Remedy: restart from the supervised model with itself as the reference: every checkpoint is
    tainted by the wrong leash.
    """
    known = [item for item in held(run) if item.comparisons]
    matching = [item for item in known if item.matches]
    origins = [item for item in held(run) if item.started]
    if not origins:
        yield Skip("", ("samples of step 0 with log-probabilities that one reference gives back",))
        return
    origin = origins[0]
    apart = [found for found in origin.comparisons if _telling(found)]
    if not known:
        yield Skip("", ("a logged KL at the step of a checkpoint scored on its own samples",))
    if not apart or any(found.agrees for found in apart):
        return
    others = [item.name for item in matching if item is not origin]
    if not others and all(found.logged < found.recomputed for found in apart):
        return
    yield _finding(run, origin, apart, others)


def _telling(found: Comparison) -> bool:
    return max(abs(found.logged), found.recomputed) > found.limit


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
