"""KL per response above 5 for ten rows."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import batches, logged, track
from rlhfdoctor.model import Finding, Run, Severity, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._alarm import alarms
from rlhfdoctor.series import end_level, start_level


@dataclass(frozen=True, slots=True)
class Limits:
    """When the alarm rings, and when it is critical."""

    ceiling: float = 5.0  # nats per response
    patience: int = 10  # consecutive logged rows
    far: float = 10.0  # nats per response; TRL's guide calls 0-10 fine
    token: float = 0.1  # nats per token, where the length is known; verl's controller aims at it
    long: float = 30.0  # nats per response; 300 tokens at that, where the length is not known
    certain: float = 0.05  # nats per token; an entropy below it measures no length


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
    calls 0-10 nats fine, and the adaptive controllers of TRL and LLaMA-Factory hold a KL of 6 by
    default: the alarm is critical above 10 and information between. A long response sums up to
    more: where the mean length is known and the sum is less than 0.1 nats a token, verl's own
    target, the alarm is information. TRL's PPO logs no length, but the negative log-probability of
    a response and the entropy of a token; one over the other is the length in expectation, and the
    shorter of the run's start and end is taken, for a policy that repeats itself is certain of
    every token. Where there is no length at all, 300 tokens are assumed: below 30 nats the alarm
    is information unless another class of evidence agrees. [H]

    Remedy: stop, go back to a checkpoint before the onset, lower the learning rate or raise the KL
    coefficient; if the reward rose meanwhile, repair the reward first.
    """
    kl = track(run, "kl_ref_response")
    length = _mean_length(run, limits)

    def severity(level: float) -> Severity:
        near = length is not None and level < limits.token * length
        return "critical" if level > limits.far and not near else "info"

    yield from alarms(
        run,
        kl,
        above=limits.ceiling,
        patience=limits.patience,
        severity=severity,
        weak=lambda level: "info" if length is None and level < limits.long else "warning",
        args={"start": round(kl.values[0], 3) + 0.0},
    )


def _mean_length(run: Run, limits: Limits) -> float | None:
    """Return the mean response length in tokens at the end of the run, or None."""
    if logged(run, "response_length_mean"):
        length = track(run, "response_length_mean")
        return end_level(length.values) if length.column.unit == "tokens" else None
    sampled = [batch for batch in batches(run) if batch.unit == "tokens"]
    return sampled[-1].mean_length if sampled else _estimated_length(run, limits)


def _estimated_length(run: Run, limits: Limits) -> float | None:
    """Return the tokens whose entropy makes up the negative log-probability of a response."""
    if not (logged(run, "neg_logp_response") and logged(run, "entropy")):
        return None
    total, each = track(run, "neg_logp_response").values, track(run, "entropy").values
    lengths = [
        level(total) / level(each)
        for level in (start_level, end_level)
        if level(each) > limits.certain
    ]
    return min(lengths) if len(lengths) == 2 and min(lengths) > 0.0 else None
