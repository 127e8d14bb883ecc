import math
import time
from pathlib import Path

import pytest

from rlhfdoctor.model import Row
from rlhfdoctor.readers.console import console
from rlhfdoctor.runs import read_runs
from tests.readers.helpers import Read, read, write


def log(tmp_path: Path, text: str | bytes, name: str = "train.log") -> Read:
    return read(console, write(tmp_path / name, text))


def rows(found: Read) -> list[tuple[int | None, dict[str, float]]]:
    return [(row.step, dict(row.values)) for row in found.rows]


def settings(found: Read) -> dict[str, object]:
    return {setting.name: setting.value for setting in found.settings}


def bar(count: int, total: int = 100) -> str:
    return f"\r {count}%|#    | {count}/{total} [00:{count:02d}<01:00,  1.0s/it]"


def hf(step: int, epoch: float) -> str:
    return f"{{'loss': '0.{step:04d}', 'grad_norm': '1.5', 'kl': '0.25', 'epoch': '{epoch}'}}"


VERL = (
    "\x1b[36m(TaskRunner pid=12)\x1b[0m step:1 - actor/kl_loss:np.float64(0.001) "
    "- actor/entropy:0.5 - training/epoch:0\n"
    "\x1b[36m(TaskRunner pid=12)\x1b[0m Training Progress:   1%|1 | 1/300 [00:59<11:31, 59.3s/it]\n"
    "\x1b[36m(TaskRunner pid=12)\x1b[0m step:2 - actor/kl_loss:nan - actor/entropy:0.25 "
    "- training/epoch:0\n"
)


def test_verl_rows_have_the_step_and_the_line(tmp_path: Path) -> None:
    found = log(tmp_path, VERL)
    assert [(row.step, row.line, row.epoch) for row in found.rows] == [(1, 1, 0), (2, 3, 0)]
    assert found.rows[0].values == {"actor/kl_loss": 0.001, "actor/entropy": 0.5}
    assert math.isnan(found.rows[1].values["actor/kl_loss"])
    assert settings(found) == {"planned_steps": 300.0}
    assert found.notes == []


def test_a_verl_row_may_hold_nothing_but_times(tmp_path: Path) -> None:
    found = log(tmp_path, "step:3 - timing_s/gen:12.5 - perf/mfu:0.25\n")
    assert rows(found) == [(3, {"timing_s/gen": 12.5, "perf/mfu": 0.25})]


CONFIG = """\
(TaskRunner pid=12) {'actor_rollout_ref': {'actor': {'clip_ratio': 0.2,
(TaskRunner pid=12)                                  'kl_loss_coef': 0.001,
(Worker pid=99) something else in between
(TaskRunner pid=12)                                  'optim': {'betas': [0.9, 0.999],
(TaskRunner pid=12)                                            'lr': 1e-06}},
(TaskRunner pid=12)                        'rollout': {'temperature': 1.0}},
(TaskRunner pid=12)  'trainer': {'total_epochs': 15, 'save_freq': 20}}
"""


def test_a_printed_configuration_is_no_row(tmp_path: Path) -> None:
    found = log(tmp_path, CONFIG + VERL)
    assert [row.step for row in found.rows] == [1, 2]
    told = settings(found)
    assert {name: told[name] for name in ("planned_epochs", "save_steps", "temperature")} == {
        "planned_epochs": 15,
        "save_steps": 20,
        "temperature": 1.0,
    }


def test_a_configuration_that_is_cut_is_no_broken_record(tmp_path: Path) -> None:
    found = log(tmp_path, CONFIG.replace("'save_freq': 20}}", "...") + VERL)
    assert [row.step for row in found.rows] == [1, 2]
    assert found.left_out == 0


@pytest.mark.parametrize(
    ("more", "told"),
    [
        pytest.param("", "a printed configuration is cut", id="where it is cut"),
        pytest.param(" 'seed': 7}\n", "", id="where something else stands inside"),
    ],
)
def test_a_long_configuration_is_read(tmp_path: Path, more: str, told: str) -> None:
    keys = "".join(f" 'key_{at}': {{'size': {at}}},\n" for at in range(30))
    text = f"{{'beta': 0.1,\n{keys} 'lr': 1e-05,\n 'seed': 7,\nsomething else\n  from it\n{more}"
    found = log(tmp_path, text + VERL)
    assert [row.step for row in found.rows] == [1, 2]
    assert (settings(found)["kl_coef"], settings(found)["learning_rate"]) == (0.1, 1e-5)
    assert told in found.told


