"""Sockets to SSH ports: a name resolved and connected to, or a ProxyCommand started, with time-outs."""

import contextlib
import errno
import ipaddress
import os
import signal
import socket
import subprocess
import threading
import time
from typing import Self

from launcher.errors import ConnectionRefused, ConnectionTimedOut, HostError, NameNotResolved
from launcher.local.descriptors import is_exhausted, raise_if_exhausted
from launcher.local.fanout_places import CONNECTION, release_place
from launcher.text import one_line
from launcher.transports.base import Endpoint
from launcher.transports.ssh.dns_lookups import Address, Answer, Lookups

_KEEPALIVE_IDLE_S = 15
_KEEPALIVE_EVERY_S = 5
_KEEPALIVE_COUNT = 4
_UNACKED_MS = 30_000  # a host that vanishes without a word (power, cable) is noticed in half a minute


def dial(endpoint: Endpoint) -> socket.socket:
    """Return a connected socket to the endpoint's SSH port (not through its jumps).

    Raises NameNotResolved, ConnectionRefused, ConnectionTimedOut or HostError (no route and the like).
    """
    if endpoint.proxy_command:
        return _run_proxy(endpoint)
    addresses = _resolve(endpoint)
    deadline = time.monotonic() + endpoint.reach_timeout_s
    failures: list[OSError] = []
    for left, (family, address) in zip(range(len(addresses), 0, -1), addresses, strict=True):
        share_s = max(0.05, (deadline - time.monotonic()) / left)
        try:
            return _connect(family, address, share_s)
        except OSError as failure:
            raise_if_exhausted(failure)
            failures.append(failure)
    raise connect_failure(endpoint, failures)


def _connect(family: socket.AddressFamily, address: object, timeout_s: float) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.settimeout(timeout_s)
        with release_place(CONNECTION) as wait:
            sock.connect(address)  # type: ignore[arg-type]  # what getaddrinfo returned for this family
            wait.note_answer()
        notice_death(sock)
    except BaseException:
        sock.close()
        raise
    return sock


def notice_death(sock: socket.socket) -> None:
    """Prepare a connected socket: nothing is held back, and an end without a word is noticed."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", _KEEPALIVE_IDLE_S),
        ("TCP_KEEPINTVL", _KEEPALIVE_EVERY_S),
        ("TCP_KEEPCNT", _KEEPALIVE_COUNT),
        ("TCP_USER_TIMEOUT", _UNACKED_MS),
    ):
        option = getattr(socket, name, None)  # not on every Unix
        if option is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, option, value)


lookups = Lookups()


def parse_numeric_address(endpoint: Endpoint) -> Address | None:
    """Return the endpoint's address where it is an IPv4 address, which takes no resolver."""
    with contextlib.suppress(ValueError):
        if ipaddress.ip_address(endpoint.address).version == 4:
            return socket.AF_INET, (endpoint.address, endpoint.port)
    return None


def _resolve(endpoint: Endpoint) -> list[Address]:
    if (numeric := parse_numeric_address(endpoint)) is not None:
        return [numeric]
    return require_addresses(
        endpoint, lookups.resolve(endpoint.address, endpoint.port, endpoint.connect_timeout_s)
    )


def require_addresses(endpoint: Endpoint, answer: Answer) -> list[Address]:
    """Return the addresses that a name has. Raises NameNotResolved, or what this machine is short of."""
    if isinstance(answer, list) and answer:
        return answer
    failure = None if isinstance(answer, list) else answer
    if failure is not None and is_exhausted(failure):
        raise failure
    named = "its name" if endpoint.address == endpoint.name else f"its address {endpoint.address!r}"
    fix = "check the spelling, or set `address:` in hosts.yaml or HostName in ~/.ssh/config"
    if isinstance(failure, TimeoutError) or getattr(failure, "errno", None) == socket.EAI_AGAIN:
        fix = "check the name server, or set `address:` to an IP"
    if isinstance(failure, TimeoutError):
        raise NameNotResolved(endpoint.name, f"{named} was not resolved {failure}", fix)
    said = getattr(failure, "strerror", None) or str(failure or "") or "no address"
    if isinstance(failure, UnicodeError):  # of Python's encoding by IDNA
        said = "between two dots it has nothing, or more than 63 characters"
    raise NameNotResolved(endpoint.name, f"{named} does not resolve: {said}", fix)


