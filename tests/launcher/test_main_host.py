"""The main host of many: shards wait for it while it works on its answer, and not where it is silent."""

import threading
from collections.abc import Iterator
from typing import cast

import pytest

from launcher.config.inventory import HostEntry
from launcher.errors import ConnectionLost
from launcher.host_checks.collection import _MainHost
from launcher.remote.agent import AgentRequest
from launcher.transports.base import Closing, Connection, Stream

MAIN = HostEntry("main")


class SlowHost(Closing):
    """A host that starts no agent until it is allowed to."""

    name = MAIN.name

    def __init__(self, go: threading.Event) -> None:
        self._go = go

    def start(self, _: object) -> Stream:
        self._go.wait()
        raise ConnectionLost(self.name, "gone")

    def close(self) -> None:
        pass


@pytest.fixture
def go() -> Iterator[threading.Event]:
    event = threading.Event()
    yield event
    event.set()


def ask(opener: object) -> _MainHost:
    return _MainHost(MAIN, lambda entry: AgentRequest(entry.name), opener, None, None)  # type: ignore[arg-type]


def test_a_main_host_that_is_connected_is_waited_for(go: threading.Event) -> None:
    main = ask(lambda _: cast("Connection", SlowHost(go)))
    waited = threading.Event()

    def wait() -> None:
        main.wait(0.05, 60.0)
        waited.set()

    threading.Thread(target=wait, daemon=True).start()
    assert not waited.wait(0.5)
    go.set()
    assert waited.wait(30.0)
    assert list(main.result().errors) == [MAIN.name]


def test_a_main_host_that_does_not_answer_for_long_is_not(go: threading.Event) -> None:
    main = ask(lambda _: cast("Connection", SlowHost(go)))
    main.wait(0.05, 0.05)
    assert main.facts is None


def test_a_silent_main_host_is_not_waited_for(go: threading.Event) -> None:
    main = ask(lambda _: go.wait())
    main.wait(0.05, 3600.0)
    assert main.facts is None
