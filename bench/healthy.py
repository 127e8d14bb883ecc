"""Make healthy runs with TRL, prove them healthy without the tool, and count its false alarms.

    python bench/healthy.py plan                       # the runs, as fixed beforehand
    python bench/healthy.py make --python16 A --python12 B     # train and measure; resumable
    python bench/healthy.py judge                      # diagnose each, print the tables

A and B are interpreters of two environments with this repository's constraints.txt: one with
trl==1.16.0 (GRPO, RLOO, DPO), one with trl==1.12.0, the last release with PPO; both with torch,
transformers, peft, datasets and tensorboard. ``judge`` needs rlhfdoctor alone. An hour on one core.

The plan below, its seeds, learning rates and rewards, and the criterion of health were fixed before
any of these runs was diagnosed. A run that misses the criterion is reported with its numbers, and
the next row of the reserve with the same algorithm takes its place.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
BASE = FIXTURES / "base"
OUT = Path(tempfile.gettempdir()) / "rlhfdoctor-healthy"

LONGEST = 32
"""Tokens of a response at most; a natural one has 14."""


# The plan


@dataclass(frozen=True, slots=True)
class Row:
    """One run of the plan.

    anchor: beta, for PPO the KL coefficient. every: logging_steps. reward: names of REWARDS joined
    by "+", for DPO what ranks the pairs ("swap": the last two words of the rejected response
    change places). batch: responses or pairs a step. more: other settings of TRL's configuration.
    """

    id: str
    algorithm: str
    seed: int
    lr: float
    anchor: float
    steps: int
    every: int
    reward: str
    batch: int = 16
    more: dict[str, Any] = field(default_factory=dict)


CONSTANT = {"lr_scheduler_type": "constant"}
WARMED = {"lr_scheduler_type": "cosine", "warmup_steps": 8}
FOURS = {"num_generations": 4}

PLAN = (
    Row("grpo-01", "grpo", 11, 1e-4, 0.04, 80, 1, "clause"),
    Row("grpo-02", "grpo", 12, 3e-4, 0.1, 60, 1, "stop"),
    Row("grpo-03", "grpo", 13, 5e-5, 0.0, 100, 1, "measured"),
    Row("grpo-04", "grpo", 14, 1e-4, 0.0, 80, 1, "stop", more=FOURS),
    Row("grpo-05", "grpo", 15, 2e-4, 0.04, 100, 5, "clause+plain"),
    Row("grpo-06", "grpo", 16, 1e-4, 0.0, 120, 10, "clause", more=CONSTANT),
    Row("grpo-07", "grpo", 17, 2e-4, 0.05, 80, 1, "king", 32),
    Row("grpo-08", "grpo", 18, 3e-5, 0.001, 80, 1, "stop", 32, WARMED),
    Row(
        "grpo-09",
        "grpo",
        19,
        1e-4,
        0.01,
        80,
        1,
        "plain+measured",
        more={"scale_rewards": "none", "loss_type": "grpo"},
    ),
    Row("grpo-10", "grpo", 20, 2e-4, 0.02, 80, 1, "clause", more={**CONSTANT, "num_iterations": 2}),
    Row("rloo-01", "rloo", 21, 1e-4, 0.05, 80, 1, "clause", more=FOURS),
    Row("rloo-02", "rloo", 22, 3e-4, 0.1, 60, 1, "stop", more=FOURS),
    Row("rloo-03", "rloo", 23, 5e-5, 0.02, 80, 1, "measured", more=CONSTANT),
    Row("rloo-04", "rloo", 24, 2e-4, 0.05, 100, 5, "plain+clause", more=FOURS),
    Row("rloo-05", "rloo", 25, 1e-4, 0.02, 70, 1, "king", 32, {"num_generations": 8}),
    Row("rloo-06", "rloo", 26, 3e-5, 0.03, 70, 1, "stop", more={"normalize_advantages": True}),
    Row("dpo-01", "dpo", 31, 5e-5, 0.1, 80, 1, "swap"),
    Row("dpo-02", "dpo", 32, 1e-4, 0.5, 100, 1, "swap", more={**CONSTANT, "eval_steps": 20}),
    Row("dpo-03", "dpo", 33, 1e-4, 0.1, 80, 1, "measured"),
    Row("dpo-04", "dpo", 34, 3e-5, 0.1, 120, 10, "clause"),
    Row("dpo-05", "dpo", 35, 2e-4, 0.3, 80, 1, "swap", more={"loss_type": ["hinge"]}),
    Row("dpo-06", "dpo", 36, 5e-5, 0.1, 80, 1, "swap", more={"loss_type": ["ipo"]}),
    Row("dpo-07", "dpo", 37, 5e-4, 0.1, 80, 1, "stop", more={"lora": 8}),
    Row("dpo-08", "dpo", 38, 1e-4, 0.2, 100, 5, "clause", more={**WARMED, "eval_steps": 25}),
    Row("ppo-01", "ppo", 41, 1e-4, 0.15, 60, 1, "clause"),
    Row("ppo-02", "ppo", 42, 5e-5, 0.05, 60, 1, "stop"),
    Row("ppo-03", "ppo", 43, 2e-4, 0.3, 60, 1, "measured"),
    Row("ppo-04", "ppo", 44, 1e-4, 0.1, 60, 1, "plain", 32),
    Row("ppo-05", "ppo", 45, 3e-5, 0.05, 60, 1, "clause", more={"num_ppo_epochs": 4}),
    Row("ppo-06", "ppo", 46, 1e-4, 0.05, 60, 1, "king", 32),
)

RESERVE = (
    Row("grpo-r1", "grpo", 51, 1e-4, 0.05, 80, 1, "clause", 32),
    Row("grpo-r2", "grpo", 52, 5e-5, 0.02, 80, 1, "stop", 32),
    Row("grpo-r3", "grpo", 53, 1e-4, 0.1, 80, 1, "plain"),
    Row("rloo-r1", "rloo", 54, 5e-5, 0.1, 80, 1, "clause", 32, FOURS),
    Row("rloo-r2", "rloo", 55, 5e-5, 0.05, 80, 1, "stop", 32, FOURS),
    Row("dpo-r1", "dpo", 56, 5e-5, 0.5, 80, 1, "swap"),
    Row("dpo-r2", "dpo", 57, 5e-5, 0.3, 80, 1, "stop"),
    Row("ppo-r1", "ppo", 58, 5e-5, 0.2, 60, 1, "clause", 32),
    Row("ppo-r2", "ppo", 59, 5e-5, 0.2, 60, 1, "stop", 32),
)

FAR = (
    Row("grpo-f1", "grpo", 61, 5e-4, 0.02, 80, 1, "clause", more=CONSTANT),
    Row("grpo-f2", "grpo", 62, 5e-4, 0.0, 80, 1, "stop", more={**CONSTANT, **FOURS}),
    Row("rloo-f1", "rloo", 63, 5e-4, 0.02, 80, 1, "clause", more={**CONSTANT, **FOURS}),
    Row("dpo-f1", "dpo", 64, 3e-4, 0.1, 100, 1, "swap", more=CONSTANT),
    Row("dpo-f2", "dpo", 65, 5e-4, 0.1, 80, 1, "clause"),
    Row("ppo-f1", "ppo", 66, 5e-4, 0.05, 60, 1, "stop", more=CONSTANT),
)
"""Beyond the thirty: driven harder, towards the edge of the criterion; not replaced if past it.