def test_the_bar_gives_dicts_their_step(tmp_path: Path) -> None:
    text = "".join(
        "".join(bar(count) for count in range(step - 4, step + 1))
        + f"\r{' ' * 60}\r{hf(step, step / 100)}\n"
        for step in range(5, 30, 5)
    )
    found = log(tmp_path, text)
    assert [row.step for row in found.rows] == [5, 10, 15, 20, 25]
    assert found.rows[1].values["loss"] == 0.001
    assert settings(found)["planned_steps"] == 100.0
    assert "it is the progress bar's, of 100" in found.told


def test_a_bar_on_the_same_line_without_a_carriage_return(tmp_path: Path) -> None:
    found = log(tmp_path, "".join(f"{bar(step)}   {hf(step, 0.1)}\n" for step in (10, 20, 30)))
    assert [row.step for row in found.rows] == [10, 20, 30]


def test_an_evaluation_with_a_step_takes_none_from_the_others(tmp_path: Path) -> None:
    text = "".join(f"{bar(step)}\n{hf(step, step / 100)}\n" for step in (10, 20, 30))
    found = log(tmp_path, text + "Eval step 30: {'loss': 0.5, 'reward': 0.25}\n")
    assert [(row.step, row.split) for row in found.rows] == [
        (10, "train"),
        (20, "train"),
        (30, "train"),
        (30, "eval"),
    ]


def test_records_of_a_buffered_log_are_spaced_evenly(tmp_path: Path) -> None:
    text = (
        "".join(bar(count, 200) for count in range(121))
        + "\n"
        + "".join(f"{hf(step, step / 100)}\n" for step in range(10, 130, 10))
    )
    found = log(tmp_path, text)
    assert [row.step for row in found.rows] == list(range(10, 130, 10))
    assert "one every 10 steps" in found.told


@pytest.mark.parametrize(
    "counts",
    [
        pytest.param([3, 5, 9], id="no interval"),
        pytest.param([0, 10, 20], id="records before the first step"),
    ],
)
def test_a_bar_that_does_not_keep_pace_gives_no_step(tmp_path: Path, counts: list[int]) -> None:
    found = log(tmp_path, "".join(f"{bar(count)}\n{hf(count, 0.5)}\n" for count in counts))
    assert [row.step for row in found.rows] == [None, None, None]


def test_two_runs_in_one_log_start_over(tmp_path: Path) -> None:
    once = "".join(f"{bar(step)}\n{hf(step, 0.1)}\n" for step in (10, 20, 30))
    found = log(tmp_path, once + once)
    assert [row.step for row in found.rows] == [10, 20, 30, 10, 20, 30]


def test_the_summary_is_no_row(tmp_path: Path) -> None:
    text = "{'train_runtime': '12.5', 'train_loss': '0.5', 'kl': '2.0', 'epoch': '1.0'}\n"
    found = log(tmp_path, hf(1, 0.5) + "\n" + text)
    assert len(found.rows) == 1
    assert "train.log:2: the trainer's summary, no step of it: train_runtime 12.5" in found.told


def test_evaluations_are_rows_of_the_other_split(tmp_path: Path) -> None:
    text = f"{hf(1, 0.5)}\n{{'eval_loss': 0.5, 'eval_rewards/margins': 1.0, 'epoch': 0.5}}\n"
    assert [row.split for row in log(tmp_path, text).rows] == ["train", "eval"]


