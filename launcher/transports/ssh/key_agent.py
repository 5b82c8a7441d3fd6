"""The keys of ssh-agent: at the socket that IdentityAgent names, or that of the environment."""

import contextlib
import os
import socket
from functools import cached_property

import paramiko
from paramiko.agent import AgentSSH

from launcher.local.home import expand_home
from launcher.transports.base import Endpoint

AGENT_TIMEOUT_S = 60.0  # a key in a security token waits for its owner's touch


class KeyAgent:
    """The agent, asked only when a key of it is wanted."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._agent: _AgentConnection | None = None

    @cached_property
    def keys(self) -> "dict[bytes, paramiko.AgentKey]":
        """The keys that it holds, by public blob; none where it cannot be asked."""
        path = _agent_path(self._endpoint)
        if not path:
            return {}
        with contextlib.suppress(OSError, paramiko.SSHException):
            self._agent = _AgentConnection(path)
            return {key.blob: key for key in self._agent.get_keys()}
        return {}

    def close(self) -> None:
        """End the connection to it."""
        if self._agent is not None:
            self._agent.close()


def _agent_path(endpoint: Endpoint) -> str:
    """Return the agent's socket, or an empty string where there is none or none is wanted."""
    named = endpoint.identity_agent
    if named.startswith("$"):  # IdentityAgent $NAME takes the socket from the environment
        named = os.environ.get(named.lstrip("$").strip("{}"), "none")
    path = os.environ.get("SSH_AUTH_SOCK", "") if named in ("", "SSH_AUTH_SOCK") else named
    return "" if path in ("", "none") else str(expand_home(path))


class _AgentConnection(AgentSSH):
    """An agent at a given socket (paramiko's own looks only at SSH_AUTH_SOCK), one connection per host."""

    def __init__(self, path: str) -> None:
        super().__init__()
        conn = socket.socket(socket.AF_UNIX)
        conn.settimeout(AGENT_TIMEOUT_S)
        try:
            conn.connect(path)
            self._connect(conn)  # type: ignore[attr-defined]  # absent in the stubs
        except BaseException:
            conn.close()
            raise
        self.close = conn.close
