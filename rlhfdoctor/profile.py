"""Limits: the rules' defaults, a user's TOML over them, ``--set`` over both. Checked, all of it."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from rlhfdoctor import registry
from rlhfdoctor.errors import BadProfile, did_you_mean
from rlhfdoctor.rules import Rule

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MOST = 1_000_000_000
"""Largest limit that a user may set."""

CLOSE = 0.5
"""How alike names must be to be suggested; codes are short."""

_HINT = "rlhfdoctor explain CODE prints a rule's limits"


@dataclass(frozen=True, slots=True)
class Profile:
    """Overrides by rule code, and the rules that must have looked (None: the default list)."""

    name: str = "default"
    overrides: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    require: tuple[str, ...] | None = None


def rules() -> tuple[Rule, ...]:
    """Return every rule, in the order of its code."""
    return tuple(sorted(registry.members("rules", Rule), key=lambda rule: rule.code))


def load(path: Path | None, settings: Sequence[str] = ()) -> Profile:
    """Read a profile file and ``CODE.limit=value`` settings.

    The file's tables are rule codes, its top-level ``require`` replaces the default list; a
    pyproject.toml is read under ``[tool.rlhfdoctor]``. Raises BadProfile for unknown names, wrong
    types and unreadable files.
    """
    profile = Profile()
    if path is not None:
        if path.exists() and not path.is_file():
            raise BadProfile(f"cannot read {path}: it is no file", "give a TOML file")
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise BadProfile(f"cannot read {path}: {error.strerror}", "give a TOML file") from error
        except (ValueError, RecursionError) as error:
            raise BadProfile(f"{path} is no valid TOML: {error}", "see the README") from error
        if path.name == "pyproject.toml":
            table = _table(_table(table, "tool"), "rlhfdoctor")
        profile = _checked(path.stem, table)
    overrides = {code: dict(limits) for code, limits in profile.overrides.items()}
    for setting in settings:
        target, equals, value = setting.partition("=")
        code, dot, limit = target.partition(".")
        if not equals or not dot:
            raise BadProfile(f"--set {setting}: expected CODE.limit=value", "--set KL002.ceiling=4")
        overrides.setdefault(code, {})[limit] = _literal(value)
    for code, values in overrides.items():
        limits_of(_rule(code), values)
    return replace(profile, overrides=overrides)


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


def limit_notes(rule: Rule) -> dict[str, str]:
    """Return each limit's default with the unit and meaning that stand beside it in the source."""
    notes = {}
    for line in inspect.getsource(rule.limits).splitlines():
        name, _, rest = line.strip().partition(":")
        value, _, note = rest.partition("=")[2].partition("#")
        if note and name.isidentifier():
            notes[name] = f"{value.strip()}  ({note.strip()})"
    return notes


def check_codes(codes: Sequence[str]) -> tuple[str, ...]:
    """Return the codes, or raise BadProfile for one that no rule has."""
    return tuple(_rule(code).code for code in codes)


def _checked(name: str, table: Mapping[str, object]) -> Profile:
    overrides: dict[str, Mapping[str, object]] = {}
    require: tuple[str, ...] | None = None
    for key, value in table.items():
        if key == "require":
            if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
                raise BadProfile("require must be a list of rule codes", 'require = ["KL002"]')
            require = check_codes(value)
        elif isinstance(value, dict):
            overrides[_rule(key).code] = value
        else:
            raise BadProfile(f"unknown entry {key} in the profile", "tables are named after rules")
    return Profile(name, overrides, require)


def _table(table: Mapping[str, Any], key: str) -> dict[str, Any]:
    inner = table.get(key, {})
    if not isinstance(inner, dict):
        raise BadProfile(f"{key} in the profile is no table", "[tool.rlhfdoctor.KL002]")
    return inner


def _rule(code: str) -> Rule:
    known = {rule.code: rule for rule in rules()}
    if code not in known:
        raise BadProfile(f"no rule has the code {code}{did_you_mean(code, known, CLOSE)}", _HINT)
    return known[code]


def _literal(text: str) -> object:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text
