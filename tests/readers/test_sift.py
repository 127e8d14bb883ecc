from collections.abc import Sequence
from pathlib import Path

import pytest

from rlhfdoctor.readers.console import console
from tests.readers.helpers import Read, read, write


def log(tmp_path: Path, lines: Sequence[str]) -> Read:
    return read(console, write(tmp_path / "train.log", "".join(f"{line}\n" for line in lines)))


def pairs(step: int, loss: float) -> str:
    return f"step {step} | loss: {loss} | reward: {step / 8}"


def trainer(step: int) -> str:
    numbers = {"loss": step / 8, "grad_norm": 0.5, "learning_rate": 1e-6, "reward": 0.25}
    return str({**numbers, "reward_std": 0.5, "kl": 0.125, "epoch": step / 100})


def verl(step: int, more: str = "") -> str:
    names = ("entropy", "pg_loss", "ppo_kl", "pg_clipfrac", "grad_norm", "kl_loss", "lr")
    return f"step:{step} - " + " - ".join(f"actor/{name}:{step / 8}" for name in names) + more


# ranks


@pytest.mark.parametrize(
    ("lines", "ranks"),
    [
        pytest.param(
            [f"{rank}: {pairs(step, rank)}" for step in range(1, 5) for rank in (0, 1)],
            [0, 1] * 4,
            id="labels that take turns",
        ),
        pytest.param(
            [
                f"(Worker pid={70 - rank}) {pairs(step, rank)}"
                for step in (1, 2, 3)
                for rank in (0, 1)
            ],
            [0, 1] * 3,
            id="processes of one name that take turns",
        ),
        pytest.param(
            [f"{step}: {pairs(step, 0.5)}" for step in range(5)], [None] * 5, id="numbered lines"
        ),
        pytest.param(
            [f"{epoch}: {pairs(4 * epoch + at, 0.5)}" for epoch in (0, 1) for at in range(4)],
            [None] * 8,
            id="epochs",
        ),
        pytest.param(
            [f"{rank}: {pairs(step, rank)}" for step in range(1, 5) for rank in (3, 7)],
            [None] * 8,
            id="numbers that do not begin at 0",
        ),
        pytest.param(
            [f"(Task pid={pid}) {pairs(step, pid)}" for pid in (7, 9) for step in (1, 2, 3)],
            [None] * 6,
            id="a process that was restarted",
        ),
        pytest.param(
            [
                f"(Worker pid={pid}) step {step} | {name} loss: 0.5 | {name} grad norm: {step}"
                for step in (1, 2, 3)
                for pid, name in ((7, "actor"), (9, "critic"))
            ],
            [None] * 6,
            id="processes that measure different things",
        ),
    ],
)
def test_processes_that_tell_of_the_same_steps_in_turns_are_ranks(
    tmp_path: Path, lines: list[str], ranks: list[int | None]
) -> None:
    assert [row.rank for row in log(tmp_path, lines).rows] == ranks


# commas


@pytest.mark.parametrize(
    ("fields", "values", "left_out"),
    [
        pytest.param("loss: 0,693 | kl: 0,012", {"loss": 0.693, "kl": 0.012}, 0, id="decimals"),
        pytest.param("loss: 1,234 | kl: -0,5", {"loss": 1.234, "kl": -0.5}, 0, id="and a thousand"),
        pytest.param("loss=2,5e-05, kl=0,1", {"loss": 2.5e-5, "kl": 0.1}, 0, id="exponents"),
        pytest.param("loss: 0.5 | score: 1,234", {"loss": 0.5, "score": 1234}, 0, id="points"),
        pytest.param(
            "loss: 1,234,567 | score: 1,234", {"loss": 1234567, "score": 1234}, 0, id="two groups"
        ),
        pytest.param("loss: 1,234 | kl: 7", {"kl": 7}, 4, id="nothing else tells"),
        pytest.param("loss: 0,693 | kl: 1.234", {"loss": 0.693}, 4, id="a point that may group"),
        pytest.param("loss: 0,693 | kl: 0.5", {"kl": 0.5}, 4, id="points and decimal commas"),
    ],
)
def test_the_log_tells_what_its_commas_mean(
    tmp_path: Path, fields: str, values: dict[str, float], left_out: int
) -> None:
    found = log(tmp_path, [f"step {step} | {fields}" for step in range(1, 5)])
    assert [row.step for row in found.rows] == [1, 2, 3, 4]
    assert found.rows[0].values == values
    assert found.left_out == left_out
    assert ("may mean two things" in found.told) is bool(left_out)


