"""Measure surveying samples: time and memory against the shell pipeline, and the same counts.

    python bench/samples.py generate z200.jsonl          # 200 MB of Zipf-distributed text
    python bench/samples.py compare z200.jsonl           # jq | awk | sort | uniq -c | sort -nr
    python bench/samples.py compare z5000.jsonl --ways counts whole
    python bench/samples.py check FILE...                # against a plain reference in Python

Figures are medians over fresh processes, the ways taken in turn. CPU seconds are user and system of
the whole process tree, as the kernel counts them. The peak of memory is the greatest sum of
resident memory over the tree's processes, looked at 50 times a second.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

TOP = 20
"""n-grams that are compared, the most frequent of each n."""

VOCABULARY, PHRASES = 60_000, 400_000
"""Different words, and different phrases of one to five words that sentences are made of. Both are
drawn by Zipf's law (Mandelbrot's form): rank r with a weight of 1 / (r + 2.7), and of
1 / (r + 5)^0.9."""

MEASURED = 200_000_000
"""Bytes of a generated file whose trigrams are counted to tell how many differ."""


def main() -> None:
    """Run one of the three parts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parts = parser.add_subparsers(required=True)
    part = parts.add_parser("generate", help="write a file of samples")
    part.add_argument("path", type=Path)
    part.add_argument("--megabytes", type=int, default=200)
    part.set_defaults(part=generate)
    part = parts.add_parser("compare", help="time and memory of each way, and the same counts")
    part.add_argument("path", type=Path)
    part.add_argument("--repeats", type=int, default=3)
    part.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS))
    part.set_defaults(part=compare)
    part = parts.add_parser("check", help="counts and lengths against plain Python")
    part.add_argument("files", type=Path, nargs="*")
    part.set_defaults(part=check)
    given = vars(parser.parse_args())
    sys.exit(given.pop("part")(**given))


# generate


def generate(path: Path, megabytes: int) -> int:
    """Write JSON Lines of step, prompt, response and reward, always the same for one size."""
    import numpy as np

    random = np.random.default_rng(0)
    made = dict.fromkeys(_word(random) for _ in range(2 * VOCABULARY))
    words = np.array(sorted(list(made)[:VOCABULARY], key=_late), dtype=object)
    weights = 1 / (np.arange(VOCABULARY) + 2.7)
    sizes = random.integers(1, 6, PHRASES)
    drawn = random.choice(VOCABULARY, sizes.sum(), p=weights / weights.sum())
    phrases = np.split(drawn, np.cumsum(sizes)[:-1])
    texts = [" ".join(words[phrase]) for phrase in phrases]
    bounds = np.cumsum((np.arange(PHRASES) + 5.0) ** -0.9)
    written = count = 0
    trigrams: list[Any] = []
    with path.open("w", encoding="ascii") as file:
        while written < megabytes * 1_000_000:
            picked = np.searchsorted(bounds, random.random(random.integers(20, 140)) * bounds[-1])
            row = {
                "step": count // 1000,
                "prompt": f"Write text {count % 5000}.",
                "response": " ".join([texts[place] for place in picked]),
                "reward": round(float(random.normal(len(picked) / 100, 0.5)), 4),
            }
            line = json.dumps(row) + "\n"
            file.write(line)
            if written < MEASURED:
                ids = np.concatenate([phrases[place] for place in picked]).astype(np.int64)
                trigrams.append((ids[:-2] * VOCABULARY + ids[1:-1]) * VOCABULARY + ids[2:])
            written += len(line)
            count += 1
    every = np.concatenate(trigrams)
    every.sort()
    share = (1 + np.count_nonzero(every[1:] != every[:-1])) / len(every)
    print(f"{count:,} samples, {written / 1e6:.1f} MB")
    print(f"{share:.1%} of the {len(every):,} 3-grams of the first 200 MB differ")
    return 0


def _late(word: str) -> tuple[float, str]:
    """Order words as languages do: the short ones are the frequent ones, by and large."""
    return len(word) + zlib.crc32(word.encode()) % 400 / 100, word


