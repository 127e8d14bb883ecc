import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from rlhfdoctor import registry
from rlhfdoctor.dialects import Dialect
from rlhfdoctor.readers import Reader
from rlhfdoctor.reports import Report
from rlhfdoctor.rules import Rule

PACKAGE = Path(registry.__file__).parent


@pytest.fixture
def fresh() -> Iterator[None]:
    """Forget what was imported, before and after."""
    registry.modules.cache_clear()
    yield
    registry.modules.cache_clear()


@pytest.mark.parametrize(
    ("group", "kind"),
    [("rules", Rule), ("readers", Reader), ("dialects", Dialect), ("reports", Report)],
)
def test_every_file_of_a_group_defines_exactly_one_member(group: str, kind: type[object]) -> None:
    files = sorted(
        path.stem for path in (PACKAGE / group).glob("*.py") if not path.stem.startswith("_")
    )
    names = [module.__name__.rpartition(".")[2] for module in registry.modules(group)]
    assert names == files
    for module in registry.modules(group):
        own = {id(value) for value in vars(module).values() if isinstance(value, kind)}
        assert len(own) == 1, module.__name__
    assert len(registry.members(group, kind)) == len(files)


def test_codes_and_names_are_unique() -> None:
    rules = registry.members("rules", Rule)
    assert len({rule.code for rule in rules}) == len(rules)
    for names in (
        [item.name for item in registry.members("readers", Reader)],
        [item.name for item in registry.members("dialects", Dialect)],
    ):
        assert len(set(names)) == len(names)


def test_a_rule_is_named_like_its_file() -> None:
    for module in registry.modules("rules"):
        rule = next(value for value in vars(module).values() if isinstance(value, Rule))
        assert module.__name__ == f"rlhfdoctor.rules.{rule.name}"


def plugin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, group: str, module: str, text: str
) -> None:
    """Install a module that another package names as a member of a group."""
    (tmp_path / f"{module}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, module, raising=False)
    point = EntryPoint(name="mine", value=module, group=f"rlhfdoctor.{group}")

    def points(*, group: str) -> list[EntryPoint]:
        return [point] if group == point.group else []

    monkeypatch.setattr(registry, "entry_points", points)


@pytest.mark.usefixtures("fresh")
def test_another_package_can_add_a_member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin(
        tmp_path,
        monkeypatch,
        "dialects",
        "outside_dialect",
        "from rlhfdoctor.dialects import Dialect, Key\n"
        "MINE = Dialect('mine', 'Mine', 'PPO', {'x': Key('lr')})\n",
    )
    names = [item.name for item in registry.members("dialects", Dialect)]
    assert names[-1] == "mine"
    assert "trl_grpo" in names
    assert "mine" not in [item.name for item in registry.members("readers", Reader)]


@pytest.mark.usefixtures("fresh")
def test_a_member_that_two_modules_hold_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = len(registry.members("dialects", Dialect))
    registry.modules.cache_clear()
    text = "from rlhfdoctor.dialects.trl_grpo import DIALECT\nAGAIN = DIALECT\n"
    plugin(tmp_path, monkeypatch, "dialects", "outside_again", text)
    assert len(registry.members("dialects", Dialect)) == before


@pytest.mark.usefixtures("fresh")
def test_a_member_that_does_not_import_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin(tmp_path, monkeypatch, "rules", "outside_broken", "import no_such_module_at_all\n")
    with pytest.raises(ImportError, match="no_such_module_at_all"):
        registry.members("rules", Rule)


def test_an_unknown_group_is_an_error() -> None:
    with pytest.raises(ImportError):
        registry.modules("nothing")
