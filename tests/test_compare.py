import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlhfdoctor.compare import BOOKKEEPING, FEWEST_RUNS, By, compare, drawn
from rlhfdoctor.doctor import diagnose
from rlhfdoctor.errors import DoctorError
from rlhfdoctor.reports import Page
from rlhfdoctor.reports._cells import curve
from rlhfdoctor.reports._compare import compare_lines, compare_markdown
from rlhfdoctor.reports.terminal import write
from rlhfdoctor.summaries import QUANTITIES, Summary, restored, summary
from tests.builders import FIXTURES, HEALTHY, RUNS, run_of, write_jsonl
from tests.test_cli import assert_error_lines, cli, document

Values = Sequence[float | None]


def of(
    name: str = "run",
    *,
    verdict: str = "healthy",
    settings: Mapping[str, float | str] | None = None,
    onset: tuple[int, int, int] | None = None,
    step_unit: str = "step",
    metrics: Sequence[str] = (),
    **told: Any,
) -> Summary:
    run = replace(run_of(config=settings, **told), name=name, path=f"runs/{name}")
    made = summary(diagnose(replace(run, step_unit=step_unit)), metrics)
    return replace(made, verdict=verdict, onset=onset)


def drawing(found: Mapping[str, Any], metric: str = "reward_raw_mean") -> dict[str, Any]:
    """Return the one drawing of a metric."""
    (one,) = drawings(found, metric)
    return one


def drawings(found: Mapping[str, Any], metric: str) -> list[dict[str, Any]]:
    return [item for item in found["curves"] if found["scales"][item["scale"]]["metric"] == metric]


def lines(item: Mapping[str, Any]) -> dict[str, Values]:
    return {line["id"]: line["values"] for line in item["lines"]}


def notes(found: Mapping[str, Any]) -> list[str]:
    return [f"{note['where']}: {note['text']}" for note in found["notes"]]


# the shared axis