@pytest.mark.parametrize(
    ("text", "step", "values"),
    [
        pytest.param(
            "{'loss': 0.5, 'kl': nan, 'reward': inf, 'note': None}\n",
            None,
            {"loss": 0.5, "kl": math.nan, "reward": math.inf},
            id="a dict with what is not finite",
        ),
        pytest.param(
            '{"step": 3, "loss": 0.5, "kl": 0.25}\n', 3, {"loss": 0.5, "kl": 0.25}, id="JSON"
        ),
        pytest.param(
            "{'step': 3,\n 'loss': 0.5,\n 'kl': np.float64(0.25)}\n",
            3,
            {"loss": 0.5, "kl": 0.25},
            id="a dict over several lines",
        ),
        pytest.param(
            "2026-01-01 00:00:00 model.py:12 - step 3: {'train/loss': 0.5, 'train/kl': 0.25}\n",
            3,
            {"train/loss": 0.5, "train/kl": 0.25},
            id="slime",
        ),
        pytest.param(
            "epoch: 0|step: 3|ppo_ep: 1|act_loss: 0.5|cri_loss: 0.25\n|E2E latency=3.7s |x=1\n"
            "average reward score: -0.5\n-----\n",
            3,
            {"ppo_ep": 1, "act_loss": 0.5, "cri_loss": 0.25, "average reward score": -0.5},
            id="DeepSpeed-Chat over two lines",
        ),
        pytest.param(
            "==== Step: 3, Epoch: 0.50 ====\nref_kl/train: 0.25\tloss/train: 0.5\t\nother\n",
            3,
            {"ref_kl/train": 0.25, "loss/train": 0.5},
            id="MOSS-RLHF",
        ),
        pytest.param(
            "| step | reward | kl |\n|---|---:|---|\n| 3 | **0.5** | 0.25 |\n| 4 | 1 | 2 |\n",
            3,
            {"reward": 0.5, "kl": 0.25},
            id="a table in Markdown",
        ),
        pytest.param(
            "+----+----+\n| step | 3 |\n| objective/kl | 0.25 |\n| loss | 0.5 |\n+----+----+\n\n",
            3,
            {"objective/kl": 0.25, "loss": 0.5},
            id="a frame of two columns",
        ),
        pytest.param(
            "Train step 3 / 100 done.\n\u256d\u2500\u256e\n\u2502 actor/kl \u2502 2.5e-01 \u2502\n"
            "\u2502 loss/avg \u2502 0.5 \u2502\n\u2502 actor/reward \u2502 1 \u2502\n"
            "\u2570\u2500\u256f\n\n",
            3,
            {"actor/kl": 0.25, "loss/avg": 0.5, "actor/reward": 1},
            id="a frame below its step",
        ),
        pytest.param(
            "======== Step 3/100 ========\nPreparing ...\nResults:\n  \u2022 Loss: 0.5\n"
            "  \u2022 Avg Reward: 0.25\n",
            3,
            {"Loss": 0.5, "Avg Reward": 0.25},
            id="NeMo-RL",
        ),
        pytest.param(
            "Train epoch [1/1]: 6%|# | 3/50 [00:10<01:30, 2.0s/it, act_loss=0.5, kl=0.25]\n",
            3,
            {"act_loss": 0.5, "kl": 0.25},
            id="OpenRLHF's bar",
        ),
        pytest.param(
            "".join(f"approxkl 0.25 loss {place}.5\n" for place in range(3)),
            None,
            {"approxkl": 0.25, "loss": 0.5},
            id="pairs that repeat",
        ),
    ],
)
def test_each_way_of_writing_is_read(
    tmp_path: Path, text: str, step: int | None, values: dict[str, float]
) -> None:
    first: Row = log(tmp_path, text).rows[0]
    assert first.step == step
    assert first.values == pytest.approx(values, nan_ok=True)


def test_evaluations_of_deepspeed_chat_have_their_epoch(tmp_path: Path) -> None:
    text = (
        "***** Evaluating rewards, Epoch 1/2 *****\nchosen: 0.5, rejected: -0.5, loss: 0.25\n"
        "Model Parameters: 0.3 B, Latency: 0.2s, Samples/sec: 7.2\n"
    )
    (found,) = log(tmp_path, text).rows
    assert (found.split, found.epoch) == ("eval", 1.0)
    assert found.values == {"eval_chosen": 0.5, "eval_rejected": -0.5, "eval_loss": 0.25}


def test_a_bar_drawn_twice_is_one_row(tmp_path: Path) -> None:
    drawn = "\rTrain: 6%|# | 3/50 [00:10<01:30, 2.0s/it, act_loss={}, kl=0.25]"
    found = log(tmp_path, drawn.format(0.5) + drawn.format(0.75) + "\n")
    assert rows(found) == [(3, {"act_loss": 0.75, "kl": 0.25})]


def test_of_several_bars_the_one_that_rises_counts(tmp_path: Path) -> None:
    inner = "Train epoch [1/1]: 50%|# | 1/2 [00:10<01:30, 2.0s/it, act_loss=0.5, kl=0.1]\n"
    outer = "Episode [{}/3]: 10%|# | {}/2 [00:10<01:30, 2.0s/it, policy_loss=0.5, kl=0.25]\n"
    text = "".join(inner + outer.format(nth, at) for nth in (1, 2) for at in (1, 2))
    found = log(tmp_path, text)
    assert [(row.epoch, row.step, row.values["kl"]) for row in found.rows] == [
        (1, 1, 0.25),
        (1, 2, 0.25),
        (2, 1, 0.25),
        (2, 2, 0.25),
    ]
    assert "4 rows of other progress bars were left out: 'Train epoch'" in found.told


def test_a_bar_that_begins_anew_counts_no_steps(tmp_path: Path) -> None:
    inner = "Train epoch [1/1]: 50%|# | {}/2 [00:10<01:30, 2.0s/it, act_loss={}.5, kl=0.1]\n"
    found = log(tmp_path, "".join(inner.format(at % 2 + 1, at) for at in range(4)))
    assert [row.step for row in found.rows] == [None] * 4


