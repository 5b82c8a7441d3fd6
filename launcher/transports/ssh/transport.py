"""paramiko's Transport, taught what it leaves out: steps that time out, exit signals, why a forward failed.

paramiko has no public way to these; the few private names used are the same from 3.5 to 5.1, and the
contract test fails when one of them goes.
"""
# ruff: noqa: SLF001

import contextlib
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeAlias, cast

import paramiko
from paramiko.common import MSG_CHANNEL_REQUEST, cMSG_CHANNEL_REQUEST
from paramiko.packet import Packetizer

from launcher.errors import ConnectionLost, HostError
from launcher.local.fanout_places import GREETING, KEYS, SESSION, await_in_place, release_place
from launcher.transports.base import Endpoint
from launcher.transports.ssh.dial import TRY_PROXY, ProxySocket, explain_handshake_timeout

_Handlers: TypeAlias = dict[int, Callable[..., Any]]
_PARAMIKO = cast("Any", paramiko.Transport)

_POLL_S = 30.0
"""How often an idle connection's thread looks around; what happens to its socket wakes it. paramiko's 0.1 s
is 10 wake-ups a second per host."""

_READ = 1 << 15
_LONGEST_GREETING = 1 << 16  # bytes before the version, which paramiko would read without end
_LARGEST_PACKET = 1 << 20  # OpenSSH's PACKET_MAX_SIZE is 256 KiB

_CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes192-ctr", "aes256-ctr")
"""AEAD first: one pass over the data instead of cipher and MAC."""
_KEY_EXCHANGES = (
    "mlkem768x25519-sha256",
    "curve25519-sha256@libssh.org",
    "ecdh-sha2-nistp256",
    "ecdh-sha2-nistp384",
    "ecdh-sha2-nistp521",
    "diffie-hellman-group-exchange-sha256",
    "diffie-hellman-group16-sha512",
    "diffie-hellman-group14-sha256",
)
_MACS = ("hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com", "hmac-sha2-256", "hmac-sha2-512")
_SIGNATURES = (
    *("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "rsa-sha2-512"),
    "rsa-sha2-256",
)
"""Of host keys and of ours. SHA-1 and MD5 are in none of these lists, and so not offered by any paramiko."""


def explain_lost_connection(host: str, event: str, failure: BaseException | None) -> ConnectionLost:
    """Return the error of a connection that a host ended; an EOFError gives no reason of its own."""
    why = str(failure or "") or "the host hung up"
    return ConnectionLost(host, f"{event}: {why}", "is its sshd overloaded (MaxStartups), or restarting?")


def _known(wanted: tuple[str, ...], has: Iterable[str]) -> tuple[str, ...]:
    """Return what paramiko has of our list, in our order."""
    held = frozenset(has)
    return tuple(name for name in wanted if name in held)


def _request(channel: Any, message: paramiko.Message) -> None:
    """Handle exit-signal (RFC 4254, 6.10), which paramiko ignores; everything else is paramiko's."""
    start = message.packet.tell()
    if message.get_text() == "exit-signal":
        message.get_boolean()
        name = f"SIG{message.get_text()}"
        channel.exit_status = -signal.Signals.__members__.get(name, signal.SIGTERM).value
        channel.status_event.set()
        return
    message.packet.seek(start)
    channel._handle_request(message)


class ChannelSocket:
    """A channel on a jump host as the next hop's socket, quiet when the hop itself is gone already."""

    def __init__(self, channel: paramiko.Channel) -> None:
        self._channel = channel

    @property
    def _closed(self) -> bool:  # paramiko asks its sockets so
        return bool(self._channel.closed)

    def send(self, data: bytes) -> int:
        """Send some of it."""
        return self._channel.send(data)

    def recv(self, size: int) -> bytes:
        """Receive some."""
        return self._channel.recv(size)

    def settimeout(self, timeout_s: float | None) -> None:
        """Limit each send and recv."""
        self._channel.settimeout(timeout_s)

    def shutdown(self, _how: int) -> None:
        """Wake a thread that waits in recv; only closing does."""
        self.close()

    def close(self) -> None:
        """Close; idempotent."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.close()


class _ReadAhead:
    """A socket whose small reads come out of large ones; paramiko reads each packet in two.

    It acknowledges what it reads at once. sshd holds a small packet back while its last one is not
    acknowledged (Nagle), which the kernel delays by 40 ms: once at the start of every session.
    """

    def __init__(self, sock: socket.socket | ChannelSocket) -> None:
        self._sock = sock
        is_tcp = isinstance(sock, socket.socket) and sock.family in (socket.AF_INET, socket.AF_INET6)
        self._quick_ack = getattr(socket, "TCP_QUICKACK", None) if is_tcp else None  # Linux alone has it
        self._held = b""
        self._at = 0
        self.send, self.close = sock.send, sock.close

    def recv(self, size: int) -> bytes:
        """Receive some."""
        if self._at == len(self._held):
            self._held, self._at = self._sock.recv(max(size, _READ)), 0
            if self._quick_ack is not None and isinstance(self._sock, socket.socket):
                with contextlib.suppress(OSError):  # the host hung up; the next read says so
                    self._sock.setsockopt(socket.IPPROTO_TCP, self._quick_ack, 1)  # holds for a few segments
        part = self._held[self._at : self._at + size]
        self._at += len(part)
        return part


class _Packets(Packetizer):
    def __init__(self, sock: socket.socket | ChannelSocket) -> None:
        super().__init__(cast("Any", _ReadAhead(sock)))
        self._greeting = 0

    def _read_timeout(self, timeout: float) -> bytes:
        """Read some of the greeting, which is bounded. Raises SSHException."""
        data = cast("bytes", cast("Any", super())._read_timeout(timeout))
        self._greeting += len(data)
        if self._greeting > _LONGEST_GREETING:
            raise paramiko.SSHException("its greeting has no end")
        return data

    def read_all(self, n: int, check_rekey: bool = False) -> bytes:  # noqa: FBT001, FBT002 - paramiko's signature
        """Read so many bytes: a packet's length comes from the host. Raises SSHException."""
        if n > _LARGEST_PACKET:
            raise paramiko.SSHException("it sent a packet that is too large")
        return super().read_all(n, check_rekey)

    def start_handshake(self, _timeout_s: float) -> None:
        """Start no thread for a time-out: exchange_keys has its own."""


class SshTransport(paramiko.Transport):
    """One SSH connection's transport."""

    _active_check_timeout = _POLL_S
    _channel_handler_table: ClassVar[_Handlers] = {
        **_PARAMIKO._channel_handler_table,
        MSG_CHANNEL_REQUEST: _request,
    }

    def __init__(self, sock: socket.socket | ChannelSocket, limit_s: float) -> None:
        super().__init__(cast("Any", sock), packetizer_class=_Packets)
        self.takes_certificates = False
        self.refusals: dict[int, str] = {}  # channel id -> the host's words
        self._answered = threading.Event()  # its side of the key exchange has come, or never will
        self._requests = threading.local()  # a jump host's wire opens channels for many threads
        self.banner_timeout = self.handshake_timeout = self.auth_timeout = self.channel_timeout = limit_s
        options = self.get_security_options()
        options.ciphers = _known(_CIPHERS, options.ciphers)
        options.kex = _known(_KEY_EXCHANGES, options.kex)
        options.digests = _known(_MACS, options.digests)
        options.key_types = _known(_SIGNATURES, options.key_types)
        self._preferred_pubkeys = _known(_SIGNATURES, cast("Any", self)._preferred_pubkeys)

    def exchange_keys(self, endpoint: Endpoint) -> None:
        """Exchange banners and keys within the endpoint's time; nothing is verified yet."""
        done = threading.Event()
        self.start_client(event=done)
        limit_s = endpoint.connect_timeout_s
        deadline = time.monotonic() + limit_s
        with release_place(GREETING) as wait:
            if self._answered.wait(limit_s):
                wait.note_answer()
        finished = await_in_place(done, max(0.0, deadline - time.monotonic()), KEYS)
        if finished and self.is_active():
            return
        failure = self.get_exception()
        seen = self.remote_version
        self.close()
        if not finished:
            what = "did not finish the SSH handshake" if seen else "sent no SSH banner"
            raise explain_handshake_timeout(endpoint, what, self.sock)
        if isinstance(failure, paramiko.ssh_exception.IncompatiblePeer):
            raise HostError(endpoint.name, f"no SSH algorithm in common: {failure}")
        if isinstance(self.sock, ProxySocket) and (why := self.sock.explain_end()):
            raise ConnectionLost(endpoint.name, why, TRY_PROXY)
        if not seen:
            message = f"port {endpoint.port} of {endpoint.address} does not speak SSH, or hung up at once"
            raise ConnectionLost(
                endpoint.name, message, "is this the SSH port? Is sshd dropping connections?"
            )
        raise explain_lost_connection(endpoint.name, "the SSH handshake failed", failure)

    def execute(self, channel: paramiko.Channel, command: bytes, limit_s: float) -> None:
        """Ask for a command to be run, as Channel.exec_command does, but wait for the answer limit_s at most.

        Raises TimeoutError, the connection closed then, or SSHException where the host says no.
        """
        requesting = cast("Any", channel)
        message = paramiko.Message()
        message.add_byte(cMSG_CHANNEL_REQUEST)
        message.add_int(requesting.remote_chanid)
        message.add_string("exec")
        message.add_boolean(True)
        message.add_string(command)
        requesting._event_pending()
        cast("Any", self)._send_user_message(message)
        if not await_in_place(requesting.event, limit_s, SESSION):
            self.close()
            raise TimeoutError("timeout")
        requesting._wait_for_event()

    def run(self) -> None:
        """Read what the host sends, in a thread of its own."""
        try:
            super().run()
        finally:
            self._answered.set()

    def _parse_kex_init(self, message: paramiko.Message) -> None:
        self._answered.set()
        _PARAMIKO._parse_kex_init(self, message)

    def close(self) -> None:
        """Close at once: without the shutdown, the reading thread would notice only after its poll."""
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self.sock.shutdown(socket.SHUT_RDWR)
        super().close()
        self.sock.close()  # paramiko leaves it open where its thread never started

    def forward_error(self) -> str:
        """Return the host's words for the channel that this thread last asked for, or ""."""
        return self.refusals.pop(getattr(self._requests, "chanid", -1), "")

    def _log(self, *_what: object) -> None:
        """Say nothing: what matters becomes an error of ours, and the rest is not read."""

    def _parse_debug(self, _message: paramiko.Message) -> None:
        """Pass over sshd's remarks on its authorized_keys, which paramiko makes printable byte by byte."""

    def _filter_algorithm(self, kind: str) -> tuple[str, ...]:
        """Return all of a kind: none is disabled by name, and paramiko asks for each many times."""
        return tuple(getattr(self, f"_preferred_{kind}"))

    @property
    def preferred_keys(self) -> tuple[str, ...]:
        """The host key algorithms to ask for; certificates first where an authority is known."""
        keys: tuple[str, ...] = self._filter_algorithm("keys")
        certified = tuple(f"{kind}-cert-v01@openssh.com" for kind in keys) if self.takes_certificates else ()
        return certified + keys

    def _next_channel(self) -> int:
        self._requests.chanid = chanid = int(_PARAMIKO._next_channel(self))
        return chanid

    def _parse_channel_open_failure(self, message: paramiko.Message) -> None:
        start = message.packet.tell()
        chanid, _code, words = message.get_int(), message.get_int(), message.get_text()
        self.refusals[chanid] = words
        message.packet.seek(start)
        _PARAMIKO._parse_channel_open_failure(self, message)
