"""Whether nodes reach the main host: real listeners and connects on the loopback."""

import socket

from launcher.inventory import HostEntry
from launcher.reach import probe_reach
from launcher.transports.base import Connection, Endpoint
from launcher.transports.local import LocalConnection

MAIN, NODE = HostEntry("titan"), HostEntry("l40s-01")


def here(entry: HostEntry) -> Connection:
    return LocalConnection(Endpoint(entry.name, "local", ""))


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def test_the_port_and_an_ephemeral_one_are_reached_and_let_go() -> None:
    port = free_port()
    reached = probe_reach(MAIN, (NODE,), here, address="127.0.0.1", port=port)
    assert [(one.from_host, one.to_host, one.ok, one.error) for one in reached] == [
        ("l40s-01", "titan", True, "")
    ] * 2
    assert reached[0].port == port != reached[1].port
    socket.create_server(("127.0.0.1", port)).close()


def test_a_port_held_by_somebody_else_is_not_reached() -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        reached = {
            one.port == port: one for one in probe_reach(MAIN, (NODE,), here, address="127.0.0.1", port=port)
        }
    assert (reached[True].ok, reached[False].ok) == (False, True)
    assert "titan cannot listen there: Address already in use" in reached[True].error


def test_a_node_that_cannot_be_asked_is_not_reached_and_says_why() -> None:
    reached = probe_reach(
        MAIN, (HostEntry("bare", python="no-python"),), here, address="127.0.0.1", port=free_port()
    )
    assert [one.ok for one in reached] == [False, False]
    assert all("could not be tried: cannot start no-python" in one.error for one in reached)


def test_a_main_host_that_cannot_listen_is_reached_by_nobody() -> None:
    reached = probe_reach(
        HostEntry("bare", python="no-python"), (NODE,), here, address="127.0.0.1", port=29500
    )
    assert [one.ok for one in reached] == [False]
    assert reached[0].error.startswith("bare could not listen: cannot start no-python")


def test_one_node_alone_needs_no_probe() -> None:
    assert probe_reach(MAIN, (), here, address="127.0.0.1", port=29500) == ()
