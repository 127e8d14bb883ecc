"""Steps that are missing in the middle of a log."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from rlhfdoctor.measures import finite_rows, locate
from rlhfdoctor.model import Evidence, Finding, Onset, Run, Skip
from rlhfdoctor.rules import rule


@dataclass(frozen=True, slots=True)
class Limits:
    """What counts as a gap."""

    gap: float = 5.0  # times the usual distance of two logged steps, and that of its neighbours
    told: int = 20  # gaps listed as evidence


@rule(
    "LOG006",
    signal="log",
    needs=["rows>=10"],
    limits=Limits,
    text="the log jumps from step {left} to {step}, usually by {usual:g}; {count} such gaps, "
    "{missing} rows missing",
    brief="no rows between steps {left} and {step}",
)
def step_gap(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """Rows are missing in the middle of the log.

    A file that was cut and joined, an upload that lost its connection, a console whose lines
    scrolled away, an attempt whose log was not kept. What happened there nobody saw, and a jump of
    a metric across it may have been a slow change; dates that fall near it are as wide as the gap.
    A log that changes its interval for good has no gap, and the last row of a log may stand apart
    (a summary). Five times the usual distance is a rule of thumb. [H]

    Remedy: look for the rows in the event files, the tracker or the earlier attempt's folder.
    """
    if run.step_unit == "row":
        yield Skip("", ("steps: the log's rows had to be numbered",))
        return
    fullest = max(run.columns, key=lambda name: finite_rows(run, name))
    steps = run.metrics["step"].to_list()
    jumps = [after - before for before, after in pairwise(steps)]
    usual = float(median(jumps))
    resumed = {seam.step for seam in run.seams}
    places = [
        place
        for place in range(1, len(jumps) - 1)
        if jumps[place] >= limits.gap * max(usual, jumps[place - 1], jumps[place + 1])
        and steps[place + 1] not in resumed
    ]
    if not places:
        return
    left, right = steps[places[0]], steps[places[0] + 1]
    yield Finding(
        "info",
        tuple(
            Evidence(
                kind="log",
                subject="step",
                observed=float(jumps[place]),
                where=locate(run, fullest, steps[place + 1]),
                limit_high=usual,
                unit="steps",
                first_step=steps[place],
                last_step=steps[place + 1],
            )
            for place in places[: limits.told]
        ),
        {
            "left": left,
            "step": right,
            "usual": usual,
            "count": len(places),
            "missing": round(sum(jumps[place] / usual - 1 for place in places)),
        },
        onset=Onset(right, left, right),
    )
