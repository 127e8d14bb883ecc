import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rlhfdoctor.doctor import diagnose
from rlhfdoctor.errors import BadProfile, DoctorError
from rlhfdoctor.policy import KEYS
from rlhfdoctor.profile import (
    MOST,
    Profile,
    built_in,
    check_codes,
    choose,
    effective,
    limits_of,
    load,
    rules,
)
from tests.builders import run_of

RULE = next(rule for rule in rules() if rule.code == "KL003")


def toml(tmp_path: Path, text: str, name: str = "mine.toml") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_without_a_file_everything_is_default() -> None:
    assert load(None) == Profile("", {}, None)
    assert load("default") == Profile("default", {}, None)
    defaults = RULE.limits()
    assert limits_of(RULE, {}) == defaults
    assert (defaults.ceiling, defaults.patience) == (1.0, 5)


def test_a_file_sets_limits_and_what_is_required(tmp_path: Path) -> None:
    text = 'require = ["ENT001", "KL003"]\n[KL003]\nceiling = 2.5\npatience = 3\n[KL002]\nfar = 9\n'
    profile = load(toml(tmp_path, text))
    assert profile.name == "mine"
    assert profile.require == ("ENT001", "KL003")
    assert profile.overrides == {"KL003": {"ceiling": 2.5, "patience": 3}, "KL002": {"far": 9}}
    limits = limits_of(RULE, profile.overrides["KL003"])
    assert (limits.ceiling, limits.patience) == (2.5, 3)


def test_an_empty_require_is_not_the_default_list(tmp_path: Path) -> None:
    assert load(toml(tmp_path, "require = []\n")).require == ()
    assert load(toml(tmp_path, "")).require is None


@pytest.mark.parametrize(
    ("text", "overrides"),
    [
        pytest.param(
            "[project]\nname = 'x'\n[tool.other]\na = 1\n[tool.rlhfdoctor.KL003]\nceiling = 2.0\n",
            {"KL003": {"ceiling": 2.0}},
            id="a table of its own",
        ),
        pytest.param("[project]\nname = 'x'\n", {}, id="no table"),
        pytest.param("[tool.other]\nKL003 = 1\n", {}, id="the table of another tool"),
    ],
)
def test_a_pyproject_is_read_under_its_tool_table(
    tmp_path: Path, text: str, overrides: dict[str, Any]
) -> None:
    assert load(toml(tmp_path, text, "pyproject.toml")).overrides == overrides


def test_settings_win_over_the_file(tmp_path: Path) -> None:
    path = toml(tmp_path, "[KL003]\nceiling = 2.5\npatience = 3\n")
    profile = load(path, ["KL003.ceiling=4", "ENT001.patience=7", "KL003.ceiling=5e-1"])
    assert profile.overrides["KL003"] == {"ceiling": 0.5, "patience": 3}
    assert profile.overrides["ENT001"] == {"patience": 7}


