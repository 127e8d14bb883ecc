import json
import math
from typing import Any

import pytest

from rlhfdoctor.model import Skip
from rlhfdoctor.profile import limits_of, rules
from rlhfdoctor.rules import Rule
from tests.builders import run_of
from tests.rules.shapes import prose

SAMPLED = [
    pytest.param(rule, id=rule.code)
    for rule in rules()
    if any(need.startswith("samples.") for need in (*rule.needs, *rule.any_of))
]


def huge(size: float, logprob: float) -> list[dict[str, Any]]:
    """Responses of which more and more loop and are cut, whose rewards are of this size."""
    rows: list[dict[str, Any]] = []
    for step in (0, 10, 20):
        for place in range(20):
            sick = place < step
            paid, lost = (size, -size) if sick else (-size, size)
            rows.append(
                {
                    "step": step,
                    "prompt": f"prompt {place}",
                    "group": f"group {place // 4}",
                    "response": prose(len(rows)) + " and so on." * (8 if sick else place % 3),
                    "token_ids": list(range(20)),
                    "reward": paid if place % 3 else lost,
                    "reward_components": json.dumps({"paid": paid, "lost": lost}),
                    "truncated": sick,
                    "logprobs": [logprob] * 20,
                    "ref_logprobs": [logprob / 2] * 20,
                }
            )
    return rows


@pytest.mark.parametrize("rule", SAMPLED)
@pytest.mark.parametrize(
    ("size", "logprob"),
    [
        pytest.param(1e200, -1e90, id="whose squares are infinite"),
        pytest.param(1.7e308, -1.7e308, id="whose sums are infinite"),
        pytest.param(math.inf, -math.inf, id="that are infinite"),
        pytest.param(math.nan, math.nan, id="that are none"),
    ],
)
def test_rules_about_samples_stand_numbers(rule: Rule, size: float, logprob: float) -> None:
    outcome = rule.outcome(run_of(samples=huge(size, logprob)), limits_of(rule, {}))
    for finding in [] if isinstance(outcome, Skip) else outcome:
        assert all(
            isinstance(evidence.observed, float) and math.isfinite(evidence.observed)
            for evidence in finding.evidence
        )
