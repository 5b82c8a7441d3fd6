"""The SSH transport: one verified, authenticated connection per host, through its jump hosts."""

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

import paramiko

from launcher.errors import (
    ConnectionLost,
    ConnectionRefused,
    ConnectionTimedOut,
    DescriptorsExhausted,
    HostError,
    NameNotResolved,
)
from launcher.local.descriptors import is_exhausted, raise_if_exhausted
from launcher.local.fanout_patience import SESSION, released_place
from launcher.transports.base import Closing, CommandResult, Endpoint, OpenOptions
from launcher.transports.command import run_to_completion
from launcher.transports.quoting import quote_argv
from launcher.transports.ssh import auth, host_keys
from launcher.transports.ssh.channel import SshStream
from launcher.transports.ssh.dial import dial
from launcher.transports.ssh.known_hosts import HostKeys
from launcher.transports.ssh.transport import ChannelSocket, SshTransport, connection_lost

T = TypeVar("T")

_FAILURE_KEPT_S = 3.0
"""How long a jump host's failure stands for all hosts behind it; who tries again later connects again."""

# paramiko logs tracebacks of lost connections; each of them becomes a HostError.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)
logging.getLogger("paramiko").propagate = False


class SshConnection(Closing):
    """An open SSH connection; see `base.Connection` for the contract."""

    def __init__(self, endpoint: Endpoint, wire: SshTransport, release: Callable[[], None]) -> None:
        self._endpoint = endpoint
        self._wire = wire
        self._release = release

    @property
    def name(self) -> str:
        """The host's name as the user typed it."""
        return self._endpoint.name

    def run(
        self, argv: Iterable[str], *, stdin: bytes = b"", timeout_s: float = 60.0, max_output: int = 64 << 20
    ) -> CommandResult:
        """Run to the end; see the contract."""
        deadline = time.monotonic() + timeout_s
        with contextlib.closing(self._exec(argv)) as stream:
            return run_to_completion(
                stream, self.name, stdin, deadline=deadline, timeout_s=timeout_s, max_output=max_output
            )

    def start(self, argv: Iterable[str]) -> SshStream:
        """Start and stream; see the contract."""
        return self._exec(argv)

    def close(self) -> None:
        """Close; idempotent."""
        self._wire.close()
        release, self._release = self._release, _nothing
        release()

    def _exec(self, argv: Iterable[str]) -> SshStream:
        command = quote_argv(argv)
        if "\0" in command:
            raise HostError(self.name, "an argument holds a NUL byte, which no program can receive")
        limit_s = self._endpoint.connect_timeout_s
        try:
            with released_place(SESSION) as wait:
                channel = self._wire.open_channel("session", timeout=limit_s)
                wait.note_answer()
            self._wire.execute(channel, command.encode("utf-8", "surrogateescape"), limit_s)
        except (paramiko.SSHException, OSError, EOFError) as failure:
            if "timeout" in str(failure).lower():
                message = f"it opened no session within {limit_s:g} s"
                raise ConnectionTimedOut(self.name, message, "is its sshd overloaded?") from None
            raise connection_lost(self.name, "it opened no session", failure) from None
        return SshStream(self.name, channel)


class _NewKeyAccepted(Exception):
    """The user said yes to a new host key."""


class SshOpener:
    """Opens SSH connections, sharing what can be shared: loaded keys, and the connections to jump hosts."""

    def __init__(self, options: OpenOptions) -> None:
        self._options = options
        self._ring = auth.KeyRing(options.prompt)
        self._jumps = _SharedJumps()

    def __call__(self, endpoint: Endpoint, dialled: socket.socket | None = None) -> SshConnection:
        """Open a connection, over the socket that is `dialled`, or raise the HostError that says why not."""
        wire, release = self._open(endpoint, dialled)
        return SshConnection(endpoint, wire, release)

    def _open(
        self, endpoint: Endpoint, dialled: socket.socket | None = None
    ) -> tuple[SshTransport, Callable[[], None]]:
        try:
            return self._dial(endpoint, dialled)
        except (
            _NewKeyAccepted
        ):  # sshd hangs up on who thinks for long (LoginGraceTime), so it is dialled anew
            return self._dial(endpoint)

    def _dial(
        self, endpoint: Endpoint, dialled: socket.socket | None = None
    ) -> tuple[SshTransport, Callable[[], None]]:
        if not endpoint.jumps:
            sock = dial(endpoint) if dialled is None else dialled
            return self._handshake(endpoint, SshTransport(sock, endpoint.connect_timeout_s)), _nothing
        *outer, last = endpoint.jumps
        hop = replace(last, jumps=tuple(outer))
        try:
            via, release = self._jumps.get(hop, lambda: self._open(hop))
        except HostError as failure:
            raise _of_jump(endpoint, hop, failure) from None
        try:
            return self._handshake(
                endpoint,
                SshTransport(ChannelSocket(_through(via, hop, endpoint)), endpoint.connect_timeout_s),
            ), release
        except BaseException:
            release()
            raise

    def _verify(self, endpoint: Endpoint, known: HostKeys, key: paramiko.PKey) -> None:
        """Verify the host's key; at a terminal gpulaunch asks about a new one. Raises _Taken after a yes."""
        accept_new = self._options.accept_new_host_keys or endpoint.new_host_keys in ("accept", "unchecked")
        try:
            host_keys.verify(endpoint, known, key, accept_new=accept_new)
        except host_keys.NewHostKey:
            if self._ring.took(endpoint, key):
                return
            confirm = self._options.confirm
            if confirm is None or endpoint.new_host_keys != "ask":
                raise
            if not self._ring.takes_new_key(endpoint, key, confirm):
                raise
            host_keys.verify(endpoint, host_keys.known_host_keys(endpoint), key, accept_new=True)
            raise _NewKeyAccepted from None

    def _handshake(self, endpoint: Endpoint, wire: SshTransport) -> SshTransport:
        try:
            known = host_keys.known_host_keys(endpoint)
            host_keys.prefer_known_key_types(wire, known)
            wire.exchange_keys(endpoint)
            key = wire.get_remote_server_key()
            self._verify(endpoint, known, key)
            auth.authenticate(wire, endpoint, self._ring)
        except (paramiko.SSHException, OSError, EOFError) as failure:
            wire.close()
            raise_if_exhausted(failure)
            raise connection_lost(endpoint.name, "the SSH handshake failed", failure) from None
        except BaseException:
            wire.close()
            raise
        return wire