def test_runs_of_different_cadence_align_and_nothing_is_interpolated() -> None:
    every = of("every", reward_raw_mean=[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    third = of("third", steps=[3, 6], reward_raw_mean=[30.0, 60.0])
    found = drawing(compare([every, third], points=4))
    assert found["ends"] == [2, 4, 6, 8]
    assert lines(found) == {"every": [2.0, 4.0, 6.0, 8.0], "third": [None, 30.0, 60.0, None]}


def test_a_run_that_ended_shows_its_last_value_in_the_column_where_it_ended() -> None:
    short = of("short", reward_raw_mean=[1.0, 2.0, 3.0])
    long = of("long", reward_raw_mean=[1.0] * 10)
    assert lines(drawing(compare([short, long], points=5)))["short"] == [2.0, 3.0, None, None, None]


def test_a_metric_that_is_logged_seldom_holds_until_the_next_and_one_that_stopped_does_not() -> (
    None
):
    there = [float(step) if step % 10 == 0 else None for step in range(1, 41)]
    seldom = of("seldom", reward_raw_mean=there, entropy=[3.0] * 40)
    stopped = of(
        "stopped",
        reward_raw_mean=[float(step) for step in range(1, 11)] + [None] * 30,
        entropy=[3.0] * 40,
    )
    found = lines(drawing(compare([seldom, stopped], points=8)))
    assert found["seldom"] == [None, 10.0, 10.0, 20.0, 20.0, 30.0, 30.0, 40.0]
    assert found["stopped"] == [5.0, 10.0, *[None] * 6]


@given(
    st.lists(
        st.lists(st.integers(1, 300), min_size=1, max_size=40, unique=True).map(sorted),
        min_size=1,
        max_size=4,
    ),
    st.integers(2, 50),
)
def test_a_column_shows_the_last_logged_value_at_or_before_its_end(
    steps: list[list[int]], points: int
) -> None:
    runs = [
        of(f"run {place}", steps=own, reward_raw_mean=[float(step) for step in own])
        for place, own in enumerate(steps)
    ]
    found = drawing(compare(runs, points=points))
    for own, values in zip(steps, lines(found).values(), strict=True):
        for low, high, value in zip([0, *found["ends"]], found["ends"], values, strict=False):
            before = [step for step in own if step <= high]
            assert value == (float(before[-1]) if before and own[-1] > low else None)


def test_the_onset_lies_in_its_column() -> None:
    found = compare([of(reward_raw_mean=[1.0] * 100, onset=(51, 50, 52))], points=10)
    assert drawing(found)["lines"][0]["onset_column"] == 5


def test_logs_that_count_their_updates_differently_are_moved_and_that_is_said() -> None:
    late = of("late", log_offset=1, steps=[2, 3, 4], reward_raw_mean=[1.0, 2.0, 3.0])
    plain = of("plain", steps=[1, 2, 3], reward_raw_mean=[1.0, 2.0, 3.0])
    found = compare([late, plain])
    assert lines(drawing(found)) == {"late": [1.0, 2.0, 3.0], "plain": [1.0, 2.0, 3.0]}
    assert any(note.startswith("late: its logged steps are 1 further") for note in notes(found))


def test_numbers_of_rows_are_no_steps() -> None:
    counted = of("counted", step_unit="row", reward_raw_mean=[1.0, 2.0])
    found = drawings(compare([of("told", reward_raw_mean=[1.0]), counted]), "reward_raw_mean")
    assert [(item["axis"], [*lines(item)]) for item in found] == [
        ("row", ["counted"]),
        ("step", ["told"]),
    ]


def test_by_epoch_runs_of_other_batch_sizes_align() -> None:
    # run_of logs epoch = step / 100
    small = of("small", steps=[100, 200], reward_raw_mean=[1.0, 2.0])
    large = of("large", steps=[50, 100, 150, 200], reward_raw_mean=[5.0, 6.0, 7.0, 8.0])
    found = drawing(compare([small, large], by="epoch", points=4))
    assert (found["axis"], found["ends"]) == ("epoch", [0.5, 1.0, 1.5, 2.0])
    assert lines(found) == {"small": [None, 1.0, 1.0, 2.0], "large": [5.0, 6.0, 7.0, 8.0]}


def test_a_single_stray_row_does_not_flatten_the_others() -> None:
    values = [1.0] * 10 + [1000.0] + [2.0] * 9
    found = drawing(compare([of(reward_raw_mean=values)], points=20))
    assert (found["low"], found["high"]) == (1.0, 2.0)
    assert 1000.0 in found["lines"][0]["values"]


# units


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            of("one", kl_ref_response=[1.0, 2.0]),
            of("other", kl_ref_token=[1.0, 2.0]),
            id="nats a response and nats a token",
        ),
        pytest.param(
            of("one", kl_ref_token=[1.0, 2.0], estimators={"kl_ref_token": "k1"}),
            of("other", kl_ref_token=[1.0, 2.0], estimators={"kl_ref_token": "k3"}),
            id="k1 and k3",
        ),
        pytest.param(
            of("one", reward_raw_mean=[1.0, 2.0]),
            of("other", reward_shaped_mean=[1.0, 2.0]),
            id="a reward with and without the KL penalty",
        ),
    ],
)
def test_what_is_not_of_one_unit_and_estimator_shares_no_column_and_no_curve(
    one: Summary, other: Summary
) -> None:
    found = compare([one, other])
    assert len(found["scales"]) == 2
    assert [[*lines(item)] for item in found["curves"]] == [["one"], ["other"]]
    first, second = ([item["scale"] for item in run["values"]] for run in found["runs"])
    assert not {*first} & {*second}


def test_a_kl_of_unknown_unit_is_said_and_never_drawn() -> None:
    found = compare([of("mute", kl_unknown=[1.0, 2.0]), of("told", kl_ref_token=[1.0, 2.0])])
    assert [scale["metric"] for scale in found["scales"]] == ["kl_ref_token"]
    assert any(
        note.startswith("mute: kl_unknown has no known unit") and "--map" in note
        for note in notes(found)
    )
    by_kl = compare([of(kl_unknown=[1.0, 2.0], reward_raw_mean=[1.0, 2.0])], by="kl")
    assert by_kl["curves"] == []
    assert "run: has no KL of a known unit: not drawn" in notes(by_kl)


def test_a_kl_of_zeros_was_never_measured() -> None:
    found = compare([of(kl_ref_token=[0.0] * 5)])
    assert found["scales"] == []
    assert "run: kl_ref_token is 0 in every row: not measured, not compared" in notes(found)


# by KL