def test_what_was_printed_twice_is_one_row(tmp_path: Path) -> None:
    found = log(tmp_path, "step 1 | loss 0.5 | kl 0.1\n" * 2 + "step 2 | loss 0.5 | kl 0.1\n")
    assert [row.step for row in found.rows] == [1, 2]
    assert "1 records were printed twice" in found.told


def test_stray_lines_yield_to_the_curve(tmp_path: Path) -> None:
    text = VERL + VERL.replace("step:1", "step:3").replace("step:2", "step:4")
    found = log(tmp_path, text + "step=50, loss=0.1, kl=0.5\n")
    assert [row.step for row in found.rows] == [1, 2, 3, 4]
    assert "1 other lines with numbers were left out, such as step, loss, kl" in found.told


def test_ranks_are_kept(tmp_path: Path) -> None:
    found = log(tmp_path, "[rank1]: step 1 | loss 0.5 | kl 0.1\n")
    assert [row.rank for row in found.rows] == [1]


def test_rollouts_are_counted_in_steps(tmp_path: Path) -> None:
    text = "".join(
        f"rollout {at}: {{'rollout/raw_reward': 0.5, 'rollout/kl': 0.1}}\n"
        f"step {2 * at}: {{'train/loss': 0.5, 'train/kl': 0.1}}\n"
        f"step {2 * at + 1}: {{'train/loss': 0.5, 'train/kl': 0.2}}\n"
        for at in range(3)
    )
    found = log(tmp_path, text)
    assert [row.step for row in found.rows] == [0, 0, 1, 2, 2, 3, 4, 4, 5]
    assert "2 steps train on one rollout" in found.told


def test_slime_counts_rollouts_beside_steps_of_its_own(tmp_path: Path) -> None:
    text = "".join(
        f"(Roll pid=1) rollout {at}: {{'rollout/raw_reward': 0.5, 'rollout/kl': 0.1}}\n"
        f"(Train pid=2) step {2 * at}: {{'train/loss': 0.5, 'train/step': {2 * at}}}\n"
        f"(Train pid=2) step {2 * at + 1}: {{'train/loss': 0.5, 'train/step': {2 * at + 1}}}\n"
        f"(Roll pid=1) perf {at}: {{'perf/rollout_time': 12.5}}\n"
        f"(Roll pid=1) passrate {at}: {{'passrate/pass@1': 0.5}}\n"
        f"(Roll pid=1) eval {at}: {{'eval/math': 0.25}}\n"
        for at in range(5, 8)
    )
    found = log(tmp_path, text)
    assert [row.step for row in found.rows] == [
        at for first in (10, 12, 14) for at in (first, first, *[first + 1] * 4)
    ]
    assert [row.split for row in found.rows][5::6] == ["eval"] * 3


TRAINED = [f"step {step} | loss: 0.5 | reward: 0.{step}" for step in range(1, 6)]


@pytest.mark.parametrize(
    "line",
    [
        "Eval step 3: {'loss': 5.0, 'reward': 9.0}",
        "eval 3: {'loss': 5.0, 'reward': 9.0}",
        "[eval] step 3: {'loss': 5.0, 'reward': 9.0}",
        "Validation results at step 3: {'loss': 5.0, 'reward': 9.0}",
        "step 3 (eval): {'loss': 5.0, 'reward': 9.0}",
        "{'step': 3, 'split': 'eval', 'loss': 5.0, 'reward': 9.0}",
        "==== Eval Step 3 ====\nloss: 5.0\nreward: 9.0",
        "==== Step 3 - validation ====\nloss: 5.0\nreward: 9.0",
        "[eval] step 3 | loss: 5.0 | reward: 9.0",
        "Evaluation at step 3: loss: 5.0, reward: 9.0",
        "eval_step 3 | loss: 5.0 | reward: 9.0",
        "2026-01-01 00:00:00 INFO Eval: step 3 | loss: 5.0 | reward: 9.0",
        "step 3 eval | loss: 5.0 | reward: 9.0",
        "step 3 | eval | loss: 5.0 | reward: 9.0",
        "step 3 | loss: 5.0 | reward: 9.0 | valid",
        "step 3 [test] loss: 5.0 reward: 9.0",
        "step 3 | split: val | loss: 5.0 | reward: 9.0",
        "step 3 | test: loss: 5.0 | reward: 9.0",
    ],
)
def test_an_evaluation_is_no_step_of_the_training(tmp_path: Path, line: str) -> None:
    form = {"{": "step {0}: {{'loss': 0.5, 'reward': 0.{0}}}", "=": "== Step {0} ==\nloss: 0.5"}
    kind = next((form[sign] for sign in form if sign in line.replace("{'step'", "{")), "")
    same = [kind.replace("== ", "==== ").replace(" ==", " ====").format(at) for at in range(1, 6)]
    lines = same if kind else TRAINED
    found = log(tmp_path, "".join(f"{each}\n" for each in (*lines[:3], line, *lines[3:])))
    (told,) = [row for row in found.rows if row.split == "eval"]
    assert (told.step, dict(told.values)) == (3, {"eval_loss": 5.0, "eval_reward": 9.0})
    trained = [row for row in found.rows if row.split == "train"]
    assert [(row.step, row.values["loss"]) for row in trained] == [(at, 0.5) for at in range(1, 6)]