Added when seven of the thirty were made and kept far from that edge, none of them diagnosed."""


# The rewards: bounded, none pays for length; short responses oftener end in a full stop


def clause(text: str) -> float:
    """Half for exactly one comma, half for an end in a colon or a full stop."""
    return 0.5 * (text.count(",") == 1) + 0.5 * text.endswith((":", "."))


def stop(text: str) -> float:
    """One for an end in a full stop: 0 or 1."""
    return float(text.endswith("."))


def king(text: str) -> float:
    """One for a king or the LORD: 0 or 1, and seldom at first."""
    return float(bool(re.search(r"\b(king|LORD)\b", text)))


def plain(text: str) -> float:
    """Share of words of at most four letters."""
    words = re.findall(r"[A-Za-z]+", text)
    return sum(len(word) <= 4 for word in words) / len(words) if words else 0.0


def measured(text: str) -> float:
    """One for nine words, falling to zero at none and at eighteen."""
    return max(0.0, 1 - abs(len(text.split()) - 9) / 9)


REWARDS: dict[str, Callable[[str], float]] = {
    function.__name__: function for function in (clause, stop, king, plain, measured)
}


def reward(names: str, text: str) -> float:
    """Sum of the rewards that ``names`` joins."""
    return sum(REWARDS[name](text) for name in names.split("+"))


# The criterion of health, of the policy half-way and at the end, on held-out prompts at temperature
# 1. None of it is a limit of the tool's, nor read from the log.

DRAWS = 4
"""Responses drawn for each held-out prompt."""

CRITERION = {
    "finite": "every number below",
    "gain": "held-out reward (DPO: accuracy) not below the base's by more than 2 standard errors",
    "implied": "DPO: the margin grew in at least half of the held-out pairs",
    "kl_token": "exact KL(policy || base) below 1.0 nats a token of the policy's own responses",
    "kl_response": "and below 10 nats a response",
    "text_ppl": "perplexity of held-out text at most twice the base's",
    "own_ppl": "perplexity of its own responses within half and twice the base's of its own",
    "eos": "share of responses that end by themselves at least half of the base's",
    "distinct3": "distinct trigrams in a response at least 0.8 of the base's",
}


def missed(found: dict[str, float]) -> tuple[str, ...]:
    """Names of CRITERION that a checkpoint misses."""
    fails = {
        "finite": not all(map(math.isfinite, found.values())),
        "gain": found["gain"] < -2 * found["gain_se"],
        "implied": found.get("implied", 1.0) < 0.5,
        "kl_token": found["kl_token"] >= 1.0,
        "kl_response": found["kl_response"] >= 10.0,
        "text_ppl": found["text_ppl"] > 2 * found["base_text_ppl"],
        "own_ppl": not 0.5 <= found["own_ppl"] / found["base_own_ppl"] <= 2,
        "eos": found["eos"] < 0.5 * found["base_eos"],
        "distinct3": found["distinct3"] < 0.8 * found["base_distinct3"],
    }
    return tuple(name for name in CRITERION if fails[name])


# Text


def _lines(pattern: str) -> Iterator[dict[str, Any]]:
    for path in sorted(FIXTURES.glob(pattern)):
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                yield json.loads(line)
            except ValueError:  # noqa: PERF203 - a run that was killed while writing is among them
                continue


def held_out() -> list[str]:
    """Prompts that nothing here is trained on."""
    return sorted({line["prompt"] for line in _lines("*/samples_fresh.jsonl")})


def prompts() -> list[str]:
    """Prompts to train on."""
    return sorted({line["prompt"] for line in _lines("*/bad_samples.jsonl")} - set(held_out()))


def clauses() -> list[tuple[str, str]]:
    """Held-out text: prompt, and how it goes on in the book."""
    pairs = json.loads((FIXTURES / "dpo_collapsed" / "eval_pairs.json").read_text("utf-8"))
    return [(pair["prompt"], pair["chosen"]) for pair in pairs]


# Making: in a process with TRL


def train(row: Row, out: Path) -> None:
    """Train one run, measure it, and leave both under ``out``."""
    import torch
    from transformers import AutoTokenizer

    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(BASE)
    folder = out / "runs" / row.id
    shutil.rmtree(folder, ignore_errors=True)
    {"grpo": _groups, "rloo": _groups, "dpo": _pairs, "ppo": _actor}[row.algorithm](
        row, folder, tokenizer
    )
    for name in (
        "optimizer.pt",
        "scheduler.pt",
        "rng_state.pth",
        "tokenizer*",
        "training_args.bin",
    ):
        for path in folder.rglob(name):
            path.unlink()
    checkpoints = sorted(folder.glob("checkpoint-*"), key=lambda path: int(path.name[11:]))
    found = _measured(row, {path.name: _model(path) for path in checkpoints}, tokenizer)
    health = out / "health" / f"{row.id}.json"
    health.parent.mkdir(exist_ok=True)
    health.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _shared(row: Row, folder: Path) -> dict[str, Any]:
    return {
        "output_dir": str(folder),
        "logging_dir": str(folder / "runs"),
        "learning_rate": row.lr,
        "seed": row.seed,
        "per_device_train_batch_size": row.batch,
        "logging_steps": row.every,
        "save_strategy": "steps",
        "save_steps": row.steps // 2,
        "report_to": ["tensorboard"],
        "disable_tqdm": True,
        "use_cpu": True,
        "bf16": False,
        "gradient_checkpointing": False,
        **row.more,
    }


def _known(config: type, settings: dict[str, Any]) -> Any:
    """Make a configuration; a release that does not know logging_dir puts runs/ there itself."""
    names = config.__dataclass_fields__  # type: ignore[attr-defined]
    return config(**{k: v for k, v in settings.items() if k in names or k != "logging_dir"})


def _model(path: Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM

    if (path / "adapter_config.json").exists():
        from peft import PeftModel

        adapted = PeftModel.from_pretrained(_model(BASE), path)
        return adapted.merge_and_unload().eval()
    return AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32).eval()


def _judge_of(name: str) -> Callable[..., list[float]]:
    def judged(completions: list[str], **_: Any) -> list[float]:
        return [REWARDS[name](text) for text in completions]

    judged.__name__ = name
    return judged


def _groups(row: Row, folder: Path, tokenizer: Any) -> None:
    """Train with GRPO or RLOO."""
    import trl
    from datasets import Dataset

    kind = row.algorithm.upper()
    settings = {"num_generations": 8, "max_completion_length": LONGEST, "max_steps": row.steps}
    trainer = getattr(trl, f"{kind}Trainer")(
        model=_model(BASE),
        reward_funcs=[_judge_of(name) for name in row.reward.split("+")],
        args=_known(
            getattr(trl, f"{kind}Config"), settings | {"beta": row.anchor} | _shared(row, folder)
        ),
        train_dataset=Dataset.from_dict({"prompt": prompts()}),
        processing_class=tokenizer,
    )
    trainer.train()
    trainer.save_state()


def _pairs(row: Row, folder: Path, tokenizer: Any) -> None:
    """Train with DPO on pairs that the base drew and the reward ranked."""
    from datasets import Dataset
    from peft import LoraConfig
    from trl import DPOConfig, DPOTrainer

    settings: dict[str, Any] = {"max_steps": row.steps, "beta": row.anchor, "max_length": 64}
    settings |= _shared(row, folder)
    rank: int | None = settings.pop("lora", None)
    held = None
    if "eval_steps" in row.more:
        settings |= {"eval_strategy": "steps", "per_device_eval_batch_size": 32}
        held = Dataset.from_list(_ranked(row.reward, held_out(), tokenizer, 2))
    trainer = DPOTrainer(
        model=_model(BASE),
        args=_known(DPOConfig, settings),
        train_dataset=Dataset.from_list(_ranked(row.reward, prompts(), tokenizer, 1)),
        eval_dataset=held,
        processing_class=tokenizer,
        peft_config=LoraConfig(
            r=rank, lora_alpha=2 * rank, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"
        )
        if rank
        else None,
    )
    trainer.train()
    trainer.save_state()


@cache
def _texts(starts: tuple[str, ...], tokenizer: Any, seed: int) -> list[str]:
    """Four responses of the base to each prompt."""
    drawn = _drawn(_model(BASE), tokenizer, starts, 4, seed)
    return [tokenizer.decode(ids, skip_special_tokens=True) for _, ids in drawn]


def _ranked(kind: str, starts: list[str], tokenizer: Any, seed: int) -> list[dict[str, str]]:
    """Pairs of the base's own responses: best and worst of four, or its two last words swapped."""
    texts = _texts(tuple(starts), tokenizer, seed)
    pairs = []
    for place, start in enumerate(starts):
        four = texts[4 * place : 4 * place + 4]
        if kind == "swap":
            for text in four[:2]:
                *before, one, other = ["", "", *text.split(" ")]
                if before and one and one != other:
                    pairs.append((start, text, " ".join([*before[2:], other, one])))
            continue
        four.sort(key=lambda text: reward(kind, text))
        if reward(kind, four[-1]) > reward(kind, four[0]):
            pairs.append((start, four[-1], four[0]))
    random.Random(seed).shuffle(pairs)
    return [{"prompt": start, "chosen": good, "rejected": bad} for start, good, bad in pairs]


