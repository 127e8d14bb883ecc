"""Limits: the rules' defaults, a built-in profile, a user's TOML, ``--set``; each over the last.

Whatever a user writes is checked, and every limit remembers where it came from.
"""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from rlhfdoctor import registry
from rlhfdoctor.errors import BadProfile, did_you_mean
from rlhfdoctor.measures import logged, prefers
from rlhfdoctor.model import TABLE_PLACES, Run, StatedLimit, TableRow
from rlhfdoctor.paths import inside
from rlhfdoctor.policy import KEYS, UNSTATED, Policy, policy_of
from rlhfdoctor.rules import Rule
from rlhfdoctor.rules._config import samples_itself

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

V = TypeVar("V")

MOST = 1_000_000_000
"""Largest limit that a user may set."""

CLOSE = 0.5
"""How alike names must be to be suggested; codes are short."""

_HINT = "rlhfdoctor explain CODE prints a rule's limits"


BUILT_IN = "built-in profile"
"""How the origin of a limit begins that no user stated."""

DEFAULT = "default"
"""The name of the profile that is nothing but the rules' defaults."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Overrides by rule code, and the rules that must have looked (None: the default list).

    name: empty until a user or the run has chosen one. reason: why the run chose it; empty where
    the user did. origins: where each override comes from. table: the rollback table, empty for the
    practitioners' own. policy: how a gate judges, where a file says so.
    """

    name: str = ""
    overrides: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    require: tuple[str, ...] | None = None
    reason: str = ""
    origins: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    table: tuple[TableRow, ...] = ()
    policy: Policy = UNSTATED

    def over(self, other: Profile) -> Profile:
        """Return this profile laid over another, whose limits hold where it has none."""
        return replace(
            self,
            name=self.name or other.name,
            overrides=_laid(other.overrides, self.overrides),
            require=other.require if self.require is None else self.require,
            origins=_laid(other.origins, self.origins),
            table=self.table or other.table,
            policy=self.policy.over(other.policy),
        )


@dataclass(frozen=True, slots=True)
class Effective:
    """One limit as it holds: its value, what it means, and where it came from."""

    code: str
    rule: str
    limit: str
    value: float | int
    meaning: str
    origin: str


def rules() -> tuple[Rule, ...]:
    """Return every rule, in the order of its code."""
    return tuple(sorted(registry.members("rules", Rule), key=lambda rule: rule.code))


@cache
def built_in() -> Mapping[str, Profile]:
    """Return the profiles of the package by name: ``profiles/*.toml``, and the rules' defaults."""
    folder = files("rlhfdoctor").joinpath("profiles")
    found = {DEFAULT: Profile(DEFAULT)}
    for item in sorted(folder.iterdir(), key=lambda item: item.name):
        name = item.name.removesuffix(".toml")
        table = tomllib.loads(item.read_text(encoding="utf-8"))
        found[name] = _checked(name, table, f"{BUILT_IN} {name}")
    return found


def load(
    named: Path | str | None, settings: Sequence[str] = (), config: Path | None = None
) -> Profile:
    """Read a profile, ``CODE.limit=value`` settings, and the configuration of a project.

    named: a built-in profile or a file; None leaves the choice to the configuration, or the run. A
    file's tables are rule codes, its top-level ``require`` replaces the default list,
    ``[[rollback]]`` tables replace the rollback table, ``extends`` names the built-in profile that
    it lies over; ``policy.KEYS`` say how a gate judges; a pyproject.toml is read under
    ``[tool.rlhfdoctor]``. config: the same, but without ``extends`` the run still chooses its
    profile; it lies over a built-in profile that is named, and below a file. Raises BadProfile for
    unknown names, wrong types and unreadable files.
    """
    base = str(named) if str(named) in built_in() else None
    profile = Profile() if config is None else _read(config, chosen=False, base=base)
    if base is not None:
        profile = profile.over(built_in()[base])
    elif named is not None:
        profile = _read(named).over(profile)
    stated: dict[str, dict[str, object]] = {}
    for setting in settings:
        target, equals, value = setting.partition("=")
        code, dot, limit = target.partition(".")
        if not equals or not dot:
            raise BadProfile(f"--set {setting}: expected CODE.limit=value", "--set KL002.ceiling=4")
        stated.setdefault(_rule(code).code, {})[limit] = _literal(value)
    return _of("", stated, "--set").over(profile)


