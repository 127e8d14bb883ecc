"""Mutate every rule's limits and see whether its own tests notice.

    python bench/mutate.py               # every rule, a few minutes
    python bench/mutate.py KL LEN003     # some: codes, or how they begin

Each default is halved and doubled (whole numbers rounded, 1 at least), and each rule made to find
nothing; the rule's own test file must then fail. Exits with 1 if a rule has no mutation of a limit
that a test notices (of its silence, where it has no limits), or fails unmutated. A mutation that
survives means that one could mistype the number and no test would tell.
"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, field, fields, make_dataclass
from pathlib import Path
from typing import Any

import pytest

from rlhfdoctor.profile import rules
from rlhfdoctor.rules import Rule

TESTS = Path(__file__).parent.parent / "tests" / "rules"

FACTORS = (0.5, 2.0)

KILLED, SURVIVED, SAME = "killed", "SURVIVED", "same"
"""What became of a mutation; one that leaves the number as it is (0, or half of 1) is none."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What became of a limit's mutations, one for each factor."""

    limit: str
    default: float
    results: tuple[str, ...]


def main() -> int:
    """Mutate the rules asked for, print the table, return the exit code."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("codes", nargs="*", help="codes, or how they begin; all without")
    wanted = tuple(arguments.parse_args().codes)
    chosen = [rule for rule in rules() if not wanted or rule.code.startswith(wanted)]
    print(f"{'rule':<8}{'limit':<24}{'default':>10}  {'x0.5':<10}{'x2':<10}")
    failed: list[str] = []
    survivors: list[str] = []
    for rule in chosen:
        path = TESTS / f"test_{rule.judge.__module__.rpartition('.')[2]}.py"
        if not passes(path) or not unmoved(rule, path):
            failed.append(f"{rule.code}: its tests fail, or there are none, without a mutation")
            continue
        fates = list(mutated(rule, path))
        with changed(rule, "judge", _silent):
            silence = SURVIVED if passes(path) else KILLED
        for fate in (*fates, Fate("(finds nothing)", 0.0, (silence,))):
            shown = f"{fate.default:>10g}" if fate.limit[0] != "(" else f"{'':>10}"
            results = "".join(f"{result:<10}" for result in fate.results)
            print(f"{rule.code:<8}{fate.limit:<24}{shown}  {results}".rstrip(), flush=True)
            survivors.extend(
                f"{rule.code}.{fate.limit} x{factor:g}"
                for factor, result in zip(FACTORS, fate.results, strict=False)
                if result == SURVIVED and fate.limit[0] != "("
            )
        if not any(KILLED in fate.results for fate in fates) if fates else silence != KILLED:
            failed.append(f"{rule.code}: no test notices a mutation")
    print(f"\n{len(chosen)} rules; {len(survivors)} mutations of limits survive:")
    for line in (*survivors, *failed):
        print(f"  {line}")
    return 1 if failed else 0


def mutated(rule: Rule, path: Path) -> Iterator[Fate]:
    """Halve and double each limit of a rule in turn."""
    for item in fields(rule.limits):
        default = getattr(rule.limits(), item.name)
        results = []
        for factor in FACTORS:
            value = mutation(default, factor)
            if value == default:
                results.append(SAME)
                continue
            with changed(rule, "limits", with_default(rule.limits, item.name, value)):
                results.append(SURVIVED if passes(path) else KILLED)
        yield Fate(item.name, default, tuple(results))


def unmoved(rule: Rule, path: Path) -> bool:
    """Say whether the tests pass with a class of limits in the place of the rule's, unmutated."""
    first = next(iter(fields(rule.limits)), None)
    if first is None:
        return True
    same = with_default(rule.limits, first.name, getattr(rule.limits(), first.name))
    with changed(rule, "limits", same):
        return passes(path)


def mutation(default: float, factor: float) -> float:
    """Return a default multiplied; whole numbers stay whole and at least 1."""
    if isinstance(default, int):
        return max(1, round(default * factor))
    return default * factor


def with_default(limits: type[Any], name: str, value: float) -> type[Any]:
    """Return a class of limits that differs in one default."""
    kind = next(item.type for item in fields(limits) if item.name == name)
    changed_field = (name, kind, field(default=value))
    return make_dataclass(limits.__name__, [changed_field], bases=(limits,), frozen=True)


@contextmanager
def changed(rule: Rule, name: str, value: object) -> Iterator[None]:
    """Give a rule, which is frozen, another attribute for a while."""
    before = getattr(rule, name)
    object.__setattr__(rule, name, value)
    try:
        yield
    finally:
        object.__setattr__(rule, name, before)


def passes(path: Path) -> bool:
    """Run a test file up to the first failure; say whether all of it passed."""
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        return pytest.main(["-x", "-p", "no:cacheprovider", str(path)]) == 0


def _silent(run: object, limits: object) -> Iterator[Any]:
    return iter(())


if __name__ == "__main__":
    sys.exit(main())
