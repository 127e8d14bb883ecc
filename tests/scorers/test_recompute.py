"""Recomputation: the fixtures against a float64 truth, and the passes that it takes."""

from __future__ import annotations

import copy
import hashlib
import json
import math
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import peft
import polars as pl
import pytest
import torch
from safetensors.torch import load_file, save_file

from rlhfdoctor.errors import DoctorError
from rlhfdoctor.model import Run
from rlhfdoctor.runs import read_runs
from rlhfdoctor.scorers import models
from rlhfdoctor.scorers.models import Model
from rlhfdoctor.scorers.recompute import Options, recompute
from rlhfdoctor.scores import SCORES
from tests.builders import FIXTURES, write_jsonl
from tests.scorers.tiny import (
    built,
    counted,
    edited,
    logits_of,
    moved,
    saved,
    sequences,
    truth,
)

BASE = FIXTURES / "base"
TRUTH = json.loads((FIXTURES / "truth.json").read_text(encoding="utf-8"))
FILES = {"fresh": "samples_fresh.jsonl", "train_samples": "bad_samples.jsonl"}
PLAIN = Options(dtype="float32", device="cpu")

TEXT = {"prompt": "ids are read,", "response": " not this"}

Row = dict[str, Any]


def run_at(path: Path) -> Run:
    (run,) = read_runs(path)
    return run


def rows(run: Run, **wanted: Any) -> list[Row]:
    assert run.scores is not None
    assert run.scores.schema == pl.Schema(SCORES)
    found = run.scores.to_dicts()
    return [row for row in found if all(row[name] == value for name, value in wanted.items())]


def told(run: Run) -> str:
    return "\n".join(f"{note.where}: {note.text}" for note in run.notes)


def numbers(run: Run, without: tuple[str, ...] = ("seconds",)) -> list[Row]:
    """Return every row but for what may differ between two calls."""
    return [{name: row[name] for name in row if name not in without} for row in rows(run)]


def alike(one: Any, other: Any, error: float) -> bool:
    """Compare rows, numbers within an error and all else exactly."""
    if isinstance(one, dict):
        return bool(one.keys() == other.keys()) and all(alike(one[k], other[k], error) for k in one)
    if isinstance(one, list):
        return len(one) == len(other) and all(
            alike(a, b, error) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, float):
        return bool(abs(one - other) <= error * (1 + abs(other)))
    return bool(one == other)


@pytest.fixture(scope="session")
def fixture_scores() -> Callable[[str], Run]:
    known: dict[str, Run] = {}

    def scored(name: str) -> Run:
        if name not in known:
            run = run_at(FIXTURES / name)
            if name == "dpo_collapsed":  # the samples of checkpoints that are not bundled
                step = pl.col("step")
                run = replace(run, samples=run.samples.filter(step.is_null() | (step == 0)))
            known[name] = recompute(run, [BASE], PLAIN)
        return known[name]

    return scored


# Against the truth


def near(mine: float, want: float) -> bool:
    return abs(mine - want) <= 1e-5 + 1e-4 * abs(want)


CASES = [
    pytest.param(name, int(step), part, id=f"{name} {step} {part}")
    for name, steps in TRUTH.items()
    for step, parts in steps.items()
    for part in parts
    if part != "pairs"
]


@pytest.mark.parametrize(("name", "step", "part"), CASES)
def test_a_fixture_is_what_float64_found(
    name: str, step: int, part: str, fixture_scores: Callable[[str], Run]
) -> None:
    want = TRUTH[name][str(step)][part]
    (row,) = rows(fixture_scores(name), step=step, samples_file=FILES[part], part="response")
    assert row["role"] == ("reference" if step == 0 else "policy")
    assert row["checkpoint"] == ("base" if step == 0 else f"checkpoint-{step}")
    assert (row["samples"], row["tokens"]) == (want["n_seq"], want["n_tok"])
    for mine, theirs in {
        "kl_ref_token_exact": "kl_exact",
        "kl_ref_response_exact": "kl_exact_seq",
        "kl_k1_token": "k1",
        "kl_k1_response": "k1_seq",
        "kl_k3_token": "k3",
        "entropy_token": "entropy",
        "perplexity_policy": "ppl_policy",
        "perplexity_reference": "ppl_ref",
        "mean_length": "mean_len",
    }.items():
        assert near(row[mine], want[theirs]), (mine, row[mine], want[theirs])


def test_every_truth_is_compared() -> None:
    assert len(CASES) == 24
    assert sum("pairs" in parts for steps in TRUTH.values() for parts in steps.values()) == 1


def test_pairs_under_the_reference_are_what_float64_found(
    fixture_scores: Callable[[str], Run],
) -> None:
    want = TRUTH["dpo_collapsed"]["0"]["pairs"]
    run = fixture_scores("dpo_collapsed")
    for part in ("chosen", "rejected"):
        (row,) = rows(run, part=part)
        assert (row["role"], row["samples_file"]) == ("reference", "eval_pairs.json")
        assert near(row["logprob_response_policy"], want[f"{part}_logp_seq"])
        assert near(row["logprob_response_reference"], want[f"{part}_ref_logp_seq"])
        assert near(row["perplexity_policy"], want[f"{part}_ppl"])
        assert row["kl_ref_token_exact"] == 0


