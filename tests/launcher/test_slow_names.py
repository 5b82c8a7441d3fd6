"""A name server that answers late, or never, costs the host that needs it and no other."""

import socket
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import NameNotResolved
from launcher.remote import fanout as fanout_module
from launcher.remote.fanout import fanout
from launcher.transports.base import Endpoint, OpenOptions
from launcher.transports.ssh import dial
from launcher.transports.ssh.connection import SshOpener
from tests.launcher.sshd import Sshd

NEVER, LATE = "never.example", "late.example"


@pytest.fixture(name="answer")
def _answer(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let two names wait for the name server: one until the event, one until the test is over."""
    real, late, over = socket.getaddrinfo, threading.Event(), threading.Event()

    def ask(host: str, *args: Any, **options: Any) -> Any:
        {NEVER: over, LATE: late}.get(host, _AT_ONCE).wait()
        return real("127.0.0.1", *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    yield late
    over.set()


_AT_ONCE = threading.Event()
_AT_ONCE.set()


def test_a_name_without_an_answer_is_told_and_the_others_are_reached(
    tmp_path: Path, answer: threading.Event
) -> None:
    with Sshd.up(tmp_path / "sshd") as sshd:
        opener = SshOpener(OpenOptions())
        base = replace(sshd.endpoint, host_key_alias="127.0.0.1")
        never = replace(base, name="never", address=NEVER, connect_timeout_s=0.3)

        def one(endpoint: Endpoint) -> bytes:
            with opener(endpoint) as opened:
                if endpoint.name == "quick":
                    answer.set()  # only now, so both were under way at once
                return opened.run(("echo", endpoint.name)).stdout

        late = replace(base, name="late", address=LATE)
        results = fanout(one, (never, late, replace(base, name="quick")))
    assert results[1:] == [b"late\n", b"quick\n"]
    assert isinstance(results[0], NameNotResolved)
    assert results[0].detail == "its address 'never.example' was not resolved within 0.3 s"
    assert results[0].fix == "Check the name server, or set `address:` to an IP"


def test_a_silent_name_server_costs_one_time_out_and_few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    over, lock, lookups = threading.Event(), threading.Lock(), [0]

    def ask(*_args: Any, **_options: Any) -> Any:
        with lock:
            lookups[0] += 1
        over.wait()
        raise OSError("too late")

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    monkeypatch.setattr(fanout_module, "_LONG_WAIT_S", 0.01)
    monkeypatch.setattr(dial, "_lookups", dial._Lookups(8))
    names = [Endpoint(f"h{n}", "ssh", f"h{n}.example", connect_timeout_s=0.5) for n in range(60)]
    try:
        results = fanout(SshOpener(OpenOptions()), names, width=16)
    finally:
        over.set()
    assert all(isinstance(result, NameNotResolved) for result in results)
    assert lookups[0] == 8  # the others waited for these, and no longer than they did