def connect_failure(endpoint: Endpoint, failures: list[OSError]) -> HostError:
    """Return the error of an endpoint none of whose addresses was connected to."""
    where = f"{endpoint.address} port {endpoint.port}"
    if any(isinstance(failure, TimeoutError) for failure in failures):
        message = f"no answer from {where} within {endpoint.reach_timeout_s:g} s"
        fix = (
            f"nc -vz {endpoint.address} {endpoint.port} must connect: is the host up, its firewall open, a "
            "VPN needed? A slow link: ConnectTimeout 20 in ~/.ssh/config"
        )
        return ConnectionTimedOut(endpoint.name, message, fix)
    if any(isinstance(failure, ConnectionRefusedError) for failure in failures):
        message = f"{where} refused the connection: nothing listens on it"
        return ConnectionRefused(endpoint.name, message, NOT_LISTENING)
    said = failures[-1].strerror or str(failures[-1])
    if failures[-1].errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        fix = "is the host up? If so, check the network and its routes"
        return HostError(endpoint.name, f"no way to {where}: {said}", fix)
    return HostError(endpoint.name, f"cannot connect to {where}: {said}")


NOT_LISTENING = "is its port right (a rented machine may change it)? On the host: systemctl status ssh"
TRY_PROXY = "try its ProxyCommand of ~/.ssh/config by hand"


def explain_handshake_timeout(endpoint: Endpoint, symptom: str, sock: object = None) -> ConnectionTimedOut:
    """Return the error of a host that accepts connections and then shows `symptom`: too little."""
    within = f"{symptom} within {endpoint.connect_timeout_s:g} s"
    if isinstance(sock, ProxySocket):
        said = f": {sock.said}" if sock.said else ""
        return ConnectionTimedOut(endpoint.name, f"its ProxyCommand {within}{said}", TRY_PROXY)
    message = f"port {endpoint.port} accepted the connection but {within}"
    return ConnectionTimedOut(endpoint.name, message, "is its sshd overloaded, or is it another service?")


class ProxySocket(socket.socket):
    """Our end of a ProxyCommand's stdin and stdout, which knows what the command said on stderr."""

    _STDERR_KEPT = 1 << 12
    _END_S = 0.5

    def watch(self, process: "subprocess.Popen[bytes]") -> Self:
        """Take the command's stderr and its end; it leaves no zombie."""
        self._process = process
        self._tail = b""
        self._drain = threading.Thread(target=self._read_stderr, daemon=True)
        self._drain.start()
        return self

    def close(self) -> None:
        """Close our end and hang up on the command, as OpenSSH does: some would wait for their far side.

        Below nohup SIGHUP is ignored, by the command too; so SIGTERM follows.
        """
        super().close()
        with contextlib.suppress(OSError):
            self._process.send_signal(signal.SIGHUP)
            self._process.send_signal(signal.SIGTERM)

    def explain_end(self) -> str:
        """Return how the command ended and its last words, "" while it runs."""
        self._drain.join(self._END_S)
        status = self._process.poll()
        if status is None:
            return ""
        ended = f"signal {-status}" if status < 0 else f"exit status {status}"
        return f"its ProxyCommand ended with {ended}" + (f": {self.said}" if self.said else "")

    @property
    def said(self) -> str:
        """The last words of the command on stderr so far."""
        return one_line(self._tail.strip(), 300)

    def _read_stderr(self) -> None:
        with self._process as process:  # waits for its end, too
            while process.stderr and (data := os.read(process.stderr.fileno(), self._STDERR_KEPT)):
                self._tail = (self._tail + data)[-self._STDERR_KEPT :]


def _run_proxy(endpoint: Endpoint) -> ProxySocket:
    """Start the ProxyCommand with one end of a socket pair as its stdin and stdout, as OpenSSH does."""
    ours, theirs = socket.socketpair()
    try:
        # A shell, because ProxyCommand is a shell command by definition; it comes from the user's own files.
        process = subprocess.Popen(
            ["/bin/sh", "-c", f"exec {endpoint.proxy_command}"],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
    except OSError as failure:
        ours.close()
        raise_if_exhausted(failure)
        raise HostError(endpoint.name, f"ProxyCommand cannot be started: {failure.strerror}") from None
    finally:
        theirs.close()
    return ProxySocket(fileno=ours.detach()).watch(process)
