"""Perplexity under the policy, logged or sampled, held against the run's own start."""

from __future__ import annotations

from collections.abc import Iterator

from rlhfdoctor.measures import logged, track
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules._alarm import alarms
from rlhfdoctor.rules._ladder import alarms as sample_alarms
from rlhfdoctor.series import start_level


def departures(
    run: Run,
    *,
    patience: int,
    fewest: int,
    above: float | None = None,
    below: float | None = None,
) -> Iterator[Finding | Skip]:
    """Yield where perplexity leaves its start by more than a factor, in the log and in each file.

    above, below: times the start. patience: logged rows. fewest: responses a sampled step. The
    template's arguments are those of ``alarms``, and ``origin``. Skips where neither is there.
    """
    computed = logged(run, "ppl_policy") and not track(run, "ppl_policy").placeholder
    if computed:
        ppl = track(run, "ppl_policy")
        start = start_level(ppl.values)
        yield from alarms(
            run,
            ppl,
            above=None if above is None else above * start,
            below=None if below is None else below * start,
            patience=patience,
            args={"origin": "as logged"},
        )
    yield from sample_alarms(
        run,
        fewest,
        lambda batch: batch.perplexity,
        wants=None if computed else "and log-probabilities, or a logged perplexity",
        above=None if above is None else lambda start: above * start,
        below=None if below is None else lambda start: below * start,
        subject="samples.logprobs",
        unit="perplexity",
        args=lambda steps: {"origin": f"from the log-probabilities in {steps[0].source}"},
    )
