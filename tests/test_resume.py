from __future__ import annotations

import ast
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from rlhfdoctor import dialects, registry
from rlhfdoctor.model import Change, Checkpoint, Location, Resume, Run, Setting
from rlhfdoctor.resume import FACTS, NO_REFERENCE, OPENRLHF_DOTTED, WAYS, Way, resume
from rlhfdoctor.vocabulary import ALGORITHMS
from tests.builders import run_of

RATE = Change("learning_rate", 4e-4, 4e-5, "a tenth")
BETA = Change("kl_coef", 0.02, 0.04, "twice")
CLIP = Change("clip_range", 0.2, 0.1, "half")
BASH = shutil.which("bash")


def run(
    framework: str,
    algorithm: str = "GRPO",
    *,
    dialect: str = "",
    path: str = "/runs/a",
    keys: dict[str, tuple[Any, str]] | None = None,
    **config: Any,
) -> Run:
    """Return a run of a framework; ``keys``: settings with the key that told them."""
    made = run_of(config={"model": "org/base", "seed": 7, **config}, algorithm=algorithm)
    told = {
        name: Setting(name, value, Location("config.json", key=key))
        for name, (value, key) in (keys or {}).items()
    }
    return replace(
        made,
        framework=framework,
        dialect=dialect,
        path=path,
        config={**made.config, **told},
    )


def saved(name: str = "checkpoint-40", step: int = 40, form: str = "safetensors") -> Checkpoint:
    return Checkpoint(step, name, name, format=form, complete=True)


def told(made: Run, checkpoint: Checkpoint | None, *changes: Change) -> Resume:
    found = resume(made, checkpoint, changes)
    assert found is not None
    return found


def whole(tmp_path: Path, *names: str) -> tuple[str, Checkpoint]:
    """Make a run folder whose checkpoint-40 holds files of these names."""
    folder = tmp_path / "checkpoint-40"
    folder.mkdir()
    for name in ("model.safetensors", "trainer_state.json", *names):
        (folder / name).touch()
    return str(tmp_path), saved()


FRESH_GRPO = """\
import shutil

checkpoint = '{path}/checkpoint-40'
fresh = 'resume-40'
left_out = shutil.ignore_patterns("optimizer*", "scheduler.pt", "rng_state*")
shutil.copytree(checkpoint, fresh, ignore=left_out)
args = GRPOConfig(
    ...,  # as before
    learning_rate=4e-05,
    beta=0.04,
    seed=8,
)
trainer = GRPOTrainer(..., args=args, model='org/base')  # the initial model
trainer.train(resume_from_checkpoint=fresh)"""


def test_a_new_learning_rate_leaves_the_optimizer_state_of_a_trl_checkpoint_behind(
    tmp_path: Path,
) -> None:
    path, checkpoint = whole(tmp_path, "optimizer.pt", "scheduler.pt", "rng_state.pth")
    found = told(run("TRL", path=path, kl_coef=0.02), checkpoint, RATE, BETA)
    assert found.kind == "python"
    assert found.text == FRESH_GRPO.format(path=path)
    assert any("leaves out optimizer.pt" in item for item in found.caveats)
    assert any("warm-up again" in item and "40" in item for item in found.caveats)


@pytest.mark.parametrize(
    ("files", "changes"),
    [
        pytest.param(["optimizer.pt", "scheduler.pt"], [BETA], id="where the rate stays"),
        pytest.param([], [RATE], id="where the checkpoint holds no optimizer state"),
        pytest.param(["global_step40", "latest"], [RATE], id="where DeepSpeed keeps the state"),
    ],
)
def test_a_trl_checkpoint_is_resumed_as_it_lies(
    tmp_path: Path, files: list[str], changes: list[Change]
) -> None:
    path, checkpoint = whole(tmp_path, *files)
    found = told(run("TRL", path=path, kl_coef=0.02), checkpoint, *changes)
    assert found.text.endswith("\ntrainer.train(resume_from_checkpoint=checkpoint)")
    assert "shutil" not in found.text


