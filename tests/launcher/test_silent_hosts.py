"""Hosts that accept a connection and say nothing: one time-out for all together, and no place of others."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from launcher.errors import HostError
from launcher.remote import fanout as module
from launcher.remote.fanout import fanout
from launcher.transports.base import Endpoint, OpenOptions
from launcher.transports.ssh.connection import SshOpener


class Silent:
    """A port that accepts and says nothing, until it has accepted `most`: then it hangs up on all."""

    def __init__(self, most: int) -> None:
        self.accepted = 0
        self._most = most
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = int(self._listener.getsockname()[1])

    @classmethod
    @contextmanager
    def up(cls, most: int) -> Iterator["Silent"]:
        silent = cls(most)
        thread = threading.Thread(target=silent._accept, daemon=True)
        thread.start()
        try:
            yield silent
        finally:
            silent._listener.shutdown(socket.SHUT_RDWR)
            silent._listener.close()
            thread.join()

    def _accept(self) -> None:
        held = []
        try:
            while True:
                held.append(self._listener.accept()[0])
                self.accepted += 1
                if self.accepted == self._most:
                    while held:
                        held.pop().close()
        except OSError:
            pass
        for connection in held:
            connection.close()


def details(endpoints: list[Endpoint], width: int) -> list[str]:
    opener = SshOpener(OpenOptions())

    def one(endpoint: Endpoint) -> str:
        with pytest.raises(HostError) as caught:
            opener(endpoint)
        return caught.value.detail

    return [str(result) for result in fanout(one, endpoints, width=width)]


def test_silent_hosts_wait_at_the_same_time_whatever_the_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LONG_WAIT_S", 0.01)
    with Silent.up(30) as silent:
        hosts = [
            Endpoint(f"h{n}", "ssh", "127.0.0.1", silent.port, connect_timeout_s=60.0) for n in range(30)
        ]
        said = details(hosts, width=3)
    assert all("does not speak SSH, or hung up at once" in each for each in said)
    assert silent.accepted == 30  # the last came while the first three were waiting


def test_hosts_behind_a_silent_jump_host_share_its_one_time_out() -> None:
    with Silent.up(99) as silent:
        jump = Endpoint("bastion", "ssh", "127.0.0.1", silent.port, connect_timeout_s=0.2)
        hosts = [Endpoint(f"h{n}", "ssh", f"10.0.0.{n}", jumps=(jump,)) for n in range(12)]
        said = details(hosts, width=2)
    assert set(said) == {
        f"jump host bastion: port {silent.port} accepted the connection but sent no SSH banner within 0.2 s"
    }
    assert silent.accepted == 1


def test_a_port_that_sends_without_end_is_no_ssh_server_and_costs_little_memory() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        sent = [0]

        def flood() -> None:
            connection, _ = listener.accept()
            with connection:
                try:
                    while True:
                        sent[0] += connection.send(b"x" * 65536)
                except OSError:
                    return

        thread = threading.Thread(target=flood, daemon=True)
        thread.start()
        endpoint = Endpoint("h", "ssh", "127.0.0.1", int(listener.getsockname()[1]), connect_timeout_s=20.0)
        (said,) = details([endpoint], width=1)
        thread.join()
    assert "does not speak SSH" in said
    assert sent[0] < 64 << 20


def test_a_host_that_hangs_up_after_its_banner_is_named_with_what_happened() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def greet() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
                connection.recv(4096)

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        endpoint = Endpoint("h", "ssh", "127.0.0.1", int(listener.getsockname()[1]), connect_timeout_s=20.0)
        (said,) = details([endpoint], width=1)
        thread.join()
    reason = said.removeprefix("the SSH handshake failed: ")
    assert said != reason
    assert reason.strip()
