import inspect
import math
import re
import string
from dataclasses import fields, replace
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rlhfdoctor.model import Conflict, Finding, Location, Run, Seam, Skip
from rlhfdoctor.profile import limits_of, rules
from rlhfdoctor.rules import Rule
from rlhfdoctor.runs import read_runs
from rlhfdoctor.vocabulary import METRICS
from tests.builders import FIXTURES, HEALTHY, RUNS, began, run_of, scanned, scored

RULES = [pytest.param(rule, id=f"{rule.code} {rule.name}") for rule in rules()]
SICK = sorted({*RUNS} - {*HEALTHY})
HERE = Path(__file__).parent
NAN, INF = float("nan"), float("inf")
COLUMNS = {rule.code: {*rule.needs, *rule.any_of} & set(METRICS) for rule in rules()}
"""The columns of the log that each rule needs."""

SCORED = (began(), scored(5), scored(10, 0.1))
"""A sound recomputation, for rules that compare the log with one."""

READERS = [pytest.param(rule, id=rule.code) for rule in rules() if COLUMNS[rule.code]]
"""Rules that need a column of the log."""


@cache
def fixture(name: str) -> tuple[Run, ...]:
    return tuple(read_runs(FIXTURES / name))


def judged(rule: Rule, run: Run) -> list[Finding] | Skip:
    return rule.outcome(run, limits_of(rule, {}))


def modules() -> list[str]:
    """The names of the rules' test files, as modules."""
    return sorted(f"tests.rules.{path.stem}" for path in (HERE / "rules").glob("test_*.py"))


def module_of(rule: Rule) -> str:
    return rule.judge.__module__.rpartition(".")[2]


def everywhere(*values: float | None) -> Run:
    """A log that holds every column of the vocabulary, all with the same values."""
    columns: dict[str, Any] = dict.fromkeys(METRICS, values)
    return run_of(**columns, scores=SCORED)


def logged_until(rows: int, more: int, every: int = 1) -> Run:
    """A log whose FLOP share goes on for ``more`` rows after all other columns ended."""
    calm = {"truncation_rate": 0.1, "frac_reward_zero_std": 0.1, "logp_chosen": -1.0}
    columns: dict[str, Any] = {
        name: [calm.get(name, 1.0) if row % every == 0 else None for row in range(rows)]
        + [None] * more
        for name in (*METRICS, "eval_dpo_accuracy")
    }
    return run_of(log_offset=1, scores=SCORED, **{**columns, "mfu": [1.0] * (rows + more)})


@cache
def findings_of_sick_runs() -> tuple[Finding, ...]:
    """Findings of the fixtures, and of illnesses that none of them has.

    A rule's test file may name runs with its illness in ``SICK``.
    """
    apart = run_of(kl_ref_token=[0.5] * 12, log_offset=1)
    stuck = run_of(loss_total=[math.log(2)] * 12, dpo_margin=[0.0] * 12)
    broken = run_of(loss_total=[1.0] * 10 + [NAN] * 10)
    nan = {"finite": False, "non_finite": 3, "first_non_finite": "w", "norm": None}
    weights = [scanned(10), scanned(20, norm=99.0, zero_rows=2, first_zero_row="w[1]")]
    weights += [scanned(30, norm=99.0, hash=f"{20:064x}"), scanned(40, **nan)]
    untrained = [scanned(step, adapter=True, adapter_zero=True, hash="0") for step in (10, 20)]
    far = [began(), scored(5, 0.5), scored(10, 2.0, perplexity_policy=2.0)]
    moved = run_of(kl_ref_token=[0.5] * 5 + [0.01] * 7, scores=far)
    calm = [began(), scored(3, 0.5), scored(9, 0.5)]
    anew = run_of(kl_ref_token=[0.5] * 5 + [0.01] * 7, scores=calm)
    wrong = run_of(kl_ref_token=[1.5] * 12, scores=[began(), scored(5, 0.5), scored(9, 0.5)])
    still = run_of(scores=[began(), scored(5, 0.0), scored(9, 0.0)])
    runs = [run for name in SICK for run in fixture(name)]
    torn = run_of(loss_total=[1.0] * 12, config={"ended_with": "RuntimeError: out of memory"})
    place = Location("log.jsonl", key="loss", line=3)
    other = Conflict("loss", 1, 3, (2.0, 1.0), ("a.jsonl", "log.jsonl"), place)
    torn = replace(torn, conflicts=(other,), seams=(Seam(4, 3, place),))
    runs += [moved, anew, wrong, still, torn]
    found: list[Finding] = []
    runs += [run for name in modules() for run in getattr(import_module(name), "SICK", ())]
    for run in (*runs, apart, stuck, broken, run_of(scans=weights), run_of(scans=untrained)):
        for rule in rules():
            outcome = judged(rule, run)
            found += [] if isinstance(outcome, Skip) else outcome
    return tuple(found)