@pytest.mark.parametrize(
    ("files", "says"),
    [
        pytest.param([], "holds no optimizer state", id="weights only"),
        pytest.param(["global_step40"], "DeepSpeed restores the old", id="DeepSpeed"),
    ],
)
def test_what_the_checkpoint_holds_is_said(tmp_path: Path, files: list[str], says: str) -> None:
    path, checkpoint = whole(tmp_path, *files)
    caveats = told(run("TRL", path=path), checkpoint, RATE).caveats
    assert any(says in item for item in caveats)


TEXTS: dict[str, tuple[Run, Checkpoint | None, list[Change], str]] = {
    "TRL DPO from the initial model": (
        run("TRL", "DPO"),
        None,
        [RATE],
        "args = DPOConfig(\n    ...,  # as before\n    learning_rate=4e-05,\n)\n"
        "trainer = DPOTrainer(..., args=args, model='org/base')  # the initial model\n"
        "trainer.train()",
    ),
    "TRL PPO gives the reference": (
        run("TRL", "PPO", dialect="trl_ppo"),
        saved(),
        [RATE, BETA],
        "args = PPOConfig(\n    ...,  # as before\n    learning_rate=4e-05,\n    kl_coef=0.04,\n)\n"
        "model = AutoModelForCausalLM.from_pretrained('/runs/checkpoint-40')\n"
        "ref_model = AutoModelForCausalLM.from_pretrained('org/base')\n"
        "trainer = PPOTrainer(..., args=args, model=model, ref_model=ref_model)\n"
        "trainer.train()",
    ),
    "the PPO of TRL 0.11 gives the reference": (
        run("TRL", "PPO", dialect="trl_ppo_old"),
        saved(),
        [BETA],
        "config = PPOConfig(\n    ...,  # as before\n    init_kl_coef=0.04,\n)\n"
        "model = AutoModelForCausalLMWithValueHead.from_pretrained('/runs/checkpoint-40')\n"
        "ref_model = AutoModelForCausalLMWithValueHead.from_pretrained('org/base')\n"
        "trainer = PPOTrainer(..., config=config, model=model, ref_model=ref_model)",
    ),
    "verl leaves out the optimizer": (
        run("verl"),
        saved("global_step_40/actor"),
        [RATE],
        "# your command, with these overrides\n"
        "    trainer.resume_mode=resume_path \\\n"
        "    trainer.resume_from_path=/runs/global_step_40 \\\n"
        "    'actor_rollout_ref.actor.checkpoint.load_contents=[model]' \\\n"
        "    actor_rollout_ref.actor.optim.lr=4e-05",
    ),
    "verl's clip range is three settings": (
        run("verl"),
        None,
        [CLIP],
        "# your command, with these overrides\n"
        "    trainer.resume_mode=disable \\\n"
        "    actor_rollout_ref.actor.clip_ratio=0.1 \\\n"
        "    actor_rollout_ref.actor.clip_ratio_low=0.1 \\\n"
        "    actor_rollout_ref.actor.clip_ratio_high=0.1",
    ),
    "verl turns on the KL in the reward that the run used": (
        run("verl", keys={"kl_coef": (0.02, "algorithm.kl_ctrl.kl_coef")}),
        saved("global_step_40/actor"),
        [BETA],
        "# your command, with these overrides\n"
        "    trainer.resume_mode=resume_path \\\n"
        "    trainer.resume_from_path=/runs/global_step_40 \\\n"
        "    algorithm.kl_ctrl.kl_coef=0.04 \\\n"
        "    algorithm.use_kl_in_reward=True",
    ),
    "verl turns on a KL loss that was off": (
        run("verl", keys={"kl_coef": (0.0, "actor_rollout_ref.actor.use_kl_loss")}),
        None,
        [replace(BETA, suggested=0.01)],
        "# your command, with these overrides\n"
        "    trainer.resume_mode=disable \\\n"
        "    actor_rollout_ref.actor.kl_loss_coef=0.01 \\\n"
        "    actor_rollout_ref.actor.use_kl_loss=True",
    ),
    "OpenRLHF points latest at the checkpoint": (
        run("OpenRLHF", "PPO"),
        saved("_actor/global_step40", form="deepspeed"),
        [RATE],
        "# a copy whose latest checkpoint is this one\n"
        "mkdir -p resume-40/_actor\n"
        "cp -r -- /runs/_actor/global_step40 resume-40/_actor/\n"
        "printf %s global_step40 > resume-40/_actor/latest\n"
        "# your command, with these options\n"
        "    --load_checkpoint \\\n"
        "    --ckpt_path resume-40 \\\n"
        "    --actor_learning_rate 4e-05",
    ),
    "OpenRLHF's newer names where the run used them": (
        run("OpenRLHF", "GRPO", keys={"learning_rate": (4e-4, "actor.adam.lr")}),
        saved("_actor/global_step40", form="deepspeed"),
        [RATE, BETA],
        "# a copy whose latest checkpoint is this one\n"
        "mkdir -p resume-40/_actor\n"
        "cp -r -- /runs/_actor/global_step40 resume-40/_actor/\n"
        "printf %s global_step40 > resume-40/_actor/latest\n"
        "# your command, with these options\n"
        "    --ckpt.load_enable \\\n"
        "    --ckpt.path resume-40 \\\n"
        "    --actor.adam.lr 4e-05 \\\n"
        "    --algo.kl.init_coef 0.04",
    ),
    "OpenRLHF from Hugging Face's weights": (
        run("OpenRLHF", "GRPO"),
        saved("global_step40_hf"),
        [RATE],
        "# your command, with these options\n"
        "    --pretrain /runs/global_step40_hf \\\n"
        "    --actor_learning_rate 4e-05",
    ),
    "OpenRLHF DPO": (
        run("OpenRLHF", "DPO"),
        saved("global_step40", form="deepspeed"),
        [BETA],
        "# a copy whose latest checkpoint is this one\n"
        "mkdir -p resume-40\n"
        "cp -r -- /runs/global_step40 resume-40/\n"
        "printf %s global_step40 > resume-40/latest\n"
        "# your command, with these options\n"
        "    --load_checkpoint \\\n"
        "    --ckpt_path resume-40 \\\n"
        "    --beta 0.04",
    ),
    "OpenRLHF DPO from Hugging Face's weights gives the reference": (
        run("OpenRLHF", "DPO", keys={"learning_rate": (4e-4, "adam.lr")}),
        saved("global_step40_hf"),
        [RATE, BETA],
        "# your command, with these options\n"
        "    --model.model_name_or_path /runs/global_step40_hf \\\n"
        "    --ref.model_name_or_path org/base \\\n"
        "    --adam.lr 4e-05 \\\n"
        "    --model.beta 0.04",
    ),
    "OpenRLHF's length as the run named it": (
        run("OpenRLHF", keys={"max_response_length": (64, "max_new_tokens")}),
        None,
        [Change("max_response_length", 64, 128, "twice")],
        "# your command, with these options\n    --max_new_tokens 128",
    ),
    "LLaMA-Factory gives the reference where the rate changes": (
        run("LLaMA-Factory", "DPO"),
        saved(),
        [RATE, BETA],
        "# your configuration, with these lines\n"
        'output_dir: "resume-40"\n'
        'model_name_or_path: "/runs/checkpoint-40"\n'
        'ref_model: "org/base"  # the initial model\n'
        "learning_rate: 4.0e-05\n"
        "pref_beta: 0.04\n"
        "seed: 8",
    ),
    "LLaMA-Factory goes on with an adapter": (
        run("LLaMA-Factory", "DPO", lora_rank=8),
        saved(form="peft"),
        [RATE],
        "# your configuration, with these lines\n"
        'output_dir: "resume-40"\n'
        'adapter_name_or_path: "/runs/checkpoint-40"\n'
        "learning_rate: 4.0e-05\n"
        "seed: 8",
    ),
    "LLaMA-Factory resumes where the rate stays": (
        run("LLaMA-Factory", "DPO"),
        saved(),
        [BETA],
        "# your configuration, with these lines\n"
        'output_dir: "resume-40"\n'
        'resume_from_checkpoint: "/runs/checkpoint-40"\n'
        "pref_beta: 0.04\n"
        "seed: 8",
    ),
    "LLaMA-Factory's PPO loads only weights, and has no KL coefficient": (
        run("LLaMA-Factory", "PPO"),
        saved(),
        [BETA],
        "# your configuration, with these lines\n"
        'output_dir: "resume-40"\n'
        'model_name_or_path: "/runs/checkpoint-40"\n'
        'ref_model: "org/base"  # the initial model\n'
        "# kl_coef: 0.04; twice\n"
        "seed: 8",
    ),
    "LLaMA-Factory has no reference for ORPO": (
        run("LLaMA-Factory", "ORPO or SimPO"),
        saved(),
        [RATE],
        "# your configuration, with these lines\n"
        'output_dir: "resume-40"\n'
        'model_name_or_path: "/runs/checkpoint-40"\n'
        "learning_rate: 4.0e-05\n"
        "seed: 8",
    ),
    "LLaMA-Factory from the initial model takes a new folder": (
        run("LLaMA-Factory", "DPO"),
        None,
        [RATE],
        '# your configuration, with these lines\noutput_dir: "restart"\nlearning_rate: 4.0e-05',
    ),
    "ms-swift loads only the model where the rate changes": (
        run("ms-swift"),
        saved(),
        [RATE],
        "# your swift rlhf command, with these options\n"
        "    --resume_from_checkpoint /runs/checkpoint-40 \\\n"
        "    --resume_only_model true \\\n"
        "    --ref_model org/base \\\n"
        "    --learning_rate 4e-05 \\\n"
        "    --seed 8 --data_seed 8",
    ),
    "ms-swift's reference of an adapter is the base": (
        run("ms-swift", lora_rank=8),
        saved(form="peft"),
        [RATE],
        "# your swift rlhf command, with these options\n"
        "    --resume_from_checkpoint /runs/checkpoint-40 \\\n"
        "    --resume_only_model true \\\n"
        "    --learning_rate 4e-05 \\\n"
        "    --seed 8 --data_seed 8",
    ),
    "NeMo-RL leaves the optimizer behind": (
        run("NeMo-RL"),
        saved("step_40/policy/weights", form="dcp"),
        [RATE],
        "# a folder whose latest checkpoint is this one\n"
        "mkdir -p resume-40\n"
        "cp -r -- /runs/step_40 resume-40/\n"
        "mv -- resume-40/step_40/policy/optimizer resume-40/optimizer.left-out\n"
        "# your command, with these overrides\n"
        "    checkpointing.checkpoint_dir=resume-40 \\\n"
        "    policy.optimizer.kwargs.lr=4e-05",
    ),
    "NeMo-RL from the initial model takes a new folder": (
        run("NeMo-RL"),
        None,
        [CLIP],
        "# your command, with these overrides\n"
        "    checkpointing.checkpoint_dir=restart \\\n"
        "    loss_fn.ratio_clip_max=0.1 \\\n"
        "    loss_fn.ratio_clip_min=0.1",
    ),
    "torchtune loads only the weights": (
        run("torchtune", "DPO"),
        saved("epoch_1"),
        [RATE, BETA],
        "# your tune run command, with these overrides\n"
        "    checkpointer.checkpoint_dir=/runs/epoch_1 \\\n"
        "    resume_from_checkpoint=False \\\n"
        "    optimizer.lr=4e-05 \\\n"
        "    loss.beta=0.04",
    ),
    "torchtune's GRPO": (
        run("torchtune", "GRPO"),
        None,
        [BETA, CLIP],
        "# your tune run command, with these overrides\n"
        "    loss.kl_coeff=0.04 \\\n"
        "    loss.epsilon=0.1",
    ),
    "DeepSpeed-Chat": (
        run("DeepSpeed-Chat", "PPO"),
        saved("actor"),
        [RATE, BETA],
        "# kl_coef: 0.04; twice\n"
        "# your command, with these options\n"
        "    --actor_model_name_or_path /runs/actor \\\n"
        "    --actor_learning_rate 4e-05",
    ),
    "MOSS-RLHF": (
        run("MOSS-RLHF", "PPO"),
        saved("Steps_40"),
        [RATE, BETA],
        "# your train_ppo.py command, with these options\n"
        "    --policy_model_path /runs/Steps_40 \\\n"
        "    --lr 4e-05 \\\n"
        "    --kl_penalty_weight 0.04",
    ),
    "what no option sets is a comment": (
        run("MOSS-RLHF", "PPO"),
        None,
        [Change("reward_model", None, "renewed", "the third row"), replace(RATE, suggested=None)],
        "# reward_model: renewed; the third row\n"
        "# learning_rate: a tenth\n"
        "# your train_ppo.py command, with these options",
    ),
}