def test_a_whole_number_is_a_number_and_becomes_a_float() -> None:
    ceiling = limits_of(RULE, {"ceiling": 4}).ceiling
    assert ceiling == 4.0
    assert isinstance(ceiling, float)


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        pytest.param(
            "KL03.ceiling=4", "no rule has the code KL03; did you mean KL003?", id="a code misspelt"
        ),
        pytest.param("QQQQQ.ceiling=4", "no rule has the code QQQQQ", id="a code like no other"),
        pytest.param(
            "KL003.celing=4",
            "KL003 has no limit celing; did you mean ceiling?",
            id="a limit misspelt",
        ),
        pytest.param("KL003.x=4", "KL003 has no limit x", id="a limit like no other"),
        pytest.param("KL003.=4", "KL003 has no limit ", id="a limit without a name"),
        pytest.param(
            "KL003.ceiling=high", "KL003.ceiling must be a number, not 'high'", id="a word"
        ),
        pytest.param("KL003.ceiling=", "KL003.ceiling must be a number, not ''", id="nothing"),
        pytest.param(
            "KL003.patience=2.5", "KL003.patience must be a whole number, not 2.5", id="half a row"
        ),
        pytest.param(
            "KL003.patience=5.0", "KL003.patience must be a whole number, not 5.0", id="a float"
        ),
        pytest.param(
            "KL003.ceiling=nan", "KL003.ceiling must lie between 0 and 1000000000", id="NaN"
        ),
        pytest.param(
            "KL003.ceiling=inf", "KL003.ceiling must lie between 0 and 1000000000", id="infinity"
        ),
        pytest.param(
            "KL003.ceiling=-0.1", "KL003.ceiling must lie between 0 and 1000000000", id="below zero"
        ),
        pytest.param(
            "KL003.ceiling=1000000001",
            "KL003.ceiling must lie between 0 and 1000000000",
            id="above the largest",
        ),
        pytest.param(
            "KL003.ceiling=" + "9" * 400,
            "KL003.ceiling must lie between 0 and 1000000000",
            id="beyond any float",
        ),
        pytest.param(
            "KL003.patience=0", "KL003.patience must lie between 1 and 1000000000", id="no row"
        ),
        pytest.param(
            "KL003.patience=-1", "KL003.patience must lie between 1 and 1000000000", id="minus one"
        ),
        pytest.param(
            "KL003.patience=1000000001",
            "KL003.patience must lie between 1 and 1000000000",
            id="too many rows",
        ),
        pytest.param(
            "KL003.ceiling=" + "x" * 900,
            f"KL003.ceiling must be a number, not {repr('x' * 900)[:40]}",
            id="a word that is shown in part",
        ),
        pytest.param("KL003.ceiling=true", "KL003.ceiling must be a number, not 'true'", id="true"),
        pytest.param(
            "KL003.ceiling", "--set KL003.ceiling: expected CODE.limit=value", id="no value"
        ),
        pytest.param("KL003=4", "--set KL003=4: expected CODE.limit=value", id="no limit"),
        pytest.param("", "--set : expected CODE.limit=value", id="nothing at all"),
    ],
)
def test_settings_that_are_wrong(setting: str, message: str) -> None:
    with pytest.raises(BadProfile) as caught:
        load(None, [setting])
    assert caught.value.message == message
    assert caught.value.hint in (
        "rlhfdoctor explain CODE prints a rule's limits",
        "--set KL002.ceiling=4",
    )


