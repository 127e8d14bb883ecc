"""Build runs for tests: canonical columns in, a Run out."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from rlhfdoctor.measures import SCANS
from rlhfdoctor.merge import OBSERVATIONS
from rlhfdoctor.model import Checkpoint, Column, Finding, Location, Note, Run, Setting, Skip
from rlhfdoctor.profile import limits_of, rules
from rlhfdoctor.runs import SAMPLES
from rlhfdoctor.scores import SCORES
from rlhfdoctor.vocabulary import METRICS

FIXTURES = Path(__file__).parent.parent / "fixtures"
RUNS = sorted(path.parent.name for path in FIXTURES.glob("*/run_config.json"))
HEALTHY = ("dpo_healthy", "grpo_healthy", "ppo_healthy", "rloo_healthy")

Values = Sequence[float | None]


def run_of(
    *,
    steps: Sequence[int] | None = None,
    samples: Iterable[Mapping[str, Any]] = (),
    config: Mapping[str, float | str] | None = None,
    checkpoints: Iterable[Checkpoint] = (),
    log_offset: int = 0,
    algorithm: str = "unknown",
    estimators: Mapping[str, str] | None = None,
    units: Mapping[str, str] | None = None,
    scans: Sequence[Mapping[str, Any]] | None = None,
    scores: Sequence[Mapping[str, Any]] | None = None,
    **columns: Values,
) -> Run:
    """Return a run whose log holds exactly these canonical columns, one value a row.

    samples: dicts with the fields of ``model.Sample`` plus ``source`` (default "samples.jsonl").
    scans: rows made by ``scanned``; each has its checkpoint in the run. scores: rows made by
    ``scored`` and ``began``.
    """
    saved = [
        Checkpoint(row["step"], f"run/{row['checkpoint']}", row["checkpoint"], complete=True)
        for row in scans or ()
    ]
    count = max((len(values) for values in columns.values()), default=0)
    steps = list(steps or range(1, count + 1))
    for values in columns.values():
        assert len(values) == len(steps), "every column needs a value a step"
    metrics = pl.DataFrame(
        {"step": steps, "epoch": [step / 100 for step in steps], **columns},
        schema={
            "step": pl.Int64,
            "epoch": pl.Float64,
            **dict.fromkeys(columns, pl.Float64),
        },
    )
    observations = pl.DataFrame(
        [
            {
                "step": step,
                "split": "eval" if name.startswith("eval_") else "train",
                "metric": name.removeprefix("eval_"),
                "value": value,
                "source": "log.jsonl",
                "key": name,
                "line": line,
            }
            for name, values in columns.items()
            for line, (step, value) in enumerate(zip(steps, values, strict=True), start=1)
            if value is not None
        ],
        schema=OBSERVATIONS,
    )
    rows = [
        {"source": "samples.jsonl", "line": line, **sample}
        for line, sample in enumerate(samples, start=1)
    ]
    frame = pl.DataFrame(rows, schema=SAMPLES)
    return Run(
        path="run",
        name="run",
        framework="test",
        algorithm=algorithm,
        dialect="test",
        step_unit="step",
        sources=(),
        observations=observations.lazy(),
        metrics=metrics,
        columns={
            name: Column(
                metric=name.removeprefix("eval_"),
                unit=(units or {}).get(name, _unit(name)),
                estimator=(estimators or {}).get(name),
                sources=(Location("log.jsonl", key=name),),
            )
            for name in columns
        },
        unmapped={},
        samples=frame.lazy(),
        sample_count=frame.height,
        logged_steps=len(steps),
        checkpoints=(*checkpoints, *saved),
        scans=None if scans is None else pl.DataFrame(list(scans), schema=SCANS),
        scores=None if scores is None else pl.DataFrame(list(scores), schema=SCORES),
        config={
            name: Setting(name, value, Location("args.json", key=name))
            for name, value in (config or {}).items()
        },
        log_offset=log_offset,
        notes=(Note("test", "made by a test"),),
    )


def scanned(step: int, **columns: Any) -> dict[str, Any]:
    """Return the scan of a sound checkpoint; each step has a hash of its own."""
    return {
        "checkpoint": f"checkpoint-{step}",
        "step": step,
        "format": "safetensors",
        "dtype": "bfloat16",
        "tensors": 2,
        "parameters": 100,
        "finite": True,
        "non_finite": 0,
        "zero_rows": 0,
        "hash": f"{step:064x}",
        "norm": 10.0,
        "adapter": False,
        "missing": [],
        **columns,
    }


def unread(step: int) -> dict[str, Any]:
    """Return the scan of a checkpoint whose weights could not be read."""
    name = f"checkpoint-{step}"
    return {"checkpoint": name, "step": step, "missing": [], "error": "no weights"}


def scored(step: int, kl: float | None = 0.05, **columns: Any) -> dict[str, Any]:
    """Return the score of a checkpoint on its own responses of 20 tokens; k1 and k3 are exact."""
    per_response = None if kl is None else 20 * kl
    return {
        "reference": "base",
        "checkpoint": f"checkpoint-{step}",
        "step": step,
        "role": "policy",
        "samples_file": "samples.jsonl",
        "part": "response",
        "samples": 32,
        "on_policy": True,
        "tokens": 640,
        "mean_length": 20.0,
        "kl_ref_token_exact": kl,
        "interval_low": kl,
        "interval_high": kl,
        "kl_ref_response_exact": per_response,
        "kl_k1_token": kl,
        "kl_k3_token": kl,
        "kl_k1_response": per_response,
        "entropy_token": 3.0,
        "perplexity_policy": 20.0,
        "perplexity_reference": 21.0,
        "logprob_response_policy": -60.0,
        "logprob_response_reference": -61.0,
        "noise_floor": 1e-5,
        "below_floor": kl is not None and abs(kl) < 1e-5,
        "dtype": "float32",
        "stored": "bfloat16",
        "seconds": 0.5,
        "perplexity_by_position": [],
        **columns,
    }


def began(reference: str = "base", gap: float | None = 0.01, **columns: Any) -> dict[str, Any]:
    """Return a reference's own row on the samples of step 0; ``gap``: to the file's numbers."""
    row = scored(0, 0.0, reference=reference, checkpoint=reference, logprob_gap=gap)
    return {**row, "role": "reference", "below_floor": False, **columns}


def _unit(column: str) -> str:
    return METRICS[column.removeprefix("eval_").split("[")[0]].unit


def judge(code: str, run: Run, **limits: float) -> list[Finding] | Skip:
    """Return what one rule says of a run, with limits overridden."""
    rule = next(rule for rule in rules() if rule.code == code)
    return rule.outcome(run, limits_of(rule, limits))


def only(code: str, run: Run, **limits: float) -> Finding:
    """Return the one finding of a rule; fail where it has none or several."""
    outcome = judge(code, run, **limits)
    assert not isinstance(outcome, Skip), outcome
    assert len(outcome) == 1, outcome
    return outcome[0]


def clear(code: str, run: Run, **limits: float) -> bool:
    """Say whether a rule looked and found nothing."""
    return judge(code, run, **limits) == []


def skipped(code: str, run: Run) -> bool:
    """Say whether a rule could not look."""
    return isinstance(judge(code, run), Skip)


def batch(
    step: int,
    tokens: Sequence[Sequence[int]],
    *,
    logprob: float = -3.0,
    ref_logprob: float | None = None,
    rewards: Sequence[float] | None = None,
    texts: Sequence[str] | None = None,
    source: str = "samples.jsonl",
) -> list[dict[str, Any]]:
    """Return the samples of one step: token ids, and one log-probability for all their tokens."""
    return [
        {
            "source": source,
            "step": step,
            "response": texts[index] if texts else " ".join(f"w{token}" for token in ids),
            "token_ids": list(ids),
            "logprobs": [logprob] * len(ids),
            "ref_logprobs": None if ref_logprob is None else [ref_logprob] * len(ids),
            "reward": rewards[index] if rewards else None,
        }
        for index, ids in enumerate(tokens)
    ]


def write_state(
    folder: Path, rows: Sequence[Mapping[str, Any]], name: str = "trainer_state.json", **state: Any
) -> Path:
    """Write a trainer_state.json with these log rows; bare NaN and Infinity as json writes them."""
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"log_history": list(rows), **state}), encoding="utf-8")
    return path


def write_jsonl(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write records as JSON Lines; bare NaN and Infinity as json writes them."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def log_history(name: str) -> list[dict[str, Any]]:
    """Return the rows of a fixture's trainer_state.json."""
    path = FIXTURES / name / "trainer_state.json"
    rows: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["log_history"]
    return rows