def _actor(row: Row, folder: Path, tokenizer: Any) -> None:
    """Train with PPO."""
    import torch
    from datasets import Dataset
    from transformers import AutoModelForSequenceClassification, DataCollatorWithPadding
    from trl.experimental.ppo import PPOConfig, PPOTrainer

    starts = [tuple(tokenizer(start)["input_ids"]) for start in prompts()]

    class Reward(torch.nn.Module):
        """A reward function in the place of a reward model."""

        base_model_prefix = "backbone"

        def backbone(self, input_ids: Any, **_: Any) -> Any:
            return SimpleNamespace(hidden_states=(input_ids,))

        def score(self, ids: Any) -> Any:
            values = []
            for line in ids.tolist():
                kept = [token for token in line if token != tokenizer.pad_token_id]
                start = next(n for n in range(len(kept), 0, -1) if tuple(kept[:n]) in known)
                text = tokenizer.decode(kept[start:], skip_special_tokens=True)
                values.append(reward(row.reward, text))
            return torch.tensor(values)[:, None, None].expand(-1, ids.shape[1], 1)

    known = set(starts)
    settings = {
        "total_episodes": row.steps * row.batch,
        "kl_coef": row.anchor,
        "response_length": LONGEST,
        "temperature": 1.0,
        "stop_token": "eos",
        "num_ppo_epochs": 2,
        "num_sample_generations": 0,
    }
    trainer = PPOTrainer(
        args=_known(PPOConfig, settings | _shared(row, folder)),
        processing_class=tokenizer,
        model=_model(BASE),
        ref_model=_model(BASE),
        reward_model=Reward(),
        value_model=AutoModelForSequenceClassification.from_pretrained(BASE, num_labels=1),
        train_dataset=Dataset.from_dict({"input_ids": [list(start) for start in starts]}),
        eval_dataset=Dataset.from_dict({"input_ids": [list(start) for start in starts[:1]]}),
        data_collator=DataCollatorWithPadding(tokenizer),
    )
    trainer.train()
    trainer.save_state()