def row(**changed: object) -> str:
    """Return a sound row of a rollback table as TOML, with some of it changed."""
    told = {"checkpoint": "initial", "change": "x", **changed}
    return "[[rollback]]\n" + "".join(f"{key} = {json.dumps(item)}\n" for key, item in told.items())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("[KL03]\nceiling = 1\n", "did you mean KL003?", id="a code misspelt"),
        pytest.param("[KL003]\ncelling = 1\n", "did you mean ceiling?", id="a limit misspelt"),
        pytest.param("[KL003]\nceiling = true\n", "must be a number, not True", id="true"),
        pytest.param("[KL003]\npatience = true\n", "must be a whole number", id="true for rows"),
        pytest.param("[KL003]\npatience = 5.0\n", "must be a whole number", id="a float for rows"),
        pytest.param("[KL003]\nceiling = '1'\n", "must be a number, not '1'", id="a text"),
        pytest.param("[KL003]\nceiling = [1]\n", "must be a number, not [1]", id="a list"),
        pytest.param("[KL003.ceiling]\na = 1\n", "must be a number", id="a table too deep"),
        pytest.param("ceiling = 1\n", "unknown entry ceiling", id="a bare limit"),
        pytest.param("KL003 = 1\n", "KL003 is no table", id="a bare code"),
        pytest.param("[kl003]\n[KL003]\n", "KL003 has two tables", id="a rule in two cases"),
        pytest.param("[KL003]\nfail-on = 1\n", "fail-on stands under [KL003]", id="a lost entry"),
        pytest.param("jobs = 3\n", "unknown entry jobs", id="an option that is no entry"),
        pytest.param("fail_on = 1\n", "; did you mean fail-on?", id="an entry misspelt"),
        pytest.param("[fail_on]\n", "; did you mean fail-on?", id="a table for an entry"),
        pytest.param(
            "allow_inconclusive = true\n", "; did you mean allow-inconclusive?", id="an underscore"
        ),
        pytest.param("[kl03]\n", "unknown entry kl03; did you mean KL003?", id="in lower case"),
        pytest.param("[tool.rlhfdoctor]\n", "is for a pyproject.toml", id="a pyproject's table"),
        pytest.param("fail-on = 'error'\n", "fail-on is no severity", id="no severity"),
        pytest.param("[[ignore]]\ncode = 'KL03'\n", "did you mean KL003?", id="an ignore's code"),
        pytest.param("extends = 'dialoge'\n", "did you mean dialogue?", id="no profile"),
        pytest.param("fail-on = warning\n", "is no valid TOML", id="a text without quotes"),
        pytest.param("require = 'KL003'\n", "require must be a list", id="require as a text"),
        pytest.param("require = [3]\n", "require must be a list", id="require of numbers"),
        pytest.param("require = ['KL03']\n", "did you mean KL003?", id="require misspelt"),
        pytest.param("[KL003]\nceiling = nan\n", "must lie between 0 and", id="NaN"),
        pytest.param("[KL003]\nceiling = -inf\n", "must lie between 0 and", id="infinity"),
        pytest.param("[KL003]\npatience = 0\n", "must lie between 1 and", id="no row"),
        pytest.param("a = " + "[" * 100_000, "is no valid TOML", id="100,000 brackets"),
        pytest.param("a = " + "9" * 10_000, "is no valid TOML", id="a number of 10,000 digits"),
        pytest.param("[KL003\n", "is no valid TOML", id="no TOML"),
        pytest.param("a = 1\na = 2\n", "is no valid TOML", id="a key twice"),
        pytest.param("rollback = 3\n", "rollback must be tables", id="a number for the table"),
        pytest.param("rollback = []\n", "rollback must be tables", id="a table without rows"),
        pytest.param("rollback = [3]\n", "row 1 of rollback is no row", id="a number for a row"),
        pytest.param(row(first="x"), "row 1 of rollback is no row", id="a column too many"),
        pytest.param(row(last=9), "every row of rollback but the last", id="a last row that ends"),
        pytest.param(row() + row(), "every row of rollback but the last", id="a row without end"),
        pytest.param(row(last=9) * 2 + row(), "must be a step after 9", id="a step twice"),
        pytest.param(row(last=-1) + row(), "must be a step after -1", id="a negative step"),
        pytest.param(row(last=True) + row(), "must be a step after -1", id="true for a step"),
        pytest.param(row(checkpoint="inital"), "did you mean initial?", id="a place misspelt"),
        pytest.param(row(checkpoint=[]), "no place to go back to", id="a list for a place"),
        pytest.param(row(change=""), "must be a short text", id="nothing to change"),
        pytest.param(row(change="x" * 201), "must be a short text", id="an essay"),
    ],
)
def test_files_that_are_wrong(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadProfile) as caught:
        load(toml(tmp_path, text))
    assert message in caught.value.message
    assert caught.value.hint
    with pytest.raises(BadProfile) as configured:
        load(None, config=tmp_path / "mine.toml")
    assert configured.value.message == caught.value.message
    assert caught.value.message.startswith(str(tmp_path / "mine.toml"))


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        pytest.param(
            "fail_on = 'info'\n",
            "known: fail-on, allow-inconclusive, baseline, ignore, require, extends, rollback, "
            "or a table named after a rule",
            id="an entry misspelt",
        ),
        pytest.param(
            "fail-on = warning\n", 'texts need quotes: fail-on = "warning"', id="no quotes"
        ),
        pytest.param("require = ['KL003,KL002']\n", 'require = ["KL003", "KL002"]', id="a comma"),
        pytest.param("[tool.rlhfdoctor]\n", "the entries stand at the top", id="a pyproject's"),
    ],
)
def test_a_file_that_is_wrong_is_told_how_to_be_right(tmp_path: Path, text: str, hint: str) -> None:
    with pytest.raises(BadProfile) as caught:
        load(toml(tmp_path, text))
    assert hint in caught.value.hint


def test_a_byte_order_mark_and_codes_in_lower_case_are_understood(tmp_path: Path) -> None:
    text = "require = ['kl002']\n[kl003]\nceiling = 2.5\n[[ignore]]\ncode = 'len005'\n"
    text += "reason = 'x'\nuntil = 2027-01-01\n"
    profile = load(toml(tmp_path, "\ufeff" + text), ["kl003.patience=3", "KL003.patience=4"])
    assert profile.require == ("KL002",)
    assert profile.overrides == {"KL003": {"ceiling": 2.5, "patience": 4}}
    assert [item.code for item in profile.policy.ignores] == ["LEN005"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("tool = 3\n", "tool is no table", id="a number for tools"),
        pytest.param("[[tool]]\na = 1\n", "tool is no table", id="a list of tools"),
        pytest.param("[tool]\nrlhfdoctor = 'x'\n", "rlhfdoctor is no table", id="a text"),
    ],
)
def test_a_pyproject_whose_entry_is_no_table(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadProfile) as caught:
        load(toml(tmp_path, text, "pyproject.toml"))
    assert caught.value.message == f"{tmp_path / 'pyproject.toml'}: {message}"
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "value"), [("ceiling", 0), ("ceiling", 10**9), ("patience", 1), ("patience", 10**9)]
)
def test_limits_may_be_at_the_ends_of_their_range(name: str, value: int) -> None:
    assert getattr(limits_of(RULE, {name: value}), name) == value


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(BadProfile, match="is no valid TOML") as caught:
        load(path)
    assert caught.value.hint == "save it as UTF-8"


