"""What to change before the next attempt: which changes fit a cause, and from what value to what.

The practitioners' table asks for one change a row; a cause asks for its own, and allows some of the
table's. Every number says where it comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from rlhfdoctor import tree
from rlhfdoctor.ladder import level_at
from rlhfdoctor.measures import logged, prefers, track
from rlhfdoctor.model import Cause, Change, Run, TableRow, Verdict
from rlhfdoctor.replay import TARGET, Constants, pushed, rounded

LOWER_RATE = "lower the learning rate"
RAISE_PENALTY = "raise the KL penalty"
RENEW_REWARD = "renew the reward model"

NON_FINITE = "non-finite values"
ENTROPY_COLLAPSE = "entropy collapse"
OVERFITTING = "overfitting to the pairs"


Maker = Callable[[Run, Verdict, int], "Change | None"]
"""Makes a change of a run, its verdict, and the step of its onset; None where there is none."""


@dataclass(frozen=True, slots=True)
class Fitting:
    """Kinds of change that fit a cause: those it asks for, those the table may ask for beside."""

    asked: tuple[str, ...]
    allowed: tuple[str, ...] = ()


FITTING: Mapping[str, Fitting] = {
    tree.OVER_OPTIMISATION: Fitting(("reward", "penalty", "rate")),
    "policy drift": Fitting(("rate",), ("penalty", "reward")),
    "repetition collapse": Fitting(("penalty", "rate"), ("reward",)),
    "policy collapse": Fitting(("rate",), ("penalty", "reward")),
    "unstable updates": Fitting(("rate", "clip"), ("penalty",)),
    "a collapse that the log ends in": Fitting(("rate",), ("penalty", "reward")),
    "training makes the policy worse": Fitting(("rate",), ("reward",)),
    ENTROPY_COLLAPSE: Fitting(("clip_wider",)),
    "entropy explosion": Fitting(("entropy_bonus", "clip_usual"), ("penalty",)),
    NON_FINITE: Fitting(("precision", "rate")),
    tree.CUT_OFF: Fitting(("limit",)),
    "likelihood displacement": Fitting(("tenth",), ("penalty",)),
    "preference training diverged": Fitting(("tenth",), ("penalty",)),
    OVERFITTING: Fitting(("rate",), ("penalty",)),
}
"""Changes by cause. A cause that is not here is mended otherwise, as its remedy says: no number of
the table helps against a wrong reference, an engine that disagrees, or weights that never moved."""

ANY = Fitting(("rate",), ("rate", "penalty", "reward"))
"""What fits where the user states a crash step and no cause was found."""

_ROWS = {LOWER_RATE: "rate", RAISE_PENALTY: "penalty", RENEW_REWARD: "reward"}
"""Kinds of change that a row of the table asks for, by its words; other words carry no number."""


def changes(
    run: Run, row: TableRow, cause: Cause | None, verdict: Verdict, step: int
) -> tuple[Change, ...]:
    """Return what to change: the row's own change first, where the cause has nothing against it.

    step: of the onset. Empty where the cause is mended otherwise.
    """
    fitting = ANY if cause is None else FITTING.get(cause.name, Fitting(()))
    asked, kind = [*fitting.asked], _ROWS.get(row.change, "")
    if kind in (*fitting.asked, *fitting.allowed):
        asked.insert(0, kind)
    made = (MAKERS[item](run, verdict, step) for item in dict.fromkeys(asked))
    return tuple(item for item in made if item is not None)


def by_row(run: Run, row: TableRow, step: int) -> tuple[Change, ...]:
    """Return the change that a row of the table asks for, whatever the cause."""
    kind = _ROWS.get(row.change)
    found = None if kind is None else MAKERS[kind](run, "collapsed", step)
    return () if found is None else (replace(found, why="as the table says"),)


CONSTANTS = Constants()
"""The practitioners' emergency step and exponential controller, as ``backtest`` replays them."""


def _rate(run: Run, verdict: Verdict, step: int) -> Change:
    if verdict == "collapsed":
        return _lower(run, CONSTANTS.lr_share, "a tenth", "the practitioners' emergency step")
    return _lower(run, 0.5, "half", "degraded, and not collapsed")


def _tenth(run: Run, verdict: Verdict, step: int) -> Change:
    return _lower(run, 0.1, "a tenth", "what preference training that displaces needs first")


def _lower(run: Run, share: float, words: str, why: str) -> Change:
    current = _setting(run, "learning_rate", "lr")
    if current is None:
        told = f"{words} of the present one, which is not in the log"
        return Change("learning_rate", None, None, told)
    return Change("learning_rate", current, rounded(current * share), f"{words}: {why}")


