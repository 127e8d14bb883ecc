"""A KL between trainer and rollout engine."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._sustained import graded, magnitudes, sustained


@dataclass(frozen=True, slots=True)
class Limits:
    """How far trainer and engine may be apart."""

    note: float = 0.01  # nats per token
    fault: float = 0.05  # nats per token
    patience: int = 5  # consecutive logged rows


@rule(
    "MIS001",
    signal="mismatch",
    any_of=["kl_train_infer_token", "kl_train_infer_reverse_token"],
    limits=Limits,
    text="the KL between trainer and rollout engine is {level:.3g} nats/token ({estimator}), above "
    "{note:g} for {rows} logged rows ({steps} steps)",
    brief="trainer-rollout KL {level:.3g} nats/token",
)
def rollout_mismatch(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The engine that samples and the trainer disagree about the same tokens.

    Under the same weights this KL is rounding: NeMo-RL asks for less than 1e-3, sound runs log
    0.0003-0.001. tinker's users quote a limit of 0.01, prime-rl's tests fail at 0.015, verl accepts
    0.1 for data that are off-policy by design. Weights that were not synchronised gave 0.194, and
    0.024 still after the repair (prime-rl), so the fault begins above twice that: at 0.05 the
    log-ratios spread by sqrt(2 x 0.05) = 0.32 and most ratios leave a clip range of 0.2 before any
    update. Between 0.01 and 0.05 it is information. A k1 estimate strays below 0; its magnitude
    counts. Where training lags behind by design, the number includes the lag. [H]

    Remedy: replay one batch with learning rate 0: if it stays, the engine (attention kernel,
    precision, router of a mixture of experts, temperature, re-tokenisation); if it is gone, the
    synchronisation of weights. Go back to before it rose; until it is mended, truncate the
    importance weights.
    """
    yield from sustained(
        run,
        magnitudes(track(run, "kl_train_infer_token", "kl_train_infer_reverse_token")),
        above=limits.note,
        patience=limits.patience,
        severity=graded(limits.fault),
    )
