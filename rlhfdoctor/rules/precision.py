"""Weights kept in half precision."""

from collections.abc import Iterator

from rlhfdoctor.measures import prefers
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import NoLimits, rule
from rlhfdoctor.rules._config import samples_itself, setting_evidence

_MIXED = ("fp16", "mixed_precision", "precision")
"""Keys that tell the type of the arithmetic, not of the weights."""


@rule(
    "CFG009",
    signal="config",
    needs=["config.dtype"],
    text="the configuration names float16 for the weights: updates below its rounding are lost and "
    "large activations overflow",
    brief="float16 weights",
)
def precision(run: Run, limits: NoLimits) -> Iterator[Finding | Skip]:
    """The weights themselves are float16, not only the arithmetic.

    float16 ends at 65504 and rounds to a thousandth of a value: with a learning rate of 1e-6 most
    updates vanish, and Adam's epsilon of 1e-8 becomes 0. Pure float16 weights made DPO NaN at its
    second step (TRL 1199, LLM-Dojo 23). Mixed precision (``fp16: true``), which keeps float32
    weights and scales the loss, is not meant, nor adapters on a frozen float16 model. Information
    only: a configuration may name the type that a checkpoint was stored in.

    Remedy: bfloat16 or float32 weights; float16 for the arithmetic alone, with loss scaling.
    """
    dtype = run.config["dtype"]
    if not (prefers(run) or samples_itself(run)):
        yield Skip("", ("an algorithm",))
    elif dtype.value == "float16" and "lora_rank" not in run.config:
        key = (dtype.where.key or "").replace("/", ".").rpartition(".")[2].lstrip("-")
        if key not in _MIXED:
            yield Finding("info", (setting_evidence(run, "dtype", unit="floating type"),))