def choose(run: Run, profile: Profile) -> Profile:
    """Return the profile that was named, or lay what was set over the one that fits the run."""
    if profile.name:
        return profile
    name, reason = _fitting(run)
    return replace(profile.over(built_in()[name]), reason=reason)


_CHECKED = re.compile(
    r"(?:^|[^A-Za-z]|(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z]))"
    r"(?i:accura|correct|format|answer|solve|pass|exact|tag|math|code|xml)"
)
"""A word of a reward function's name, snake_case or CamelCase, that tells of a check."""

_WITH_REWARD_MODEL = frozenset(
    {"DeepSpeed-Chat", "MOSS-RLHF", "safe-rlhf", "summarize_from_feedback_details"}
)
"""Frameworks whose PPO knows nothing but a reward model."""


def _fitting(run: Run) -> tuple[str, str]:
    """Return the built-in profile that fits a run, and what told so."""
    if prefers(run):
        return "dpo", run.algorithm if run.algorithm != "unknown" else "margins of pairs"
    if samples_itself(run):
        checked = _checks(run)
        if checked:
            return "reasoning", f"{run.algorithm} with {checked}"
        stated = "reward_model" in run.config and run.framework != "verl"
        if run.algorithm == "PPO" and (stated or run.framework in _WITH_REWARD_MODEL):
            return "dialogue", "PPO with a reward model"
    return DEFAULT, "nothing tells the task"


def _checks(run: Run) -> str | None:
    """Return what shows that answers are checked, in words: by a function, not by a model."""
    for name, words in (("success_rate", "a success rate"), ("format_rate", "a format rate")):
        if logged(run, name):
            return words
    parts = [name.partition("[")[2].rstrip("]") for name in run.columns if "reward_comp" in name]
    named = sorted({part for part in parts if _CHECKED.search(part)})
    if named:
        return f"verifiable reward components ({', '.join(named[:3])})"
    rewards = run.samples.select("reward").drop_nulls().unique().head(3).collect()["reward"]
    return "rewards of 0 and 1" if {*rewards.to_list()} == {0.0, 1.0} else None


def effective(profile: Profile) -> Iterator[Effective]:
    """Yield every limit of every rule as it holds under a profile."""
    for rule in rules():
        limits = limits_of(rule, profile.overrides.get(rule.code, {}))
        origins = profile.origins.get(rule.code, {})
        for name, meaning in meanings(rule).items():
            yield Effective(
                code=rule.code,
                rule=rule.name,
                limit=name,
                value=getattr(limits, name),
                meaning=meaning,
                origin=origins.get(name, "rule default"),
            )


def stated(profile: Profile) -> Iterator[StatedLimit]:
    """Yield the limits that a user's file or option set to another value than the rule's own."""
    for code, origins in profile.origins.items():
        rule = _rule(code)
        limits, own = limits_of(rule, profile.overrides[code]), rule.limits()
        for name, origin in origins.items():
            value, default = getattr(limits, name), getattr(own, name)
            if value != default and not origin.startswith(BUILT_IN):
                yield StatedLimit(code, name, value, default, origin)


def document(profile: Profile, run: str | None = None) -> dict[str, Any]:
    """Return what ``profile show`` prints; ``run``: the name of the run that chose it."""
    return {
        "run": run,
        "profile": profile.name,
        "reason": profile.reason,
        "require": None if profile.require is None else list(profile.require),
        "rollback": [asdict(row) for row in profile.table] or None,
        "limits": [asdict(item) for item in effective(profile)],
    }