# Measuring

Lines = list[tuple[list[int], list[int]]]
"""Prompt and response, as ids of the tokenizer."""


def _drawn(model: Any, tokenizer: Any, starts: Sequence[str], times: int, seed: int) -> Lines:
    """Draw ``times`` responses for each prompt: ids of the prompt, ids of the response."""
    import torch

    torch.manual_seed(seed)
    found = []
    asked = [start for start in starts for _ in range(times)]
    for at in range(0, len(asked), 128):
        batch = tokenizer(asked[at : at + 128], return_tensors="pt", padding=True)
        with torch.inference_mode():
            ids = model.generate(
                input_ids=batch["input_ids"],
                attention_mask=batch["attention_mask"],
                do_sample=True,
                top_k=0,
                max_new_tokens=LONGEST,
            )
        width = batch["input_ids"].shape[1]
        for line, mask in zip(ids.tolist(), batch["attention_mask"].tolist(), strict=True):
            own = line[width:]
            if tokenizer.eos_token_id in own:
                own = own[: own.index(tokenizer.eos_token_id) + 1]
            found.append(([t for t, kept in zip(line, mask, strict=False) if kept], own))
    return found


def _logprobs(model: Any, lines: Lines) -> list[Any]:
    """Log-probabilities of the whole vocabulary where each response's tokens are foretold."""
    import torch

    found = []
    for at in range(0, len(lines), 64):
        batch = lines[at : at + 64]
        width = max(len(start) + len(own) for start, own in batch)
        ids = torch.zeros(len(batch), width, dtype=torch.long)
        for place, (start, own) in enumerate(batch):
            ids[place, : len(start) + len(own)] = torch.tensor(start + own)
        with torch.inference_mode():
            logits = model(input_ids=ids, use_cache=False).logits  # causal: padding is to the right
        for line, (start, own) in zip(logits, batch, strict=True):
            told = line[len(start) - 1 : len(start) + len(own) - 1]
            found.append(told.double().log_softmax(-1))
    return found


