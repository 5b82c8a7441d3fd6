"""The SSH transport: one verified, authenticated connection per host, through its jump hosts."""

import contextlib
import logging
import math
import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import lru_cache
from typing import Unpack

import paramiko

from launcher.errors import CommandTimedOut, ConnectionLost, ConnectionTimedOut, HostError
from launcher.local.descriptors import raise_if_exhausted
from launcher.local.fanout_places import SESSION, release_place
from launcher.transports.base import Closing, CommandResult, Endpoint, OpenOptions, RunOptions
from launcher.transports.command import RUN_S, explain_timeout, run_to_completion
from launcher.transports.quoting import quote_argv
from launcher.transports.ssh import auth, host_keys
from launcher.transports.ssh.dial import dial
from launcher.transports.ssh.jump_hosts import Opened, SharedJumps, do_nothing, open_through
from launcher.transports.ssh.known_hosts import HostKeys
from launcher.transports.ssh.ssh_command import format_ssh_command
from launcher.transports.ssh.transport import ChannelSocket, SshTransport, explain_lost_connection

_CHUNK = 1 << 16
_PACKET = (1 << 15) - 64
"""As much as paramiko puts into one packet for sshd; of more it would copy the rest once for each packet."""
_GONE = (OSError, EOFError, paramiko.SSHException)
"""What paramiko raises where the connection has broken; reading does too, for it grants the host room."""
_STALLED_S = 60.0  # a command that reads none of its input for this long is not going to


class SshStream:
    """See `base.Stream` for the contract."""

    def __init__(self, host: str, channel: paramiko.Channel) -> None:
        self.host = host
        self._channel = channel

    def write(self, data: bytes) -> None:
        """Send to its stdin; raises HostError when the connection is gone or the command reads no more."""
        left = memoryview(data)
        deadline = time.monotonic() + _STALLED_S
        while left:
            try:
                sent = self._channel.send(bytes(left[:_PACKET]))
            except TimeoutError:  # the channel's time-out is read()'s; only a long stall counts
                if time.monotonic() > deadline:
                    raise ConnectionLost(self.host, f"took no input for {_STALLED_S:g} s") from None
                continue
            except _GONE as failure:
                why = failure or "the connection is gone"
                raise ConnectionLost(self.host, f"the command's input was closed: {why}") from None
            if sent == 0:
                raise ConnectionLost(self.host, "the command's input was closed")
            left = left[sent:]
            deadline = time.monotonic() + _STALLED_S

    def can_write(self, data: bytes) -> bool:
        """Say whether `data` can be sent without waiting for the command to read."""
        return len(data) <= self._channel.out_window_size

    def close_stdin(self) -> None:
        """Send EOF."""
        with contextlib.suppress(*_GONE):
            self._channel.shutdown_write()

    def read(self, timeout_s: float) -> bytes | None:
        """Return the next stdout bytes, b"" at the end, None when nothing came in time."""
        self._channel.settimeout(max(0.0, timeout_s))
        try:
            return self._channel.recv(_CHUNK)
        except TimeoutError:
            return None
        except _GONE:
            return b""

    def read_stderr(self) -> bytes:
        """Return what stderr has held so far, without waiting; what comes meanwhile is for the next call."""
        with contextlib.suppress(*_GONE):
            if self._channel.recv_stderr_ready():
                return self._channel.recv_stderr(self._channel.in_window_size)
        return b""

    def wait(self, timeout_s: float) -> int | None:
        """Return the exit status, None if still running; raises ConnectionLost when it never came."""
        if not self._channel.status_event.wait(max(0.0, timeout_s)):
            return None
        if self._channel.exit_status == -1:  # paramiko's "none was sent", set when the channel closes
            raise ConnectionLost(self.host, "the connection ended before the command did")
        return self._channel.exit_status

    def close(self) -> None:
        """Drop the channel; the far side sees EOF or SIGPIPE."""
        with contextlib.suppress(*_GONE):
            self._channel.close()


# paramiko logs tracebacks of lost connections; each of them becomes a HostError.
logging.getLogger("paramiko").addHandler(logging.NullHandler())
logging.getLogger("paramiko").setLevel(logging.CRITICAL + 1)
logging.getLogger("paramiko").propagate = False


