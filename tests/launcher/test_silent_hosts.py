"""Hosts that accept a connection and then are silent: one time-out for all, and no place of others."""

import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import paramiko
import pytest

from bench.mute_hosts import STAGES, MuteHosts
from launcher.config.inventory import HostEntry, Inventory
from launcher.errors import HostError
from launcher.local import fanout_places
from launcher.remote import fanout as module
from launcher.remote.fanout import fanout
from launcher.runs.search import search_all
from launcher.top.fleet import Fleet
from launcher.transports import open_endpoint
from launcher.transports.base import Connection, Endpoint, OpenOptions
from launcher.transports.ssh.connection import SshOpener
from launcher.transports.ssh.endpoint import build_opener
from tests.lab import needs
from tests.launcher.sshd import Sshd, keygen


@pytest.fixture(autouse=True)
def _descriptors() -> None:
    """Both ends of each connection are this process's, and the reserve for what is no host is 256."""
    needs.require_descriptors(600)


class Silent:
    """A port that accepts and says nothing more, until it has accepted `most`: then it hangs up on all."""

    def __init__(self, most: int, greeting: bytes) -> None:
        self.accepted = 0
        self._most = most
        self._greeting = greeting
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.port = int(self._listener.getsockname()[1])

    @classmethod
    @contextmanager
    def up(cls, most: int, greeting: bytes = b"") -> Iterator["Silent"]:
        silent = cls(most, greeting)
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
                held[-1].sendall(self._greeting)
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


@pytest.mark.parametrize(
    ("greeting", "detail"),
    [
        (b"", "does not speak SSH, or hung up at once"),
        (b"SSH-2.0-OpenSSH_9.6\r\n", "the SSH handshake failed"),
    ],
    ids=["from the start", "after the banner"],
)
def test_silent_hosts_wait_at_the_same_time_whatever_the_width(
    greeting: bytes, detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fanout_places, "PATIENCE_S", 0.01)
    with Silent.up(30, greeting) as silent:
        hosts = [
            Endpoint(f"h{n}", "ssh", "127.0.0.1", silent.port, connect_timeout_s=60.0) for n in range(30)
        ]
        said = details(hosts, width=3)
    assert all(detail in each for each in said)
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


@pytest.mark.parametrize("stage", ["keys", "login", "session"])
def test_hosts_behind_a_jump_host_share_its_connection_and_its_time_out_at_any_stage(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fanout_places, "PATIENCE_S", 0.02)
    key = paramiko.Ed25519Key.from_private_key_file(str(keygen(tmp_path / "key", "ed25519")))
    with MuteHosts.up(stage, key) as mute:
        jump = Endpoint(
            "bastion",
            "ssh",
            "127.0.0.1",
            mute.port,
            identity_files=(str(tmp_path / "key"),),
            known_hosts_files=(str(tmp_path / "known"),),
            identity_agent="none",
            new_host_keys="accept",
            connect_timeout_s=1.0,
        )
        hosts = [
            Endpoint(f"h{n}", "ssh", f"10.0.0.{n}", jumps=(jump,), connect_timeout_s=1.0) for n in range(12)
        ]
        said = details(hosts, width=2)
    assert mute.accepted == 1
    assert len({detail.replace(f"10.0.0.{n}", "IP") for n, detail in enumerate(said)}) == 1


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


def asked(endpoints: list[Endpoint], width: int) -> tuple[list[str], int]:
    """Open each as a preflight of many hosts does; return what was said of each.

    And the most threads, looked for as each is tried for the first time: all before it are waited for then.
    """
    before, most, tried = threading.active_count(), [0], set[str]()

    def one(endpoint: Endpoint) -> str:
        if endpoint.name not in tried:
            tried.add(endpoint.name)
            most[0] = max(most[0], threading.active_count() - before)
        with open_endpoint(endpoint, OpenOptions()) as opened:
            return opened.run(("echo", endpoint.name)).stdout.decode()

    results = fanout(one, endpoints, width=width, reopens=True)
    return [result.detail if isinstance(result, HostError) else str(result) for result in results], most[0]


