"""Where ranks meet: main address, main port and the interface each node talks through. Pure."""

import ipaddress
from collections.abc import Iterable, Sequence

from launcher.config.inventory import HostEntry
from launcher.errors import LaunchRefused
from preflight.decide.decision import DecisionReason
from preflight.facts.host import HostFacts, Interface, Network, Ports, Reach
from preflight.facts.missing import Missing
from preflight.frozen import dataclass
from preflight.job import DEFAULT_MAIN_PORT

Host = tuple[HostEntry, HostFacts]

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class MainPort:
    """The port chosen on the main host; `reason` says why it is not the one that was asked for."""

    port: int
    reason: str = ""
    reasons: tuple[DecisionReason, ...] = ()


def choose_main_address(hosts: Sequence[Host]) -> tuple[str, DecisionReason]:
    """Return the address of the first host that every other node can use, with the reason.

    Raises LaunchRefused when only a loopback address is known for a launch over several hosts.
    """
    entry, facts = hosts[0]
    if len(hosts) == 1:
        return LOOPBACK, DecisionReason("a launch on one host meets on its loopback", "main address")
    if isinstance(facts.network, Missing):
        raise LaunchRefused(f"{facts.host}: its network is not known: {facts.network.reason}")
    for address, why in _candidates(entry, facts.network):
        if _routable(address):
            return address, DecisionReason(f"main address {address} of {facts.host}", why)
    if _one_machine(hosts):
        return LOOPBACK, DecisionReason(
            "all nodes are on one machine and it has no other address", "main address"
        )
    raise LaunchRefused(
        f"{facts.host}: no address is known that the other hosts could reach; its name is on loopback only",
        f"set `interface:` of {facts.host} in hosts.yaml to the network that the hosts share",
    )


def _candidates(entry: HostEntry, network: Network) -> Iterable[tuple[str, str]]:
    if entry.interface:
        chosen = _named(network, entry.interface)
        if chosen is None:
            have = ", ".join(item.name for item in network.interfaces)
            raise LaunchRefused(
                f"{entry.name}: it has no network interface {entry.interface}; it has {have}",
                f"correct `interface:` of {entry.name} in hosts.yaml",
            )
        yield from ((address, f"interface {chosen.name}, as hosts.yaml says") for address in _ordered(chosen))
    own = {address for item in network.interfaces for address in item.addresses}
    if entry.address in own:
        yield entry.address, "its address in hosts.yaml"
    if not isinstance(network.ssh_server_address, Missing):
        yield network.ssh_server_address, "the address SSH reaches it by"
    if not isinstance(network.default_interface, Missing):
        default = _named(network, network.default_interface)
        if default is not None:
            yield from (
                (address, f"interface {default.name} of the default route") for address in _ordered(default)
            )
    if not isinstance(network.own_name_addresses, Missing):
        yield from ((address, "what its own name resolves to") for address in network.own_name_addresses)
    for item in network.interfaces:
        if item.up and not item.virtual:
            yield from ((address, f"interface {item.name}") for address in _ordered(item))


def choose_interface(entry: HostEntry, facts: HostFacts) -> str:
    """Return the interface whose network the node shares with the others, "" to let NCCL and gloo choose."""
    if isinstance(facts.network, Missing):
        return ""
    if entry.interface:
        return entry.interface
    for address, _ in _candidates(entry, facts.network):
        for item in facts.network.interfaces:
            if address in item.addresses and _routable(address):
                return item.name
    return ""


def choose_main_port(facts: HostFacts, requested: int, *, needed: bool, avoid: frozenset[int]) -> MainPort:
    """Return the port asked for when it can be bound on the main host, else one proven free on it.

    `needed` False: a world of one rank opens no port. Raises LaunchRefused when no free port is known.
    """
    if not needed:
        return MainPort(requested)
    if isinstance(facts.ports, Missing):
        if requested in avoid:
            raise LaunchRefused(f"{facts.host}: port {requested} is taken, and no other is known to be free")
        return MainPort(
            requested,
            reasons=(DecisionReason(f"port {requested} was not checked: {facts.ports.reason}", facts.host),),
        )
    trouble = (
        "it was taken when the launch tried it"
        if requested in avoid
        else _trouble(facts, facts.ports, requested)
    )
    if not trouble:
        return MainPort(requested)
    free = next((port for port in facts.ports.free if port not in avoid), None)
    if free is None:
        raise LaunchRefused(
            f"{facts.host}: port {requested} cannot be used ({trouble}), and no free one was found",
            "--port N with a port that is free on it",
        )
    return MainPort(free, f"port {requested} on {facts.host}: {trouble}")


def list_taken_ports(reach: Iterable[Reach]) -> frozenset[int]:
    """Return the ports that another program, often a second launch, took while this preflight tested them."""
    return frozenset(each.port for each in reach if each.port_was_taken)


def choose_port_of_one_rank(facts: HostFacts, requested: int, *, avoid: frozenset[int]) -> MainPort:
    """Return a port for a rank that has no launcher and opens the port itself, if its script asks for that.

    Minutes of imports and data may pass before, in which no process holds the port: with the default one, two
    such runs on a host would meet on it. So it is one of the random free ports of this preflight, unless
    the user names one. Raises LaunchRefused when no free port is known.
    """
    free = () if isinstance(facts.ports, Missing) else facts.ports.free
    own = next((port for port in free if port not in avoid), None)
    if requested != DEFAULT_MAIN_PORT or own is None:
        return choose_main_port(facts, requested, needed=True, avoid=avoid)
    why = f"main port {own}, of this run alone: one rank opens its port only when its script asks for that"
    return MainPort(own, reasons=(DecisionReason(why, facts.host),))


def _trouble(facts: HostFacts, ports: Ports, port: int) -> str:
    holders = [item for item in ports.sockets if item.port == port and item.state in ("LISTEN", "BOUND")]
    if holders:
        pids = {pid for item in holders if not isinstance(item.pids, Missing) for pid in item.pids}
        return _who(facts, pids) if pids else f"a process of {holders[0].owner} holds it"
    test = next((item for item in ports.binds if item.port == port), None)
    if test is not None and not test.ok:
        return test.error or "it cannot be bound"
    return ""


def _who(facts: HostFacts, pids: set[int]) -> str:
    known = (
        {} if isinstance(facts.processes, Missing) else {item.pid: item for item in facts.processes.processes}
    )
    words = []
    for pid in sorted(pids):
        process = known.get(pid)
        words.append(f"pid {pid} ({process.comm} of {process.user})" if process else f"pid {pid}")
    return "in use by " + ", ".join(words)


def _named(network: Network, name: str) -> Interface | None:
    return next((item for item in network.interfaces if item.name == name), None)


def _ordered(interface: Interface) -> list[str]:
    """IPv4 first: not every NCCL and gloo build speaks IPv6 on its sockets."""
    return sorted(interface.addresses, key=lambda address: ":" in address)


def _routable(address: str) -> bool:
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return not (parsed.is_loopback or parsed.is_link_local or parsed.is_unspecified)


def _one_machine(hosts: Sequence[Host]) -> bool:
    """Same kernel and same interfaces: then loopback is the same place for all of them."""
    seen = set()
    for _, facts in hosts:
        if isinstance(facts.identity, Missing) or isinstance(facts.network, Missing):
            return False
        names = tuple((item.name, item.addresses) for item in facts.network.interfaces)
        seen.add((facts.identity.boot_id, names))
    return len(seen) == 1
