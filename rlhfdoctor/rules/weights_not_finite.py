"""NaN and infinity in the weights."""

from collections.abc import Iterator

from rlhfdoctor.measures import scan_evidence, scan_onset, scans
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import NoLimits, rule


@rule(
    "CKP002",
    signal="numbers",
    needs=["scans"],
    text="{count} of the weights of {name} are NaN or infinite, the first in {tensor}",
    brief="weights of {name} not finite",
)
def weights_not_finite(run: Run, limits: NoLimits) -> Iterator[Finding | Skip]:
    """The weights of a checkpoint hold NaN or infinity.

    One such value in a matrix makes every later activation NaN, and vLLM then samples one token for
    ever ("!!!!" with Qwen's vocabulary, vllm 22881). It is proof, whatever the log says: a trainer
    may filter NaN out of what it logs. Where a later checkpoint is finite again the run went on
    from sound weights, and only this file must not be used: information.

    Remedy: go back to the last checkpoint whose weights and optimizer state are finite, one save
    before the first anomaly; change precision or learning rate first; never resume with the same
    settings.
    """
    found = scans(run)
    broken = [place for place, item in enumerate(found) if not item.finite]
    if not broken:
        return
    first, last = found[broken[0]], broken[-1]
    back = next((item.step + run.log_offset for item in found[last + 1 :]), None)
    yield Finding(
        "critical" if back is None else "info",
        tuple(
            scan_evidence(
                found[place],
                float(found[place].non_finite),
                unit="values",
                limit_high=0.0,
                tensor=found[place].first_non_finite,
            )
            for place in broken
        ),
        {"count": first.non_finite, "name": first.checkpoint, "tensor": first.first_non_finite},
        onset=scan_onset(run, first, found[broken[0] - 1] if broken[0] else None),
        recovered_at=back,
        alone=back is None,
    )
