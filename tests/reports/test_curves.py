import fcntl
import math
import os
import pty
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.text import Text

from rlhfdoctor.doctor import diagnose
from rlhfdoctor.model import Checkpoint, Diagnosis, Onset
from rlhfdoctor.reports import Page
from rlhfdoctor.reports._cells import ascii_only, plot
from rlhfdoctor.reports._curves import curve_lines
from rlhfdoctor.reports.terminal import terminal, write
from rlhfdoctor.runs import read_runs
from tests.builders import FIXTURES, run_of


def drawn(diagnosis: Diagnosis, width: int = 80, **page: bool) -> list[str]:
    shape = replace(Page(width=width), **page)  # type: ignore[arg-type]
    return write(curve_lines(diagnosis, width), shape).splitlines()


def judged(
    onset: int | None = None, saved: Sequence[int] = (), back: int | None = None, **given: Any
) -> Diagnosis:
    """Diagnose a run, then say where it began, what was saved and where to go back to."""
    points = [Checkpoint(step, f"checkpoint-{step}", f"checkpoint-{step}") for step in saved]
    found = diagnose(run_of(checkpoints=points, **given))
    goal = next((item for item in points if item.step == back), None)
    plan = replace(found.rollback, checkpoint=goal, needed=goal is not None)
    began = None if onset is None else Onset(onset, onset - 1, onset)
    return replace(found, onset=began, rollback=plan)


# What is drawn


def test_a_kl_is_drawn_between_0_and_its_peak_with_three_numbers_under_it() -> None:
    rising = [step / 20 for step in range(20)]
    assert drawn(judged(kl_ref_token=rising, estimators={"kl_ref_token": "k3"}))[:9] == [
        "Curves",
        "  each step by itself",
        "  KL to the reference, nats/token (k3)",
        "       0.95 │" + " " * 48 + "▂▂▂▄▄▄▆▆▆███",
        "            │" + " " * 36 + "▂▂▂▄▄▄▆▆▆███" + "█" * 12,
        "      0.475 │" + " " * 24 + "▁▁▁▃▃▃▆▆▆███" + "█" * 24,
        "            │" + " " * 12 + "▁▁▁▃▃▃▅▅▅▇▇▇" + "█" * 36,
        "          0 │" + "▁▁▁▃▃▃▅▅▅▇▇▇" + "█" * 48,
        "             at the end: 0.95; last 10 rows: mean 0.725, 90th percentile 0.9",
    ]


def test_the_onset_the_checkpoints_and_the_way_back_stand_on_the_axis() -> None:
    values = [0.01] * 20 + [1.0] * 20
    lines = drawn(judged(onset=21, saved=(10, 20, 30), back=20, kl_ref_token=values))
    axis, steps, told = lines[-3:]
    column = steps.index("^")
    assert steps == " " * 13 + "1" + " " * (column - 14) + "^21" + " " * 15 + "40"
    assert [place for place, mark in enumerate(axis) if mark == "o"] == [13 + 9, 13 + 29]
    assert axis.index("R") == 13 + 19 == column - 1
    assert told == "  ^ onset at step 21 (20-21), o checkpoint, R go back to checkpoint-20"
    assert lines[3][column] == "\u2588"
    assert "at step 21: 1; last 10 rows: mean 0.109" in lines[8]


def test_above_the_curve_a_line_marks_the_onset() -> None:
    lines = drawn(judged(onset=5, kl_ref_token=[0.0] * 10 + [1.0] * 10))
    column = lines[-2].index("^")
    assert [line[column] for line in lines[3:7]] == ["\u2502"] * 4


@pytest.mark.parametrize(
    ("onset", "steps"),
    [
        pytest.param(1, "^1                                    40", id="the first step"),
        pytest.param(2, " ^2                                   40", id="beside the first step"),
        pytest.param(20, "1                  ^20                40", id="in the middle"),
        pytest.param(39, "1                                   39^", id="beside the last step"),
        pytest.param(40, "1                                    40^", id="the last step"),
    ],
)
def test_the_onset_is_told_below_its_column_and_no_number_covers_another(
    onset: int, steps: str
) -> None:
    lines = drawn(judged(onset=onset, kl_ref_token=[step / 10 for step in range(40)]))
    found = next(line for line in lines if "^" in line and "onset" not in line)
    assert found[13:] == steps