# What a rule must say about itself


@pytest.mark.parametrize("rule", RULES)
def test_a_code_is_letters_and_three_digits(rule: Rule) -> None:
    assert re.fullmatch(r"[A-Z]{2,3}\d{3}", rule.code)


def test_no_two_rules_share_a_code_or_a_name() -> None:
    assert len({rule.code for rule in rules()}) == len(rules())
    assert len({rule.name for rule in rules()}) == len(rules())


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_named_after_its_module_and_has_a_test_file(rule: Rule) -> None:
    assert rule.name == module_of(rule)
    path = HERE / "rules" / f"test_{module_of(rule)}.py"
    assert path.is_file()
    assert f'"{rule.code}"' in path.read_text(encoding="utf-8")


def test_every_test_file_of_a_rule_has_its_rule() -> None:
    known = {f"test_{module_of(rule)}.py" for rule in rules()}
    assert {name.rpartition(".")[2] + ".py" for name in modules()} == known


@pytest.mark.parametrize("rule", RULES)
def test_the_explanation_begins_with_one_sentence(rule: Rule) -> None:
    first, blank, *_ = rule.doc.splitlines()
    assert re.fullmatch(r"[A-Z].*[^.]\.", first), first
    assert not re.search(r"[.!?] ", first), first
    assert blank == ""


@pytest.mark.parametrize("rule", RULES)
def test_the_explanation_ends_with_a_remedy(rule: Rule) -> None:
    paragraphs = rule.doc.split("\n\n")
    assert [text.startswith("Remedy: ") for text in paragraphs].count(True) == 1
    assert paragraphs[-1].startswith("Remedy: ")
    assert rule.remedy.endswith(".")


@pytest.mark.parametrize("rule", RULES)
def test_every_limit_is_a_number_with_a_meaning(rule: Rule) -> None:
    names = [item.name for item in fields(rule.limits)]
    if not names:
        return
    source = inspect.getsource(rule.limits)
    defaults = rule.limits()
    for name in names:
        kind = type(getattr(defaults, name))
        assert kind in (int, float)
        pattern = rf"^    {name}: {kind.__name__} = \S+  # \S.*$"
        assert re.search(pattern, source, re.MULTILINE), f"{rule.code}.{name} has no comment"


@pytest.mark.parametrize("rule", RULES)
def test_no_argument_of_a_sentence_is_positional(rule: Rule) -> None:
    for template in (rule.text, rule.brief):
        for _, name, _, _ in string.Formatter().parse(template):
            assert name is None or name.isidentifier()


# What every finding must hold


def test_every_rule_finds_something_on_a_sick_run_and_every_sentence_can_be_filled() -> None:
    found = findings_of_sick_runs()
    for finding in found:
        for said in (finding.message, finding.summary):
            assert said
            assert not re.search(r"[{}]", said), said
    assert {finding.code for finding in found} == {rule.code for rule in rules()}


def test_every_finding_can_be_looked_up() -> None:
    for finding in findings_of_sick_runs():
        for evidence in finding.evidence:
            assert evidence.where.file, finding.code
            if evidence.kind != "checkpoint":
                assert evidence.where.key or evidence.where.line, finding.code
                assert evidence.unit, finding.code


def test_every_onset_lies_within_its_interval() -> None:
    dated = [item for item in findings_of_sick_runs() if item.onset is not None]
    assert dated
    for finding in dated:
        assert finding.onset is not None
        assert 0 <= finding.onset.low <= finding.onset.step <= finding.onset.high, finding.code


# What no rule may do


