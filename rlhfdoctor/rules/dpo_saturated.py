"""Preference training that is solved almost at once."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import common, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._preference import against_reference
from rlhfdoctor.series import stretches


@dataclass(frozen=True, slots=True)
class Limits:
    """What is solved, and how soon is too soon."""

    margin: float = 10.0  # nats*beta; the loss is then 5e-5
    accuracy: float = 0.99  # share of pairs
    epochs: float = 0.1  # of the data; sooner is too soon
    patience: int = 3  # consecutive logged rows


@rule(
    "DPO006",
    signal="accuracy",
    needs=["dpo_margin", "dpo_accuracy", "rows>=3"],
    limits=Limits,
    text="the margin is above {margin:g} nats*beta and the accuracy {share:.2f} from step {step} "
    "on, after {epoch:.2g} epochs: the pairs are told apart by something trivial, or the learning "
    "rate is too high",
    brief="margin above {margin:g} after {epoch:.2g} epochs",
)
def dpo_saturated(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The loss is used up before a tenth of the data was seen.

    A margin of 10 nats*beta leaves a loss of 5e-5, and no gradient. Reached in a tenth of an epoch
    it means pairs that a single feature separates (length, a prefix, one source for each side), or
    a learning rate far too high. It is information: an accuracy of 1.0 did no harm in Zephyr's
    runs, and only evaluations and samples tell (DPO009). [H]

    Remedy: try a classifier on length or first words of the answers: if it tells chosen from
    rejected, mend the data; otherwise a learning rate ten times lower.
    """
    margin, accuracy = against_reference(run, "dpo_margin"), track(run, "dpo_accuracy")
    epochs = dict(run.metrics.select("step", "epoch").iter_rows())
    if margin is None or not any(value is not None for value in epochs.values()):
        yield Skip("", ("dpo_margin in nats*beta, by epoch",))
        return
    margins, shares = common(margin, accuracy)
    there = set(accuracy.steps)
    steps = [step for step in margin.steps if step in there]
    solved = [
        float(value > limits.margin and share >= limits.accuracy)
        for value, share in zip(margins, shares, strict=True)
    ]
    for first, _ in stretches(solved, bool, limits.patience)[:1]:
        step, epoch = steps[first], epochs[steps[first]]
        if epoch is None or not epoch <= limits.epochs:
            return
        row = margin.steps.index(step)
        yield Finding(
            "info",
            (
                metric_evidence(
                    run, margin, row, len(margin) - 1, margins[first], limit_high=limits.margin
                ),
            ),
            {"share": shares[first], "step": step, "epoch": epoch},
            onset=Onset(step, steps[0], step),
        )
