import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from rlhfdoctor.doctor import diagnose
from rlhfdoctor.model import Checkpoint, Note, Run
from rlhfdoctor.reports import Page
from rlhfdoctor.reports.json import recomputed
from rlhfdoctor.reports.markdown import markdown, plain, recompute_markdown
from rlhfdoctor.runs import read_runs
from rlhfdoctor.scores import references
from tests.builders import FIXTURES, RUNS, began, run_of, scored

HOSTILE = [
    pytest.param("a|b", id="a bar"),
    pytest.param("<script>alert(1)</script>", id="a tag"),
    pytest.param("`rm -rf`", id="backticks"),
    pytest.param("[x](javascript:alert(1))", id="a link"),
    pytest.param("![x](http://e.vil/x.png)", id="an image"),
    pytest.param("one\n# two\r\n| three |", id="lines"),
    pytest.param("a\u2028b\u202ec\x1b[31md\x00", id="controls"),
    pytest.param("**bold** _it_ ~~no~~ &lt;b&gt;", id="marks and entities"),
    pytest.param("\\|", id="a backslash before a bar"),
    pytest.param("<http://e.vil>", id="an autolink"),
    pytest.param("HTTPS://e.vil www.e.vil WWW.e.vil", id="bare addresses"),
    pytest.param("@admin a@e.vil #12 \\#12 x/y#1", id="mentions and references"),
    pytest.param("$x$ $$y$$", id="formulas"),
]


def named(evil: str) -> Run:
    """A sick run in which everything that a run can name is called so."""
    scores = [
        began(evil, samples_file=evil),
        scored(5, 3.0, reference=evil, samples_file=evil, checkpoint=evil),
        scored(5, 3.0, reference=evil, samples_file=evil, checkpoint=evil, part="chosen"),
    ]
    run = run_of(
        kl_ref_token=[0.01] * 30,
        loss_total=[1.0] * 30,
        scores=scores,
        checkpoints=[Checkpoint(2, evil, evil, complete=True), Checkpoint(5, evil, evil)],
    )
    notes = (Note(evil, evil),)
    return replace(run, name=evil, path=evil, framework=evil, notes=notes)


def unescaped(text: str) -> str:
    """What markdown would act on: without escaped characters, and those that are code alone."""
    return re.sub(r"\\.|`[@#]`", "", text)


def both(run: Run) -> Iterator[str]:
    yield markdown.render([diagnose(run)], Page(0))
    yield recompute_markdown(recomputed(run, references(run)))


@pytest.mark.parametrize("evil", HOSTILE)
def test_text_of_a_run_is_no_mark_no_link_and_no_tag(evil: str) -> None:
    alone = plain(evil)
    assert "\n" not in alone
    assert not re.search(r"[`*_\[\]<>|~!&#{}$@]|://|www\.", unescaped(alone), re.IGNORECASE)
    for text in both(named(evil)):
        body = unescaped(text)
        assert "<" not in body
        assert "`" not in body
        assert "](" not in body
        assert not re.search(r"\$|@|://|www\.", body, re.IGNORECASE)
        assert not re.search(r"[\x00\x1b\u2028\u202e\r]", text)


def test_plain_text_can_be_read_back() -> None:
    said = "KL [k3] is 3 * 2 <b> & `x` | y_z"
    assert re.sub(r"\\(.)", r"\1", plain(said)) == said


@pytest.mark.parametrize("evil", ["base", *HOSTILE])
def test_every_row_of_a_table_has_as_many_cells(evil: str) -> None:
    for text in both(named(evil)):
        assert_tables(text)


@pytest.mark.parametrize("name", RUNS)
def test_tables_of_real_runs_are_whole(name: str) -> None:
    assert_tables(markdown.render([diagnose(run) for run in read_runs(FIXTURES / name)], Page(0)))


def assert_tables(text: str) -> None:
    blocks = [block.splitlines() for block in text.split("\n\n") if block.startswith("|")]
    for header, rule, *rows in blocks:
        assert rows
        assert re.fullmatch(r"\|(---\|)+", rule)
        counts = {unescaped(line).count("|") for line in (header, *rows)}
        assert counts == {rule.count("|")}


def test_a_recomputed_run_has_its_tables() -> None:
    told, alone = both(named("base"))
    for text in (told, alone):
        assert "## Recomputed" in text
        assert "**against base, on base**" in text
        assert "**pairs against base, on base**" in text
    assert told.startswith("# COLLAPSED  base")
    assert "KL006" in told


def test_a_run_that_nobody_scored_has_none() -> None:
    for text in both(run_of(loss_total=[1.0] * 9)):
        assert "## Recomputed" not in text
