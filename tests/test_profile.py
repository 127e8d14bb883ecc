import os
from pathlib import Path
from typing import Any

import pytest

from rlhfdoctor.errors import BadProfile, DoctorError
from rlhfdoctor.profile import MOST, Profile, check_codes, limits_of, load, rules

RULE = next(rule for rule in rules() if rule.code == "KL003")


def toml(tmp_path: Path, text: str, name: str = "mine.toml") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_without_a_file_everything_is_default() -> None:
    assert load(None) == Profile("default", {}, None)
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
        pytest.param("ceiling = 1\n", "unknown entry ceiling in the profile", id="a bare limit"),
        pytest.param("KL003 = 1\n", "unknown entry KL003 in the profile", id="a bare code"),
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
    ],
)
def test_files_that_are_wrong(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadProfile) as caught:
        load(toml(tmp_path, text))
    assert message in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("tool = 3\n", "tool in the profile is no table", id="a number for tools"),
        pytest.param("[[tool]]\na = 1\n", "tool in the profile is no table", id="a list of tools"),
        pytest.param(
            "[tool]\nrlhfdoctor = 'x'\n", "rlhfdoctor in the profile is no table", id="a text"
        ),
    ],
)
def test_a_pyproject_whose_entry_is_no_table(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(BadProfile) as caught:
        load(toml(tmp_path, text, "pyproject.toml"))
    assert caught.value.message == message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "value"), [("ceiling", 0), ("ceiling", 10**9), ("patience", 1), ("patience", 10**9)]
)
def test_limits_may_be_at_the_ends_of_their_range(name: str, value: int) -> None:
    assert getattr(limits_of(RULE, {name: value}), name) == value


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(BadProfile, match="is no valid TOML"):
        load(path)


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
