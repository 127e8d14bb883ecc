"""Preference accuracy below chance."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import logged, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._preference import reference_free
from rlhfdoctor.series import mean_error, start_level


@dataclass(frozen=True, slots=True)
class Limits:
    """How far below chance, and over how many rows."""

    chance: float = 0.5  # accuracy of a coin
    standard_errors: float = 4.0  # below chance
    least: float = 0.02  # accuracy below chance that is nothing, however steady
    rows: int = 10  # logged rows in the second half of the run


@rule(
    "DPO002",
    signal="accuracy",
    needs=["dpo_accuracy", "rows>=10"],
    zeros=True,
    limits=Limits,
    text="accuracy on the training pairs is {level:.2f} over the second half of the run, below "
    "chance",
    brief="accuracy {level:.2f}, below chance",
)
def accuracy_below_chance(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The policy prefers the rejected answers.

    Before any update every margin is 0 and the accuracy is logged as 0, so only the second half of
    the run is judged, and only where its mean lies four standard errors below one half. [H]
    Without a reference (ORPO, SimPO, CPO) the untrained policy itself may find the rejected answers
    likelier: there the mean must lie below the run's own start too. KTO's data are no pairs, and an
    accuracy logged for them has no chance level.

    Remedy: swap check of chosen and rejected; then a learning rate ten times lower.
    """
    accuracy = track(run, "dpo_accuracy")
    if run.algorithm == "KTO":
        yield Skip("", ("pairs: KTO's data are none",))
        return
    tied = not logged(run, "dpo_margin") or track(run, "dpo_margin").placeholder
    if accuracy.placeholder and tied:
        yield Skip("", ("dpo_accuracy: exact zeros throughout, ties or never computed",))
        return
    first = len(accuracy) // 2
    late = accuracy.values[first:]
    if len(late) < limits.rows:
        yield Skip("", (f"{limits.rows} rows in the second half of the run",))
        return
    level, error = mean_error(late)
    chance = limits.chance
    if reference_free(run):
        chance = min(chance, start_level(accuracy.values))
    if level < chance - max(limits.standard_errors * error, limits.least):
        yield Finding(
            "critical",
            (metric_evidence(run, accuracy, first, len(accuracy) - 1, level, limit_low=chance),),
            {"level": level},
            onset=Onset(accuracy.steps[first], accuracy.steps[0], accuracy.steps[first]),
        )
