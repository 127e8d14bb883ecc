"""How to go on from a checkpoint, in the words of the framework that trained it.

A table of lines and caveats per framework; no line is ever run. Paths and values of the run are
quoted for the language they stand in, so that a checkpoint called ``$(reboot)`` is a name.

Frameworks treat a resume differently, and silently: transformers, verl and DeepSpeed restore the
learning rate with the optimizer and its schedule, so that a changed one has no effect; a run that
is started from a checkpoint takes it for its reference, and the KL falls to 0 (REF005, REF008).
Beside each entry stands what was read for it; a caveat says so where it was not run.
"""

from __future__ import annotations

import math
import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from rlhfdoctor.model import Change, Checkpoint, Resume, Run

Told = tuple[str, str]
"""The facts under which a text is told ("lr !bare": all of these hold, none with !), the text."""


@dataclass(frozen=True, slots=True)
class Way:
    """How a framework goes on.

    assign: one changed setting. keys: the framework's names of settings, most usual first; words
    after a name are set with it. lines: those that begin with blanks are arguments of one command.
    Places in braces: checkpoint, name (its folder), home (the folder around it), model (the initial
    one), fresh (a new folder), step, seed (another than the run's), changes. read: the source that
    an entry was read in, where it was not run. hydra: values are quoted for hydra's overrides too.
    """

    kind: Literal["shell", "python", "yaml"]
    assign: str
    keys: Mapping[str, tuple[str, ...]]
    lines: tuple[Told, ...]
    caveats: tuple[Told, ...] = ()
    read: str = ""
    hydra: bool = False


FACTS = {
    "go": "there is a checkpoint to go on from",
    "lr": "the learning rate changes",
    "bare": "the checkpoint is Hugging Face's and holds no optimizer state",
    "hf": "the checkpoint is Hugging Face's",
    "lora": "only an adapter was trained",
    "ref": "there is a KL penalty against a reference, or will be",
    "weights": "only weights are loaded: the learning rate changes, or the algorithm is PPO",
    "ppo": "PPO",
    "unlike": "the log does not tell which of two trainers wrote it",
    "deepspeed": "DeepSpeed's own folder lies in the checkpoint",
}
"""What lines and caveats may depend on."""

_WEIGHTS_ONLY = (
    "go",
    "Only the weights go on: Adam's moments and the schedule start anew, so warm the learning rate"
    " up again; the first updates are the roughest.",
)
_BARE = (
    "go bare",
    "The checkpoint holds no optimizer state: Adam's moments and the schedule start anew, so warm"
    " the learning rate up again; the first updates are the roughest.",
)

_HF_CAVEATS: tuple[Told, ...] = (
    (
        "go lr !bare !deepspeed",
        "The copy leaves out optimizer.pt and scheduler.pt: with them the Trainer restores the old"
        " learning rate and ignores the new one.",
    ),
    (
        "go lr !bare !deepspeed",
        "The schedule starts at its warm-up again while the step goes on from {step}, and Adam's"
        " moments start at zero: warm up (warmup_steps).",
    ),
    (
        "go lr deepspeed",
        "DeepSpeed restores the old learning rate from the folder global_step* in the checkpoint,"
        " whatever else is left out: load the weights without resuming instead, and give the"
        " initial model as the reference.",
    ),
    _BARE,
    (
        "go ref !lora",
        "Keep the initial model as the model: the reference is loaded from the same path, and from"
        " the checkpoint's it would be the checkpoint (REF005: the KL falls to 0).",
    ),
    (
        "go ref lora",
        "Pass the base model and peft_config as before: the reference is the base without the"
        " adapter; an adapter loaded from the checkpoint would become the reference (REF005).",
    ),
    (
        "go",
        "With the old seed the batches that led to the collapse come again in the same order: the"
        " data are only wound forward to step {step}.",
    ),
    ("go", "Give another output folder: the checkpoints after step {step} would be overwritten."),
    ("unlike", "The log does not tell which of two trainers wrote it: put in the name of yours."),
)
"""transformers 5.24.0, trainer.py: ``_load_optimizer_and_scheduler`` loads both where both lie in
the checkpoint and nothing where one is missing; LambdaLR.load_state_dict overwrites ``base_lrs``
(torch 2.13.0), so ``learning_rate`` is without effect (transformers issue 9099: "expected"). Under
DeepSpeed the engine restores both. trl 1.16.0, grpo_trainer.py:1003 and dpo_trainer.py:926: the
reference is ``create_model_from_path`` of the policy's own path; :478 and :666: of a model that
comes with an adapter, the reference is a copy of that adapter. Seen in runs of trl 1.16.0: DPO
resumed at 1e-4 from a checkpoint of 1e-3 went on at 1e-3, from the copy at 1e-4; GRPO from
checkpoint-40 of fixtures/grpo_late has a KL of 0.29 nats a token where the base is the model and
the checkpoint is resumed, and 0.0 where the checkpoint is the model."""