def test_silent_hosts_cost_one_time_out_and_few_threads_for_any_number(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fanout_places, "PATIENCE_S", 0.02)
    needs.require_descriptors(1100)
    with Silent.up(400) as silent:
        hosts = [
            Endpoint(f"h{n}", "ssh", "127.0.0.1", silent.port, connect_timeout_s=60.0) for n in range(400)
        ]
        said, threads = asked(hosts, width=4)
    assert silent.accepted == 400  # the last came while all others were waiting
    assert {each.partition(" of ")[2] for each in said} == {
        "127.0.0.1 does not speak SSH, or hung up at once"
    }
    assert threads <= 4 + 1  # and the one that dials


@contextmanager
def saying(*said: bytes, hangs_up: bool = False) -> Iterator[int]:
    """A port that says the parts one by one to each caller, and hangs up when the caller does, or at once."""

    def talk(connection: socket.socket) -> None:
        with connection, suppress(OSError):
            for part in said:
                connection.sendall(part)
                time.sleep(0.01)
            while not hangs_up and connection.recv(4096):
                pass

    def serve() -> None:
        with suppress(OSError):
            while True:
                threading.Thread(target=talk, args=(listener.accept()[0],), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield int(listener.getsockname()[1])
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def test_hosts_of_every_kind_are_said_the_same_of_whether_their_waits_take_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fanout_places, "PATIENCE_S", 0.02)
    with (
        Sshd.up(tmp_path / "sshd") as sshd,
        Silent.up(99) as silent,
        saying(hangs_up=True) as hangs_up,
        saying(b"220 mail ", b"ready\r\n") as mail,
        saying(b"HTTP/1.0 400 Bad Request\r\n\r\n", hangs_up=True) as web,
        saying(b"x" * 5000) as flood,
        saying(b"hello\r\nSS", b"H-2.0-Odd_1\r\n") as unfinished,
        saying(b"SSH-2.0-Ha") as half,
        socket.socket() as closed,
    ):
        closed.bind(("127.0.0.1", 0))
        good = sshd.under_alias()
        stranger = replace(good, name="stranger", known_hosts_files=(str(tmp_path / "none"),))

        def bad(name: str, port: int, address: str = "127.0.0.1") -> Endpoint:
            return Endpoint(name, "ssh", address, port, connect_timeout_s=1.5)

        hosts = [
            bad("silent", silent.port),
            bad("refuses", int(closed.getsockname()[1])),
            bad("no way", 22, "255.255.255.255"),
            bad("no name", 22, "no-such-host.invalid"),
            bad("hangs up", hangs_up),
            bad("mail", mail),
            bad("web", web),
            bad("flood", flood),
            bad("unfinished", unfinished),
            bad("half", half),
            stranger,
            replace(good, name="good"),
            replace(good, name="by name", address="localhost"),
        ]
        apart, _ = asked(hosts, width=len(hosts))
        together, _ = asked(hosts, width=2)
    assert together == apart
    by_name = {host.name: text for host, text in zip(hosts, together, strict=True)}
    for name in ("silent", "mail", "flood", "half"):
        assert "sent no SSH banner within 1.5 s" in by_name[name], name
    assert "refused the connection: nothing listens" in by_name["refuses"]
    assert "no way to 255.255.255.255 port 22" in by_name["no way"]
    assert "does not resolve" in by_name["no name"]
    for name in ("hangs up", "web"):
        assert "does not speak SSH, or hung up at once" in by_name[name], name
    assert "did not finish the SSH handshake within 1.5 s" in by_name["unfinished"]
    assert "host key" in by_name["stranger"]
    assert (by_name["good"], by_name["by name"]) == ("good\n", "by name\n")


