"""A policy that is not its reference before the first update."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import Track, logged, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.series import end_level, start_level


@dataclass(frozen=True, slots=True)
class Limits:
    """How far from zero the first KL may be, and what no ten updates can do."""

    response: float = 1.0  # nats per response
    token: float = 0.05  # nats per token; half precision alone makes 0.002
    away_response: float = 30.0  # nats per response in the first rows, of whatever update
    away: float = 0.3  # nats per token, likewise
    grown: float = 1.5  # times the first rows, which the last ones neither reach nor fall short of
    rows: int = 10  # logged rows in which a distance must not have grown
    early: int = 10  # step of a first row that belongs to the run's beginning
    alive: float = 0.05  # nats per token of entropy; a policy without is lost, not misplaced


@rule(
    "REF002",
    signal="kl",
    any_of=["kl_ref_token", "kl_ref_response"],
    limits=Limits,
    text="KL is {level:.3g} {unit} at step {step}{then}: {so}",
    brief="KL {level:.3g} {unit} {since}",
)
def reference_at_start(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The first logged KL, measured before any update, is not zero.

    Until its first update the policy is the model that training started from; a KL to "the"
    reference by then means another model: the bare base under a supervised adapter (TRL 1340, 3194,
    6591), a wrong path, another chat template, or log-probabilities that disagree (padding,
    position ids). It makes every later KL meaningless. Only logs whose rows are known to precede
    their update, and that begin with the first one, can be judged: a first row that averages ten
    steps is none, nor is a row whose step had to be counted (an excerpt may begin anywhere).

    Remedy: recompute against base, supervised model and first checkpoint; the one with KL 0 is what
    training started from. Restart from it with the right reference: every checkpoint is tainted.
    """
    kl = track(run, "kl_ref_token", "kl_ref_response")
    token = kl.metric == "kl_ref_token"
    if run.log_offset < 1 or kl.steps[0] > run.log_offset or run.step_unit == "row":
        apart = _ever_since(run, kl, limits.away if token else limits.away_response, limits)
        yield apart or Skip("", ("a logged row that precedes the first update",))
        return
    limit = limits.token if token else limits.response
    level = kl.values[0]
    if level > limit:
        yield Finding(
            "warning",
            (metric_evidence(run, kl, 0, 0, level, limit_high=limit),),
            {
                "level": level,
                "unit": kl.column.unit,
                "step": kl.steps[0],
                "then": ", before the first update",
                "so": "the policy did not start from the reference",
                "since": "before the first update",
            },
            onset=Onset(kl.steps[0], kl.steps[0], kl.steps[0]),
        )


def _ever_since(run: Run, kl: Track, limit: float, limits: Limits) -> Finding | None:
    """Return the finding of a distance that was there in the first rows and stayed as it was."""
    start, end = start_level(kl.values), end_level(kl.values)
    flat = start / limits.grown < end < start * limits.grown
    if len(kl) < limits.rows or min(kl.values[0], start) < limit or not flat:
        return None
    if logged(run, "entropy") and start_level(track(run, "entropy").values) < limits.alive:
        return None
    first = kl.steps[0]
    return Finding(
        "warning" if first <= limits.early and run.step_unit != "row" else "info",
        (metric_evidence(run, kl, 0, len(kl) - 1, start, limit_high=limit),),
        {
            "level": kl.values[0],
            "unit": kl.column.unit,
            "step": first,
            "then": f" and {end:.3g} at the end",
            "so": "the distance was there from the first row and never grew, so it is not the "
            "policy's own: the reference is another model",
            "since": "from the first row to the last",
        },
        onset=Onset(first, first, first),
    )
