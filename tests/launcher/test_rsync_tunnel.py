"""A connection lent to a program that would open its own: its bytes, whole and in both directions."""

import array
import fcntl
import socket
import subprocess
import sys
import tempfile
import termios
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from launcher.transports.base import Endpoint
from launcher.transports.local import LocalConnection
from launcher.transports.rsync_tunnel import Tunnel, open_tunnel

HERE = LocalConnection(Endpoint("localhost", "local", ""))
MANY = 4 << 20
PATIENCE_S = 20.0


@dataclass(frozen=True, slots=True)
class Program:
    """What rsync has after it has started the relay, and the loan that it came from."""

    loan: Tunnel
    into: socket.socket
    out: socket.socket
    relay: "subprocess.Popen[bytes]"


@contextmanager
def program(code: str) -> Iterator[Program]:
    """Do as rsync does: start the relay with an end of each of two pairs of sockets that block nobody."""
    with open_tunnel(HERE, sys.executable) as loan, ExitStack() as held:
        into, stdin, out, stdout = (
            held.enter_context(each) for each in (*socket.socketpair(), *socket.socketpair())
        )
        stdout.setblocking(False)
        out.settimeout(PATIENCE_S)
        argv = [*loan.rsh, "there", "rsync", "-c", code]
        relay = held.enter_context(subprocess.Popen(argv, stdin=stdin.fileno(), stdout=stdout.fileno()))
        held.callback(relay.kill)
        stdin.close()
        stdout.close()
        yield Program(loan, into, out, relay)


def everything(end: socket.socket) -> bytes:
    found = bytearray()
    while data := end.recv(1 << 16):
        found += data
    return bytes(found)


def held_back(end: socket.socket) -> int:
    """Return how many bytes wait to be read."""
    count = array.array("i", [0])
    fcntl.ioctl(end, termios.FIONREAD, count)
    return count[0]


def test_who_reads_late_gets_every_byte_of_a_pipe_that_does_not_block() -> None:
    data = bytes(range(256)) * (MANY // 256)
    with program(f"import sys; sys.stdout.buffer.write(bytes(range(256)) * {MANY // 256})") as late:
        deadline, before = time.monotonic() + PATIENCE_S, -1
        while (waiting := held_back(late.out)) == 0 or waiting != before:  # until no more fits
            assert time.monotonic() < deadline
            before = waiting
            time.sleep(0.05)
        assert everything(late.out) == data
        assert late.relay.wait(PATIENCE_S) == 0


def test_what_the_program_sends_arrives_and_is_counted() -> None:
    code = "import sys; data = sys.stdin.buffer.read(); print(len(data), data == b'x' * len(data))"
    with program(code) as sender:
        sender.into.sendall(b"x" * MANY)
        sender.into.close()
        assert everything(sender.out).split() == [str(MANY).encode(), b"True"]
        assert sender.relay.wait(PATIENCE_S) == 0
    assert sender.loan.sent == MANY


def test_a_program_that_is_gone_ends_the_command_and_the_relay(tmp_path: Path) -> None:
    mark = tmp_path / "end"
    with program(f"import sys; sys.stdin.buffer.read(); open({str(mark)!r}, 'w').close()") as gone:
        gone.into.close()
        gone.out.close()
        assert gone.relay.wait(PATIENCE_S) == 0
        assert mark.exists()


def test_a_relay_that_names_no_command_is_sent_away() -> None:
    with open_tunnel(HERE, sys.executable) as loan, socket.socket(socket.AF_UNIX) as odd:
        odd.settimeout(PATIENCE_S)
        odd.connect(loan.rsh[-1])
        socket.send_fds(odd, [b"no JSON\n"], [odd.fileno()])
        assert odd.recv(1) == b""


def test_nothing_waits_for_a_program_that_never_comes() -> None:
    before = set(threading.enumerate())
    with open_tunnel(HERE, sys.executable, start_s=PATIENCE_S):
        (waits,) = set(threading.enumerate()) - before
    assert not waits.is_alive()


def test_a_temporary_directory_too_deep_for_a_socket_is_no_obstacle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 100)
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with program("print('ok')") as told:
        assert everything(told.out) == b"ok\n"
