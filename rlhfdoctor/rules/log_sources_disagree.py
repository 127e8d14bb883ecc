"""Files of one run that tell different numbers."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.model import Evidence, Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of a disagreement is told."""

    keys: int = 5  # keys listed as evidence


@rule(
    "LOG002",
    signal="log",
    needs=["rows>=1"],
    limits=Limits,
    text="{files} tell different numbers for {keys_told}, first at step {step}: {values}; "
    "{kept} is believed",
    brief="sources of the log disagree",
)
def log_sources_disagree(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Two files of the run hold different numbers under the same key at the same step.

    Rounding to float32 (1e-6 relative) and the digits that a console leaves out are no
    disagreement, nor are the processes of one run. What remains is a resumed run whose earlier
    attempt was logged elsewhere, two runs in one folder, or a metric that each source reduces in
    its own way. The verdict rests on the file named as kept: the trainer's youngest state, else the
    last; the record holds both. It says nothing about the policy, so it is information.

    Remedy: find out which file belongs to the run, and move the other; judge them one by one.
    """
    if not run.conflicts:
        return
    first = min(run.conflicts, key=lambda item: (item.first_step, item.key))
    listed = sorted(run.conflicts, key=lambda item: (-item.steps, item.key))[: limits.keys]
    more = len(run.conflicts) - 1
    yield Finding(
        "info",
        tuple(
            Evidence(
                kind="log",
                subject=item.key,
                observed=item.values[-1],
                where=item.kept,
                limit_low=item.values[0],
                unit=_unit(run, item.key),
                first_step=item.first_step,
                last_step=item.first_step,
            )
            for item in listed
        ),
        {
            "files": ", ".join(dict.fromkeys(first.files)),
            "keys_told": first.key + (f" and {more} more keys" if more else ""),
            "step": first.first_step,
            "kept": first.kept.file,
            "values": ", ".join(f"{value:.6g}" for value in first.values),
        },
        onset=Onset(first.first_step, first.first_step, first.first_step),
    )


def _unit(run: Run, key: str) -> str:
    for column in run.columns.values():
        if any(place.key == key for place in column.sources):
            return column.unit
    return "unknown"
