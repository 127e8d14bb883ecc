"""A LoRA adapter that was never trained."""

from collections.abc import Iterator

from rlhfdoctor.measures import scan_evidence, scans
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import NoLimits, rule


@rule(
    "CKP006",
    signal="update",
    needs=["scans"],
    text="every lora_B is still exactly 0 at step {last}: the adapter was never trained",
    brief="lora_B exactly 0 at step {last}",
)
def adapter_unchanged(run: Run, limits: NoLimits) -> Iterator[Finding | Skip]:
    """Every LoRA adapter of the run still adds exactly nothing to its base.

    ``lora_B`` starts at zero and its first gradient is not, so one update moves it. Zero after
    training means that the adapter was loaded with ``is_trainable=False`` (TRL 6700), that the
    optimizer got other parameters, or that another adapter was saved. Adapters that carry fully
    trained layers beside LoRA are not judged.

    Remedy: load the adapter with ``is_trainable=True`` and count the parameters that require a
    gradient; there is nothing to go back to, restart after the fix.
    """
    adapters = [item for item in scans(run) if item.adapter_zero is not None and item.step > 0]
    if not adapters:
        yield Skip("", ("a LoRA adapter saved after step 0",))
        return
    if not all(item.adapter_zero for item in adapters):
        return
    begun = min(run.first_step or 0, adapters[0].step)
    yield Finding(
        "critical",
        tuple(scan_evidence(item, "lora_B is 0") for item in adapters),
        {"last": adapters[-1].step},
        onset=Onset(begun, begun, begun),
        alone=True,
    )