@pytest.mark.parametrize("name", TEXTS)
def test_the_text_is(name: str) -> None:
    made, checkpoint, changes, text = TEXTS[name]
    assert told(made, checkpoint, *changes).text == text


@pytest.mark.parametrize("lora", [0, 8], ids=["whole", "adapter"])
@pytest.mark.parametrize(
    "checkpoint",
    [None, saved(), saved(form="dcp")],
    ids=["from the start", "Hugging Face's", "sharded"],
)
def test_every_text_is_valid_in_its_language(
    lora: int, checkpoint: Checkpoint | None, tmp_path: Path
) -> None:
    found = {
        (item.framework, item.algorithm): resume(
            run(item.framework, item.algorithm, dialect=item.name, lora_rank=lora),
            checkpoint,
            [RATE, BETA, Change("reward_model", None, "renewed", "the third row")],
        )
        for item in registry.members("dialects", dialects.Dialect)
    }
    kinds = set()
    for item in found.values():
        if item is None:
            continue
        kinds.add(item.kind)
        if item.kind == "python":
            assert any(isinstance(node, ast.Call) for node in ast.walk(ast.parse(item.text)))
        elif item.kind == "yaml":
            assert isinstance(yaml.safe_load(item.text), dict)
        else:
            assert spoken(item.text, tmp_path)
        assert len(item.caveats) == len(set(item.caveats))
    assert kinds == {"python", "yaml", "shell"}


