"""Events of TensorBoard: the scalars in them, and the arguments of the run.

Field numbers: tensorflow/core/util/event.proto, framework/{summary,tensor,types}.proto, and
tensorboard/plugins/hparams/plugin_data.proto.
"""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from rlhfdoctor.model import Note, Setting
from rlhfdoctor.readers._json import flatten, loads
from rlhfdoctor.readers._protobuf import Value, fields, inner, real, signed, text, varint, written
from rlhfdoctor.readers._scalars import Scalar
from rlhfdoctor.readers._settings import settings_of

_ARGUMENTS = frozenset({"args", "hyperparameters", "hparams", "config"})
"""Tags under which trainers write their arguments as a text: HF's callback, CleanRL and others."""

_LINE = re.compile(r"\|([^|\n]+)\|([^|\n]*)\|")
"""A line of a table in Markdown, as CleanRL writes its arguments."""

_BULKY = {3: "histograms", 4: "pictures", 5: "histograms", 6: "sounds"}
"""Fields of Summary.Value that hold no scalar."""

_TYPES = {1: "f", 2: "d", 3: "i", 4: "B", 5: "h", 6: "b", 9: "q", 14: "H", 17: "H", 19: "e"}
_TYPES |= {22: "I", 23: "Q"}
"""tensorflow's numeric DataTypes as struct packs them."""

_STRING, _BFLOAT, _TWO_BYTES, _UNSIGNED = 7, 14, (14, 19), (4, 17, 22, 23)
"""A text; a bfloat16, the upper half of a float; types of which a tensor lists the bits."""

_FLOATS, _INTEGERS = {5: "f", 6: "d"}, (7, 10, 13, 16, 17)
"""Fields of TensorProto with values outside its tensor_content; bits are among the integers."""


class _Tensor(NamedTuple):
    kind: int
    number: float | None
    texts: list[bytes]


@dataclass(slots=True)
class Rest:
    """What an event file holds besides scalars."""

    notes: list[Note] = field(default_factory=list)
    settings: list[Setting | Note] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    plugins: dict[str, str] = field(default_factory=dict)
    malformed: int = 0


def scalars(items: Iterable[bytes | Note], rest: Rest, name: str) -> Iterator[Scalar]:
    """Yield the scalars of events; whatever else they hold goes to ``rest``.

    Nearly all events of a log differ in time, step and value alone: what stands between step and
    value is looked up, once an event of that shape was read in full.
    """
    shapes: dict[bytes, str] = {}
    known: set[str] = set()
    single = struct.Struct("<f").unpack_from
    double = struct.Struct("<d").unpack_from
    for item in items:
        if isinstance(item, Note):
            rest.notes.append(item)
            continue
        if len(item) > 20 and item[0] == 0x09:
            step, place = 0, 9
            if item[9] == 0x10:
                place, shift = 10, 0
                while place < 20:
                    byte = item[place]
                    place += 1
                    step |= (byte & 0x7F) << shift
                    if byte < 0x80:
                        break
                    shift += 7
            tag = shapes.get(item[place:-4])
            if tag is not None and step < 2**62:
                yield Scalar(step, double(item, 1)[0], tag, single(item, len(item) - 4)[0])
                continue
        try:
            found = list(_event(item, rest, name))
        except ValueError:
            rest.malformed += 1
            continue
        yield from found
        if len(found) == 1 and found[0].tag not in known:
            known.add(found[0].tag)
            shapes[_shape(found[0].tag)] = found[0].tag


def _shape(tag: str) -> bytes:
    """Return what stands between step and value of an event with one ``simple_value``."""
    encoded = tag.encode()
    inside = b"\x0a" + written(len(encoded)) + encoded + b"\x15"
    summary = b"\x0a" + written(len(inside) + 4) + inside
    return b"\x2a" + written(len(summary) + 4) + summary


def _event(event: bytes, rest: Rest, name: str) -> Iterator[Scalar]:
    wall_time, step = 0.0, 0
    summaries = []
    for number, _, value in fields(event):
        if number == 1:
            wall_time = real(value)
        elif number == 2 and isinstance(value, int):
            step = signed(value)
        elif number == 4:
            rest.counts["graphs"] += 1
        elif number == 5:
            summaries.append(inner(value))
    for summary in summaries:
        for number, _, value in fields(summary):
            if number == 1:
                yield from _value(inner(value), step, wall_time, rest, name)


