"""Responses drawn from another distribution than the policy's."""

from collections.abc import Iterator

from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import NoLimits, rule
from rlhfdoctor.rules._config import samples_itself, setting_evidence

_NEUTRAL = {
    "temperature": 1.0,
    "top_p": 1.0,
    "top_k": None,
    "min_response_length": None,
    "no_repeat_ngram_size": None,
    "repetition_penalty": 1.0,
}
"""The value of each setting that changes nothing; None: none but leaving it out."""

_UNITS = {"top_k": "tokens", "min_response_length": "tokens", "no_repeat_ngram_size": "tokens"}


@rule(
    "CFG005",
    signal="config",
    any_of=[f"config.{name}" for name in _NEUTRAL],
    text="responses are not drawn from the policy's own distribution: {told}",
    brief="sampling with {told}",
)
def sampling(run: Run, limits: NoLimits) -> Iterator[Finding | Skip]:
    """Sampling settings draw responses from another distribution than the policy's.

    KL estimates (k1, k3) and importance ratios assume that responses are drawn from the policy.
    ``top_k``, ``top_p`` below 1, a repetition penalty, ``no_repeat_ngram_size`` and a minimum
    length cut the distribution: estimated KLs turn negative (TRL's answer to negative KLs is to
    remove them), and ratios are off by the kept mass (0.896 at top_p 0.8, TRL 7269). Temperature
    is harmless where the trainer divides its logits by it as well (TRL and verl do); where it does
    not, the first token's ratio is off (2.0 at 0.6, TRL 4159). Temperature 0 is greedy: all
    responses of a group are one. Information only.

    Remedy: temperature 1, top_p 1, no top_k, no penalties and no minimum length while training.
    """
    if not samples_itself(run):
        yield Skip("", ("an algorithm that learns from its own responses",))
        return
    odd = {
        name: value
        for name, neutral in _NEUTRAL.items()
        if (value := run.number(name)) is not None and value != neutral
    }
    if odd:
        yield Finding(
            "info",
            tuple(setting_evidence(run, name, unit=_UNITS.get(name, "1")) for name in odd),
            {"told": ", ".join(f"{name} {value:g}" for name, value in odd.items())},
        )