def _trl(stem: str, read: str, length: str | None = None, clip: bool = False) -> Way:
    """Return how a trainer of TRL that is a transformers Trainer goes on."""
    keys = {"learning_rate": ("learning_rate",), "kl_coef": ("beta",)}
    if length:
        keys["max_response_length"] = (length,)
    if clip:
        keys |= {"clip_range": ("epsilon",), "clip_range_high": ("epsilon_high",)}
    return Way(
        kind="python",
        assign="    {key}={value},",
        keys=keys,
        lines=(
            ("go lr !bare !deepspeed", "import shutil"),
            ("go lr !bare !deepspeed", ""),
            ("go", "checkpoint = {checkpoint}"),
            ("go lr !bare !deepspeed", "fresh = {fresh}"),
            (
                "go lr !bare !deepspeed",
                'left_out = shutil.ignore_patterns("optimizer*", "scheduler.pt", "rng_state*")',
            ),
            ("go lr !bare !deepspeed", "shutil.copytree(checkpoint, fresh, ignore=left_out)"),
            ("", f"args = {stem}Config("),
            ("", "    ...,  # as before"),
            ("", "{changes}"),
            ("go", "    seed={seed},"),
            ("", ")"),
            ("", f"trainer = {stem}Trainer(..., args=args, model={{model}})  # the initial model"),
            ("!go", "trainer.train()"),
            ("go lr !bare !deepspeed", "trainer.train(resume_from_checkpoint=fresh)"),
            ("go !lr", "trainer.train(resume_from_checkpoint=checkpoint)"),
            ("go lr bare", "trainer.train(resume_from_checkpoint=checkpoint)"),
            ("go lr !bare deepspeed", "trainer.train(resume_from_checkpoint=checkpoint)"),
        ),
        caveats=_HF_CAVEATS,
        read=read,
    )


_TRL_PPO = Way(
    kind="python",
    assign="    {key}={value},",
    keys={
        "learning_rate": ("learning_rate",),
        "kl_coef": ("kl_coef",),
        "clip_range": ("cliprange",),
        "max_response_length": ("response_length",),
    },
    read="trl 1.12.0",
    lines=(
        ("", "args = PPOConfig("),
        ("", "    ...,  # as before"),
        ("", "{changes}"),
        ("", ")"),
        ("go", "model = AutoModelForCausalLM.from_pretrained({checkpoint})"),
        ("!go", "model = AutoModelForCausalLM.from_pretrained({model})"),
        ("!lora", "ref_model = AutoModelForCausalLM.from_pretrained({model})"),
        ("!lora", "trainer = PPOTrainer(..., args=args, model=model, ref_model=ref_model)"),
        ("lora", "trainer = PPOTrainer(..., args=args, model=model, ref_model=None)"),
        ("", "trainer.train()"),
    ),
    caveats=(
        ("go", "PPOTrainer.train() takes no checkpoint, and counts its steps from 0 again."),
        _WEIGHTS_ONLY,
        (
            "go !lora",
            "Give ref_model: left out, the reference is a copy of the model, here the checkpoint"
            " (REF005: the KL falls to 0).",
        ),
        (
            "go lora",
            "Load the adapter on the base model: the reference is the base without the adapter.",
        ),
        ("go", "The critic is not in the checkpoint: it starts again from value_model."),
    ),
)
"""trl 1.12.0, experimental/ppo/ppo_trainer.py:604 (``train(self)``), :439-444, :590-598."""

_TRL_PPO_OLD = replace(
    _TRL_PPO,
    keys={
        "learning_rate": ("learning_rate",),
        "kl_coef": ("init_kl_coef",),
        "clip_range": ("cliprange",),
    },
    read="trl 0.7.11",
    lines=(
        ("", "config = PPOConfig("),
        ("", "    ...,  # as before"),
        ("", "{changes}"),
        ("", ")"),
        ("go", "model = AutoModelForCausalLMWithValueHead.from_pretrained({checkpoint})"),
        ("!go", "model = AutoModelForCausalLMWithValueHead.from_pretrained({model})"),
        ("", "ref_model = AutoModelForCausalLMWithValueHead.from_pretrained({model})"),
        ("", "trainer = PPOTrainer(..., config=config, model=model, ref_model=ref_model)"),
    ),
    caveats=(
        _WEIGHTS_ONLY,
        (
            "go",
            "Give ref_model: left out, the reference is a copy of the model, here the checkpoint"
            " (REF005: the KL falls to 0).",
        ),
        ("go", "An adaptive KL coefficient starts again at init_kl_coef."),
    ),
)
"""trl 0.7.11, ppo_config.py; ppo_trainer.py: ``create_reference_model(self.model)`` without a
``ref_model``."""

