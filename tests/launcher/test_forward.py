"""`gpulaunch forward`: connections carried by the real relay on this machine."""

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import click
import pytest

from launcher.commands import _run_options
from launcher.commands import forward as forward_command
from launcher.commands._answer import Answer
from launcher.commands._run_options import choose_nodes
from launcher.commands.forward import _ports
from launcher.config.inventory import HostEntry
from launcher.errors import BadInput, HostError
from launcher.follow import protocol
from launcher.onhost.supervisor.node import make_node_name
from launcher.onhost.supervisor.protocol import RequestRefused
from launcher.onhost.supervisor.requests._tensorboard import TensorBoard, list_listeners
from launcher.runs.access import RunAccess
from launcher.runs.forward import WINDOW, PortForward, _Carried, open_forward
from launcher.runs.request import RequestDenied
from launcher.transports.base import Endpoint
from launcher.transports.local import LocalConnection
from launcher.transports.loopback import LoopbackListener
from tests.launcher.run_plans import plan

ENTRY = HostEntry("here", python=sys.executable)
BIG = bytes(range(256)) * 8192  # 2 MiB: several windows
PATIENCE_S = 30.0
# In place of TensorBoard, which takes seconds to import: what its options say is served.
BOARD = """#!/bin/sh
[ "$1 $2 $3" = "-m tensorboard.main --logdir" ] || exit 9
[ -d "$4" ] || { echo "no directory $4"; exit 1; }
exec "%s" -m http.server --bind "$6" --directory "$4" "$8"
"""


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that is over, and how its host knows it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    place = tmp_path / "gpulaunch" / "runs" / make_node_name() / "r1"
    place.mkdir(parents=True)
    (tmp_path / "python").write_text(BOARD % sys.executable)
    (tmp_path / "python").chmod(0o755)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "events").write_text("loss")
    spec = {"run_id": "r1", "argv": [str(tmp_path / "python")], "launch": {"output": str(tmp_path / "out")}}
    (place / "spec.json").write_text(json.dumps(spec))
    (place / "state.json").write_text(json.dumps({"run_id": "r1", "phase": "ended"}))
    return place


def opened(port: int, *, tensorboard: bool = False) -> PortForward:
    connection = LocalConnection(Endpoint("here", "local", ""))
    return open_forward(connection, ENTRY, "r1", port=port, tensorboard=tensorboard)


class Server:
    """Serves each connection with a function, in a thread of its own."""

    def __init__(self, serve: Callable[[socket.socket], None]) -> None:
        self.sock = socket.create_server(("127.0.0.1", 0))
        self.port = self.sock.getsockname()[1]
        self._serve = serve
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                found, _ = self.sock.accept()
            except OSError:
                return
            threading.Thread(target=self._one, args=(found,), daemon=True).start()

    def _one(self, found: socket.socket) -> None:
        with found:
            self._serve(found)


def upside_down(found: socket.socket) -> None:
    """Answer with what came, once all of it has come."""
    said = b"".join(iter(lambda: found.recv(65536), b""))
    found.sendall(said[::-1])


@pytest.fixture
def forwarded(run_dir: Path) -> Iterator[Callable[[PortForward], int]]:
    """Return what carries a port in a thread, and where it is then."""
    del run_dir
    with ExitStack() as stack:

        def begin(forward: PortForward) -> int:
            listener = stack.enter_context(LoopbackListener(0))
            thread = threading.Thread(target=ended, args=(forward, listener), daemon=True)
            stack.callback(thread.join, PATIENCE_S)
            stack.callback(forward._failed.set)
            thread.start()
            return listener.port

        yield begin


def ended(forward: PortForward, listener: LoopbackListener) -> None:
    with pytest.raises(HostError):
        forward.run(listener)


def fetched(port: int, said: bytes, *, slow: bool = False) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as sock:
        sender = threading.Thread(target=say, args=(sock, said))
        sender.start()
        if slow:
            time.sleep(0.2)
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
        sender.join(PATIENCE_S)
        return answer


def say(sock: socket.socket, said: bytes) -> None:
    with suppress(OSError):  # the test then misses the answer
        sock.sendall(said)
        sock.shutdown(socket.SHUT_WR)


@pytest.mark.slow
def test_connections_are_carried_side_by_side_in_full_and_with_their_ends(
    forwarded: Callable[[PortForward], int],
) -> None:
    server = Server(upside_down)
    forward = opened(server.port)
    port = forwarded(forward)
    answers: dict[int, bytes] = {}

    def ask(number: int) -> None:
        said = BIG if number < 2 else b"%d" % number
        answers[number] = fetched(port, said, slow=number == 1)

    clients = [threading.Thread(target=ask, args=(number,)) for number in range(12)]
    for client in clients:
        client.start()
    for client in clients:
        client.join(PATIENCE_S)
    assert len(BIG) > 4 * WINDOW
    assert answers[0] == answers[1] == BIG[::-1]
    assert [answers[number] for number in range(2, 12)] == [str(n).encode()[::-1] for n in range(2, 12)]
    deadline = time.monotonic() + PATIENCE_S
    while forward._carried and time.monotonic() < deadline:
        time.sleep(0.01)
    assert forward._carried == {}  # what is over is forgotten
    server.sock.shutdown(socket.SHUT_RDWR)  # close() leaves it to the thread that accepts
    server.sock.close()
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S) as sock:
        assert sock.recv(1) == b""  # as a port on which nothing listens any more


