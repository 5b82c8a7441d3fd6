"""An exchange with a host's supervisor whose stream stays open: a place in a queue, a relay, a hold."""

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from launcher.config.inventory import HostEntry
from launcher.errors import AgentProtocolError, HostError
from launcher.follow import protocol
from launcher.remote.shell_errors import explain_no_answer
from launcher.text import tail_lines
from launcher.transports.base import Connection, Stream

Answer = TypeVar("Answer")
_TURN_S = 0.5


def open_exchange(
    connection: Connection,
    entry: HostEntry,
    document: Mapping[str, Any],
    within_s: float,
    read: Callable[[Mapping[str, Any]], Answer],
) -> tuple[Stream, protocol.FrameReader, Answer]:
    """Send a request, and return the stream that stays open, its reader, and what `read` makes of the answer.

    Raises as `read_next_frame` and `read`; the stream is closed then.
    """
    mode = str(document["mode"])
    words = str(document.get("run_id") or document.get("name") or "-")
    stream = connection.start(protocol.build_supervisor_argv(entry.python, mode, words))
    try:
        stream.write(protocol.encode_request(document))
        reader = protocol.FrameReader()
        return stream, reader, read(read_next_frame(entry, stream, reader, within_s).header)
    except BaseException:
        stream.close()
        raise


def read_next_frame(
    entry: HostEntry, stream: Stream, reader: protocol.FrameReader, within_s: float
) -> protocol.Frame:
    """Return the next frame.

    Raises HostError where none comes within `within_s` seconds or the program ends before, AgentProtocolError
    where what comes is none of ours.
    """
    stderr, deadline = b"", time.monotonic() + within_s
    while time.monotonic() < deadline:
        data = stream.read(_TURN_S)
        stderr = (stderr + stream.read_stderr())[-protocol.PREAMBLE_KEPT :]
        if data == b"":
            noise, status = reader.preamble, stream.wait(1.0)
            refusal = explain_no_answer(entry.name, entry.python, status, stderr=stderr, noise=noise)
            raise refusal or HostError(
                entry.name, f"it ended without an answer: {tail_lines(stderr or noise)}"
            )
        try:
            for frame in reader.feed(data or b""):
                return frame
        except protocol.ProtocolError as error:
            raise AgentProtocolError(entry.name, f"its answer cannot be read: {error}") from None
    raise HostError(entry.name, f"it did not answer within {within_s:g} s")