class SshConnection(Closing):
    """An open SSH connection; see `base.Connection` for the contract."""

    def __init__(self, endpoint: Endpoint, wire: SshTransport, release: Callable[[], None]) -> None:
        self.name = endpoint.name
        self._endpoint = endpoint
        self._wire = wire
        self._release = release

    def command_line(self, argv: Iterable[str]) -> str:
        """Return `ssh HOST COMMAND`; see the contract."""
        return format_ssh_command(self._endpoint.ssh_words, argv)

    def run(self, argv: Iterable[str], **options: Unpack[RunOptions]) -> CommandResult:
        """Run to the end; see the contract."""
        timeout_s = options.get("timeout_s", RUN_S)
        deadline = time.monotonic() + timeout_s
        with contextlib.closing(self._exec(argv, deadline)) as stream:
            options["timeout_s"] = deadline - time.monotonic()
            try:
                return run_to_completion(stream, self.name, **options)
            except CommandTimedOut:
                raise explain_timeout(self.name, timeout_s) from None

    def start(self, argv: Iterable[str]) -> SshStream:
        """Start and stream; see the contract."""
        return self._exec(argv)

    def close(self) -> None:
        """Close; idempotent."""
        self._wire.close()
        release, self._release = self._release, do_nothing
        release()

    def _exec(self, argv: Iterable[str], deadline: float = math.inf) -> SshStream:
        command = quote_argv(argv)
        if "\0" in command:
            raise HostError(self.name, "an argument holds a NUL byte, which no program can receive")
        limit_s = min(self._endpoint.connect_timeout_s, max(0.0, deadline - time.monotonic()))
        try:
            with release_place(SESSION) as wait:
                channel = self._wire.open_channel("session", timeout=limit_s)
                wait.note_answer()
            left_s = min(limit_s, max(0.0, deadline - time.monotonic()))
            self._wire.execute(channel, command.encode("utf-8", "surrogateescape"), left_s)
        except (paramiko.SSHException, OSError, EOFError) as failure:
            if "timeout" in str(failure).lower():
                message = f"it opened no session within {limit_s:.3g} s"
                raise ConnectionTimedOut(self.name, message, "is its sshd overloaded?") from None
            raise explain_lost_connection(self.name, "it opened no session", failure) from None
        return SshStream(self.name, channel)


class _NewKeyAccepted(Exception):
    """The user said yes to a new host key."""


class SshOpener:
    """Opens SSH connections, sharing what can be shared: loaded keys, and the connections to jump hosts."""

    def __init__(self, options: OpenOptions) -> None:
        self._options = options
        self._ring = auth.KeyRing(options.prompt)
        self._jumps = SharedJumps()

    def __call__(self, endpoint: Endpoint, dialled: socket.socket | None = None) -> SshConnection:
        """Open a connection, over the socket that is `dialled`, or raise the HostError that says why not."""
        wire, release = self._open(endpoint, dialled)
        return SshConnection(endpoint, wire, release)

    def _open(self, endpoint: Endpoint, dialled: socket.socket | None = None) -> Opened:
        try:
            return self._dial(endpoint, dialled)
        except _NewKeyAccepted:  # sshd hangs up on who thinks for long (LoginGraceTime)
            return self._dial(endpoint)

    def _dial(self, endpoint: Endpoint, dialled: socket.socket | None = None) -> Opened:
        if not endpoint.jumps:
            sock = dial(endpoint) if dialled is None else dialled
            return self._handshake(endpoint, SshTransport(sock, endpoint.connect_timeout_s)), do_nothing
        *outer, last = endpoint.jumps
        hop = replace(last, jumps=tuple(outer))
        try:
            via, release = self._jumps.get(hop, lambda: self._open(hop))
        except HostError as failure:
            detail = f"jump host {hop.name}: {failure.detail}"
            raise type(failure)(endpoint.name, detail, failure.fix) from None
        try:
            return self._handshake(
                endpoint,
                SshTransport(ChannelSocket(open_through(via, hop, endpoint)), endpoint.connect_timeout_s),
            ), release
        except BaseException:
            release()
            raise

    def _verify(self, endpoint: Endpoint, known: HostKeys, key: paramiko.PKey) -> None:
        """Verify the host's key; ask about a new one at a terminal. Raises _NewKeyAccepted after a yes."""
        accept_new = self._options.accept_new_host_keys or endpoint.new_host_keys in ("accept", "unchecked")
        try:
            host_keys.verify_key(endpoint, known, key, accept_new=accept_new)
        except host_keys.NewHostKey:
            if self._ring.has_taken(endpoint, key):
                return
            confirm = self._options.confirm
            if confirm is None or endpoint.new_host_keys != "ask":
                raise
            if not self._ring.takes_new_key(endpoint, key, confirm):
                raise
            host_keys.verify_key(endpoint, host_keys.read_known_keys(endpoint), key, accept_new=True)
            raise _NewKeyAccepted from None

    def _handshake(self, endpoint: Endpoint, wire: SshTransport) -> SshTransport:
        try:
            known = host_keys.read_known_keys(endpoint)
            host_keys.prefer_known_key_types(wire, known)
            wire.exchange_keys(endpoint)
            key = wire.get_remote_server_key()
            self._verify(endpoint, known, key)
            auth.Login(wire, endpoint, self._ring).authenticate()
        except (paramiko.SSHException, OSError, EOFError) as failure:
            wire.close()
            raise_if_exhausted(failure)
            raise explain_lost_connection(endpoint.name, "the SSH handshake failed", failure) from None
        except BaseException:
            wire.close()
            raise
        return wire


_one_opener = threading.Lock()
_opener = lru_cache(maxsize=4)(SshOpener)


def build_ssh_opener(options: OpenOptions) -> SshOpener:
    """Return what opens with these options, the same for all calls: it keeps what it has loaded."""
    with _one_opener:  # lru_cache lets two threads make one each, and both would ask for a passphrase
        return _opener(options)
