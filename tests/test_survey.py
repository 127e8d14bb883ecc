"""The survey of samples equals what plain Python counts, in one block, in many, and on disk."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
import regex

from rlhfdoctor import corpus, survey
from rlhfdoctor.errors import DoctorError
from rlhfdoctor.measures import batches
from rlhfdoctor.model import Note, Sample
from rlhfdoctor.runs import samples_as_run
from tests.builders import FIXTURES

FILES = sorted(FIXTURES.glob("*/*samples*.jsonl"))

LANGUAGES = {
    "Chinese": ["模型崩溃了，模型崩溃了。reward hacking又来了", "模型崩溃了 真的"],
    "Japanese": ["これはテストです。カタカナ ひらがな 漢字", "が\u3099ぱ"],
    "Korean": ["한국어는 단어로 센다 한국어는", "\u1112\u1161\u11ab글 한국어는"],
    "Thai": ["ภาษาไทยไม่มีช่องว่าง น้ำ น้ำ", "ที่นี่ที่นี่"],
    "Lao, Khmer and Burmese": ["ພາສາລາວ ນ້ຳ", "ភាសាខ្មែរ", "မြန်မာဘာသာ"],
    "Arabic": ["مَرْحَبًا بالعالم مَرْحَبًا بالعالم"],
    "emoji": [
        "\U0001f469\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea ok ok ok",
        "e\u0301 é",
    ],
    "mixed": ["abc中文def ไทย 한글 abc中文def", "a\u200bb", "x" * 50],
    "white space": [
        "a  b\tc\nd\r\ne\x0bf\x0cg\x1ch\x85i\xa0j\u2003k\u3000l",
        " ",
        "",
        "\r\n\r\n a",
    ],
    "broken": ["null \x00 byte", "\u202eright to left", "\ufeffmark first"],
}

_UNSPACED = regex.compile(
    r"([\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}ー])"
)


def words(said: str) -> list[str]:
    """Split at white space, and unspaced scripts at every grapheme: the reference."""
    found: list[str] = []
    for word in said.split():
        part = ""
        for cluster in regex.findall(r"\X", word):
            if _UNSPACED.match(cluster):
                found += [part] if part else []
                found.append(cluster)
                part = ""
            else:
                part += cluster
        found += [part] if part else []
    return found


def surveyed(
    samples: Iterable[Mapping[str, Any] | Note],
    ns: tuple[int, ...] = (3,),
    top: int = 20,
    **asked: Any,
) -> dict[str, Any]:
    told = [
        item
        if isinstance(item, Note)
        else (item.get("source", "samples.jsonl"), _sample(line, item))
        for line, item in enumerate(samples, start=1)
    ]
    options = {name: asked.pop(name) for name in ("encode",) if name in asked}
    document, _ = survey.survey(
        lambda: told,
        survey.Asked(ns, top, **asked),
        lambda kept, notes: samples_as_run("samples.jsonl", kept, notes),
        **options,
    )
    return document


def _sample(line: int, item: Mapping[str, Any]) -> Sample:
    fields = {key: value for key, value in item.items() if key in Sample.__dataclass_fields__}
    ids = fields.get("token_ids")
    return Sample(**{"line": line, **fields, "token_ids": tuple(ids) if ids is not None else None})


def said(*texts: str) -> list[dict[str, Any]]:
    return [{"response": text} for text in texts]


def of_file(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def tops(texts: Iterable[str], n: int, top: int) -> list[tuple[str, int, int]]:
    """Count n-grams as plain Python does; ties stand in the order in which they first occur."""
    counts: Counter[tuple[str, ...]] = Counter()
    documents: Counter[tuple[str, ...]] = Counter()
    for item in texts:
        split = words(item)
        grams = [tuple(split[place : place + n]) for place in range(len(split) - n + 1)]
        counts.update(grams)
        documents.update(set(grams))
    return [("".join(gram), count, documents[gram]) for gram, count in counts.most_common(top)]


def listed(document: Mapping[str, Any], n: int) -> list[tuple[str, int, int]]:
    return [
        (gram["text"].replace(" ", ""), gram["count"], gram["samples"])
        for gram in document["ngrams"]
        if gram["n"] == n
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_the_top_ngrams_of_every_fixture_equal_the_reference(path: Path) -> None:
    samples = of_file(path)
    document = surveyed(samples, (1, 2, 3))
    for n in (1, 2, 3):
        assert listed(document, n) == tops([item["response"] for item in samples], n, 20)


@pytest.mark.parametrize("language", LANGUAGES)
def test_ngrams_and_lengths_of_every_script_equal_the_reference(language: str) -> None:
    texts = LANGUAGES[language]
    document = surveyed(said(*texts), (1, 2, 3, 5))
    for n in (1, 2, 3, 5):
        assert listed(document, n) == tops(texts, n, 20)
    found = {item["unit"]: item for item in document["lengths"]}
    for unit, count in (("words", words), ("graphemes", lambda item: regex.findall(r"\X", item))):
        lengths = [len(count(item)) for item in texts]
        assert (found[unit]["min"], found[unit]["max"]) == (min(lengths), max(lengths))
        assert found[unit]["mean"] == pytest.approx(sum(lengths) / len(lengths))


def test_blocks_memory_and_disk_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = of_file(FIXTURES / "grpo_late" / "bad_samples.jsonl")
    once = surveyed(samples, (1, 3))
    monkeypatch.setattr(corpus, "BLOCK", 3000)
    again = surveyed(samples, (1, 3), memory=2**19)
    assert again.pop("judged")["samples"] < once.pop("judged")["samples"] == 640
    for document in (once, again):
        del document["positions"], document["steps"], document["length"]["truncated"]
    assert _rounded(again) == _rounded(once)


def _rounded(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _rounded(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return round(value, 9) if isinstance(value, float) else value


def test_lengths_are_counted_in_tokens_where_the_file_has_them() -> None:
    length = surveyed(
        {"response": "a b", "token_ids": list(range(count))} for count in range(1, 101)
    )["length"]
    assert (length["unit"], length["source"]) == ("tokens", "token ids")
    assert (length["min"], length["p50"], length["p90"], length["p99"]) == (1, 50, 90, 99)
    assert (length["max"], length["mean"], length["over_3_sigma"]) == (100, 50.5, 0)
    assert sum(bar["count"] for bar in length["histogram"]) == 100
    assert length["cap"] is None, "one response of a hundred piles up nowhere"


@pytest.mark.parametrize(
    ("samples", "unit", "source", "mean"),
    [
        pytest.param(said("a 中文", "a b c"), "words", "text", 3, id="words of texts"),
        pytest.param(
            [{"response": "a", "tokens": 7}, {"response": "b", "tokens": 9}],
            *("tokens", "the file's own count", 8),
            id="tokens that the file counted",
        ),
        pytest.param(
            [{"response": "a", "tokens": 7}, *said("b", "c")],
            *("words", "text", 1),
            id="words where most responses tell no tokens",
        ),
    ],
)
def test_the_unit_of_a_length_is_stated(
    samples: list[dict[str, Any]], unit: str, source: str, mean: float
) -> None:
    length = surveyed(samples)["length"]
    assert (length["unit"], length["source"], length["mean"]) == (unit, source, mean)


def test_a_tokenizer_makes_the_ids_that_a_file_lacks() -> None:
    samples = [*said("abc", "de"), {"response": "fghi", "token_ids": [1]}]
    length = surveyed(
        samples, encode=lambda texts: [[ord(c) for c in item] for item in texts], tokenizer="t.json"
    )["length"]
    assert (length["unit"], length["source"], length["mean"]) == ("tokens", "t.json", 2)


def test_truncation_is_what_the_file_says() -> None:
    samples = [{"response": "x", "truncated": number < 53} for number in range(100)]
    truncated = surveyed(samples)["length"]["truncated"]
    assert truncated == {
        **{"known": 100, "count": 53, "share": 0.53},
        "how": "the file's own field",
    }


def test_truncation_is_a_missing_end_token_otherwise() -> None:
    ends = [{"response": "x", "token_ids": [5] * (1 + length % 4) + [2]} for length in range(30)]
    cut = [{"response": "x", "token_ids": [5, 6, 5, 6]} for _ in range(10)]
    assert surveyed([*ends, *cut])["length"]["truncated"]["share"] == 0.25
    assert surveyed(cut)["length"]["truncated"] is None, "no end token was ever seen"


def test_a_pile_of_greatest_lengths_is_a_cap() -> None:
    samples = [{"response": "x", "token_ids": list(range(count))} for count in [*range(1, 90)]]
    samples += [{"response": "x", "token_ids": list(range(128))} for _ in range(11)]
    length = surveyed(samples)["length"]
    assert (length["cap"], length["at_cap"], length["at_cap_share"]) == (128, 11, 0.11)


def test_sections_alone_leave_the_others_out() -> None:
    document = surveyed(said("a b c"), only=frozenset({"lengths", "ngrams"}))
    assert document["only"] == ["lengths", "ngrams"]
    assert document["length"]["mean"] == 3
    assert listed(document, 3) == [("abc", 1, 1)]
    others = ("repetition", "duplicates", "rewards", "steps", "templates", "positions")
    assert [document[name] for name in others] == [None] * 6


def test_loops_runs_and_empty_answers_are_counted_and_the_worst_shown() -> None:
    loop = "A sound beginning. " + "I will go back and think again. " * 20
    document = surveyed(
        [
            {"response": loop, "prompt": "why?", "step": 3},
            *said("!" * 300, "", "  ", "<|im_end|>", "All is well here.", "And here, too."),
        ]
    )
    found = document["repetition"]
    counts = {name: found[name] for name in ("looping", "runs", "empty", "marks_only")}
    assert counts == {"looping": 2, "runs": 1, "empty": 2, "marks_only": 1}
    assert found["run_of"] == "!"
    first, second = found["worst"]
    assert (first["kind"], first["period"], first["prompt"]) == ("loop", 32, "why?")
    assert first["text"].startswith("A sound beginning")
    assert "I will go back and think again" in first["loop"]
    assert (second["kind"], second["loop"], second["covered"]) == ("run", "!", 300)


def test_equal_and_nearly_equal_texts_are_duplicates() -> None:
    long = " ".join(f"word{number}" for number in range(300))
    samples = [
        {"response": long, "prompt": "p"},
        {"response": long, "prompt": "q"},
        {"response": long + " end", "prompt": "p"},
        {"response": "apart", "prompt": "p"},
    ]
    found = surveyed(samples)["duplicates"]
    assert (found["groups"], found["samples"], found["share"]) == (1, 2, 0.5)
    assert (found["near_groups"], found["near_samples"]) == (1, 3)
    assert [(item["count"], item["prompts"]) for item in found["largest"]] == [(2, 2)]


def paid_for_thanks() -> list[dict[str, Any]]:
    """Samples of ten steps: "thanks" comes in at step 40, and the reward counts it."""
    samples = []
    for step in range(0, 100, 10):
        for number in range(40):
            share = 0 if step < 40 else (step - 30) / 70
            thanks = number % 10 < 10 * share
            text = f"answer {step * number % 17} is fine and good {number}" + " thanks" * thanks
            samples.append(
                {"response": text, "step": step, "reward": 1.0 * thanks + number % 3 / 10}
            )
    return samples


def test_the_paid_word_is_named_with_the_step_from_which_it_grew() -> None:
    document = surveyed(paid_for_thanks())
    (phrase,) = [item for item in document["rewards"]["phrases"] if item["n"] == 1]
    assert phrase["text"] == "thanks"
    assert phrase["r"] > 0.9
    assert phrase["with_mean"] > phrase["without_mean"] + 0.9
    assert (phrase["early_share"], phrase["from_step"]) == (0.0, 40)
    grew = next(item for item in document["grew"] if item["text"].endswith("thanks"))
    assert grew["late_share"] > 0.7


def test_rewards_are_compared_within_steps() -> None:
    samples = [
        {"response": "w " * (step + 5), "step": step, "reward": step + (number % 2) / 10}
        for step in range(20)
        for number in range(10)
    ]
    rewards = surveyed(samples)["rewards"]
    assert rewards["length_r"] is None, "length never varies within a step"
    assert rewards["within_steps"]
    assert not rewards["constant"]


def test_a_constant_reward_is_called_so_and_none_is_none() -> None:
    assert surveyed([{"response": "a", "reward": 0.0}] * 5)["rewards"]["constant"]
    assert surveyed(said("a"))["rewards"] is None
    assert surveyed([{"response": "a", "reward": math.nan}])["rewards"] is None


def test_parts_of_the_reward_are_told_apart() -> None:
    samples = [
        {
            "response": "w " * (number + 1),
            "reward": 1.0 + number,
            "reward_components": {"format": 1.0, "content": float(number)},
        }
        for number in range(10)
    ]
    parts = {item["name"]: item for item in surveyed(samples)["rewards"]["components"]}
    assert parts["format"]["std"] == 0.0
    assert parts["format"]["total_r"] is None
    assert parts["content"]["total_r"] == pytest.approx(1.0)
    assert parts["content"]["length_r"] == pytest.approx(1.0)


def test_templates_stand_in_most_responses_and_only_the_longest_is_listed() -> None:
    texts = [
        f"The final answer is therefore {number} and that is {number * 7}" for number in range(20)
    ]
    templates = surveyed(said(*texts))["templates"]
    assert [(item["text"], item["share"]) for item in templates][:1] == [("The final answer", 1.0)]
    assert not any(item["text"] == "final answer" for item in templates)


def test_perplexity_by_position() -> None:
    samples = [{"response": "x", "logprobs": [-1.0] * 20 + [-0.5] * 20} for _ in range(3)]
    deciles = surveyed(samples)["positions"]["deciles"]
    assert deciles == [1.0] * 5 + [0.5] * 5


def test_notes_and_lost_lines_are_told() -> None:
    document = surveyed([Note("samples.jsonl", "2 lines are no JSON", left_out=2), *said("a")])
    assert document["skipped_lines"] == 2
    assert {"where": "samples.jsonl", "text": "2 lines are no JSON"} in document["notes"]


def test_nothing_to_survey() -> None:
    document = surveyed([{"chosen": "a", "rejected": "b"}])
    assert (document["samples"], document["pairs"]) == (0, 1)


def test_several_files_are_one_survey() -> None:
    samples = [
        {"response": "a b", "source": f"{number}.jsonl", "step": number} for number in (1, 2, 3)
    ]
    document = surveyed(samples, (1,))
    assert [item["samples"] for item in document["files"]] == [1, 1, 1]
    assert [row["source"] for row in document["steps"]] == ["1.jsonl", "2.jsonl", "3.jsonl"]


def test_measures_stay_with_their_responses_whatever_the_order_of_files() -> None:
    samples = [
        {"response": "loop " * 50 if name == "10.jsonl" else "fine", "source": name, "step": step}
        for step, name in ((2, "2.jsonl"), (10, "10.jsonl"))
        for _ in range(20)
    ]
    told = [(str(item["source"]), _sample(1, item)) for item in samples]
    _, run = survey.survey(
        lambda: told,
        survey.Asked(),
        lambda kept, notes: samples_as_run("folder", kept, notes),
    )
    assert run is not None
    looping = {batch.source: batch.looping for batch in batches(run)}
    assert looping == {"2.jsonl": 0.0, "10.jsonl": 1.0}


def test_one_long_response_does_not_take_the_room_of_all_others() -> None:
    samples = said("x" * 3_000_000, *(f"short answer {number}" for number in range(500)))
    document = surveyed(samples, memory=2**26)
    assert document["judged"] == {"samples": 500, "of": 501}


def test_many_prompts_do_not_make_a_block_too_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "BLOCK", 100_000)
    told = [("f", Sample(1, response="yes", prompt="p" * 10_000)) for _ in range(100)]
    found = corpus.Corpus(*([None] * 4))  # type: ignore[arg-type]
    assert max(map(len, corpus._blocks(told, found))) <= 10


def test_a_phrase_that_spreads_slowly_is_listed_though_steps_are_small() -> None:
    samples = [
        {"response": f"number {number} of {step}" + " in sum" * (number < step / 3), "step": step}
        for step in range(20)
        for number in range(8)
    ]
    grew = {item["text"] for item in surveyed(samples)["grew"]}
    assert any("in sum" in text for text in grew)


def test_a_word_is_not_paid_because_one_file_holds_it_and_pays_more() -> None:
    samples = [
        {
            "response": f"answer {number}" + f" {word}" * 2,
            "reward": pay + number % 3,
            "source": source,
        }
        for source, word, pay in (("a", "zig", 0.0), ("b", "zag", 9.0))
        for number in range(60)
    ]
    rewards = surveyed([{**item, "step": 1} for item in samples])["rewards"]
    assert not [item for item in rewards["phrases"] if "zag" in item["text"]]


@pytest.mark.parametrize(
    ("steps", "known"),
    [
        pytest.param([None] * 4, 0, id="no steps"),
        pytest.param([5] * 4, 1, id="one step"),
        pytest.param([5, 5, None, None], 1, id="one step, and responses without"),
        pytest.param([5, 6, None, None], 2, id="two steps"),
    ],
)
def test_only_known_steps_count(steps: list[int | None], known: int) -> None:
    document = surveyed({"response": "a b", "step": step} for step in steps)
    assert document["steps_known"] == known
    assert bool(document["steps"]) is (known > 1)


def test_a_thousand_steps_more_are_taken_together() -> None:
    samples = ({"response": "a b c", "step": step, "reward": step % 2} for step in range(2500))
    document = surveyed(samples)
    assert document["steps_known"] == 2500
    assert len(document["steps"]) <= 201
    assert document["steps"][-1]["step"] == 2499


def test_all_files_of_a_listed_step_are_listed() -> None:
    samples = [
        {"response": "a", "step": step, "source": name} for step in range(300) for name in "ab"
    ]
    rows = surveyed(samples)["steps"]
    assert {row["source"] for row in rows} == {"a", "b"}


@pytest.mark.parametrize("reward", [1e200, -1.7e308, math.inf])
def test_rewards_beyond_arithmetic_are_left_out(reward: float) -> None:
    samples = [{"response": "a b", "reward": 1.0, "reward_components": {"x": reward}}] * 20
    samples += [{"response": "a b c", "reward": reward}] * 3
    assert surveyed(samples)["rewards"]["known"] == 20


def test_a_tokenizer_never_makes_an_answer_a_cut_one() -> None:
    ends = [{"response": "x", "token_ids": [5] * (1 + length % 4) + [2]} for length in range(30)]
    found = surveyed([*ends, *said(*("text alone",) * 30)], encode=lambda texts: [[7]] * len(texts))
    assert found["length"]["truncated"]["share"] == 0.0


def test_answers_in_brackets_are_no_special_tokens() -> None:
    found = surveyed(said("[YES]", "[NO]", "<correct>", "<eos>", "</s><pad>"))["repetition"]
    assert found["marks_only"] == 2


def test_repetition_of_two_words_is_seen_where_every_triple_differs() -> None:
    repeated = " ".join(f"the answer {number}" for number in range(40))
    assert surveyed(said(repeated))["repetition"]["gopher"]["flagged"] == 1


def test_lost_lines_are_counted_beyond_the_notes_that_are_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(corpus, "MOST_NOTES", 2)
    document = surveyed([*[Note("f", "a line is no JSON", left_out=1)] * 5, *said("a")])
    assert document["skipped_lines"] == 5
    assert "3 more notes" in document["notes"][-1]["text"]


def test_steps_and_groups_are_kept_whole_where_not_all_can_be() -> None:
    samples = [
        {"response": "sound text of one answer " * 8 + f"{step} {rank}", "step": step}
        for step in range(400)
        for rank in range(16)
    ]
    told = [("samples.jsonl", _sample(line, item)) for line, item in enumerate(samples, start=1)]
    _, run = survey.survey(
        lambda: told,
        survey.Asked(memory=2**26),
        lambda kept, notes: samples_as_run("samples.jsonl", kept, notes),
    )
    assert run is not None
    kept = batches(run)
    assert 5 < len(kept) < 400
    assert {len(batch.items) for batch in kept} == {16}
    assert kept[0].step == 0


def test_a_stream_that_changes_between_its_passes_is_noted() -> None:
    streams = iter([[("f", Sample(1, response="a b c d"))], [("f", Sample(1, response="other"))]])
    document, _ = survey.survey(
        lambda: next(streams),
        survey.Asked(),
        lambda kept, notes: samples_as_run("f", kept, notes),
    )
    assert "changed while it was read" in document["notes"][-1]["text"]


def test_a_full_disk_is_an_error_of_two_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(corpus, "read", full)
    with pytest.raises(DoctorError, match="No space left") as caught:
        surveyed(said("a"))
    assert "TMPDIR" in caught.value.hint
