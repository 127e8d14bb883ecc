"""Gates for tests of reports: real runs, judged and accepted as the command does it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date
from functools import cache
from pathlib import Path

from rlhfdoctor.doctor import diagnose
from rlhfdoctor.model import Diagnosis, Evidence, Finding, Location, Severity, Skip
from rlhfdoctor.policy import NOTHING, Ignore, accept, exit_code, worst
from rlhfdoctor.reports import Document, Gated, Page
from rlhfdoctor.runs import read_runs
from tests.builders import FIXTURES, run_of

ROOT = FIXTURES.parent

TODAY = date(2026, 12, 1)

FAILED: Document = {
    "path": "fixtures/base",
    "exit_code": 2,
    "error": "no log and no samples in fixtures/base",
    "hint": "a run has a trainer_state.json",
}

EVIL = (
    "]]>",
    "<failure message='x'/>&amp;&lt;",
    "a\nb\r\n::error::x",
    "::stop-commands::token",
    "::error file=a,line=1::b",
    " ::set-output name=a::b",
    "##[error]x",
    "##vso[task.complete result=Succeeded]",
    "100%0A%25",
    "a:b,c=d",
    "\x00\x08\x0b\x1b[31m\x7f\x85\ufffe\uffff",
    "\ud800\udc00\udfff",
    "\u2028\u2029\u202e",
    "[x](http://e.vil) {0} \\",
    "<!channel> <@U1> <#C1> <http://e.vil|x> @here",
    "``` *b* `c`",
    "../../etc/passwd",
    "",
)
"""What a run may say anywhere."""


@cache
def diagnosed(name: str) -> Diagnosis:
    """Return the diagnosis of a fixture; the working directory is the repository's."""
    (run,) = read_runs(Path("fixtures") / name)
    return diagnose(run)


def blind() -> Diagnosis:
    """Return the diagnosis of a run of which too little was logged."""
    return diagnose(replace(run_of(loss_total=[1.0] * 3), name="short", path="runs/short"))


def sick(text: str = "it broke", severity: Severity = "critical", count: int = 1) -> Diagnosis:
    """Return the diagnosis of a run in which everything that it can say is this text."""
    item = Evidence("log", text, text, Location(text, key=text, line=3), unit=text)
    finding = Finding(
        severity,
        (item,),
        {"said": text},
        code="KL001",
        name="kl_band",
        signal="kl",
        text="{said}",
        advice=("read it.",),
    )
    found = [
        replace(finding, code=f"KL{place:03}", evidence=(replace(item, subject=str(place)),))
        for place in range(1, count + 1)
    ]
    run = replace(run_of(), name=text, path=text, framework=text, algorithm=text)
    skip = Skip("LEN001", (text,), text)
    return replace(
        blind(),
        run=run,
        verdict="collapsed",
        headline=text,
        findings=tuple(found),
        clear=(),
        skipped=(skip,),
        unanswered=(text,),
    )


def gate(
    diagnoses: Sequence[Diagnosis],
    fail_on: Severity = "critical",
    failed: Sequence[Document] = (),
    *,
    allow_inconclusive: bool = False,
) -> Page:
    """Return the page of a gate on them."""
    codes = [exit_code(item, fail_on, allow_inconclusive=allow_inconclusive) for item in diagnoses]
    code = worst([*codes, *(int(str(item["exit_code"])) for item in failed)])
    return Page(code, gate=Gated(fail_on, (*codes,), (*failed,)), brief=True)


def judged() -> tuple[list[Diagnosis], Page]:
    """Return a run of each kind: healthy, failing, accepted, inconclusive, and one that failed."""
    borne = diagnosed("grpo_zero_std")
    ignore = Ignore("GRP001", "a smoke test", date(2027, 1, 31))
    old = replace(borne, findings=tuple(one for one in borne.findings if one.code != "GRP001"))
    known = NOTHING.renewed([old])
    diagnoses = [
        diagnosed("ppo_healthy"),
        diagnosed("grpo_late"),
        accept(borne, [ignore], known, TODAY),
        blind(),
    ]
    return diagnoses, gate(diagnoses, failed=[FAILED])
