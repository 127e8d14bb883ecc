"""What torch and transformers read from the environment when they are first imported."""

import subprocess
import sys

SCRIPT = """
from rlhfdoctor.scorers import ready

ready()
from huggingface_hub import constants
from tqdm.auto import tqdm

print(constants.HF_HUB_OFFLINE, sum(tqdm([1, 2, 3])))
"""


def test_nothing_is_downloaded_and_no_bar_is_drawn() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    assert done.stdout == "True 6\n"
    assert done.stderr == ""