def test_positions_add_up_to_the_whole(fixture_scores: Callable[[str], Run]) -> None:
    for row in rows(fixture_scores("grpo_late")):
        parts = row["perplexity_by_position"]
        assert [part["first"] for part in parts] == [2**n for n in range(len(parts))]
        assert sum(part["tokens"] for part in parts) == row["tokens"]
        for whole, name in (("perplexity_policy", "policy"), ("perplexity_reference", "reference")):
            mean = sum(part["tokens"] * math.log(part[name]) for part in parts) / row["tokens"]
            assert math.exp(mean) == pytest.approx(row[whole], rel=1e-9)
        mean = sum(part["tokens"] * part["kl"] for part in parts) / row["tokens"]
        assert mean == pytest.approx(row["kl_ref_token_exact"], rel=1e-9, abs=1e-12)


def test_the_files_own_log_probabilities_are_compared(
    fixture_scores: Callable[[str], Run],
) -> None:
    """bad_samples.jsonl holds what the trainer logged, rounded to five digits."""
    run = fixture_scores("grpo_late")
    for row in rows(run, samples_file="bad_samples.jsonl"):
        assert 0 < row["logprob_gap"] < 2e-3
        assert abs(row["kl_k1_file"] - row["kl_k1_token"]) < 2e-3


def test_the_incomplete_checkpoint_of_a_killed_run_is_scored(
    fixture_scores: Callable[[str], Run],
) -> None:
    run = fixture_scores("grpo_killed")
    (checkpoint,) = [item for item in run.checkpoints if item.step == 60]
    assert not checkpoint.complete
    assert len(rows(run, checkpoint="checkpoint-60")) == 1


@pytest.mark.parametrize("name", list(TRUTH))
def test_values_can_be_written_as_json(name: str, fixture_scores: Callable[[str], Run]) -> None:
    run = fixture_scores(name)
    text = json.dumps([rows(run), run.references], allow_nan=False)
    assert json.loads(text)[0] == rows(run)


def test_the_reference_is_told(fixture_scores: Callable[[str], Run]) -> None:
    assert fixture_scores("grpo_late").references == (
        {
            "name": "base",
            "path": str(BASE),
            "stored": "float32",
            "dtype": "float32",
            "device": "cpu",
            "vocabulary": 1024,
            "temperature": 1.0,
            "noise_floor": 1e-5,
        },
    )


