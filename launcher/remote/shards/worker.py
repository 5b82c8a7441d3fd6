"""One shard: a process that asks its hosts and passes on what they answer, undecoded.

stdin has the ShardRequest, then answers to questions; its end is the end of the client, and of this process.
"""

import gc
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import partial
from itertools import count
from typing import BinaryIO

from launcher.config.inventory import HostEntry
from launcher.errors import GpulaunchError
from launcher.local.deferral import Deferred
from launcher.local.fanout_places import Places
from launcher.remote.agent import AgentRequest, find_login, read_document, send_agent, start_agent
from launcher.remote.fanout import fanout
from launcher.remote.program_source import frame_program
from launcher.remote.reachability import probe_from
from launcher.remote.shards import frames
from launcher.transports import import_ssh
from launcher.transports.base import Connection, OpenOptions, Stream
from launcher.transports.ssh.endpoint import build_opener

HANDSHAKES = 32
"""Connections set up at once: each waits for its turn at one interpreter, and more of them would make all of
them slow, up to their timeouts. Silent hosts hold none of these places."""
_COLLECT_EVERY = 32
"""Hosts after which what they left is freed. A closed connection is a circle of objects of 50 kB, too few for
the interpreter to look for them soon. It looks through nothing that was imported, or is to be asked."""


def main() -> int:
    """Carry out the request on stdin."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the client too, which ends us
    writer = frames.FrameWriter(os.fdopen(os.dup(1), "wb"))
    os.dup2(2, 1)
    import_ssh()  # while the client reads its files and asks the main host
    request = frames.read_frame(sys.stdin.buffer)
    gc.freeze()
    if not isinstance(request, frames.ShardRequest):
        return 1
    person = _Person(writer)
    threading.Thread(target=person.listen, args=(sys.stdin.buffer,), daemon=True).start()
    try:
        ask_hosts(request, writer, person)
    except Exception:  # noqa: BLE001 - it is reported by the client
        writer.write(frames.ShardFinished(traceback.format_exc()))
        return 1
    writer.write(frames.ShardFinished())
    return 0


def ask_hosts(request: frames.ShardRequest, writer: frames.FrameWriter, person: "_Person") -> None:
    """Ask every host of the request, and write what it answers."""
    options = OpenOptions(
        accept_new_host_keys=request.accept_new_host_keys,
        prompt=partial(person.ask, (), secret=True) if request.can_ask else None,
        confirm=partial(person.ask, secret=False) if request.can_ask else None,
    )
    opener, places, asked = build_opener(request.inventory, options), Places(HANDSHAKES), count(1)

    def open_paced(entry: HostEntry) -> Connection:
        with places.hold():
            return opener(entry)

    def ask_one(host: tuple[int, HostEntry, AgentRequest]) -> None:
        try:
            writer.write(_ask(host, open_paced, request))
        finally:
            if not isinstance(sys.exception(), Deferred) and next(asked) % _COLLECT_EVERY == 0:
                gc.collect()

    def note_failure(host: tuple[int, HostEntry, AgentRequest], result: GpulaunchError | None) -> None:
        if result is not None:
            writer.write(frames.HostFailure(host[0], result))

    fanout(ask_one, request.hosts, width=request.width, reopens=True, on_done=note_failure)


def _ask(
    host: tuple[int, HostEntry, AgentRequest],
    opener: Callable[[HostEntry], Connection],
    request: frames.ShardRequest,
) -> frames.HostAnswer:
    number, entry, request_of_host = host
    targets = request.targets
    with ExitStack() as held:
        connection = held.enter_context(opener(entry))
        stream = held.enter_context(closing(start_agent(connection, entry.python)))
        deadline = send_agent(stream, request_of_host, stay=targets is not None)
        document = read_document(stream, connection, entry.python, deadline)
        answered = time.time()
        reach = () if targets is None else probe_from(entry, _next_program(stream), targets)
        return frames.HostAnswer(number, document, answered, reach, find_login(connection, request_of_host))


def _next_program(stream: Stream) -> Callable[[str, bytes, bytes], Stream]:
    """Return what starts a program where the agent waits."""

    def begin(_host: str, source: bytes, payload: bytes) -> Stream:
        stream.write(frame_program(source) + payload)
        return stream

    return begin


class _Person:
    """Asks the person at the client's terminal."""

    def __init__(self, writer: frames.FrameWriter) -> None:
        self._writer = writer
        self._lock = threading.Lock()  # one question at a time
        self._answered = threading.Event()
        self._answer: frames.QuestionAnswer | None = None

    def listen(self, stdin: BinaryIO) -> None:
        """Take answers until the client is gone, and end with it."""
        while (frame := frames.read_frame(stdin)) is not None:
            if isinstance(frame, frames.QuestionAnswer):
                self._answer = frame
                self._answered.set()
        with suppress(OSError):
            os._exit(1)

    def ask(self, lines: tuple[str, ...], question: str, *, secret: bool) -> str:
        """Return what the person types. Raises EOFError where the input has ended."""
        with self._lock:
            self._answered.clear()
            self._writer.write(frames.Question(lines, question, secret))
            self._answered.wait()
            if self._answer is None or self._answer.text is None:
                raise EOFError
            return self._answer.text


if __name__ == "__main__":
    sys.exit(main())