@pytest.mark.parametrize(
    ("framework", "algorithm", "dialect"),
    [
        ("unknown", "unknown", "generic"),
        ("trlX", "PPO", "trlx"),
        ("DeepSpeed-Chat", "DPO", "deepspeed_chat_dpo"),
        ("TRL", "RLOO", "trl_rloo_old"),
        ("TRL", "unknown", ""),
        ("torchtune", "PPO", "torchtune_ppo"),
        ("OpenRLHF", "reward model", "openrlhf_reward"),
        ("LLaMA-Factory", "RM", "llamafactory"),
    ],
)
def test_nothing_is_guessed_for_a_framework_that_was_not_read(
    framework: str, algorithm: str, dialect: str
) -> None:
    assert resume(run(framework, algorithm, dialect=dialect), saved(), [RATE]) is None


def test_frameworks_and_algorithms_are_those_of_the_dialects() -> None:
    known = registry.members("dialects", dialects.Dialect)
    frameworks = {item.framework for item in known}
    algorithms = {name for item in known for name in item.algorithm.split(" or ")} | {*ALGORITHMS}
    for name in (*WAYS, *OPENRLHF_DOTTED):
        framework, _, algorithm = name.partition(" ")
        assert framework in frameworks
        assert not algorithm or algorithm in algorithms
    assert algorithms >= NO_REFERENCE


