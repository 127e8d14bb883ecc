"""KL outside the band that practitioners quote."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import metric_evidence, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.series import end_level


@dataclass(frozen=True, slots=True)
class Limits:
    """Where the run should stand in the end."""

    low: float = 0.5  # nats per response
    high: float = 3.0  # nats per response
    rows: int = 10  # logged rows whose median is judged


@rule(
    "KL001",
    signal="kl",
    needs=["kl_ref_response", "rows>=10"],
    limits=Limits,
    text="KL ends at {level:.3g} nats/response, outside the rule-of-thumb band {low:g}-{high:g}",
)
def kl_band(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The KL per response ends outside 0.5-3.0 nats.

    Field articles on PPO dialogue training give this band (1.0-5.0 for creative writing) without a
    unit; it fits sums over a response and is applied to nothing else. It is information only: a
    healthy run may live below 0.5 or reach 6, TRL's own guide (how_to_train, 0.16) calls 0-10 fine.

    Remedy: none by itself; read samples if other signals moved too.
    """
    kl = track(run, "kl_ref_response")
    level = end_level(kl.values, limits.rows)
    if not limits.low <= level <= limits.high:
        last = len(kl) - 1
        first = max(0, last - limits.rows + 1)
        yield Finding(
            "info",
            (
                metric_evidence(
                    run, kl, first, last, level, limit_low=limits.low, limit_high=limits.high
                ),
            ),
            {"level": level},
        )