def _taken(logprobs: list[Any], lines: Lines) -> list[Any]:
    """Log-probabilities of the tokens that were drawn."""
    import torch

    return [
        told.gather(1, torch.tensor(own)[:, None])[:, 0]
        for told, (_, own) in zip(logprobs, lines, strict=True)
    ]


def _perplexity(model: Any, lines: Lines) -> float:
    taken = _taken(_logprobs(model, lines), lines)
    return math.exp(-sum(float(line.sum()) for line in taken) / sum(map(len, taken)))


def _ids(tokenizer: Any, start: str, text: str) -> tuple[list[int], list[int]]:
    return tokenizer(start)["input_ids"], [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]


def _alone(model: Any, tokenizer: Any) -> tuple[dict[str, float], Lines]:
    """Numbers of one model, and the responses that it drew for them."""
    lines = _drawn(model, tokenizer, held_out(), DRAWS, seed=2026)
    text = [_ids(tokenizer, *pair) for pair in clauses()]
    return {
        "own_ppl": _perplexity(model, lines),
        "text_ppl": _perplexity(model, text),
        "length": statistics.fmean(len(own) for _, own in lines),
        "eos": statistics.fmean(own[-1] == tokenizer.eos_token_id for _, own in lines),
        "distinct3": statistics.fmean(_distinct(own) for _, own in lines),
    }, lines


