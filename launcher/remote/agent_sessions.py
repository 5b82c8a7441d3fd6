"""Agents that have answered and wait on their hosts, for one more program over the same channel."""

from contextlib import ExitStack, suppress

from launcher.errors import ConnectionLost, GpulaunchError
from launcher.remote.programs import frame_program
from launcher.transports.base import Closing, Stream


class AgentSessions(Closing):
    """Agents' streams by host: what a second question costs is two messages, and no second interpreter."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[Stream, ExitStack]] = {}

    def add(self, host: str, stream: Stream, held: ExitStack) -> None:
        """Take an agent that has answered, and what closes its stream and gives its connection back."""
        self._kept[host] = stream, held

    def start_program(self, host: str, source: bytes, payload: bytes) -> Stream:
        """Start a program where the agent waits, with `payload` on its stdin; the stream stays ours to close.

        A host takes one program. Raises HostError.
        """
        if host not in self._kept:
            raise ConnectionLost(host, "its agent no longer waits")
        stream, _ = self._kept[host]
        stream.write(frame_program(source) + payload)
        return stream

    def close(self) -> None:
        """End them all: their input ends, and the connections go back to where they came from."""
        while self._kept:
            _, (_, held) = self._kept.popitem()
            with suppress(GpulaunchError, OSError):
                held.close()