_TRL, _TRL_OLD = "trl 1.16.0", "trl 1.12.0"
"""Where the names of settings were read: trl/trainer and trl/experimental, the *_config.py. The
second has BCO, XPO and Nash-MD, which the first has no more; CPO's has SimPO's loss."""

NO_REFERENCE = frozenset(("ORPO", "CPO", "SimPO", "RM", "reward model"))
"""Algorithms that compare with no reference model."""


_VERL = Way(
    kind="shell",
    assign="    {key}={value}",
    hydra=True,
    keys={
        "learning_rate": ("actor_rollout_ref.actor.optim.lr",),
        "kl_coef": (
            "actor_rollout_ref.actor.kl_loss_coef actor_rollout_ref.actor.use_kl_loss=True",
            "algorithm.kl_ctrl.kl_coef algorithm.use_kl_in_reward=True",
        ),
        "clip_range": (
            "actor_rollout_ref.actor.clip_ratio actor_rollout_ref.actor.clip_ratio_low={value}"
            " actor_rollout_ref.actor.clip_ratio_high={value}",
        ),
        "clip_range_high": ("actor_rollout_ref.actor.clip_ratio_high",),
        "entropy_coef": ("actor_rollout_ref.actor.entropy_coeff",),
        "max_response_length": ("data.max_response_length",),
    },
    read="verl's source (01ee5e04)",
    lines=(
        ("", "# your command, with these overrides"),
        ("go", "    trainer.resume_mode=resume_path"),
        ("go", "    trainer.resume_from_path={home}"),
        ("go lr", "    'actor_rollout_ref.actor.checkpoint.load_contents=[model]'"),
        ("!go", "    trainer.resume_mode=disable"),
        ("", "{changes}"),
    ),
    caveats=(
        (
            "go lr",
            "load_contents=[model] leaves out the optimizer and the schedule: with them the old"
            " learning rate is restored and the new one has no effect.",
        ),
        (
            "go lr",
            "Adam's moments and the schedule start anew: warm up"
            " (actor_rollout_ref.actor.optim.lr_warmup_steps).",
        ),
        (
            "go ref !lora",
            "Leave actor_rollout_ref.model.path as it was: the reference is loaded from it.",
        ),
        (
            "go",
            "The data go on where data.pt in the checkpoint says: the prompts that led to the"
            " collapse come again; without that file they begin anew.",
        ),
        (
            "go",
            "Give another trainer.default_local_dir: the checkpoints after step {step} would be"
            " overwritten.",
        ),
        (
            "!go",
            "resume_mode is auto by default: without this override the run goes on from its last"
            " checkpoint in trainer.default_local_dir.",
        ),
    ),
)
"""verl 01ee5e04: utils/checkpoint/fsdp_checkpoint_manager.py:load_checkpoint (model, optimizer,
extra: schedule and random state); trainer/config/actor/actor.yaml (``checkpoint.load_contents``,
optim); trainer/ppo/ray_trainer.py:_load_checkpoint (``resume_mode``, ``global_step_`` in the path,
data.pt). verl 0.9.1, actor.yaml and core_algos.py: ``clip_ratio_low`` and ``clip_ratio_high`` are
0.2 by default, and ``clip_ratio`` counts only where they are null."""


def _openrlhf(
    keys: Mapping[str, tuple[str, ...]], load: str, path: str, model: str, reference: str = ""
) -> Way:
    """Return how OpenRLHF goes on by its names of options; reference: DPO's alone has one."""
    home = "{fresh}" if reference else "{fresh}/_actor"
    apart: tuple[Told, ...] = (
        (
            "go ref hf",
            "Policy and reference are both loaded from there, so the reference becomes the"
            " checkpoint (REF005: the KL falls to 0). DeepSpeed's own checkpoint,"
            " _actor/global_step{step}, keeps the two apart.",
        ),
        ("go !hf", "Copy _critic in the same way, where there is one, or it starts anew."),
    )
    if reference:
        left_out = f"Without --{reference} the reference is the checkpoint too (REF005)."
        apart = (("go ref hf", left_out),)
    return Way(
        kind="shell",
        assign="    --{key} {value}",
        keys=keys,
        read="OpenRLHF's source (0.11.2)" if "." in load else "OpenRLHF's source (0.9.10)",
        lines=(
            ("go !hf", "# a copy whose latest checkpoint is this one"),
            ("go !hf", f"mkdir -p {home}"),
            ("go !hf", f"cp -r -- {{checkpoint}} {home}/"),
            ("go !hf", f"printf %s {{name}} > {home}/latest"),
            ("", "# your command, with these options"),
            ("go !hf", f"    --{load}"),
            ("go !hf", f"    --{path} {{fresh}}"),
            ("go hf", f"    --{model} {{checkpoint}}"),
            *((("go ref hf", f"    --{reference} {{model}}"),) if reference else ()),
            ("", "{changes}"),
        ),
        caveats=(
            (
                "go lr !hf",
                "The old learning rate is restored with the optimizer and its schedule, and no"
                " option prevents it: give load_optimizer_states=False,"
                " load_lr_scheduler_states=False where strategy.load_ckpt is called.",
            ),
            (
                "go ref !hf",
                "Leave the initial model where it was: the reference is loaded from it, and a"
                " checkpoint there would become the reference (REF005: the KL falls to 0).",
            ),
            *apart,
            ("go hf", _WEIGHTS_ONLY[1]),
            (
                "go !hf",
                "The position in the data is restored too: the prompts that led to the collapse"
                " come again.",
            ),
            ("!go", f"Leave out --{load}, or the run goes on from its last checkpoint."),
        ),
    )


