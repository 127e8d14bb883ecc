import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rlhfdoctor.doctor import diagnose
from rlhfdoctor.errors import DoctorError
from rlhfdoctor.measures import SCANS, log_fingerprint
from rlhfdoctor.model import Checkpoint, Column, Note, Onset, Run
from rlhfdoctor.readers._scores import read_scores
from rlhfdoctor.reports import Page
from rlhfdoctor.reports.json import one_or_runs, published, recomputed
from rlhfdoctor.reports.markdown import markdown, recompute_markdown
from rlhfdoctor.reports.terminal import recompute_lines, terminal
from rlhfdoctor.runs import read_runs, share, with_scores
from rlhfdoctor.scores import (
    SCORES,
    around,
    between,
    held,
    ladders,
    measured,
    principal,
    references,
    rows,
    starts,
    unmeasured,
)
from tests.builders import began, run_of, scanned, scored, write_jsonl

NAN, INF = float("nan"), float("inf")
POSITIONS = [
    {"first": 1, "last": 1, "tokens": 32, "policy": 40.0, "reference": 41.0, "kl": 0.1},
    {"first": 2, "last": 3, "tokens": 64, "policy": INF, "reference": NAN, "kl": NAN},
]


# Ladders


def test_a_run_that_nobody_scored_has_no_rows() -> None:
    run = run_of(kl_ref_token=[0.1])
    assert rows(run) == []
    assert ladders(run, "base") == []
    assert held(run) == ()
    assert references(run) == ()
    assert principal(run) is None
    assert starts(run, "base", "samples.jsonl") is None


def test_rows_are_ordered_by_step_and_keep_to_their_role() -> None:
    run = run_of(scores=[scored(20), began(), scored(10), {**scored(30), "step": None}])
    assert [row["step"] for row in rows(run)] == [10, 20]
    assert [row["checkpoint"] for row in rows(run, role="reference")] == ["base"]


def test_a_ladder_is_one_file_one_part_one_reference() -> None:
    scores = [
        scored(10, samples_file="short.jsonl"),
        *(scored(step, samples_file="long.jsonl") for step in (10, 20)),
        scored(10, part="chosen"),
        scored(30, reference="other"),
    ]
    found = ladders(run_of(scores=scores), "base")
    assert [[row["step"] for row in ladder] for ladder in found] == [[10, 20], [10]]
    assert found[0][0]["samples_file"] == "long.jsonl"
    (chosen,) = ladders(run_of(scores=scores), "base", "chosen")
    assert [row["step"] for row in chosen] == [10]


def test_what_is_missing_of_a_number_is_not_finite() -> None:
    run = run_of(scores=[scored(10, 0.1), scored(20, None), scored(30, INF), scored(40, NAN)])
    (ladder,) = ladders(run, "base")
    assert [row["step"] for row in measured(ladder, "kl_ref_token_exact")] == [10]
    (told,) = unmeasured(ladder, "kl_ref_token_exact")
    assert told == "a finite kl_ref_token_exact of checkpoint-40"
    assert unmeasured(ladder[:1], "kl_ref_token_exact") == ()


@pytest.mark.parametrize(
    ("bad", "onset"),
    [pytest.param(0, (11, 3, 11), id="the first"), pytest.param(1, (21, 12, 21), id="the second")],
)
def test_an_onset_lies_between_two_checkpoints(bad: int, onset: tuple[int, int, int]) -> None:
    run = run_of(steps=[3, 30], lr=[1.0, 1.0], scores=[scored(10), scored(20)], log_offset=1)
    assert between(run, ladders(run, "base")[0], bad) == Onset(*onset)


def test_an_onset_before_the_log_is_the_checkpoint() -> None:
    run = run_of(steps=[50, 60], lr=[1.0, 1.0], scores=[scored(10)])
    assert between(run, ladders(run, "base")[0], 0) == Onset(10, 10, 10)


# References


