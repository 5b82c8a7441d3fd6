"""Nodes that start before their plan: while hosts are checked, theirs import what the launch will need.

It only makes a launch quicker: 0.86 of the time to the script's first line on two busy cores, and the whole
import of accelerate less where a core is idle (bench/warm_start.py). A host that cannot start early, or whose
plan turns out to want another environment, starts as any other does.
"""

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from launcher.config.inventory import HostEntry
from launcher.errors import GpulaunchError, HostError
from launcher.remote.supervisor_program import compress_supervisor, supervisor_argv
from launcher.transports.base import Closing, CommandResult, Connection, Stream

_END_S = 2.0


class WarmStarts:
    """What has started, by host; each is taken by the launch of this run id, or ended by `close`."""

    def __init__(self, run_id: str, module: str) -> None:
        """`module`: what the launch will run as `python -m`, and what is imported early."""
        self.run_id = run_id
        self._module = module
        self._begun: dict[str, WarmConnection] = {}

    def start(
        self,
        entry: HostEntry,
        env: Mapping[str, str],
        unset: Iterable[str],
        cwd: str,
        open_entry: Callable[[HostEntry], Connection],
    ) -> None:
        """Start on one host; whatever goes wrong, the launch itself will say."""
        with suppress(GpulaunchError, OSError):
            connection = open_entry(entry)
            stream = connection.start(supervisor_argv(entry.python, "start", self.run_id))
            request = early_request(
                self._module, self.run_id, python=entry.python, env=env, unset=unset, cwd=cwd
            )
            self._begun[entry.name] = WarmConnection(connection, stream, request)

    def claim(self, host: str, run_id: str) -> "WarmConnection | None":
        """Return what has started on a host for this run, which is then the caller's to close."""
        return self._begun.pop(host, None) if run_id == self.run_id else None

    def close(self) -> None:
        """End what no launch has taken: it sees the end of its input."""
        while self._begun:
            _, begun = self._begun.popitem()
            begun.close()


def early_request(
    module: str, run_id: str, *, python: str, env: Mapping[str, str], unset: Iterable[str], cwd: str
) -> bytes:
    """Return what starts a node before its plan is known; `protocol.order` follows, or nothing at all."""
    program = {"python": python, "module": module, "env": dict(env), "unset": list(unset), "cwd": cwd}
    return compress_supervisor("warm_start", json.dumps({**program, "run_id": run_id}).encode())


class WarmConnection(Closing):
    """A node that waits for its plan, as a connection whose first command has been started already."""

    def __init__(self, connection: Connection, stream: Stream, request: bytes) -> None:
        self._connection = connection
        self._stream: Stream | None = stream
        # A pipe holds less than the request, and its reader is an interpreter that is just starting.
        self._writer = threading.Thread(target=_write, args=(stream, request), daemon=True)
        self._writer.start()

    @property
    def name(self) -> str:
        """The host's name as the user typed it."""
        return self._connection.name

    def run(
        self, argv: Iterable[str], *, stdin: bytes = b"", timeout_s: float = 60.0, max_output: int = 64 << 20
    ) -> CommandResult:
        """See base.Connection."""
        return self._connection.run(argv, stdin=stdin, timeout_s=timeout_s, max_output=max_output)

    def start(self, argv: Iterable[str]) -> Stream:
        """Return the way to the node that waits. Raises HostError for a second one."""
        del argv  # it runs already, and is the same command
        self._writer.join()
        stream, self._stream = self._stream, None
        if stream is None:
            raise HostError(self.name, "the program that was started early is in use already")
        return stream

    def close(self) -> None:
        """Let an unused node end, and wait for that."""
        stream, self._stream = self._stream, None
        if stream is not None:
            with suppress(GpulaunchError):
                self._writer.join()
                stream.close_stdin()
                stream.wait(_END_S)
                stream.close()
        self._connection.close()


def _write(stream: Stream, request: bytes) -> None:
    with suppress(GpulaunchError, OSError, ValueError):
        stream.write(request)