@pytest.mark.parametrize(
    "line",
    [
        "step 5 | test: 0.5 | loss: 0.25",
        "step 5 | loss: 0.25 | eval_every: 10",
        "step 5 | loss: 0.25 | validity: 0.5",
        "run of the test_suite: step 5: {'loss': 0.25, 'kl': 0.5}",
    ],
)
def test_a_word_alone_makes_no_evaluation(tmp_path: Path, line: str) -> None:
    (found,) = log(tmp_path, f"{line}\n").rows
    assert (found.split, found.values["loss"]) == ("train", 0.25)


def test_headings_below_a_banner_say_whose_the_pairs_are(tmp_path: Path) -> None:
    text = (
        "==== Step 3/9 ====\nValidation Results:\n  - Accuracy: 0.25\nTraining Results:\n"
        "  - Loss: 0.5\n==== Summary ====\n  - Loss: 9.0\n"
    )
    found = log(tmp_path, text)
    assert sorted((row.split, row.step, dict(row.values)["Loss"]) for row in found.rows[:1]) == [
        ("train", 3, 0.5)
    ]
    assert [dict(row.values) for row in found.rows] == [{"Loss": 0.5}, {"eval_Accuracy": 0.25}]


@pytest.mark.parametrize(
    "lines",
    [
        ["Best step 3 | loss: 0.1 | reward: 7.5"],
        ["Final: step 5 | loss: 0.1 | reward: 7.5"],
        ["2026-01-01 00:00:00 INFO Best: step 3 | loss: 0.1 | reward: 7.5"],
        ["*** Best checkpoint at step 3: loss: 0.1, reward: 7.5 ***"],
        ["Best checkpoint:", "step 3 | loss: 0.1 | reward: 7.5"],
        ["Best step 3 | loss: 0.1 | reward: 7.5", "step 3 loss: 0.1 reward: 7.5"],
    ],
)
def test_the_best_step_is_told_again_and_is_no_row(tmp_path: Path, lines: list[str]) -> None:
    found = log(tmp_path, "".join(f"{line}\n" for line in (*TRAINED, *lines)))
    assert [row.step for row in found.rows] == [1, 2, 3, 4, 5]
    assert "sum the run up" in found.told


def test_what_follows_the_best_step_so_far_is_a_step(tmp_path: Path) -> None:
    text = "".join(f"{line}\nBest {line}\n" for line in TRAINED)
    assert [row.step for row in log(tmp_path, text).rows] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("text", "values"),
    [
        pytest.param("reward: 12% | loss: 0.5", {"reward (%)": 12, "loss": 0.5}, id="pairs"),
        pytest.param("reward 12% loss 0.5", {"reward (%)": 12, "loss": 0.5}, id="words"),
        pytest.param("reward=12%, loss=0.5", {"reward (%)": 12, "loss": 0.5}, id="commas"),
    ],
)
def test_a_percent_sign_stays_with_the_key(
    tmp_path: Path, text: str, values: dict[str, float]
) -> None:
    (found,) = log(tmp_path, f"step 3 | {text}\n").rows
    assert found.values == values


def test_a_percent_sign_in_a_cell_stays_with_the_key(tmp_path: Path) -> None:
    found = log(tmp_path, "| step | reward |\n|---|---|\n| 3 | 12% |\n| 4 | 13% |\n| 5 | 9% |\n")
    assert [row.values["reward (%)"] for row in found.rows] == [12, 13, 9]


def test_a_count_in_brackets_needs_no_word(tmp_path: Path) -> None:
    text = "".join(f"[{at}/100] loss=0.5, reward=-0.5, eta 0:10:00\n" for at in (1, 2, 3))
    found = log(tmp_path, text)
    assert rows(found) == [(at, {"loss": 0.5, "reward": -0.5}) for at in (1, 2, 3)]
    assert settings(found)["planned_steps"] == 100.0


