from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from rlhfdoctor.cli import run_cli
from rlhfdoctor.doctor import diagnose
from rlhfdoctor.errors import DoctorError
from rlhfdoctor.masking import MASK
from rlhfdoctor.model import Diagnosis
from rlhfdoctor.notify import LATE, check, host, message, post
from rlhfdoctor.reports._lines import five_lines
from rlhfdoctor.reports.slack import LONGEST
from rlhfdoctor.runs import read_runs
from tests.builders import FIXTURES, write_state

SECRET = "/services/T000/B000/XXXXabcd"


class Hook(BaseHTTPRequestHandler):
    """A web hook that keeps what is posted, and answers as its path says: /500 with a 500."""

    server: Server

    def do_POST(self) -> None:
        length = int(self.headers["Content-Length"])
        self.server.posts.append((self.path, dict(self.headers), self.rfile.read(length)))
        code = int(self.path[1:4]) if self.path[1:4].isdigit() else 200
        self.send_response(code)
        if code == 302:
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_port}/elsewhere")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *_: Any) -> None:
        """Print nothing."""


class Server(ThreadingHTTPServer):
    posts: list[tuple[str, dict[str, str], bytes]]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    made = Server(("127.0.0.1", 0), Hook)
    made.posts = []
    thread = threading.Thread(target=made.serve_forever, daemon=True)
    thread.start()
    yield made
    made.shutdown()
    made.server_close()
    thread.join()


@pytest.fixture(scope="module")
def late() -> Diagnosis:
    return diagnose(read_runs(FIXTURES / "grpo_late")[0])


def posted(server: Server) -> str:
    """Return the text of the one message that the hook got."""
    [(_, headers, body)] = server.posts
    assert headers["Content-Type"] == "application/json"
    document = json.loads(body)
    assert list(document) == ["text"]
    text: str = document["text"]
    return text


def unescaped(text: str) -> list[str]:
    for mark, char in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"), ("```", "")):
        text = text.replace(mark, char)
    return text.strip().splitlines()


def test_diagnose_posts_the_five_lines(
    server: Server, late: Diagnosis, capsys: pytest.CaptureFixture[str]
) -> None:
    where = str(FIXTURES / "grpo_late")
    assert run_cli(["diagnose", where, "--notify-url", server.url + SECRET]) == 0
    assert unescaped(posted(server)) == [line.replace("`", "'") for line in five_lines(late)]
    told = capsys.readouterr()
    assert (told.out.startswith("COLLAPSED"), told.err) == (True, "")


def test_gate_posts_every_run_and_what_could_not_be_judged(
    server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [str(FIXTURES / name) for name in ("grpo_late", "ppo_healthy")]
    code = run_cli(["gate", *names, str(tmp_path / "none"), "--notify-url", server.url])
    assert code == 2
    lines = unescaped(posted(server))
    assert lines[0].startswith("COLLAPSED")
    assert any(line.startswith("HEALTHY") for line in lines)
    assert str(tmp_path / "none") in lines[-1]
    assert "warning" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("path", "says"),
    [
        ("/500", "it answered 500"),
        ("/404", "it answered 404"),
        ("/302", "it answered 302, and redirects are not followed"),
    ],
)
def test_a_hook_that_refuses_changes_nothing_but_a_warning(
    server: Server, path: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["gate", str(FIXTURES / "grpo_late")]
    assert run_cli(command) == 1
    without = capsys.readouterr()
    assert run_cli([*command, "--notify-url", server.url + path + SECRET]) == 1
    told = capsys.readouterr()
    assert told.out == without.out
    assert told.err == f"warning: could not post to 127.0.0.1: {says}\n"
    assert len(server.posts) == 1


def test_a_dead_port_changes_nothing_but_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
        url = f"http://127.0.0.1:{port}{SECRET}"
        assert run_cli(["diagnose", str(FIXTURES / "ppo_healthy"), "--notify-url", url]) == 0
    err = capsys.readouterr().err
    assert err == "warning: could not post to 127.0.0.1: Connection refused\n"
    assert "services" not in err


def test_a_server_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert post(f"http://127.0.0.1:{port}/", "x", timeout=0.2) == LATE


def test_a_server_that_drips_its_answer_is_given_up() -> None:
    stop = threading.Event()

    def drip(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\n")
            while not stop.wait(0.05):
                connection.sendall(b"X-A: b\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip, args=(listening,), daemon=True)
        thread.start()
        try:
            assert post(f"http://127.0.0.1:{listening.getsockname()[1]}/", "x", 0.3) == LATE
        finally:
            stop.set()
            thread.join()


def test_an_unknown_host_and_a_wrong_answer_are_told_without_the_address() -> None:
    def garble(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(4096)
            connection.sendall(b"\x1b[31m/services/T000\r\n\r\n")
            time.sleep(0.1)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=garble, args=(listening,), daemon=True)
        thread.start()
        why = post(f"http://127.0.0.1:{listening.getsockname()[1]}{SECRET}", "x", 5.0)
        thread.join()
    assert why == "BadStatusLine"


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "ftp://example.org/x",
        "hooks.slack.com/services/x",
        "https://",
        "https://user:pass@example.org/x",
        "http://[::1",
        "http://example.org:0/x",
        "http://example.org:99999/x",
        "http://example.org/a b",
        "http://example.org/\r\nX: y",
        "http://ex\u00e4mple.org/x",
        "",
    ],
)
def test_what_is_no_address_of_a_hook_is_refused_before_any_work(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(DoctorError):
        check(url)
    assert run_cli(["diagnose", "no such run", "--notify-url", url]) == 2
    assert capsys.readouterr().err == (
        "error: --notify-url: expected the http or https address of a web hook\n"
        "hint: --notify-url https://hooks.slack.com/services/...\n"
    )


@pytest.mark.parametrize("url", ["https://hooks.slack.com/services/x", "http://[::1]:8080/x"])
def test_an_address_of_a_hook_is_taken(url: str) -> None:
    check(url)
    assert host(url) in ("hooks.slack.com", "::1")


def test_a_run_cannot_mention_link_or_format(tmp_path: Path) -> None:
    name = "<!channel> <https:||x.example|click> `code` & *bold*"
    rows = [{"step": step, "loss": 0.5} for step in range(1, 4)]
    folder = write_state(tmp_path / name, rows).parent
    text = message([diagnose(read_runs(folder)[0])])
    assert "<" not in text
    assert ">" not in text
    assert text.startswith("```\n")
    assert text.endswith("\n```")
    assert text.count("`") == 6
    assert "&lt;!channel&gt;" in text


def test_secrets_are_masked_before_they_are_cut(late: Diagnosis) -> None:
    secret = "hf_" + "a1" * 20
    named = replace(late, run=replace(late.run, name=secret), headline=f"token={secret} " * 90)
    text = message([named])
    assert secret[:8] not in text
    assert MASK in text
    assert len(text) <= LONGEST


def test_a_long_message_is_cut_between_characters(late: Diagnosis) -> None:
    for shift in range(6):
        text = message([replace(late, headline="x" * shift + "<" * 5000)])
        assert len(text) <= LONGEST
        assert text.endswith("&lt;...\n```")