@pytest.mark.parametrize(
    ("gaps", "started"),
    [
        pytest.param([0.09], True, id="near"),
        pytest.param([0.1], None, id="neither"),
        pytest.param([0.3], None, id="neither, still"),
        pytest.param([0.31], False, id="far"),
        pytest.param([2.0, 0.01], True, id="the nearest file tells"),
        pytest.param([None], None, id="the file tells none"),
        pytest.param([NAN], None, id="NaN"),
        pytest.param([], None, id="no samples of step 0"),
    ],
)
def test_what_training_started_from(gaps: list[float | None], started: bool | None) -> None:
    own = [began(gap=gap, samples_file=f"{at}.jsonl") for at, gap in enumerate(gaps)]
    (found,) = held(run_of(scores=[*own, scored(10)]))
    assert found.started is started


@pytest.mark.parametrize(
    ("gap", "started"),
    [
        pytest.param(0.05, True, id="cannot be told from the nearest"),
        pytest.param(0.101, None, id="no nearer than another model's may be"),
        pytest.param(0.12, False, id="the other one is plainly nearer"),
    ],
)
def test_the_nearest_of_several_is_what_training_started_from(
    gap: float, started: bool | None
) -> None:
    rows = [began("base", 0.01), began("other", gap), scored(10), scored(10, reference="other")]
    nearest, other = held(run_of(scores=rows))
    assert (nearest.started, other.started) == (True, started)


def test_a_fixed_set_does_not_tell_what_training_started_from() -> None:
    (found,) = held(run_of(scores=[began(on_policy=False)]))
    assert (found.started, found.first, found.matches) == (None, None, None)


@pytest.mark.parametrize(
    ("logged", "matches"),
    [
        pytest.param([0.5, 0.5, 0.5], True, id="all"),
        pytest.param([0.5, 0.5, 0.1], True, id="most"),
        pytest.param([0.5, 0.1, 0.1], False, id="one of three"),
        pytest.param([0.1, 0.1, 0.1], False, id="none"),
        pytest.param([0.375, 0.375, 0.375], True, id="by a quarter"),
        pytest.param([0.37, 0.37, 0.37], False, id="by more than a quarter"),
        pytest.param([NAN, NAN, 0.5], True, id="one, and NaN"),
        pytest.param([INF, INF, INF], None, id="infinity"),
        pytest.param([0.0, 0.0, 0.0], None, id="a placeholder"),
    ],
)
def test_whether_the_log_was_measured_against_it(logged: list[float], matches: bool | None) -> None:
    scores = [scored(step, 0.5) for step in (1, 2, 3)]
    (found,) = held(run_of(kl_ref_token=logged, scores=scores))
    assert found.matches is matches


@pytest.mark.parametrize(
    ("logged", "recomputed", "tells"),
    [
        pytest.param(0.0199, 0.001, False, id="both next to zero"),
        pytest.param(0.05, 0.001, True, id="the log is not"),
        pytest.param(0.001, 0.05, True, id="the weights are not"),
        pytest.param(-0.05, 0.001, True, id="negative k1"),
    ],
)
def test_numbers_next_to_zero_tell_nothing(logged: float, recomputed: float, tells: bool) -> None:
    (found,) = held(run_of(kl_ref_token=[logged], scores=[scored(1, recomputed)]))
    assert (found.matches is not None) is tells


def test_the_level_about_a_row_is_a_median() -> None:
    logged = [1.0, 2.0, 3.0, NAN, 100.0, 5.0, 6.0, 7.0]
    (found,) = held(run_of(kl_ref_token=logged, scores=[scored(5, 4.0), scored(1, 4.0)]))
    first, fifth = found.comparisons
    assert around(run_of(kl_ref_token=logged), fifth) == 5.0
    assert around(run_of(kl_ref_token=logged), first) == 2.0


def test_the_reference_to_judge_by() -> None:
    def name(*scores: dict[str, Any]) -> str:
        found = principal(run_of(kl_ref_token=[0.5] * 9, scores=scores))
        assert found is not None
        return found.name

    first, second = scored(5, 3.0, reference="a"), scored(5, 0.5, reference="b")
    assert name(first, scored(5, 2.0, reference="b")) == "a"
    assert name(first, second) == "b"
    assert name(began("a"), first, second) == "a"
    assert name(began("a"), first, began("b"), second) == "b"


