"""A log that goes back to an earlier step."""

from collections.abc import Iterator

from rlhfdoctor.model import Evidence, Finding, Onset, Run, Skip
from rlhfdoctor.rules import NoLimits, rule


@rule(
    "LOG003",
    signal="log",
    needs=["rows>=1"],
    text="the run was resumed {times} times: the log goes back from step {left} to {step}{more}",
    brief="resumed at step {step}",
)
def log_resumed(run: Run, limits: NoLimits) -> Iterator[Finding | Skip]:
    """The log was begun again at an earlier step: the run was resumed from a checkpoint.

    Steps that were logged twice are judged by the later rows. A seam is worth knowing in itself:
    what changes exactly there (learning rate, KL against a reference that was captured anew, an
    optimizer that started empty) was changed by the resume.

    Remedy: compare the configuration before and after the seam; see that the reference model, the
    optimizer state and the KL coefficient were restored.
    """
    if run.seams:
        first = run.seams[0]
        rest = ", ".join(str(seam.step) for seam in run.seams[1:6])
        yield Finding(
            "info",
            tuple(
                Evidence(
                    kind="log",
                    subject="step",
                    observed=float(seam.step),
                    where=seam.where,
                    unit="steps",
                    first_step=seam.step,
                    last_step=seam.left,
                )
                for seam in run.seams[:20]
            ),
            {
                "times": len(run.seams),
                "left": first.left,
                "step": first.step,
                "more": f", then to {rest}" if rest else "",
            },
            onset=Onset(first.step, first.step, first.left),
        )
