from dataclasses import asdict

import pytest

from bench.mutate import FACTORS, mutation, with_default
from rlhfdoctor.profile import limits_of, rules


@pytest.mark.parametrize(
    ("default", "values"),
    [
        pytest.param(10, (5, 20), id="a whole number"),
        pytest.param(3, (2, 6), id="an odd one"),
        pytest.param(1, (1, 2), id="one is the least"),
        pytest.param(0.5, (0.25, 1.0), id="a share"),
        pytest.param(0.0, (0.0, 0.0), id="zero stays"),
    ],
)
def test_a_default_is_halved_and_doubled(default: float, values: tuple[float, float]) -> None:
    found = tuple(mutation(default, factor) for factor in FACTORS)
    assert found == values
    assert {type(value) for value in found} == {type(default)}


def test_a_mutated_class_differs_in_one_default() -> None:
    rule = next(rule for rule in rules() if rule.code == "KL002")
    before = asdict(limits_of(rule, {}))
    after = asdict(with_default(rule.limits, "patience", 20)())
    assert after == {**before, "patience": 20}
    assert asdict(limits_of(rule, {})) == before
