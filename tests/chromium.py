"""Drive a headless Chromium over its own pipe: the DevTools protocol, JSON between zero bytes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PROGRAM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser"))), None)

FLAGS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--disable-quic", "--remote-debugging-pipe"),
)


class Tab:
    """One page. events: what the browser told unasked, as (method, parameters)."""

    def __init__(self, to: int, back: int) -> None:
        self._to, self._back, self._rest, self._asked = to, back, b"", 0
        self._session: str | None = None
        self.events: list[tuple[str, dict[str, Any]]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        for domain in ("Page", "Network", "Log", "Runtime"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._asked += 1
        asked: dict[str, Any] = {"id": self._asked, "method": method, "params": parameters}
        if self._session:
            asked["sessionId"] = self._session
        os.write(self._to, json.dumps(asked).encode() + b"\0")
        while True:
            told = self._read()
            if told.get("id") == self._asked:
                assert "error" not in told, told
                result: dict[str, Any] = told["result"]
                return result

    def open(self, page: Path, width: int, scheme: str = "light") -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            **{"width": width, "height": 844, "deviceScaleFactor": 1, "mobile": width < 600},
        )
        preferred = {"name": "prefers-color-scheme", "value": scheme}
        self.call("Emulation.setEmulatedMedia", features=[preferred])
        self.events.clear()
        self.call("Page.navigate", url=page.as_uri())
        while "Page.loadEventFired" not in self.told():
            self._read()

    def told(self) -> list[str]:
        return [method for method, _ in self.events]

    def ask(self, script: str) -> Any:
        found = self.call("Runtime.evaluate", expression=script, returnByValue=True)["result"]
        return found.get("value")

    def _read(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._back, 2**16)
            assert more, "the browser went away"
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\0")
        told: dict[str, Any] = json.loads(line)
        if "id" not in told:
            self.events.append((told["method"], told.get("params", {})))
        return told


@contextmanager
def tab(profile: Path) -> Iterator[Tab]:
    """Start Chromium with an empty profile and give one page of it."""
    assert PROGRAM
    theirs, to = os.pipe()
    back, told = os.pipe()

    def places() -> None:
        os.dup2(theirs, 3)
        os.dup2(told, 4)

    process = subprocess.Popen(
        [PROGRAM, *FLAGS, f"--user-data-dir={profile}"],
        pass_fds=(3, 4),
        preexec_fn=places,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(theirs)
    os.close(told)
    try:
        yield Tab(to, back)
    finally:
        process.kill()
        process.wait()
        os.close(to)
        os.close(back)