def test_a_checkpoint_outside_the_log_is_told_and_stretches_no_axis() -> None:
    lines = drawn(judged(saved=(5, 10**9), kl_ref_token=[step / 10 for step in range(10)]))
    assert lines[-1] == "  o checkpoint, 1 checkpoint outside these steps"
    assert lines[-2].split() == ["1", "10"]


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        pytest.param(
            {"kl_ref_token": [0.0] * 30},
            "KL to the reference, nats/token: not measured, exactly 0 in 30 rows",
            id="a KL that nobody computed",
        ),
        pytest.param(
            {"reward_raw_mean": [0.0] * 30},
            "Reward: reward before any KL penalty, batch mean, 0 in 30 rows",
            id="a reward that is always 0",
        ),
        pytest.param(
            {"grad_norm": [2.0]}, "Gradient norm, L2 norm, 2 in 1 row", id="a log of one row"
        ),
    ],
)
def test_what_does_not_vary_is_told_and_not_drawn(columns: dict[str, Any], told: str) -> None:
    assert drawn(judged(**columns)) == ["Curves", f"  {told}"]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        pytest.param([1.0, math.nan, 2.0], "(not finite at 1 step, 2)", id="a NaN"),
        pytest.param(
            [1.0, 2.0, math.inf, -math.inf], "(not finite at 2 steps, first at 3)", id="infinities"
        ),
    ],
)
def test_what_is_not_finite_is_told(values: list[float], told: str) -> None:
    assert drawn(judged(grad_norm=values))[2].startswith(f"  Gradient norm, L2 norm {told}")


def test_an_onset_that_the_curves_do_not_reach_is_told_without_a_mark() -> None:
    lines = drawn(judged(onset=99, kl_ref_token=[step / 10 for step in range(10)]))
    assert lines[-1] == "  onset at step 99 (98-99), not drawn here"
    assert "^" not in "".join(lines)


def test_a_unit_that_nobody_said_is_told_to_be_unknown() -> None:
    found = diagnose(run_of(kl_unknown=[0.1, 0.2], units={"kl_unknown": "unknown"}))
    assert "  KL to the reference, unit unknown" in drawn(found)


def test_a_run_without_any_of_the_quantities_has_no_section() -> None:
    assert [*curve_lines(diagnose(run_of(lr=[1e-6, 1e-6])), 80)] == []


def test_a_long_log_says_what_a_column_is() -> None:
    long = diagnose(run_of(kl_ref_token=[0.1] * 999 + [5.0], reward_raw_mean=[*range(1000)]))
    told = (
        "a column is about 14.9 steps: the highest of KL to the reference, the mean of the others"
    )
    assert " ".join(" ".join(drawn(long)[1:3]).split()) == told
    assert drawn(long)[4].startswith("          5 │")


@pytest.mark.parametrize("width", [40, 80, 120, 200])
@pytest.mark.parametrize("name", ["dpo_collapsed", "grpo_late", "ppo_crashed", "grpo_zero_std"])
def test_no_line_is_wider_than_the_page_and_every_curve_ends_where_the_axis_does(
    name: str, width: int
) -> None:
    (run,) = read_runs(FIXTURES / name)
    lines = drawn(diagnose(run), width)
    assert max(map(cell_len, lines)) <= width
    axis = next(line for line in lines if "\u2514" in line)
    curves = [line for line in lines if "\u2502" in line[12:13]]
    assert curves
    assert max(map(cell_len, curves)) == cell_len(axis)


def test_without_a_width_it_is_drawn_in_80_columns() -> None:
    found = judged(kl_ref_token=[step / 10 for step in range(500)])
    for line in drawn(found, 80):
        assert line in drawn(found, 0) or "\u2502" not in line


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.one_of(st.none(), st.floats(allow_nan=True, allow_infinity=True)),
        min_size=1,
        max_size=30,
    ),
    st.integers(40, 200),
)
def test_any_values_are_drawn_on_any_page(values: list[float | None], width: int) -> None:
    found = replace(HEALTHY, run=run_of(kl_ref_token=values, reward_raw_mean=values))
    assert all(cell_len(line) <= width for line in drawn(found, width))


HEALTHY = diagnose(run_of(kl_ref_token=[0.0, 0.1]))


@pytest.mark.parametrize(
    ("values", "rows", "expected"),
    [
        pytest.param([0.0, 1.0], 1, ["▁█"], id="one row"),
        pytest.param([0.0, 0.5, 1.0], 2, [" ▁█", "▁██"], id="two rows"),
        pytest.param([None, 1.0], 2, [" █", " █"], id="a gap"),
        pytest.param([2.0, -2.0], 2, ["█ ", "█▁"], id="beyond the ends"),
    ],
)
def test_a_plot_is_as_high_as_it_has_rows(
    values: list[float | None], rows: int, expected: list[str]
) -> None:
    assert plot(values, 0.0, 1.0, rows) == expected


def test_a_plot_of_the_largest_numbers_has_a_bottom_and_a_top() -> None:
    assert plot([-1.7e308, None, 1.7e308], -1.7e308, 1.7e308, 2) == ["  █", "▁ █"]