def _word(random: Any) -> str:
    """Return one to five syllables."""
    starts, middles, ends = "bcdfghjklmnprstvwz", "aeiou", ("", "", "", "n", "r", "s", "t")
    syllables = range(random.choice(5, p=[0.1, 0.3, 0.35, 0.2, 0.05]) + 1)
    word = "".join(starts[random.integers(18)] + middles[random.integers(5)] for _ in syllables)
    return word + ends[random.integers(7)]


# compare


class Cost(NamedTuple):
    """What one process tree took."""

    cpu: float
    wall: float
    peak_mb: float
    output: str


def _ours(options: str) -> Callable[[Path], list[str]]:
    def command(path: Path) -> list[str]:
        start = [sys.executable, "-m", "rlhfdoctor", "samples", str(path)]
        return [*start, *options.split(), "--top", str(TOP), "--format", "json"]

    return command


def _pipeline(path: Path) -> list[str]:
    """The usual way, with its fastest locale; one response a line, as generated text has it."""
    grams = '{for (i = 1; i <= NF - 2; i++) print $i " " $(i+1) " " $(i+2)}'
    read = f"jq -r .response {shlex.quote(str(path))}"
    rest = f"awk {shlex.quote(grams)} | sort | uniq -c | sort -nr | head -{TOP}"
    return ["bash", "-c", f"export LC_ALL=C; {read} | {rest}"]


WAYS: dict[str, tuple[str, Callable[[Path], list[str]]]] = {
    "shell": (r"jq \| awk \| sort \| uniq -c \| sort -nr", _pipeline),
    "counts": ("lengths and 3-grams", _ours("--only lengths,ngrams --ngrams 3")),
    "whole": ("everything", _ours("--ngrams 3")),
}
"""The command of each way, and how the table calls it. The others are compared with the first."""


def compare(path: Path, repeats: int, ways: list[str]) -> int:
    """Print what each way takes as a table, and whether all count the same."""
    found: dict[str, list[Cost]] = {way: [] for way in ways}
    for _ in range(repeats):
        for way in ways:
            found[way].append(_cost(WAYS[way][1](path)))
    print(f"| {path.stat().st_size / 1e6:,.0f} MB | CPU s | range | wall s | range | peak MB |")
    print("|---|---|---|---|---|---|")
    first, *_ = found
    middle = {
        way: [statistics.median(run[place] for run in runs) for place in range(3)]
        for way, runs in found.items()
    }
    for way, (cpu, wall, peak) in middle.items():
        spent, lasted = ([run[place] for run in found[way]] for place in range(2))
        line = f"| {WAYS[way][0]} | {cpu:.1f} | {min(spent):.1f}-{max(spent):.1f} "
        print(f"{line}| {wall:.1f} | {min(lasted):.1f}-{max(lasted):.1f} | {peak:,.0f} |")
        if way != first:
            less = [middle[first][place] / middle[way][place] for place in range(2)]
            print(f"| | **{less[0]:.1f}x less** | | **{less[1]:.1f}x less** | | |")
    counts = {way: _top(runs[0].output) for way, runs in found.items()}
    same = all(_agree(counts[first], other) for other in counts.values())
    print(f"\nThe same top {TOP}." if same else f"\nNOT the same top {TOP}: {counts}")
    return 0 if same else 1


def _cost(command: list[str]) -> Cost:
    """Run a command to its end in a process group of its own."""
    with tempfile.TemporaryFile() as output:
        began = time.perf_counter()
        process = subprocess.Popen(command, stdout=output, start_new_session=True)
        peak = 0.0
        while True:
            done, status, used = os.wait4(process.pid, os.WNOHANG)
            if done:
                break
            peak = max(peak, _resident(process.pid))
            time.sleep(0.02)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        text = output.read().decode()
    if process.returncode:
        raise SystemExit(f"{shlex.join(command)} exited with {process.returncode}")
    peak = max(peak, used.ru_maxrss / 1e3)
    return Cost(used.ru_utime + used.ru_stime, wall, peak, text)


