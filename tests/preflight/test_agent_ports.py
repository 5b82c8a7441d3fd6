"""Every state that a port can be in, with real sockets, against what torch's bind would do."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack

import psutil
import pytest

from preflight.facts.host import Ports
from preflight.facts.missing import Missing
from preflight.probes.ports import bind_error, free_ports
from preflight.probes.request import read_request
from preflight.probes.sockets import list_sockets_on, unpack_address
from tests.lab import needs
from tests.preflight.agent_runs import run_agent

pytestmark = pytest.mark.slow


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as held:
        yield held


def _tcp(stack: ExitStack, family: int = socket.AF_INET) -> socket.socket:
    return stack.enter_context(socket.socket(family, socket.SOCK_STREAM))


def _listen(stack: ExitStack, address: str = "0.0.0.0", port: int = 0) -> tuple[socket.socket, int]:
    if ":" in address:
        needs.require_ipv6()
    server = _tcp(stack, socket.AF_INET6 if ":" in address else socket.AF_INET)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind((address, port))
    server.listen(5)
    return server, server.getsockname()[1]


def _ports(*probed: int, free: int = 0, seed: str = "") -> Ports:
    ports = run_agent({"ports": probed, "free_ports": free, "seed": seed}).facts.ports
    assert not isinstance(ports, Missing)
    return ports


def _only_bind(ports: Ports) -> bool:
    (bind,) = ports.binds
    assert bind.ok == (bind.error == "")
    return bind.ok


def test_a_free_port_can_be_bound(stack: ExitStack) -> None:
    server, port = _listen(stack)
    server.close()
    ports = _ports(port)
    assert _only_bind(ports)
    assert ports.sockets == ()


@pytest.mark.parametrize("address", ["0.0.0.0", "127.0.0.1", "::", "::1"])
def test_a_listener_is_named_with_its_holder(stack: ExitStack, address: str) -> None:
    _, port = _listen(stack, address)
    ports = _ports(port)
    assert not _only_bind(ports)
    # another process may hold the same number of another address
    (found,) = (each for each in ports.sockets if each.address == address)
    assert (found.state, found.pids, found.uid) == ("LISTEN", (os.getpid(),), os.getuid())


def test_a_bound_socket_that_does_not_listen_stops_a_bind(stack: ExitStack) -> None:
    held = _tcp(stack)
    held.bind(("0.0.0.0", 0))
    port = held.getsockname()[1]
    ports = _ports(port)
    assert not _only_bind(ports)
    release = tuple(int(part) for part in os.uname().release.split(".")[:2])
    if release >= (6, 8):
        (found,) = ports.sockets
        assert (found.state, found.pids) == ("BOUND", (os.getpid(),))


def test_time_wait_does_not_stop_a_bind(stack: ExitStack) -> None:
    server, port = _listen(stack, "127.0.0.1")
    client = _tcp(stack)
    client.connect(("127.0.0.1", port))
    accepted, _ = server.accept()
    accepted.close()  # the side that closes first waits
    assert client.recv(1) == b""
    client.close()
    server.close()
    ports = _ports(port)
    assert _only_bind(ports)
    assert {found.state for found in ports.sockets} == {"TIME_WAIT"}
    assert {found.pids for found in ports.sockets} == {()}


def test_the_source_port_of_an_outgoing_connection_stops_a_bind(stack: ExitStack) -> None:
    server, _ = _listen(stack, "127.0.0.1")
    client = _tcp(stack)
    client.connect(server.getsockname())
    accepted, _ = server.accept()
    stack.enter_context(accepted)
    ports = _ports(client.getsockname()[1])
    assert not _only_bind(ports)
    # Not the only one: other connections of the machine may leave from the same port, to other places.
    assert ("ESTABLISHED", (os.getpid(),)) in {(each.state, each.pids) for each in ports.sockets}


def test_a_forked_child_that_inherited_the_listener_is_its_holder(stack: ExitStack) -> None:
    server, port = _listen(stack)
    os.set_inheritable(server.fileno(), True)
    argv = [sys.executable, "-c", "print('up', flush=True); import time; time.sleep(60)"]
    child = subprocess.Popen(argv, pass_fds=[server.fileno()], stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stdout.readline() == b"up\n"
        assert _ports(port).sockets[0].pids == tuple(sorted((os.getpid(), child.pid)))
        server.close()
        ports = _ports(port)
        assert not _only_bind(ports)
        assert ports.sockets[0].pids == (child.pid,)
    finally:
        child.kill()
        child.wait()
        if child.stdout:
            child.stdout.close()


def test_psutil_sees_the_same_sockets(stack: ExitStack) -> None:
    probed = [_listen(stack, address)[1] for address in ("0.0.0.0", "127.0.0.1", "::1")]
    by_proc = {(row["port"], row["address"], row["state"]) for row in list_sockets_on(tuple(probed))}
    seen = [(found.laddr, found.status) for found in psutil.net_connections("tcp") if found.laddr]
    by_psutil = {(address[1], address[0], status) for address, status in seen if address[1] in probed}
    assert by_proc == by_psutil


def test_free_ports_are_the_same_for_the_same_seed(stack: ExitStack) -> None:
    first = _ports(free=3, seed="run-1")
    assert first.free == _ports(free=3, seed="run-1").free
    assert _ports(free=3, seed="a\udce4").free  # a name that is not UTF-8
    assert first.free != _ports(free=3, seed="run-2").free
    low, high = first.ephemeral
    assert all(not low <= port <= high for port in first.free)
    _listen(stack, port=first.free[0])
    assert first.free[0] not in _ports(free=3, seed="run-1").free


def test_free_ports_are_never_those_asked_about() -> None:
    first = _ports(free=1, seed="s").free[0]
    assert first not in _ports(first, free=3, seed="s").free


def test_where_every_port_is_ephemeral_ports_are_found_all_the_same() -> None:
    ask = read_request({"free_ports": 2, "seed": "s"}, None)
    assert len(free_ports(ask, (1024, 65535))) == 2


@pytest.mark.parametrize(
    ("packed", "address"),
    [("0100007F", "127.0.0.1"), ("00000000", "0.0.0.0"), ("00000000000000000000000001000000", "::1")],
)
@pytest.mark.skipif(sys.byteorder != "little", reason="the recordings are of a little-endian machine")
def test_the_kernels_addresses_are_unpacked(packed: str, address: str) -> None:
    assert unpack_address(packed) == address


def test_a_port_out_of_range_is_an_error_and_no_crash() -> None:
    assert bind_error(70000)