def test_in_ascii_nothing_else_is_drawn_and_nothing_moves() -> None:
    found = judged(onset=25, saved=(10,), kl_ref_token=[step / 10 for step in range(50)])
    blocks, dots = drawn(found), drawn(found, ascii=True)
    assert dots == [ascii_only(line) for line in blocks]
    assert all(line.isascii() for line in dots)
    assert [*map(len, dots)] == [*map(len, blocks)]


def test_colour_tells_nothing_that_is_not_told_without_it() -> None:
    found = judged(onset=25, saved=(10,), kl_ref_token=[step / 10 for step in range(50)])
    coloured = "\n".join(drawn(found, colour=True))
    assert "\x1b[" in coloured
    assert Text.from_ansi(coloured).plain.splitlines() == drawn(found)


def test_a_name_in_the_run_moves_no_cursor() -> None:
    found = judged(saved=(10,), back=10, kl_ref_token=[step / 10 for step in range(50)])
    hostile = replace(found.rollback.checkpoint, name="\x1b[2J\u202echeckpoint")  # type: ignore[type-var]
    text = "\n".join(drawn(replace(found, rollback=replace(found.rollback, checkpoint=hostile))))
    assert "\\x1b[2J\\u202echeckpoint" in text


def test_curves_stand_between_the_five_lines_and_the_findings() -> None:
    found = diagnose(run_of(kl_ref_token=[0.01] * 40 + [90.0] * 40))
    lines = terminal.render([found], Page()).splitlines()
    assert lines.index("Curves") == 6
    assert lines.index("Findings") > lines.index("Curves")


# On real standard outputs


def run_in_terminal(columns: int, env: Mapping[str, str]) -> str:
    """Return what the command prints on a terminal that many columns wide."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
    quiet = {name: value for name, value in os.environ.items() if name not in WATCHED}
    child = subprocess.Popen(
        [sys.executable, "-m", "rlhfdoctor", "diagnose", "grpo_late"],
        cwd=FIXTURES,
        env={**quiet, "PYTHONPATH": str(FIXTURES.parent), "TERM": "xterm", **env},
        stdout=theirs,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    parts = []
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux says so when the last writer has gone
            break
        if not part:
            break
        parts.append(part)
    child.wait()
    os.close(ours)
    return b"".join(parts).decode("utf-8")


WATCHED = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR_FORCE", "COLUMNS", "PYTHONIOENCODING", "PYTHONUTF8")


@pytest.mark.parametrize(
    ("env", "coloured", "blocks"),
    [
        pytest.param({}, True, True, id="a terminal has colour and blocks"),
        pytest.param({"NO_COLOR": "1"}, False, True, id="NO_COLOR takes the colour"),
        pytest.param({"TERM": "dumb"}, False, False, id="a dumb terminal has neither"),
        pytest.param({"PYTHONIOENCODING": "ascii"}, True, False, id="ASCII has no blocks"),
    ],
)
def test_a_page_is_what_the_terminal_can_show(
    env: dict[str, str], coloured: bool, blocks: bool
) -> None:
    text = run_in_terminal(50, env)
    assert "Curves" in text
    assert ("\x1b[" in text) is coloured
    assert ("\u2588" in text) is blocks
    assert ("#####" in text) is not blocks


@pytest.mark.parametrize(
    ("env", "coloured", "blocks"),
    [
        pytest.param({"PYTHONIOENCODING": "utf-8"}, False, True, id="a pipe"),
        pytest.param({"PYTHONIOENCODING": "ascii"}, False, False, id="a pipe of ASCII"),
        pytest.param({"PYTHONIOENCODING": "latin-1"}, False, False, id="a pipe of Latin-1"),
        pytest.param({"FORCE_COLOR": "1"}, True, True, id="FORCE_COLOR colours a pipe"),
        pytest.param({"CLICOLOR_FORCE": "0"}, False, True, id="CLICOLOR_FORCE of 0 does not"),
        pytest.param({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, True, id="NO_COLOR has its way"),
    ],
)
def test_a_pipe_is_plain_unless_it_is_told_otherwise(
    env: dict[str, str], coloured: bool, blocks: bool, tmp_path: Path
) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text("".join(f'{{"step": {row}, "kl": {row}.5}}\n' for row in range(1, 30)))
    quiet = {name: value for name, value in os.environ.items() if name not in WATCHED}
    text = subprocess.run(
        [sys.executable, "-m", "rlhfdoctor", "diagnose", str(log)],
        env={"PYTHONIOENCODING": "utf-8", **quiet, **env, "PYTHONPATH": str(FIXTURES.parent)},
        capture_output=True,
        check=True,
    ).stdout
    assert b"Curves" in text
    assert (b"\x1b[" in text) is coloured
    assert ("\u2588".encode() in text) is blocks
    assert (b"#####" in text) is not blocks
