"""GitHub Actions: annotations as workflow commands, and the page of a job.

docs.github.com: Workflow commands for GitHub Actions. A command is one line; what it says is
escaped as the runner unescapes it (actions/runner, ActionCommand.cs), so that no text of a run ends
its line or begins another.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from rlhfdoctor.model import SEVERITIES, Diagnosis, Finding, Run
from rlhfdoctor.policy import failing
from rlhfdoctor.reports import Gated, Page, report
from rlhfdoctor.reports._gate import counted_words, gate_rows, gated, outward, path_of, unseen
from rlhfdoctor.reports._lines import shown
from rlhfdoctor.reports.markdown import markdown_parts

MOST = 9
"""Annotations; of each kind GitHub shows ten a step, and one is left for what says how many more
there are."""

LONGEST = 900_000
"""Bytes of a summary; GitHub takes 1 MiB a step, and refuses a longer one whole."""

Annotation = tuple[tuple[int, ...], str]
"""How grave it is, smaller being graver, and the command."""


@report("github")
def github(diagnoses: Sequence[Diagnosis], page: Page) -> str:
    """Print annotations, the gravest of all runs first: errors for what fails, else warnings.

    What is accepted has none.
    """
    diagnoses, gate = outward(diagnoses, page)
    annotations = sorted(_annotations(diagnoses, gate), key=lambda pair: pair[0])
    lines = [line for _, line in annotations[:MOST]]
    if len(annotations) > MOST:
        more = f"{len(annotations) - MOST} more, see the job summary"
        lines.append(_command("notice", "rlhfdoctor", more))
    if not annotations:
        said = counted_words([*gate_rows(diagnoses, gate)])
        lines.append(_command("notice", "rlhfdoctor", said))
    return "\n".join(lines) + "\n"


def _annotations(diagnoses: Sequence[Diagnosis], gate: Gated) -> Iterator[Annotation]:
    for lost in gate.failed:
        text = f"{lost['path']}: {lost['error']}; {lost['hint']}"
        yield (0,), _command("error", "could not judge", text)
    for diagnosis, code in zip(diagnoses, gate.codes, strict=True):
        run = diagnosis.run
        if diagnosis.unanswered and code != 1:
            kind, rank = ("error", 2) if code == 3 else ("warning", 3)
            text = f"{run.name}: {unseen(diagnosis)}"
            yield (rank,), _command(kind, "could not look", text)
        grave = failing(diagnosis, gate.fail_on)
        for place, item in enumerate(grave):
            yield (1, SEVERITIES.index(item.severity), place), _of(run, "error", item)
        rest = failing(diagnosis, "warning")[len(grave) :]
        for place, item in enumerate(rest):
            yield (4, SEVERITIES.index(item.severity), place), _of(run, "warning", item)


def _of(run: Run, kind: str, finding: Finding) -> str:
    """Return the annotation of a finding, at its first evidence where that is a file below us."""
    where = finding.evidence[0].where
    path = path_of(run, where)
    place = {}
    if not os.path.isabs(path) and os.path.isfile(path) and shown(path) == path:
        place = {"file": path, **({"line": str(where.line)} if where.line else {})}
    title = f"{finding.code} {finding.name}"
    return _command(kind, title, f"{run.name}: {finding.message}", **place)


def _command(kind: str, title: str, text: str, **place: str) -> str:
    properties = {"title": shown(title), **place}
    told = ",".join(f"{key}={_property(value)}" for key, value in properties.items())
    return f"::{kind} {told}::{_data(shown(text))}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def summary(diagnoses: Sequence[Diagnosis], page: Page) -> str:
    """Return markdown for ``$GITHUB_STEP_SUMMARY``: the gate's table, then each run's report.

    Of at most ``LONGEST`` bytes as UTF-8: the part that would not fit is cut at the end of a line,
    those behind it are left out, and a last sentence says so.
    """
    room, kept = LONGEST - 200, []
    for part in markdown_parts(diagnoses, gated(diagnoses, page)):
        size = len(part.encode())
        if size > room:
            kept.append(_begin(part, room))
            kept.append(
                "\nCut here, for GitHub takes no more. `--output markdown=FILE` writes all.\n"
            )
            break
        kept.append(part)
        room -= size
    return "".join(kept)


def _begin(text: str, room: int) -> str:
    """Return the whole lines of a text that fit into ``room`` bytes."""
    return text.encode()[:room].rpartition(b"\n")[0].decode() + "\n"
