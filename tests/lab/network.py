"""Faults of the network: cut cables, slow and lossy ones, closed ports, hosts behind other hosts."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.lab.hosts import Lab, LabHost

WIRE = Path(__file__).with_name("wire.py")
TABLE = "add table inet lab; add chain inet lab input { type filter hook input priority 0; }; "


def _ip(host: LabHost, *commands: str) -> None:
    host.lab.switch.run(["ip", "-batch", "-"], input_text="\n".join(commands))


def cut(host: LabHost) -> None:
    """Let nothing in or out of a host; both ends still believe in their link, as with a dead switch.

    Not for use within bad_cable(), which holds the cable itself.
    """
    _ip(host, f"link set dev {host.spec.port_name} nomaster")


def restore(host: LabHost) -> None:
    """Undo cut()."""
    _ip(host, f"link set dev {host.spec.port_name} master br0")


@contextmanager
def bad_cable(host: LabHost, *, delay_s: float = 0.0, loss: float = 0.0, seed: int = 0) -> Iterator[None]:
    """Hold every frame of a host for delay_s in each direction and lose the given share of them (0.2 is 20%).

    The random numbers are seeded, so a failure can be repeated.
    """
    port = host.spec.port_name
    near, far = f"w{host.spec.index}", f"x{host.spec.index}"
    switch = host.lab.switch
    wire = [sys.executable, "-I", str(WIRE), port, near, str(delay_s), str(loss), str(seed)]
    _ip(
        host,
        f"link add name {near} type veth peer name {far}",
        f"link set dev {near} up",
        f"link set dev {far} up",
    )
    try:
        with switch.popen(wire) as process:
            process.read_line()
            _ip(host, f"link set dev {port} nomaster", f"link set dev {far} master br0")
            yield
    finally:
        _ip(host, f"link del dev {near}", f"link set dev {port} master br0")


@contextmanager
def slow_link(one: LabHost, other: LabHost, bytes_per_s: float) -> Iterator[None]:
    """Let two hosts reach each other through a slow cable of their own; other links stay as they are.

    `one` gets a second port on the switch, by way of the cable, and each end has a route or a neighbour entry
    that leads the other's frames there.
    """
    number, switch = one.spec.index, one.lab.switch
    near, far, plug = f"y{number}", f"z{number}", f"q{number}"
    mac = "02:01" + one.spec.mac[5:]
    wire = [sys.executable, "-I", str(WIRE), plug, near, "0", "0", "0", str(bytes_per_s)]
    _ip(
        one,
        f"link add name {near} type veth peer name {far}",
        f"link set dev {near} up",
        f"link set dev {far} master br0 up",
        f"link add name {plug} type veth peer name eth1 address {mac} netns {_pid_in_lab(one)}",
        f"link set dev {plug} up",
    )
    try:
        ends = [
            "link set dev eth1 arp off up",  # it must not answer for the address to all others
            f"neigh replace {other.address} lladdr {other.spec.mac} dev eth1 nud permanent",
            f"route add {other.address}/32 dev eth1 src {one.address}",
        ]
        one.run(["ip", "-batch", "-"], input_text="\n".join(ends))
        other.run(["ip", "neigh", "replace", one.address, "lladdr", mac, "dev", "eth0", "nud", "permanent"])
        with switch.popen(wire) as process:
            process.read_line()
            yield
    finally:
        other.run(["ip", "neigh", "del", one.address, "dev", "eth0"], check=False)
        _ip(one, f"link del dev {near}", f"link del dev {plug}")


def _pid_in_lab(host: LabHost) -> int:
    """Return the pid of a host's PID 1 as the switch numbers it: its namespace is around the host's."""
    status = Path(f"/proc/{host.init_pid}/status").read_text()
    numbers = next(line for line in status.splitlines() if line.startswith("NSpid:")).split()
    return int(numbers[-2])


def block(host: LabHost, *, port: int = 0, source: LabHost | None = None, reject: bool = False) -> None:
    """Close a port of a host (0: all of TCP), to one other host or to all; `reject` answers with a reset."""
    who = f"ip saddr {source.address} " if source else ""
    what = f"tcp dport {port}" if port else "meta l4proto tcp"
    verdict = "reject with tcp reset" if reject else "drop"
    _nft(host, f'{TABLE}add rule inet lab input iifname "eth0" {who}{what} {verdict}')


def unblock(host: LabHost) -> None:
    """Open everything that block() and put_behind() closed on this host."""
    _nft(host, f"{TABLE}delete table inet lab")


def put_behind(target: LabHost, via: LabHost) -> None:
    """Make a host reachable for SSH only from another one, and say so in hosts.yaml and ssh_config.

    Hosts still reach each other on all other ports; this machine reaches the target on none.
    """
    lab = target.lab
    here = f'add rule inet lab input iifname "eth0" ip saddr {lab.spec.address(1)} drop; '
    ssh = f'add rule inet lab input iifname "eth0" ip saddr != {via.address} tcp dport 22 drop; '
    here6 = f'add rule inet lab input iifname "eth0" ip6 saddr {lab.spec.address6(1)} drop'
    _nft(target, TABLE + here + ssh + here6)
    lab.jumps[target.name] = via.name
    lab.write_files()


def take_out(lab: Lab) -> None:
    """Undo every put_behind() of a lab."""
    for name in lab.jumps:
        unblock(lab.host(name))
    lab.jumps.clear()
    lab.write_files()


def _nft(host: LabHost, commands: str) -> None:
    host.run(
        ["nft", "-f", "-"], input_text=commands.replace("; add", "\nadd").replace("; delete", "\ndelete")
    )
