"""A KL that lies below zero."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median

from rlhfdoctor.measures import Track, metric_evidence, track
from rlhfdoctor.model import Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.series import mean_error


@dataclass(frozen=True, slots=True)
class Limits:
    """How far below zero is no noise."""

    rows: int = 10  # logged rows whose mean is judged
    response: float = 1.0  # nats per response below zero
    token: float = 0.05  # nats per token below zero: 1.0 over twenty tokens
    standard_errors: float = 4.0  # of the mean of those rows
    impossible: float = 0.01  # nats per token below zero that rounding may make of a k3


@rule(
    "KL010",
    signal="numbers",
    any_of=["kl_ref_response", "kl_ref_token"],
    needs=["rows>=10"],
    limits=Limits,
    text="KL ({estimator}) lies at {level:.3g} {unit} in {count} logged rows; {why}{suspects}",
    brief="KL below zero: {level:.3g} {unit}",
)
def kl_negative(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The KL to the reference lies below zero, further than noise takes it.

    A KL cannot be negative; its k1 estimate can, by noise, and around zero it changes sign all the
    time: -0.07 was harmless (TRL 351). It means more where ten rows average below -1 nats a
    response, by four standard errors (t-test): the public cases that did harm stood at -1.5, -2.4,
    -5.3 and -233. The responses are then not drawn from the distribution that scores them:
    temperature or top-p not applied to both, a minimal length or suppressed EOS, repetition
    penalties, positions after EOS counted, padding on the wrong side. The optimiser is paid for
    such a KL. Per token the limit is that of one nat spread over twenty tokens, the short responses
    of those cases. [H] A k3 estimate is positive whatever the samples are: below zero by more than
    bfloat16 rounds next to 1 (0.008) it is computed wrongly.

    Remedy: make sampling and scoring agree (temperature, top-p, top-k, penalties, minimal length,
    padding side, the mask after EOS); no KL coefficient is meaningful before.
    """
    kl = track(run, "kl_ref_response", "kl_ref_token")
    k3 = kl.column.estimator == "k3"
    per_response = kl.metric == "kl_ref_response"
    limit = limits.impossible if k3 else limits.response if per_response else limits.token
    suspects = _suspects(run)
    for first, last in _stretches(kl, limit, limits):
        stands = last == len(kl) - 1
        level = median(kl.values[first : last + 1])
        yield Finding(
            "warning" if stands else "info",
            (metric_evidence(run, kl, first, last, level, limit_low=-limit),),
            {
                "level": level,
                "unit": kl.column.unit,
                "estimator": kl.column.estimator or "estimator unknown",
                "count": last - first + 1,
                "why": "k3 cannot be negative: it is computed wrongly"
                if k3
                else "the samples are not drawn from what scores them",
                "suspects": f" ({', '.join(suspects)})" if suspects and not k3 else "",
            },
            onset=Onset(
                kl.steps[first], kl.steps[first], kl.steps[min(first + limits.rows - 1, last)]
            ),
            recovered_at=None if stands else kl.steps[last + 1],
        )


def _stretches(kl: Track, limit: float, limits: Limits) -> list[tuple[int, int]]:
    """Return [first, last] index pairs of rows whose windows lie significantly below zero.

    Two with less than a window between them are one.
    """
    size = limits.rows
    bad = [
        end
        for end in range(size, len(kl) + 1)
        if _significant(kl.values[end - size : end], limit, limits.standard_errors)
    ]
    runs = [[end for _, end in run] for _, run in groupby(enumerate(bad), lambda at: at[1] - at[0])]
    found: list[tuple[int, int]] = []
    for ends in runs:
        first, last = ends[0] - size, ends[-1] - 1
        if found and first <= found[-1][1] + size:
            first = found.pop()[0]
        found.append((first, last))
    return found


def _significant(values: Sequence[float], limit: float, standard_errors: float) -> bool:
    if min(values) >= -limit:
        return False
    mean, error = mean_error(values)
    return mean < -limit and mean < -standard_errors * error


def _suspects(run: Run) -> list[str]:
    """Return what the configuration knows that makes samples differ from the scored policy."""
    known = [("temperature", run.number("temperature")), ("top-p", run.number("top_p"))]
    return [f"{name} {value:g}" for name, value in known if value is not None and value != 1.0]