# A run made here: two checkpoints near their reference


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return a reference, checkpoints 10 and 20, and responses of them, 4 prompts by 3."""
    folder = tmp_path_factory.mktemp("made")
    base = built("llama", seed=1)
    networks = {0: base, 10: moved(base, 2, by=0.02), 20: moved(base, 3, by=0.06)}
    prompts = sequences(5, 1, 9, 3, seed=5)
    answers = sequences(*(4 + 3 * (n % 5) for n in range(12)), seed=6)
    samples = [
        {**TEXT, "prompt_ids": list(prompts[n // 3]), "token_ids": list(ids)}
        for n, ids in enumerate(answers)
    ]
    saved(base, folder / "base")
    for step in (10, 20):
        saved(networks[step], folder / "run" / f"checkpoint-{step}")
        (folder / "run" / f"checkpoint-{step}" / "trainer_state.json").write_text("{}")
    write_jsonl(folder / "run" / "samples.jsonl", samples)
    return {"folder": folder, "networks": networks, "samples": samples}


def copied(made: dict[str, Any], tmp_path: Path) -> tuple[Path, Path]:
    """Return a run folder that a test may change, and its reference."""
    shutil.copytree(made["folder"], tmp_path / "made")
    return tmp_path / "made" / "run", tmp_path / "made" / "base"


@pytest.fixture(scope="session")
def whole(made: dict[str, Any]) -> Run:
    return recompute(run_at(made["folder"] / "run"), [made["folder"] / "base"], PLAIN)


def naive(
    policy: Any, reference: Any, samples: list[dict[str, Any]], temperature: float = 1.0
) -> list[tuple[torch.Tensor, ...]]:
    """Return KL, entropy and log-probabilities of each response, whole logits in float64."""
    policy, reference = (copy.deepcopy(each).double() for each in (policy, reference))
    found: list[tuple[torch.Tensor, ...]] = []
    for sample in samples:
        ids = sample["prompt_ids"] + sample["token_ids"]
        at = slice(len(sample["prompt_ids"]) - 1, -1)
        p, q = (logits_of(each, ids)[at] / temperature for each in (policy, reference))
        found.append(truth(p, q, torch.tensor(sample["token_ids"])))
    return found


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("step", [10, 20])
def test_a_checkpoint_is_what_a_plain_computation_finds(
    step: int, temperature: float, made: dict[str, Any]
) -> None:
    folder, networks = made["folder"], made["networks"]
    options = replace(PLAIN, temperature=temperature)
    run = recompute(run_at(folder / "run"), [folder / "base"], options)
    (row,) = rows(run, step=step)
    want = naive(networks[step], networks[0], made["samples"], temperature)
    kl, entropy, policy, reference = (torch.cat(part) for part in zip(*want, strict=True))
    assert row["on_policy"] is False
    assert near(row["kl_ref_token_exact"], float(kl.mean()))
    assert near(row["kl_ref_response_exact"], float(kl.sum()) / 12)
    assert near(row["entropy_token"], float(entropy.mean()))
    assert near(row["perplexity_policy"], math.exp(-float(policy.mean())))
    assert near(row["perplexity_reference"], math.exp(-float(reference.mean())))
    assert near(row["kl_k1_token"], float((policy - reference).mean()))
    assert near(
        row["kl_k3_token"], float(((reference - policy).expm1() + policy - reference).mean())
    )
    assert near(row["logprob_response_policy"], float(policy.sum()) / 12)
    low, high = row["interval_low"], row["interval_high"]
    assert low < row["kl_ref_token_exact"] < high


def test_the_temperature_of_the_run_is_used(made: dict[str, Any], tmp_path: Path) -> None:
    folder, base = copied(made, tmp_path)
    (folder / "run_config.json").write_text('{"temperature": 0.7}', encoding="utf-8")
    run = run_at(folder)
    assert run.number("temperature") == 0.7
    found = recompute(run, [base], PLAIN)
    assert found.references[0]["temperature"] == 0.7
    asked = recompute(run_at(made["folder"] / "run"), [base], replace(PLAIN, temperature=0.7))
    assert numbers(found) == numbers(asked)


def pairs(made: dict[str, Any], tmp_path: Path, beta: str) -> tuple[Run, list[float]]:
    """Return a scored run of pairs, and the margin in nats of each under checkpoint-20."""
    folder, base = copied(made, tmp_path)
    (folder / "samples.jsonl").unlink()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(BASE / name, base / name)
    for place in (base, folder / "checkpoint-10", folder / "checkpoint-20"):
        shutil.rmtree(place)
    network = built("llama", seed=1, vocab_size=1024)
    policy = moved(network, 3, by=0.06)
    saved(network, base)
    shutil.copy(BASE / "tokenizer.json", base / "tokenizer.json")
    saved(policy, folder / "checkpoint-20")
    (folder / "checkpoint-20" / "trainer_state.json").write_text("{}")
    if beta:
        (folder / "run_config.json").write_text(beta, encoding="utf-8")
    told = json.loads((FIXTURES / "dpo_collapsed" / "eval_pairs.json").read_text(encoding="utf-8"))
    (folder / "eval_pairs.json").write_text(json.dumps(told[:9]), encoding="utf-8")
    from tokenizers import Tokenizer

    encode = Tokenizer.from_file(str(BASE / "tokenizer.json"))

    def ratios(part: str) -> list[float]:
        samples = [
            {
                "prompt_ids": encode.encode(pair["prompt"], add_special_tokens=False).ids,
                "token_ids": [*encode.encode(pair[part], add_special_tokens=False).ids, 2],
            }
            for pair in told[:9]
        ]
        return [float((p - q).sum()) for _, _, p, q in naive(policy, network, samples)]

    margins = [a - b for a, b in zip(ratios("chosen"), ratios("rejected"), strict=True)]
    return recompute(run_at(folder), [base], PLAIN), margins


@pytest.mark.parametrize("beta", ['{"beta": 0.5}', ""], ids=["beta 0.5", "no beta"])
def test_pairs_under_a_checkpoint_have_margins(
    beta: str, made: dict[str, Any], tmp_path: Path
) -> None:
    run, margins = pairs(made, tmp_path, beta)
    chosen, rejected = (rows(run, step=20, part=part)[0] for part in ("chosen", "rejected"))
    mean = math.fsum(margins) / len(margins)
    for row in (chosen, rejected):
        assert near(row["margin_nats"], mean)
        assert row["accuracy"] == sum(margin > 0 for margin in margins) / len(margins)
    assert 0 < chosen["accuracy"] < 1, "pairs on both sides"
    if beta:
        assert near(chosen["margin"], 0.5 * mean)
        assert near(chosen["reward"] - rejected["reward"], 0.5 * mean)
    else:
        assert chosen["margin"] is chosen["reward"] is None


# What it costs


def test_a_fixed_set_costs_one_pass_a_model(
    made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made["folder"]
    tokens = sum(len(item["prompt_ids"]) + len(item["token_ids"]) for item in made["samples"])
    with counted(monkeypatch) as passes:
        recompute(run_at(folder / "run"), [folder / "base"], replace(PLAIN, budget=64))
    assert sum(count for count, _ in passes) == 12 * (2 + 1)
    assert sum(size for _, size in passes) == tokens * (2 + 1)
    assert all(size <= 64 for _, size in passes)
    assert len(passes) > 6


def test_samples_of_each_checkpoint_cost_two_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """And those of step 0, which are the reference's own, cost one."""
    with counted(monkeypatch) as passes:
        recompute(run_at(FIXTURES / "grpo_late"), [BASE], PLAIN)
    assert sum(count for count, _ in passes) == 3 * (64 + 32) * 2 + (64 + 32)