def test_what_is_published_of_a_reference() -> None:
    run = run_of(kl_ref_token=[0.5] * 9, scores=[began(), scored(5, 0.5)])
    run = replace(run, references=({"name": "base", "path": "/base", "dtype": "float32"},))
    told: dict[str, Any] = dict(references(run)[0])
    assert told["path"] == "/base"
    assert told["training_started_from_it"] is told["matches_logged_kl"] is True
    (comparison,) = told["comparisons"]
    assert (comparison["step"], comparison["agrees"]) == (5, True)
    assert "scale" not in comparison


# To a file and back


def sick() -> Run:
    """A run whose scores hold all that JSON has no numbers for."""
    scores = [
        began(perplexity_by_position=POSITIONS),
        scored(10, 0.1, interval_low=None, interval_high=None, samples_file="NaN"),
        scored(20, NAN, kl_k3_token=INF, kl_k1_token=-INF, reward=None, margin=NAN),
        scored(20, 0.3, part="chosen", accuracy=0.5, on_policy=False),
    ]
    run = run_of(scores=scores, scans=[scanned(10), scanned(20, norm=None, finite=False)])
    return replace(run, references=({"name": "base", "temperature": 1.0, "vocabulary": 1024},))


def write(path: Path, *documents: Mapping[str, Any]) -> Path:
    path.write_text(one_or_runs(0, documents), encoding="utf-8")
    return path


def test_a_recomputation_survives_its_file(tmp_path: Path) -> None:
    run = sick()
    assert run.scores is not None
    assert run.scans is not None
    file = write(tmp_path / "scores.json", recomputed(run, references(run)))
    found = read_scores(file)
    bare = replace(run, scores=None, scans=None, references=(), notes=())
    again, used = with_scores(bare, found)
    assert used == found
    assert again.scores is not None
    assert again.scans is not None
    assert again.scores.equals(run.scores)
    assert again.scans.equals(run.scans)
    assert again.references == run.references
    assert again.notes == run.notes
    assert again.scores.schema == pl.Schema(SCORES)
    assert again.scans.schema == pl.Schema(SCANS)


def test_a_number_that_is_not_finite_is_a_string_there(tmp_path: Path) -> None:
    text = write(tmp_path / "scores.json", recomputed(sick(), ())).read_text()
    row = json.loads(text)["rows"][2]
    assert (row["kl_ref_token_exact"], row["kl_k3_token"]) == ("NaN", "Infinity")
    assert row["kl_k1_token"] == "-Infinity"
    assert row["reward"] is None


def test_whole_numbers_are_numbers(tmp_path: Path) -> None:
    document = recomputed(run_of(scores=[scored(10)]), ())
    document["rows"][0]["kl_ref_token_exact"] = 2  # type: ignore[index]
    (found,) = read_scores(write(tmp_path / "scores.json", document))
    assert found.scores["kl_ref_token_exact"].to_list() == [2.0]


def named(name: str, *steps: int, path: str | None = None, **columns: Any) -> Run:
    checkpoints = [
        Checkpoint(step, f"checkpoint-{step}", f"checkpoint-{step}", complete=True)
        for step in steps
    ]
    run = run_of(scores=[scored(step, **columns) for step in steps], checkpoints=checkpoints)
    return replace(run, name=name, path=path or name, notes=())


def stripped(run: Run) -> Run:
    return replace(run, scores=None)


def files(tmp_path: Path, *runs: Run) -> list[Any]:
    return read_scores(write(tmp_path / "all.json", *(recomputed(run, ()) for run in runs)))


def kls(run: Run) -> list[float] | None:
    return None if run.scores is None else run.scores["kl_ref_token_exact"].to_list()


def test_each_of_several_runs_in_one_file_gets_its_own(tmp_path: Path) -> None:
    runs = [named("a", 10, 20, kl=0.1), named("b", 10, 20, kl=0.2), named("c", 30, kl=0.3)]
    shared = share([stripped(run) for run in runs], files(tmp_path, *runs))
    assert [kls(run) for run, _ in shared] == [[0.1, 0.1], [0.2, 0.2], [0.3]]
    assert [run.notes for run, _ in shared] == [(), (), ()]


def test_what_is_another_judged_run_s_is_not_taken(tmp_path: Path) -> None:
    found = files(tmp_path, named("b", 10, kl=0.2))
    shared = share([stripped(named("a", 10)), stripped(named("b", 10))], found)
    assert [kls(run) for run, _ in shared] == [None, [0.2]]