_OPENRLHF = _openrlhf(
    {
        "learning_rate": ("actor_learning_rate",),
        "kl_coef": ("init_kl_coef",),
        "clip_range": ("eps_clip",),
        "max_response_length": ("generate_max_len", "max_new_tokens"),
        "entropy_coef": ("entropy_loss_coef",),
    },
    load="load_checkpoint",
    path="ckpt_path",
    model="pretrain",
)
_OPENRLHF_DPO = _openrlhf(
    {"learning_rate": ("learning_rate",), "kl_coef": ("beta",)},
    load="load_checkpoint",
    path="ckpt_path",
    model="pretrain",
    reference="ref_pretrain",
)
OPENRLHF_DOTTED: Mapping[str, Way] = {
    "OpenRLHF": _openrlhf(
        {
            "learning_rate": ("actor.adam.lr",),
            "kl_coef": ("algo.kl.init_coef",),
            "clip_range": ("actor.eps_clip",),
            "max_response_length": ("rollout.max_new_tokens",),
            "entropy_coef": ("actor.entropy_coef",),
        },
        load="ckpt.load_enable",
        path="ckpt.path",
        model="actor.model_name_or_path",
    ),
    "OpenRLHF DPO": _openrlhf(
        {"learning_rate": ("adam.lr",), "kl_coef": ("model.beta",)},
        load="ckpt.load_enable",
        path="ckpt.path",
        model="model.model_name_or_path",
        reference="ref.model_name_or_path",
    ),
}
"""How OpenRLHF goes on where its options have dotted names.

OpenRLHF 0.8.11 and 0.9.10 (no dots; ``generate_max_len`` is the former's, ``max_new_tokens`` the
latter's) and 0.11.2 (dots): cli/train_ppo_ray.py (the reference is loaded from the actor's path),
cli/train_dpo.py (from its own, or else the model's); trainer/ray/ppo_actor.py and ppo_critic.py
(checkpoints lie in ``_actor`` and ``_critic`` of the path); trainer/dpo_trainer.py (in the path
itself); utils/deepspeed/deepspeed.py:load_ckpt (``load_optimizer_states=True``, ``tag=None``:
DeepSpeed takes what the file ``latest`` names)."""

_LLAMAFACTORY = Way(
    kind="yaml",
    assign="{key}: {value}",
    keys={"learning_rate": ("learning_rate",), "kl_coef": ("pref_beta",)},
    read="LLaMA-Factory's source (0.9.5)",
    lines=(
        ("", "# your configuration, with these lines"),
        ("", "output_dir: {fresh}"),
        ("go !weights", "resume_from_checkpoint: {checkpoint}"),
        ("go weights !lora", "model_name_or_path: {checkpoint}"),
        ("go weights !lora ref", "ref_model: {model}  # the initial model"),
        ("go weights lora", "adapter_name_or_path: {checkpoint}"),
        ("", "{changes}"),
        ("go", "seed: {seed}"),
    ),
    caveats=(
        (
            "",
            "A new output_dir, since the run would go on from the last checkpoint in the old one.",
        ),
        (
            "go lr !ppo",
            "Not by resume_from_checkpoint: the Trainer would restore the old learning rate with"
            " the optimizer and its schedule.",
        ),
        ("go ppo", "Stage ppo cannot resume from a checkpoint."),
        (
            "go weights",
            "Only the weights go on and the steps are counted from 0: warm up, and shorten"
            " num_train_epochs.",
        ),
        (
            "go weights !lora ref",
            "Give ref_model: left out, the reference is loaded from model_name_or_path, here the"
            " checkpoint (REF005: the KL falls to 0).",
        ),
        (
            "go !weights",
            "With the old seed the batches that led to the collapse come again in the same order.",
        ),
        ("go !weights bare", _BARE[1]),
    ),
)
"""LLaMA-Factory 0.9.5: hparams/parser.py:470-512 (an ``output_dir`` that holds a checkpoint is gone
on from); train/trainer_utils.py:create_ref_model (``ref_model``, or else the model's own path, and
nothing for LoRA); train/dpo/trainer.py:262 (there the reference is the model without the adapter);
model/adapter.py:155-200 (the adapter of ``adapter_name_or_path`` is trained on);
train/ppo/trainer.py:ppo_train (raises at a checkpoint to resume from)."""