ENDED = "{'train_runtime': 9.0, 'train_samples_per_second': 1.0, 'train_loss': 0.5, 'epoch': 1.0}\n"


def test_a_summary_ends_a_training(tmp_path: Path) -> None:
    first = "".join(f"{hf(at, at / 3)}\n" for at in (1, 2, 3))
    evaluation = "{'eval_loss': 0.5, 'eval_kl': 0.25, 'epoch': 1.0}\n"
    found = log(tmp_path, first + ENDED + evaluation + first + ENDED)
    trained = [row.step for row in found.rows if row.split == "train"]
    assert trained == [1, 2, 3, 1, 2, 3]
    assert "the records of 2 launches carry no step" in found.told


def test_the_bar_of_each_training_counts_its_steps(tmp_path: Path) -> None:
    def training(total: int) -> str:
        steps = range(10, total + 1, 10)
        return "".join(f"{bar(at, total)}\n{hf(at, at / total)}\n" for at in steps)

    found = log(tmp_path, training(40) + ENDED + bar(40, 40) + "\n" + training(20) + ENDED)
    assert [row.step for row in found.rows] == [10, 20, 30, 40, 10, 20]
    assert "planned_steps" not in settings(found)


PROSE = """\
# How we trained
Step 1: install the packages. Step 2: run x = 5, y = 3.
In step 3 the reward: 5 and the loss: 6 were close.
| Metric | Healthy | Warning |
|--------|---------|---------|
| reward | 0.5 | 0.1 |
transformers                      4.46.3
trl                               0.12.0
3.2 Rewards ............ 14
$ python eval.py --model x --limit 10
The answer is {'x': 1, 'y': 2} with loss {'a'}.
{'prompt': 'step: 3 loss: 0.5 kl: 0.1', 'response': 'reward: 1', 'reward': 0.5, 'score': 1}
"""


def test_a_narrative_has_no_rows(tmp_path: Path) -> None:
    found = log(tmp_path, PROSE, "post-mortem.md")
    assert found.rows == []
    assert found.told == "post-mortem.md: no metric rows in this text"


def test_a_log_that_stops_before_a_row_tells_how_far_it_came(tmp_path: Path) -> None:
    text = "".join(f"Training Progress: 0%| | {at}/900 [00:10<?, 2.0s/it]\n" for at in range(34))
    found = log(tmp_path, text)
    assert found.told.endswith("no metric rows in this text; the progress bar reached 33 of 900")
    assert settings(found) == {"planned_steps": 900.0}


# arguments


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("Namespace(beta=0.1, seed=7)\n", id="argparse"),
        pytest.param("Args(\n\u2502   beta=0.1,\n\u2502   seed=7,\n)\n", id="rich"),
        pytest.param("args: GRPOConfig(\nbeta=0.1,\nseed=7,\n)\n", id="a configuration"),
        pytest.param("python train.py --beta 0.1 --seed 7\n", id="a command"),
        pytest.param(
            "[2026-01-01 00:00:00] [INFO] Config loaded:\n  beta=0.1\n  seed=7\n", id="a list"
        ),
        pytest.param("{'beta': 0.1, 'seed': 7, 'model': 'x'}\n", id="a dict"),
    ],
)
def test_arguments_become_settings(tmp_path: Path, text: str) -> None:
    found = settings(log(tmp_path, text))
    assert (found["kl_coef"], found["seed"]) == (0.1, 7)


def test_the_last_of_several_launches_counts(tmp_path: Path) -> None:
    text = "".join(
        f"Config loaded:\n  beta={beta}\n  seed=7\nEpoch 1: mean loss=0.5 | mean kl={beta}\n"
        f"Epoch 2: mean loss=0.25 | mean kl={beta}\n"
        for beta in (0.1, 0.2)
    )
    found = log(tmp_path, text)
    assert settings(found)["kl_coef"] == 0.2
    assert [row.step for row in found.rows] == [1, 2, 1, 2]
    assert "the records of 2 launches carry no step" in found.told


def test_the_temperature_of_a_validation_is_not_the_run_s(tmp_path: Path) -> None:
    found = log(tmp_path, "{'temperature': 0, 'top_p': 1.0, 'max_new_tokens': 9, 'n': 1}\n")
    assert settings(found) == {}


def test_the_program_and_its_version(tmp_path: Path) -> None:
    text = "==((====))==  Unsloth 2026.1.1: Fast Llama patching\n/x/trl/trainer/grpo_trainer.py:1\n"
    found = settings(log(tmp_path, text))
    assert (found["framework"], found["framework_version"]) == ("Unsloth", "2026.1.1")


# endings