def test_steps_may_group_their_thousands(tmp_path: Path) -> None:
    lines = [f"step {step:,}/2,000 | loss: 0.5 | kl: 0.25" for step in (990, 1000, 1010)]
    found = log(tmp_path, lines)
    assert [row.step for row in found.rows] == [990, 1000, 1010]
    assert {setting.name: setting.value for setting in found.settings} == {"planned_steps": 2000.0}


def test_a_step_among_the_pairs_may_group_its_thousands(tmp_path: Path) -> None:
    lines = [f"loss: 0.5 | kl: 0.25 | Step: {step:,}" for step in (990, 1000, 1010)]
    assert [row.step for row in log(tmp_path, lines).rows] == [990, 1000, 1010]


def test_prose_does_not_tell_what_the_commas_of_a_log_mean(tmp_path: Path) -> None:
    lines = [f"step {step} | loss: 0.5 | score: 1,{step}00" for step in range(1, 5)]
    found = log(tmp_path, [*lines, "loss: 0,5, reward: 0,1"])
    assert [row.values["score"] for row in found.rows] == [1100, 1200, 1300, 1400]


def test_the_steps_of_a_table_may_group_their_thousands(tmp_path: Path) -> None:
    rows = [f"| {step:,} | 0,5 |" for step in (990, 1000, 1010)]
    found = log(tmp_path, ["| step | loss |", "|---|---|", *rows])
    assert [(row.step, row.values["loss"]) for row in found.rows] == [
        (990, 0.5),
        (1000, 0.5),
        (1010, 0.5),
    ]


# records that a model wrote


@pytest.mark.parametrize(
    ("line", "other"),
    [
        pytest.param(trainer, "{'loss': 5.0, 'accuracy': 0.9, 'epoch': 3}", id="a dict"),
        pytest.param(trainer, "{'loss': 5.0, 'reward': 7.0, 'epoch': 0.05}", id="without a rate"),
        pytest.param(verl, "(Task pid=1) [response] step:3 - a/b:5 - c/d:6", id="a line of verl's"),
    ],
)
@pytest.mark.parametrize("often", [1, 3], ids=["now and then", "three times between two"])
def test_what_a_model_wrote_between_the_records_is_left_out(
    tmp_path: Path, line: object, other: str, often: int
) -> None:
    assert callable(line)
    lines = [text for step in range(1, 13) for text in (line(step), *[other] * often)]
    found = log(tmp_path, lines)
    assert len(found.rows) == 12
    assert "records unlike the others, as of a generation, were left out" in found.told


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        pytest.param(
            [
                text
                for at in range(1, 7)
                for text in (verl(at), f"step:{at} - perf/a:{at} - perf/b:1")
            ],
            12,
            id="another kind of row at the same steps",
        ),
        pytest.param(
            ["step:0 - val-core/x/acc:0.5 - val-aux/x/n:4", *map(verl, range(1, 7))],
            7,
            id="a validation before the first step",
        ),
        pytest.param(
            [*map(trainer, range(1, 7)), "{'eval_loss': 0.5, 'eval_kl': 0.1, 'epoch': 9.0}"],
            7,
            id="an evaluation",
        ),
        pytest.param(
            [text for at in range(1, 7) for text in (trainer(at), f"{{'score': {at}, 'bleu': 2}}")],
            12,
            id="other metrics without a count",
        ),
        pytest.param(
            [*map(trainer, range(1, 7)), "{'loss': 0.5, 'learning_rate': 1e-6, 'epoch': 0.07}"],
            7,
            id="a trainer's shorter record",
        ),
        pytest.param([verl(at, " - a/b:1" * (at % 2)) for at in range(1, 7)], 6, id="one key more"),
    ],
)
def test_a_trainer_s_own_records_of_another_kind_stay(
    tmp_path: Path, lines: list[str], count: int
) -> None:
    found = log(tmp_path, lines)
    assert len(found.rows) == count
    assert "unlike the others" not in found.told
