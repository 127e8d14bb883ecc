import math

import pytest

from rlhfdoctor.readers._grammars import (
    average,
    banner,
    bare,
    bars,
    cells,
    columns,
    counted,
    evaluated,
    evaluating,
    followed,
    framed,
    measured,
    metrics,
    pairs,
    stepped,
    verl,
)
from rlhfdoctor.readers._json import number

Numbers = dict[str, float | None]


def numbers(record: dict[str, object]) -> Numbers:
    return {key: number(value) for key, value in record.items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "step:3 - actor/kl_loss:0.25 - training/epoch:0",
            [{"step": 3, "actor/kl_loss": 0.25, "training/epoch": 0}],
            id="plain numbers",
        ),
        pytest.param(
            "step:3 - actor/kl_loss:np.float64(0.25) - actor/lr:np.float32(1e-06)",
            [{"step": 3, "actor/kl_loss": 0.25, "actor/lr": 1e-6}],
            id="numbers of numpy 2",
        ),
        pytest.param(
            "step:3 - val-core/my data/reward/mean@16:-0.5 - actor/entropy:inf",
            [{"step": 3, "val-core/my data/reward/mean@16": -0.5, "actor/entropy": math.inf}],
            id="spaces and @ in a key, infinity",
        ),
        pytest.param(
            "step:1 - a/x:0.5 - b/y:1step:2 - a/x:0.25 - b/y:2",
            [{"step": 1, "a/x": 0.5, "b/y": 1}, {"step": 2, "a/x": 0.25, "b/y": 2}],
            id="two steps glued together",
        ),
        pytest.param(
            "step:4 - a/x:0.5 - a/broken:0.1x - b/y:2",
            [{"step": 4, "a/x": 0.5, "a/broken": None, "b/y": 2}],
            id="a damaged number is none",
        ),
        pytest.param("step:3 - do this first - then that: 5", [], id="a list of things to do"),
        pytest.param("global_step:3 - a:1 - b:2", [], id="another word before the colon"),
    ],
)
def test_verl_prints_keys_and_values_behind_a_step(text: str, expected: list[Numbers]) -> None:
    assert [numbers(record) for record in verl(text)] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "step 10 | loss 0.1 | kl 0.2", {"step": 10, "loss": 0.1, "kl": 0.2}, id="bars between"
        ),
        pytest.param(
            "[step 100] loss=0.5, kl=nan", {"step": 100, "loss": 0.5, "kl": math.nan}, id="brackets"
        ),
        pytest.param(
            "Step 10/100: reward=-0.5 kl: 0.1",
            {"step": 10, "max_steps": 100, "reward": -0.5, "kl": 0.1},
            id="a total",
        ),
        pytest.param(
            "iter: 5, loss: 1e-3, reward: 2", {"step": 5, "loss": 1e-3, "reward": 2}, id="iter"
        ),
        pytest.param(
            "Step 1 | loss:1.2 lr:3e-4 ", {"step": 1, "loss": 1.2, "lr": 3e-4}, id="torchtune"
        ),
        pytest.param(
            "Epoch:[1/2](20/500), loss: 0.75, epoch_time: 9.0min",
            {"epoch": 1, "step": 20, "max_steps": 500, "loss": 0.75, "epoch_time (min)": 9},
            id="the step in parentheses behind the epoch",
        ),
        pytest.param(
            "epoch: 0|step: 7|ppo_ep: 1|act_loss: 0.25|cri_loss: 0.5|unsuper_loss: 0.0",
            {"epoch": 0, "step": 7, "ppo_ep": 1, "act_loss": 0.25, "cri_loss": 0.5}
            | {"unsuper_loss": 0},
            id="DeepSpeed-Chat of 2023",
        ),
        pytest.param(
            "Epoch: 0 | Step: 5 | PPO Epoch: 1 | Actor Loss: 0.1 | Critic Loss: 0.2",
            {"epoch": 0, "step": 5, "PPO Epoch": 1, "Actor Loss": 0.1, "Critic Loss": 0.2},
            id="DeepSpeed-Chat with words of two parts",
        ),
        pytest.param(
            "loss=0.5 step=10 kl=0.25", {"loss": 0.5, "step": 10, "kl": 0.25}, id="the step inside"
        ),
        pytest.param(
            "Epoch 3: mean total loss=nan | mean actor loss=0.5",
            {"epoch": 3, "mean total loss": math.nan, "mean actor loss": 0.5},
            id="nothing but an epoch",
        ),
        pytest.param(
            "eval step 40: loss=0.5 reward=1.5",
            {"step": 40, "eval_loss": 0.5, "eval_reward": 1.5},
            id="an evaluation",
        ),
        pytest.param(
            "step 9 | accuracy: 56% | loss: 1,234.5",
            {"step": 9, "accuracy (%)": 56, "loss": 1234.5},
            id="a unit stays with its key, thousands are one number",
        ),
        pytest.param(
            "step=50, loss=0.5, lr=[1e-06, 1e-06]",
            {"step": 50, "loss": 0.5, "lr": 1e-6},
            id="equal learning rates of two groups",
        ),
        pytest.param(
            "[Step 10/100] Loss: 0.5 | Reward: 0.25 \u00b1 0.10",
            {"step": 10, "max_steps": 100, "Loss": 0.5, "Reward": 0.25},
            id="a mean and its spread",
        ),
        pytest.param(
            "step: 10, loss: tensor(0.5, device='cuda:0'), kl: np.float32(0.25)",
            {"step": 10, "loss": 0.5, "kl": 0.25},
            id="tensors",
        ),
        pytest.param(
            "\U0001f680 Step 10 | \U0001f4c9 Loss: 0.5 | KL: 0.25",
            {"step": 10, "Loss": 0.5, "KL": 0.25},
            id="pictures",
        ),
        pytest.param(
            "iteration        5/     100 | lm loss: 1.5E+00 | global batch size:   128 |",
            {"step": 5, "max_steps": 100, "lm loss": 1.5, "global batch size": 128},
            id="Megatron",
        ),
        pytest.param(
            "Step 1 | Time: 12.5s | Mismatch KL: 0.5 | Throughput: 12 tokens/s",
            {"step": 1, "Time (s)": 12.5, "Mismatch KL": 0.5, "Throughput (tokens/s)": 12},
            id="prime-rl",
        ),
        pytest.param(
            "Episode 2/20 | Batch 5/100 | reward 0.5 | kl 0.1",
            {"episode": 2, "step": 5, "max_steps": 100, "reward": 0.5, "kl": 0.1},
            id="the finer count is the step",
        ),
    ],
)
def test_pairs_behind_a_count_are_a_record(text: str, expected: Numbers) -> None:
    (found,) = stepped(text)
    assert numbers(found) == pytest.approx(expected, nan_ok=True)