def test_reward_is_drawn_against_the_root_of_the_kl() -> None:
    run = of(kl_ref_response=[0.0, 1.0, 4.0, 9.0, 16.0], reward_raw_mean=[0.0, 1.0, 2.0, 3.0, 4.0])
    found = drawing(compare([run], by="kl", points=4))
    assert (found["axis"], found["ends"]) == ("sqrt(nats/response)", [1.0, 2.0, 3.0, 4.0])
    assert found["against"]["metric"] == "kl_ref_response"
    assert lines(found) == {"run": [1.0, 2.0, 3.0, 4.0]}


def test_a_budget_that_no_row_spent_is_blank_beyond_the_last() -> None:
    near = of("near", kl_ref_response=[0.0, 1.0], reward_raw_mean=[5.0, 6.0])
    far = of("far", kl_ref_response=[0.0, 16.0], reward_raw_mean=[5.0, 9.0])
    found = lines(drawing(compare([near, far], by="kl", points=4)))
    assert found == {"near": [6.0, None, None, None], "far": [5.0, 5.0, 5.0, 9.0]}


def test_a_negative_kl_has_no_root_and_that_is_said() -> None:
    run = of(kl_ref_response=[-0.5, 1.0, 4.0], reward_raw_mean=[7.0, 1.0, 2.0])
    found = compare([run], by="kl", points=2)
    assert lines(drawing(found)) == {"run": [1.0, 2.0]}
    assert any("negative in 1 of 3 rows" in note for note in notes(found))


def test_a_kl_a_token_is_compared_with_a_kl_a_token_alone() -> None:
    token = of("token", kl_ref_token=[0.01, 0.04], reward_raw_mean=[1.0, 2.0])
    response = of("response", kl_ref_response=[1.0, 4.0], reward_raw_mean=[1.0, 2.0])
    found = drawings(compare([token, response], by="kl"), "reward_raw_mean")
    assert {item["axis"]: [*lines(item)] for item in found} == {
        "sqrt(nats/token)": ["token"],
        "sqrt(nats/response)": ["response"],
    }


# what is drawn


def test_the_best_held_out_score_is_compared_under_its_own_name() -> None:
    found = compare(
        [of(heldout_reward=[1.0, 2.0], reward_raw_mean=[3.0, 4.0])], metrics=["heldout"]
    )
    assert lines(drawing(found, "heldout_reward")) == {"run": [1.0, 2.0]}


def test_a_metric_that_is_asked_for_is_drawn_and_missed_where_it_is_not_logged() -> None:
    run = of("one", clip_frac=[0.1, 0.2], metrics=["clip_frac"])
    found = compare([run, of("other", entropy=[1.0])], metrics=["clip_frac"])
    assert [*lines(drawing(found, "clip_frac"))] == ["one"]
    assert len(found["curves"]) == 1
    assert "other: no clip_frac to draw" in notes(found)


@pytest.mark.parametrize("by", ["step", "kl", "epoch"])
def test_what_is_drawn_by_default_is_known(by: By) -> None:
    assert {*drawn((), by)} <= {*QUANTITIES}
    assert drawn(["entropy", "entropy", "clip_frac"], by) == ("entropy", "clip_frac")
    with pytest.raises(DoctorError, match="did you mean entropy"):
        drawn(["entrpy"], by)


# which run is which


def test_runs_of_one_name_are_told_apart_by_their_paths() -> None:
    twins = [
        replace(of("out", loss_total=[value]), path=f"seed{value:.0f}/out") for value in (1.0, 2.0)
    ]
    assert [run["run"]["id"] for run in compare(twins)["runs"]] == ["seed1/out", "seed2/out"]
    same = [replace(twin, path="-") for twin in twins]
    assert [run["run"]["id"] for run in compare(same)["runs"]] == ["- out", "- out #2"]


def test_a_run_that_is_given_twice_counts_once() -> None:
    run = of("one", loss_total=[1.0, 2.0])
    found = compare([run, run])
    assert len(found["runs"]) == 1
    assert any(note.startswith("runs: 1 given again") for note in notes(found))


def test_of_a_run_that_was_stored_the_longer_reading_counts_and_nothing_is_said() -> None:
    steps = [float(step) for step in range(1, 21)]
    short, long = of("one", loss_total=steps[:10]), of("one", loss_total=steps)
    for given_run, kept in ((short, long), (long, short)):
        found = compare([given_run], beside=[kept])
        assert [run["logged_steps"] for run in found["runs"]] == [20]
        assert not any(note.startswith("runs:") for note in notes(found))


# what the sick ones share


