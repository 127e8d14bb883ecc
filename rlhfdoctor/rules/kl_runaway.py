"""KL per response above 5 for ten rows."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._alarm import alarms


@dataclass(frozen=True, slots=True)
class Limits:
    """When the alarm rings, and when it is critical."""

    ceiling: float = 5.0  # nats per response
    patience: int = 10  # consecutive logged rows
    far: float = 10.0  # nats per response; TRL's guide calls 0-10 fine


@rule(
    "KL002",
    signal="kl",
    needs=["kl_ref_response", "rows>=10"],
    limits=Limits,
    text="KL above {ceiling:g} nats/response for {rows} logged rows ({steps} steps): "
    "{start:.3g} at the start, {level:.3g} at the end",
    brief="KL {start:.2g} -> {level:.3g} nats/response",
)
def kl_runaway(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The policy ran away from the reference model and did not come back.

    A KL above 5.0 for 10 steps in a row is a practitioners' alarm for PPO; the claims that came
    with it (83 % of such runs collapse within 50 steps, stopping saves 37 % of the compute) have no
    other source and are not verified. It applies to sums over a response only: 5.0 per token is a
    destroyed model, and a per-token column is never judged here. TRL's guide (how_to_train, 0.16)
    calls 0-10 nats fine, so the alarm is critical above 10 and a warning between.

    Remedy: stop, go back to a checkpoint before the onset, lower the learning rate or raise the KL
    coefficient; if the reward rose meanwhile, repair the reward first.
    """
    kl = track(run, "kl_ref_response")
    if kl.placeholder:
        yield Skip("", ("kl_ref_response: exact zeros throughout, never computed",))
        return
    yield from alarms(
        run,
        kl,
        above=limits.ceiling,
        patience=limits.patience,
        severity=lambda level: "critical" if level > limits.far else "warning",
        args={"start": round(kl.values[0], 3) + 0.0},
    )