_SAME_REFERENCE = (
    "Leave model, ref_model and ref_adapters as they were: the reference is loaded from them."
)

_SWIFT = Way(
    kind="shell",
    assign="    --{key} {value}",
    keys={
        "learning_rate": ("learning_rate",),
        "kl_coef": ("beta",),
        "clip_range": ("epsilon",),
        "clip_range_high": ("epsilon_high",),
        "max_response_length": ("max_completion_length",),
    },
    read="ms-swift's source (4.6.0)",
    lines=(
        ("", "# your swift rlhf command, with these options"),
        ("go", "    --resume_from_checkpoint {checkpoint}"),
        ("go lr", "    --resume_only_model true"),
        ("go lr !lora ref", "    --ref_model {model}"),
        ("", "{changes}"),
        ("go", "    --seed {seed} --data_seed {seed}"),
    ),
    caveats=(
        (
            "go lr",
            "resume_only_model leaves out the optimizer, the schedule and the random state: with"
            " them the old learning rate is restored.",
        ),
        (
            "go lr",
            "The schedule starts at its warm-up again while the step goes on from {step} (from 0"
            " with --ignore_data_skip true), and Adam's moments start at zero: warm up.",
        ),
        (
            "go lr !lora ref",
            "Give ref_model: left out, the reference is the model, and resume_only_model makes the"
            " checkpoint the model (REF005: the KL falls to 0).",
        ),
        ("go ref !lr", _SAME_REFERENCE),
        ("go ref lr lora", _SAME_REFERENCE),
        (
            "go !lr",
            "With the old seeds the batches that led to the collapse come again in the same order.",
        ),
        ("go !lr bare", _BARE[1]),
    ),
)
"""ms-swift 4.6.0: arguments/sft_args.py:__post_init__ (``resume_only_model``: the checkpoint is
``model``, or ``adapters``); arguments/rlhf_args.py:290-299 (``ref_model``, or else ``model``; an
error with LoRA, CPO and ORPO); trainers/mixin.py:149 and 280-288 (what is left out,
``ignore_data_skip``); arguments/base_args/data_args.py (``data_seed``)."""

_NEMO_RL = Way(
    kind="shell",
    assign="    {key}={value}",
    hydra=True,
    keys={
        "learning_rate": ("policy.optimizer.kwargs.lr", "policy.megatron_cfg.optimizer.lr"),
        "kl_coef": ("loss_fn.reference_policy_kl_penalty",),
        "clip_range": ("loss_fn.ratio_clip_max loss_fn.ratio_clip_min={value}",),
    },
    read="NeMo-RL's source (01e9028b)",
    lines=(
        ("go", "# a folder whose latest checkpoint is this one"),
        ("go", "mkdir -p {fresh}"),
        ("go", "cp -r -- {home} {fresh}/"),
        ("go lr", "mv -- {fresh}/{name}/policy/optimizer {fresh}/optimizer.left-out"),
        ("", "# your command, with these overrides"),
        ("", "    checkpointing.checkpoint_dir={fresh}"),
        ("", "{changes}"),
    ),
    caveats=(
        (
            "go lr",
            "Without policy/optimizer the optimizer is made anew, with the new learning rate: warm"
            " up. Megatron keeps it among the weights, where it cannot be left out like this.",
        ),
        (
            "go ref",
            "With policy.dtensor_cfg._v2 some versions take the resumed weights for the reference"
            " (NeMo-RL issue 2955; REF005: the KL falls to 0).",
        ),
        (
            "go",
            "The position in the data is restored too: the prompts that led to the collapse come"
            " again.",
        ),
        (
            "!go",
            "A new folder, since the run would go on from its last checkpoint in the old one.",
        ),
    ),
)
"""NeMo-RL 01e9028b, utils/checkpoint.py: ``get_latest_checkpoint_path`` takes the highest
``step_N`` of ``checkpoint_dir``; ``get_resume_paths``: no ``policy/optimizer``, a fresh optimizer;
Megatron's is embedded in the weights. Names of settings: examples/configs/grpo_math_1B.yaml
(00294d9b) and dpo.yaml (00455ac0). Issue 2955 and pull request 3048 on the reference."""