def test_a_run_that_was_renamed_is_known_by_its_checkpoints_and_that_is_noted(
    tmp_path: Path,
) -> None:
    ((run, _), (other, _)) = share(
        [stripped(named("new", 10)), stripped(named("other", 30))],
        files(tmp_path, named("old", 10, kl=0.2)),
    )
    assert (kls(run), kls(other)) == ([0.2], None)
    assert [note.text for note in run.notes] == [
        "recomputed for a run that was called old; taken for this one"
    ]


def test_one_that_may_be_any_of_several_runs_is_an_error(tmp_path: Path) -> None:
    found = files(tmp_path, named("old", 10))
    with pytest.raises(DoctorError, match="old may be any of a, b"):
        share([stripped(named("a", 10)), stripped(named("b", 10))], found)


def test_of_runs_of_one_name_the_path_decides(tmp_path: Path) -> None:
    one, two = named("run", 10, path="x/run", kl=0.1), named("run", 10, path="y/run", kl=0.2)
    shared = share([stripped(one), stripped(two)], files(tmp_path, two, one))
    assert [kls(run) for run, _ in shared] == [[0.1], [0.2]]
    with pytest.raises(DoctorError, match="may be any of x/run, y/run"):
        share([stripped(one), stripped(two)], files(tmp_path, named("run", 10, path="z/run")))


def test_a_recomputation_of_another_run_is_not_used(tmp_path: Path) -> None:
    run = stripped(named("a", 10))
    again, used = with_scores(run, files(tmp_path, named("b", 30)))
    assert (again.scores, used) == (None, [])


@pytest.mark.parametrize(
    ("logged", "taken"),
    [
        pytest.param([0.7, 0.6, 0.5, 0.4, 0.3], True, id="a copy"),
        pytest.param([0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1], True, id="a log that went on"),
        pytest.param([0.7, 0.6, 0.5, 0.4, 0.31], False, id="a log that began otherwise"),
        pytest.param([], True, id="no log"),
    ],
)
def test_a_run_is_known_by_its_log(logged: list[float], taken: bool, tmp_path: Path) -> None:
    def run(values: list[float]) -> Run:
        write_jsonl(
            tmp_path / "log.jsonl",
            [{"step": at, "loss": value} for at, value in enumerate(values, start=1)],
        )
        read = read_runs(tmp_path / "log.jsonl")[0].observations if values else None
        found = named("a", 10)
        return found if read is None else replace(found, observations=read)

    before = run([0.7, 0.6, 0.5, 0.4, 0.3])
    path = write(tmp_path / "all.json", recomputed(before, (), log_fingerprint(before)))
    again, used = with_scores(stripped(run(logged)), read_scores(path))
    assert (bool(used), again.scores is not None) == (taken, taken)


def test_the_json_of_a_diagnosis_is_a_recomputation_too(tmp_path: Path) -> None:
    run = named("a", 10, kl=0.4)
    path = write(tmp_path / "d.json", published(diagnose(run), 0))
    assert kls(with_scores(stripped(run), read_scores(path))[0]) == [0.4]


def test_samples_of_another_policy_are_not_measured() -> None:
    ladder = [scored(10, 2.0, logprob_gap=0.3), scored(20, 2.0, logprob_gap=0.31)]
    own, other = ladders(run_of(scores=ladder), "base")[0]
    assert measured([own, other], "kl_ref_token_exact") == [own]
    assert unmeasured([own], "kl_ref_token_exact") == ()
    (missing,) = unmeasured([own, other], "kl_ref_token_exact")
    assert "the policy that drew the samples: not checkpoint-20" in missing


def test_an_estimator_that_the_log_does_not_name_is_one_throughout() -> None:
    unknown = Column("kl_ref_token", "nats/token")
    scores = [
        scored(1, 0.5, kl_k1_token=0.5, kl_k3_token=0.51),
        scored(2, 0.5, kl_k1_token=0.9, kl_k3_token=0.5),
    ]
    run = run_of(kl_ref_token=[0.1, 0.5, 0.5], scores=scores, steps=[0, 1, 2])
    (found,) = held(replace(run, columns={**run.columns, "kl_ref_token": unknown}))
    assert [item.estimator for item in found.comparisons] == ["k3", "k3"]


