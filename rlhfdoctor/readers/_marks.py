"""What a console log says besides metrics: which program ran, how it was told to, how it ended."""

from __future__ import annotations

import re
from collections.abc import Iterator

FRAMEWORKS = (
    ("Unsloth", r"\bUnsloth[: ]+(?:Fast \w+ patching|20\d\d\.|Zoo)|/unsloth/|==\(\(=+\)\)=="),
    ("ms-swift", r"\[(?:INFO|WARNING):swift\]|\bswift rlhf\b|/swift/(?:llm|trainers|plugin|cli)/"),
    ("LLaMA-Factory", r"llamafactory\.\w|\bllamafactory-cli\b|/llamafactory/"),
    ("Axolotl", r"\[axolotl\.\w|\baxolotl (?:train|launch)\b|/axolotl/(?:cli|core|utils)/"),
    ("OpenRLHF", r"\bopenrlhf\.(?:cli|trainer)\.\w|/openrlhf/(?:cli|trainer|models)/"),
    ("NeMo-RL", r"\bnemo_rl\.\w|/nemo_rl/"),
    ("NeMo-Aligner", r"\bnemo_aligner\.\w|/nemo_aligner/"),
    ("verl", r"\bverl\.(?:trainer|workers|utils|single_controller)\.\w|/verl/(?:trainer|workers)/"),
    ("slime", r"/slime/(?:ray|backends|rollout|utils)/|\bslime\.(?:ray|backends|rollout|utils)\."),
    ("AReaL", r"/areal/(?:engine|api|utils|workflow)/|\bareal\.(?:launcher|engine|api)\."),
    ("prime-rl", r"/prime_rl/|\bprime_rl\."),
    ("trlX", r"/trlx/(?:trainer|pipeline)/|\btrlx\.(?:trainer|pipeline)\."),
    ("MOSS-RLHF", r"/MOSS-RLHF/|\bSteps_\d+ .{0,40}model_save_path"),
    ("torchtune", r"\btorchtune\.\w|\btune run \w+|/torchtune/"),
    (
        "DeepSpeed-Chat",
        r"--(?:actor|critic)_model_name_or_path\b|DeepSpeed-Chat/",
    ),
    ("TRL", r"/trl/(?:trainer|experimental|scripts)/|\btrl (?:ppo|grpo|dpo|rloo|kto|orpo|cpo)\b"),
)
"""Programs, those that stand upon others first, and how each gives itself away in a log: module
paths, commands and logger names, never a mere mention."""

_NAMES = (
    *("nsloth", "==((", "swift", "SWIFT", "llamafactory", "axolotl", "openrlhf", "OpenRLHF"),
    *("nemo_", "verl", "slime", "areal", "prime_rl", "trlx", "MOSS", "tune", "main.py"),
    *("DeepSpeed-Chat", "trl", "TRL", "Trl"),
)
"""One of these stands in every line that gives a program away: the cheap question."""

_FRAMEWORK = re.compile(
    "|".join(f"(?P<f{at}>{pattern})" for at, (_, pattern) in enumerate(FRAMEWORKS))
)

_VERSION = re.compile(
    r"\b(?P<name>unsloth|ms[-_]swift|swift|llamafactory|axolotl|openrlhf|verl|trl|trlx|torchtune)"
    r"(?:==|[ ]?version[:=]?[ ]|[ ]v|[: ]+(?=20\d\d\.\d)|[ ]{2,40})v?"
    r"(?P<version>\d{1,4}\.\d[\w.]{0,20})",
    re.IGNORECASE,
)
_CALLED = {"ms_swift": "ms-swift", "swift": "ms-swift", "llamafactory": "llama-factory"}


def named(text: str) -> bool:
    """Say whether ``framework`` and ``version`` are worth asking."""
    return any(name in text for name in _NAMES)


def framework(text: str) -> str | None:
    """Return the program that a line gives away, or None."""
    found = _FRAMEWORK.search(text)
    return FRAMEWORKS[int(str(found.lastgroup)[1:])][0] if found else None


def version(text: str) -> tuple[str, str] | None:
    """Return a program, in small letters, and its version, where a line tells both."""
    found = _VERSION.search(text)
    if not found:
        return None
    name = found["name"].lower()
    return _CALLED.get(name, name), found["version"].rstrip(".")


def rank_of(name: str) -> int:
    """Return a program's place among ``FRAMEWORKS``: the smaller leads."""
    names = [called for called, _ in FRAMEWORKS]
    return names.index(name) if name in names else len(names)


# how it was told to


_COMMAND = re.compile(
    r"(?:^|[\s/'\"\[])(?:python[\d.]*|deepspeed|torchrun|accelerate|swift|trl|tune|axolotl|bash"
    r"|llamafactory-cli|cmd =|[\w./-]{1,80}\.py)(?=[\s'\",]|$)"
)
_FLAG = re.compile(
    r"--(?P<flag>[A-Za-z][\w.-]{0,80})"
    r"(?:(?:=|'?,?\s+'?)(?P<value>\"[^\"]{0,400}\"|'[^']{0,400}'|(?!--)[^\s'\",\]]{1,400}))?"
)
_OVERRIDE = re.compile(r"(?:^|\s)\+{0,2}(?P<key>[A-Za-z_]\w*(?:\.\w+)+)=(?P<value>[^\s\\]{1,400})")
LONGEST_COMMAND = 65536