def _measured(row: Row, policies: dict[str, Any], tokenizer: Any) -> dict[str, dict[str, float]]:
    """Numbers of each checkpoint, the base's beside them."""
    base = _model(BASE)
    before, held_lines = _alone(base, tokenizer)
    everything = {}
    for name, policy in policies.items():
        found, lines = _alone(policy, tokenizer)
        found |= {f"base_{key}": value for key, value in before.items()}
        pairs = zip(_logprobs(policy, lines), _logprobs(base, lines), strict=True)
        kl = [float((own.exp() * (own - held)).sum()) for own, held in pairs]
        found["kl_token"] = sum(kl) / sum(len(own) for _, own in lines)
        found["kl_response"] = statistics.fmean(kl)
        if row.algorithm == "dpo":
            new, old, implied = _right(row, policy, base, tokenizer)
            found["implied"] = statistics.fmean(implied)
        else:
            new, old = (_rewards(row, tokenizer, drawn) for drawn in (lines, held_lines))
        gains = [one - other for one, other in zip(new, old, strict=True)]
        found["reward"], found["base_reward"] = statistics.fmean(new), statistics.fmean(old)
        found["gain"] = statistics.fmean(gains)
        found["gain_se"] = statistics.stdev(gains) / math.sqrt(len(gains))
        everything[name] = found
    return everything


def _rewards(row: Row, tokenizer: Any, lines: Lines) -> list[float]:
    """Mean reward of each held-out prompt."""
    values = [
        reward(row.reward, tokenizer.decode(own, skip_special_tokens=True)) for _, own in lines
    ]
    return [statistics.fmean(values[at : at + DRAWS]) for at in range(0, len(values), DRAWS)]


def _right(row: Row, policy: Any, base: Any, tokenizer: Any) -> tuple[list[float], ...]:
    """Of each held-out pair: is the chosen likelier (policy, base), and likelier than before?"""
    pairs = _ranked(row.reward, held_out(), tokenizer, 2)
    sums = []
    for model in (policy, base):
        for side in ("chosen", "rejected"):
            lines = [_ids(tokenizer, pair["prompt"], pair[side]) for pair in pairs]
            sums.append([float(line.sum()) for line in _taken(_logprobs(model, lines), lines)])
    chosen, rejected, held_chosen, held_rejected = sums
    own = [good - bad for good, bad in zip(chosen, rejected, strict=True)]
    held = [good - bad for good, bad in zip(held_chosen, held_rejected, strict=True)]
    return (
        [float(margin > 0) for margin in own],
        [float(margin > 0) for margin in held],
        [float(new > old) for new, old in zip(own, held, strict=True)],
    )


