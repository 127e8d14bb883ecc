"""Policy and reference that disagree before training."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import Track, metric_evidence
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._preference import against_reference


@dataclass(frozen=True, slots=True)
class Limits:
    """How far from 0 the first row may be, and what counts as the start."""

    apart: float = 5.0  # nats*beta of the chosen reward, either sign (TRL 1236: +9.8)
    nats: float = 20.0  # nats per response of the chosen answers, where beta is known
    updates: int = 25  # updates that the first row may cover
    epoch: float = 0.1  # epochs that the first row may cover where no step is logged
    drift: float = 2.0  # times the first row that the second may be: more is a policy on its way


@rule(
    "DPO008",
    signal="config",
    needs=["dpo_reward_chosen", "rows>=2"],
    limits=Limits,
    text="the first logged row, at step {step}, has a chosen reward of {level:.3g} nats*beta, "
    "where a policy that starts from its reference has 0",
    brief="chosen reward {level:.3g} in the first row, not 0",
)
def dpo_start_apart(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The reference is not what training started from.

    Rewards are beta x the log-ratio of policy to reference, so they are 0 before the first update
    and close to it in the first row. A first row of +9.8 (TRL 1236) means a reference of another
    checkpoint, without the adapter that the policy was trained with (TRL 1340, 3194, 6591), or with
    another template or dropout. Such a gap stands; a learning rate that is far too high moves away
    from 0 instead, so a second row that is more than twice the first is left to other rules. Judged
    only where the log begins at the beginning. [H]

    Remedy: recompute the first batch against the base model, the supervised one and the first
    checkpoint: the one whose log-ratio is 0 is what training started from, and belongs there as the
    reference. Every checkpoint of this run is tainted; restart after the fix.
    """
    chosen = against_reference(run, "dpo_reward_chosen")
    if chosen is None or len(chosen) < 2:
        yield Skip("", ("dpo_reward_chosen in nats*beta",))
        return
    if not _from_the_beginning(run, chosen, limits):
        yield Skip("", (f"the first {limits.updates} updates of the run",))
        return
    first, second = chosen.values[:2]
    beta = run.number("kl_coef")
    floor = max(limits.apart, limits.nats * beta) if beta else limits.apart
    stands = 0.0 <= second / first <= limits.drift if first else False
    if abs(first) > floor and stands:
        high, low = (floor, None) if first > 0.0 else (None, -floor)
        evidence = metric_evidence(run, chosen, 0, 0, first, limit_low=low, limit_high=high)
        step = chosen.steps[0]
        yield Finding(
            "warning",
            (evidence,),
            {"level": first, "step": step},
            onset=Onset(step, step, step),
        )


def _from_the_beginning(run: Run, chosen: Track, limits: Limits) -> bool:
    """Say whether the first row is the first of all, and covers few updates.

    Its step is then no more than the gap to the next; a log without steps counts in epochs.
    """
    if run.step_unit != "row":
        step, after = chosen.steps[:2]
        return step <= min(limits.updates, max(after - step, 1))
    rows = dict(run.metrics.select("step", "epoch").iter_rows())
    begun, later = (rows[step] for step in chosen.steps[:2])
    return begun is not None and later is not None and begun <= limits.epoch