def test_a_port_on_which_nothing_listens_is_refused_with_the_reason(run_dir: Path) -> None:
    del run_dir
    with socket.create_server(("127.0.0.1", 0)) as sock:
        free = sock.getsockname()[1]
    with pytest.raises(RequestDenied, match=f"here: nothing accepts connections on port {free}") as caught:
        opened(free)
    assert caught.value.fix.startswith(
        "start a program that listens on it, or name another port; --tensorboard"
    )


@pytest.mark.slow
def test_tensorboard_is_started_over_the_output_and_ends_with_the_client(
    run_dir: Path, forwarded: Callable[[PortForward], int]
) -> None:
    forward = opened(6006, tensorboard=True)
    port = forwarded(forward)
    assert fetched(port, b"GET /events HTTP/1.0\r\n\r\n").endswith(b"loss")
    assert forward.port != 6006
    forward._failed.set()
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", forward.port), timeout=1).close()
        except ConnectionRefusedError:
            break
        time.sleep(0.05)
    else:
        pytest.fail("it still serves")
    with pytest.raises(RequestRefused, match="did not say where its script writes") as unsaid:
        TensorBoard({"launch": {}}, str(run_dir))
    assert unsaid.value.fix.startswith("for the next run: output: DIR in its run config; for this one: start")
    assert unsaid.value.fix.endswith(f"on the host, then: gpulaunch forward {run_dir.name}")
    (run_dir.parents[3] / "out").rename(run_dir.parents[3] / "gone")
    with pytest.raises(RequestDenied, match="TensorBoard ended at once: no directory "):
        opened(6006, tensorboard=True)


def test_a_server_of_another_user_in_the_place_of_tensorboard_is_not_forwarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board = TensorBoard({"launch": {"output": str(tmp_path)}}, str(tmp_path))
    with Server(lambda sock: sock.close()).sock as server:
        board.port = server.getsockname()[1]
        assert list_listeners(board.port) == {os.geteuid()}
        board.connect().close()
        monkeypatch.setattr("os.geteuid", lambda: 4242)  # the socket is not of this user
        with pytest.raises(RequestRefused, match="another user listens"):
            board.connect()
    assert list_listeners(board.port, str(tmp_path / "unreadable")) == set()
    board.__exit__()


def test_a_host_that_sends_nothing_again_and_again_fills_no_memory() -> None:
    held = ExitStack()
    listener = held.enter_context(LoopbackListener(0))
    held.enter_context(socket.create_connection(("127.0.0.1", listener.port)))
    local = listener.accept()
    assert local is not None
    carried = _Carried(local)
    for _ in range(3):
        carried.end_arrivals()
    assert carried.arrived.qsize() == 1
    unread: Any = SimpleNamespace()
    forward = PortForward("here", unread, protocol.FrameReader(), 6006)
    forward._carried[1] = carried
    with pytest.raises(HostError, match="data of no bytes"):
        forward._take_all(b'GPULAUNCH-RUN-1 {"data": 1, "size": 0}\n')
    forward._forget(1)
    held.close()


def test_a_lost_link_is_opened_again_and_the_document_is_printed_once(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    del run_dir
    ends: Iterator[BaseException] = iter([HostError("here", "the link is gone"), KeyboardInterrupt()])

    def run(forward: PortForward, listener: LoopbackListener) -> None:
        assert listener.port
        forward._stream.close()
        raise next(ends)

    monkeypatch.setattr(PortForward, "run", run)
    monkeypatch.setattr(forward_command, "_AGAIN_S", 0.0)
    server = Server(upside_down)
    access = RunAccess(
        replace(plan((None,)), run_id="r1"),
        (ENTRY,),
        (),
        lambda _: LocalConnection(Endpoint("here", "local", "")),
    )
    answer = Answer("gpulaunch.forward/1", as_json=True)
    carry = partial(forward_command._carry, answer=answer, remote=server.port, tensorboard=False)
    with LoopbackListener(0) as listener:
        with pytest.raises(KeyboardInterrupt):
            carry(access, ENTRY, listener)
        unreached = replace(access, open_known=Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(click.Abort):  # nothing was forwarded: that is no success
            carry(unreached, ENTRY, listener)
    printed = capsys.readouterr()
    document = json.loads(printed.out)
    assert (document["schema"], document["host"]) == ("gpulaunch.forward/1", "here")
    assert document["port"] == server.port
    assert document["url"] == f"http://127.0.0.1:{listener.port}"
    assert "here: the link is gone; trying again" in printed.err
    assert choose_nodes(access, "here") == [(access.plan.nodes[0], ENTRY)]
    with pytest.raises(BadInput, match="r1 has no node called x"):
        choose_nodes(access, "x")


def test_the_ports() -> None:
    assert _ports("6006") == (6006, 6006)
    assert _ports("9000:8888") == (9000, 8888)
    for text in ("", "0", "65536", "a", "1:2:3", "1:", "-1", "²"):
        with pytest.raises(BadInput, match="port"):
            _ports(text)


def test_a_port_in_the_place_of_the_run_is_told_where_it_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_run(*_: object) -> None:
        raise BadInput("no run called so", "gpulaunch ps")

    monkeypatch.setattr(_run_options, "open_named_run", no_run)
    for run, told in (("6006", True), ("9000:6006", True), ("train", False)):
        with pytest.raises(BadInput) as caught:
            forward_command.command.main(["--", run], standalone_mode=False)
        assert (f"forward last {run};" in caught.value.fix) is told