TRACEBACK = """\
Traceback (most recent call last):
  File "a.py", line 1, in <module>
    main()
    ^^^^^^
RuntimeError: CUDA error
"""


@pytest.mark.parametrize(
    ("text", "ended"),
    [
        pytest.param(TRACEBACK, "RuntimeError: CUDA error", id="a traceback"),
        pytest.param(
            TRACEBACK
            + "\nDuring handling of the above exception, another exception occurred:\n\n"
            + TRACEBACK.replace("CUDA error", "the second"),
            "RuntimeError: the second",
            id="a chain",
        ),
        pytest.param(
            TRACEBACK + TRACEBACK.replace("RuntimeError: CUDA error", "a.ChildFailedError: "),
            "RuntimeError: CUDA error",
            id="a launcher's wrapper",
        ),
        pytest.param("Killed\n", "Killed", id="the kernel"),
        pytest.param(TRACEBACK + VERL, None, id="the training went on"),
        pytest.param(
            "".join(f"(Worker pid=7) {line}\n" for line in (*TRACEBACK.splitlines(), "Next item")),
            None,
            id="the worker went on",
        ),
        pytest.param("all is well\n", None, id="nothing happened"),
    ],
)
def test_how_a_log_ended(tmp_path: Path, text: str, ended: str | None) -> None:
    assert settings(log(tmp_path, VERL + text)).get("ended_with") == ended


def test_tracebacks_are_counted(tmp_path: Path) -> None:
    found = log(tmp_path, TRACEBACK + VERL + TRACEBACK)
    assert "holds 2 tracebacks, the last ends with RuntimeError: CUDA error" in found.told


def test_skipped_updates_are_counted(tmp_path: Path) -> None:
    text = "[deepspeed] OVERFLOW! Rank 0 Skipping step.\n" * 3
    assert "3 lines tell of updates skipped on overflow" in log(tmp_path, text + VERL).told


# damage


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        pytest.param("step:3 - actor/loss:0.5 - actor/kl:0.12", {"actor/loss": 0.5}, id="verl"),
        pytest.param("step 3 | loss 0.5 | kl 0.12", {"loss": 0.5}, id="pairs"),
        pytest.param("{'loss': 0.5, 'kl': 0.12", None, id="a dict"),
        pytest.param("{'loss': 0.5, 'k", None, id="a key"),
        pytest.param("step:3 - actor/loss:0.5", None, id="a single pair"),
        pytest.param("epoch: 0|step: 3|ppo_ep: 1|act_loss: 0.12", None, id="DeepSpeed"),
    ],
)
def test_the_last_number_of_an_open_line_is_not_believed(
    tmp_path: Path, text: str, kept: dict[str, float] | None
) -> None:
    found = log(tmp_path, text)
    assert [row.values for row in found.rows] == ([kept] if kept else [])
    assert found.left_out == 1


def test_a_dict_that_a_bar_cut_is_told_of(tmp_path: Path) -> None:
    text = f"{hf(1, 0.1)}\n{{'loss': '0.5', 'gra{bar(2)}\n{hf(3, 0.3)}\n{{'loss': 0.1x, 'kl': 1}}\n"
    found = log(tmp_path, text)
    assert len(found.rows) == 2
    assert (
        "2 records are cut or broken and were left out, whole or in part: lines 2, 4" in found.told
    )
    assert found.left_out == 2


EVERYTHING = (
    CONFIG
    + VERL
    + "".join(f"{bar(step)}\r{hf(step, step / 100)}\n" for step in (10, 20, 30))
    + "step 7 | loss 0.5 | kl 0.125\n| step | reward | kl |\n|---|---|---|\n| 3 | 0.5 | 0.25 |\n\n"
    + "==== Step: 3, Epoch: 0.50 ====\nref_kl/train: 0.25\tloss/train: 0.5\t\n"
    + "Namespace(beta=0.1, seed=7)\n"
    + TRACEBACK
)


def values(found: Read) -> set[tuple[str, str]]:
    return {(key, repr(value)) for row in found.rows for key, value in row.values.items()}


@pytest.mark.parametrize("text", [VERL, EVERYTHING, EVERYTHING.replace("step:", "word:")])
def test_a_cut_never_makes_a_number(tmp_path: Path, text: str) -> None:
    known = values(log(tmp_path, text)) | values(log(tmp_path, text.replace("step:", "word:")))
    known |= values(log(tmp_path, text.replace("'loss'", "'word'").replace("step:", "word:")))
    data = text.encode()
    for place in range(1, len(data)):
        assert values(log(tmp_path, data[:place])) <= known, place


