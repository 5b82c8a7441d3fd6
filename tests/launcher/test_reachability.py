"""Whether nodes reach the main host: real listeners and connects on the loopback."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from launcher.config.inventory import HostEntry
from launcher.errors import AgentProtocolError, DescriptorsExhausted
from launcher.remote.agent import AgentRequest, GatherOptions, gather_facts
from launcher.remote.agent_sessions import AgentSessions
from launcher.remote.program_source import build_stdin_command
from launcher.remote.reachability import probe_pairs, probe_reachability, probe_targets
from launcher.transports.base import Connection, Endpoint, Stream
from launcher.transports.local import LocalConnection
from tests.launcher.sshd import Sshd

pytestmark = pytest.mark.slow

MAIN, NODE = HostEntry("titan"), HostEntry("l40s-01")
BARE = "bare"


class Here:
    """Starts programs in interpreters of their own on this machine; BARE has none."""

    def __init__(self) -> None:
        self.held = ExitStack()

    def __call__(self, host: str, source: bytes, payload: bytes) -> Stream:
        argv, stdin = build_stdin_command("no-python" if host == BARE else "python3", source, payload)
        stream = self.held.enter_context(closing(LocalConnection(Endpoint(host, "local", "")).start(argv)))
        stream.write(stdin)
        return stream


@pytest.fixture
def here() -> Iterator[Here]:
    started = Here()
    with started.held:
        yield started


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def test_the_port_and_an_ephemeral_one_are_reached_and_let_go(here: Here) -> None:
    port = free_port()
    reached = probe_reachability(MAIN, (NODE,), here, address="127.0.0.1", port=port)
    assert [(one.from_host, one.to_host, one.ok, one.error) for one in reached] == [
        ("l40s-01", "titan", True, "")
    ] * 2
    assert reached[0].port == port != reached[1].port
    socket.create_server(("127.0.0.1", port)).close()


def test_a_port_held_by_somebody_else_is_not_reached(here: Here) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        reached = {
            one.port == port: one
            for one in probe_reachability(MAIN, (NODE,), here, address="127.0.0.1", port=port)
        }
    assert (reached[True].ok, reached[False].ok) == (False, True)
    assert "titan cannot listen on it: Address already in use" in reached[True].error


def test_a_node_that_cannot_be_asked_is_not_reached_and_says_why(here: Here) -> None:
    reached = probe_reachability(MAIN, (HostEntry(BARE),), here, address="127.0.0.1", port=free_port())
    assert [one.ok for one in reached] == [False, False]
    assert all("could not be tried: cannot start no-python" in one.error for one in reached)


@pytest.mark.parametrize("others", [(NODE, HostEntry("n2")), (NODE,)])
def test_a_node_for_which_a_descriptor_lacks_is_tried_again_beside_others(
    here: Here, others: tuple[HostEntry, ...]
) -> None:
    lacks, ok = [NODE.name], len(others) > 1

    def begin(host: str, source: bytes, payload: bytes) -> Stream:
        if host in lacks:
            lacks[:] = [] if ok else lacks
            raise DescriptorsExhausted(host)
        return here(host, source, payload)

    reached = probe_reachability(MAIN, others, begin, address="127.0.0.1", port=free_port())
    assert {one.ok for one in reached if one.from_host == NODE.name} == {ok}
    assert all(one.ok or "no descriptor left" in one.error for one in reached)


def test_a_main_host_that_cannot_listen_is_reached_by_nobody(here: Here) -> None:
    reached = probe_reachability(HostEntry(BARE), (NODE,), here, address="127.0.0.1", port=29500)
    assert [one.ok for one in reached] == [False]
    assert reached[0].error.startswith("bare could not listen: cannot start no-python")


@pytest.mark.parametrize("number", ["Infinity", "NaN", "1e999", "-1" + "0" * 400])
def test_a_number_that_no_clock_shows_is_an_answer_not_understood(here: Here, number: str) -> None:
    answer = f'{{"listening": [[5, ""]], "reached": [["10.0.0.7", 5, "", {number}]]}}'
    hostile = f"print('\\nGPULAUNCH-ANSWER-1 {answer}', flush=True)".encode()
    reached = probe_reachability(
        MAIN, (NODE,), lambda host, _, payload: here(host, hostile, payload), address="10.0.0.7", port=5
    )
    assert [(one.ok, one.ms) for one in reached] == [(False, 0.0)]
    assert "answer" in reached[0].error


def test_what_accepts_or_refuses_answers_and_what_is_silent_does_not() -> None:
    with ExitStack() as held:
        listening = held.enter_context(socket.create_server(("127.0.0.1", 0)))
        full = held.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # its queue overflows, and the kernel answers nobody more
            waiting = held.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        targets = [listening.getsockname(), ("127.0.0.1", free_port()), full.getsockname()]
        connection = LocalConnection(Endpoint("titan", "local", ""))
        assert probe_targets(connection, "python3", targets) == (True, True, False)


def test_a_host_that_cannot_ask_is_told(tmp_path: Path) -> None:
    liar = tmp_path / "python"
    liar.write_text("#!/bin/sh\ncat > /dev/null; echo hello\n")
    liar.chmod(0o755)
    with pytest.raises(AgentProtocolError):
        probe_targets(LocalConnection(Endpoint("titan", "local", "")), str(liar), (("127.0.0.1", 22),))


def test_one_node_alone_needs_no_probe(here: Here) -> None:
    assert probe_reachability(MAIN, (), here, address="127.0.0.1", port=29500) == ()


@pytest.mark.parametrize("most", [2, 1])
def test_agents_that_have_answered_connect_over_the_channel_that_is_open(tmp_path: Path, most: int) -> None:
    """Where fewer may wait than there are hosts, the others are connected to again."""
    opened: list[str] = []

    def opener(entry: HostEntry) -> Connection:
        opened.append(entry.name)
        return sshd.open(name=entry.name)

    entries = (MAIN, NODE)
    with Sshd.up(tmp_path) as sshd, AgentSessions(opener, entries) as waiting:
        waiting.most = most
        got = gather_facts(
            entries,
            lambda entry: AgentRequest(entry.name, skip=("processes", "network", "gpus", "driver")),
            opener,
            GatherOptions(waiting=waiting),
        )
        assert list(got.facts) == ["titan", "l40s-01"]
        reached = probe_reachability(
            MAIN, (NODE,), waiting.start_program, address="127.0.0.1", port=free_port()
        )
    assert [(one.from_host, one.ok, one.error) for one in reached] == [("l40s-01", True, "")] * 2
    assert opened.count("l40s-01") == 3 - most


def test_an_agent_that_is_gone_is_told_as_a_node_that_could_not_be_asked(here: Here) -> None:
    waiting = AgentSessions()

    def begin(host: str, source: bytes, payload: bytes) -> Stream:
        return (here if host == MAIN.name else waiting.start_program)(host, source, payload)

    reached = probe_reachability(MAIN, (NODE,), begin, address="127.0.0.1", port=free_port())
    assert [one.ok for one in reached] == [False, False]
    assert all("could not be tried: its agent no longer waits" in one.error for one in reached)


OTHER = HostEntry("l40s-02")
HERE = dict.fromkeys(("titan", "l40s-01", "l40s-02", BARE), "127.0.0.1")


def test_every_host_connects_to_every_other_one_and_the_ports_are_let_go(here: Here) -> None:
    port = free_port()
    reached = probe_pairs((MAIN, NODE, OTHER), here, addresses=HERE, port=port)
    assert all(one.ok for one in reached), reached
    ways = [(one.from_host, one.to_host) for one in reached]
    to_main = [(name, "titan") for name in ("l40s-01", "l40s-01", "l40s-02", "l40s-02")]
    pairs = [("titan", "l40s-01"), ("titan", "l40s-02"), ("l40s-01", "l40s-02"), ("l40s-02", "l40s-01")]
    assert (ways[:4], ways[4:]) == (to_main, pairs)
    assert [one.port == port for one in reached[:4]] == [True, False, True, False]
    socket.create_server(("127.0.0.1", port)).close()


def test_of_pairs_what_could_not_be_tried_is_not_reached_on_the_main_host_and_else_left_out(
    here: Here,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as stranger:
        port = stranger.getsockname()[1]
        away = {"titan": "127.0.0.1", "l40s-01": "255.255.255.255"}  # to which no connect leaves a host
        bare = HostEntry(BARE)
        reached = probe_pairs((MAIN, NODE, OTHER, bare), here, addresses=away, port=port)
    found = {(one.from_host, one.to_host, one.port == port): one for one in reached}
    assert "titan cannot listen on it: Address already in use" in found["l40s-01", "titan", True].error
    assert found["l40s-01", "titan", False].ok
    assert "could not be tried: cannot start no-python" in found[BARE, "titan", False].error
    assert not found["l40s-02", "l40s-01", False].ok
    assert {key[1] for key in found} == {"titan", "l40s-01"}  # no address is known of the others
    (only,) = {one.error for one in probe_pairs((bare, NODE), here, addresses=HERE, port=29500)}
    assert only.startswith("bare could not listen: cannot start no-python")


def test_hosts_that_answer_nonsense_are_not_reached_and_spoil_nothing(here: Here) -> None:
    answer = '{"listening": [[5, ""]], "reached": [["10.0.0.7", 5, "", 1]]}'
    hostile = f"print('\\nGPULAUNCH-ANSWER-1 {answer}', flush=True); input()".encode()

    def begin(host: str, source: bytes, payload: bytes) -> Stream:
        return here(host, hostile if host == NODE.name else source, payload)

    reached = probe_pairs((MAIN, NODE, OTHER), begin, addresses=HERE, port=free_port())
    ok = {(one.from_host, one.to_host): one.ok for one in reached}
    assert (ok["l40s-01", "titan"], ok["l40s-02", "titan"], ok["l40s-02", "l40s-01"]) == (False, True, False)
