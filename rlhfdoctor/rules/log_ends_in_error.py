"""A console log that ends with an exception."""

from collections.abc import Iterator

from rlhfdoctor.model import Evidence, Finding, Onset, Run, Skip
from rlhfdoctor.rules import NoLimits, rule


@rule(
    "LOG004",
    signal="log",
    needs=["config.ended_with"],
    text="the program ended with: {error}",
    brief="ended with {error}",
)
def log_ends_in_error(run: Run, limits: NoLimits) -> Iterator[Finding | Skip]:
    """The console log ends with an exception, or with the message of a killed process.

    It says why the process stopped, not how the policy fared until then: a full disk ends a healthy
    run as well. So it is information, and no verdict rests on it.

    Remedy: mend what the message names, then resume from the last complete checkpoint.
    """
    ended = run.config["ended_with"]
    last = run.last_step
    yield Finding(
        "info",
        (
            Evidence(
                kind="log",
                subject="ended_with",
                observed=str(ended.value),
                where=ended.where,
                unit="text",
                last_step=last,
            ),
        ),
        {"error": str(ended.value)},
        onset=None if last is None else Onset(last, last, last),
    )
