import pytest

from tests.builders import clear, only, run_of, skipped
from tests.rules.shapes import prose, sampled, sharing, silent


def filled(character: str = "!", run: int = 60, before: int = 3) -> list[dict[str, object]]:
    """Two steps of twenty responses, and at the second all begin soundly and end in a run."""
    return sharing(0, 20, text=lambda place: f"{prose(place, before)} {character * run}")


SICK = (run_of(samples=filled()),)


@pytest.mark.parametrize(
    ("run", "found"),
    [
        pytest.param(49, False, id="49 characters may be a line"),
        pytest.param(50, True, id="50 characters are a run"),
    ],
)
def test_a_run_has_fifty_characters(run: int, found: bool) -> None:
    assert clear("SMP003", run_of(samples=filled(run=run))) is not found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        pytest.param("title\n" + "=" * 60 + "\n" + "text " * 30, False, id="a rule under a title"),
        pytest.param("|a|\n|" + "-" * 60 + "|\n|1|\n" + "|text|" * 20, False, id="a table"),
        pytest.param("=" * 60 + "\ntitle", True, id="nearly all of the response"),
        pytest.param("text " * 30 + "!" * 60, True, id="the end of the response"),
        pytest.param("text " * 30 + "!" * 60 + "<|endoftext|> \n", True, id="before an end token"),
        pytest.param("text " * 30 + " " * 60, False, id="white space"),
    ],
)
def test_a_run_is_the_end_or_most_of_a_response(text: str, found: bool) -> None:
    samples = sharing(0, 20, text=lambda place: f"{place} {text}")
    assert clear("SMP003", run_of(samples=samples)) is not found


@pytest.mark.parametrize(
    ("counts", "severity"),
    [
        pytest.param((0, 51), "critical", id="most of them, and none before"),
        pytest.param((0, 50), "warning", id="half of them"),
        pytest.param((0, 22), "warning", id="a fifth of them"),
        pytest.param((0, 11), "info", id="few, which may be chance"),
        pytest.param((11, 11), "warning", id="more than a tenth throughout"),
        pytest.param((9, 9), "info", id="less than a tenth throughout"),
        pytest.param((0, 1), "info", id="a single one"),
        pytest.param((60, 60), "warning", id="most of them throughout"),
    ],
)
def test_it_is_graded_by_share_and_growth(counts: tuple[int, ...], severity: str) -> None:
    samples = sharing(*counts, of=100, text=lambda place: "!" * 60)
    assert only("SMP003", run_of(samples=samples)).severity == severity


@pytest.mark.parametrize(
    ("character", "hint"),
    [
        pytest.param("!", "token 0 of many vocabularies", id="an exclamation mark"),
        pytest.param("G", "the same one in all of them", id="any other character"),
    ],
)
def test_what_nan_logits_look_like_is_said(character: str, hint: str) -> None:
    finding = only("SMP003", run_of(samples=filled(character), log_offset=1))
    assert f"'{character}' (0% at step 0)" in finding.message
    assert hint in finding.message
    assert f"100% of responses are '{character}' over and over" in finding.summary
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (2, 11, 11)
    assert sampled(finding.evidence[0], "samples.jsonl", "share of responses")
    assert finding.evidence[0].where.line == 21


@pytest.mark.parametrize(
    ("counts", "severity"),
    [
        pytest.param((20, 20), "info", id="a closing line from the start"),
        pytest.param((0, 20), "critical", id="lines that came with training"),
    ],
)
def test_characters_that_lines_are_drawn_with(counts: tuple[int, ...], severity: str) -> None:
    samples = sharing(*counts, text=lambda place: f"{prose(place)}\n{'-' * 60}")
    finding = only("SMP003", run_of(samples=samples))
    assert finding.severity == severity
    assert "NaN" not in finding.message


def test_different_characters_are_no_sign_of_nan() -> None:
    samples = sharing(0, 20, text=lambda place: "abcd"[place % 4] * 60)
    assert "NaN" not in only("SMP003", run_of(samples=samples)).message


def test_a_file_without_steps_is_judged_as_it_is() -> None:
    samples = sharing(3, of=20, text=lambda place: "!" * 60, steps=False)
    finding = only("SMP003", run_of(samples=samples))
    assert (finding.severity, finding.onset) == ("warning", None)
    assert "15.0% of the responses" in finding.message
    assert "no earlier samples" in finding.message


def test_eight_responses_are_needed() -> None:
    assert skipped("SMP003", run_of(samples=sharing(7, of=7, text=lambda place: "!" * 60)))
    assert skipped("SMP003", run_of(response_length_mean=[50.0] * 20))
    assert only("SMP003", run_of(samples=sharing(8, of=8, text=lambda place: "!" * 60)))


def test_the_limits_can_be_set() -> None:
    run = run_of(samples=filled(run=60))
    assert clear("SMP003", run, length=70)
    assert only("SMP003", run, most=1.0).severity == "warning"
    assert only("SMP003", run, most=1.0, some=1.0).severity == "info"
    ruled = run_of(samples=sharing(0, 20, text=lambda place: "=" * 60 + " title" * 15))
    assert clear("SMP003", ruled)
    assert only("SMP003", ruled, part=0.2)
    assert silent("SMP003", run, fewest=41)
