from typing import Any

import pytest

from rlhfdoctor.reports import Page
from rlhfdoctor.reports.terminal import tree_text


def cause(name: str, **fields: Any) -> dict[str, Any]:
    made = {"cause": name, "confidence": "probable", "remedy": f"mend {name}", "rivals": ()}
    return {**made, **fields}


def rival(name: str, *rules: str) -> dict[str, Any]:
    against = ("KL004",) if rules else ()
    return {"cause": name, "test": f"look at {name}", "rules": rules, "against": against}


def ask(code: str, **fields: Any) -> dict[str, Any]:
    made = {"code": code, "question": f"Is it {code}?", "rules": ("KL001", "KL002")}
    return {**made, "information": False, **fields}


@pytest.mark.parametrize(
    ("root", "drawn"),
    [
        pytest.param(
            ask("A", yes=cause("x"), no=None, unknown=None),
            ["A Is it A? (KL001, KL002)", "└── yes: x (probable)", "    mend x"],
            id="a reply that leads nowhere is left out",
        ),
        pytest.param(
            ask("A", yes=cause("x"), no=cause("y"), unknown=cause("y")),
            [
                "A Is it A? (KL001, KL002)",
                "├── yes: x (probable)",
                "│   mend x",
                "└── no, unknown: y (probable)",
                "    mend y",
            ],
            id="replies that lead to the same place are one branch",
        ),
        pytest.param(
            ask("A", yes=ask("B", yes=cause("x"))),
            [
                "A Is it A? (KL001, KL002)",
                "└── yes: B Is it B? (KL001, KL002)",
                "    └── yes: x (probable)",
                "        mend x",
            ],
            id="a question below a question",
        ),
        pytest.param(
            ask("A", information=True, yes=cause("x")),
            [
                "A Is it A? (KL001, KL002, information too)",
                "└── yes: x (probable)",
                "    mend x",
            ],
            id="a question that information answers too",
        ),
        pytest.param(
            ask("A", yes=cause("x", rivals=(rival("y", "KL003"), rival("z")))),
            [
                "A Is it A? (KL001, KL002)",
                "└── yes: x (probable)",
                "    mend x",
                "    or y? look at y (KL003, against: KL004)",
                "    or z? look at z",
            ],
            id="a cause with rivals",
        ),
    ],
)
def test_the_tree_is_drawn(root: dict[str, Any], drawn: list[str]) -> None:
    assert tree_text([root], Page()).splitlines() == drawn


def test_a_page_has_its_width_and_its_colour() -> None:
    root = ask("A", yes=cause("a long name " * 8))
    wide, narrow = tree_text([root], Page()), tree_text([root], Page(width=40))
    assert "\x1b" not in wide + narrow
    assert max(len(line) for line in narrow.splitlines()) <= 40 < len(wide.splitlines()[1])
    assert "\x1b[" in tree_text([root], Page(width=80, colour=True))
