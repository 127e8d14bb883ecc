from pathlib import Path

from rlhfdoctor.inspection import inspection, silenced
from rlhfdoctor.runs import read_runs
from tests.builders import run_of, write_jsonl


def test_what_is_missing_names_the_rules_that_it_silences() -> None:
    told = {item["missing"]: item["rules"] for item in silenced(run_of(kl_ref_token=[0.1] * 20))}
    assert "KL002" in told["kl_ref_response"]
    assert "KL003" not in {code for codes in told.values() for code in codes}
    counts = [len(item["rules"]) for item in silenced(run_of(loss_total=[1.0]))]
    assert counts == sorted(counts, reverse=True)


def test_corrections_and_unknown_keys_are_shown(tmp_path: Path) -> None:
    rows = [
        {"step": step, "policy/sqrt_kl": 2.0, "kl_ctl_value": 0.1, "own/key": 1.0}
        for step in (1, 2)
    ]
    (run,) = read_runs(write_jsonl(tmp_path / "history.jsonl", rows))
    told = inspection(run)
    kl = next(column for column in told["columns"] if column["name"] == "kl_ref_response")
    assert kl["unit"] == "nats/response"
    assert kl["corrections"] == ["the logged number is the square root of a KL; squared"]
    assert run.metrics["kl_ref_response"].to_list() == [4.0, 4.0]
    assert told["unmapped"] == ["own/key"]
    assert (told["framework"], told["first_step"], told["last_step"]) == ("trlX", 1, 2)
