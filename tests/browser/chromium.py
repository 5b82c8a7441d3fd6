"""Headless Chromium, driven over two pipes by the DevTools protocol: no driver program, no packages.

Source: `--remote-debugging-pipe` reads JSON from descriptor 3 and writes it to 4, a NUL after each message.
"""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
_FLAGS = (
    "--headless",
    "--no-sandbox",  # root, and containers without user namespaces; only our own page is opened
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND",  # nothing leaves the machine
    "--remote-debugging-pipe",
)
_DEADLINE_S = 60.0
# Popen cannot give a child a descriptor under another number; both are copied first, for one may be 3 or 4.
_MOVE = """
import fcntl, os, sys
ways = [fcntl.fcntl(int(word), fcntl.F_DUPFD, 10) for word in sys.argv[1:3]]
os.dup2(ways[0], 3)
os.dup2(ways[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def find_chromium() -> str | None:
    """Return the path of a Chromium, None where none is installed."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Page:
    """One tab; `complaints` are what the console and the log said, `requests` what the page asked for."""

    def __init__(self, into: int, out: int) -> None:
        self._into, self._out = into, out
        self._buffer = b""
        self._number = 0
        self._session = ""
        self._loaded = False
        self.complaints: list[str] = []
        self.requests: list[str] = []

    def attach(self) -> None:
        """Open the tab."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def open(self, path: Path) -> None:
        """Load a file and wait until it is complete."""
        self._loaded = False
        self.complaints.clear()
        self.requests.clear()
        self.call("Page.navigate", url=path.as_uri())
        while not self._loaded:
            self._take()

    def show(self, width: int, *, height: int = 800, dark: bool = False, medium: str = "") -> None:
        """Set the size of the window in CSS pixels, the colour scheme and the medium ("print")."""
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=medium, features=[scheme])

    def evaluate(self, expression: str) -> Any:
        """Return the value of a JavaScript expression. Raises AssertionError when it throws."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def click(self, x: float, y: float) -> None:
        """Click at a place in the window, as a hand does."""
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def screenshot(self, *, width: int, height: int) -> bytes:
        """Return the top of the page as PNG."""
        clip = {"x": 0, "y": 0, "width": width, "height": height, "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", clip=clip, captureBeyondViewport=True)
        return base64.b64decode(shot["data"])

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask the browser and return its answer."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._into, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._take()
            if answer.get("id") == self._number:
                assert "error" not in answer, (method, answer["error"])
                result: dict[str, Any] = answer["result"]
                return result

    def _take(self) -> dict[str, Any]:
        """Return the next message, noted when it is an event."""
        deadline = time.monotonic() + _DEADLINE_S
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._out], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._out, 1 << 20) if ready else b""
            assert data, "Chromium has ended" if ready else f"Chromium said nothing for {_DEADLINE_S:g} s"
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        self._note(message.get("method", ""), message.get("params", {}))
        return message

    def _note(self, event: str, params: Mapping[str, Any]) -> None:
        if event == "Page.loadEventFired":
            self._loaded = True
        elif event == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
        elif event == "Log.entryAdded":
            self.complaints.append(params["entry"]["text"])
        elif event == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(params["exceptionDetails"]))
        elif event == "Runtime.consoleAPICalled":
            self.complaints.append(json.dumps(params["args"]))


@contextmanager
def chromium_page(program: str) -> Iterator[Page]:
    """Start a browser with an empty profile and give its one tab; it is gone at the end."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        to_browser, ours_into = os.pipe()
        ours_out, from_browser = os.pipe()
        try:
            argv = [program, *_FLAGS, f"--user-data-dir={profile}"]
            browser = subprocess.Popen(
                [sys.executable, "-c", _MOVE, str(to_browser), str(from_browser), *argv],
                pass_fds=(to_browser, from_browser),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "HOME": profile},
                start_new_session=True,
            )
        finally:
            os.close(to_browser)
            os.close(from_browser)
        try:
            page = Page(ours_into, ours_out)
            page.attach()
            yield page
            page._session = ""
            with suppress(AssertionError, OSError):
                page.call("Browser.close")
            browser.wait(10)
        finally:
            os.close(ours_into)
            os.close(ours_out)
            with suppress(ProcessLookupError):
                os.killpg(browser.pid, 9)
            browser.wait()