def test_a_copy_of_a_log_under_another_name_is_no_second_run() -> None:
    good = of("good", algorithm="PPO", settings={"learning_rate": 1e-5}, grad_norm=[1.0, 2.0, 1.0])
    bad = of(
        "bad",
        verdict="collapsed",
        algorithm="PPO",
        settings={"learning_rate": 1e-3},
        grad_norm=[9.0, 1.0, 9.0, 5.0],
    )
    one = compare([good, bad])
    copies = [replace(run, name=f"{run.name} {k}") for run in (good, bad) for k in range(4)]
    found = compare([good, bad, *copies])
    assert len(found["runs"]) == 10
    for key in ("associations", "algorithms", "claim"):
        assert found[key] == one[key]
    told = [note for note in notes(found) if "same log" in note]
    assert len(told) == 8
    assert told[0] == "good 0: same log as good: counted once"


def test_of_copies_the_longest_counts_and_runs_without_a_log_are_none() -> None:
    run = of("whole", loss_total=[1.0] * 30)
    part = replace(run, name="part", rows=10)
    found = compare([part, run])
    assert [note for note in notes(found) if "same" in note] == [
        "part: same log as whole: counted once"
    ]
    bare = [replace(run, name=name, log="path:samples") for name in ("one", "other")]
    assert compare(bare)["associations"]["runs"] == 2


def test_one_sick_run_with_an_odd_setting_among_many_is_no_evidence() -> None:
    rates = [1e-5] * 12 + [1e-3]
    runs = [("collapsed" if rate > 1e-4 else "healthy", {"learning_rate": rate}) for rate in rates]
    (found,) = judged(*runs)["correlations"]
    assert found["p"] == pytest.approx(1 / 13)
    page = "\n".join(str(text) for _, text in compare_lines(compared(*runs), 0))
    assert "0.077" in page
    assert "< 0.001" not in page


def judged(*settings: tuple[str, Mapping[str, float | str]], **told: Any) -> dict[str, Any]:
    found: dict[str, Any] = compared(*settings, **told)["associations"]
    return found


def compared(*settings: tuple[str, Mapping[str, float | str]], **told: Any) -> dict[str, Any]:
    runs = [
        of(f"run {place}", verdict=verdict, settings=own, loss_total=[float(place)], **told)
        for place, (verdict, own) in enumerate(settings)
    ]
    return {"db": None, **compare(runs)}


def test_a_setting_that_separates_has_its_correlation_and_its_ranges() -> None:
    rates = [1e-6, 2e-6, 3e-6, 4e-6, 1e-3, 2e-3, 3e-3, 4e-3]
    verdicts = ["healthy"] * 4 + ["collapsed"] * 4
    (found,) = judged(
        *((verdict, {"learning_rate": rate}) for verdict, rate in zip(verdicts, rates, strict=True))
    )["correlations"]
    assert (found["setting"], found["runs"]) == ("learning_rate", 8)
    assert found["p"] == found["p_holm"] == pytest.approx(2 / 70)
    assert found["rho"] == pytest.approx(0.8729, abs=1e-4)
    assert (found["healthy"], found["sick"]) == ([1e-6, 4e-6], [1e-3, 4e-3])


def test_with_fewer_runs_than_the_fewest_no_separation_is_below_a_twentieth() -> None:
    for count in range(3, FEWEST_RUNS):
        verdicts = ["healthy"] * (count // 2) + ["collapsed"] * (count - count // 2)
        found = judged(*((item, {"kl_coef": float(k)}) for k, item in enumerate(verdicts)))
        assert found["correlations"][0]["p"] > 0.05
        assert found["fewest"] > count


def test_each_setting_that_is_tried_weakens_the_others() -> None:
    runs = [
        ("collapsed" if k > 3 else "healthy", {"kl_coef": float(k), "top_p": float(k % 3)})
        for k in range(8)
    ]
    found = judged(*runs)["correlations"]
    assert [item["setting"] for item in found] == ["kl_coef", "top_p"]
    assert found[0]["p_holm"] == pytest.approx(2 * found[0]["p"])


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param([{"kl_coef": 0.1}] * 4, id="the same in all runs"),
        pytest.param([{"kl_coef": 0.1}, {"kl_coef": 0.2}, {}, {}], id="known in two runs"),
        *(
            pytest.param([{name: float(k)} for k in range(4)], id=f"bookkeeping: {name}")
            for name in BOOKKEEPING
        ),
        pytest.param([{"kl_coef": "high"}] * 4, id="no number"),
    ],
)
def test_a_setting_is_not_tried(settings: list[dict[str, float | str]]) -> None:
    verdicts = ["healthy", "collapsed", "healthy", "collapsed"]
    assert judged(*zip(verdicts, settings, strict=True))["correlations"] == []


