"""Ways to a host. A transport is one module of this package and one line in `open_endpoint`."""

import socket
from collections.abc import Callable

from launcher.local.deferral import wait_without_thread
from launcher.transports.base import Connection, Endpoint, OpenOptions


def open_endpoint(endpoint: Endpoint, options: OpenOptions) -> Connection:
    """Open a connection, or raise the HostError subclass that says why not.

    Keys, known_hosts and jump hosts are loaded or opened once for all calls with the same options.
    """
    if endpoint.transport == "local":
        from launcher.transports.local import LocalConnection  # noqa: PLC0415 - costs nothing until used

        return LocalConnection(endpoint)
    if endpoint.transport == "prefix":
        from launcher.transports.prefix_opener import open_prefix  # noqa: PLC0415 - few hosts need it

        return open_prefix(endpoint, options, open_endpoint)
    dialled = None if endpoint.jumps else _dial(endpoint)  # sshd starts for us while we import
    import_ssh()
    from launcher.transports.ssh.connection import build_ssh_opener  # noqa: PLC0415 - paramiko takes 0.1 s to import

    return build_ssh_opener(options)(endpoint, dialled)


def _dial(endpoint: Endpoint) -> socket.socket:
    """Dial, without a thread and until the host has said something where this thread can defer the wait."""
    from launcher.transports.ssh.dial import dial  # noqa: PLC0415 - as above

    def start(deliver: Callable[[socket.socket | BaseException], None]) -> None:
        from launcher.transports.ssh.parallel_dial import get_dialler  # noqa: PLC0415 - asyncio, for many hosts only

        get_dialler().dial(endpoint, deliver)

    if endpoint.proxy_command:
        return dial(endpoint)
    return wait_without_thread(start) or dial(endpoint)


def import_ssh() -> None:
    """Import what SSH takes; who knows that it is needed does so before the first connection."""
    from launcher.transports.ssh.paramiko_import import import_paramiko  # noqa: PLC0415 - as above

    import_paramiko()
    import launcher.transports.ssh.connection  # noqa: F401, PLC0415 - as above