def test_two_references_cost_one_pass_more_and_say_the_same(
    made: dict[str, Any], whole: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made["folder"]
    other = folder / "run" / "checkpoint-10"
    run = run_at(folder / "run")
    with counted(monkeypatch) as passes:
        both = recompute(run, [folder / "base", other], PLAIN)
    assert sum(count for count, _ in passes) == 12 * (2 + 2)
    alone = recompute(run, [other], PLAIN)
    for reference, single in (("base", whole), ("checkpoint-10", alone)):
        mine = [row for row in numbers(both) if row["reference"] == reference]
        assert mine == numbers(single)
    assert len(rows(both)) == len(rows(whole)) + len(rows(alone))
    (itself,) = rows(both, reference="checkpoint-10", checkpoint="checkpoint-10", role="policy")
    assert abs(itself["kl_ref_token_exact"]) < 1e-6
    assert itself["below_floor"]


def test_a_reference_that_is_given_twice_is_scored_once(made: dict[str, Any]) -> None:
    base = made["folder"] / "base"
    run = recompute(run_at(made["folder"] / "run"), [base, base / ".." / "base"], PLAIN)
    assert [item["name"] for item in run.references] == ["base"]


def test_a_file_of_samples_without_checkpoints_tells_of_step_0_alone(
    made: dict[str, Any], tmp_path: Path
) -> None:
    samples = [{**item, "step": n % 3} for n, item in enumerate(made["samples"])]
    write_jsonl(tmp_path / "samples.jsonl", samples)
    run = recompute(run_at(tmp_path), [made["folder"] / "base"], PLAIN)
    (row,) = rows(run)
    assert (row["samples"], row["on_policy"], row["role"]) == (4, True, "reference")
    assert "8 samples of steps 1, 2 have no checkpoint; not scored" in told(run)


def test_references_of_one_name_are_told_apart(
    made: dict[str, Any], whole: Run, tmp_path: Path
) -> None:
    _, twin = copied(made, tmp_path)
    base = made["folder"] / "base"
    both = recompute(run_at(made["folder"] / "run"), [base, twin], PLAIN)
    assert [item["name"] for item in both.references] == [str(base), str(twin)]
    assert {row["reference"] for row in rows(both)} == {str(base), str(twin)}


# The same numbers another way


def test_hidden_states_on_disk_change_no_bit(
    made: dict[str, Any], whole: Run, tmp_path: Path
) -> None:
    folder = made["folder"]
    options = replace(PLAIN, cache=tmp_path)
    found = recompute(run_at(folder / "run"), [folder / "base"], options)
    assert numbers(found) == numbers(whole)
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"


def test_a_cache_that_is_not_there_is_told(made: dict[str, Any], tmp_path: Path) -> None:
    folder = made["folder"]
    with pytest.raises(DoctorError, match="hidden states on disk"):
        recompute(
            run_at(folder / "run"), [folder / "base"], replace(PLAIN, cache=tmp_path / "nowhere")
        )


def test_buckets_say_what_packed_batches_say(
    made: dict[str, Any], whole: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(models, "PACKABLE", frozenset())
    folder = made["folder"]
    with counted(monkeypatch) as passes:
        found = recompute(run_at(folder / "run"), [folder / "base"], PLAIN)
    assert len(passes) > 3, "buckets are smaller than one packed batch"
    assert alike(numbers(found), numbers(whole), 1e-6)


def test_one_model_that_cannot_be_packed_unpacks_them_all(
    made: dict[str, Any], tmp_path: Path
) -> None:
    folder, base = copied(made, tmp_path)
    windowed = built("mistral", seed=4, sliding_window=4)
    shutil.rmtree(folder / "checkpoint-20")
    saved(windowed, folder / "checkpoint-20")
    (folder / "checkpoint-20" / "trainer_state.json").write_text("{}")
    run = recompute(run_at(folder), [base], PLAIN)
    for step, network in ((10, made["networks"][10]), (20, windowed)):
        want = naive(network, made["networks"][0], made["samples"])
        (row,) = rows(run, step=step)
        assert near(row["kl_ref_token_exact"], float(torch.cat([kl for kl, *_ in want]).mean()))


def failing_above(tokens: int, monkeypatch: pytest.MonkeyPatch, after: int = 0) -> list[int]:
    """Let batches above so many tokens run out of memory, once ``after`` passes went well."""
    own = Model.hidden
    sizes: list[int] = []

    def hidden(self: Model, batch: Any, ids: Any) -> Any:
        sizes.append(sum(len(ids[index]) for index in batch.indices))
        if sizes[-1] > tokens and len(sizes) > after:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return own(self, batch, ids)

    monkeypatch.setattr(Model, "hidden", hidden)
    return sizes


@pytest.mark.parametrize("after", [0, 1, 2], ids=["reference", "checkpoint-10", "checkpoint-20"])
def test_a_lack_of_memory_halves_the_batches(
    after: int, made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One batch holds the whole set, so each pass is a model."""
    sample = made["samples"] * 8
    folder = made["folder"]
    run = run_at(folder / "run")
    run = replace(run, samples=pl.concat([run.samples] * 8))
    want = recompute(run, [folder / "base"], PLAIN)
    sizes = failing_above(1200, monkeypatch, after)
    found = recompute(run, [folder / "base"], replace(PLAIN, budget=2048))
    assert max(sizes) == sum(len(item["prompt_ids"] + item["token_ids"]) for item in sample)
    assert "recompute: out of memory with 2048 tokens a batch; went on with 1024" in told(found)
    assert len(rows(found)) == len(rows(want))
    assert alike(numbers(found), numbers(want), 1e-6)


def test_a_damaged_checkpoint_is_noted_once_though_memory_lacks_after_it(
    made: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, base = copied(made, tmp_path)
    poorer(folder / "checkpoint-10")
    run = run_at(folder)
    run = replace(run, samples=pl.concat([run.samples] * 8))
    failing_above(1200, monkeypatch, after=1)
    found = recompute(run, [base], replace(PLAIN, budget=2048))
    assert told(found).count("checkpoint-10: not scored") == 1
    assert told(found).count("out of memory") == 1
    assert [row["step"] for row in rows(found)] == [0, 20]


def test_a_batch_of_next_to_nothing_that_does_not_fit_is_an_error(
    made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = made["folder"]
    failing_above(0, monkeypatch)
    with pytest.raises(DoctorError, match="do not fit into the memory of cpu"):
        recompute(run_at(folder / "run"), [folder / "base"], PLAIN)


def test_another_error_is_not_taken_for_a_lack_of_memory(
    made: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def hidden(*_: Any) -> Any:
        raise RuntimeError("something else")

    monkeypatch.setattr(Model, "hidden", hidden)
    folder = made["folder"]
    with pytest.raises(RuntimeError, match="something else"):
        recompute(run_at(folder / "run"), [folder / "base"], PLAIN)


# Half precision


@pytest.fixture(scope="session")
def halved(made: dict[str, Any]) -> Run:
    folder = made["folder"]
    return recompute(run_at(folder / "run"), [folder / "base"], replace(PLAIN, dtype="bfloat16"))


def test_half_precision_has_a_floor_and_says_what_lies_below(
    made: dict[str, Any], halved: Run, whole: Run
) -> None:
    floors = {row["noise_floor"] for row in rows(halved)}
    assert len(floors) == 1
    assert 5e-3 <= min(floors) < 0.1
    for row, exact in zip(rows(halved), rows(whole), strict=True):
        assert row["dtype"] == "bfloat16"
        kl = exact["kl_ref_token_exact"]
        assert abs(row["kl_ref_token_exact"] - kl) < row["noise_floor"] + 0.05 * kl
        if row["role"] == "policy":
            assert row["below_floor"] == (abs(row["kl_ref_token_exact"]) < row["noise_floor"])


def test_a_checkpoint_that_did_not_move_lies_below_the_floor(
    made: dict[str, Any], tmp_path: Path
) -> None:
    folder, base = copied(made, tmp_path)
    shutil.rmtree(folder / "checkpoint-10")
    saved(moved(made["networks"][0], 7, by=1e-4), folder / "checkpoint-10")
    (folder / "checkpoint-10" / "trainer_state.json").write_text("{}")
    run = recompute(run_at(folder), [base], replace(PLAIN, dtype="bfloat16"))
    assert {row["step"]: row["below_floor"] for row in rows(run, role="policy")} == {
        10: True,
        20: False,
    }
    assert not any(row["below_floor"] for row in rows(run, role="reference"))


def test_half_precision_states_on_disk_change_no_bit(
    made: dict[str, Any], halved: Run, tmp_path: Path
) -> None:
    folder = made["folder"]
    options = replace(PLAIN, dtype="bfloat16", cache=tmp_path)
    assert numbers(recompute(run_at(folder / "run"), [folder / "base"], options)) == numbers(halved)


def test_a_difference_of_storage_is_told(fixture_scores: Callable[[str], Run]) -> None:
    assert "base: stored as float32, checkpoints as float16" in told(fixture_scores("grpo_late"))


# What cannot be scored


def cut(checkpoint: Path) -> None:
    file = checkpoint / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-100])


def poorer(checkpoint: Path) -> None:
    state = load_file(checkpoint / "model.safetensors")
    state.pop("model.norm.weight")
    save_file(state, checkpoint / "model.safetensors", metadata={"format": "pt"})


def smaller(**changes: Any) -> Callable[[Path], None]:
    def write(checkpoint: Path) -> None:
        saved(built("llama", seed=4, **changes), checkpoint)

    return write


@pytest.mark.parametrize("step", [10, 20], ids=["the first", "the last"])
@pytest.mark.parametrize(
    ("damage", "why"),
    [
        pytest.param(cut, "model.safetensors", id="weights cut"),
        pytest.param(poorer, "1 weights do not fit: model.norm.weight", id="a weight missing"),
        pytest.param(
            lambda checkpoint: (checkpoint / "config.json").write_text("{"),
            "config.json cannot be used",
            id="a damaged config",
        ),
        pytest.param(
            smaller(vocab_size=100),
            "its vocabulary has 100 entries, that of base 300",
            id="a smaller vocabulary",
        ),
        pytest.param(
            smaller(max_position_embeddings=8), "its 8 positions are fewer", id="fewer positions"
        ),
    ],
)
def test_a_checkpoint_that_cannot_be_scored_is_noted_and_the_rest_scored(
    damage: Callable[[Path], object],
    why: str,
    step: int,
    made: dict[str, Any],
    whole: Run,
    tmp_path: Path,
) -> None:
    folder, base = copied(made, tmp_path)
    damage(folder / f"checkpoint-{step}")
    found = recompute(run_at(folder), [base], PLAIN)
    (line,) = [
        line
        for line in told(found).splitlines()
        if line.startswith(f"checkpoint-{step}: not scored")
    ]
    assert why in line
    want = [row for row in numbers(whole) if row["step"] != step]
    assert alike(numbers(found), want, 1e-6)


def test_samples_that_a_second_reference_cannot_read_are_left_out(
    made: dict[str, Any], tmp_path: Path
) -> None:
    folder = made["folder"]
    small = saved(built("llama", seed=4, max_position_embeddings=16), tmp_path / "small")
    run = recompute(run_at(folder / "run"), [folder / "base", small], PLAIN)
    lengths = [len(item["prompt_ids"] + item["token_ids"]) for item in made["samples"]]
    fit = sum(length <= 16 for length in lengths)
    assert 0 < fit < 12
    assert {row["samples"] for row in rows(run)} == {fit}
    assert f"{12 - fit} samples are longer than the model's 16 positions" in told(run)


@pytest.mark.parametrize("count", [0, 1])
def test_a_run_without_checkpoints_has_the_references_rows(
    count: int, made: dict[str, Any], whole: Run, tmp_path: Path
) -> None:
    folder, base = copied(made, tmp_path)
    for step in (10, 20)[count:]:
        shutil.rmtree(folder / f"checkpoint-{step}")
    run = recompute(run_at(folder), [base], PLAIN)
    assert numbers(run) == numbers(whole)[: 1 + count]
    assert rows(run)[0]["role"] == "reference"


def test_a_diverged_checkpoint_is_scored_as_it_is(made: dict[str, Any], tmp_path: Path) -> None:
    folder, base = copied(made, tmp_path)
    file = folder / "checkpoint-20" / "model.safetensors"
    state = load_file(file)
    state["model.norm.weight"][3] = math.nan
    save_file(state, file, metadata={"format": "pt"})
    run = recompute(run_at(folder), [base], PLAIN)
    (row,) = rows(run, step=20)
    assert math.isnan(row["kl_ref_token_exact"])
    assert not row["below_floor"]
    assert len(rows(run, step=10)) == 1


@pytest.mark.parametrize(
    ("reference", "why"),
    [
        pytest.param("nowhere", "no such file or folder", id="nothing there"),
        pytest.param("run", "holds no config.json", id="a folder without a model"),
        pytest.param("nowhere.gguf", "no such file or folder", id="no such GGUF file"),
    ],
)
def test_a_reference_that_is_none_is_an_error(
    reference: str, why: str, made: dict[str, Any]
) -> None:
    with pytest.raises(DoctorError, match=why) as caught:
        recompute(run_at(made["folder"] / "run"), [made["folder"] / reference], PLAIN)
    assert "nothing is downloaded" in caught.value.hint


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        pytest.param({"dtype": "int8"}, "no dtype is called int8", id="an unknown dtype"),
        pytest.param({"device": "nowhere"}, "--device nowhere", id="an unknown device"),
        pytest.param({"temperature": 0.0}, "cannot divide logits", id="temperature 0"),
        pytest.param({"temperature": math.nan}, "cannot divide logits", id="temperature NaN"),
        pytest.param({"sources": ("x.jsonl",)}, "no samples can be scored", id="no such file"),
        pytest.param({"tokenizer": Path("/nowhere")}, "holds no tokenizer.json", id="no tokenizer"),
    ],
)
def test_an_option_that_cannot_be_met_is_an_error(
    changes: dict[str, Any], why: str, made: dict[str, Any]
) -> None:
    folder = made["folder"]
    with pytest.raises(DoctorError, match=why):
        recompute(run_at(folder / "run"), [folder / "base"], replace(PLAIN, **changes))


def test_samples_of_another_model_are_an_error(made: dict[str, Any], tmp_path: Path) -> None:
    tiny = saved(built("llama", vocab_size=3), tmp_path / "tiny")
    with pytest.raises(DoctorError, match="no sample fits"):
        recompute(run_at(made["folder"] / "run"), [tiny], PLAIN)


def test_fewer_samples_can_be_asked_for(made: dict[str, Any]) -> None:
    folder = made["folder"]
    run = recompute(run_at(folder / "run"), [folder / "base"], replace(PLAIN, most=4))
    assert {row["samples"] for row in rows(run)} == {4}
    assert "4 of 12 samples are scored (--max-samples)" in told(run)
    spaced = [made["samples"][index] for index in (0, 3, 6, 9)]
    want = naive(made["networks"][20], made["networks"][0], spaced)
    (row,) = rows(run, step=20)
    assert near(row["kl_ref_token_exact"], float(torch.cat([kl for kl, *_ in want]).mean()))


def test_padding_of_the_vocabulary_does_not_count(
    made: dict[str, Any], whole: Run, tmp_path: Path
) -> None:
    """The checkpoint's head has rows that no token has, and they would win."""
    folder, base = copied(made, tmp_path)
    for step in (10, 20):
        network = copy.deepcopy(made["networks"][step])
        network.resize_token_embeddings(320, mean_resizing=False)
        with torch.no_grad():
            network.lm_head.weight[300:] = made["networks"][0].lm_head.weight[5] * 20
        saved(network, folder / f"checkpoint-{step}")
    found = recompute(run_at(folder), [base], PLAIN)
    assert alike(numbers(found), numbers(whole), 1e-6)


def test_rows_that_only_the_reference_has_do_not_count_either(
    made: dict[str, Any], whole: Run, tmp_path: Path
) -> None:
    folder, base = copied(made, tmp_path)
    network = copy.deepcopy(made["networks"][0])
    network.resize_token_embeddings(320, mean_resizing=False)
    with torch.no_grad():
        network.lm_head.weight[300:] = made["networks"][0].lm_head.weight[5] * 20
    saved(network, base)
    found = recompute(run_at(folder), [base], PLAIN)
    policy = [row for row in numbers(found) if row["role"] == "policy"]
    assert alike(policy, [row for row in numbers(whole) if row["role"] == "policy"], 1e-6)


# Intervals


def test_the_interval_is_that_of_a_ratio_over_prompts(made: dict[str, Any], whole: Run) -> None:
    want = naive(made["networks"][20], made["networks"][0], made["samples"])
    kl = [float(each[0].sum()) for each in want]
    tokens = [len(each[0]) for each in want]
    mean = sum(kl) / sum(tokens)
    rest = [
        sum(kl[n] - mean * tokens[n] for n in range(3 * prompt, 3 * prompt + 3))
        for prompt in range(4)
    ]
    half = 1.96 * math.sqrt(4 / 3 * sum(each**2 for each in rest)) / sum(tokens)
    (row,) = rows(whole, step=20)
    assert row["interval_low"] == pytest.approx(mean - half, abs=1e-5)
    assert row["interval_high"] == pytest.approx(mean + half, abs=1e-5)
    assert half > 1e-3


def test_the_interval_covers_the_mean_of_all_prompts(made: dict[str, Any], tmp_path: Path) -> None:
    """Of 40 draws of 8 prompts out of 40, most have an interval that holds the mean over all."""
    folder, base = copied(made, tmp_path)
    prompts = sequences(*[4] * 40, seed=11)
    answers = sequences(*[6 + n % 9 for n in range(160)], seed=12)
    samples = [
        {**TEXT, "prompt_ids": list(prompts[n // 4]), "token_ids": list(ids)}
        for n, ids in enumerate(answers)
    ]
    write_jsonl(folder / "samples.jsonl", samples)
    for seed in range(40):
        order = torch.randperm(40, generator=torch.Generator().manual_seed(seed))[:8].tolist()
        drawn = [samples[4 * prompt + n] for prompt in order for n in range(4)]
        write_jsonl(folder / f"draw-{seed}-samples.jsonl", drawn)
    shutil.rmtree(folder / "checkpoint-10")
    run = recompute(run_at(folder), [base], PLAIN)
    (whole_set,) = rows(run, step=20, samples_file="samples.jsonl")
    mean = whole_set["kl_ref_token_exact"]
    draws = [row for row in rows(run, step=20) if row["samples"] == 32]
    assert len(draws) == 40
    covered = sum(row["interval_low"] <= mean <= row["interval_high"] for row in draws)
    assert 32 <= covered < 40
    widths = [row["interval_high"] - row["interval_low"] for row in draws]
    assert max(widths) < mean, "intervals that say something"


def test_one_prompt_has_no_interval(made: dict[str, Any], tmp_path: Path) -> None:
    folder, base = copied(made, tmp_path)
    write_jsonl(folder / "samples.jsonl", made["samples"][:3])
    for row in rows(recompute(run_at(folder), [base], PLAIN)):
        assert row["interval_low"] is row["interval_high"] is None


def test_samples_of_one_prompt_widen_the_interval(made: dict[str, Any], tmp_path: Path) -> None:
    """Each response three times is no more knowledge than once."""
    folder, base = copied(made, tmp_path)
    write_jsonl(folder / "samples.jsonl", made["samples"] * 3)
    (three,) = rows(recompute(run_at(folder), [base], PLAIN), step=20)
    (once,) = rows(recompute(run_at(made["folder"] / "run"), [base], PLAIN), step=20)
    assert three["samples"] == 36
    assert three["interval_high"] == pytest.approx(once["interval_high"], rel=1e-6)


# Adapters


@pytest.fixture
def adapters(
    made: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Path, Path, dict[int, Any]]:
    """Return a run whose checkpoints are adapters, its reference, and the merged networks."""
    folder, base = copied(made, tmp_path)
    merged = {}
    for step in (10, 20):
        shutil.rmtree(folder / f"checkpoint-{step}")
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(step)
            config = peft.LoraConfig(
                task_type="CAUSAL_LM", r=4, target_modules=["q_proj", "v_proj"]
            )
            wrapped: Any = peft.get_peft_model(copy.deepcopy(made["networks"][0]), config)
            with torch.no_grad():
                for name, parameter in wrapped.named_parameters():
                    if "lora_" in name:
                        parameter.add_(torch.randn_like(parameter) * 0.05)
        wrapped.save_pretrained(str(folder / f"checkpoint-{step}"))
        (folder / f"checkpoint-{step}" / "trainer_state.json").write_text("{}")
        merged[step] = wrapped.merge_and_unload()
    return folder, base, merged


QUIET = pytest.mark.filterwarnings("ignore::FutureWarning")
"""PEFT's own use of transformers, in the making of adapters."""


@QUIET
def test_adapters_are_scored_on_the_reference(
    adapters: tuple[Path, Path, dict[int, Any]],
    made: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder, base, merged = adapters
    with counted(monkeypatch) as passes:
        run = recompute(run_at(folder), [base], PLAIN)
    assert sum(count for count, _ in passes) == 12 * 3
    for step, network in merged.items():
        want = naive(network, made["networks"][0], made["samples"])
        (row,) = rows(run, step=step)
        kl = float(torch.cat([kl for kl, *_ in want]).mean())
        assert kl > 1e-3
        assert near(row["kl_ref_token_exact"], kl)
        assert near(row["entropy_token"], float(torch.cat([each[1] for each in want]).mean()))


@QUIET
def test_adapters_are_put_on_the_reference_that_they_name(
    adapters: tuple[Path, Path, dict[int, Any]], made: dict[str, Any], tmp_path: Path
) -> None:
    folder, base, _ = adapters
    run, other = tmp_path / "run", made["folder"] / "run" / "checkpoint-20"
    shutil.copytree(folder, run)
    for config in run.glob("*/adapter_config.json"):
        told_there = json.loads(config.read_text())
        named = {**told_there, "base_model_name_or_path": f"elsewhere/{base.name}"}
        config.write_text(json.dumps(named))
    mine = recompute(run_at(run), [base], PLAIN)
    both = recompute(run_at(run), [other, base], PLAIN)
    for one, other_order in zip(
        rows(mine, role="policy"), rows(both, role="policy", reference=base.name), strict=True
    ):
        assert near(one["kl_ref_token_exact"], other_order["kl_ref_token_exact"])
        assert near(one["perplexity_policy"], other_order["perplexity_policy"])
    assert f"adapters are scored on {base.name}" in told(both)
    assert "they name" not in told(both)
    alone = recompute(run_at(run), [other], PLAIN)
    assert f"scored on checkpoint-20; they name '{base.name}' as their base" in told(alone)


@QUIET
def test_adapters_and_whole_checkpoints_may_take_turns(
    adapters: tuple[Path, Path, dict[int, Any]], made: dict[str, Any], whole: Run
) -> None:
    folder, base, merged = adapters
    for step, network in ((5, made["networks"][10]), (15, made["networks"][20])):
        saved(network, folder / f"checkpoint-{step}")
        (folder / f"checkpoint-{step}" / "trainer_state.json").write_text("{}")
    run = recompute(run_at(folder), [base], PLAIN)
    for step, twin in ((5, 10), (15, 20)):
        (row,), (want,) = rows(run, step=step), rows(whole, step=twin)
        assert near(row["kl_ref_token_exact"], want["kl_ref_token_exact"])
    for step, network in merged.items():
        kl = torch.cat([kl for kl, *_ in naive(network, made["networks"][0], made["samples"])])
        (row,) = rows(run, step=step)
        assert near(row["kl_ref_token_exact"], float(kl.mean()))


@QUIET
def test_a_damaged_adapter_is_noted_and_the_next_scored(
    adapters: tuple[Path, Path, dict[int, Any]], made: dict[str, Any]
) -> None:
    folder, base, merged = adapters
    file = folder / "checkpoint-10" / "adapter_model.safetensors"
    state = load_file(file)
    state.pop(max(state))
    save_file(state, file)
    run = recompute(run_at(folder), [base], PLAIN)
    assert "checkpoint-10: not scored" in told(run)
    kl = torch.cat([kl for kl, *_ in naive(merged[20], made["networks"][0], made["samples"])])
    (row,) = rows(run, step=20)
    assert near(row["kl_ref_token_exact"], float(kl.mean()))


# What it leaves behind


def hashes(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


@QUIET
def test_nothing_is_written_into_the_run_or_the_reference(
    adapters: tuple[Path, Path, dict[int, Any]], made: dict[str, Any]
) -> None:
    folder, base, _ = adapters
    for place, reference in ((folder, base), (made["folder"] / "run", made["folder"] / "base")):
        before = hashes(place), hashes(reference)
        recompute(run_at(place), [reference], PLAIN)
        assert (hashes(place), hashes(reference)) == before


def test_neither_the_seed_nor_the_call_before_matters(made: dict[str, Any], whole: Run) -> None:
    folder = made["folder"]
    torch.manual_seed(123)
    state = torch.get_rng_state()
    found = recompute(run_at(folder / "run"), [folder / "base"], PLAIN)
    assert numbers(found) == numbers(whole)
    assert torch.equal(torch.get_rng_state(), state)


def test_the_progress_ends_where_it_said(made: dict[str, Any]) -> None:
    folder = made["folder"]
    seen: list[tuple[str, int, int]] = []
    recompute(
        run_at(folder / "run"),
        [folder / "base"],
        replace(PLAIN, budget=64),
        lambda what, done, total: seen.append((what, done, total)),
    )
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    assert seen[-1][1] == seen[-1][2]
    assert list(dict.fromkeys(what for what, _, _ in seen)) == [
        "reference base",
        "checkpoint-10",
        "checkpoint-20",
    ]


def test_what_was_known_of_the_run_stays(made: dict[str, Any], whole: Run) -> None:
    run = run_at(made["folder"] / "run")
    assert whole.checkpoints == run.checkpoints
    assert whole.notes[: len(run.notes)] == run.notes
    assert run.scores is None


def test_a_config_that_differs_in_bookkeeping_is_refilled(
    made: dict[str, Any], whole: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, base = copied(made, tmp_path)
    edited(folder / "checkpoint-20", transformers_version="4.0.0", use_cache=False)
    loads: list[str] = []
    own = models.load

    def load(path: Path, **options: Any) -> Model:
        loads.append(path.name)
        return own(path, **options)

    monkeypatch.setattr(models, "load", load)
    assert numbers(recompute(run_at(folder), [base], PLAIN)) == numbers(whole)
    assert loads == ["base", "checkpoint-10"]