def _resident(session: int) -> float:
    """Return the resident memory of all processes of a session, in MB."""
    total = 0
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError, IndexError):  # a process that has just ended
            if os.getsid(int(place.name)) == session:
                total += int((place / "statm").read_text().split()[1])
    return total * os.sysconf("SC_PAGE_SIZE") / 1e6


def _top(output: str) -> dict[str, int]:
    """Read the 3-grams and their counts from what either way printed."""
    if output.startswith("{"):
        return {item["text"]: item["count"] for item in json.loads(output)["ngrams"]}
    pairs = (line.strip().split(" ", 1) for line in output.splitlines())
    return {text: int(count) for count, text in pairs}


def _agree(one: dict[str, int], other: dict[str, int]) -> bool:
    """Tell whether two lists of the most frequent are the same but for which of equals is last."""
    if sorted(one.values()) != sorted(other.values()):
        return False
    least = min(one.values(), default=0)
    surer = [{t: c for t, c in counts.items() if c > least} for counts in (one, other)]
    return surer[0] == surer[1]


# check

TEXTS = {
    "Chinese": [
        "\u6211\u7231\u4f60\uff0c\u4e2d\u56fd\u3002\u6211\u7231\u4f60\uff01",
        "\u5956\u52b1\u8d8a\u6765\u8d8a\u9ad8\uff0c\u56de\u7b54\u8d8a\u6765\u8d8a\u957f\u3002",
        "\u845b\U000e0100\u57ce\u8207\U00020bb7\u91ce\u5bb6",
    ],
    "Japanese": [
        "\u79c1\u306f\u732b\u304c\u597d\u304d\u3067\u3059\u3002\u79c1\u306f\u732b",
        "\u30e9\u30fc\u30e1\u30f3\u3068\uff76\uff9e\uff91\u3001\u304b\u3099",
        "\u6771\u4eac\u30bf\u30ef\u30fc\u3078\u884c\u3063\u305f\u3002",
    ],
    "Korean": [
        "\ub098\ub294 \ub108\ub97c \ub098\ub294 \ub108\ub97c",
        "\ud55c\uad6d\uc5b4 \ud55c\uad6d\uc5b4",
        "\u1112\u1161\u11ab \uae00",
    ],
    "Thai": [
        "\u0e1c\u0e21\u0e23\u0e31\u0e01\u0e04\u0e38\u0e13 \u0e1c\u0e21\u0e23\u0e31\u0e01",
        "\u0e19\u0e49\u0e33 \u0e44\u0e21\u0e48\u0e40\u0e27\u0e49\u0e19\u0e27\u0e23\u0e23\u0e04",
        "\u0e51\u0e52\u0e53 abc \u0e14\u0e35",
    ],
    "Lao, Khmer, Burmese": [
        "\u0eaa\u0eb0\u0e9a\u0eb2\u0e8d\u0e94\u0eb5 \u0eaa\u0eb0\u0e9a\u0eb2\u0e8d\u0e94\u0eb5",
        "\u1797\u17b6\u179f\u17b6\u1781\u17d2\u1798\u17c2\u179a \u1781\u17d2\u1789\u17bb\u17c6",
        "\u1000\u1039\u1000\u1019\u103c\u1014\u103a\u1019\u102c \u1001\u103b\u1005\u103a",
    ],
    "Arabic": [
        "\u0623\u062d\u0628\u0643 \u064a\u0627 \u0623\u062d\u0628\u0643 \u064a\u0627",
        "\u0645\u064e\u0631\u0652\u062d\u064e\u0628\u064b\u0627 \u0628\u0650\u0643\u064f",
        "\u0639\u0631\u0628\u064a\u0629 123",
    ],
    "Devanagari": [
        "\u0928\u092e\u0938\u094d\u0924\u0947 \u0928\u092e\u0938\u094d\u0924\u0947",
        "\u0915\u094d\u0937\u0924\u094d\u0930\u093f\u092f \u0938\u094d\u0924\u094d\u0930\u0940",
    ],
    "emoji": [
        "\U0001f600\U0001f600 \U0001f44d\U0001f3fd\U0001f44d\U0001f3fd \u2764\ufe0f",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f3f3\ufe0f\u200d\U0001f308",
        "\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7\U0001f1e9\U0001f1ea \U0001f1fa",
        "1\ufe0f\u20e3 #\ufe0f\u20e3",
    ],
    "mixed": [
        "GPT\u6a21\u578bv2 is \u597d\u7684 ok",
        "\u79c1\u306fPython\u3068\u043c\u0438\u0440\u3092",
        "abc\u4e2d\u6587def\ud55c\uad6d \u0e44\u0e17\u0e22",
        "x\u4e2d\u0301 \u0301y",
    ],
    "white space": [
        "a b  c\td\ne\r\nf\x0bg\x0ch",
        "a\xa0b\u2003c\u3000d\u2028e\x85f\x1cg",
        " \n ",
        "a\u200bb \ufeffc",
        "\u3000\u4e2d\u3000\u6587\x1d\u5b57\r\n",
        "trailing  ",
        "\r\r\n\n",
    ],
    "next to no text": ["", " ", "\x00", "\x00a\x1b[31mb", "\\u0000", "one"],
}
"""Texts that are checked beside the files, each group as a file of its own, twenty times over."""

