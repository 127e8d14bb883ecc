import json
import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "polars", "safetensors", "peft", "tensorboard", "wandb")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["diagnose", "--help"],
        ["gate", "--help"],
        ["compare", "--help"],
        ["profile", "show", "--help"],
        ["--version"],
        [],
    ],
    ids=lambda arguments: " ".join(arguments) or "no arguments",
)
def test_help_loads_nothing_heavy(arguments: list[str]) -> None:
    script = (
        "import json, sys\n"
        "from rlhfdoctor.cli import run_cli\n"
        f"code = run_cli({arguments!r})\n"
        "print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    code, modules = json.loads(done.stderr)
    assert code == 0
    assert done.stdout
    assert not set(HEAVY) & set(modules)


def test_a_diagnosis_needs_no_torch() -> None:
    script = (
        "import sys\n"
        "from rlhfdoctor.cli import run_cli\n"
        "code = run_cli(['gate', 'fixtures/ppo_healthy'])\n"
        "sys.exit(code or 'torch' in sys.modules or 'transformers' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
