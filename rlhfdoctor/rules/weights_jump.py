"""Weights that became much larger or smaller from one checkpoint to the next."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import neighbours, scan_evidence, scan_onset, scans
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule


@dataclass(frozen=True, slots=True)
class Limits:
    """How much the norm may change between two checkpoints, either way."""

    factor: float = 1.5  # times the norm of the previous checkpoint [H]
    adapter: float = 4.0  # the same of an adapter, half of which starts at zero [H]


@rule(
    "CKP004",
    signal="checkpoint",
    needs=["scans"],
    limits=Limits,
    text="the weights of {name} have norm {norm:.4g}, {ratio:.3g} times that of {before}",
    brief="norm of the weights x {ratio:.3g} in {name}",
)
def weights_jump(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The norm of the weights jumps between two checkpoints.

    Fine-tuning moves weights by a fraction of their size: between neighbouring checkpoints of this
    project's own twelve runs the norm changes by 0.4% at most, by up to 9.4% in the two that
    collapsed at once. A factor of 1.5 [H] means a diverged
    optimizer, a checkpoint of another model, or tensors scaled or dropped by the save. Only
    checkpoints of the same kind with as many parameters are compared.

    Remedy: compare the two checkpoints tensor by tensor; go back to the one before the jump; lower
    the learning rate, or clip the gradient.
    """
    sound = [item for item in scans(run) if item.norm]
    pairs = neighbours(sound)
    if not pairs:
        yield Skip("", ("finite weights of two comparable checkpoints",))
        return
    for before, item in pairs:
        limit = max(1.0, limits.adapter if item.adapter else limits.factor)
        ratio = (item.norm or 0.0) / (before.norm or 1.0)
        if not 1 / limit <= ratio <= limit:
            yield Finding(
                "warning",
                (
                    scan_evidence(
                        item,
                        ratio,
                        before=before,
                        unit="ratio of L2 norms",
                        limit_low=1 / limit,
                        limit_high=limit,
                    ),
                ),
                {
                    "name": item.checkpoint,
                    "before": before.checkpoint,
                    "norm": item.norm,
                    "ratio": ratio,
                },
                onset=scan_onset(run, item, before),
            )
