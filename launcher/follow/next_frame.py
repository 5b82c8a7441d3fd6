"""An answer of a program on a host that keeps its stream: a place in a queue, a relay, a hold on a run."""

import time

from launcher.config.inventory import HostEntry
from launcher.errors import AgentProtocolError, HostError
from launcher.follow import protocol
from launcher.remote.shell_errors import explain_no_answer
from launcher.text import last_lines
from launcher.transports.base import Stream

_TURN_S = 0.5


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
                entry.name, f"it ended without an answer: {last_lines(stderr or noise)}"
            )
        try:
            for frame in reader.feed(data or b""):
                return frame
        except protocol.ProtocolError as error:
            raise AgentProtocolError(entry.name, f"its answer cannot be read: {error}") from None
    raise HostError(entry.name, f"it did not answer within {within_s:g} s")