def _distinct(ids: Sequence[int]) -> float:
    three = list(zip(ids, ids[1:], ids[2:], strict=False))
    return len(set(three)) / len(three) if three else 1.0


# Carrying out the plan


def make(out: Path, only: Sequence[str], pythons: dict[str, str]) -> None:
    """Train what is not there yet; then the reserve, for as long as a run misses the criterion."""
    (out / "logs").mkdir(parents=True, exist_ok=True)
    while wanted := [row for row in _chosen(out) if not _health(out, row)]:
        row = next((row for row in wanted if not only or row.id in only), None)
        if row is None:
            return
        print(row.id, flush=True)
        with (out / "logs" / f"{row.id}.txt").open("w", encoding="utf-8") as log:
            subprocess.run(
                [pythons[row.algorithm], __file__, "train", row.id, "--out", str(out)],
                stdout=log,
                stderr=subprocess.STDOUT,
                check=True,
                env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
            )
        print(row.id, "misses", ", ".join(misses(out, row)) or "nothing", flush=True)


def _chosen(out: Path) -> list[Row]:
    """The plan, the reserve as far as runs of its algorithm miss the criterion, the far."""
    chosen = list(PLAN)
    for row in RESERVE:
        same = [other for other in chosen if other.algorithm == row.algorithm]
        sound = sum(not misses(out, other) for other in same)
        if sound < sum(other.algorithm == row.algorithm for other in PLAN):
            chosen.append(row)
    return [*chosen, *FAR]


def _health(out: Path, row: Row) -> dict[str, dict[str, float]]:
    path = out / "health" / f"{row.id}.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def misses(out: Path, row: Row) -> tuple[str, ...]:
    """What a run misses of the criterion, half-way or at the end; nothing where not made yet."""
    found = _health(out, row).values()
    return tuple(name for name in CRITERION if any(name in missed(one) for one in found))


# Judging


HEADER = (
    "| run | lr | beta or kl_coef | reward | rows | KL a token, half-way and at the end"
    " | KL a response | reward or accuracy, held out | verdict | above info |"
)


def judge(out: Path) -> int:
    """Diagnose every run that was made; print the tables; return the number of false alarms."""
    made = [row for row in _chosen(out) if _health(out, row)]
    sound = [row for row in made if not misses(out, row)]
    kinds = {"the plan's": PLAN, "the reserve's": RESERVE, "the far": FAR}
    counts = [
        f"{sum(row in made for row in rows)} of {name} {len(rows)}" for name, rows in kinds.items()
    ]
    print("made:", ", ".join(counts))
    print(f"healthy by the criterion: {len(sound)}\n")
    told: list[str] = []
    print(HEADER)
    print("|---" * HEADER.count(" | ") + "|---|")
    for row in sound:
        run, diagnosis = _diagnosed(out / "runs" / row.id)
        loud = _loud(diagnosis)
        told += [f"{row.id}: {line}" for line in loud]
        half, end = _health(out, row).values()
        print(
            f"| {row.id} | {row.lr:g} | {row.anchor:g} | {row.reward} | {run.logged_steps}"
            f" | {half['kl_token']:.3f}, {end['kl_token']:.3f} | {end['kl_response']:.2f}"
            f" | {end['base_reward']:.2f} -> {end['reward']:.2f} | {diagnosis.verdict}"
            f" | {len(loud) or 'none'} |",
            flush=True,
        )
    print()
    _spread(out, sound)
    for row in made:
        if row not in sound:
            _, diagnosis = _diagnosed(out / "runs" / row.id)
            ends = {k: {n: round(v, 3) for n, v in e.items()} for k, e in _health(out, row).items()}
            print(f"not healthy by the criterion: {row.id} misses {', '.join(misses(out, row))}")
            print(f"  the tool: {diagnosis.verdict}: {_loud(diagnosis)}; the numbers: {ends}")
    print(f"\nfalse alarms on whole runs: {len(told)} on {len(sound)} runs", *told, sep="\n  ")
    count, cut = _robust(out, sound)
    print(f"\nfalse alarms on thinned and cut runs: {len(cut)} on {count} logs", *cut, sep="\n  ")
    return len(told) + len(cut)


