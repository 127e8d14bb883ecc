"""The only place that knows torch and transformers: recompute what a run no longer tells.

Both read their environment when they are first imported, so it is set here, before: nothing is
downloaded, and nothing but this program writes to the terminal.
"""

import os

from rlhfdoctor.errors import need

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["TQDM_DISABLE"] = "1"


def ready() -> None:
    """Import what scoring needs; raises DoctorError with the line that installs it."""
    for package in ("torch", "transformers", "safetensors"):
        need(package, extra="recompute", purpose="recomputing KL and perplexity")
