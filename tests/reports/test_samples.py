import json
import re
from collections.abc import Callable
from importlib.resources import files
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from rich.cells import cell_len

from rlhfdoctor.reports import Page
from rlhfdoctor.reports._samples import samples_lines, samples_markdown
from rlhfdoctor.reports.json import dumps
from rlhfdoctor.reports.terminal import write
from tests.reports.surveys import (
    EVIL,
    SURVEYS,
    collapsed,
    counted,
    empty,
    finding,
    gram,
    grown,
    hostile,
    length,
    lengths,
    phrase,
    repetition,
    rewards,
    step,
    survey,
    worst,
)

SCHEMA = json.loads(files("rlhfdoctor.reports").joinpath("schema.json").read_text(encoding="utf-8"))
ACTIVE = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)
"""Characters that a terminal or a page obeys; the end of a line and the tab apart."""

surveys = pytest.mark.parametrize("document", [pytest.param(d, id=n) for n, d in SURVEYS.items()])


def page(
    document: dict[str, Any], width: int = 100, *, by_step: bool = False, colour: bool = False
) -> str:
    lines = samples_lines(document, by_step=by_step, width=width)
    return write(lines, Page(0, width=width, colour=colour))


# The JSON


@surveys
def test_the_schema_describes_the_document(document: dict[str, Any]) -> None:
    Draft202012Validator(SCHEMA).validate(json.loads(dumps(document)))


@pytest.mark.parametrize(
    "broken",
    [
        pytest.param(survey(samples="many"), id="a count that is a text"),
        pytest.param(survey(steps_known=True), id="steps that are not counted"),
        pytest.param(survey(extra=1), id="a key that is not published"),
        pytest.param(
            {key: value for key, value in survey().items() if key != "notes"}, id="a key left out"
        ),
        pytest.param(survey(repetition=repetition(worst=[{}])), id="an example without its keys"),
    ],
)
def test_the_schema_refuses(broken: dict[str, Any]) -> None:
    samples = {**SCHEMA, "anyOf": [{"$ref": "#/$defs/samples"}]}
    assert not Draft202012Validator(samples).is_valid(json.loads(dumps(broken)))


# The page


@surveys
@pytest.mark.parametrize("width", [40, 60, 100, 160, 200])
def test_no_line_is_wider_than_the_page(document: dict[str, Any], width: int) -> None:
    lines = page(document, width, by_step=True).splitlines()
    assert max(map(cell_len, lines)) <= width


@surveys
def test_a_pipe_has_each_thing_on_a_line_and_no_escape_code(document: dict[str, Any]) -> None:
    text = page(document, 0, by_step=True)
    assert len(text.splitlines()) == len([*samples_lines(document, by_step=True, width=0)])
    assert not ACTIVE.search(text.replace("\n", ""))
    assert not ACTIVE.search(page(document, 100).replace("\n", ""))


@surveys
def test_colour_changes_no_letter(document: dict[str, Any]) -> None:
    coloured = page(document, 100, colour=True)
    assert "\x1b[" in coloured
    bare = re.sub(r"\x1b\[[0-9;]*m", "", coloured)
    assert [line.rstrip() for line in bare.splitlines()] == page(document, 100).splitlines()


@pytest.mark.parametrize(
    ("document", "said"),
    [
        pytest.param(
            survey(),
            "no loop, no run of one character, no empty answer in 164 responses; early and late "
            "could not be compared: no steps",
            id="a healthy file without steps",
        ),
        pytest.param(
            survey(steps_known=2, steps=[step(0), step(10)]),
            "no loop, no run of one character, no empty answer in 164 responses; no phrase grew "
            "from early to late",
            id="a healthy run",
        ),
        pytest.param(
            survey(steps_known=1),
            "no loop, no run of one character, no empty answer in 164 responses; early and late "
            "could not be compared: one step",
            id="one step of a run",
        ),
        pytest.param(
            collapsed(),
            "1,204 of 3,840 responses (31.4%) end in a loop; 12 of 3,840 (0.3%) are empty; 18.3% "
            "were cut off; 3 phrases grew, from step 40",
            id="a collapsed run",
        ),
        pytest.param(empty(), "no responses: nothing could be judged", id="nothing"),
        pytest.param(
            counted(),
            "lengths and ngrams only: whether the text degenerates was not looked at",
            id="counts alone",
        ),
        pytest.param(
            survey(repetition=repetition(empty=1)),
            "1 of 164 responses (0.6%) are empty; early and late could not be compared: no steps",
            id="one empty answer",
        ),
    ],
)
def test_the_first_sentence_sums_up(document: dict[str, Any], said: str) -> None:
    assert page(document, 0).splitlines()[1] == said
    assert f"**{said}**" in samples_markdown(document, by_step=False)


