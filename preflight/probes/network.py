"""Interfaces, addresses and the default route."""

import _socket as socket  # what it is made of: enumerations and selectors would take 6 ms
import fcntl
import os
import struct
from contextlib import closing
from typing import Any

from .fact import Emit, Json, missing, read_fact, with_timeout
from .files import read_text_or
from .netlink import request_dump
from .request import ProbeRequest


def probe(_: ProbeRequest, emit: Emit) -> None:
    """Emit facts.Network; a name server that does not answer costs only the name's addresses."""
    own_name = os.fsencode(os.uname().nodename)  # as text it would pass through the codec of IDNA
    emit(
        "network",
        {
            "interfaces": _interfaces(),
            "default_interface": read_fact(_default_interface),
            "own_name_addresses": with_timeout(
                3.0, lambda: sorted({str(item[4][0]) for item in socket.getaddrinfo(own_name, None)})
            ),
            "ssh_server_address": _ssh_server_address(),
        },
    )


def _ssh_server_address() -> Any:
    """Return the address this SSH connection came in on."""
    parts = os.environ.get("SSH_CONNECTION", "").split()
    return parts[2] if len(parts) == 4 else missing("this session did not come over SSH", "not-found")


def _interfaces() -> list[Json]:
    """Return facts.Interface for each interface of this network namespace."""
    addresses = _interface_addresses()
    found = []
    with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as control:

        def ask_kernel(request: int, name: str, form: str) -> int:
            reply = fcntl.ioctl(control.fileno(), request, struct.pack("16s16x", name.encode()))
            return int(struct.unpack_from(form, reply, 16)[0])

        for index, name in socket.if_nameindex():
            flags = ask_kernel(0x8913, name, "H")  # SIOCGIFFLAGS
            speed = read_text_or("/sys/class/net/%s/speed" % name, "-1")
            known = speed.isdigit() and int(speed) < 1 << 31
            found.append(
                {
                    "name": name,
                    "addresses": addresses.get(index, []),
                    "up": flags & 0x41 == 0x41,  # IFF_UP and IFF_RUNNING
                    "virtual": not os.path.exists("/sys/class/net/%s/device" % name),
                    "mtu": ask_kernel(0x8921, name, "i"),  # SIOCGIFMTU
                    "speed_mbps": int(speed)
                    if known
                    else missing("the interface names no speed", "not-supported"),
                }
            )
    return found


def _interface_addresses() -> dict[int, list[str]]:
    """Return {interface index: addresses}, IPv4 first, by RTM_GETADDR (an ioctl gives only the first)."""
    found: dict[int, list[str]] = {}
    for message in request_dump(0, 22, struct.pack("=BBBBI", 0, 0, 0, 0, 0)):
        family, _, _, _, index = struct.unpack_from("=BBBBI", message)
        if family not in (socket.AF_INET, socket.AF_INET6):
            continue
        attributes, at = {}, 8
        while at + 4 <= len(message):
            length, kind = struct.unpack_from("=HH", message, at)
            attributes[kind] = message[at + 4 : at + max(length, 4)]
            at += (max(length, 4) + 3) & ~3
        packed = attributes.get(2) or attributes.get(1)  # IFA_LOCAL, else IFA_ADDRESS
        if packed:
            found.setdefault(index, []).append(socket.inet_ntop(family, packed))
    return {index: sorted(addresses, key=lambda text: ":" in text) for index, addresses in found.items()}


def _default_interface() -> Any:
    """Return the interface of the default route with the lowest metric, IPv4 first."""
    routes = [line.split() for line in read_text_or("/proc/net/route").splitlines()[1:]]
    default = [
        (int(route[6]), route[0]) for route in routes if route[1] == "00000000" and route[7] == "00000000"
    ]
    if not default:
        routes = [line.split() for line in read_text_or("/proc/net/ipv6_route").splitlines()]
        default = [
            (int(route[5], 16), route[9])
            for route in routes
            if set(route[0]) == {"0"} and route[1] == "00" and route[9] != "lo"
        ]
    return min(default)[1] if default else missing("there is no default route", "not-found")