IDS = ("token_ids", "completion_ids", "response_ids", "response_token_ids", "output_ids")
TOLD = ("generated_tokens", "completion_tokens", "response_length", "num_tokens", "length")
"""Keys of a sample under which token ids, and a number of tokens, are looked for."""

UNSPACED = ("Han", "Hiragana", "Katakana", "Thai", "Lao", "Khmer", "Myanmar")
SHARED = "\u3006\u309b\u309c\u30a0\u30fb\u30fc\uff70"
"""Scripts whose grapheme clusters are words, and characters that kana share."""


def check(files: list[Path]) -> int:
    """Hold the survey of every file, and of the built-in texts, against plain Python."""
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, texts in TEXTS.items():
            path = Path(folder, f"{name}.jsonl")
            rows = [json.dumps({"prompt": "p", "response": text}) for text in texts * 20]
            path.write_text("\n".join(rows), encoding="ascii")
            wrong += _checked(name, path)
        for path in files:
            wrong += _checked(str(path), path)
    print("all the same" if not wrong else f"{wrong} differ")
    return 1 if wrong else 0


def _checked(name: str, path: Path) -> bool:
    """Print what differs between the survey of a file and the reference."""
    command = _ours("--only lengths,ngrams --ngrams 1 --ngrams 2 --ngrams 3")(path)
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    if told.returncode:
        print(f"{name}: {told.stderr.strip()}")
        return True
    document = json.loads(told.stdout)
    rows = _rows(path)
    field = document["field"] or _field(rows)
    texts = [row[field] for row in rows if isinstance(row.get(field), str)]
    differ = list(_differences(document, texts, rows))
    print(f"{name}: {len(texts):,} samples, {field}: {'; '.join(differ) or 'the same'}")
    return bool(differ)


def _differences(
    document: dict[str, Any], texts: list[str], rows: list[dict[str, Any]]
) -> Iterator[str]:
    if document["samples"] != len(texts):
        yield f"{document['samples']} samples, not {len(texts)}"
    split = [_words(text) for text in texts]
    for n in (1, 2, 3):
        counts: Counter[tuple[str, ...]] = Counter()
        within: Counter[tuple[str, ...]] = Counter()
        for words in split:
            grams = [tuple(words[at : at + n]) for at in range(len(words) - n + 1)]
            counts.update(grams)
            within.update(set(grams))
        total = next(item["count"] for item in document["ngrams_total"] if item["n"] == n)
        if total != sum(counts.values()):
            yield f"{total} {n}-grams, not {sum(counts.values())}"
        yield from _unlike([item for item in document["ngrams"] if item["n"] == n], counts, within)
    for summary in document["lengths"]:
        lengths = _lengths(summary, texts, split, rows)
        expected = _summary(lengths)
        for key, value in expected.items():
            if not math.isclose(summary[key], value, rel_tol=1e-9, abs_tol=1e-9):
                yield f"{key} of {summary['unit']} {summary[key]}, not {value}"
        if summary == document["lengths"][0]:
            for bar in document["length"]["histogram"]:
                count = sum(bar["low"] <= length <= bar["high"] for length in lengths)
                if count != bar["count"]:
                    yield f"{bar} for {count} {summary['unit']}"