def test_a_run_without_checkpoints_is_known_by_its_name(tmp_path: Path) -> None:
    bare = replace(stripped(named("a")), name="a")
    assert kls(with_scores(bare, files(tmp_path, named("a", 10, kl=0.4)))[0]) == [0.4]
    assert kls(with_scores(bare, files(tmp_path, named("b", 10, kl=0.4)))[0]) is None


def test_of_two_files_about_one_checkpoint_the_later_counts(tmp_path: Path) -> None:
    found = files(tmp_path, named("a", 10, 20, kl=0.1), named("a", 20, kl=0.7))
    assert kls(with_scores(stripped(named("a", 10, 20)), found)[0]) == [0.1, 0.7]


# Files that are none


def changed(**others: Any) -> dict[str, Any]:
    document = dict(recomputed(run_of(scores=[scored(10)]), ({"name": "base"},)))
    return {**document, **others}


def row_with(**others: Any) -> dict[str, Any]:
    document = changed()
    return {**document, "rows": [{**document["rows"][0], **others}]}


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    "document",
    [
        pytest.param([], id="a list"),
        pytest.param("rows", id="a string"),
        pytest.param(None, id="null"),
        pytest.param({}, id="nothing"),
        pytest.param({"runs": []}, id="no runs"),
        pytest.param({"runs": {}}, id="runs that are a table"),
        pytest.param({"runs": [None]}, id="a run that is null"),
        pytest.param({"rows": []}, id="no run"),
        pytest.param({"run": {"id": "a"}}, id="no rows"),
        pytest.param(changed(run="a"), id="a run that is a string"),
        pytest.param(changed(run=None), id="a run that is nothing"),
        pytest.param(changed(rows={}), id="rows that are a table"),
        pytest.param(changed(rows=None), id="rows that are null"),
        pytest.param(changed(rows=[None]), id="a row that is null"),
        pytest.param(changed(rows=[[]]), id="a row that is a list"),
        pytest.param(changed(rows=["x"]), id="a row that is a string"),
        pytest.param(changed(rows=[{}]), id="an empty row"),
        pytest.param(changed(references={}), id="references that are a table"),
        pytest.param(changed(references=["base"]), id="a reference that is a string"),
        pytest.param(changed(references=[{}]), id="a reference without a name"),
        pytest.param(changed(references=[{"name": 3}]), id="a reference called 3"),
        pytest.param(changed(scans=[None]), id="a scan that is null"),
        pytest.param(changed(scans=[{}]), id="a scan of nothing"),
        pytest.param(changed(scans=[{"checkpoint": "a", "step": "b"}]), id="a scan of step b"),
        pytest.param(changed(scans=[{**scanned(1), "finite": "no"}]), id="a scan that says no"),
        pytest.param(changed(notes=["x"]), id="a note that is a string"),
        pytest.param(changed(notes=[{"where": "x"}]), id="half a note"),
        pytest.param(row_with(step=None), id="no step"),
        pytest.param(row_with(step="10"), id="a step that is a string"),
        pytest.param(row_with(step=1.5), id="a step and a half"),
        pytest.param(row_with(step=True), id="a step that is true"),
        pytest.param(row_with(step=2**70), id="a step too huge"),
        pytest.param(row_with(checkpoint=None), id="no checkpoint"),
        pytest.param(row_with(checkpoint=7), id="a checkpoint called 7"),
        pytest.param(row_with(checkpoint=["x"]), id="a checkpoint that is a list"),
        pytest.param(row_with(role="judge"), id="an unknown role"),
        pytest.param(row_with(role=[]), id="a role that is a list"),
        pytest.param(row_with(part="prompt"), id="an unknown part"),
        pytest.param(row_with(on_policy="yes"), id="yes is no boolean"),
        pytest.param(row_with(kl_ref_token_exact="much"), id="much is no number"),
        pytest.param(row_with(kl_ref_token_exact=[0.1]), id="a number in a list"),
        pytest.param(row_with(kl_ref_token_exact=True), id="true is no number"),
        pytest.param(row_with(kl_ref_token_exact=nested(500)), id="a number nested deeply"),
        pytest.param(row_with(interval=0.1), id="an interval of one number"),
        pytest.param(row_with(interval=[0.1]), id="an interval of one end"),
        pytest.param(row_with(interval=["a", "b"]), id="an interval of strings"),
        pytest.param(row_with(interval="ab"), id="an interval that is a string"),
        pytest.param(row_with(perplexity_by_position=3), id="positions that are a number"),
        pytest.param(row_with(perplexity_by_position=[3]), id="a position that is a number"),
        pytest.param(row_with(perplexity_by_position=[{"first": "x"}]), id="a position called x"),
        pytest.param(row_with(perplexity_by_position=nested(500)), id="positions nested deeply"),
    ],
)  # fmt: skip
def test_a_file_that_holds_something_else_is_an_error(document: Any, tmp_path: Path) -> None:
    file = tmp_path / "scores.json"
    file.write_text(json.dumps(document))
    with pytest.raises(DoctorError, match="holds no recomputation") as caught:
        read_scores(file)
    assert str(file) in caught.value.message
    assert "\n" not in caught.value.message
    assert "rlhfdoctor recompute" in caught.value.hint