READ = [*WAYS.values(), *OPENRLHF_DOTTED.values()]


def test_every_fact_of_the_tables_is_one_of_the_facts() -> None:
    ways: Iterable[Way] = [way for way in READ if way is not None]
    words = {
        word.lstrip("!")
        for way in ways
        for needs, _ in (*way.lines, *way.caveats)
        for word in needs.split()
    }
    assert words == set(FACTS)


def test_only_what_was_run_is_not_said_to_be_read() -> None:
    ran = {name for name, way in WAYS.items() if way is not None and not way.read}
    assert ran == {"TRL GRPO", "TRL DPO"}
    assert told(run("verl"), saved(), BETA).caveats[-1] == (
        "Read in verl's source (01ee5e04), not run."
    )


@pytest.mark.parametrize(
    ("made", "warned"),
    [
        pytest.param(run("TRL", kl_coef=0.02), True, id="with a KL penalty"),
        pytest.param(run("TRL"), True, id="where beta is not known"),
        pytest.param(run("TRL", kl_coef=0.0), False, id="not without a KL penalty"),
        pytest.param(run("TRL", "ORPO"), False, id="not where there is no reference"),
        pytest.param(run("MOSS-RLHF", "PPO"), True, id="where both share one option"),
        pytest.param(run("ms-swift", "DPO"), True, id="where the checkpoint becomes the model"),
        pytest.param(run("torchtune", "DPO", lora_rank=8), True, id="where an adapter was merged"),
        pytest.param(run("torchtune", "DPO"), False, id="not where it has a path of its own"),
    ],
)
def test_the_reference_is_warned_of(made: Run, warned: bool) -> None:
    caveats = told(made, saved(), RATE).caveats
    assert any("REF005" in item for item in caveats) is warned