def explanation(rule: Rule) -> dict[str, Any]:
    """Return what ``explain`` prints of a rule."""
    limits, notes = rule.limits(), meanings(rule)
    return {
        "code": rule.code,
        "name": rule.name,
        "signal": rule.signal,
        "needs": list(rule.needs),
        "any_of": list(rule.any_of),
        "says": rule.text,
        "doc": rule.doc,
        "remedy": rule.remedy,
        "limits": [
            {"limit": name, "default": getattr(limits, name), "meaning": note}
            for name, note in notes.items()
        ],
    }


def limits_of(rule: Rule, overrides: Mapping[str, object]) -> Any:
    """Return a rule's limits with overrides. Raises BadProfile for unknown names, wrong types."""
    limits = rule.limits()
    known = {item.name: getattr(limits, item.name) for item in fields(limits)}
    for name, value in overrides.items():
        if name not in known:
            raise BadProfile(
                f"{rule.code} has no limit {name}{did_you_mean(name, known, CLOSE)}", _HINT
            )
        whole = isinstance(known[name], int)
        known[name] = _limit(f"{rule.code}.{name}", value, whole=whole)
    return rule.limits(**known)


def _limit(name: str, value: object, *, whole: bool) -> int | float:
    """Return a limit in its range: whole numbers from 1, others from 0, all finite."""
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        kind = "a whole number" if whole else "a number"
        raise BadProfile(f"{name} must be {kind}, not {value!r:.40}", _HINT)
    least = 1 if whole else 0
    if not least <= value <= MOST:
        raise BadProfile(f"{name} must lie between {least} and {MOST}", _HINT)
    return value if whole else float(value)


def meanings(rule: Rule) -> dict[str, str]:
    """Return the unit and meaning of each limit: the comment beside it in the source."""
    notes = {}
    for line in inspect.getsource(rule.limits).splitlines():
        name, _, rest = line.strip().partition(":")
        note = rest.partition("=")[2].partition("#")[2].strip()
        if note and name.isidentifier():
            notes[name] = note
    return notes


def check_codes(codes: Sequence[str]) -> tuple[str, ...]:
    """Return the codes, written in any case, or raise BadProfile for one that no rule has."""
    return tuple(_rule(code).code for code in codes)


CONFIGURATIONS = ("rlhfdoctor.toml", "pyproject.toml")
"""Where a project says how its runs are judged, in the order in which they are looked for."""


def configuration(folder: Path, runs: Sequence[Path] = ()) -> tuple[Path | None, str]:
    """Return the configuration of the project that a folder belongs to, or why it is not obeyed.

    It lies in the folder, or in one above it up to the root of the git repository; without one,
    nowhere above. One that lies in a run is not obeyed: a run has no say in how it is judged.
    """
    above = [folder, *Path(os.path.abspath(folder)).parents]
    root = next((place for place, one in enumerate(above) if (one / ".git").exists()), 0)
    for place in above[: root + 1]:
        for name in CONFIGURATIONS:
            path = place / name
            own = name != "pyproject.toml" and os.path.lexists(path)
            if own or (path.is_file() and name == "pyproject.toml" and _speaks(path)):
                if any(inside(path, folder) for run in runs for folder in _of_run(run)):
                    return None, f"{path}: it lies in the run and is not obeyed"
                return path, ""
    return None, ""


def _of_run(path: Path) -> Iterator[Path]:
    """Yield a path of a run that was named, and the folder of the run that it is a part of."""
    yield path
    place = Path(os.path.realpath(path))
    for part in (place, place.parent):
        if part.name.startswith("checkpoint-") or part.name == "trainer_state.json":
            yield part.parent


def _speaks(path: Path) -> bool:
    """Say whether a pyproject.toml speaks of this tool; one that does not may be broken."""
    try:
        spoken = b"rlhfdoctor" in path.read_bytes()
    except OSError as error:
        raise BadProfile(f"cannot read {path}: {error.strerror}", "make it readable") from error
    with _naming(path):
        return spoken and "rlhfdoctor" in _table(_toml(path), "tool")