_TORCHTUNE = Way(
    kind="shell",
    assign="    {key}={value}",
    hydra=True,
    keys={"learning_rate": ("optimizer.lr",), "kl_coef": ("loss.beta",)},
    read="torchtune's source (0.6.1)",
    lines=(
        ("", "# your tune run command, with these overrides"),
        ("go", "    checkpointer.checkpoint_dir={checkpoint}"),
        ("go", "    resume_from_checkpoint=False"),
        ("", "{changes}"),
    ),
    caveats=(
        ("go", "checkpointer.checkpoint_files must name the files of that folder."),
        (
            "go lr",
            "Not by resume_from_checkpoint=True: it restores the optimizer's state, and the old"
            " learning rate with it.",
        ),
        _WEIGHTS_ONLY,
        ("go ref !lora", "Leave ref_checkpointer at the initial model."),
        (
            "go ref lora",
            "The adapter is merged into the weights there, and the reference is the model without"
            " the new adapter: the checkpoint (REF005: the KL falls to 0).",
        ),
    ),
)
"""torchtune 0.6.1: recipes/full_dpo_distributed.py (``ref_checkpointer``; ``opt_state_dict`` only
where ``resume_from_checkpoint``), lora_dpo_single_device.py (``disable_adapter``; save_checkpoint
merges), dev/grpo_full_finetune_distributed.py (``ref_checkpointer``);
configs/llama3_1/8B_full_dpo.yaml and 8B_lora_dpo.yaml (``loss.beta``); dev/3B_full_grpo.yaml at
075b5009 (``loss.kl_coeff``, ``loss.epsilon``). PPO has no entry:
ppo_full_finetune_single_device.py:461 demands that policy and reference are loaded from the same
folder unless the optimizer is restored."""

_DEEPSPEED_CHAT = Way(
    kind="shell",
    assign="    --{key} {value}",
    keys={
        "learning_rate": ("actor_learning_rate",),
        "max_response_length": ("max_answer_seq_len",),
    },
    read="DeepSpeedExamples' source (5ff0211a)",
    lines=(
        ("", "# your command, with these options"),
        ("go", "    --actor_model_name_or_path {checkpoint}"),
        ("", "{changes}"),
    ),
    caveats=(
        (
            "go",
            "The reference is loaded from the same path, so it becomes the checkpoint (REF005: the"
            " KL falls to 0): in rlhf_engine.py give _init_ref the initial model.",
        ),
        _WEIGHTS_ONLY,
        ("go", "The critic starts again from critic_model_name_or_path."),
        ("", "The KL coefficient and the clip range are no options: ppo_trainer.py sets them."),
    ),
)
"""DeepSpeedExamples, applications/DeepSpeed-Chat: dschat/rlhf/ppo_trainer.py (5ff0211a:
``kl_ctl = 0.1``, ``cliprange = 0.2``); dschat/rlhf/rlhf_engine.py (144e9137: actor and reference
from ``actor_model_name_or_path``, critic and reward model from ``critic_model_name_or_path``);
training/step3_rlhf_finetuning/main.py (6eb5247d: options)."""

_MOSS = Way(
    kind="shell",
    assign="    --{key} {value}",
    keys={
        "learning_rate": ("lr",),
        "kl_coef": ("kl_penalty_weight",),
        "clip_range": ("pg_clip",),
        "max_response_length": ("maxlen_res",),
    },
    read="MOSS-RLHF's source (5096bd92)",
    lines=(
        ("", "# your train_ppo.py command, with these options"),
        ("go", "    --policy_model_path {checkpoint}"),
        ("", "{changes}"),
    ),
    caveats=(
        (
            "go",
            "The reference is loaded from the same path, so it becomes the checkpoint (REF005: the"
            " KL falls to 0): in train_ppo.py load ref_model from the initial model.",
        ),
        _WEIGHTS_ONLY,
        ("go", "The critic starts again from critic_model_path."),
    ),
)
"""MOSS-RLHF 5096bd92, config_ppo.py and train_ppo.py (``ref_model`` from policy_model_path)."""