def test_an_adapter_has_its_own_warning_of_the_reference() -> None:
    caveats = told(run("TRL", lora_rank=16), saved(form="peft"), RATE).caveats
    assert any("peft_config" in item for item in caveats)
    assert not any("Keep the initial model" in item for item in caveats)


def test_from_the_initial_model_nothing_is_said_of_resuming() -> None:
    assert told(run("TRL", "DPO"), None, RATE).caveats == ()
    (read,) = told(run("ms-swift", "DPO"), None, RATE).caveats
    assert read.startswith("Read in ms-swift's source")


def literals(text: str) -> list[object]:
    """Return the constants of a piece of Python."""
    return [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant)]


HOSTILE = (
    "checkpoint-$(touch pwned)",
    "checkpoint-`touch pwned`",
    "checkpoint-40'; touch pwned; '",
    'checkpoint-40"; touch pwned; "',
    "checkpoint-40\ntouch pwned\n",
    "checkpoint-40\r\x1b[31m\x07",
    "checkpoint-40\\",
    "${oc.env:HOME}",
    "{model} {0} {changes}",
    "\u202egnp.exe",
    "# a comment",
    "-rf",
)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_a_string_in_python(name: str) -> None:
    for algorithm in ("GRPO", "PPO"):
        text = told(run("TRL", algorithm), saved(name), RATE).text
        assert f"/runs/{name}" in literals(text)
        assert all(line.isprintable() for line in text.split("\n"))


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_name_is_a_string_in_yaml(name: str) -> None:
    text = told(run("LLaMA-Factory", "DPO"), saved(name), RATE).text
    assert yaml.safe_load(text)["model_name_or_path"] == f"/runs/{name}"


def spoken(text: str, folder: Path) -> list[str]:
    """Return the words that bash makes of the arguments in a text."""
    assert BASH is not None
    done = subprocess.run(
        [BASH, "-c", "printf '%s\\0' \\\n" + text.partition("these")[2].partition("\n")[2]],
        cwd=folder,
        capture_output=True,
        check=True,
        env={"LC_ALL": "C.UTF-8"},
    )
    return done.stdout.decode().split("\0")


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("framework", ["ms-swift", "MOSS-RLHF", "OpenRLHF"])
def test_a_hostile_name_is_one_word_in_a_shell(name: str, framework: str, tmp_path: Path) -> None:
    text = told(run(framework, "unknown"), saved(name), RATE).text
    assert f"/runs/{name}" in spoken(text, tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_hydra_neither_resolves_nor_splits_a_path(tmp_path: Path) -> None:
    text = told(run("verl"), saved("${oc.env:HOME},b='c'"), RATE).text
    quoted = "'/runs/\\${oc.env:HOME},b=\\'c\\''"
    assert f"trainer.resume_from_path={quoted}" in spoken(text, tmp_path)


@given(st.text(max_size=40))
def test_any_name_comes_back_from_python_and_yaml(name: str) -> None:
    made = run("TRL", model=name)
    assert name in literals(told(made, None, RATE).text)
    made = run("LLaMA-Factory", "DPO", model=name)
    assert yaml.safe_load(told(made, saved(), RATE).text)["ref_model"] == name


def test_a_restored_schedule_overrules_a_new_learning_rate() -> None:
    """Why the optimizer's state is left out: torch itself keeps the old rate."""
    import torch
    from transformers import get_constant_schedule

    def made(rate: float) -> tuple[Any, Any]:
        optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))], lr=rate)
        return optimizer, get_constant_schedule(optimizer)

    old, schedule = made(4e-4)
    new, fresh = made(4e-5)
    new.load_state_dict(old.state_dict())
    fresh.load_state_dict(schedule.state_dict())
    new.step()
    fresh.step()
    assert new.param_groups[0]["lr"] == 4e-4