def _toml(path: Path) -> dict[str, Any]:
    """Return the table of a file; a byte order mark at its beginning is no part of it."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise BadProfile(f"cannot read {path}: {error.strerror}", "give a TOML file") from error
    except UnicodeDecodeError as error:
        raise BadProfile(f"{path} is no valid TOML: {error}", "save it as UTF-8") from error
    except (ValueError, RecursionError) as error:
        hint = 'texts need quotes: fail-on = "warning"'
        raise BadProfile(f"{path} is no valid TOML: {error}", hint) from error


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Say of what is wrong in a file in which one it is."""
    try:
        yield
    except BadProfile as error:
        raise BadProfile(f"{path}: {error.message}", error.hint) from error


def _read(named: Path | str, *, chosen: bool = True, base: str | None = None) -> Profile:
    """Read a user's file, over the built-in profile that it extends.

    chosen: without ``extends`` it lies over the rules' defaults, and the run has no choice. base:
    the profile that was named in the place of the one that it extends.
    """
    path = Path(named)
    if path.exists() and not path.is_file():
        raise BadProfile(f"cannot read {path}: it is no file", "give a TOML file")
    if str(named).isidentifier() and not path.exists():
        raise BadProfile(
            f"no profile is called {named}{did_you_mean(str(named), built_in(), CLOSE)}",
            f"known are {', '.join(built_in())}, or give a TOML file",
        )
    table = _toml(path)
    with _naming(path):
        return _understood(table, path, chosen=chosen, base=base)


def _understood(table: Mapping[str, Any], path: Path, *, chosen: bool, base: str | None) -> Profile:
    """Return what the table of a file says, over the built-in profile that it extends."""
    if path.name == "pyproject.toml":
        table = _table(_table(table, "tool"), "rlhfdoctor")
    elif "tool" in table:
        raise BadProfile(
            "[tool.rlhfdoctor] is for a pyproject.toml",
            f"in {path.name} the entries stand at the top, limits in tables such as [KL002]",
        )
    policy = policy_of(table, path.parent, lambda code: _rule(code).code)
    table = {key: value for key, value in table.items() if key not in KEYS}
    if not chosen and (base is not None or "extends" not in table):
        table.pop("extends", None)
        return replace(_checked("", table, str(path)), policy=policy)
    under = table.pop("extends", DEFAULT)
    if not isinstance(under, str) or under not in built_in():
        close = did_you_mean(str(under), built_in(), CLOSE)
        raise BadProfile(
            f"extends names no built-in profile: {under!r:.40}{close}",
            f"known are {', '.join(built_in())}",
        )
    found = _checked(path.stem, table, str(path)).over(built_in()[under])
    return replace(found, policy=policy)


_ENTRIES = (*KEYS, "require", "extends", "rollback")
"""What a file may say beside the tables that are named after rules."""


def _checked(name: str, table: Mapping[str, object], origin: str) -> Profile:
    overrides: dict[str, Mapping[str, object]] = {}
    require: tuple[str, ...] | None = None
    rows: tuple[TableRow, ...] = ()
    codes = {rule.code for rule in rules()}
    for key, value in table.items():
        if key == "rollback":
            rows = _rollback(value)
        elif key == "require":
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise BadProfile("require must be a list of rule codes", 'require = ["KL002"]')
            require = check_codes(value)
        elif key.upper() not in codes:
            close = did_you_mean(key, _ENTRIES) or did_you_mean(key.upper(), codes, CLOSE)
            known = f"known: {', '.join(_ENTRIES)}, or a table named after a rule"
            raise BadProfile(f"unknown entry {key}{close}", known)
        elif not isinstance(value, dict):
            raise BadProfile(f"{key} is no table", f"[{key.upper()}], and its limits below it")
        elif key.upper() in overrides:
            raise BadProfile(f"{key.upper()} has two tables", "write one")
        else:
            overrides[key.upper()] = _limits_alone(key, value)
    return replace(_of(name, overrides, origin, require), table=rows)


