"""TCP sockets on given ports, with the inodes that name them among open files."""

import _socket as socket  # what it is made of: enumerations and selectors would take 6 ms
import re
import struct
import sys

from .fact import Json
from .files import read_text_or
from .netlink import request_dump

_TCP_STATES = {
    "01": "ESTABLISHED",
    "02": "SYN_SENT",
    "03": "SYN_RECV",
    "04": "FIN_WAIT1",
    "05": "FIN_WAIT2",
    "06": "TIME_WAIT",
    "07": "CLOSE",
    "08": "CLOSE_WAIT",
    "09": "LAST_ACK",
    "0A": "LISTEN",
    "0B": "CLOSING",
    "0C": "SYN_RECV",
}
_MOST_SOCKETS = 256  # per host; a busy server has thousands of connections on its own port


def list_sockets_on(ports: tuple[int, ...]) -> list[Json]:
    """Return the TCP sockets on `ports`, of both families, with their inodes."""
    if not ports:
        return []
    wanted = "|".join("%04X" % port for port in ports)
    line = re.compile(
        r"^ *\d+: ([0-9A-F]+):(%s) \S+ ([0-9A-F]{2}) (?:\S+ +){3}(\d+) +\d+ (\d+)" % wanted, re.MULTILINE
    )
    rows = []
    for name in ("tcp", "tcp6"):
        for packed, port, state, uid, inode in line.findall(read_text_or("/proc/net/" + name)):
            rows.append(
                {
                    "port": int(port, 16),
                    "address": unpack_address(packed),
                    "state": _TCP_STATES.get(state, state),
                    "uid": int(uid),
                    "inode": inode,
                }
            )
    rows.sort(key=lambda row: (row["state"] != "LISTEN", row["port"]))
    return (_bound_sockets(ports) + rows)[:_MOST_SOCKETS]


def unpack_address(packed: str) -> str:
    """Return an address of /proc/net/tcp{,6}: 32-bit words in the host's byte order."""
    words = [bytes.fromhex(packed[at : at + 8]) for at in range(0, len(packed), 8)]
    data = b"".join(word[::-1] if sys.byteorder == "little" else word for word in words)
    return socket.inet_ntop(socket.AF_INET if len(data) == 4 else socket.AF_INET6, data)


def _bound_sockets(ports: tuple[int, ...]) -> list[Json]:
    """Return sockets that are bound and do not listen: only sock_diag shows them, from Linux 6.8 on."""
    rows = []
    for family in (socket.AF_INET, socket.AF_INET6):
        request = struct.pack("=BBBBI48x", family, socket.IPPROTO_TCP, 0, 0, 1 << 13)  # TCP_BOUND_INACTIVE
        try:
            messages = request_dump(4, 20, request)
        except OSError:
            continue
        for message in messages:
            port = struct.unpack_from("!H", message, 4)[0]
            if port in ports and len(message) >= 72:
                packed = message[8:12] if family == socket.AF_INET else message[8:24]
                uid, inode = struct.unpack_from("=II", message, 64)
                address = socket.inet_ntop(family, packed)
                rows.append(
                    {"port": port, "address": address, "state": "BOUND", "uid": uid, "inode": str(inode)}
                )
    return rows
