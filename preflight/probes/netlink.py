"""Lists that the kernel gives over a netlink socket."""

import _socket as socket  # what it is made of: enumerations and selectors would take 6 ms
import os
import struct
from contextlib import closing


def request_dump(protocol: int, kind: int, payload: bytes) -> list[bytes]:
    """Return the payloads of a netlink dump; raises OSError where the kernel refuses it."""
    messages: list[bytes] = []
    with closing(socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, protocol)) as link:
        link.settimeout(2.0)
        link.bind((0, 0))
        link.send(struct.pack("=IHHII", 16 + len(payload), kind, 0x301, 1, 0) + payload)  # REQUEST | DUMP
        while True:
            data = link.recv(1 << 18)
            while len(data) >= 16:
                length, got, _, _, _ = struct.unpack_from("=IHHII", data)
                if got == 3:  # NLMSG_DONE
                    return messages
                if got == 2:  # NLMSG_ERROR
                    code = -struct.unpack_from("=i", data, 16)[0]
                    raise OSError(code, os.strerror(code))
                messages.append(data[16:length])
                data = data[(length + 3) & ~3 :]