def _limits_alone(code: str, table: Mapping[str, object]) -> Mapping[str, object]:
    """Return a rule's table, which holds no entry of the whole file by mistake."""
    for key in table:
        if key in _ENTRIES:
            raise BadProfile(f"{key} stands under [{code}]", "put it above the first table")
    return table


_ROW = '[[rollback]] with last = 999, checkpoint = "initial", change = "..."; no last in the last'


def _rollback(value: object) -> tuple[TableRow, ...]:
    """Return the rollback table of a profile: rows by crash step, the last without end."""
    rows: list[TableRow] = []
    if not isinstance(value, list) or not value:
        raise BadProfile("rollback must be tables, one a row", _ROW)
    for place, item in enumerate(value, start=1):
        if not isinstance(item, dict) or {*item} - {"last", "checkpoint", "change"}:
            raise BadProfile(f"row {place} of rollback is no row", _ROW)
        last, goal, change = item.get("last"), item.get("checkpoint"), item.get("change")
        before = -1 if not rows else rows[-1].last or 0
        if (last is None) != (place == len(value)):
            raise BadProfile("every row of rollback but the last needs its last step", _ROW)
        if last is not None and (type(last) is not int or not before < last <= MOST):
            raise BadProfile(f"last in row {place} of rollback must be a step after {before}", _ROW)
        if goal not in TABLE_PLACES:
            close = did_you_mean(str(goal)[:40], TABLE_PLACES, CLOSE)
            known = ", ".join(TABLE_PLACES)
            raise BadProfile(f"no place to go back to is called {goal!r:.40}{close}", known)
        if not isinstance(change, str) or not 0 < len(change.strip()) <= LONGEST_CHANGE:
            raise BadProfile(f"change in row {place} of rollback must be a short text", _ROW)
        name = f"{before + 1}-{last}" if rows else f"< {(last or 0) + 1}"
        if last is None:
            name = f"> {before}" if rows else "any"
        rows.append(TableRow(name, last, goal, change))
    return tuple(rows)


LONGEST_CHANGE = 200
"""Characters of what a row of the rollback table says to change."""


def _of(
    name: str,
    overrides: Mapping[str, Mapping[str, object]],
    origin: str,
    require: tuple[str, ...] | None = None,
) -> Profile:
    """Return a profile whose overrides all come from one place; wrong ones raise BadProfile."""
    for code, limits in overrides.items():
        limits_of(_rule(code), limits)
    origins = {code: dict.fromkeys(limits, origin) for code, limits in overrides.items()}
    return Profile(name, overrides, require, origins=origins)


def _laid(
    under: Mapping[str, Mapping[str, V]], over: Mapping[str, Mapping[str, V]]
) -> dict[str, dict[str, V]]:
    """Return both tables of tables as one, the second winning."""
    codes = dict.fromkeys((*under, *over))
    return {code: {**under.get(code, {}), **over.get(code, {})} for code in codes}


def _table(table: Mapping[str, Any], key: str) -> dict[str, Any]:
    inner = table.get(key, {})
    if not isinstance(inner, dict):
        raise BadProfile(f"{key} is no table", "[tool.rlhfdoctor.KL002]")
    return inner


def _rule(code: str) -> Rule:
    known = {rule.code: rule for rule in rules()}
    if code.upper() not in known:
        several = "," in code or " " in code.strip()
        close = "" if several else did_you_mean(code.upper(), known, CLOSE)
        hint = 'repeat --require; in a file: require = ["KL003", "KL002"]' if several else _HINT
        raise BadProfile(f"no rule has the code {code}{close}", hint)
    return known[code.upper()]


def _literal(text: str) -> object:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text