@pytest.mark.parametrize(
    ("document", "code"),
    [
        pytest.param(survey(), "1;32", id="no finding is green"),
        pytest.param(survey(findings=[finding("info")]), "36", id="information is not green"),
        pytest.param(survey(findings=[finding("info"), finding()]), "33", id="a warning is yellow"),
        pytest.param(survey(findings=[finding("critical")]), "31", id="a critical one is red"),
        pytest.param(empty(), "1;35", id="nothing to judge is not green"),
        pytest.param(
            survey(repetition=repetition(looping=1)), "36", id="a loop alone is not green"
        ),
        pytest.param(
            survey(repetition=repetition(runs=1)), "36", id="a run of one character is not green"
        ),
        pytest.param(
            survey(repetition=repetition(empty=163)), "1;32", id="one answer of many is green"
        ),
        pytest.param(
            survey(repetition=repetition(empty=100, marks_only=64)),
            "36",
            id="empty answers alone are not green",
        ),
        pytest.param(
            survey(repetition=repetition(looping=1), findings=[finding()]),
            "33",
            id="a finding comes before what it is about",
        ),
        pytest.param(counted(), "1;35", id="what was not looked at is not green"),
    ],
)
def test_the_sum_has_the_colour_of_the_worst_finding(document: dict[str, Any], code: str) -> None:
    assert page(document, 200, colour=True).splitlines()[1].startswith(f"\x1b[{code}m")


@pytest.mark.parametrize(
    ("changes", "said", "unsaid"),
    [
        pytest.param(
            {},
            [
                "early against late: no steps\n",
                "no finish reason",
                "no rewards",
                "no log-probabilities",
            ],
            ["not asked for"],
            id="texts alone",
        ),
        pytest.param(
            {"steps_known": 2, "rewards": rewards(), "steps": [step(0), step(10)]},
            ["no finish reason", "no log-probabilities"],
            ["early against late", "no rewards"],
            id="steps and rewards",
        ),
        pytest.param(
            {"steps_known": 1},
            ["early against late: one step\n"],
            ["no steps"],
            id="one step",
        ),
        pytest.param(
            {"only": ["ngrams"], "repetition": None, "length": None, "lengths": None},
            ["all but ngrams: not asked for"],
            ["no steps", "no rewards"],
            id="one section",
        ),
    ],
)
def test_what_could_not_be_looked_at_is_said(
    changes: dict[str, Any], said: list[str], unsaid: list[str]
) -> None:
    for text in (page(survey(**changes), 0), samples_markdown(survey(**changes), by_step=False)):
        told = text.replace("\\", "").partition("Not looked at")[2]
        assert all(part in told for part in said)
        assert not any(part in told for part in unsaid)


def test_findings_on_a_part_of_the_responses_say_so() -> None:
    assert "the rules judged 2,000 of 3,840 responses" in page(collapsed(), 0)
    assert "the rules judged" not in page(survey(), 0)


def test_every_unit_of_length_is_named_with_its_source() -> None:
    own = [lengths("tokens", "token_ids"), lengths("graphemes")]
    text = page(survey(lengths=own), 0)
    assert re.search(r"^  tokens \(token_ids\) +12 ", text, re.MULTILINE)
    assert re.search(r"^  graphemes \(text\) +12 ", text, re.MULTILINE)


@pytest.mark.parametrize("width", [60, 100, 200])
def test_bars_fill_the_width_and_are_as_long_as_their_counts(width: int) -> None:
    document = survey(length=length((1, 0, 400, 200), cap=600, at_cap=9, at_cap_share=0.05))
    bars = {
        int(count): bar
        for count, bar in re.findall(
            r"^ +[\d,-]+ +(\d+) ?([ \u2588-\u258f]*)", page(document, width), re.MULTILINE
        )
    }
    longest = cell_len(bars[400].strip())
    assert longest > width // 2 - 20
    assert abs(cell_len(bars[200].strip()) - longest / 2) <= 1
    assert re.fullmatch("[\u2589-\u258f]", bars[1].strip())
    assert bars[0].strip() == ""


def test_the_histogram_marks_the_cap_and_three_deviations() -> None:
    text = page(survey(length=length(cap=605, at_cap=9, at_cap_share=0.055)), 100)
    (cap,) = [line for line in text.splitlines() if "\u2190 cap 605" in line]
    (far,) = [line for line in text.splitlines() if "\u2190 mean + 3 sd = 479" in line]
    assert (cap.split()[0], far.split()[0]) == ("552-611", "432-491")


@pytest.mark.parametrize(("width", "rows"), [(0, 3), (60, 3), (100, 2), (160, 1)], ids=str)
def test_n_grams_stand_side_by_side_where_there_is_room(width: int, rows: int) -> None:
    grams = [gram(f"{n} words", n=n) for n in (1, 2, 3)]
    totals = [{"n": n, "count": 100 * n} for n in (1, 2, 3)]
    text = page(survey(ngrams=grams, ngrams_total=totals), width)
    assert len([line for line in text.splitlines() if "-grams: " in line]) == rows
    assert all(f"{n}-grams: {100 * n} in all" in text for n in (1, 2, 3))