WAYS: Mapping[str, Way | None] = {
    "TRL GRPO": _trl("GRPO", "", "max_completion_length", clip=True),
    "TRL DPO": _trl("DPO", ""),
    "TRL RLOO": _trl("RLOO", _TRL, "max_completion_length", clip=True),
    "TRL KTO": _trl("KTO", _TRL),
    "TRL ORPO": _trl("ORPO", _TRL),
    "TRL CPO": _trl("CPO", _TRL),
    "TRL SimPO": _trl("CPO", _TRL),
    "TRL online DPO": _trl("OnlineDPO", _TRL, "max_new_tokens"),
    "TRL reward model": _trl("Reward", _TRL),
    "TRL BCO": _trl("BCO", _TRL_OLD),
    "TRL XPO": _trl("XPO", _TRL_OLD, "max_new_tokens"),
    "TRL Nash-MD": _trl("NashMD", _TRL_OLD, "max_new_tokens"),
    "TRL PPO": _TRL_PPO,
    "verl": _VERL,
    "OpenRLHF": _OPENRLHF,
    "OpenRLHF DPO": _OPENRLHF_DPO,
    "OpenRLHF reward model": None,
    "LLaMA-Factory": _LLAMAFACTORY,
    "LLaMA-Factory PPO": replace(
        _LLAMAFACTORY,
        keys={"learning_rate": ("learning_rate",), "max_response_length": ("max_new_tokens",)},
    ),
    "LLaMA-Factory RM": None,
    "ms-swift": _SWIFT,
    "NeMo-RL": _NEMO_RL,
    "NeMo-RL DPO": replace(
        _NEMO_RL,
        keys={
            "learning_rate": _NEMO_RL.keys["learning_rate"],
            "kl_coef": ("dpo.reference_policy_kl_penalty",),
        },
    ),
    "torchtune DPO": _TORCHTUNE,
    "torchtune GRPO": replace(
        _TORCHTUNE,
        keys={
            "learning_rate": ("optimizer.lr",),
            "kl_coef": ("loss.kl_coeff",),
            "clip_range": ("loss.epsilon",),
            "max_response_length": ("max_generated_tokens",),
        },
    ),
    "DeepSpeed-Chat PPO": _DEEPSPEED_CHAT,
    "MOSS-RLHF": _MOSS,
}
"""How a framework goes on, by the name that its dialects give it and the algorithm's, where one
has words of its own; None: not known."""

USUAL_SEED = 42
"""What transformers and ms-swift are seeded with by default."""


def resume(run: Run, checkpoint: Checkpoint | None, changes: Sequence[Change]) -> Resume | None:
    """Return how to go on from a checkpoint with changes; None: how is not known of the framework.

    checkpoint: None for the initial model. Only the names in the checkpoint's folder are looked at,
    for an optimizer's state; nothing is opened.
    """
    way = _way(run)
    if way is None:
        return None
    facts = _facts(run, checkpoint, changes)
    places = _places(run, checkpoint, way)
    step = "" if checkpoint is None else str(checkpoint.step)
    changed, aside = _changed(run, changes, way)
    lines = list(aside) if way.kind == "shell" else []
    for needs, text in way.lines:
        if not _holds(needs, facts):
            continue
        if text == "{changes}":
            lines += changed if way.kind == "shell" else [*aside, *changed]
        else:
            lines.append(text.format(**places))
    caveats = [text.format(step=step) for needs, text in way.caveats if _holds(needs, facts)]
    if way.read:
        caveats.append(f"Read in {way.read}, not run.")
    return Resume(
        kind=way.kind,
        text="\n".join(_command(lines) if way.kind == "shell" else lines),
        caveats=tuple(caveats),
    )


def _way(run: Run) -> Way | None:
    if run.dialect == "trl_ppo_old":
        return _TRL_PPO_OLD
    if run.dialect == "trl_rloo_old":
        return None
    rate = run.config.get("learning_rate")
    dotted = rate is not None and (rate.where.key or "").endswith("adam.lr")
    ways = {**WAYS, **OPENRLHF_DOTTED} if dotted else WAYS
    algorithm = run.algorithm.partition(" or ")[0]
    return ways.get(f"{run.framework} {algorithm}", ways.get(run.framework))


def _facts(run: Run, checkpoint: Checkpoint | None, changes: Sequence[Change]) -> set[str]:
    """Return which of ``FACTS`` hold."""
    names = set() if checkpoint is None else set(_names(run, checkpoint))
    state = any("optim" in name or name.startswith("global_step") for name in names)
    coefficient = run.number("kl_coef")
    changed = {item.parameter: item.suggested for item in changes if item.suggested is not None}
    form = "" if checkpoint is None else checkpoint.format
    hugging_face = form in ("safetensors", "bin", "peft")
    facts = {
        "go": checkpoint is not None,
        "lr": "learning_rate" in changed,
        "weights": "learning_rate" in changed or run.algorithm == "PPO",
        "bare": hugging_face and bool(names) and not state,
        "hf": hugging_face,
        "lora": bool(run.number("lora_rank")) or form == "peft",
        "ref": not NO_REFERENCE.issuperset(run.algorithm.split(" or "))
        and (coefficient != 0 or "kl_coef" in changed),
        "ppo": run.algorithm == "PPO",
        "unlike": " or " in run.algorithm,
        "deepspeed": any(name.startswith("global_step") for name in names),
    }
    return {name for name, holds in facts.items() if holds}