def open_ssh(endpoint: Endpoint, options: OpenOptions, dialled: socket.socket | None = None) -> SshConnection:
    """Open, over the socket that is `dialled`, with what earlier calls with the same options have loaded."""
    return _opener(options)(endpoint, dialled)


@lru_cache(maxsize=4)
def _opener(options: OpenOptions) -> SshOpener:
    return SshOpener(options)


class _SharedJumps:
    """Connections to jump hosts, one per hop however many hosts lie behind it.

    sshd on a bastion drops connections above its MaxStartups, so a hundred of them at once would fail. A hop
    that cannot be reached costs its time-out once: all who wait for it share the failure, and so do those who
    ask within _FAILURE_KEPT_S after it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[Endpoint, _Shared] = {}

    def get(
        self, hop: Endpoint, opener: Callable[[], tuple[SshTransport, Callable[[], None]]]
    ) -> tuple[SshTransport, Callable[[], None]]:
        with self._lock:
            shared = self._open.get(hop)
            if shared is not None and shared.failure is not None and time.monotonic() > shared.failed_until:
                shared = None
            mine = shared is None or (shared.wire is not None and not shared.wire.is_active())
            if shared is None or mine:
                shared = self._open[hop] = _Shared()
            shared.users += 1
        if mine:
            self._fill(hop, shared, opener)
        with released_place():
            shared.ready.wait()
        if shared.wire is None:
            raise shared.failure or ConnectionLost(hop.name, "the connection ended")
        return shared.wire, lambda: self._leave(hop, shared)

    def _fill(
        self, hop: Endpoint, shared: "_Shared", opener: Callable[[], tuple[SshTransport, Callable[[], None]]]
    ) -> None:
        try:
            shared.wire, shared.release = opener()
        except HostError as failure:
            shared.failure = failure
            shared.failed_until = time.monotonic() + _FAILURE_KEPT_S
            raise
        except OSError as failure:
            if is_exhausted(failure):
                shared.failure = DescriptorsExhausted(hop.name)
            raise
        finally:
            if shared.wire is None and time.monotonic() > shared.failed_until:
                with self._lock:
                    self._open.pop(hop, None)
            shared.ready.set()

    def _leave(self, hop: Endpoint, shared: "_Shared") -> None:
        with self._lock:
            shared.users -= 1
            if shared.users:
                return
            if self._open.get(hop) is shared:
                del self._open[hop]
        if shared.wire is not None:
            shared.wire.close()
            shared.release()


class _Shared:
    """One hop being opened or open, and how many use it."""

    def __init__(self) -> None:
        self.ready = threading.Event()
        self.users = 0
        self.wire: SshTransport | None = None
        self.failure: HostError | None = None
        self.failed_until = 0.0  # by the monotonic clock: for others of the same fan-out
        self.release: Callable[[], None] = _nothing


def _through(via: SshTransport, hop: Endpoint, endpoint: Endpoint) -> paramiko.Channel:
    """Open a channel on a jump host to the next host's SSH port."""
    target = (endpoint.address, endpoint.port)
    try:
        limit_s = endpoint.connect_timeout_s
        with released_place():
            return via.open_channel("direct-tcpip", target, ("127.0.0.1", 0), timeout=limit_s)
    except (paramiko.SSHException, OSError, EOFError) as failure:
        where = f"{endpoint.address} port {endpoint.port} from jump host {hop.name}"
        if "timeout" in str(failure).lower():
            message = f"no answer from {where} within {endpoint.connect_timeout_s:g} s"
            raise ConnectionTimedOut(endpoint.name, message) from None
        said = via.forward_error() or str(failure) or "connection lost"
        raise _forward_error(said)(endpoint.name, f"cannot connect to {where}: {said}") from None


def _forward_error(said: str) -> type[HostError]:
    """Choose the class by the jump host's words: sshd passes on strerror and gai_strerror."""
    words = said.lower()
    if "refused" in words:
        return ConnectionRefused
    if "timed out" in words:
        return ConnectionTimedOut
    if "name or service" in words or "resol" in words:
        return NameNotResolved
    return HostError


def _of_jump(endpoint: Endpoint, hop: Endpoint, failure: HostError) -> HostError:
    return type(failure)(endpoint.name, f"jump host {hop.name}: {failure.detail}", failure.fix)


def _nothing() -> None:
    pass
