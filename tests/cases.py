"""Forty public reports of runs gone wrong, as runs, each with its confirmed cause.

The numbers and words of the report are kept; what it leaves open is that of a calm run of the same
kind, and ``invented`` says so where the report has words only. The expected answers come from the
cause that the maintainers or the authors confirmed, never from what the tool happens to say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlhfdoctor.dialects import trl_online_dpo
from rlhfdoctor.model import Location, Run, Seam
from tests.builders import batch
from tests.rules.shapes import NAN, log_of

INF = math.inf
ROWS = 40


@dataclass(frozen=True, slots=True)
class Case:
    """One report, and what must be said of it.

    cause: the name that leads. finds: codes or families that must be found above information.
    told: likewise, where information is enough. never: codes or families that must not be found
    above information. words: what a finding must say. verdicts: those acceptable. calm: runs of the
    same report that have no fault. why: for a report that is no series and no configuration, the
    reason.
    """

    id: str
    url: str
    run: Run | None = None
    cause: str | None = None
    verdicts: tuple[str, ...] = ("degraded", "collapsed")
    finds: tuple[str, ...] = ()
    told: tuple[str, ...] = ()
    never: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    calm: tuple[Run, ...] = ()
    invented: str = ""
    why: str = ""


# Series


def flat(level: float, rows: int = ROWS, noise: float = 0.03) -> list[float]:
    """Rows about a level; the noise is a share of it, the same at each call."""
    return line(level, level, rows, noise)


def line(start: float, end: float, rows: int = ROWS, noise: float = 0.03) -> list[float]:
    """Rows from one level to another."""
    return [
        (start + (end - start) * row / max(rows - 1, 1)) * (1 + noise * _wobble(row))
        for row in range(rows)
    ]


def named(columns: Mapping[str, list[float]]) -> dict[str, Any]:
    """Return columns whose names are no Python names, to be passed as such."""
    return dict(columns)


def _wobble(row: int) -> float:
    """A number between -1 and 1 that no row-to-row rule takes for a trend."""
    return 2 * (math.sin(12.9898 * (row + 1)) * 43758.5453 % 1) - 1


# Calm runs: everything that a report leaves open


def grpo(config: dict[str, float | str] | None = None, rows: int = ROWS, **columns: Any) -> Run:
    """A calm run of GRPO whose KL grows slowly, with other columns in place of its own.

    A column of None is not logged.
    """
    calm: dict[str, Any] = {
        "loss_total": line(0.0, 0.002, rows),
        "grad_norm": flat(0.3, rows, 0.2),
        "lr": [1e-6] * rows,
        "kl_ref_token": [0.0, 0.0, *line(0.0005, 0.03, rows - 2)],
        "entropy": line(0.6, 0.5, rows),
        "reward_raw_mean": line(0.4, 0.5, rows),
        "reward_group_std": flat(0.2, rows),
        "frac_reward_zero_std": flat(0.2, rows),
        "response_length_mean": flat(300.0, rows),
        "truncation_rate": flat(0.05, rows),
    }
    return _run(calm, columns, "GRPO", config)


def ppo(config: dict[str, float | str] | None = None, rows: int = ROWS, **columns: Any) -> Run:
    """A calm run of PPO, likewise."""
    calm: dict[str, Any] = {
        "loss_total": flat(0.05, rows),
        "grad_norm": flat(0.5, rows, 0.2),
        "lr": [1e-6] * rows,
        "kl_ref_response": [0.0, *line(0.1, 3.0, rows - 1)],
        "entropy": line(1.2, 1.0, rows),
        "reward_raw_mean": line(0.5, 0.9, rows),
        "ratio_mean": flat(1.0, rows, 0.005),
        "response_length_mean": flat(120.0, rows),
    }
    return _run(calm, columns, "PPO", config)


def dpo(config: dict[str, float | str] | None = None, rows: int = ROWS, **columns: Any) -> Run:
    """A calm run of DPO, likewise."""
    calm: dict[str, Any] = {
        "loss_total": [math.log(2), *line(0.68, 0.55, rows - 1)],
        "grad_norm": flat(5.0, rows, 0.2),
        "lr": [5e-7] * rows,
        "dpo_accuracy": [0.5, *line(0.55, 0.72, rows - 1)],
        "dpo_margin": [0.0, *line(0.02, 0.5, rows - 1)],
        "dpo_reward_chosen": [0.0, *line(0.01, -0.1, rows - 1)],
        "dpo_reward_rejected": [0.0, *line(-0.01, -0.6, rows - 1)],
        "logp_chosen": line(-250.0, -251.0, rows, 0.01),
        "logp_rejected": line(-240.0, -246.0, rows, 0.01),
    }
    return _run(calm, columns, "DPO", config)


def _run(
    calm: dict[str, Any],
    columns: dict[str, Any],
    algorithm: str,
    config: dict[str, float | str] | None,
) -> Run:
    rest = {name: columns.pop(name) for name in ("samples", "steps") if name in columns}
    logged = {name: values for name, values in {**calm, **columns}.items() if values is not None}
    return log_of(logged, algorithm=algorithm, config=config, log_offset=1, **rest)


# What a series of numbers does not hold


def talk(step: int, answers: Sequence[str], rewards: Sequence[float]) -> list[dict[str, Any]]:
    """Return the samples of one step; a token is a word."""
    known: dict[str, int] = {}
    tokens = [[known.setdefault(word, len(known)) for word in one.split()] for one in answers]
    return batch(step, tokens, rewards=rewards, texts=answers)


def prose(count: int = 8) -> list[str]:
    """Answers in which no word comes twice."""
    return [" ".join(f"word{60 * one + place}" for place in range(40)) for one in range(count)]


def loops(phrase: str, count: int = 8, times: int = 40) -> list[str]:
    """Answers that begin differently and then say one phrase to the end."""
    return [" ".join([f"so{one}", *[phrase] * (times + one)]) for one in range(count)]


def resumed(run: Run, left: int, step: int) -> Run:
    """The same run, whose log goes back to an earlier step."""
    return replace(run, seams=(Seam(left, step, Location("log.jsonl", line=left + 1)),))


def online_dpo(kl: list[float], entropy: list[float]) -> Run:
    """A calm run of TRL's Online DPO; what it calls KL and entropy is read as its dialect says."""
    calm: dict[str, Any] = {
        "loss_total": line(0.69, 0.6),
        "grad_norm": flat(5.0),
        "dpo_accuracy": line(0.5, 0.6),
        "dpo_margin": line(0.0, 0.5),
        "reward_raw_mean": line(0.5, 0.7),
        "eos_rate": flat(0.95),
    }
    keys = {"objective/kl": kl, "objective/entropy": entropy}
    read = {trl_online_dpo.DIALECT.keys[key].metric: values for key, values in keys.items()}
    return _run(calm, read, "online DPO", None)