def test_a_beta_is_compared_among_runs_of_one_algorithm() -> None:
    of_dpo = [of(f"dpo {k}", algorithm="DPO", settings={"kl_coef": 0.5}) for k in range(2)]
    of_grpo = [
        of(f"grpo {k}", verdict=verdict, algorithm="GRPO", settings={"kl_coef": 0.01 * k})
        for k, verdict in enumerate(["healthy", "healthy", "collapsed"])
    ]
    runs = [
        replace(run, log=str(place), settings={"kl_coef": run.settings["kl_coef"]})
        for place, run in enumerate([*of_dpo, *of_grpo])
    ]
    (found,) = compare(runs)["associations"]["correlations"]
    assert (found["setting"], found["among"], found["runs"]) == ("kl_coef", "GRPO", 3)


def test_where_all_runs_are_of_one_verdict_nothing_separates() -> None:
    found = judged(*(("collapsed", {"kl_coef": float(k)}) for k in range(9)))
    assert (found["correlations"], found["verdicts"]) == ([], {"collapsed": 9})


def test_an_inconclusive_run_is_left_out_and_that_is_said() -> None:
    found = judged(("healthy", {}), ("inconclusive", {}), ("degraded", {}))
    assert (found["runs"], found["left_out"]) == (2, 1)


def test_categories_are_counted_without_a_test() -> None:
    found = judged(
        ("healthy", {"dtype": "bfloat16"}),
        ("collapsed", {"dtype": "float16"}),
        ("degraded", {"dtype": "float16"}),
        ("healthy", {}),
    )
    assert found["shares"] == [
        {
            "setting": "dtype",
            "values": [
                {"value": "bfloat16", "runs": 1, "sick": 0},
                {"value": "float16", "runs": 2, "sick": 2},
            ],
        }
    ]


@pytest.mark.parametrize(
    ("ppo", "dpo", "here"),
    [
        pytest.param([9.0, 1.0, 9.0], [1.0, 1.1, 1.0], "yes", id="PPO varies more"),
        pytest.param([1.0, 1.1, 1.0], [9.0, 1.0, 9.0], "no", id="DPO varies more"),
        pytest.param(None, [9.0, 1.0, 9.0], "unknown", id="no gradient norm under PPO"),
    ],
)
def test_the_claim_is_set_against_these_runs(
    ppo: list[float] | None, dpo: list[float], here: str
) -> None:
    ppo_run = of("ppo", algorithm="PPO", loss_total=[1.0] * 3)
    if ppo:
        ppo_run = of("ppo", algorithm="PPO", grad_norm=ppo)
    found = compare([ppo_run, of("dpo", algorithm="DPO", grad_norm=dpo)])
    assert found["claim"]["here"] == here
    assert found["claim"]["dpo"]["runs"] == 1
    page = write(compare_lines({"db": None, **found}, 0), Page())
    assert "claimed, not verified" in page


# the command


@pytest.mark.parametrize("by", ["step", "kl", "epoch"])
def test_the_published_json_keeps_its_schema(by: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "compare", FIXTURES, "--by", by)
    assert [run["run"]["id"] for run in found["runs"]] == RUNS
    told = {run["run"]["id"] for run in found["runs"] if run["verdict"] == "healthy"}
    assert told == {*HEALTHY}
    assert found["curves"]
    assert found["associations"]["correlations"][0]["setting"] == "learning_rate"
    for item in found["curves"]:
        assert all(len(line["values"]) == len(item["ends"]) for line in item["lines"])