def _names(run: Run, checkpoint: Checkpoint) -> Iterator[str]:
    """Yield what lies in a checkpoint, as far as it can be listed."""
    try:
        with os.scandir(_path(run, checkpoint)) as entries:
            for entry in entries:
                yield entry.name
    except (OSError, ValueError):
        return


def _path(run: Run, checkpoint: Checkpoint) -> Path:
    folder = Path(run.path)
    return (folder if folder.is_dir() else folder.parent) / checkpoint.path


def _places(run: Run, checkpoint: Checkpoint | None, way: Way) -> dict[str, str]:
    """Return the texts of the places in braces, quoted for the language they stand in."""
    model = run.config.get("model")
    initial = "..." if model is None else _quoted(str(model.value), way)
    seed = str(int(run.number("seed") or USUAL_SEED) + 1)
    if checkpoint is None:
        return {"model": initial, "seed": seed, "fresh": _quoted("restart", way)}
    path = _path(run, checkpoint)
    whole = next((item for item in (path, *path.parents) if _saved(item, checkpoint)), path)
    return {
        "checkpoint": _quoted(str(path), way),
        "home": _quoted(str(whole), way),
        "name": _quoted(whole.name, way),
        "fresh": _quoted(f"resume-{checkpoint.step}", way),
        "model": initial,
        "step": str(checkpoint.step),
        "seed": seed,
    }


def _saved(path: Path, checkpoint: Checkpoint) -> bool:
    """Say whether a folder is the whole checkpoint, whose name tells the step."""
    return path.name.startswith(("global_step", "step_")) and path.name.endswith(
        str(checkpoint.step)
    )


def _holds(needs: str, facts: set[str]) -> bool:
    return all((word.lstrip("!") in facts) != word.startswith("!") for word in needs.split())


def _changed(run: Run, changes: Sequence[Change], way: Way) -> tuple[list[str], list[str]]:
    """Return a line for each change that the framework has a setting for; comments for others."""
    margin = "    " if way.kind == "python" else ""
    lines, told = [], []
    for change in changes:
        names = way.keys.get(change.parameter)
        if not names or change.suggested is None:
            what = "" if change.suggested is None else f"{change.suggested}; "
            told.append(f"{margin}# {_plain(f'{change.parameter}: {what}{change.why}')}")
            continue
        setting = run.config.get(change.parameter)
        spelled = "" if setting is None else (setting.where.key or "").replace("/", ".")
        key, *beside = _named(names, spelled).split()
        value = _value(change.suggested, way)
        lines.append(way.assign.format(key=key, value=value))
        for item in beside:
            other, _, fixed = item.format(value=value).partition("=")
            lines.append(way.assign.format(key=other, value=fixed))
    return lines, told


def _named(names: Sequence[str], spelled: str) -> str:
    """Return the framework's name of a setting that the run used, or its most usual one."""
    for item in names:
        words = [word.partition("=")[0] for word in item.split()]
        if any(spelled == word or spelled.endswith(f".{word}") for word in words):
            return item
    return names[0]


def _value(value: float | str, way: Way) -> str:
    if isinstance(value, str):
        return _quoted(value, way)
    if isinstance(value, bool) or not math.isfinite(value):
        return _quoted(str(value), way)
    text = f"{value:.6g}"
    mantissa, e, exponent = text.partition("e")
    return f"{mantissa}.0e{exponent}" if e and way.kind == "yaml" and "." not in mantissa else text


def _plain(text: str) -> str:
    """Return a text for a comment: one line, nothing but what is printed."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _quoted(text: str, way: Way) -> str:
    """Return a text as one word, or one literal, of a language."""
    if way.kind == "python":
        return repr(text)
    if way.kind == "yaml":
        return _escaped(text, '"', '"')
    if way.hydra and not _simple(text):
        text = "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\${") + "'"
    return shlex.quote(text) if text.isprintable() else _escaped(text, "$'", "'")


def _simple(text: str) -> bool:
    """Say whether hydra reads a text as it stands."""
    return all(char.isalnum() or char in "_-./" for char in text)


def _escaped(text: str, left: str, right: str) -> str:
    r"""Return a text between quotes in which ``\`` escapes, as YAML's "" and bash's $''."""
    parts = []
    for char in text:
        if char in ("\\", right):
            parts.append(f"\\{char}")
        elif char.isprintable():
            parts.append(char)
        else:
            code = ord(char)
            parts.append(f"\\u{code:04x}" if code < 2**16 else f"\\U{code:08x}")
    return left + "".join(parts) + right


def _command(lines: Sequence[str]) -> list[str]:
    """Put the arguments of the command, the lines that begin with blanks, last and together."""
    arguments = [line for line in lines if line.startswith(" ")]
    before = [line for line in lines if not line.startswith(" ")]
    return [*before, *(f"{line} \\" for line in arguments[:-1]), *arguments[-1:]]
