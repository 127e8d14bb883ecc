"""Grammars: one small function a way of writing metrics into a line.

Each takes the text of one segment (``_text``) and returns the records in it: tables as
``_json.row`` takes them, with ``step``, ``epoch`` and ``max_steps`` where the line tells them. To
add one, write a function, name it in ``GRAMMARS``, and test it with one line that is such a record
and one that only looks like it.

A log is full of text that resembles metrics: prompts, generations, package lists, tables of
contents. A grammar therefore demands structure: a word that counts steps, pairs that make up most
of the line, and a key that names something measured.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from rlhfdoctor.readers._json import EPOCH_KEYS, STEP_KEYS, TEXT_KEYS, flatten, number

Record = dict[str, object]

LONGEST_LINE = 20_000
"""Characters of a line in which pairs are looked for; one with more is no line of pairs."""

_COMMA = "\u066b"
"""What stands for a comma inside a number while a line is split at the others."""

NUMBER = (
    rf"[+-]?(?:(?:\d+(?:\.\d*|(?:{_COMMA}\d+)+)?|\.\d+)(?:[eE][+-]?\d+)?"
    r"|nan|NaN|inf|Infinity|INF|NAN)"
)

_MEASURED = re.compile(
    r"(?:loss|reward|entropy|grad_?norm|gradient|accurac|perplexity|advantage|margin|logp|logprob"
    r"|clip_?frac|score|penalty|objective|kld|approx_?kl)"
    r"|(?:^|[^a-z])(?:kl|ppl|acc|adv|ratio|return|returns|values?|eps|tis|ce|nll|wer|bleu|rouge)"
    r"(?:$|[^a-z])"
)
"""What a metric is called, anywhere in its key."""

_CHOSEN = re.compile(
    r"(?:^|[^a-z])(?:coef|coeff|size|dir|path|name|type|model|weights?|seed|func|function|fn|mode"
    r"|max_steps|num|max_length|max_prompt_length|enabled|threshold|target|horizon|beta|warmup"
    r"|strategy|scheduler|config|tokens_per|agg|(?:repetition|presence|frequency|length)_penalty"
    r"|logprobs|top_[kp]|epsilon|cliprange|clip_range|max_(?:new_)?tokens|num_\w{1,30}|total_\w{1,30}"
    r"|(?:save|logging|test|eval)_(?:steps|freq))(?:$|[^a-z])"
)
"""What a setting is called: a value that somebody chose, not one that was measured."""

_SUMMARY = ("train_runtime", "train_samples_per_second")
"""Keys of the last line of a Hugging Face trainer: means over the whole run."""


def measured(key: str) -> bool:
    """Say whether a key names something that a trainer measures."""
    low = key.lower()
    return _MEASURED.search(low) is not None and _CHOSEN.search(low) is None


_HALF = re.compile(r"['\"]([\w/@. -]{1,80})['\"]\s*:\s*['\"]?[-+.\dni]")


def half(text: str) -> bool:
    """Say whether the beginning of a broken table looks like metrics, which trainers print flat."""
    if "{" in text[1:4000]:
        text = text[: text.index("{", 1)]
    keys = _HALF.findall(text[:4000])
    known = sum(map(measured, keys))
    return known > sum(_CHOSEN.search(key.lower()) is not None for key in keys)


def sampling(record: Mapping[str, object]) -> bool:
    """Say whether a table says how text is sampled: a validation's temperature is not the run's."""
    return "top_p" in record or "top_k" in record


def likely(text: str) -> bool:
    """Say whether anything in a line is called like a metric: the cheap question."""
    return _MEASURED.search(text.lower()) is not None


def summary(record: Mapping[str, object]) -> bool:
    """Say whether a record is a trainer's last word on the whole run, which is no step's."""
    return any(key in record for key in _SUMMARY)


def metrics(record: Mapping[str, object]) -> bool:
    """Say whether a printed table holds metrics: measured numbers rather than settings or text."""
    leaves = [(key, value) for key, value in flatten(record) if value is not None]
    numeric = [key for key, value in leaves if number(value) is not None]
    texts = sum(isinstance(value, str) and number(value) is None for _, value in leaves)
    chosen = sum(_CHOSEN.search(key.lower()) is not None for key in numeric if not measured(key))
    known = sum(measured(key) for key in numeric)
    sample = any(isinstance(record.get(key), str | list) for key in (*TEXT_KEYS, "prompt"))
    switches = any(isinstance(value, bool) for _, value in leaves)
    return (
        len(numeric) >= 2
        and known >= 1
        and chosen <= known
        and 2 * len(numeric) > len(leaves)
        and texts <= known + 4
        and not (sample or switches)
    )


# verl


_VERL = re.compile(r"(?:^|(?<=[\s\d)]))step:(\d{1,15}) - (?=[^\s:][^:]{0,200}:)")
_CALL = re.compile(r"[\w.]{1,40}\(([^()]{0,60})\)")


def verl(text: str) -> list[Record]:
    """Read ``step:3 - actor/kl_loss:np.float64(0.1) - training/epoch:0``, one or several glued.

    verl/utils/logger/aggregate_logger.py: numbers as pprint shows them.
    """
    starts = list(_VERL.finditer(text))
    records: list[Record] = []
    for place, start in enumerate(starts):
        end = starts[place + 1].start() if place + 1 < len(starts) else len(text)
        pieces = [piece for piece in text[start.end() : end].split(" - ") if piece.strip()]
        pairs = dict(_verl_pair(piece) for piece in pieces if ":" in piece)
        numeric = sum(number(value) is not None for value in pairs.values())
        if numeric and 10 * len(pairs) >= 7 * len(pieces) and any("/" in key for key in pairs):
            records.append({"step": int(start[1]), **pairs})
    return records


def _verl_pair(piece: str) -> tuple[str, object]:
    key, _, value = piece.strip().rpartition(":")
    called = _CALL.fullmatch(value.strip())
    return key.strip(), called[1] if called else value.strip()


# evaluations


_TESTS = r"(?:eval(?:s|uat(?:e|ed|es|ing|ion))?|valid(?:at(?:e|ed|ing|ion))?|val|test(?:ing|ed)?)"
"""How logs call an evaluation."""

_TESTED = re.compile(
    rf"(?<![\w./-]){_TESTS}(?=$|[\s\]):|,>-]|_(?:step|iter|epoch|results|metrics))", re.IGNORECASE
)
_FIELD = re.compile(
    r"(?:^|[|,;\[(\t\u2502])\s{0,4}(?:(?:split|mode|phase|stage)[ ]?[:=][ ]?)?"
    rf"['\"]?{_TESTS}['\"]?"
    r"\s{0,4}(?:(?=[|,;\])\t\u2502]|\s-{1,2}\s|$)|:(?!\s{0,4}[-+.\d]))",
    re.IGNORECASE,
)
"""A field of a line that holds nothing but that word."""

_SPLIT_KEYS = ("split", "mode", "phase", "stage")
_COUNTERS = frozenset((*STEP_KEYS, *EPOCH_KEYS, "max_steps", "rollout"))
_NAMED_EVALUATION = ("eval_", "eval/", "val_", "val/", "val-", "valid/", "test/", "test_")


def tested(text: str) -> bool:
    """Say whether the text before a record calls it an evaluation: ``Eval step 10:``."""
    return _TESTED.search(text) is not None


def evaluation(record: Record) -> Record:
    """Return the record of an evaluation, under keys that say so."""
    return {
        key
        if key in _COUNTERS or key.lower().startswith(_NAMED_EVALUATION)
        else f"eval_{key}": value
        for key, value in record.items()
    }


def split_told(record: Mapping[str, object]) -> bool:
    """Say whether a record names an evaluation as its split."""
    told = [record[key] for key in _SPLIT_KEYS if key in record]
    return any(isinstance(word, str) and re.fullmatch(_TESTS, word, re.I) for word in told)


# heads: the words that count


_WORDS = {
    "global step": "step",
    "train step": "step",
    "training step": "step",
    "step": "step",
    "iteration": "step",
    "iter": "step",
    "update": "step",
    "batch": "batch",
    "episode": "episode",
    "rollout": "rollout",
    "epoch": "epoch",
}
"""Words that count, and the key under which a record holds their number."""

_COUNT = r"(?:[1-9]\d{0,2}(?:,\d{3})+(?![\d,])|\d{1,15})"
"""A whole number; one that counts steps may group its thousands."""

_HEAD = re.compile(
    r"(?P<word>(?:global|train(?:ing)?)[ _]step|step|iteration|iter|update|batch|episode|rollout"
    r"|epoch)s?(?:[ ]?[:=#]|(?=[ \[(]))[ ]*[\[(]?[ ]*"
    rf"(?P<count>{_COUNT}(?:\.\d{{1,6}})?|\d{{1,15}},\d{{1,6}}(?!\d))(?![\d.]*\w|,\d)"
    rf"(?:[ ]*(?:/|of)[ ]*(?P<total>{_COUNT}))?[ ]*[\])]?"
    r"(?:[ ]?[(\[](?P<inner>\d{1,15})/(?P<all>\d{1,15})[)\]])?"
    r"(?P<end>[ ]*(?:[:|,;>\]=\u2502)-]+|(?=\s)|$))\s*",
    re.IGNORECASE,
)
_PLACE = re.compile(r"\[[ ]*(?P<count>\d{1,15})[ ]?/[ ]?(?P<total>\d{1,15})[ ]*\][ ]*[:|,;-]*\s*")
"""A count without a word: ``[3/100]``."""

_GROUPED = re.compile(r"[1-9]\d{0,2}(?:,\d{3})+")

_BEFORE = re.compile(
    r"(?:(?!\[[ ]*\d)[^A-Za-z0-9]){0,24}"
    r"(?:\b(?P<split>train(?:ing)?(?![ _]step)|" + _TESTS + r")"
    r"(?:\b|_(?=step|iter|epoch|global))[\])]?(?:[ ](?:results?|metrics))?"
    r"(?:[ ](?:at|@|after|for))?[\s:|,>\-]*)?[\s({<*#=>\-]*(?:\[(?![ ]*\d)[\s({<*#=>\-]*)*",
    re.IGNORECASE,
)


def head(text: str) -> tuple[Record, bool, int]:
    """Return what a line counts before its pairs, whether it is an evaluation, where pairs begin.

    ``Epoch:[1/2](20/500),`` is step 20 of 500 in epoch 1; of ``Epoch 1 | Batch 5/100`` the batch is
    the step.
    """
    before = _BEFORE.match(text)
    place = before.end() if before else 0
    split = (before["split"] or "").lower() if before else ""
    counts: Record = {}
    for _ in range(4):
        bare = _PLACE.match(text, place)
        if bare and "step" not in counts:
            place = bare.end()
            counts["step"], counts["max_steps"] = int(bare["count"]), int(bare["total"])
            continue
        found = _HEAD.match(text, place)
        if not found:
            break
        key = _WORDS[found["word"].lower().replace("_", " ").removesuffix("s")]
        count = _count(found["count"], key)
        if count is None:
            break
        place = found.end()
        counts[key] = count
        if found["total"] and key != "epoch":
            counts["max_steps"] = int(found["total"].replace(",", ""))
        if found["inner"]:
            counts["step"], counts["max_steps"] = int(found["inner"]), int(found["all"])
    for key in ("batch", "rollout", "episode"):
        if key in counts and "step" not in counts:
            counts["step"] = counts.pop(key)
    return counts, split.startswith(("eval", "val", "test")), place if counts else 0


def counting(text: str) -> Record:
    """Return what a text counts that does nothing else but, maybe, call it an evaluation."""
    counts, _, place = head(text)
    more = text[place:].strip()
    return {} if more and not _NO_MORE.fullmatch(more) else counts


_NO_MORE = re.compile(rf"\W{{0,8}}(?:{_TESTS}(?: results?)?)?\W{{0,8}}", re.IGNORECASE)


def _count(text: str, key: str) -> float | int | None:
    """Return a count: an epoch may be a fraction, everything else may group its thousands."""
    if key == "epoch":
        return float(text.replace(",", ".")) if number(text.replace(",", ".")) is not None else None
    if not re.fullmatch(rf"{_COUNT}(?:\.\d+)?", text):
        return None
    digits = text.replace(",", "")
    return float(digits) if "." in digits else int(digits)


# pairs


_KEY = r"[A-Za-z_][^:=|,;{}\[\]\"'<>\u2502\t]{0,60}?"
_PAIR = re.compile(
    rf"(?P<key>{_KEY})\s*(?::|=|->)\s*(?P<value>{NUMBER})"
    rf"(?:[ ]?(?P<unit>%|[A-Za-z]{{1,10}}(?:/[A-Za-z]{{1,10}})?))?"
)
_PLAIN = re.compile(rf"([A-Za-z_][\w/@.-]{{0,60}})[ ]?[:=][ ]?({NUMBER})")
"""The pair that almost every piece of a log is; the others are tried one after the other."""

_TIGHT = re.compile(
    rf"\s*(?P<key>[A-Za-z_][\w/@.%-]{{0,80}})[ ]?[:=][ ]?(?P<value>{NUMBER})"
    rf"(?P<unit>%|[A-Za-z]{{1,6}}(?:/[A-Za-z]{{1,6}})?)?(?=\s|$)"
)
_LIST = re.compile(rf"\[\s*({NUMBER})((?:\s*,\s*{NUMBER}){{0,64}})\s*\]")
_THOUSANDS = re.compile(r"(?<![\d.,\w])([1-9]\d{0,2}(?:,\d{3})+)(?=\.\d)")
_COMMAS = re.compile(
    r"(?<![\d.,\w])(?<![eE][+-])(\d{1,3}(?:,\d{3})+|\d{1,15},\d{1,15})(?![\d,]|\.\d)"
)
_REMARK = re.compile(
    r"\s{0,4}\((?:higher|lower|larger|smaller) is (?:better|worse)\)", re.IGNORECASE
)
_PIECES = re.compile(r"[|,;\t\u2502\u2503]|\s-{1,2}\s|\s{2,}")
_FULL = re.compile(NUMBER)
_SPREAD = re.compile(rf"\s{{0,4}}(?:\u00b1|\+/-)\s*{NUMBER}")
_WRAPPED = re.compile(
    rf"\b(?:(?:np|numpy|torch)\.)?(?:tensor|float\d*|int\d*)\(\s*({NUMBER})[^()]{{0,200}}\)"
)
_APART = re.compile(r"([:=])\s{2,}")
_MARKS = re.compile(r"[^\w.+-]+")
_WORD = re.compile(r"[A-Za-z_][\w/@.%-]{0,80}")
_WORDS_OF_A_KEY = 5


def pairs(text: str) -> tuple[Record, float]:
    """Return the pairs of key and number in a line, and the share of the text that they make up.

    A unit behind a number belongs to its key: 56% is no 56. A number with a comma, which may stand
    for a decimal point or group thousands, keeps it.
    """
    if len(text) > LONGEST_LINE or not _FULL.search(text):
        return {}, 0.0
    text = _REMARK.sub("", text)
    text = _APART.sub(r"\1 ", _SPREAD.sub("", text))
    if "(" in text:
        text = _WRAPPED.sub(r"\1", text)
    if "[" in text:
        text = _LIST.sub(_same, text)
    if "," in text:
        text = _THOUSANDS.sub(lambda found: found[1].replace(",", ""), text)
        text = _COMMAS.sub(lambda found: found[1].replace(",", _COMMA), text)
    found: Record = {}
    read = left = 0
    for piece in _PIECES.split(text):
        mark = _MARKS.match(piece)
        piece = piece[mark.end() if mark else 0 :].rstrip(" *]:")
        if not piece:
            continue
        inside = dict(_inside(piece))
        if _COMMA in piece:
            inside = {key: value.replace(_COMMA, ",") for key, value in inside.items()}
        found.update(inside)
        read, left = read + len(piece) * bool(inside), left + len(piece) * (not inside)
    return found, read / (read + left) if read else 0.0


def _same(found: re.Match[str]) -> str:
    """Return the number of a list of equal ones, as of learning rates per parameter group."""
    numbers = {found[1], *(part.strip() for part in found[2].split(",")[1:])}
    return found[1] if len(numbers) == 1 else "list"


def _inside(piece: str) -> Iterator[tuple[str, str]]:
    plain = _PLAIN.fullmatch(piece)
    if plain:
        yield plain[1], plain[2]
        return
    one = _PAIR.fullmatch(piece)
    if (
        one
        and len(one["key"].split()) <= _WORDS_OF_A_KEY
        and not re.search(r"\s\d|\d\s", one["key"])
    ):
        yield _named(one)
        return
    several = list(_tight(piece))
    if several:
        yield from several
        return
    words = piece.split()
    if len(words) == 2 or (len(words) % 2 == 0 and len(words) <= 40):
        keys = [key.rstrip(":=") for key in words[::2]]
        values = [value.removesuffix("%") for value in words[1::2]]
        if all(map(_WORD.fullmatch, keys)) and all(map(_FULL.fullmatch, values)):
            yield from map(percent, keys, words[1::2])
            return
    short = 2 < len(words) <= _WORDS_OF_A_KEY and _FULL.fullmatch(words[-1])
    if short and all(map(_WORD.fullmatch, words[:-1])):
        yield " ".join(words[:-1]), words[-1]


def _tight(piece: str) -> Iterator[tuple[str, str]]:
    found, place = [], 0
    while place < len(piece):
        one = _TIGHT.match(piece, place)
        if not one:
            return
        found.append(_named(one))
        place = one.end()
    yield from found


def percent(key: str, value: str) -> tuple[str, str]:
    """Return a key and its number, whose percent sign belongs to the key."""
    bare = value.removesuffix("%").rstrip()
    return (f"{key} (%)", bare) if bare != value and _FULL.fullmatch(bare) else (key, value)


def _named(found: re.Match[str]) -> tuple[str, str]:
    key = found["key"].strip(" *`")
    return (f"{key} ({found['unit']})" if found["unit"] else key), found["value"]


_COVER = 0.6
"""Share of a line that its pairs must make up, by characters."""


def stepped(text: str) -> list[Record]:
    """Read lines such as ``step 10 | loss 0.1 | kl 0.2`` or ``[step 100] loss=0.5, kl=0.1``.

    The step may also be one of the pairs: ``loss=0.5 step=10 kl=0.1``.
    """
    counts, evaluates, place = head(text)
    rest = text[place:] if len(text) <= LONGEST_LINE else ""
    field = _FIELD.search(rest)
    if field:
        evaluates, rest = True, rest[: field.start()] + rest[field.end() :]
    found, share = pairs(rest)
    lowered = {key.lower(): key for key in found}
    for key in ("max_steps", *STEP_KEYS, *EPOCH_KEYS):
        if key in lowered and lowered[key] != key:
            found[key] = found.pop(lowered[key])
        if key in found and _GROUPED.fullmatch(str(found[key])):
            found[key] = str(found[key]).replace(",", "")
    told = bool(counts) or any(key in found for key in STEP_KEYS)
    values = [key for key in found if key not in (*STEP_KEYS, *EPOCH_KEYS)]
    if not told or len(values) < 2 or share < _COVER or not any(map(measured, values)):
        return []
    if evaluates and not any("train" in key.lower() for key in found):
        found = evaluation(found)
    return [{**counts, **found}]


_RECAP = re.compile(
    r"[^A-Za-z0-9]{0,24}(?:best|final|overall)\b[ \w]{0,30}?[ :@(=>\-]{0,4}"
    r"(?=(?:(?:global|train)[ _])?(?:step|iter|iteration|update|epoch|episode)s?\b)",
    re.IGNORECASE,
)


def recap(text: str) -> bool:
    """Say whether a line sums a run up, as ``Best step 12 | loss 0.1 | kl 0.2``: no step of it."""
    found = _RECAP.match(text) if len(text) <= LONGEST_LINE else None
    return found is not None and bool(stepped(text[found.end() :]))


def bare(text: str) -> list[Record]:
    """Read lines of pairs that count nothing; only their repetition makes them metrics."""
    found, share = pairs(text)
    if len(found) < 2 or share < _COVER or not any(map(measured, found)):
        return []
    return [found]


_EVALUATING = re.compile(r"\*{3,} Evaluating .{1,60}, Epoch (\d{1,9})/\d{1,9} \*{3,}")


def evaluating(text: str) -> float | None:
    """Return the epoch of DeepSpeed-Chat's line before an evaluation, or None."""
    found = _EVALUATING.fullmatch(text) if len(text) < 200 else None
    return float(found[1]) if found else None


