"""Jump hosts: one connection to each, shared by all hosts behind it, and channels through it."""

import threading
import time
from collections.abc import Callable
from typing import TypeAlias

import paramiko

from launcher import errors
from launcher.local.descriptors import is_exhausted
from launcher.local.fanout_places import release_place
from launcher.transports.base import Endpoint
from launcher.transports.ssh.dial import NOT_LISTENING
from launcher.transports.ssh.transport import SshTransport

Opened: TypeAlias = tuple[SshTransport, Callable[[], None]]
"""A connection, and what releases the jump hosts that it goes through."""

_FAILURE_KEPT_S = 3.0  # a jump host's failure stands for all behind it; later ones try again
_PROHIBITED = 1  # SSH_OPEN_ADMINISTRATIVELY_PROHIBITED of RFC 4254, 5.1
_NO_ANSWER = "is the host up, and do firewalls let its jump host through to that port?"


class SharedJumps:
    """Connections to jump hosts, one per hop however many hosts lie behind it.

    sshd on a bastion drops connections above its MaxStartups, so a hundred of them at once would fail. A hop
    that cannot be reached costs its time-out once: all who wait for it share the failure, and so do those who
    ask within _FAILURE_KEPT_S after it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[Endpoint, _Shared] = {}

    def get(self, hop: Endpoint, opener: Callable[[], Opened]) -> Opened:
        """Return the connection to a hop, which `opener` opens where there is none. Raises HostError."""
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
        with release_place():
            shared.ready.wait()
        if shared.wire is None:
            raise shared.failure or errors.ConnectionLost(hop.name, "the connection ended")
        return shared.wire, lambda: self._leave(hop, shared)

    def _fill(self, hop: Endpoint, shared: "_Shared", opener: Callable[[], Opened]) -> None:
        try:
            shared.wire, shared.release = opener()
        except errors.HostError as failure:
            shared.failure = failure
            shared.failed_until = time.monotonic() + _FAILURE_KEPT_S
            raise
        except OSError as failure:
            if is_exhausted(failure):
                shared.failure = errors.DescriptorsExhausted(hop.name)
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
        self.failure: errors.HostError | None = None
        self.failed_until = 0.0  # by the monotonic clock: for others of the same fan-out
        self.release: Callable[[], None] = do_nothing


def open_through(via: SshTransport, hop: Endpoint, endpoint: Endpoint) -> paramiko.Channel:
    """Open a channel on a jump host to the next host's SSH port."""
    target = (endpoint.address, endpoint.port)
    try:
        limit_s = endpoint.connect_timeout_s  # the jump host looks up the name, too
        with release_place():
            return via.open_channel("direct-tcpip", target, ("127.0.0.1", 0), timeout=limit_s)
    except (paramiko.SSHException, OSError, EOFError) as failure:
        where = f"{endpoint.address} port {endpoint.port} from jump host {hop.name}"
        if "timeout" in str(failure).lower():
            message = f"no answer from {where} within {endpoint.connect_timeout_s:g} s"
            raise errors.ConnectionTimedOut(endpoint.name, message, _NO_ANSWER) from None
        if isinstance(failure, paramiko.ChannelException) and failure.code == _PROHIBITED:
            fix = f"ask the administrator of {hop.name} (AllowTcpForwarding, PermitOpen of its sshd)"
            message = f"cannot connect to {where}: its sshd forwards nothing to it"
            raise errors.HostError(endpoint.name, message, fix) from None
        said = via.forward_error() or str(failure) or "connection lost"
        kind, fix = _forward_error(said, hop.name)
        raise kind(endpoint.name, f"cannot connect to {where}: {said}", fix) from None


def _forward_error(message: str, hop: str) -> tuple[type[errors.HostError], str]:
    """Choose class and fix by the jump host's words: sshd passes on strerror, gai_strerror or its own."""
    words = message.lower()
    if "refused" in words:
        return errors.ConnectionRefused, NOT_LISTENING
    if "timed out" in words:
        return errors.ConnectionTimedOut, _NO_ANSWER
    if "name or service" in words or "resol" in words:
        fix = f"{hop} looks it up: check the spelling, or set `address:` in hosts.yaml to its IP address"
        return errors.NameNotResolved, fix
    if "no route" in words or "unreachable" in words:
        return errors.HostError, f"is the host up? If so, check the network of {hop} and its routes"
    return errors.HostError, ""


def do_nothing() -> None:
    """Release no jump host: there is none."""
