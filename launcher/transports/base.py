"""What a transport is: the only way to a host."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Literal, Protocol, Self, TypeAlias, TypedDict, Unpack

from launcher.config.via_options import Via
from preflight.frozen import dataclass

NewHostKeys: TypeAlias = Literal["refuse", "ask", "accept", "unchecked"]
"""StrictHostKeyChecking: yes, ask, accept-new, no. "unchecked" is "accept" for a user who has asked for
more than is given: a changed key is always refused."""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """How to reach one host, after hosts.yaml and ~/.ssh/config have been merged (hosts.yaml wins).

    `name` is what the user typed and what every message uses. `transport` is "local", "ssh" or "prefix": then
    `via` is the prefix, and `base` the way to where that command runs.
    """

    name: str
    transport: str
    address: str
    port: int = 22
    user: str = ""
    identity_files: tuple[str, ...] = ()
    certificate_files: tuple[str, ...] = ()  # each goes with the key that it certifies
    jumps: tuple["Endpoint", ...] = ()  # outermost first; each hop verified like the host itself
    proxy_command: str = ""
    known_hosts_files: tuple[str, ...] = ()  # () = ~/.ssh/known_hosts and the like
    system_known_hosts_files: tuple[str, ...] = ()  # () = /etc/ssh/ssh_known_hosts and the like
    identity_agent: str = ""  # socket path; "" = SSH_AUTH_SOCK, "none" = no agent
    identities_only: bool = False  # offer no agent key beyond identity_files
    new_host_keys: NewHostKeys = "refuse"
    hash_known_hosts: bool = False  # a new key is saved without the host's name in clear
    host_key_alias: str = ""  # the name to look up in known_hosts instead of the address
    reach_timeout_s: float = 6.0  # to connect
    connect_timeout_s: float = 10.0  # for each other step: resolve, banner and key exchange, a channel
    via: Via | None = None
    base: "Endpoint | None" = None
    own_command: bool = False  # the words of `via` are from the user's own hosts.yaml
    ssh_words: tuple[str, ...] = ()  # options and destination by which OpenSSH reaches it
    unfollowed: tuple[tuple[str, str], ...] = ()  # keywords of ssh_config that count for nothing; FILE:LINE


Prompt = Callable[[str], str]  # asks a person for a secret, shown nowhere (`getpass.getpass`)
Confirm = Callable[[tuple[str, ...], str], str]
"""Shows lines and asks a question below them; returns the answer as typed. EOFError: there is none."""


@dataclass(frozen=True, slots=True)
class OpenOptions:
    """What the user allowed this time. Without a terminal nothing is asked: both are None."""

    accept_new_host_keys: bool = False
    prompt: Prompt | None = None
    confirm: Confirm | None = None


@dataclass(frozen=True, slots=True)
class CommandResult:
    """A finished command: raw bytes, nothing decoded, nothing trusted."""

    exit_status: int  # negative: ended by that signal
    stdout: bytes
    stderr: bytes


class RunOptions(TypedDict, total=False):
    """What `Connection.run` takes beside argv; `run_to_completion` has the defaults."""

    stdin: bytes
    timeout_s: float
    max_output: int  # bytes of stdout, and of stderr
    is_whole: Callable[[bytes], bool] | None  # whether stdout is all that the command has to say


class Stream(Protocol):
    """A running command: bytes in, bytes out, until it ends."""

    def write(self, data: bytes) -> None:
        """Send to its stdin; raises HostError when the connection is gone."""

    def can_write(self, data: bytes) -> bool:
        """Say whether `data` can be written without waiting for the command to read."""

    def close_stdin(self) -> None:
        """Send EOF."""

    def read(self, timeout_s: float) -> bytes | None:
        """Return the next stdout bytes, b"" at the end, None when nothing came within timeout_s."""

    def read_stderr(self) -> bytes:
        """Return what stderr has held so far and was not returned yet, without waiting.

        Drain it now and then: a command that fills it (2 MiB) waits for its reader.
        """

    def wait(self, timeout_s: float) -> int | None:
        """Return the exit status (negative: ended by that signal), None if still running after timeout_s.

        Raises ConnectionLost when the connection broke before the host reported the status.
        """

    def close(self) -> None:
        """Drop the channel; the far side sees EOF or SIGPIPE."""


class Closing(ABC):
    """What `with` closes at its end."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is held; idempotent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Connection(AbstractContextManager["Connection", None], Protocol):
    """An open way to one host. argv is quoted for the remote shell in this class, and nowhere else.

    Every argument arrives unchanged; a program written as ~/PATH is the one in the user's home on the host.
    """

    @property
    def name(self) -> str:
        """The host's name as the user typed it."""

    def command_line(self, argv: Iterable[str]) -> str:
        """Return what a person types into a local shell to run argv on the host, for messages."""

    def run(self, argv: Iterable[str], **options: Unpack[RunOptions]) -> CommandResult:
        """Run to the end; a program that does not exist ends with 127, one that may not be run with 126.

        Once it has ended, what holds its output open is waited for a while, unless that `is_whole`.

        Raises CommandTimedOut when timeout_s passes, OutputTooLarge when stdout or stderr passes max_output
        bytes, ConnectionLost when the way to the host breaks.
        """

    def start(self, argv: Iterable[str]) -> Stream:
        """Start in a session of its own and stream. Raises HostError when it cannot be started."""

    def close(self) -> None:
        """Close; idempotent."""


def iter_stdout(stream: Stream) -> Iterator[bytes]:
    """Yield stdout until it ends."""
    while True:
        data = stream.read(0.5)
        if data is None:
            continue
        if not data:
            return
        yield data