def evaluated(text: str, epoch: float) -> list[Record]:
    """Read the line of pairs that holds an evaluation's results."""
    found, share = pairs(text)
    if len(found) < 2 or share < _COVER:
        return []
    return [{"epoch": epoch, **{f"eval_{key}": value for key, value in found.items()}}]


@dataclass(frozen=True, slots=True)
class Grammar:
    """A way of writing metrics.

    needs: one of these texts stands in each such line; the cheap question that is asked first.
    tier: how much the form alone proves. Of a log that is written in several ways, the first tier
    that has a few rows is its curve, and the others are told of: 1, a form that only a trainer
    writes; 2, pairs behind a step; 3, a progress bar's own numbers; 4, pairs that merely repeat.
    """

    name: str
    parse: Callable[[str], list[Record]]
    needs: tuple[str, ...]
    tier: int


GRAMMARS = (
    Grammar("verl", verl, ("step:",), 1),
    Grammar("stepped", stepped, (":", "=", "|", " "), 2),
    Grammar("bare", bare, (":", "=", "|", " "), 4),
)


# progress bars


_TITLE = re.compile(r"(?:(?P<title>[^|:%]{1,80}):[ ]*)?[ ]{0,4}\d{1,3}$")
_BAR = re.compile(
    r"%\|[^|]{0,300}\|[ ]*(?P<count>\d{1,15})/(?P<total>\d{1,15})[ ]*\[(?P<rest>[^\[\]]{0,4000})\]"
)
_PREPARES = re.compile(
    r"map|load|token|generat|fetch|download|filter|shard|process|format|extract|adding|sav|cach"
    r"|evaluat|eval|test|valid|warm|rollout|writ|merg|convert|captur|predict|batches|upload",
    re.IGNORECASE,
)
_NTH = re.compile(r"\[\s*(\d{1,9})\s*/\s*\d{1,9}\s*\]|\bepoch[: ]+(\d{1,9})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Bar:
    """One drawing of a progress bar. trains: it may count a training's steps."""

    title: str
    count: int
    total: int
    trains: bool
    values: Record

    @property
    def key(self) -> tuple[str, int]:
        """What tells two bars apart."""
        return self.title, self.total

    @property
    def family(self) -> str:
        """What the bars of several epochs have in common."""
        return _NTH.sub("", self.title).strip()


def bars(text: str) -> tuple[list[Bar], str]:
    """Return the progress bars of a segment, and what is left of the text without them."""
    found: list[Bar] = []
    left, place = [], 0
    while (percent := text.find("%|", place)) >= 0:
        bar = _BAR.match(text, percent)
        title = _TITLE.search(text[max(place, percent - 90) : percent])
        if bar is None or title is None:
            left.append(text[place : percent + 2])
            place = percent + 2
            continue
        left.append(text[place : percent - len(title[0])])
        found.append(_bar((title["title"] or "").strip(), bar))
        place = bar.end()
    left.append(text[place:])
    return found, " ".join(left).strip() if found else text


def _bar(title: str, found: re.Match[str]) -> Bar:
    values: Record = {}
    for field in found["rest"].split(", ")[1:]:
        key, _, value = field.partition("=")
        key, value = percent(key.strip(), value.strip())
        if _FULL.fullmatch(value):
            values[key] = value
    if values:
        nth = _NTH.search(title)
        epoch = {"epoch": int(nth[1] or nth[2])} if nth else {}
        values = {"step": int(found["count"]), **epoch, **values}
    examples = "examples/s" in found["rest"] or "B/s" in found["rest"]
    trains = not _PREPARES.search(title) and not examples
    return Bar(title, int(found["count"]), int(found["total"]), trains, values)


_STEP_OF = re.compile(
    rf"\bstep[ ]?[:#]?[ ]?({_COUNT})[ ]?(?:/|of)[ ]?({_COUNT})|\bstep[ :#]{{1,2}}({_COUNT})\b", re.I
)


def counted(text: str) -> Record | None:
    """Return the step that a line announces: the last, where it counts in several ways."""
    found = list(_STEP_OF.finditer(text)) if len(text) <= 300 else []
    if not found:
        return None
    last = found[-1]
    total: Record = {"max_steps": int(last[2].replace(",", ""))} if last[2] else {}
    return {"step": int((last[1] or last[3]).replace(",", "")), **total}


# tables


_RULE = re.compile(r"[\s|:+\-=\u2500-\u257f]+")
_EDGES = " |\u2502\u2503\u2551"


def cells(text: str) -> list[str] | None:
    """Return the cells of a line of a table, without bold and code marks; None where it is none."""
    text = text.strip()
    if len(text) > LONGEST_LINE or not text or text[0] not in _EDGES or text[-1] not in _EDGES:
        return None
    parts = re.split("[|\u2502\u2503\u2551]", text[1:-1])
    return [part.strip().strip("*`").strip() for part in parts]


def ruled(text: str) -> bool:
    """Say whether a line only draws: the rule of a table, or a frame."""
    return _RULE.fullmatch(text) is not None


_STEP_COLUMNS = frozenset(
    {*STEP_KEYS, "steps", "iter", "iterations", "training step", "train step", "global step"}
)


def columns(names: list[str]) -> list[str] | None:
    """Return a table's columns where one counts steps and another is measured, else None.

    The first column that counts becomes ``step``.
    """
    low = [name.lower() for name in names]
    place = next((place for place, name in enumerate(low) if name in _STEP_COLUMNS), None)
    if place is None or len(names) < 2 or not any(map(measured, names)):
        return None
    return [
        "step" if at == place else "epoch" if item == "epoch" else name
        for at, (item, name) in enumerate(zip(low, names, strict=True))
    ]


def framed(text: str) -> tuple[str, str] | None:
    """Return the key and the number of a framed line of two cells, as rich and PPO scripts draw."""
    parts = cells(text)
    if not parts or len(parts) != 2 or not parts[0]:
        return None
    key, value = percent(*parts)
    return (key, value) if _FULL.fullmatch(value.replace(",", _COMMA)) else None


# banners


_BANNER = re.compile(
    r"[=\-*#\u2550\u2501\u2500]{3,}\s*(?P<inside>[^=\-*#\u2550\u2501\u2500].{0,120}?)\s*[=\-*#\u2550\u2501\u2500]{3,}"
)


def banner(text: str) -> tuple[Record, bool] | None:
    """Return what a line such as ``===== Step: 5, Epoch: 0.10 =====`` counts; pairs may follow.

    Also whether it announces an evaluation.
    """
    found = _BANNER.fullmatch(text.strip()) if len(text) < 400 else None
    if not found:
        return None
    inside = found["inside"]
    if recapped(inside):
        return None
    counts = counting(inside)
    return (counts, tested(inside)) if counts else None


def recapped(text: str) -> bool:
    """Say whether a heading announces what is no step of the curve: the best, or the last."""
    return re.match(r"\W*(?:best|final|overall|summary)\b", text, re.IGNORECASE) is not None


def heading(text: str) -> str | None:
    """Return what a heading below a banner announces: "eval", "train" or "other"; None: is none."""
    text = text.strip()
    found = _BANNER.fullmatch(text) if len(text) < 400 else None
    inside = found["inside"] if found else text
    if not found and (len(text) > 80 or not text.endswith(":") or re.search(r"[\d=|]", text)):
        return None
    if tested(inside):
        return "eval"
    if re.search(r"\btrain", inside, re.IGNORECASE):
        return "train"
    return "other" if found or recapped(inside) else None


_BULLET = re.compile(r"[\s\u2022*\u2192>\-]*")


def followed(text: str) -> Record:
    """Return the pairs of a line under a banner: nothing but pairs, bullets aside."""
    bullet = _BULLET.match(text)
    found, share = pairs(text[bullet.end() :] if bullet else text)
    return found if share > 0.95 else {}


_AVERAGE = re.compile(
    rf"\s*(average reward score|EMA reward score)\s*:\s*({NUMBER})"
    rf"(?:\s*\|\s*(EMA reward score)\s*:\s*({NUMBER}))?\s*",
    re.IGNORECASE,
)


def average(text: str) -> Record:
    """Read DeepSpeed-Chat's reward line, which stands below the line of the step it belongs to."""
    found = _AVERAGE.fullmatch(text) if len(text) < 300 else None
    if not found:
        return {}
    return {
        key: value
        for key, value in zip(found.groups()[::2], found.groups()[1::2], strict=True)
        if key
    }
