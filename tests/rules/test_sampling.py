from typing import Any

import pytest

from tests.builders import clear, only, run_of, skipped

SICK = (run_of(algorithm="PPO", config={"top_k": 50}),)


def drawn(algorithm: str = "PPO", **config: float) -> Any:
    return run_of(algorithm=algorithm, config=config)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        pytest.param("temperature", 0.7, id="a lower temperature"),
        pytest.param("temperature", 1.3, id="a higher temperature"),
        pytest.param("temperature", 0.0, id="greedy decoding"),
        pytest.param("top_p", 0.9, id="a nucleus"),
        pytest.param("top_k", 50, id="the most probable tokens alone"),
        pytest.param("min_response_length", 10, id="a minimum length"),
        pytest.param("no_repeat_ngram_size", 3, id="no n-gram twice"),
        pytest.param("repetition_penalty", 1.1, id="a penalty on repetition"),
    ],
)
def test_whatever_changes_the_distribution_is_told(name: str, value: float) -> None:
    finding = only("CFG005", run_of(algorithm="PPO", config={name: value}))
    seen = finding.evidence[0]
    assert (finding.severity, finding.onset) == ("info", None)
    assert (seen.kind, seen.subject, seen.observed) == ("config", name, value)
    assert (seen.where.file, seen.where.key) == ("args.json", name)
    assert seen.unit
    assert f"{name} {value:g}" in finding.message


def test_all_of_them_are_one_finding() -> None:
    finding = only("CFG005", drawn(temperature=0.7, top_p=0.9, repetition_penalty=1.0))
    assert [item.subject for item in finding.evidence] == ["temperature", "top_p"]
    assert "temperature 0.7, top_p 0.9" in finding.message


@pytest.mark.parametrize("algorithm", ["PPO", "GRPO", "RLOO", "REINFORCE", "PPO or GRPO"])
def test_the_policys_own_distribution_is_clear(algorithm: str) -> None:
    config = {"temperature": 1.0, "top_p": 1, "repetition_penalty": 1.0}
    assert clear("CFG005", drawn(algorithm, **config))


@pytest.mark.parametrize("algorithm", ["DPO", "RM", "unknown"])
def test_without_own_responses_it_cannot_look(algorithm: str) -> None:
    assert skipped("CFG005", drawn(algorithm, temperature=0.7))


def test_without_a_setting_it_cannot_look() -> None:
    assert skipped("CFG005", drawn())