@pytest.mark.parametrize("name", HEALTHY)
@pytest.mark.parametrize("rule", RULES)
def test_a_healthy_run_has_information_at_most(rule: Rule, name: str) -> None:
    runs = fixture(name)
    assert runs
    for run in runs:
        outcome = judged(rule, run)
        if not isinstance(outcome, Skip):
            assert [item for item in outcome if item.severity != "info"] == []


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    "run",
    [
        pytest.param(run_of(), id="an empty run"),
        pytest.param(everywhere(1.0), id="one row"),
        pytest.param(everywhere(NAN), id="one row of NaN"),
        pytest.param(everywhere(*[0.0] * 30), id="zeros throughout"),
        pytest.param(everywhere(*[NAN] * 30), id="NaN throughout"),
        pytest.param(everywhere(*[INF] * 30), id="infinity throughout"),
        pytest.param(everywhere(*[-INF] * 30), id="minus infinity throughout"),
        pytest.param(everywhere(*[1e308] * 30), id="huge numbers throughout"),
        pytest.param(everywhere(*[-1e308] * 30), id="huge negative numbers throughout"),
        pytest.param(everywhere(*[1.0] * 15, *[1e308] * 15), id="a jump to huge numbers"),
        pytest.param(everywhere(*[1.0] * 15, *[1e200] * 15), id="numbers too huge to square"),
        pytest.param(everywhere(*[1e308, -1e308] * 15), id="huge numbers of either sign"),
        pytest.param(everywhere(*[5e-324] * 30), id="tiny numbers throughout"),
        pytest.param(everywhere(1.0, *[NAN] * 29), id="one finite row"),
        pytest.param(everywhere(*[1.0, NAN, INF] * 10), id="finite rows now and then"),
        pytest.param(everywhere(*[None] * 30), id="rows that hold nothing"),
    ],
)
def test_no_rule_raises_on_a_strange_log(rule: Rule, run: Run) -> None:
    outcome = judged(rule, run)
    if isinstance(outcome, Skip):
        assert outcome.code == rule.code
        assert outcome.missing
    else:
        for finding in outcome:
            assert finding.code == rule.code
            assert finding.message
            assert finding.summary


@pytest.mark.parametrize("rule", RULES)
def test_an_empty_run_is_never_judged(rule: Rule) -> None:
    assert isinstance(judged(rule, run_of()), Skip)


# What could not be looked at is not clear


@pytest.mark.parametrize("rule", READERS)
@pytest.mark.parametrize(
    "value",
    [
        pytest.param(NAN, id="NaN"),
        pytest.param(INF, id="infinity"),
        pytest.param(None, id="nothing"),
    ],
)
def test_a_column_without_a_finite_value_is_missing(rule: Rule, value: float | None) -> None:
    outcome = judged(rule, everywhere(*[value] * 30))
    assert isinstance(outcome, Skip)
    assert {name for need in outcome.missing for name in need.split(" or ")} >= COLUMNS[rule.code]


@pytest.mark.parametrize("rule", READERS)
def test_zeros_throughout_were_never_computed(rule: Rule) -> None:
    if not rule.zeros:
        assert isinstance(judged(rule, everywhere(*[0.0] * 30)), Skip)


@pytest.mark.parametrize("rule", READERS)
def test_the_rows_of_a_rule_are_its_finite_values(rule: Rule) -> None:
    needed = next((need for need in rule.needs if need.startswith("rows>=")), None)
    if needed is None:
        return
    rows = int(needed.removeprefix("rows>="))
    for column in COLUMNS[rule.code]:
        other = [1.0] * rows if column in rule.needs else [NAN] * rows
        columns: dict[str, Any] = dict.fromkeys(METRICS, other)
        columns[column] = [1.0] * (rows - 1) + [NAN]
        assert rule.missing(run_of(**columns, scores=SCORED)) == (needed,)
        columns[column] = [1.0] * rows
        assert rule.missing(run_of(**columns, scores=SCORED)) == ()


@pytest.mark.parametrize("rule", READERS)
@pytest.mark.parametrize(
    ("every", "more", "stopped"),
    [
        pytest.param(1, 5, False, id="five rows later the log may have ended"),
        pytest.param(1, 6, True, id="six rows later it went on without"),
        pytest.param(3, 10, False, id="less than four of the usual gaps later"),
        pytest.param(3, 11, True, id="more than four of the usual gaps later"),
    ],
)
def test_a_column_that_stopped_being_logged_is_not_clear(
    rule: Rule, every: int, more: int, stopped: bool
) -> None:
    outcome = judged(rule, logged_until(60, more, every))
    if stopped:
        last = 60 if every == 1 else 58
        if isinstance(outcome, list):
            assert outcome  # found before it stopped
            return
        read = {name.removesuffix(f" after step {last}") for name in outcome.missing}
        assert read <= set(COLUMNS[rule.code])
        assert read >= set(COLUMNS[rule.code]) & set(rule.needs)
    elif isinstance(outcome, Skip):
        assert not any(" after step " in item for item in outcome.missing)


def test_what_was_found_before_a_column_stopped_is_still_found() -> None:
    rule = next(rule for rule in rules() if rule.code == "ENT001")
    run = run_of(entropy=[2.0] * 10 + [0.1] * 6 + [None] * 9, lr=[1.0] * 25)
    outcome = judged(rule, run)
    assert not isinstance(outcome, Skip)
    assert [item.severity for item in outcome] == ["critical"]


def test_one_of_several_columns_that_goes_on_is_enough() -> None:
    rule = next(rule for rule in rules() if rule.code == "ENT001")
    run = run_of(entropy=[2.0] * 30, entropy_unknown=[50.0] * 10 + [None] * 20)
    assert judged(rule, run) == []