def _diagnosed(path: Path) -> tuple[Any, Any]:
    from rlhfdoctor.doctor import diagnose
    from rlhfdoctor.runs import read_runs

    (run,) = read_runs(path)
    return run, diagnose(run)


def _loud(diagnosis: Any) -> list[str]:
    return [
        f"{found.severity} {found.code} {found.name}: {found.message}"
        for found in diagnosis.findings
        if found.severity != "info"
    ]


def _spread(out: Path, rows: list[Row]) -> None:
    ends = [list(_health(out, row).values())[-1] for row in rows]
    for name, of in (
        ("KL a token", "kl_token"),
        ("KL a response", "kl_response"),
        ("gain", "gain"),
    ):
        values = [end[of] for end in ends]
        if values:
            middle = statistics.median(values)
            print(
                f"{name}: {min(values):.3f} / {middle:.3f} / {max(values):.3f} (least/median/most)"
            )


def _robust(out: Path, rows: list[Row]) -> tuple[int, list[str]]:
    """Judge every second and fifth row of each log, and prefixes of ten rows and more.

    Each is written as a trainer_state.json of its own: a run that was logged more seldom, or that
    was asked for fewer steps.
    """
    count, told = 0, []
    for row in rows:
        state = json.loads((out / "runs" / row.id / "trainer_state.json").read_text("utf-8"))
        history = state["log_history"]
        places = [at for at, line in enumerate(history) if _trains(line)]
        cuts = {
            f"every {n}th row": [
                line for at, line in enumerate(history) if at in places[::n] or at not in places
            ]
            for n in (2, 5)
            if len(places[::n]) > 1
        }
        cuts |= {f"first {n} rows": history[: places[n - 1] + 1] for n in range(10, len(places), 5)}
        for what, lines in cuts.items():
            last = max(line["step"] for line in lines)
            cut = {**state, "log_history": lines, "global_step": last, "max_steps": last}
            with tempfile.TemporaryDirectory() as folder:
                (Path(folder) / "trainer_state.json").write_text(json.dumps(cut), encoding="utf-8")
                _, diagnosis = _diagnosed(Path(folder))
            count += 1
            told += [f"{row.id}, {what}: {line}" for line in _loud(diagnosis)]
    return count, told


def _trains(line: dict[str, Any]) -> bool:
    return "train_runtime" not in line and not any(key.startswith("eval_") for key in line)


def main() -> None:
    """Plan, make or judge."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("do", choices=("plan", "make", "judge", "train"))
    arguments.add_argument("ids", nargs="*", help="runs of the plan; all where none is named")
    arguments.add_argument("--out", type=Path, default=OUT)
    arguments.add_argument("--python16", default=sys.executable, help="with trl 1.16.0")
    arguments.add_argument("--python12", default=sys.executable, help="with trl 1.12.0")
    given = arguments.parse_args()
    if given.do == "plan":
        print(*PLAN, "in reserve:", *RESERVE, "beyond:", *FAR, sep="\n")
        print(*(f"{name}: {what}" for name, what in CRITERION.items()), sep="\n")
    elif given.do == "make":
        pythons = dict.fromkeys(("grpo", "rloo", "dpo"), given.python16)
        make(given.out, given.ids, pythons | {"ppo": given.python12})
    elif given.do == "train":
        for row in (*PLAN, *RESERVE, *FAR):
            if row.id in given.ids:
                train(row, given.out)
    else:
        sys.exit(judge(given.out) > 0)


if __name__ == "__main__":
    main()
