"""What a transport is: the only way from here to a host."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How to reach one host, after hosts.yaml and ~/.ssh/config have been merged (hosts.yaml wins).

    `name` is what the user typed and what every message uses. `transport` is "local" or "ssh".
    """

    name: str
    transport: str
    address: str
    port: int = 22
    user: str = ""
    identity_files: tuple[str, ...] = ()
    jumps: tuple["Endpoint", ...] = ()  # outermost first; each hop verified like the host itself
    proxy_command: str = ""
    known_hosts_files: tuple[str, ...] = ()
    identity_agent: str = ""  # socket path; "" = SSH_AUTH_SOCK, "none" = no agent
    connect_timeout_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Completed:
    """A finished command: raw bytes, nothing decoded, nothing trusted."""

    exit_status: int  # negative: ended by that signal
    stdout: bytes
    stderr: bytes


class Stream(Protocol):
    """A running command: bytes in, bytes out, until it ends."""

    def write(self, data: bytes) -> None:
        """Send to its stdin; raises HostError when the connection is gone."""

    def close_stdin(self) -> None:
        """Send EOF."""

    def read(self, timeout_s: float) -> bytes | None:
        """Return the next stdout bytes, b"" at the end, None when nothing came within timeout_s."""

    def read_stderr(self) -> bytes:
        """Return what stderr has held so far and was not returned yet, without waiting."""

    def wait(self, timeout_s: float) -> int | None:
        """Return the exit status once ended, None if still running after timeout_s."""

    def close(self) -> None:
        """Drop the channel; the far side sees EOF or SIGPIPE."""


class Connection(Protocol):
    """An open way to one host. argv is quoted for the remote shell here, and nowhere else."""

    @property
    def name(self) -> str:
        """The host's name as the user typed it."""

    def run(self, argv: Iterable[str], *, stdin: bytes = b"", timeout_s: float = 60.0, max_output: int = 64 << 20) -> Completed:
        """Run to the end. Raises HostError subclasses (ConnectionTimedOut when timeout_s passes)."""

    def start(self, argv: Iterable[str]) -> Stream:
        """Start and stream."""

    def close(self) -> None:
        """Close; idempotent."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


Opener = Callable[[Endpoint], Connection]
"""Opens a connection or raises the HostError subclass that says why not."""


def iter_stdout(stream: Stream, poll_s: float = 0.5) -> Iterator[bytes]:
    """Yield stdout until it ends."""
    while True:
        data = stream.read(poll_s)
        if data is None:
            continue
        if not data:
            return
        yield data
