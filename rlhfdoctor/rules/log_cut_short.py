"""A log that ends before the run was to end."""

import math
from collections.abc import Iterator

from rlhfdoctor.model import Evidence, Finding, Onset, Run, Skip
from rlhfdoctor.rules import NoLimits, rule


@rule(
    "LOG001",
    signal="log",
    needs=["config.planned_steps", "rows>=1"],
    text="the log ends at step {last} of {planned} planned{more}",
    brief="log cut short at step {last} of {planned}",
)
def log_cut_short(run: Run, limits: NoLimits) -> Iterator[Finding | Skip]:
    """The log ends before the planned number of steps.

    A process that died, a file that was cut, a tail that was lost: log_history is written with each
    checkpoint and dies with the last one. It says nothing about the health of the policy, so it is
    information, and no verdict rests on it. A log of every tenth step that ends within ten of the
    plan is whole.

    Remedy: look for the tail in event files and console output; otherwise resume from the last
    complete checkpoint with unchanged settings.
    """
    planned, last = run.number("planned_steps"), run.last_step
    if planned is None or planned <= 0 or last is None:
        yield Skip("", ("config.planned_steps as a positive number",))
        return
    if run.step_unit == "row":
        yield Skip("", ("steps: the log's rows had to be numbered",))
        return
    interval = run.number("logging_steps") or 1.0
    if interval < 0:
        interval = 1.0
    elif interval < 1:
        interval = math.ceil(interval * planned)
    gap = run.metrics["step"].diff().median()
    interval = max(interval, float(gap) if isinstance(gap, int | float) else 1.0)
    if last + interval <= planned:
        later = [item for item in run.checkpoints if item.step > last]
        more = f"; {later[-1].name} is younger than the log" if later else ""
        yield Finding(
            "info",
            (
                Evidence(
                    kind="log",
                    subject="step",
                    observed=float(last),
                    where=run.config["planned_steps"].where,
                    limit_low=planned,
                    unit="steps",
                    first_step=last,
                    last_step=last,
                ),
            ),
            {"last": last, "planned": int(planned), "more": more},
            onset=Onset(last, last, last),
        )