@pytest.mark.parametrize(
    ("name", "why"),
    [
        pytest.param("none.toml", "No such file or directory", id="a file that is missing"),
        pytest.param(".", "it is no file", id="a folder"),
        pytest.param("pipe.toml", "it is no file", id="a FIFO"),
    ],
)
def test_a_file_that_cannot_be_read(tmp_path: Path, name: str, why: str) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    with pytest.raises(BadProfile) as caught:
        load(tmp_path / name)
    assert caught.value.message == f"cannot read {tmp_path / name}: {why}"
    assert caught.value.hint == "give a TOML file"


def test_a_bad_profile_is_an_error_that_a_user_can_act_on() -> None:
    assert issubclass(BadProfile, DoctorError)


def test_codes_are_checked() -> None:
    assert check_codes(["KL003", "ENT001"]) == ("KL003", "ENT001")
    with pytest.raises(BadProfile, match=r"no rule has the code ENT01; did you mean ENT001\?"):
        check_codes(["KL003", "ENT01"])
    assert check_codes(["kl003"]) == ("KL003",)
    with pytest.raises(BadProfile, match="no rule has the code KL003,KL002") as caught:
        check_codes(["KL003,KL002"])
    assert caught.value.hint.startswith("repeat --require")


def test_no_limit_is_called_like_an_entry_of_a_file() -> None:
    assert not {item.limit for item in effective(load(None))} & {*KEYS, "require", "extends"}


@pytest.mark.parametrize("code", [rule.code for rule in rules()])
def test_every_limit_can_be_stated_at_its_default(code: str) -> None:
    rule = next(rule for rule in rules() if rule.code == code)
    defaults = rule.limits()
    stated = {name: getattr(defaults, name) for name in defaults.__dataclass_fields__}
    assert limits_of(rule, stated) == defaults
    for name, value in stated.items():
        assert type(value) in (int, float)
        with pytest.raises(BadProfile):
            limits_of(rule, {name: "word"})


@pytest.mark.parametrize("code", [rule.code for rule in rules()])
def test_every_limit_lies_in_its_range(code: str) -> None:
    rule = next(rule for rule in rules() if rule.code == code)
    defaults = rule.limits()
    for name in defaults.__dataclass_fields__:
        whole = isinstance(getattr(defaults, name), int)
        least = 1 if whole else 0
        assert getattr(limits_of(rule, {name: least}), name) == least
        assert getattr(limits_of(rule, {name: MOST}), name) == 1_000_000_000
        refused: list[float] = [least - 1, MOST + 1, -MOST]
        refused += [] if whole else [-1e-9, 1e9 + 1, float("nan"), float("inf"), float("-inf")]
        for value in refused:
            with pytest.raises(BadProfile, match=rf"{code}\.{name} must lie between {least} and"):
                limits_of(rule, {name: value})


# built-in profiles


def test_the_package_holds_its_profiles() -> None:
    assert set(built_in()) == {"default", "dialogue", "creative", "reasoning", "dpo"}


@pytest.mark.parametrize("name", built_in())
def test_a_built_in_profile_is_one_that_a_user_could_write(name: str) -> None:
    profile = load(name)
    assert profile.name == name
    assert profile.require is None
    for code, limits in profile.overrides.items():
        rule = next(rule for rule in rules() if rule.code == code)
        assert limits
        assert limits_of(rule, limits)
        assert set(profile.origins[code].values()) == {f"built-in profile {name}"}


@pytest.mark.parametrize(
    ("name", "band"),
    [
        ("default", (0.5, 3.0)),
        ("dialogue", (0.5, 3.0)),
        ("creative", (1.0, 5.0)),
        ("reasoning", (0.0, 100.0)),
    ],
)
def test_each_task_has_its_band_of_kl(name: str, band: tuple[float, float]) -> None:
    found = {f"{item.code}.{item.limit}": item.value for item in effective(load(name))}
    assert (found["KL001.low"], found["KL001.high"]) == band