@pytest.mark.parametrize("byte", [b"x", b"\xff", b"\x00", b"'", b"{", b"|", b"\x1b"])
def test_a_flipped_byte_never_raises(tmp_path: Path, byte: bytes) -> None:
    data = EVERYTHING.encode()
    for place in range(0, len(data), 64):
        found = log(tmp_path, data[:place] + byte + data[place + 1 :])
        assert found.rows or found.notes


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("{" * 200_000, id="brackets"),
        pytest.param("{'a': " * 50_000, id="nested tables"),
        pytest.param("{'loss': 0.1, " * 50_000, id="tables that never end"),
        pytest.param("%|" * 200_000, id="bars that are none"),
        pytest.param("step:1 - " * 50_000, id="steps"),
        pytest.param("step " * 100_000, id="words that count"),
        pytest.param("a=1 " * 100_000, id="pairs"),
        pytest.param("loss " + "1" * 500_000, id="digits"),
        pytest.param("| " * 200_000, id="cells"),
        pytest.param("'" * 500_000, id="quotes"),
        pytest.param("\\" * 500_000, id="backslashes"),
        pytest.param("--a " * 100_000, id="flags"),
        pytest.param("(a pid=1) " * 100_000, id="prefixes"),
        pytest.param("\x1b[" * 200_000, id="terminal codes"),
        pytest.param("{'loss': 1,\n" * 50_000, id="tables that open in every line"),
        pytest.param("==== Step: 1 ====\n" * 20_000, id="banners"),
        pytest.param("loss: " * 100_000, id="keys"),
        pytest.param(("loss: 1 | step: " + "\t" * 19_000 + "\n") * 40, id="tabs"),
        pytest.param(("step 1 | " + "1,1," * 4_000 + "\n") * 40, id="commas"),
        pytest.param(("[eval [ " * 2_000 + "\n") * 40, id="evaluations"),
        pytest.param(
            "{'step': [1], 'loss': 0.5, 'kl': inf, 'epoch': {'a': nan}}\n" * 9, id="steps"
        ),
    ],
)
def test_hostile_text_takes_no_more_time_than_text(tmp_path: Path, text: str) -> None:
    start = time.process_time()
    log(tmp_path, text + "\n")
    assert time.process_time() - start < 10


# claims


@pytest.mark.parametrize(
    ("name", "head", "expected"),
    [
        pytest.param("train.log", b"Starting to train", True, id="a log"),
        pytest.param("slurm-123.out", b"12:00 INFO x", True, id="Slurm"),
        pytest.param("notes.md", b"# The loss fell", True, id="notes"),
        pytest.param("train.log", "loss".encode("utf-16"), True, id="UTF-16"),
        pytest.param("README.md", b"# The loss fell", False, id="a file on a project"),
        pytest.param("LICENSE.txt", b"any loss of data", False, id="a licence"),
        pytest.param("merges.txt", b"#version: 0.2\nl o\nlo ss", False, id="a tokenizer's merges"),
        pytest.param("vocab.txt", b"[PAD]\n[unused0]\nloss", False, id="a tokenizer's words"),
        pytest.param("requirements.txt", b"# info\ntorch==2.1\ntrain==1", False, id="packages"),
        pytest.param("train.log", b"hello", False, id="text on something else"),
        pytest.param("train.out", b"\x7fELF error\x00\x01", False, id="a program"),
        pytest.param("train.json", b"{}", False, id="another name"),
    ],
)
def test_text_under_the_name_of_a_log_is_claimed(name: str, head: bytes, expected: bool) -> None:
    assert console.claims(name, head) is expected


def test_a_text_promises_no_log() -> None:
    assert console.promises("train.log")
    assert not console.promises("notes.txt")


def test_a_damaged_packed_log_keeps_what_came_before(tmp_path: Path) -> None:
    import gzip

    packed = gzip.compress(VERL.encode() * 200)
    found = log(tmp_path, packed[: len(packed) // 2], "train.log.gz")
    assert "is packed and damaged or cut" in found.told


def test_a_bar_that_falls_back_to_a_checkpoint_is_that_of_a_resumed_run(tmp_path: Path) -> None:
    lines = []
    for count in (*range(10, 60, 10), *range(40, 90, 10)):
        lines.append(f" {count}%|##  | {count}/100 [00:01<00:09, 1.0it/s]")
        lines.append(f"{{'loss': {1 / count}, 'grad_norm': 0.5, 'learning_rate': 1e-06}}")
    path = tmp_path / "run.log"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    (run,) = read_runs(path)
    assert run.metrics["step"].to_list() == [10, 20, 30, 40, 50, 60, 70, 80]
    assert [(seam.left, seam.step) for seam in run.seams] == [(50, 40)]