@pytest.mark.parametrize(
    "content",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"checkpoint,kl\n1,2\n", id="a table"),
        pytest.param(b"\x00\xff\xfe\x80", id="bytes"),
        pytest.param(b'{"rows": [{"step": 1', id="cut"),
        pytest.param(b"[" * 100_000, id="brackets"),
        pytest.param(b'{"a":' * 100_000, id="braces"),
    ],
)
def test_a_file_that_is_no_json_is_an_error(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "scores.json"
    file.write_bytes(content)
    with pytest.raises(DoctorError, match="is no JSON"):
        read_scores(file)


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DoctorError, match="No such file"):
        read_scores(tmp_path / "none.json")
    with pytest.raises(DoctorError, match="directory"):
        read_scores(tmp_path)


@pytest.mark.parametrize(
    "document",
    [
        pytest.param(row_with(**dict.fromkeys(
            set(SCORES) - {"reference", "checkpoint", "step", "role", "part", "samples_file"}
        ), interval=None), id="all but the place is null"),
        pytest.param(row_with(**{
            name: "NaN" for name, kind in SCORES.items() if kind == pl.Float64
        }, interval=["NaN", "Infinity"]), id="NaN throughout"),
        pytest.param(row_with(**{
            name: 1e308 for name, kind in SCORES.items() if kind == pl.Float64
        }), id="huge numbers"),
        pytest.param(row_with(step=-5), id="a negative step"),
        pytest.param(row_with(step=2**62), id="a huge step"),
        pytest.param(row_with(surprise=nested(400)), id="a key that nobody knows"),
        pytest.param(row_with(below_floor=True, noise_floor=None), id="a floor nobody knows"),
        pytest.param(changed(rows=[]), id="no rows"),
        pytest.param(changed(references=[{"name": "base", "path": 3, "vocabulary": "x",
                                          "evil": {}}]), id="a reference with wrong types"),
        pytest.param(row_with(checkpoint="NaN", reference="Infinity", samples_file="-Infinity"),
                     id="names that are numbers"),
    ],
)  # fmt: skip
def test_a_strange_recomputation_is_judged_and_shown_without_a_traceback(
    document: Any, tmp_path: Path
) -> None:
    file = tmp_path / "scores.json"
    file.write_text(json.dumps(document))
    run = run_of(kl_ref_token=[0.5] * 40, loss_total=[0.1] * 40)
    run, used = with_scores(run, read_scores(file))
    assert len(used) == 1
    diagnosis = diagnose(run)
    for page in (Page(0), Page(0, width=60)):
        assert terminal.render([diagnosis], page)
        assert markdown.render([diagnosis], page)
    told = recomputed(run, references(run))
    assert recompute_markdown(told)
    assert list(recompute_lines(told, 80))


def test_notes_of_a_recomputation_are_told_once(tmp_path: Path) -> None:
    run = replace(named("a", 10), notes=(Note("x", "not scored"),))
    again, _ = with_scores(replace(run, scores=None), files(tmp_path, run, run))
    assert again.notes == run.notes
