"""Training pairs learnt by heart: the held-out ones fall behind."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from statistics import fmean

from rlhfdoctor.measures import Track, logged, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.series import end_level


@dataclass(frozen=True, slots=True)
class Limits:
    """How far training runs ahead, and when evaluation gets worse."""

    gap: float = 0.15  # accuracy of training above that of the last evaluation
    rise: float = 0.05  # loss of the last evaluations above the lowest one
    fall: float = 0.03  # mean accuracy of the last evaluations below the best neighbours'
    patience: int = 2  # last evaluations that must be worse than one before them
    times: float = 2.0  # times the lowest evaluation loss, which alone is a fault where also ...
    chance: float = 0.4  # loss of the last evaluations above ln 2, that of chance


@rule(
    "DPO009",
    signal="reward",
    needs=["dpo_accuracy"],
    limits=Limits,
    text="accuracy {train:.2f} on the training pairs, {held_out} on held-out ones{worse}",
    brief="accuracy {train:.2f} in training, {held_out} held out{worse}",
)
def overfit_pairs(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The policy learnt its pairs by heart rather than what they prefer.

    Preference training often jumps at each epoch's boundary while evaluation stands still. That gap
    is information: an accuracy of 1.0 on training pairs did no harm in Zephyr's published runs,
    whose evaluation loss even rose while accuracy and margin held. A warning asks for all of it:
    the evaluation loss above its own lowest by more than it ever wavers, the mean evaluation
    accuracy below that of the best neighbours (three hundredths are fifteen of five hundred pairs),
    both in the last two of at least three evaluations, while the training loss went on falling. A
    loss that doubled, and lies far above the ln 2 of a policy that learnt nothing, needs no
    accuracy beside it: on pairs it has not seen the policy is surer of the wrong answer. [H]

    Remedy: go back to the checkpoint of the best evaluation, usually that of the first epoch; fewer
    epochs, a lower learning rate, or more pairs.
    """
    train = track(run, "dpo_accuracy")
    worse = _worse_since(run, limits)
    if worse is not None:
        loss, accuracy, low = worse
        rose = min(loss.values[-limits.patience :]) - loss.values[low]
        yield Finding(
            "warning",
            (
                metric_evidence(
                    run,
                    loss,
                    low + 1,
                    len(loss) - 1,
                    loss.values[-1],
                    limit_high=loss.values[low] + limits.rise,
                ),
                metric_evidence(run, accuracy, 0, len(accuracy) - 1, accuracy.values[-1]),
            ),
            {
                "train": end_level(train.values),
                "held_out": f"{accuracy.values[-1]:.2f}",
                "worse": f"; the evaluation loss is {rose:.2g} above its lowest, of step "
                f"{loss.steps[low]}",
            },
            onset=Onset(loss.steps[low + 1], loss.steps[low] + 1, loss.steps[low + 1]),
        )
        return
    if not logged(run, "eval_dpo_accuracy"):
        yield Skip("", ("eval_dpo_accuracy",))
        return
    held_out = track(run, "eval_dpo_accuracy")
    last = end_level(held_out.values, 1)
    before = [
        value
        for step, value in zip(train.steps, train.values, strict=True)
        if step <= held_out.steps[-1]
    ]
    ahead = end_level(before) - last if before else 0.0
    if ahead > limits.gap:
        end = held_out.steps[-1]
        yield Finding(
            "info",
            (metric_evidence(run, held_out, len(held_out) - 1, len(held_out) - 1, last),),
            {"train": end_level(before), "held_out": f"{last:.2f}", "worse": ""},
            onset=Onset(end, train.steps[0], max(end, train.steps[0])),
        )


def _worse_since(run: Run, limits: Limits) -> tuple[Track, Track, int] | None:
    """Return evaluation loss and accuracy, and the index of the lowest loss, where they got worse.

    The training loss must have gone on falling meanwhile.
    """
    names = ("eval_loss_total", "eval_dpo_accuracy", "loss_total")
    if not all(logged(run, name) for name in names):
        return None
    loss, accuracy, training = (track(run, name) for name in names)
    if min(len(loss), len(accuracy)) <= limits.patience:
        return None
    low = loss.values.index(min(loss.values))
    lowest, ends = loss.values[low], loss.values[-limits.patience :]
    rose = low < len(loss) - limits.patience and min(ends) > lowest + limits.rise
    fell = _lost(accuracy.values, limits.patience) > limits.fall
    doubled = ends[-1] > limits.times * lowest and min(ends) > math.log(2) + limits.chance
    until = [
        value
        for step, value in zip(training.steps, training.values, strict=True)
        if step <= loss.steps[low]
    ]
    learnt = bool(until) and end_level(training.values) < end_level(until)
    return (loss, accuracy, low) if rose and (fell or doubled) and learnt else None


def _lost(values: list[float], rows: int) -> float:
    """Return the mean of the last rows below the best mean of as many neighbours before them."""
    before = values[:-rows]
    wide = min(rows, len(before))
    means = [fmean(before[place : place + wide]) for place in range(len(before) - wide + 1)]
    return max(means) - fmean(values[-rows:])
