from collections.abc import Iterable, Iterator
from typing import Any

import pytest

from rlhfdoctor import rollback, tree
from rlhfdoctor.changes import ENTROPY_COLLAPSE, FITTING, MAKERS, NON_FINITE
from rlhfdoctor.model import Verdict
from tests.test_rollback import because, planned


@pytest.mark.parametrize(
    ("onset", "config", "changes"),
    [
        pytest.param(500, {"learning_rate": 4e-4}, {"learning_rate": 4e-5}, id="row one"),
        pytest.param(
            2000,
            {"learning_rate": 1e-6, "kl_coef": 0.05},
            {"kl_coef": 0.1, "learning_rate": 1e-7},
            id="row two doubles the penalty",
        ),
        pytest.param(
            2000,
            {"kl_coef": 0.0},
            {"kl_coef": 0.01, "learning_rate": None},
            id="row two starts one",
        ),
    ],
)
def test_changes_name_current_and_suggested_values(
    onset: int, config: dict[str, float | str], changes: dict[str, float | None]
) -> None:
    plan = planned(onset, config=config)
    assert {item.parameter: item.suggested for item in plan.changes} == pytest.approx(changes)
    for item in plan.changes:
        assert item.current == config.get(item.parameter)


def test_a_rate_is_changed_only_where_the_cause_asks_for_it() -> None:
    cut = because("answers cut at the length limit")
    assert planned(500, causes=cut, config={"learning_rate": 1e-5}).changes == ()


def test_every_cause_that_is_named_exists() -> None:
    named = {*FITTING, *rollback.FROM_THE_START, *rollback.OF_THE_SETUP, rollback.RECAPTURED}
    assert named <= {end.cause for end in ends(tree.TREE)}
    assert {kind for kinds in FITTING.values() for kind in (*kinds.asked, *kinds.allowed)} <= {
        *MAKERS
    }


def ends(nodes: Iterable[object]) -> Iterator[tree.Ends]:
    for node in nodes:
        if isinstance(node, tree.Ends):
            yield node
        elif isinstance(node, tree.Ask):
            yield from ends((node.yes, node.no, node.unknown))


@pytest.mark.parametrize(
    ("name", "config", "logged", "changes"),
    [
        pytest.param(
            tree.OVER_OPTIMISATION,
            {"learning_rate": 1e-6, "kl_coef": 0.05},
            {"kl_ref_response": [0.0, 4.5, 4.5]},
            {"reward_model": "renewed", "kl_coef": 0.0824, "learning_rate": 1e-7},
            id="beta x exp(0.2 x (4.5 - 2))",
        ),
        pytest.param(
            "repetition collapse",
            {"kl_coef": 0.05},
            {"kl_ref_token": [0.0, 0.045, 0.045], "response_length_mean": [100.0] * 3},
            {"kl_coef": 0.0824, "learning_rate": None},
            id="a KL a token times the length",
        ),
        pytest.param(
            "repetition collapse",
            {"kl_coef": 0.05},
            {"kl_ref_response": [0.0, 900.0, 900.0]},
            {"kl_coef": 0.136, "learning_rate": None},
            id="an exponent of at most 1",
        ),
        pytest.param(
            "repetition collapse",
            {"kl_coef": 0.05},
            {"kl_unknown": [0.0, 900.0, 900.0]},
            {"kl_coef": 0.1, "learning_rate": None},
            id="twice where no unit is known",
        ),
        pytest.param(
            "unstable updates",
            {"learning_rate": 1e-6, "clip_range": 0.4},
            {},
            {"learning_rate": 1e-7, "clip_range": 0.2},
            id="a clip range that is wide",
        ),
        pytest.param(
            "unstable updates",
            {"learning_rate": 1e-6, "clip_range": 0.2},
            {},
            {"learning_rate": 1e-7, "clip_range": 0.1},
            id="the usual clip range",
        ),
        pytest.param(
            ENTROPY_COLLAPSE,
            {"learning_rate": 1e-6, "clip_range": 0.2},
            {"entropy": [2.0, 2.0, 0.1]},
            {"clip_range_high": 0.28},
            id="more room for unlikely tokens",
        ),
        pytest.param(
            "entropy explosion",
            {"entropy_coef": 0.001, "clip_range_high": 0.28},
            {"entropy": [2.0, 2.0, 9.0]},
            {"entropy_coef": 0.0, "clip_range_high": 0.2},
            id="less of what feeds it",
        ),
        pytest.param(
            NON_FINITE,
            {"learning_rate": 1e-6, "dtype": "float16"},
            {},
            {"dtype": "bfloat16", "learning_rate": 1e-7},
            id="half precision",
        ),
        pytest.param(
            tree.CUT_OFF,
            {"learning_rate": 1e-6, "max_response_length": 256},
            {},
            {"max_response_length": 512},
            id="a longer limit and nothing else",
        ),
        pytest.param(tree.WRONG_REFERENCE, {"learning_rate": 1e-6}, {}, {}, id="no number helps"),
        pytest.param(
            "rollout and trainer disagree", {"learning_rate": 1e-6}, {}, {}, id="nor against this"
        ),
    ],
)
def test_changes_fit_the_cause(
    name: str,
    config: dict[str, float | str],
    logged: dict[str, Any],
    changes: dict[str, float | str | None],
) -> None:
    plan = planned(500, 400, causes=because(name), config=config, **logged)
    assert {item.parameter: item.suggested for item in plan.changes} == changes
    assert all(item.why for item in plan.changes)


@pytest.mark.parametrize(("verdict", "suggested"), [("collapsed", 1e-6), ("degraded", 5e-6)])
def test_a_degraded_run_is_slowed_less(verdict: Verdict, suggested: float) -> None:
    plan = planned(500, 400, config={"learning_rate": 1e-5}, verdict=verdict)
    assert [item.suggested for item in plan.changes] == [suggested]


def test_the_row_s_change_gives_way_to_the_cause() -> None:
    plan = planned(2000, 900, causes=because(ENTROPY_COLLAPSE), config={"kl_coef": 0.1})
    assert plan.table is not None
    assert plan.table.change == "raise the KL penalty"
    assert [item.parameter for item in plan.changes] == ["clip_range_high"]


@pytest.mark.parametrize(
    ("beta", "kl", "suggested", "why"),
    [
        pytest.param(0.05, 1.5, 0.1, "twice: a KL of 1.5", id="a KL below the target"),
        pytest.param(0.9, 50.0, 1.0, "the most that controllers allow", id="a beta near its most"),
        pytest.param(1.0, 50.0, None, "", id="a beta at its most"),
        pytest.param(1e7, 50.0, None, "", id="a beta beyond all"),
        pytest.param(1e-15, 50.0, 2.72e-15, "the exponent held at 1", id="next to nothing"),
    ],
)
def test_the_penalty_is_raised_or_not_spoken_of(
    beta: float, kl: float, suggested: float | None, why: str
) -> None:
    plan = planned(
        500, 400, causes=because("repetition collapse"), config={"kl_coef": beta},
        kl_ref_response=[0.0, kl, kl],
    )  # fmt: skip
    found = {item.parameter: item for item in plan.changes}
    assert found["kl_coef"].suggested == suggested if suggested else "kl_coef" not in found
    assert why in found["kl_coef"].why if suggested else True


def test_displacement_is_slowed_tenfold_though_nothing_collapsed() -> None:
    plan = planned(
        500, causes=because("likelihood displacement"), config={"learning_rate": 5e-7},
        verdict="degraded",
    )  # fmt: skip
    assert [item.suggested for item in plan.changes] == [5e-8]
