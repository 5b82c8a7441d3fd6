"""Who holds the ports of a run, and which other ports are free."""

import _socket as socket  # what it is made of: enumerations and selectors would take 6 ms
import errno
import zlib
from contextlib import closing
from itertools import chain, islice
from typing import Any

from .fact import Json, missing
from .files import read_text_or
from .processes.walk import ProcessWalk
from .request import ProbeRequest
from .users import read_user_name

_FREE_FROM, _FREE_COUNT = 20000, 9000


def read_ports_fact(ask: ProbeRequest, rows: list[Json], walk: ProcessWalk) -> Json:
    """Return facts.Ports.

    The source is /proc even where psutil is installed: psutil names one holder of a socket and a forked child
    that inherited it is another, and it would walk /proc a second time.
    """
    sockets = []
    for row in rows:
        holders: Any = sorted(walk.holders.get("socket:[%s]" % row["inode"], []))
        if not holders and walk.unreadable and row["inode"] != "0":
            holders = missing(
                "held by a process whose files only its owner or root may read", "no-permission"
            )
        kept = {key: row[key] for key in ("port", "address", "state", "uid")}
        sockets.append({**kept, "pids": holders, "user": read_user_name(row["uid"])})
    ephemeral, binds = _ephemeral_range(), [(port, bind_error(port)) for port in ask.ports]
    return {
        "source": "proc",
        "sockets": sockets,
        "binds": [{"port": port, "ok": not error, "error": error} for port, error in binds],
        "free": free_ports(ask, ephemeral),
        "ephemeral": list(ephemeral),
    }


def bind_error(port: int) -> str:
    """Bind and listen as torch's store does (SO_REUSEADDR, both wildcards); return what failed, or "".

    Listening belongs to the test: two sockets with SO_REUSEADDR may both be bound while neither listens.
    """
    wildcards = ((socket.AF_INET6, "::"), (socket.AF_INET, "0.0.0.0"))  # noqa: S104 - what torch binds
    for family, wildcard in wildcards:
        try:
            probe = socket.socket(family, socket.SOCK_STREAM)
        except OSError as error:
            if error.errno in (errno.EAFNOSUPPORT, errno.EPROTONOSUPPORT):
                continue  # this family is switched off on the host
            return "%s (%s)" % (error.strerror, wildcard)  # no descriptor is left: not tried is not free
        with closing(probe):
            try:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                probe.bind((wildcard, port))
                probe.listen(1)
            except OSError as error:
                if error.errno in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    continue
                return "%s (%s)" % (error.strerror, wildcard)
            except OverflowError as error:
                return str(error)
    return ""


def _ephemeral_range() -> tuple[int, int]:
    """Return net.ipv4.ip_local_port_range, the kernel's default where it cannot be read."""
    low, high = [*read_text_or("/proc/sys/net/ipv4/ip_local_port_range").split(), "32768", "60999"][:2]
    return int(low), int(high)


def free_ports(ask: ProbeRequest, ephemeral: tuple[int, int]) -> list[int]:
    """Return ports proven free, the same ones for the same seed; ephemeral ones only where all are."""
    if ask.free_ports <= 0:
        return []
    start = zlib.crc32(ask.seed.encode("utf-8", "replace"))
    window = [_FREE_FROM + (start + step) % _FREE_COUNT for step in range(_FREE_COUNT)]
    other = chain(range(29000, 65536), range(10000, 20000), range(1024, 10000))
    reserved = _reserved_ports() | set(ask.ports)
    calm = (port for port in chain(window, other) if not ephemeral[0] <= port <= ephemeral[1])
    first = list(islice(calm, ask.free_ports))
    found: list[int] = []
    for port in chain(first, calm if len(first) == ask.free_ports else window):
        if port not in reserved and port not in found and not bind_error(port):
            found.append(port)
            if len(found) >= ask.free_ports:
                break
    return found


def _reserved_ports() -> set[int]:
    """Return net.ipv4.ip_local_reserved_ports."""
    ports: set[int] = set()
    for part in read_text_or("/proc/sys/net/ipv4/ip_local_reserved_ports").split(","):
        if part:
            low, _, high = part.partition("-")
            ports.update(range(int(low), int(high or low) + 1))
    return ports