PROSE = [
    pytest.param("Step 2: then x = 5, y = 3", id="a proof"),
    pytest.param("Step 3: multiply the loss by 5 and you get a score of 10.", id="a sentence"),
    pytest.param("step by step: 1. reward 2. loss", id="a list"),
    pytest.param("transformers                      4.47.1", id="a package"),
    pytest.param("2026-01-01 00:00:00 10:11:12 step", id="times"),
    pytest.param("3.2 Rewards and losses ............ 14", id="a table of contents"),
    pytest.param('  File "/a/b.py", line 12, in step', id="a frame"),
    pytest.param("python train.py --step 10 --loss 0.5 --kl 0.1", id="a command"),
    pytest.param("step 10 saved to /tmp/step_10 (loss 0.5)", id="a path"),
    pytest.param("At step 10 the loss was 0.5 and the reward 0.25", id="a report"),
    pytest.param("Epoch 0.20:  0.031", id="one number"),
    pytest.param("The reward: 5, the loss: 6", id="pairs that count nothing"),
    pytest.param("step 5: temperature=0.7, top_p=0.9", id="nothing measured"),
    pytest.param("step 10: loss=0.1x, kl=", id="no numbers"),
]


@pytest.mark.parametrize("text", PROSE)
def test_what_only_resembles_a_record_is_none(text: str) -> None:
    assert stepped(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("approxkl 0.5 pg_loss -1e-8 ratio 1.0", 3, id="words and numbers in turn"),
        pytest.param("reward=0.5 kl=0.1", 2, id="equals signs"),
        pytest.param("a reward of 0.5 and a kl of 0.1", 0, id="a sentence"),
        pytest.param("|E2E latency=3.5s |Training time=1.0s", 0, id="nothing measured"),
    ],
)
def test_bare_pairs_need_something_measured(text: str, expected: int) -> None:
    assert sum(map(len, bare(text))) == expected


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        pytest.param("actor/kl_loss", True, id="a loss"),
        pytest.param("Avg Response Len", False, id="a length alone"),
        pytest.param("kl_coef", False, id="a coefficient"),
        pytest.param("reward_model_path", False, id="a path"),
        pytest.param("loss_type", False, id="a type"),
        pytest.param("KL_ref", True, id="capitals"),
        pytest.param("approxkl", True, id="one word"),
    ],
)
def test_what_is_measured_and_what_was_chosen(key: str, expected: bool) -> None:
    assert measured(key) is expected


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        pytest.param({"loss": 0.1, "epoch": 0.5}, True, id="a training log"),
        pytest.param({"loss": "0.1", "kl": "nan"}, True, id="numbers as strings"),
        pytest.param({"eval_loss": 0.1, "eval_runtime": 3.0}, True, id="an evaluation"),
        pytest.param({"loss": 0.1}, False, id="one number"),
        pytest.param({"lr": 1e-5, "batch_size": 8, "kl_coef": 0.1}, False, id="a configuration"),
        pytest.param(
            {"prompt": "a", "response": "b", "reward": 0.5, "kl": 1}, False, id="a sample"
        ),
        pytest.param(
            {"n": 4, "logprobs": 0, "repetition_penalty": 1.0, "top_p": 1.0, "max_tokens": 99},
            False,
            id="how text is sampled",
        ),
        pytest.param({"loss": 0.1, "kl": 0.2, "use_kl_loss": True}, False, id="a switch"),
    ],
)
def test_a_table_of_metrics_holds_measured_numbers(
    record: dict[str, object], expected: bool
) -> None:
    assert metrics(record) is expected