def _unlike(
    listed: list[dict[str, Any]],
    counts: Counter[tuple[str, ...]],
    within: Counter[tuple[str, ...]],
) -> Iterator[str]:
    """Compare the most frequent n-grams of one n; their texts but for the spaces between words."""
    most = sorted(counts.values(), reverse=True)[:TOP]
    if [item["count"] for item in listed] != most:
        yield f"counts {[item['count'] for item in listed]}, not {most}"
    bare = {"".join("".join(gram).split()): gram for gram, _ in counts.most_common(20 * TOP)}
    for item in listed:
        gram = bare.get("".join(item["text"].split()))
        if gram is None or (item["count"], item["samples"]) != (counts[gram], within[gram]):
            yield f"{item['text']!r} {item['count']} times in {item['samples']}"


def _lengths(
    summary: dict[str, Any], texts: list[str], split: list[list[str]], rows: list[dict[str, Any]]
) -> list[int]:
    import regex

    if summary["unit"] == "words":
        return [len(words) for words in split]
    if summary["unit"] == "graphemes":
        return [len(regex.findall(r"\X", text)) for text in texts]
    ids = next((key for key in IDS if key in rows[0]), None)
    if ids:
        return [len(row[ids]) for row in rows if row.get(ids) is not None]
    told = next(key for key in TOLD if key in rows[0])
    return [int(row[told]) for row in rows if row.get(told) is not None]


def _summary(lengths: list[int]) -> dict[str, float]:
    ordered = sorted(lengths)
    mean, spread = statistics.fmean(ordered), statistics.pstdev(ordered)
    ranks = {f"p{p}": ordered[max(math.ceil(p * len(ordered) / 100), 1) - 1] for p in (50, 90, 99)}
    over = sum(length > mean + 3 * spread for length in ordered)
    ends = {"min": ordered[0], "max": ordered[-1]}
    return {**ends, "mean": mean, "std": spread, **ranks, "over_3_sigma": over}


def _rows(path: Path) -> list[dict[str, Any]]:
    """Read a file of samples as one would by hand."""
    if path.suffix == ".csv":
        csv.field_size_limit(2**30)
        with path.open(encoding="utf-8", newline="") as file:
            return list(csv.DictReader(file))
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    found = json.loads(text)
    if isinstance(found, list):
        return list(found)
    columns = {key: value for key, value in found.items() if isinstance(value, list)}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _field(rows: list[dict[str, Any]]) -> str:
    names = ("response", "responses", "completion", "raw_generation", "output", "text")
    return next(name for name in names if name in rows[0])


def _words(text: str) -> list[str]:
    """Split on white space; grapheme clusters that begin with an unspaced script are words."""
    import regex

    found: list[str] = []
    place, inside = 0, False
    while place < len(text):
        character = text[place]
        alone = _is("base", character) and not _is("mark", character)
        taken = regex.match(r"\X", text, pos=place).group() if alone else character
        if inside and not alone and not character.isspace():
            found[-1] += taken
        elif not character.isspace():
            found.append(taken)
        inside = not alone and not character.isspace()
        place += len(taken)
    return found


@cache
def _is(kind: str, character: str) -> bool:
    import regex

    scripts = "".join(rf"\p{{{script}}}" for script in UNSPACED)
    kinds = {
        "base": f"[{scripts}{SHARED}]",
        "mark": r"[\p{GCB=Extend}\p{GCB=SpacingMark}\p{GCB=ZWJ}]",
    }
    return bool(regex.match(kinds[kind], character))


if __name__ == "__main__":
    main()