def origin_of(profile: Profile, limit: str) -> tuple[float, str]:
    return next(
        (item.value, item.origin)
        for item in effective(profile)
        if f"{item.code}.{item.limit}" == limit
    )


def test_each_layer_lies_over_the_last_and_is_remembered(tmp_path: Path) -> None:
    path = toml(tmp_path, 'extends = "creative"\n[KL001]\nhigh = 6.0\n[KL003]\nceiling = 2\n')
    profile = load(path, ["KL003.ceiling=3"])
    assert profile.name == "mine"
    assert origin_of(profile, "KL001.rows") == (10, "rule default")
    assert origin_of(profile, "KL001.low") == (1.0, "built-in profile creative")
    assert origin_of(profile, "KL001.high") == (6.0, str(path))
    assert origin_of(profile, "KL003.ceiling") == (3.0, "--set")


def test_a_file_that_extends_nothing_lies_over_the_defaults(tmp_path: Path) -> None:
    profile = choose(run_of(algorithm="DPO"), load(toml(tmp_path, "[KL001]\nhigh = 6.0\n")))
    assert profile.name == "mine"
    assert {*profile.overrides} == {"KL001"}


def test_a_pyproject_may_extend_a_profile(tmp_path: Path) -> None:
    path = toml(tmp_path, '[tool.rlhfdoctor]\nextends = "creative"\n', "pyproject.toml")
    assert load(path).overrides["KL001"] == {"low": 1.0, "high": 5.0}


def test_what_is_required_is_the_users_word(tmp_path: Path) -> None:
    path = toml(tmp_path, 'extends = "dpo"\nrequire = ["KL003"]\n')
    assert load(path, ["KL003.ceiling=3"]).require == ("KL003",)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param(
            'extends = "dialoge"\n',
            "extends names no built-in profile: 'dialoge'; did you mean dialogue?",
            id="misspelt",
        ),
        pytest.param(
            "extends = 3\n", "extends names no built-in profile: 3", id="a number for a name"
        ),
        pytest.param(
            'extends = "other.toml"\n',
            "extends names no built-in profile: 'other.toml'",
            id="another file",
        ),
    ],
)
def test_only_a_built_in_profile_can_be_extended(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadProfile) as caught:
        load(toml(tmp_path, text))
    assert caught.value.message == f"{tmp_path / 'mine.toml'}: {message}"
    assert "known are default, creative, dialogue, dpo, reasoning" in caught.value.hint


def test_a_profile_that_does_not_exist_is_told_as_such() -> None:
    with pytest.raises(BadProfile, match="no profile is called dialoge; did you mean dialogue"):
        load("dialoge")


def test_a_file_that_is_called_like_a_profile_is_named_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    toml(tmp_path, "[KL001]\nhigh = 6.0\n", "dialogue")
    assert load("dialogue").overrides["KL001"]["high"] == 3.0
    assert load("./dialogue").overrides["KL001"]["high"] == 6.0


# the choice


def rewarded(*rewards: float | None) -> list[dict[str, Any]]:
    return [{"step": 1, "response": "a", "reward": reward} for reward in rewards]


def parts(*names: str) -> dict[str, Any]:
    return {f"reward_component_mean[{name}]": [0.5] * 4 for name in names}