def command(text: str) -> dict[str, object]:
    """Return the arguments of a command line, flags and hydra overrides; empty where it is none."""
    if len(text) > LONGEST_COMMAND or not _COMMAND.search(text):
        return {}
    flags = {
        found["flag"].replace("-", "_"): (found["value"] or "true").strip("\"'")
        for found in _FLAG.finditer(text)
    }
    overrides = {found["key"]: found["value"].strip("\"'") for found in _OVERRIDE.finditer(text)}
    return {**flags, **overrides} if len(flags) + len(overrides) >= 2 else {}


CALLS = re.compile(
    r"(?:^|[\s:=])(?P<call>(?:\w*(?:Config|Args|Arguments|Namespace|Params|Parameters))\()"
)
"""The beginning of a printed set of arguments: ``Namespace(``, ``GRPOConfig(``, ``Args(``."""

_OPENS = re.compile(
    r".{0,60}\b(?:config(?:uration)?|arguments|args|hyper-?parameters|settings)\b.{0,30}:?\s*",
    re.IGNORECASE,
)
_ENTRY = re.compile(
    r"\s*(?:[-\u2022*]\s*)?(?P<key>[A-Za-z_][\w.]{0,80})\s*(?:=|:|\.{3,60})\s*(?P<value>[^\s=:][^=]{0,200})"
)


def opens(text: str) -> bool:
    """Say whether a line announces a list of settings: "Config loaded:"."""
    return text.endswith((":", "loaded", "=", "-")) and _OPENS.fullmatch(text) is not None


def entry(text: str) -> tuple[str, str] | None:
    """Return the key and the value of one line of such a list."""
    found = _ENTRY.fullmatch(text) if len(text) < 400 else None
    return (found["key"], found["value"].strip().strip("\"',")) if found else None


_PHRASES = (
    ("planned_steps", re.compile(r"Total optimization steps\s*=\s*([\d,]{1,20})")),
    ("planned_steps", re.compile(r"\bTotal training steps\s*[:=]\s*([\d,]{1,20})")),
    ("planned_epochs", re.compile(r"\bNum Epochs\s*=\s*([\d,]{1,20})")),
    (
        "batch_size",
        re.compile(r"Instantaneous batch size per device\s*=\s*([\d,]{1,20})"),
    ),
)


def phrases(text: str) -> Iterator[tuple[str, float]]:
    """Yield the settings that trainers announce in words, under their vocabulary names."""
    if len(text) < 1000 and ("otal" in text or "Num " in text or "Instant" in text):
        for name, pattern in _PHRASES:
            found = pattern.search(text)
            digits = found[1].replace(",", "") if found else ""
            if digits:
                yield name, float(digits)


# how it ended


TRACEBACK = "Traceback (most recent call last)"

_RAISED = re.compile(r"(?P<error>[A-Za-z_][\w.]{0,160}(?:\(\w{1,80}\))?)(?::(?:\s.*)?)?", re.DOTALL)
_WRAPPERS = ("ChildFailedError", "CalledProcessError", "RayTaskError", "ProcessRaisedException")

_FATAL = re.compile(
    "Killed|fault|error:|oom|OOM|CANCELLED|out of memory|[Ee]xit|SIG|Abort|Termin|Timeout"
)
_DIED = re.compile(
    r"(?:\S{1,200}: line \d{1,6}: +\d{1,10} )?"
    r"(?:Killed|Segmentation fault|Bus error|Aborted|Terminated)(?: \(core dumped\))?(?:\s{2,}.*)?"
    r"|(?:slurmstepd|srun): error: .*"
    r"|.{0,200}oom[-_]kill.*"
    r"|.{0,100}CUDA out of memory.*"
    r"|.{0,200}\b(?:exits with return code|exitcode|exited with exit code|Exit code)"
    r"\s*[:=]?\s*-?[1-9]\d{0,3}\b.*"
    r"|.{0,100}\breceived SIG(?:INT|TERM|KILL)\b.*"
    r"|.{0,200}Watchdog caught collective operation timeout.*"
)
"""How a shell, a batch system or a launcher tells of a process that was ended from outside."""

_LONGEST_ENDING = 200


def raised(text: str) -> tuple[str, bool] | None:
    """Return the exception that a line of a traceback names, and whether it only wraps another."""
    found = _RAISED.fullmatch(text) if len(text) < 20_000 else None
    if not found:
        return None
    return text[:_LONGEST_ENDING], any(name in found["error"] for name in _WRAPPERS)


def died(text: str) -> str | None:
    """Return a line that says how a process was ended from outside, or None."""
    if len(text) > 1000 or not _FATAL.search(text):
        return None
    found = _DIED.fullmatch(text)
    return text.strip()[:_LONGEST_ENDING] if found else None


def frame(text: str) -> bool:
    """Say whether a line belongs to a traceback without naming the exception."""
    return text[0] in " \t" or set(text.strip()) <= set("^~ ") or text.startswith("File ")


_OVERFLOW = re.compile(r"OVERFLOW!|Overflow detected|Grad overflow on iteration")


def overflow(text: str) -> bool:
    """Say whether a line tells of an update that was skipped because a gradient overflowed."""
    return len(text) < 1000 and _OVERFLOW.search(text) is not None
