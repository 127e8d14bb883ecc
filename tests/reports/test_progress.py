import io
import re
import sys

import pytest

from rlhfdoctor.reports import _progress
from rlhfdoctor.reports._progress import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def watching(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A person at a terminal who sees every call."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(_progress, "OFTEN", 0.0)
    return stream


def drawn(stream: io.StringIO) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())


def test_a_pipe_sees_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress("bytes") as advance:
        advance("samples.jsonl", 100, 100)
    assert stream.getvalue() == ""


def test_progress_survives_a_closed_standard_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with progress("bytes") as advance:
        advance("x", 1, 2)


def test_a_person_sees_share_rate_and_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = watching(monkeypatch)
    with progress("bytes") as advance:
        for done in (10**6, 5 * 10**6, 10**7):
            advance("check\x1b[31mpoint", done, 10**7)
    assert "50%" in drawn(watched)
    assert "100%" in drawn(watched)
    assert " MB/s" in drawn(watched)
    assert "check\x1b[31mpoint" not in watched.getvalue()
    assert r"check\x1b[31mpoint" in watched.getvalue()


def test_of_an_unknown_total_the_amount_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = watching(monkeypatch)
    with progress("bytes") as advance:
        for done in (10**6, 25 * 10**5):
            advance("standard input", done, 0)
    assert "2.5 MB" in drawn(watched)
    assert "%" not in drawn(watched)


def test_a_second_pass_begins_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = watching(monkeypatch)
    with progress("bytes") as advance:
        for what in ("counting", "candidates"):
            for done in (25, 100):
                advance(what, done, 100)
    text = drawn(watched)
    assert re.search("counting.*100%.*candidates.*25%.*candidates.*100%", text, re.DOTALL)


def test_of_many_calls_few_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    watched = watching(monkeypatch)
    monkeypatch.setattr(_progress, "OFTEN", 0.1)
    with progress("samples") as advance:
        for done in range(1000):
            advance("samples.jsonl", done, 10_000)
    assert drawn(watched).count("samples.jsonl") < 50