TRL = "https://github.com/huggingface/trl"
CALM = ("healthy",)

CASES = (
    Case(
        "C001",
        f"{TRL}/issues/1340",
        ppo({"lora_rank": 16}, kl_ref_response=flat(85.0), reward_raw_mean=flat(0.5, noise=0.6)),
        cause="wrong reference",
        finds=("REF002",),
        invented="85 nats a response for 'very high starting KL', a reward without a trend",
    ),
    Case(
        "C003",
        f"{TRL}/pull/6591",
        grpo({"lora_rank": 16}, kl_ref_token=line(0.35, 0.4)),
        cause="wrong reference",
        finds=("REF002",),
        invented="0.35 nats a token for the drift of the supervised adapter",
    ),
    Case(
        "C007",
        "https://github.com/modelscope/ms-swift/pull/8275",
        resumed(
            grpo(
                reward_raw_mean=line(0.4, 0.6, 20) + line(0.4, 0.42, 20),
                response_length_mean=line(300, 420, 20) + flat(300, 20),
            ),
            25,
            21,
        ),
        verdicts=("healthy", "degraded"),
        told=("REF008",),
        words=("reward 0.5",),
        invented="rollouts of the untrained policy after the resume: its reward and its length",
    ),
    Case(
        "C016",
        f"{TRL}/issues/6803",
        online_dpo([0.0, *line(20.0, 60.0, ROWS - 1, 0.4)], flat(900.0, noise=0.4)),
        verdicts=("healthy", "inconclusive"),
        never=("KL", "ENT", "REF"),
        invented="the sums, which grow and shrink with the padding",
    ),
    Case(
        "C018",
        "https://github.com/modelscope/ms-swift/pull/9767",
        grpo(kl_ref_token=[NAN] * ROWS),
        verdicts=("healthy", "degraded"),
        told=("NUM001",),
        words=("estimator",),
        invented="every other number, finite as the report says",
    ),
    Case(
        "C020",
        f"{TRL}/issues/1017",
        ppo(
            {
                "learning_rate": 1.41e-5,
                "kl_target": 1.0,
                "kl_coef": 0.2,
                "min_response_length": 10,
                "no_repeat_ngram_size": 3,
            },
            kl_ref_response=[-2.2 + 3.0 * _wobble(row) for row in range(ROWS)],
            lr=[1.41e-5] * ROWS,
        ),
        verdicts=("healthy", "degraded"),
        told=("KL010", "CFG005"),
        never=("KL002", "REF002"),
        invented="between -5.2 and 0.8 nats a response for 'oscillates'",
    ),
    Case(
        "C033",
        f"{TRL}/issues/322",
        ppo(
            kl_ref_response=[0.0, *line(0.5, 90.0, ROWS - 1)],
            reward_raw_mean=line(1.0, 6.0),
            samples=[
                *talk(0, prose(), [1.0 + 0.1 * one for one in range(8)]),
                *talk(20, loops("Sssss", times=20), [4.0 + 0.1 * one for one in range(8)]),
                *talk(39, loops("Sssss"), [6.0 + 0.1 * one for one in range(8)]),
            ],
        ),
        cause="reward over-optimisation",
        finds=("KL002", "SMP001"),
        invented="the numbers",
    ),
    Case(
        "C035",
        "https://github.com/huggingface/open-r1/issues/373",
        grpo(
            kl_ref_token=[0.0, 0.0, *line(0.0005, 0.02, 22), *line(2.0, 6.0, ROWS - 24)],
            reward_raw_mean=flat(0.45, 24) + line(0.9, 1.0, ROWS - 24),
            **named(
                {
                    "reward_component_mean[format]": flat(0.1, 24) + line(0.85, 1.0, ROWS - 24),
                    "reward_component_mean[accuracy]": flat(0.35, 24) + line(0.05, 0.0, ROWS - 24),
                }
            ),
        ),
        cause="reward over-optimisation",
        finds=("KL003",),
        invented="when, and how large 'very large' is",
    ),
    Case(
        "C038",
        "https://github.com/opendilab/LightRFT/pull/53",
        grpo(reward_raw_mean=line(0.3, 0.8), success_rate=line(0.45, 0.15)),
        cause="reward over-optimisation",
        finds=("RWD",),
        invented="the numbers of the two curves",
    ),
    Case(
        "C041",
        "https://github.com/OpenLMLab/MOSS-RLHF/issues/2",
        ppo(
            {"max_response_length": 300},
            rows=60,
            steps=range(100, 6100, 100),
            kl_ref_response=None,
            ratio_mean=None,
            reward_raw_mean=line(0.5, 0.8, 50) + flat(0.3, 10),
            entropy=line(1.2, 1.0, 50) + flat(0.1, 10),
            response_length_mean=flat(120.0, 50) + flat(295.0, 10, 0.01),
            samples=[
                *talk(1, prose(), [0.5] * 8),
                *talk(3000, prose(), [0.7] * 8),
                *talk(5400, loops("again"), [0.3] * 8),
                *talk(6000, loops("again"), [0.3] * 8),
            ],
        ),
        cause="repetition collapse",
        finds=("SMP001",),
        invented="the numbers; the report has the step and the repeated sentence",
    ),
    Case(
        "C047",
        "https://github.com/OpenRLHF/OpenRLHF/issues/217",
        ppo(ratio_mean=flat(0.6, noise=0.02)),
        cause="log-probabilities that disagree",
        finds=("REF007",),
        invented="0.6 for log-probabilities that differ with padding",
    ),
    Case(
        "C049",
        f"{TRL}/pull/2708",
        grpo({"ppo_epochs": 2}, ratio_mean=flat(1.4, noise=0.02)),
        cause="log-probabilities that disagree",
        finds=("REF007",),
        invented="1.4 for padding that was attended to",
    ),
    Case(
        "C052",
        "https://github.com/deepspeedai/DeepSpeedExamples/blob/master/applications/"
        "DeepSpeed-Chat/training/README.md",
        ppo({"ppo_epochs": 2}, ratio_mean=[1.02, *line(30.0, 5000.0, ROWS - 1)]),
        cause="unstable updates",
        finds=("OPT",),
        invented="how huge",
    ),
    Case(
        "C056",
        f"{TRL}/issues/4159",
        grpo({"temperature": 0.6}, is_ratio_train_infer_mean=flat(2.0, noise=0.05)),
        cause="rollout and trainer disagree",
        finds=("MIS",),
        calm=(grpo({"temperature": 1.0}, is_ratio_train_infer_mean=flat(1.0, noise=0.15)),),
        invented="a ratio of one token's responses for that of the first token",
    ),
    Case(
        "C058",
        "https://github.com/OpenRLHF/OpenRLHF/pull/853",
        ppo({"temperature": 0.6}, kl_train_infer_token=flat(0.15, noise=0.1)),
        cause="rollout and trainer disagree",
        finds=("MIS",),
        invented="0.15 nats a token between the engine at 0.6 and the trainer at 1",
    ),
    Case(
        "C060",
        "https://github.com/PrimeIntellect-ai/prime-rl/pull/697",
        grpo(
            {"temperature": 0.7},
            kl_train_infer_token=flat(0.26, noise=0.1),
            is_ratio_train_infer_mean=flat(1.3, noise=0.05),
        ),
        cause="rollout and trainer disagree",
        finds=("MIS",),
        invented="0.7; log-probabilities of -0.6 divided by it differ by 0.26 nats a token",
    ),
    Case(
        "C062",
        "https://fengyao.notion.site/off-policy-rl",
        grpo(
            {"dtype": "bfloat16"},
            prob_diff_train_infer_mean=flat(0.02, noise=0.1),
            prob_diff_train_infer_max=flat(0.98, noise=0.02),
        ),
        cause="rollout and trainer disagree",
        finds=("MIS",),
        invented="the mean; the maximum of up to 1 is the report's",
    ),
    Case(
        "C064",
        "https://github.com/verl-project/verl/issues/3597",
        grpo(
            kl_train_infer_token=line(0.002, 0.004, 25) + line(0.02, 0.6, 15),
            response_length_mean=line(2000, 8000),
            reward_raw_mean=line(0.3, 0.5, 28) + line(0.4, 0.05, 12),
            grad_norm=flat(0.2, 28) + line(1.0, 30.0, 12),
        ),
        cause="rollout and trainer disagree",
        finds=("MIS",),
        invented="the numbers of a run that crashed late, after its answers had grown to 8k",
    ),
    Case(
        "C066",
        f"{TRL}/issues/4772",
        grpo(
            logp_diff_train_infer_mean=flat(0.012, noise=0.1),
            is_ratio_train_infer_mean=flat(2.6, noise=0.1),
            is_ratio_train_infer_max=flat(3.0, noise=0.0),
        ),
        verdicts=("healthy", "degraded"),
        told=("MIS",),
        invented="a mean below the cap of 3",
    ),
    Case(
        "C068",
        "https://github.com/PrimeIntellect-ai/prime-rl/pull/3543",
        grpo(kl_train_infer_token=flat(0.194, noise=0.5)),
        cause="rollout and trainer disagree",
        finds=("MIS",),
        calm=(
            grpo({"learning_rate": 0.0}, kl_train_infer_token=flat(0.00035, noise=0.15)),
            grpo({"learning_rate": 0.0}, kl_train_infer_token=flat(0.001, noise=0.1)),
        ),
        invented="rows between those of the report",
    ),
    Case(
        "C072",
        "https://github.com/NVIDIA-NeMo/RL/blob/main/docs/guides/dtensor-tp-accuracy.md",
        grpo(
            prob_mult_error_train_infer=[
                value + (0.4 if row % 9 == 8 else 0.0)
                for row, value in enumerate(line(1.02, 1.12, noise=0.005))
            ]
        ),
        cause="rollout and trainer disagree",
        finds=("MIS",),
        invented="a trend from 1.02 to 1.12, a spike every ninth row",
    ),
    Case(
        "C074",
        f"{TRL}/issues/5224",
        why="the tokens that are scored are not those that were sampled: seen only by comparing "
        "token ids before and after, which no log and no sample file holds",
    ),
    Case(
        "C085",
        "https://arxiv.org/pdf/2505.22617",
        grpo(
            kl_ref_token=None,
            entropy=line(0.6, 0.08, 10) + line(0.07, 0.03, 30),
            reward_raw_mean=line(0.3, 0.45, 10) + flat(0.46, 30, 0.01),
        ),
        cause="entropy collapse",
        finds=("ENT001",),
        invented="the numbers of a sharp early fall and a reward that stands still",
    ),
    Case(
        "C087",
        f"{TRL}/issues/3857",
        grpo(
            {"learning_rate": 1.7e-6},
            loss_total=[0.0] * ROWS,
            grad_norm=[0.0] * ROWS,
            kl_ref_token=None,
            reward_group_std=[0.0] * ROWS,
            frac_reward_zero_std=[1.0] * ROWS,
            **named({"reward_component_std[reward]": flat(5.08)}),
        ),
        cause="no learning signal",
        verdicts=("collapsed",),
        finds=("GRP001",),
    ),
    Case(
        "C089",
        f"{TRL}/issues/5697",
        grpo(
            {"max_response_length": 256},
            rows=10,
            loss_total=[0.0] * 10,
            grad_norm=[0.0] * 10,
            kl_ref_token=[0.0] * 10,
            reward_raw_mean=[0.0] * 10,
            reward_group_std=[0.0] * 10,
            frac_reward_zero_std=[1.0] * 10,
            response_length_mean=[256.0] * 10,
            truncation_rate=[1.0, 1.0, 0.97, 0.98, 0.99, 1.0, 0.98, 0.97, 0.99, 1.0],
        ),
        cause="no learning signal",
        verdicts=("collapsed",),
        finds=("GRP001", "LEN"),
    ),
    Case(
        "C091",
        f"{TRL}/issues/5588",
        grpo(
            {"kl_coef": 0.05},
            grad_norm=flat(0.02),
            reward_raw_mean=flat(1.0, noise=0.0),
            reward_group_std=[0.0] * ROWS,
            frac_reward_zero_std=[1.0] * ROWS,
        ),
        cause="no learning signal",
        finds=("GRP001",),
        never=("UPD",),
        invented="no spread in any group, and a gradient of the KL alone",
    ),
    Case(
        "C094",
        f"{TRL}/issues/3452",
        grpo(
            {"ppo_epochs": 1, "kl_coef": 0.0},
            loss_total=[0.0] * 10 + line(1e-5, 0.004, ROWS - 10),
        ),
        verdicts=CALM,
        calm=(grpo({"ppo_epochs": 1}, loss_total=[0.0] * ROWS),),
    ),
    Case(
        "C096",
        f"{TRL}/issues/3120",
        grpo({"ppo_epochs": 1}, clip_frac=[0.0] * ROWS),
        verdicts=CALM,
    ),
    Case(
        "C108",
        "https://github.com/eric-mitchell/direct-preference-optimization/issues/8",
        dpo(
            {"kl_coef": 0.1},
            loss_total=[math.log(2), *line(0.65, 0.2, ROWS - 1)],
            dpo_accuracy=[0.5, *line(0.6, 0.95, ROWS - 1)],
            dpo_margin=[0.0, *line(0.1, 6.0, ROWS - 1)],
            dpo_reward_chosen=[0.0, *line(-0.3, -17.0, ROWS - 1)],
            dpo_reward_rejected=[0.0, *line(-0.4, -23.0, ROWS - 1)],
            logp_chosen=line(-250.0, -420.0, noise=0.01),
            logp_rejected=line(-240.0, -470.0, noise=0.01),
        ),
        cause="likelihood displacement",
        finds=("DPO",),
        invented="how negative; the user's model degenerated",
    ),
    Case(
        "C116",
        "https://github.com/huggingface/alignment-handbook/issues/45",
        dpo(
            {"kl_coef": 0.1, "planned_epochs": 3.0},
            loss_total=[math.log(2), *line(0.65, 0.15, 12), *line(0.06, 0.02, ROWS - 13)],
            dpo_accuracy=[0.5, *line(0.6, 0.95, 12), *[1.0] * (ROWS - 13)],
            dpo_margin=[0.0, *line(0.1, 3.0, 12), *line(3.5, 6.0, ROWS - 13)],
            dpo_reward_chosen=[0.0, *line(0.0, -1.0, 12), *line(-1.1, -2.0, ROWS - 13)],
            dpo_reward_rejected=[0.0, *line(-0.1, -4.0, 12), *line(-4.6, -8.0, ROWS - 13)],
            logp_chosen=line(-250.0, -270.0, noise=0.01),
            logp_rejected=line(-240.0, -320.0, noise=0.01),
            eval_dpo_accuracy=[None] * 9 + [0.71] + ([None] * 9 + [0.74]) * 3,
        ),
        verdicts=CALM,
        invented="the numbers; an accuracy on held-out pairs that holds",
    ),
    Case(
        "C122",
        "https://github.com/modelscope/ms-swift/issues/3276",
        dpo({"learning_rate": 1e-5}, lr=[1e-5] * ROWS, sft_loss=[NAN] * ROWS),
        verdicts=("healthy", "degraded"),
        told=("NUM001",),
        words=("label",),
        invented="every other number, finite",
    ),
    Case(
        "C139",
        "https://github.com/deepspeedai/DeepSpeedExamples/pull/470",
        ppo(
            {"max_response_length": 256, "min_response_length": 256},
            response_length_mean=[256.0] * ROWS,
            eos_rate=[0.0] * ROWS,
        ),
        verdicts=("healthy", "degraded"),
        told=("LEN", "CFG005"),
        invented="256 tokens",
    ),
    Case(
        "C143",
        "https://github.com/RLHFlow/RLHF-Reward-Modeling/issues/49",
        log_of(
            {
                "loss_total": [math.log(2)] * ROWS,
                "grad_norm": [0.0] * ROWS,
                "rm_margin": [0.0] * ROWS,
                "rm_accuracy": [0.0] * ROWS,
                "rm_score_chosen": flat(0.4),
            },
            algorithm="RM",
            log_offset=1,
        ),
        cause="no weight update",
        finds=("UPD",),
        invented="training on such scores: a margin and a gradient of exactly 0",
    ),
    Case(
        "C146",
        "https://github.com/deepspeedai/DeepSpeedExamples/issues/423",
        log_of(
            {
                "loss_total": [*line(0.69, 0.4, 20), 80.0, *[INF] * 8],
                "rm_accuracy": [*line(0.5, 0.7, 20), *flat(0.4, 9)],
            },
            algorithm="RM",
        ),
        cause="non-finite values",
        finds=("NUM001",),
        invented="when; the loss of 80 is what the stable formula gives",
    ),
    Case(
        "C161",
        "https://github.com/verl-project/verl/issues/6609",
        grpo(grad_norm=flat(3168.13), success_rate=line(0.5, 0.3)),
        cause="unstable updates",
        finds=("OPT",),
        calm=(grpo(grad_norm=flat(0.3), success_rate=line(0.5, 0.6)),),
        invented="how far the accuracy falls",
    ),
    Case(
        "C170",
        "https://github.com/nebuly-ai/optimate/issues/243",
        why="two templates that join prompt and answer differently: seen in the code or by scoring "
        "one text with both, not in a log",
    ),
    Case(
        "C172",
        "https://github.com/radixark/miles/pull/1827",
        why="advantages that run over masked tokens: the reward that is lost there is lost before "
        "anything is logged",
    ),
    Case(
        "C178",
        f"{TRL}/issues/7010",
        why="a mean of 3.6 in place of 4 in the last batch alone: nothing in the log tells a "
        "biased mean from a true one",
    ),
    Case(
        "C180",
        f"{TRL}/issues/7310",
        grpo(
            {
                "ended_with": "Watchdog caught collective operation timeout: "
                "WorkNCCL(OpType=ALLGATHER, Timeout(ms)=1800000)"
            }
        ),
        cause="interrupted",
        verdicts=CALM,
        told=("LOG004",),
        words=("another process failed first",),
        invented="the watchdog's message, which is what a deadlock leaves in a log",
    ),
    Case(
        "C185",
        f"{TRL}/issues/6166",
        grpo(
            {"ended_with": "TypeError: float() argument must be a real number, not 'NoneType'"},
            loss_total=[*flat(0.01, 34), *[NAN] * 6],
            grad_norm=[*flat(0.3, 34), *[NAN] * 6],
            kl_ref_token=[*flat(0.02, 34), *[NAN] * 6],
            entropy=[*flat(0.5, 34), *[NAN] * 6],
        ),
        cause="non-finite values",
        verdicts=("collapsed",),
        finds=("NUM001",),
        invented="six rows of NaN before the crash",
    ),
)