@pytest.mark.parametrize(
    ("run", "name", "reason"),
    [
        pytest.param(run_of(algorithm="DPO"), "dpo", "DPO", id="DPO"),
        pytest.param(run_of(algorithm="KTO"), "dpo", "KTO", id="its kin"),
        pytest.param(
            run_of(dpo_margin=[0.1] * 4), "dpo", "margins of pairs", id="margins tell pairs"
        ),
        pytest.param(
            run_of(algorithm="GRPO", **parts("accuracy_reward", "length")),
            "reasoning",
            "GRPO with verifiable reward components (accuracy_reward)",
            id="a component that checks an answer",
        ),
        pytest.param(
            run_of(algorithm="GRPO", **parts("PointwiseRMAccuracyORM")),
            "reasoning",
            "GRPO with verifiable reward components (PointwiseRMAccuracyORM)",
            id="a word of a name in CamelCase",
        ),
        pytest.param(
            run_of(algorithm="GRPO", **parts("informativeness", "advantage", "Compassion")),
            "default",
            "nothing tells the task",
            id="words that only hold such a word",
        ),
        pytest.param(
            run_of(algorithm="GRPO or RLOO", success_rate=[0.1] * 4),
            "reasoning",
            "GRPO or RLOO with a success rate",
            id="a success rate",
        ),
        pytest.param(
            run_of(algorithm="GRPO", format_rate=[0.1] * 4),
            "reasoning",
            "GRPO with a format rate",
            id="a format rate",
        ),
        pytest.param(
            run_of(algorithm="RLOO", samples=rewarded(0.0, 1.0, 1.0, None)),
            "reasoning",
            "RLOO with rewards of 0 and 1",
            id="rewards of 0 and 1",
        ),
        pytest.param(
            run_of(algorithm="GRPO", samples=rewarded(0.0, 0.5, 1.0)),
            "default",
            "nothing tells the task",
            id="rewards between 0 and 1",
        ),
        pytest.param(
            run_of(algorithm="GRPO", samples=rewarded(1.0, 1.0)),
            "default",
            "nothing tells the task",
            id="one reward alone",
        ),
        pytest.param(
            run_of(algorithm="GRPO", success_rate=[None] * 4),
            "default",
            "nothing tells the task",
            id="a success rate that was never logged",
        ),
        pytest.param(
            run_of(algorithm="GRPO", **parts("reward_model")),
            "default",
            "nothing tells the task",
            id="a component that checks nothing",
        ),
        pytest.param(
            run_of(algorithm="PPO", config={"reward_model": "rm"}),
            "dialogue",
            "PPO with a reward model",
            id="a reward model",
        ),
        pytest.param(
            run_of(algorithm="PPO", config={"reward_model": "rm"}, success_rate=[0.1] * 4),
            "reasoning",
            "PPO with a success rate",
            id="what is checked goes before a reward model",
        ),
        pytest.param(
            replace(run_of(algorithm="PPO"), framework="DeepSpeed-Chat"),
            "dialogue",
            "PPO with a reward model",
            id="a framework that knows nothing but reward models",
        ),
        pytest.param(
            replace(run_of(algorithm="PPO", config={"reward_model": "rm"}), framework="verl"),
            "default",
            "nothing tells the task",
            id="verl names a reward model that it may not use",
        ),
        pytest.param(
            run_of(algorithm="GRPO", config={"reward_model": "rm"}),
            "default",
            "nothing tells the task",
            id="GRPO with a reward model may be anything",
        ),
        pytest.param(
            run_of(algorithm="unknown", success_rate=[0.1] * 4),
            "default",
            "nothing tells the task",
            id="an unknown algorithm",
        ),
        pytest.param(
            run_of(algorithm="RM", config={"reward_model": "rm"}),
            "default",
            "nothing tells the task",
            id="a reward model's own training",
        ),
    ],
)
def test_the_run_chooses_by_evidence_alone(run: Any, name: str, reason: str) -> None:
    profile = choose(run, load(None))
    assert (profile.name, profile.reason) == (name, reason)
    assert diagnose(run).profile == name


def test_settings_lie_over_the_chosen_profile() -> None:
    run = run_of(algorithm="GRPO", success_rate=[0.1] * 4)
    profile = choose(run, load(None, ["KL001.high=50"]))
    assert profile.name == "reasoning"
    assert origin_of(profile, "KL001.high") == (50.0, "--set")
    assert origin_of(profile, "KL001.low") == (0.0, "built-in profile reasoning")


@pytest.mark.parametrize("name", built_in())
def test_a_profile_that_was_named_is_not_chosen_again(name: str) -> None:
    profile = choose(run_of(algorithm="DPO"), load(name))
    assert (profile.name, profile.reason) == (name, "")
    assert profile.overrides == built_in()[name].overrides


def test_the_diagnosis_says_why_and_by_which_limits() -> None:
    run = run_of(algorithm="GRPO", success_rate=[0.1] * 4)
    found = diagnose(run)
    assert found.profile_reason == "GRPO with a success rate"
    assert found.limits["KL001"]["high"] == 100.0
    named = diagnose(run, load("creative"))
    assert (named.profile, named.profile_reason) == ("creative", "")
    assert named.limits["KL001"]["high"] == 5.0


def test_every_effective_limit_has_a_meaning_and_an_origin() -> None:
    found = list(effective(load("reasoning")))
    assert len(found) == sum(len(rule.limits.__dataclass_fields__) for rule in rules())
    assert all(item.meaning and item.origin and item.rule for item in found)