def test_pairs_tell_how_much_of_the_line_they_are() -> None:
    assert pairs("loss: 0.5 | kl: 0.1")[1] == 1.0
    assert pairs("loss: 0.5 | and a long remark on it")[1] < 0.5
    assert pairs("x" * 30_000 + " loss: 0.5 | kl: 1") == ({}, 0.0)


def test_bars_are_read_and_taken_out_of_the_text() -> None:
    text = "  5%|5         | 5/100 [00:10<03:10,  2.00s/it]  {'loss': 0.5}"
    found, left = bars(text)
    assert [(bar.title, bar.count, bar.total, bar.trains) for bar in found] == [("", 5, 100, True)]
    assert left == "{'loss': 0.5}"


@pytest.mark.parametrize(
    ("text", "trains"),
    [
        pytest.param("Map:  5%|5 | 5/100 [00:10<03:10, 2.0 examples/s]", False, id="a mapping"),
        pytest.param("Loading weights: 5%|5 | 5/9 [00:10<03:10, 2.0it/s]", False, id="a loading"),
        pytest.param("Training Progress: 5%|5 | 5/9 [00:10<?, ?it/s]", True, id="a training"),
    ],
)
def test_bars_of_preparations_count_no_steps(text: str, trains: bool) -> None:
    (bar,), _ = bars(text)
    assert bar.trains is trains


