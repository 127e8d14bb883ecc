from dataclasses import replace
from typing import Any

import pytest

from rlhfdoctor.model import Location, Setting
from tests.builders import clear, only, run_of, skipped


def kept_in(dtype: str, key: str = "torch_dtype", algorithm: str = "DPO", **config: float) -> Any:
    run = run_of(algorithm=algorithm, config=config)
    setting = Setting("dtype", dtype, Location("args.json", key=key))
    return replace(run, config={**run.config, "dtype": setting})


SICK = (kept_in("float16"),)


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(kept_in("float16"), id="DPO in float16"),
        pytest.param(kept_in("float16", algorithm="GRPO"), id="GRPO in float16"),
        pytest.param(kept_in("float16", "actor/fsdp_config/dtype"), id="a section's type"),
    ],
)
def test_weights_in_float16_are_told(run: Any) -> None:
    finding = only("CFG009", run)
    seen = finding.evidence[0]
    assert (finding.severity, finding.onset) == ("info", None)
    assert (seen.kind, seen.subject, seen.observed) == ("config", "dtype", "float16")
    assert seen.where.key == run.config["dtype"].where.key


@pytest.mark.parametrize(
    "run",
    [
        pytest.param(kept_in("bfloat16"), id="bfloat16"),
        pytest.param(kept_in("float32"), id="float32"),
        pytest.param(kept_in("float16", "fp16"), id="mixed precision keeps float32 weights"),
        pytest.param(kept_in("float16", "--fp16"), id="the same as an option"),
        pytest.param(kept_in("float16", "trainer/precision"), id="the type of the arithmetic"),
        pytest.param(kept_in("float16", "mixed_precision"), id="accelerate's word for it"),
        pytest.param(kept_in("float16", lora_rank=8), id="adapters on a frozen model"),
    ],
)
def test_other_types_are_clear(run: Any) -> None:
    assert clear("CFG009", run)


@pytest.mark.parametrize("algorithm", ["unknown", "RM"])
def test_without_a_policy_that_is_trained_it_cannot_look(algorithm: str) -> None:
    assert skipped("CFG009", kept_in("float16", algorithm=algorithm))
