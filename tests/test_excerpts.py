from typing import Any

import pytest

from rlhfdoctor.excerpts import LOOKED, MOST_LOOP, MOST_PROMPT, MOST_RESPONSE, Excerpt, excerpts
from rlhfdoctor.model import Onset, Run
from tests.builders import run_of

STEPS: list[dict[str, Any]] = [
    {"step": step, "response": f"{step} {letter}", "prompt": "why?"}
    for step in (0, 10, 20, 30)
    for letter in "abcd"
]


COUNTED = " ".join(map(str, range(40_000)))
"""A text without a loop."""


def chosen(run: Run, onset: Onset | None) -> dict[str, list[str]]:
    return {
        moment.which: [item.said for item in moment.excerpts] for moment in excerpts(run, onset)
    }


def one(response: str, **columns: Any) -> Excerpt:
    (moment,) = excerpts(run_of(samples=[{"step": 1, "response": response, **columns}]), None)
    (found,) = moment.excerpts
    return found


@pytest.mark.parametrize(
    ("onset", "offset", "expected"),
    [
        pytest.param(
            Onset(15, 12, 18),
            0,
            {
                "Before the onset": ["10 b", "10 c", "10 d"],
                "From the onset on": ["20 a", "20 b", "20 c"],
                "At the end": ["30 b", "30 c", "30 d"],
            },
            id="before it, from it on, at the end",
        ),
        pytest.param(
            Onset(11, 11, 11),
            1,
            {
                "Before the onset": ["0 b", "0 c", "0 d"],
                "From the onset on": ["10 a", "10 b", "10 c"],
                "At the end": ["30 b", "30 c", "30 d"],
            },
            id="the log's offset moves samples to the row that they were drawn for",
        ),
        pytest.param(
            Onset(1, 0, 1),
            0,
            {
                "From the onset on": ["10 a", "10 b", "10 c"],
                "At the end": ["30 b", "30 c", "30 d"],
            },
            id="none before it",
        ),
        pytest.param(None, 0, {"The last samples": ["30 b", "30 c", "30 d"]}, id="no onset"),
    ],
)
def test_samples_around_an_onset_are_taken(
    onset: Onset | None, offset: int, expected: dict[str, list[str]]
) -> None:
    run = run_of(samples=STEPS, log_offset=offset, kl_ref_token=[0.1] * 5)
    assert chosen(run, onset) == expected


def test_no_sample_is_shown_twice() -> None:
    found = chosen(run_of(samples=STEPS[:6]), Onset(10, 5, 10))
    assert found == {
        "Before the onset": ["0 b", "0 c", "0 d"],
        "From the onset on": ["10 a", "10 b"],
    }


def test_samples_without_steps_are_the_last_of_the_file() -> None:
    run = run_of(samples=[{"response": letter} for letter in "abcd"])
    assert chosen(run, Onset(3, 2, 4)) == {"The last samples": ["b", "c", "d"]}


def test_pairs_without_a_response_and_runs_without_samples_have_none() -> None:
    assert excerpts(run_of(), None) == ()
    assert excerpts(run_of(samples=[{"chosen": "a", "rejected": "b"}]), None) == ()


def test_a_loop_at_the_end_is_told_apart() -> None:
    found = one(f"In the beginning{' the' * 10}<eos>")
    assert (found.said, found.loop) == ("In the beginning", " the" * 10)
    assert (found.ending, found.period, found.covered) == ("<eos>", 4, 40)
    assert found.left_out == 0


def test_a_sound_end_is_no_loop() -> None:
    found = one("ha ha ha ...")
    assert (found.said, found.loop, found.covered) == ("ha ha ha ...", "", 0)


@pytest.mark.parametrize("size", [MOST_RESPONSE + 1, LOOKED - 1, LOOKED, LOOKED + 1, 10**6])
def test_what_is_not_shown_is_counted(size: int) -> None:
    text = "".join(str(number) for number in range(size))[:size]
    found = one(text, prompt="p" * 1000)
    assert found.said == f"{text[:MOST_RESPONSE]}\u2026"
    assert len(found.said) - 1 + len(found.loop) + found.left_out == len(text)
    assert len(found.prompt) == MOST_PROMPT + 1


def test_a_long_loop_is_cut() -> None:
    found = one("x y " * 1000)
    assert len(found.loop) == MOST_LOOP + 1
    assert len(found.said) + len(found.loop) - 1 + found.left_out == 4000


LONG = "".join(str(number) for number in range(MOST_RESPONSE))


@pytest.mark.parametrize(
    ("response", "cut"),
    [
        pytest.param("whole", [], id="a whole one"),
        pytest.param("whole, as it says\u2026"[:-1], [], id="one that ends without a stop"),
        pytest.param(LONG[:MOST_RESPONSE], [], id="as long as is shown"),
        pytest.param(LONG, ["said"], id="a long one"),
        pytest.param(f"{LONG}<eos>", ["said"], id="before an ending token"),
        pytest.param(LONG + " the" * 10, ["said"], id="before a loop"),
        pytest.param(LONG + " the" * 999, ["said", "loop"], id="and in the loop"),
        pytest.param(f"a{'<eos>' * MOST_LOOP}", ["ending"], id="many ending tokens"),
    ],
)
def test_a_part_that_is_cut_ends_in_an_ellipsis(response: str, cut: list[str]) -> None:
    found = one(response)
    parts = {"said": found.said, "loop": found.loop, "ending": found.ending}
    assert [name for name, text in parts.items() if text.endswith("\u2026")] == cut


def test_secrets_are_masked_also_where_the_cut_would_halve_them() -> None:
    secret = "sk-proj-" + "Ab1" * 16
    found = one("a " * (MOST_RESPONSE // 2 - 10) + secret, prompt=f"use {secret}")
    assert "sk-proj" not in found.said + found.prompt


@pytest.mark.parametrize(
    ("response", "loops"),
    [
        pytest.param(
            "again and " * 11_000 + COUNTED[:30_000], False, id="a loop that ended long ago"
        ),
        pytest.param(COUNTED[:120_000] + "the " * 400, True, id="a loop at the end of a long text"),
    ],
)
def test_the_end_of_a_very_long_text_is_its_end(response: str, loops: bool) -> None:
    assert len(response) > LOOKED
    (moment,) = excerpts(run_of(samples=[{"response": response}]), None)
    assert bool(moment.excerpts[0].loop) is loops
