"""Entropy that falls to less than half of the run's own start."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import Track, logged, metric_evidence, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._alarm import alarms, numbers
from rlhfdoctor.rules._reward import reward_of, rises
from rlhfdoctor.rules._sustained import appeared
from rlhfdoctor.series import end_level, start_level, stretches


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as a fall."""

    fall: float = 0.5  # of the run's own start
    deep: float = 0.2  # of the start; above it a fall that nothing else shows is information
    least: float = 0.1  # nats per token that must have been lost
    patience: int = 5  # consecutive logged rows
    spent: float = 0.1  # nats per token; below it, and below ...
    rest: float = 0.1  # of the start, no reward excuses the fall
    trace: float = 0.02  # of the start, likewise, where the unit is unknown
    far: float = 1.0  # KL of unknown unit, above which it may be a runaway per token (KL003)
    none: float = 0.05  # nats per token; below it from the first rows, beside one of the next two
    apart: float = 50.0  # nats of KL per response at the end
    cut: float = 0.9  # share of answers cut at the limit, at the end
    dead: float = 0.5  # share of groups without reward spread, above which they are the majority


@rule(
    "ENT001",
    signal="entropy",
    any_of=["entropy", "entropy_unknown"],
    needs=["rows>=8"],
    limits=Limits,
    text="entropy {goes} from {start:.3g} to {level:.3g} {unit}, below {bar} for "
    "{rows} logged rows ({steps} steps){beside}",
    brief="entropy {start:.2g} -> {level:.2g}",
)
def entropy_collapse(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The policy lost its entropy and did not get it back.

    Entropy pays for reward (R = -a exp(H) + b in published fits), so a decline is the price of
    learning; below half of the start, policies explore less and less. Healthy runs go there too
    (reasoning policies live at 0.12-0.84 nats, base models begin above 2), so a fall that no other
    class of evidence shows is information above a fifth of the start. Below, it is information
    where the run visibly got something for it: the reward rises, most groups still have a spread,
    and no KL of unknown unit is so large that it may be a runaway. Otherwise it is a warning, and
    always where hardly anything is left: a tenth of the start that lies below 0.1 nats a token,
    where no healthy policy lives that did not begin near it. The start is the median of the first
    five rows: longer baselines hide a collapse that begins at once. A fall of less than 0.1 nats is
    nothing, however small the start. Where the unit is unknown the ratio is judged, not the number,
    and only a fiftieth of the start is hardly anything. [H]

    A log that begins after the collapse has no fall. An entropy below 0.05 nats a token in all
    rows, the first few excepted, is critical where the policy ended 50 nats a response (or 1 a
    token) from its reference, or where nine answers in ten are cut, and another class agrees;
    beside neither it is a peaked start. [H]

    Remedy: go back to before entropy halved; a lower learning rate, a higher upper clip range
    (0.28), a KL penalty or a higher sampling temperature keep it up.
    """
    entropy = track(run, "entropy", "entropy_unknown")
    start = start_level(entropy.values)
    if start <= 0.0:
        yield Skip("", (f"{entropy.metric}: not positive at the start, so no entropy in nats",))
        return
    gone = _gone(run, entropy, limits)
    if gone is not None:
        yield gone
        return
    floor = min(limits.fall * start, start - limits.least)
    bottom = limits.trace * start
    if entropy.metric == "entropy":
        bottom = min(limits.spent, limits.rest * start)
    bought = _bought(run, limits)
    yield from alarms(
        run,
        entropy,
        below=floor,
        patience=limits.patience,
        weak=lambda level: (
            "warning" if level < (bottom if bought else limits.deep * start) else "info"
        ),
        args={"goes": "falls", "bar": f"{limits.fall:.0%} of its start", "beside": ""},
    )


def _bought(run: Run, limits: Limits) -> bool:
    """Say whether the reward rises while most groups keep their spread and no KL may be far."""
    reward = reward_of(run)
    return (
        reward is not None
        and rises(reward.values)
        and not any(
            logged(run, name) and end_level(track(run, name).values) > limit
            for name, limit in (("frac_reward_zero_std", limits.dead), ("kl_unknown", limits.far))
        )
    )


def _gone(run: Run, entropy: Track, limits: Limits) -> Finding | None:
    """Return the finding of a policy that was lost before the log shows it."""
    if entropy.metric != "entropy":
        return None
    spans = stretches(entropy.values, lambda value: value < limits.none, limits.patience)
    last = len(entropy) - 1
    if not spans or spans[-1][1] != last or spans[-1][0] >= limits.patience:
        return None
    for name, limit in (
        ("kl_ref_response", limits.apart),
        ("kl_ref_token", limits.far),
        ("truncation_rate", limits.cut),
    ):
        if logged(run, name) and end_level(track(run, name).values) > limit:
            found, first = track(run, name), spans[-1][0]
            ends = end_level(found.values)
            level = end_level(entropy.values)
            return Finding(
                "critical",
                (
                    metric_evidence(run, entropy, first, last, level, limit_high=limits.none),
                    metric_evidence(run, found, 0, len(found) - 1, ends, limit_high=limit),
                ),
                {
                    **numbers(entropy, first, last, level),
                    "goes": "goes",
                    "bar": f"{limits.none:g} {entropy.column.unit}",
                    "beside": f" while {name} ends at {ends:.3g}",
                },
                onset=appeared(entropy.steps, first),
                weak="info",
            )
    return None
