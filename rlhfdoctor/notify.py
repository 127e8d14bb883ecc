"""Tell a chat: the five lines of each run, posted to a web hook that the user names.

The body is what Slack's incoming hooks take, and those that are compatible (Mattermost, Discord's
``/slack`` address). Posting is a courtesy: it is tried once, it follows no redirect, it waits a few
seconds, and whatever happens the command's exit code is the diagnosis's. The address is itself a
secret, so that nothing but its host is ever shown. ``HTTPS_PROXY`` and its kin are obeyed, as by
every tool in the network that set them.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.parse import SplitResult, urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from rlhfdoctor import __version__
from rlhfdoctor.errors import DoctorError
from rlhfdoctor.model import Diagnosis
from rlhfdoctor.reports._lines import five_lines, shown
from rlhfdoctor.reports.slack import LONGEST, code_block

TIMEOUT = 5.0
"""Seconds until a post is given up, from the look-up of the host to the last byte [H]."""

LATE = "no answer in time"


def check(url: str) -> None:
    """Refuse what is no address of a web hook, without showing it. Raises DoctorError."""
    try:
        parts = urlsplit(url)
        sound = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        sound = sound and "@" not in parts.netloc and url.isascii()
    except ValueError:
        sound = False
    if not sound or any(ord(char) <= 32 or ord(char) == 127 for char in url):
        raise DoctorError(
            "--notify-url: expected the http or https address of a web hook",
            "--notify-url https://hooks.slack.com/services/...",
        )


def host(url: str) -> str:
    """Return the one part of an address that may be shown."""
    parts: SplitResult = urlsplit(url)
    return shown(parts.hostname or "")


def message(diagnoses: Sequence[Diagnosis], failed: Sequence[str] = ()) -> str:
    """Return the five lines of each run as one block of code, in which nothing is a mark or a link.

    failed: a line for each run that could not be judged. What is longer than Slack takes is cut.
    """
    runs = [*(five_lines(diagnosis) for diagnosis in diagnoses), *([line] for line in failed)]
    return code_block([line for lines in runs for line in ("", *lines)][1:], LONGEST)


def post(url: str, text: str, timeout: float = TIMEOUT) -> str | None:
    """Post a message; return why it failed, or None where the hook took it.

    A thread does it: neither the look-up of a host nor a server that drips its answer heeds a
    timeout of its own. One that is still waiting ends with the program.
    """
    told: list[str | None] = []
    thread = threading.Thread(
        target=lambda: told.append(_posted(url, text, timeout)), daemon=True, name="notify"
    )
    thread.start()
    thread.join(timeout)
    return told[0] if told else LATE


class _NoRedirect(HTTPRedirectHandler):
    """Let a redirect be the failure that it is: the message goes to the named host only."""

    def redirect_request(self, *_: Any) -> None:
        """Follow none."""


def _posted(url: str, text: str, timeout: float) -> str | None:
    request = Request(
        url,
        data=json.dumps({"text": text}).encode(),
        headers={"Content-Type": "application/json", "User-Agent": f"rlhfdoctor/{__version__}"},
        method="POST",
    )
    try:
        with build_opener(_NoRedirect).open(request, timeout=timeout):
            return None
    except HTTPError as error:
        error.close()
        redirected = ", and redirects are not followed" if 300 <= error.code < 400 else ""
        return f"it answered {error.code}{redirected}"
    except URLError as error:
        reason = error.reason
        return _why(reason if isinstance(reason, BaseException) else error)
    except (OSError, HTTPException, ValueError) as error:
        return _why(error)


def _why(error: BaseException) -> str:
    """Return what went wrong, in words that cannot hold the address."""
    if isinstance(error, TimeoutError):
        return LATE
    told = error.strerror if isinstance(error, OSError) else None
    return shown(told) if told else type(error).__name__
