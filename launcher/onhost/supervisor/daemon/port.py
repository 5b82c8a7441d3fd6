"""Availability of a TCP port."""

import errno
import socket


def port_is_free(port: int) -> bool:
    """Return whether a bind succeeds as in torch's store: TIME_WAIT does not block it, a listener does."""
    for family, address in ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0")):  # noqa: S104 - as the store
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((address, port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
    return True
