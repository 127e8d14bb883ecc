import pytest

from rlhfdoctor.readers._marks import (
    command,
    died,
    entry,
    framework,
    named,
    opens,
    overflow,
    phrases,
    raised,
    version,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("/x/site-packages/verl/trainer/main_ppo.py", "verl", id="verl by a path"),
        pytest.param("python3 -m verl.trainer.main_ppo", "verl", id="verl by its command"),
        pytest.param("==((====))==  Unsloth 2026.1.1: Fast patching", "Unsloth", id="Unsloth"),
        pytest.param("[INFO:swift] args: x", "ms-swift", id="ms-swift"),
        pytest.param("[INFO|llamafactory.train:1] x", "LLaMA-Factory", id="LLaMA-Factory"),
        pytest.param("[axolotl.train.main:1] x", "Axolotl", id="Axolotl"),
        pytest.param("python -m openrlhf.cli.train_ppo_ray", "OpenRLHF", id="OpenRLHF"),
        pytest.param("/x/site-packages/trl/trainer/grpo_trainer.py:1", "TRL", id="TRL"),
        pytest.param("main.py --actor_model_name_or_path x", "DeepSpeed-Chat", id="DeepSpeed-Chat"),
        pytest.param("We compare verl, OpenRLHF and TRL.", None, id="a mention"),
        pytest.param("an overlap of swift birds", None, id="other words"),
    ],
)
def test_programs_give_themselves_away(text: str, expected: str | None) -> None:
    assert framework(text) == expected
    assert expected is None or named(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("trl==0.15.2", ("trl", "0.15.2"), id="a requirement"),
        pytest.param("TRL version: 1.0.0", ("trl", "1.0.0"), id="words"),
        pytest.param("verl                0.4.1", ("verl", "0.4.1"), id="a list of packages"),
        pytest.param("Unsloth 2026.1.1: Fast", ("unsloth", "2026.1.1"), id="a banner"),
        pytest.param("trl is at 5", None, id="no version"),
    ],
)
def test_programs_tell_their_version(text: str, expected: tuple[str, str] | None) -> None:
    assert version(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "python train.py --beta 0.1 --learning-rate=1e-5",
            {"beta": "0.1", "learning_rate": "1e-5"},
            id="flags",
        ),
        pytest.param(
            "cmd = deepspeed main.py --lr 1e-5 --offload --seed 1",
            {"lr": "1e-5", "offload": "true", "seed": "1"},
            id="a flag without a value",
        ),
        pytest.param(
            "+ python3 -m verl.trainer.main_ppo a.b.lr=1e-6 algorithm.adv_estimator=grpo",
            {"a.b.lr": "1e-6", "algorithm.adv_estimator": "grpo"},
            id="overrides of hydra",
        ),
        pytest.param(
            "command: ['python', 'main.py', '--lr', '1e-5', '--seed', '1']",
            {"lr": "1e-5", "seed": "1"},
            id="a list of words",
        ),
        pytest.param("the flags --beta 0.1 and --lr 1", {}, id="a sentence"),
    ],
)
def test_commands_hold_arguments(text: str, expected: dict[str, object]) -> None:
    assert command(text) == expected


def test_lists_of_settings_are_announced() -> None:
    assert opens("Config loaded:")
    assert not opens("the config is fine")
    assert entry("  kl_coef=0.1") == ("kl_coef", "0.1")
    assert entry("  train_batch_size ............. 64") == ("train_batch_size", "64")
    assert entry("a sentence on nothing") is None


def test_trainers_announce_how_long_they_train() -> None:
    assert list(phrases("  Total optimization steps = 1,250")) == [("planned_steps", 1250.0)]
    assert list(phrases("Total training steps: 300")) == [("planned_steps", 300.0)]
    assert list(phrases("  Num Epochs = 3")) == [("planned_epochs", 3.0)]


@pytest.mark.parametrize(
    ("text", "wraps"),
    [
        pytest.param("RuntimeError: CUDA error", False, id="an error"),
        pytest.param("torch.OutOfMemoryError: CUDA out of memory.", False, id="with its module"),
        pytest.param("KeyboardInterrupt", False, id="without words"),
        pytest.param("ray.exceptions.RayTaskError(ValueError): x", True, id="a wrapper"),
    ],
)
def test_a_traceback_ends_with_an_exception(text: str, wraps: bool) -> None:
    assert raised(text) == (text, wraps)


def test_an_exception_is_clipped() -> None:
    told = raised("ValueError: " + "x" * 1000)
    assert told is not None
    assert len(told[0]) == 200


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("Killed", True, id="the kernel"),
        pytest.param("run.sh: line 12:  1234 Killed    python a.py", True, id="the shell"),
        pytest.param("Segmentation fault (core dumped)", True, id="a fault"),
        pytest.param("slurmstepd: error: *** JOB 1 ON n1 CANCELLED ***", True, id="Slurm"),
        pytest.param(
            "[rank3]:[E101 ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation "
            "timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, Timeout(ms)=600000) ran for 600001 ms",
            True,
            id="a watchdog",
        ),
        pytest.param("srun: error: n1: task 0: Out Of Memory", True, id="srun"),
        pytest.param("Process 12 exits with return code = -9", True, id="DeepSpeed"),
        pytest.param("Main process received SIGINT, exiting", True, id="a signal"),
        pytest.param("Process 12 exits successfully.", False, id="a success"),
        pytest.param("He was Killed by a dragon", False, id="a story"),
    ],
)
def test_processes_are_ended_from_outside(text: str, expected: bool) -> None:
    assert (died(text) is not None) is expected


def test_skipped_updates_are_known() -> None:
    assert overflow("[deepspeed] OVERFLOW! Rank 0 Skipping step.")
    assert not overflow("an overflow of text")