def test_a_text_from_right_to_left_has_nothing_beside_it() -> None:
    grams = [gram(text, n=n) for n, text in ((1, "\u0643\u0644\u0645\u0629"), (2, "two words"))]
    lines = page(survey(ngrams=grams), 200).splitlines()
    assert any(line.endswith("\u0643\u0644\u0645\u0629") for line in lines)


def test_columns_stand_under_each_other_in_any_script() -> None:
    text = page(survey(duplicates={**survey()["duplicates"], "groups": 1}), 100)
    grams = [gram("\u4e2d\u6587"), gram("latin"), gram("\ud55c\uad6d")]
    own = page(survey(ngrams=grams), 100)
    starts = {cell_len(line[: line.index("%") + 1]) for line in own.splitlines() if "18.9%" in line}
    assert len(starts) == 1
    assert "in 1 group" in text


def test_a_long_phrase_is_cut_to_the_page_and_says_so() -> None:
    (line,) = [
        line
        for line in page(survey(ngrams=[gram("\u8bcd" * 999)]), 80).splitlines()
        if "\u8bcd" in line
    ]
    assert line.endswith("\u2026")
    assert 78 <= cell_len(line) <= 80


@pytest.mark.parametrize(
    ("item", "said"),
    [
        pytest.param(
            worst(),
            [
                "line 7, 412 words: 18 characters, 723 times to the end, from character 23",
                ">>known for its art << x 723",
            ],
            id="a loop",
        ),
        pytest.param(
            worst(length=None, step=40),
            ["line 7, step 40: 18 characters, 723 times to the end"],
            id="a loop in a response of unknown length",
        ),
        pytest.param(
            worst(kind="run", loop="!", period=1, covered=3210, step=40, reward=0.5, start=0),
            ["line 7, step 40, 412 words, reward 0.5: one character, 3,210 times", ">>!<< x 3,210"],
            id="a run of one character",
        ),
        pytest.param(
            worst(start=0, text=""),
            ["723 times to the end\n", "starts  (with the loop)"],
            id="a loop from the start",
        ),
        pytest.param(
            worst(kind="gopher", period=0, covered=0, text="a\na\na"),
            ["over a Gopher limit", r"text    a\na\na"],
            id="many lines of one kind",
        ),
        pytest.param(
            worst(text="good " * 3000 + "end", loop="x" * 5000, period=5000, covered=15_000),
            ["starts  good good", "good end\n", "xxx\u2026xxx", "xxx<< x 3\n"],
            id="a long one",
        ),
    ],
)
def test_an_example_shows_its_start_and_one_period(item: dict[str, Any], said: list[str]) -> None:
    document = survey(repetition=repetition(worst=[item]))
    Draft202012Validator(SCHEMA).validate(json.loads(dumps(document)))
    for text in (page(document, 100), samples_markdown(document, by_step=False)):
        assert all(part in text for part in said)
        assert len(text) < 6000


def test_a_loop_is_in_reverse_video() -> None:
    text = page(survey(repetition=repetition(worst=[worst()])), 100, colour=True)
    assert "\x1b[7mknown for its art \x1b[0m" in text


@pytest.mark.parametrize(
    ("reward", "said"),
    [
        pytest.param(rewards(), "correlation with length +0.71, with repetition +0.33", id="known"),
        pytest.param(rewards(within_steps=False), "(over all responses)", id="without steps"),
        pytest.param(
            rewards(length_r=None), "with length unknown", id="a length that never changes"
        ),
        pytest.param(
            rewards(constant=True, mean=0.5), "the same for all 1,200 responses: 0.5", id="constant"
        ),
    ],
)
def test_rewards_are_told(reward: dict[str, Any], said: str) -> None:
    assert said in page(survey(samples=1200, rewards=reward), 0)


def test_the_paid_phrase_stands_with_its_step() -> None:
    text = page(collapsed(), 160)
    assert re.search(
        r"^ +\+0\.62 +3\.1 +0\.41 +700 +2\.0% +93\.0% +40 \(30-40\)  LORD$", text, re.M
    )
    assert re.search(r"^ +2\.0% +93\.0% +5,120  thou art$", text, re.M)


def test_steps_are_curves_and_with_by_step_a_table() -> None:
    short, long = page(collapsed(), 160), page(collapsed(), 160, by_step=True)
    assert "in a loop    \u2581" in short
    assert "all steps: --by step" in short
    assert len(long.splitlines()) - len(short.splitlines()) == 62
    assert re.search(r"^ +59 +64 .*completions_59\.parquet$", long, re.M)
    assert "of the reference" not in long