def test_a_bar_may_carry_numbers_of_its_own() -> None:
    text = "Train epoch [2/4]: 10%|1  | 5/50 [00:10<01:30, 2.0s/it, act_loss=0.1, kl=nan, x=y]"
    (bar,), _ = bars(text)
    assert numbers(bar.values) == pytest.approx(
        {"step": 5, "epoch": 2, "act_loss": 0.1, "kl": math.nan}, nan_ok=True
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("Train step 3 / 100 done.", {"step": 3, "max_steps": 100}, id="of a total"),
        pytest.param("Epoch 1/5 Step 2/9 Train step 7/90", {"step": 7, "max_steps": 90}, id="last"),
        pytest.param("Step: 3", {"step": 3}, id="alone"),
        pytest.param("one step at a time", None, id="no number"),
    ],
)
def test_a_line_may_announce_a_step(text: str, expected: Numbers | None) -> None:
    assert counted(text) == expected


def test_a_bar_that_is_cut_is_no_bar() -> None:
    text = "10%|1  | 5/50 [00:10<01:30, 2.0s/it, reward=0.1"
    assert bars(text) == ([], text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "=========== Step: 7, Epoch: 0.25 ===========",
            ({"step": 7, "epoch": 0.25}, False),
            id="MOSS",
        ),
        pytest.param(
            "======== Step 3/100 ========", ({"step": 3, "max_steps": 100}, False), id="NeMo-RL"
        ),
        pytest.param("===== Eval Step 1,010 =====", ({"step": 1010}, True), id="an evaluation"),
        pytest.param("=== Evaluation at step 10 ===", ({"step": 10}, True), id="in other words"),
        pytest.param("=== Step 10 - eval ===", ({"step": 10}, True), id="an evaluation at the end"),
        pytest.param("=== Best step 10 ===", None, id="the best step"),
        pytest.param("===== results of the step 3 =====", None, id="a title"),
        pytest.param("=====", None, id="a rule"),
    ],
)
def test_banners_count_what_stands_below_them(
    text: str, expected: tuple[Numbers, bool] | None
) -> None:
    assert banner(text) == expected


def test_below_a_banner_stand_nothing_but_pairs() -> None:
    assert numbers(followed("loss: 0.5\tkl: 0.25\t")) == {"loss": 0.5, "kl": 0.25}
    assert numbers(followed("  - Avg Reward: 0.5")) == {"Avg Reward": 0.5}
    assert followed("and then: the loss: 0.5 rose") == {}


def test_the_reward_line_of_deepspeed_chat() -> None:
    assert average("average reward score: 0.5") == {"average reward score": "0.5"}
    two = average("Average reward score: 0.5 | EMA reward score: 0.25")
    assert numbers(two) == {"Average reward score": 0.5, "EMA reward score": 0.25}
    assert average("the average reward score: 0.5") == {}


def test_the_evaluations_of_deepspeed_chat() -> None:
    assert evaluating("***** Evaluating rewards, Epoch 1/3 *****") == 1.0
    (found,) = evaluated(
        "chosen_last_scores (higher is better) : 2.5, acc (higher is better) : 0.5", 1.0
    )
    assert numbers(found) == {"epoch": 1, "eval_chosen_last_scores": 2.5, "eval_acc": 0.5}


def test_tables_have_cells_and_a_column_that_counts() -> None:
    assert cells("| **10** | `0.5` |") == ["10", "0.5"]
    assert cells("10 | 0.5") is None
    assert columns(["Step", "Reward", "Epoch"]) == ["step", "Reward", "epoch"]
    assert columns(["Metric", "Healthy"]) is None
    assert columns(["Step", "What to do"]) is None
    assert framed("\u2502 objective/kl \u2502 0.5 \u2502") == ("objective/kl", "0.5")
    assert framed("\u2502 what \u2502 text \u2502") is None
