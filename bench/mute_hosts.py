"""Stand-ins for SSH hosts that go silent at one stage of a connection, and hang up when they are to."""

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

import paramiko

STAGES = ("accept", "banner", "keys", "login", "session", "command", "answer")
"""What each does not go beyond: nothing comes after it."""


class _AfterKeyList(paramiko.Transport):
    """Says which algorithms it has and no more."""

    def _parse_kex_init(self, _message: paramiko.Message) -> None:
        cast("_Server", self.server_object).stall()


class _Server(paramiko.ServerInterface):
    """Takes every key, up to the stage."""

    def __init__(self, stage: str, over: threading.Event) -> None:
        self._stage = stage
        self._over = over

    def stall(self) -> None:
        """Say nothing until the end."""
        self._over.wait()

    def get_allowed_auths(self, _username: str) -> str:
        """See paramiko."""
        return "publickey"

    def check_auth_publickey(self, _username: str, _key: paramiko.PKey) -> int:
        """See paramiko."""
        self._stall_at("login")
        return paramiko.common.AUTH_SUCCESSFUL

    def check_channel_request(self, _kind: str, _number: int) -> int:
        """See paramiko."""
        self._stall_at("session")
        return paramiko.common.OPEN_SUCCEEDED

    def check_channel_direct_tcpip_request(self, *_addresses: object) -> int:
        """See paramiko."""
        self._stall_at("session")
        return paramiko.common.OPEN_FAILED_CONNECT_FAILED

    def check_channel_exec_request(self, _channel: paramiko.Channel, _command: bytes) -> bool:
        """See paramiko."""
        self._stall_at("command")
        return True

    def _stall_at(self, stage: str) -> None:
        if self._stage == stage:
            self.stall()


class MuteHosts:
    """A port each of whose connections goes silent at the stage."""

    def __init__(self, stage: str, host_key: paramiko.PKey) -> None:
        self.accepted = 0
        self._stage = stage
        self._host_key = host_key
        self._over = threading.Event()
        self._open: list[socket.socket | paramiko.Transport] = []
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=1024)
        self.port = int(self._listener.getsockname()[1])

    @classmethod
    @contextmanager
    def up(cls, stage: str, host_key: paramiko.PKey) -> Iterator["MuteHosts"]:
        """Listen."""
        hosts = cls(stage, host_key)
        thread = threading.Thread(target=hosts._accept, daemon=True)
        thread.start()
        try:
            yield hosts
        finally:
            hosts._listener.shutdown(socket.SHUT_RDWR)
            hosts._listener.close()
            thread.join()
            hosts.hang_up()

    def hang_up(self) -> None:
        """End every connection."""
        self._over.set()
        while self._open:
            self._open.pop().close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self._listener.accept()
                self.accepted += 1
                self._open.append(self._begin(sock))

    def _begin(self, sock: socket.socket) -> socket.socket | paramiko.Transport:
        if self._stage == "banner":
            sock.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
        if self._stage in ("accept", "banner"):
            return sock
        transport = (_AfterKeyList if self._stage == "keys" else paramiko.Transport)(sock)
        transport.add_server_key(self._host_key)
        transport.start_server(threading.Event(), _Server(self._stage, self._over))
        return transport