def test_a_run_that_cannot_be_read_hides_no_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = cli(capsys, "compare", tmp_path, FIXTURES / "ppo_late")
    assert code == 2
    assert_error_lines(err)
    assert out.startswith("1 run: 1 collapsed")
    found = document(capsys, "compare", tmp_path / "none", FIXTURES / "ppo_late")
    assert [item["exit_code"] for item in found["failed"]] == [2]


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(["--metric", "nothing"], id="a metric that does not exist"),
        pytest.param(["--points", "1"], id="a single column"),
        pytest.param(["--format", "html"], id="a format that it does not have"),
        pytest.param(["--output", "json=/no/such/folder/x.json"], id="an output without a folder"),
    ],
)
def test_what_cannot_be_done_is_said(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, err = cli(capsys, "compare", FIXTURES / "ppo_late", *arguments)
    assert code == 2
    assert_error_lines(err)


def test_an_output_over_a_file_of_a_run_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = write_jsonl(tmp_path / "log.jsonl", [{"step": 1, "loss": 1.0}])
    before = log.read_bytes()
    assert cli(capsys, "compare", log, "--output", f"json={log}")[0] == 2
    assert cli(capsys, "compare", log, "--db", log)[0] == 2
    assert log.read_bytes() == before


@pytest.mark.parametrize("width", [40, 50, 60, 80])
@pytest.mark.parametrize("points", [2, 40, 41, 128])
def test_a_curve_goes_into_one_line_of_any_page(width: int, points: int) -> None:
    runs = [
        of(name, reward_raw_mean=[*map(float, range(400))], onset=(200, 190, 210))
        for name in ("a name that is far too long for a page so narrow", "other")
    ]
    found = {"db": None, **compare([*runs, of("short", reward_raw_mean=[1.0] * 7)], points=points)}
    page = write(compare_lines(found, width), Page(width=width)).splitlines()
    begin = page.index("Curves") + 2
    header, first, second, short = page[begin : begin + 4]
    assert header.split() == ["run", "1", "400"]
    assert first.count("|") == second.count("|") == 1
    assert first[first.index("|") :] == second[second.index("|") :]
    assert short.split()[0] == "short"
    assert max(map(len, page)) <= width


@pytest.mark.parametrize("width", [40, 80, 120])
def test_no_line_is_wider_than_the_page(width: int, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(capsys, "compare", FIXTURES, "--points", "30" if width == 40 else "40")
    page = write(compare_lines(found, width), Page(width=width))
    assert all(len(line) <= width for line in page.splitlines())
    assert "perplexity of samples" in " ".join(page.split())


def test_what_a_run_calls_itself_commands_nothing() -> None:
    evil = of("\x1b[2J|```[x](http://x)", reward_raw_mean=[1.0, 2.0], algorithm="\x1b]0;PPO\x07")
    found = {"db": None, **compare([evil, of("other", reward_raw_mean=[1.0])])}
    assert "\x1b" not in write(compare_lines(found, 80), Page(width=80))
    page = compare_markdown(found)
    assert "\x1b" not in page
    outside = page.split("````text")[0] + page.split("````\n")[-1]
    assert "[x](http" not in outside
    assert "````text" in page


@pytest.mark.parametrize(
    "values",
    [
        pytest.param([1e308, -1e308, 1.0, 2.0, 3.0], id="a span that no float holds"),
        pytest.param([5e-324, 0.0, 0.0, 1.0], id="a span of the smallest float"),
        pytest.param([1e308, 1.7e308], id="a median that no float holds"),
        pytest.param([3.0, math.nan, math.inf, 4.0], id="rows that are not finite"),
        pytest.param([math.nan], id="no finite row"),
    ],
)
@pytest.mark.parametrize("by", ["step", "kl", "epoch"])
def test_numbers_of_any_size_are_compared_and_stored(values: Values, by: By) -> None:
    run = of(reward_raw_mean=values, grad_norm=values, step_time=values, kl_ref_response=values)
    told = {"db": None, **compare([run, of("other", reward_raw_mean=[1.0])], by=by)}
    assert restored(json.loads(json.dumps(asdict(run), allow_nan=False))) == run
    json.dumps(told, allow_nan=False)
    assert write(compare_lines(told, 80), Page(width=80))


def test_a_curve_between_ends_that_are_far_apart_keeps_its_order() -> None:
    assert curve([-1.7e308, 0.0, 1.7e308, None], -1.7e308, 1.7e308) == "\u2581\u2585\u2588 "
    assert curve([0.0, 5e-324], 0.0, 5e-324) == "\u2581\u2588"
    assert curve([1.0, 1.0], 1.0, 1.0) == "\u2581\u2581"


def test_markdown_has_every_section_of_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = cli(capsys, "compare", FIXTURES, "--format", "markdown")
    for title in ("Runs", "Settings", "Curves", "What goes with sickness", "Notes"):
        assert f"## {title}" in out
