"""Ways to a host. A transport is one module here and one line in `open_endpoint`."""

from launcher.transports.base import Connection, Endpoint, OpenOptions


def open_endpoint(endpoint: Endpoint, options: OpenOptions) -> Connection:
    """Open a connection, or raise the HostError subclass that says why not.

    Keys, known_hosts and jump hosts are loaded or opened once for all calls with the same options.
    """
    if endpoint.transport == "local":
        from launcher.transports.local import LocalConnection  # noqa: PLC0415 - costs nothing until used

        return LocalConnection(endpoint)
    from launcher.transports.ssh import open_ssh  # noqa: PLC0415 - paramiko takes 0.15 s to import

    return open_ssh(endpoint, options)