def test_the_addresses_of_a_name_are_tried_in_turn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Sshd.up(tmp_path / "sshd") as sshd, socket.socket() as closed:
        closed.bind(("127.0.0.2", 0))
        port = sshd.endpoint.port

        def resolve(*_args: object, **_options: object) -> object:
            addresses = ((socket.AF_INET6, ("::1", port, 0, 0)), (socket.AF_INET, ("127.0.0.1", port)))
            return [(family, socket.SOCK_STREAM, 6, "", address) for family, address in addresses]

        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        named = replace(sshd.under_alias(), address="two.example")
        said, _ = asked([replace(named, name=f"h{n}") for n in range(3)], width=1)
    assert said == ["h0\n", "h1\n", "h2\n"]


@pytest.mark.parametrize("stage", STAGES)
def test_hosts_that_go_silent_at_any_stage_delay_no_host_that_answers(
    stage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fanout_places, "PATIENCE_S", 0.02)
    order: list[str] = []
    with (
        Sshd.up(tmp_path / "sshd") as sshd,
        MuteHosts.up(stage, paramiko.Ed25519Key(filename=str(sshd.folder / "host_ed25519"))) as mute,
    ):
        good = sshd.under_alias()
        stalled = replace(good, port=mute.port, new_host_keys="accept", connect_timeout_s=20.0)
        hosts = [replace(stalled, name=f"s{n}") for n in range(12)]
        hosts += [replace(good, name=f"g{n}") for n in range(20)]

        def one(endpoint: Endpoint) -> str:
            with open_endpoint(endpoint, OpenOptions()) as opened:
                return opened.run(("echo", endpoint.name), timeout_s=20.0).stdout.decode().strip()

        def note(endpoint: Endpoint, result: object) -> None:
            order.append(result if isinstance(result, str) else "failed")
            if len(order) == 20:
                mute.hang_up()

        fanout(one, hosts, width=4, reopens=True, on_done=note)
        assert mute.accepted == 12
    assert sorted(order[:20]) == sorted(f"g{n}" for n in range(20))
    assert order[20:] == ["failed"] * 12


WITHOUT_DESCRIPTORS = """
import resource, sys
from launcher.config.inventory import HostEntry, Inventory
from launcher.errors import HostError
from launcher.remote.fanout import fanout
from launcher.transports import import_ssh, open_endpoint
from launcher.transports.base import Endpoint, OpenOptions
import launcher.transports.ssh.parallel_dial
import_ssh()
resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))
hosts = [Endpoint(f"h{n}", "ssh", "127.0.0.1", int(sys.argv[1]), connect_timeout_s=0.1) for n in range(150)]
results = fanout(lambda host: open_endpoint(host, OpenOptions()), hosts, width=60, reopens=True)
print({type(each).__name__ for each in results}, len(results))
"""


def test_hosts_that_wait_without_a_thread_wait_their_turn_where_descriptors_run_out() -> None:
    with Silent.up(10_000) as silent:
        argv = [sys.executable, "-c", WITHOUT_DESCRIPTORS, str(silent.port)]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("{'ConnectionTimedOut'} 150\n", "")


def _list_runs(entries: list[HostEntry], opener: Callable[[HostEntry], Connection]) -> list[str]:
    return [error.detail for error in search_all(entries, opener, width=4).errors.values()]


def _read_once(entries: list[HostEntry], opener: Callable[[HostEntry], Connection]) -> list[str]:
    fleet = Fleet(entries, opener, width=4, every_s=1.0)
    fleet.collect_once()
    return [
        error.detail for entry in entries if isinstance(error := fleet.state(entry.name).error, HostError)
    ]


@pytest.mark.parametrize("ask", [_list_runs, _read_once])
def test_runs_and_gpus_of_silent_hosts_are_asked_for_without_threads(
    ask: Callable[[list[HostEntry], Callable[[HostEntry], Connection]], list[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fanout_places, "PATIENCE_S", 0.02)
    monkeypatch.setattr(module, "MOST_WAITS", 0)
    with Silent.up(60) as silent:
        entries = [HostEntry(f"h{n}", address="127.0.0.1", port=silent.port) for n in range(60)]
        said = ask(entries, build_opener(Inventory(), OpenOptions(), Path("/dev/null")))
    assert silent.accepted == 60  # by four threads: all were waited for together
    assert ["hung up at once" in each for each in said] == [True] * 60