def _penalty(run: Run, verdict: Verdict, step: int) -> Change | None:
    """Return beta after one row of the exponential controller, at the KL of the onset.

    The KL is taken in nats a response, for the target is. The exponent is held as in a replay, and
    beta to the most that the adaptive controller allows; None where it is there already.
    """
    beta = _setting(run, "kl_coef", "kl_coef")
    if beta is None:
        return Change("kl_coef", None, None, "raise it; the present one is not in the log")
    if beta <= 0.0:
        return Change("kl_coef", beta, CONSTANTS.start, f"{CONSTANTS.start:g} is the usual start")
    distance, told = _response_kl(run, step)
    raised, why = 2 * beta, "twice: no KL a response was logged"
    if distance is not None and not prefers(run):
        why = f"twice: a KL of {distance:.3g} nats/response{told} asks for no more by itself"
        if distance > TARGET:
            raised = pushed(beta, distance, TARGET, CONSTANTS)
            why = f"beta x exp({CONSTANTS.eta:g} x (KL - {TARGET:g}))"
            why += f", KL {distance:.3g} nats/response{told}"
            if CONSTANTS.eta * (distance - TARGET) > CONSTANTS.exponent:
                why += f", the exponent held at {CONSTANTS.exponent:g}"
    if raised > CONSTANTS.beta_high:
        raised, why = CONSTANTS.beta_high, f"the most that controllers allow; {why}"
    return Change("kl_coef", beta, rounded(raised), why) if raised > beta else None


def _response_kl(run: Run, step: int) -> tuple[float | None, str]:
    """Return the KL at a step in nats a response, and how it was come by."""
    at = {
        name: level_at(run, name, step)
        for name in ("kl_ref_response", "kl_ref_token", "response_length_mean")
    }
    if at["kl_ref_response"] is not None:
        return at["kl_ref_response"], ""
    token, length = at["kl_ref_token"], at["response_length_mean"]
    if token is None or length is None:
        return None, ""
    return token * length, " (a token x the mean length)"


def _clip(run: Run, verdict: Verdict, step: int) -> Change:
    current = run.number("clip_range")
    if current is None:
        return Change("clip_range", None, USUAL_CLIP, "the usual range")
    if current > USUAL_CLIP:
        return Change("clip_range", current, USUAL_CLIP, "the usual range")
    return Change("clip_range", current, rounded(current / 2), "half of the present one")


USUAL_CLIP, HIGHER_CLIP = 0.2, 0.28
"""Clip range of PPO (Schulman et al. 1707.06347), and DAPO's upper one (2503.14476)."""


def _clip_wider(run: Run, verdict: Verdict, step: int) -> Change | None:
    current = _upper_clip(run)
    if current is not None and current >= HIGHER_CLIP:
        return None
    return Change("clip_range_high", current, HIGHER_CLIP, "DAPO's: room for unlikely tokens")


def _clip_usual(run: Run, verdict: Verdict, step: int) -> Change | None:
    current = _upper_clip(run)
    if current is None or current <= USUAL_CLIP:
        return None
    return Change("clip_range_high", current, USUAL_CLIP, "no wider than the usual range")


def _upper_clip(run: Run) -> float | None:
    upper = run.number("clip_range_high")
    return run.number("clip_range") if upper is None else upper


def _entropy_bonus(run: Run, verdict: Verdict, step: int) -> Change | None:
    current = run.number("entropy_coef")
    if current is None or current <= 0.0:
        return None
    return Change("entropy_coef", current, 0.0, "a bonus feeds what exploded")


def _precision(run: Run, verdict: Verdict, step: int) -> Change | None:
    found = run.config.get("dtype")
    current = str(found.value) if found else None
    if current is None or "16" not in current or "bf16" in current or "bfloat16" in current:
        return None
    return Change("dtype", current, "bfloat16", "the range of float32: no loss scale to overflow")


def _limit(run: Run, verdict: Verdict, step: int) -> Change | None:
    current = run.number("max_response_length")
    if current is None:
        return None
    return Change("max_response_length", current, 2 * current, "twice: cut answers teach nothing")


def _reward(run: Run, verdict: Verdict, step: int) -> Change:
    found = run.config.get("reward_model")
    current = str(found.value)[:80] if found else None
    return Change("reward_model", current, "renewed", "it pays for what it should not")


MAKERS: Mapping[str, Maker] = {
    "rate": _rate,
    "tenth": _tenth,
    "penalty": _penalty,
    "clip": _clip,
    "clip_wider": _clip_wider,
    "clip_usual": _clip_usual,
    "entropy_bonus": _entropy_bonus,
    "precision": _precision,
    "limit": _limit,
    "reward": _reward,
}
"""Changes by kind."""


def _setting(run: Run, name: str, column: str) -> float | None:
    """Return a setting of the configuration, else the largest that was logged."""
    value = run.number(name)
    if value is None and logged(run, column):
        value = max(track(run, column).values)
    return value