def _value(message: bytes, step: int, wall_time: float, rest: Rest, name: str) -> Iterator[Scalar]:
    """Yield the scalar of one Summary.Value, or count or take what it is instead."""
    held = {number: value for number, _, value in fields(message)}
    tag = text(held.get(1, b""))
    if 9 in held:
        metadata = {number: value for number, _, value in fields(inner(held[9]))}
        plugin = {number: value for number, _, value in fields(inner(metadata.get(1, b"")))}
        rest.plugins[tag] = text(plugin.get(1, b""))
        if rest.plugins[tag] == "hparams":
            rest.settings.extend(settings_of(_hparams(inner(plugin.get(2, b""))), name))
            return
    if 2 in held:
        yield Scalar(step, wall_time, tag, real(held[2]))
    elif 8 in held:
        tensor = _tensor(inner(held[8]))
        if tensor.number is not None and rest.plugins.get(tag, "") in ("", "scalars"):
            yield Scalar(step, wall_time, tag, tensor.number)
        else:
            _other(tensor, tag, rest, name)
    else:
        rest.counts[next((_BULKY[key] for key in held if key in _BULKY), "empty values")] += 1


def _tensor(message: bytes) -> _Tensor:
    kind, size, content = 0, 1, b""
    numbers: list[float] = []
    bits: list[int] = []
    texts: list[bytes] = []
    for number, _, value in fields(message):
        if number == 1 and isinstance(value, int):
            kind = value
        elif number == 2:
            size = _size(inner(value))
        elif number == 4:
            content = inner(value)
        elif number in _FLOATS:
            numbers += _unpacked(inner(value), _FLOATS[number])
        elif number in _INTEGERS:
            bits += _integers(value)
        elif number == 8:
            texts.append(inner(value))
    form = _TYPES.get(kind)
    if form is None or size != 1:
        return _Tensor(kind, None, texts)
    if content:
        numbers = _unpacked(content, form)
    elif kind in _TWO_BYTES:
        numbers = [_unpacked(struct.pack("<H", item & 0xFFFF), form)[0] for item in bits]
    elif bits:
        numbers = [float(item if kind in _UNSIGNED else signed(item)) for item in bits]
    if kind == _BFLOAT:
        numbers = [_unpacked(struct.pack("<I", int(item) << 16), "f")[0] for item in numbers]
    return _Tensor(kind, float(numbers[0]) if len(numbers) == 1 else None, texts)


def _size(shape: bytes) -> int:
    """Return how many numbers a tensor of a shape holds."""
    size = 1
    for number, _, dimension in fields(shape):
        if number == 2:
            held = {key: value for key, _, value in fields(inner(dimension))}
            length = held.get(1, 0)
            size *= length if isinstance(length, int) and length < 2**32 else 0
    return size


def _unpacked(packed: bytes, form: str) -> list[float]:
    """Return the numbers of a packed field. Raises ValueError where the last one is cut."""
    width = struct.calcsize(f"<{form}")
    if len(packed) % width:
        raise ValueError("a number is cut")
    return list(struct.unpack(f"<{len(packed) // width}{form}", packed))


def _integers(value: Value) -> Iterator[int]:
    """Yield the varints of a field, packed or not."""
    if isinstance(value, int):
        yield value
        return
    place = 0
    while place < len(value):
        number, place = varint(value, place)
        yield number


def _other(tensor: _Tensor, tag: str, rest: Rest, name: str) -> None:
    """Take the arguments of the run from a text, and count any other tensor."""
    table: object = None
    if tensor.kind == _STRING and tag.removesuffix("/text_summary") in _ARGUMENTS:
        table = _table(b"\n".join(tensor.texts))
    if isinstance(table, dict):
        rest.settings.extend(settings_of(dict(flatten(table)), name))
    else:
        kind = "texts" if tensor.kind == _STRING else rest.plugins.get(tag) or "tensors"
        rest.counts[kind] += 1


def _table(written: bytes) -> object:
    """Read arguments that were logged as JSON, or as a table in Markdown; None for any other."""
    try:
        return loads(written)
    except ValueError:
        lines = _LINE.findall(written.decode("utf-8", "replace"))
        return {key.strip(): value.strip() for key, value in lines} or None


def _hparams(content: bytes) -> dict[str, object]:
    """Return what HParamsPluginData says of a session's start: name and value of each parameter."""
    found: dict[str, object] = {}
    for number, _, session in fields(content):
        if number != 3:
            continue
        for key, _, entry in fields(inner(session)):
            if key == 1:
                pair = {key: value for key, _, value in fields(inner(entry))}
                for kind, _, value in fields(inner(pair.get(2, b""))):
                    name = text(pair.get(1, b""))
                    if kind == 2:
                        found[name] = real(value)
                    elif kind == 3:
                        found[name] = text(value)
                    elif kind == 4:
                        found[name] = bool(value)
    return found
