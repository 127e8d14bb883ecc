import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlhfdoctor.model import Acceptance, Diagnosis, Location
from rlhfdoctor.reports import Page
from rlhfdoctor.reports.github import LONGEST, MOST, github, summary
from rlhfdoctor.reports.terminal import terminal
from tests.reports.gates import EVIL, FAILED, blind, gate, sick

REGISTERED = re.compile(
    "debug|notice|warning|error|group|endgroup|echo|add-mask|add-path|add-matcher|remove-matcher|"
    "set-env|set-output|save-state|stop-commands|internal-set-repo-path|command",
    re.IGNORECASE,
)

Command = tuple[str, dict[str, str], str]


def obeyed(line: str) -> Command | None:
    """Return the command that a runner finds in a line (actions/runner, ActionCommand.cs)."""
    new = re.match(r"\s*::(.*?)::(.*)", line, re.DOTALL)
    if new:
        name, _, rest = new[1].partition(" ")
        if REGISTERED.fullmatch(name):
            pairs = [item.partition("=") for item in rest.strip().split(",") if item]
            return name, {key: unescaped(value) for key, _, value in pairs}, unescaped(new[2])
    old = re.search(r"##(?:vso)?\[(.*?)\](.*)", line, re.DOTALL)
    return (old[1], {}, old[2]) if old else None


def unescaped(text: str) -> str:
    for code, char in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
        text = text.replace(code, char)
    return text


def commands(diagnoses: list[Diagnosis], page: Page) -> list[Command]:
    """Return what a runner makes of the report: each line is one annotation, nothing else."""
    lines = re.split(r"[\r\n\x0b\x0c\x85\u2028\u2029]", github.render(diagnoses, page))
    assert lines.pop() == ""
    found = [command for command in map(obeyed, lines) if command]
    assert len(found) == len(lines)
    assert {name for name, _, _ in found} <= {"error", "warning", "notice"}
    assert all({*about} <= {"title", "file", "line"} for _, about, _ in found)
    return found


def test_a_gate_is_printed_as_it_was(
    gated: tuple[list[Diagnosis], Page], golden: Callable[[str, str], None]
) -> None:
    commands(*gated)
    golden("gate.github.txt", github.render(*gated))
    golden("gate.summary.md", summary(*gated))


def test_the_gravest_of_all_runs_come_first_and_the_rest_is_counted() -> None:
    diagnoses = [sick("mild", "warning", 3), sick("grave", count=3), sick("bad", count=3), blind()]
    found = commands(diagnoses, gate(diagnoses, failed=[FAILED]))
    assert [name for name, _, _ in found] == ["error"] * MOST + ["notice"]
    assert [text.partition(":")[0] for _, _, text in found[:-1]] == [
        "fixtures/base",
        *["grave", "bad"] * 3,
        "mild",
        "short",
    ]
    assert found[-1][2] == "3 more, see the job summary"


@pytest.mark.parametrize(
    ("told", "names"),
    [
        pytest.param(sick("x"), ["error"], id="what fails is an error"),
        pytest.param(sick("x", "warning"), ["error", "warning"], id="what does not, a warning"),
        pytest.param(sick("x", "info"), ["error"], id="information has none"),
        pytest.param(blind(), ["error"], id="what could not be judged is an error"),
    ],
)
def test_an_annotation_has_the_level_of_what_it_means(told: Diagnosis, names: list[str]) -> None:
    assert [name for name, _, _ in commands([told], gate([told]))] == names


def test_what_is_accepted_has_no_annotation() -> None:
    told = sick("x")
    borne = replace(told.findings[0], accepted=Acceptance("baseline", "known"))
    told = replace(told, findings=(borne,), unanswered=())
    assert commands([told], gate([told])) == [("notice", {"title": "rlhfdoctor"}, "1 PASS")]


def test_what_may_pass_unseen_is_warned_of() -> None:
    page = gate([blind()], allow_inconclusive=True)
    assert [name for name, _, _ in commands([blind()], page)] == ["warning"]


@pytest.mark.parametrize(
    ("file", "about"),
    [
        pytest.param("a b.jsonl", {"file": "r/a b.jsonl", "line": "3"}, id="a file of the run"),
        pytest.param("a,b:c%.jsonl", {"file": "r/a,b:c%.jsonl", "line": "3"}, id="odd characters"),
        pytest.param("none.jsonl", {}, id="a file that is not there"),
        pytest.param("../../other.jsonl", {}, id="a file outside"),
        pytest.param(".", {}, id="a folder"),
    ],
)
def test_an_annotation_names_a_file_below_the_working_directory(
    file: str, about: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work/r").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "work")
    for name in ("work/r/a b.jsonl", "work/r/a,b:c%.jsonl", "other.jsonl"):
        (tmp_path / name).touch()
    told = sick("x")
    item = replace(told.findings[0].evidence[0], where=Location(file, line=3))
    finding = replace(told.findings[0], evidence=(item,))
    told = replace(told, run=replace(told.run, path="r"), findings=(finding,))
    assert commands([told], gate([told])) == [
        ("error", {"title": "KL001 kl_band", **about}, "x: x")
    ]


@pytest.mark.parametrize("text", EVIL)
def test_no_text_of_a_run_is_obeyed(text: str) -> None:
    failed = {**FAILED, "path": text, "error": text, "hint": text}
    diagnoses = [sick(text), sick(text, "warning")]
    page = gate(diagnoses, failed=[failed])
    assert len(commands(diagnoses, page)) == 4
    for printed in (terminal.render(diagnoses, page), terminal.render(diagnoses, Page())):
        assert not [*filter(None, map(obeyed, printed.splitlines()))]


@given(st.text(st.sampled_from("::##[]%0AaD,=\r\n\ud800 error") | st.characters()))
def test_whatever_a_run_says_is_one_line(text: str) -> None:
    assert len(commands([sick(text)], gate([sick(text)]))) == 1


# The page of a job


def test_the_summary_holds_the_gate_and_each_run(gated: tuple[list[Diagnosis], Page]) -> None:
    told = summary(*gated)
    assert told.startswith("# Gate: 1 FAIL, 2 UNKNOWN, 2 PASS\n")
    assert told.count("\n# ") == 4
    assert "Cut here" not in told


@pytest.mark.parametrize("letter", ["a", "\u4e2d", "\U0001f600"])
@pytest.mark.parametrize("runs", [1, 3, 400])
def test_a_long_summary_is_cut_at_a_line_and_says_so(letter: str, runs: int) -> None:
    diagnoses = [sick(letter * 50, count=200 if runs > 1 else 20_000)] * runs
    told = summary(diagnoses, gate(diagnoses))
    whole = len("".join(told).encode())
    if runs == 3:
        assert "Cut here" not in told
        return
    assert LONGEST - 100_000 < whole < LONGEST
    *lines, last = told.splitlines()
    assert last.startswith("Cut here, for GitHub takes no more. ")
    assert lines[-1] == ""
    assert lines[-2].startswith("|")
    assert lines[-2].endswith("|")


def test_a_table_without_end_is_cut_too() -> None:
    diagnoses = [sick("a" * 50)] * 9000
    told = summary(diagnoses, gate(diagnoses))
    assert len(told.encode()) < LONGEST
    assert "Cut here, for GitHub takes no more" in told