def test_a_curve_says_between_what_it_lies_and_shares_lie_between_0_and_1() -> None:
    rewards = [1.0, *[2.0] * 199, 9.0, *[2.0] * 199, 1.5]
    steps = [step(n, reward=reward, distinct_3=0.99) for n, reward in enumerate(rewards)]
    text = page(survey(steps_known=401, steps=steps), 80)
    assert re.search(r"^  reward +\S+ +1 +1\.5 +1 +9$", text, re.MULTILINE)
    assert re.search(r"^  distinct-3 +\u2588+ ", text, re.MULTILINE)


def test_what_is_too_much_is_counted() -> None:
    assert "and 15 more, in --format json" in page(collapsed(), 100)


@pytest.mark.parametrize(
    ("count", "full"), [pytest.param(7, False, id="seven"), pytest.param(8, True, id="eight")]
)
@pytest.mark.parametrize(
    "document",
    [
        pytest.param(
            lambda texts: survey(templates=[gram(text) for text in texts]), id="templates"
        ),
        pytest.param(lambda texts: survey(grew=[grown(text) for text in texts]), id="what grew"),
        pytest.param(
            lambda texts: survey(rewards=rewards(phrases=[phrase(text) for text in texts])),
            id="what is paid",
        ),
    ],
)
def test_a_full_list_says_that_there_may_be_more(
    document: Callable[[list[str]], dict[str, Any]], count: int, full: bool
) -> None:
    text = page(document([f"phrase {place}" for place in range(count)]), 0)
    assert ("no more than 8 are listed" in text) is full
    assert f"phrase {count - 1}" in text


def test_what_counts_as_a_run_and_as_a_loop_is_told() -> None:
    shown = repetition(looping=3, runs=2)
    text = page(survey(repetition=shown, limits={"run": 60, "loop": 40, "listed": 8}), 0)
    assert "2 of 164 (1.2%) hold one character 60 times or more in a row" in text
    assert re.search(r"^  60 x one character +2 ", text, re.MULTILINE)
    assert re.search(r"^  a loop of 40\+ characters +3 ", text, re.MULTILINE)


def test_responses_of_no_step_are_not_called_step_none() -> None:
    text = page(survey(steps_known=2, steps=[step(None), step(0), step(10)]), 0)
    assert re.search(r"^ +curve +no step +step 10 ", text, re.MULTILINE)


def test_numbers_that_are_none_are_shown() -> None:
    document = survey(
        length=length(std=float("nan"), mean=float("inf")),
        steps_known=1,
        steps=[step(0, reward=float("nan")), step(None, mean_length=None, perplexity=1e300)],
        positions={"samples": 1, "deciles": [None] * 9 + [1e9], "early": None, "late": None},
    )
    for text in (page(document, 100, by_step=True), samples_markdown(document, by_step=True)):
        assert "nan" in text
        assert "inf" in text


# What samples say is shown, never obeyed


def test_what_a_sample_says_is_visible() -> None:
    text = page(hostile(), 200)
    assert r"\x1b[2J\x1b]0;owned\x07 [bold red]b[/] <script>alert(1)</script> \x00 \ud800" in text
    assert r"\u202e \u200b\n\r\n# head" in text


@pytest.mark.parametrize("width", [0, 40, 100])
def test_texts_without_end_are_cut(width: int) -> None:
    texts = [EVIL * 10_000, "\u0301" * 10**6, "\u0e32" * 10**6, "a" * 10**7, "\n" * 10**6]
    for text in texts:
        document = survey(
            ngrams=[gram(text)],
            repetition=repetition(worst=[worst(prompt=text, loop=text, text=text)]),
        )
        assert len(page(document, width)) < 10_000
        assert len(samples_markdown(document, by_step=False)) < 10_000


@pytest.mark.parametrize("make", [hostile, lambda: hostile("```\n```` `x` ``` \n~~~")])
def test_in_markdown_samples_stand_in_fences_that_they_cannot_end(
    make: Callable[[], dict[str, Any]],
) -> None:
    text = samples_markdown(make(), by_step=True)
    assert not ACTIVE.search(text.replace("\n", ""))
    outside, fence = [], ""
    for line in text.splitlines():
        if fence:
            fence = "" if line == fence else fence
        elif found := re.fullmatch("(`{3,})text", line):
            fence = found[1]
        else:
            outside.append(line)
    assert fence == ""
    body = re.sub(r"`[@#]`|\\.", "", "\n".join(outside))
    assert not re.search(r"<|`|\]\(|://|www\.|@|\$", body)
    blocks = [block.splitlines() for block in "\n".join(outside).split("\n\n") if "|---|" in block]
    for header, rule, *rows in blocks:
        bars = {re.sub(r"\\.", "", line).count("|") for line in (header, *rows)}
        assert bars == {rule.count("|")}
