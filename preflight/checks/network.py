"""How the nodes find and reach each other."""

from collections.abc import Iterator, Mapping, Sequence

from preflight.checks.finding import Problem, Severity
from preflight.checks.registry import cluster_check, host_check
from preflight.checks.unread_facts import is_started_with_options
from preflight.facts.host import HostFacts, Interface, Network, Reach
from preflight.facts.missing import Missing
from preflight.job import Job

_NAMES = ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")


@host_check("NET001", Severity.WARNING)
def a_real_interface_is_up(network: Network) -> Iterator[Problem]:
    """A network interface with hardware behind it is up and has an address.

    NCCL and gloo pick an interface themselves; where only bridges and virtual ones are up (docker0, veth),
    ranks of other hosts are called at addresses that lead nowhere. In a container or namespace this is how it
    must be.

    Fix: name the interface with `interface:` in hosts.yaml.
    Source: /sys/class/net; NCCL environment documentation, NCCL_SOCKET_IFNAME.
    """
    usable = [i for i in network.interfaces if i.up and i.addresses and i.name != "lo"]
    if not usable:
        fix = "ask the administrator; one host alone can still train"
        yield Problem("no network interface but loopback is up with an address", fix)
    elif all(interface.virtual for interface in usable) and len(usable) > 1:
        names = ", ".join(interface.name for interface in usable)
        yield Problem(
            f"only virtual interfaces are up ({names}), and NCCL picks one",
            "name the right one: interface: NAME for this host in hosts.yaml",
            severity=Severity.INFO,
        )


@host_check("NET002")
def named_interfaces_exist(network: Network, environ: dict[str, str], job: Job) -> Iterator[Problem]:
    """The interfaces that NCCL_SOCKET_IFNAME and GLOO_SOCKET_IFNAME name exist and are up.

    A name from another host (eth0 against enp3s0) ends every rank with "no socket interface found". Judged is
    what ranks get: the host's variable, that of hosts.yaml or the run config, or the launch's interface.

    Fix: correct the variable, per host with `env:` in hosts.yaml; on several hosts `interface:` does it, too.
    Source: NCCL environment documentation: "^" excludes, "=" matches exactly, otherwise prefixes.
    """
    up = [interface for interface in network.interfaces if interface.up]
    for name in _NAMES:
        value = _value(name, environ, job)
        if value and not any(_chosen(interface, value) for interface in up):
            yield Problem(
                f"{name}={value} fits no interface that is up ({', '.join(i.name for i in up) or 'none'})",
                "correct it with env: for this host in hosts.yaml; on several hosts interface: does it, too",
                subject=name,
            )


def _value(name: str, environ: dict[str, str], job: Job) -> str:
    """Return what ranks get for a variable."""
    return (environ if job.inherits(name) else job.env).get(name, "")


def _chosen(interface: Interface, value: str) -> bool:
    words = [word for word in value.lstrip("^=").split(",") if word]
    exact = value.lstrip("^").startswith("=")
    fits = any(interface.name == word if exact else interface.name.startswith(word) for word in words)
    return fits != value.startswith("^")


_MUCH_FASTER = 4


@host_check("NET006", Severity.WARNING)
def ranks_talk_over_a_fast_interface(
    network: Network, environ: dict[str, str], job: Job, facts: HostFacts
) -> Iterator[Problem]:
    """No interface of the host is much faster than the one that ranks talk over.

    A launch on several hosts takes the interface that SSH comes in on unless hosts.yaml names another, and
    that may be the one for administration: 2 GB of gradients take 16 s at 1 Gbit/s. Judged are interfaces
    with hardware behind them, at four times the speed; with an active InfiniBand or RoCE port NCCL uses that.

    Fix: `interface:` in hosts.yaml, on all hosts of the launch.
    Source: /sys/class/net/*/speed; NCCL environment documentation, NCCL_SOCKET_IFNAME; the factor is ours.
    """
    ports = () if isinstance(facts.infiniband, Missing) else facts.infiniband
    value = _value(_NAMES[0], environ, job)
    if not value or any(port.state.upper() == "ACTIVE" for port in ports):
        return
    speeds = {each: each.speed_mbps for each in network.interfaces if isinstance(each.speed_mbps, int)}
    usable = [each for each in speeds if each.up and not each.virtual and each.has_routable_address]
    taken = max((each for each in usable if _chosen(each, value)), key=speeds.__getitem__, default=None)
    if taken is None:
        return
    best = max(usable, key=speeds.__getitem__)
    if speeds[best] >= _MUCH_FASTER * speeds[taken] > 0:
        yield Problem(
            f"ranks talk over {taken.name} at {speeds[taken]} Mbit/s, and {best.name} has {speeds[best]}",
            f"where {best.name} leads to the other hosts: interface: {best.name} for this host in hosts.yaml",
            subject=taken.name,
        )


@cluster_check("NET003", Severity.WARNING)
def host_names_do_not_lead_home(hosts: Mapping[str, HostFacts]) -> Iterator[Problem]:
    """No host's own name resolves only to a loopback address on that host.

    Debian writes "127.0.1.1 NAME" into /etc/hosts. A rank that announces itself by name then makes the others
    connect to themselves. gpulaunch gives the ranks an address, so only scripts that resolve names are hit.

    Fix: put the host's real address beside its name in /etc/hosts (root).
    Source: Debian reference, chapter 5.1.1; getaddrinfo on the host.
    """
    if len(hosts) < 2:
        return
    for name, facts in hosts.items():
        if isinstance(facts.network, Missing) or isinstance(facts.network.own_name_addresses, Missing):
            continue
        addresses = facts.network.own_name_addresses
        if addresses and all(address.startswith("127.") or address == "::1" for address in addresses):
            yield Problem(
                f"its own name resolves to {', '.join(addresses)}: other nodes cannot reach it by that name",
                f"in /etc/hosts (root), replace {addresses[0]} by the host's real address; only "
                "scripts that resolve names need it",
                hosts=(name,),
            )


@cluster_check("NET004", gate=True)
def every_node_reaches_the_main_host(
    hosts: Mapping[str, HostFacts], reach: tuple[Reach, ...]
) -> Iterator[Problem]:
    """Every other node reaches the main host, on the main port and on an ephemeral one.

    Tested by real connects from node to node. A firewall that drops packets shows up otherwise as a silent
    wait of many minutes at the rendezvous; one that opens only the main port, as a hang in NCCL, which uses
    ephemeral ports.

    Where another program, such as a second launch, took the main port meanwhile and another one is free,
    gpulaunch uses that one and this is a warning.

    Fix: open the ports between the nodes, or choose an address of a network that is open, with `interface:`.
    A container with a network of its own cannot be reached from other hosts: `docker run --network host`.
    Source: NCCL troubleshooting guide, networking; reproduced with nftables.
    """
    if len(hosts) < 2:
        return
    main = next(iter(hosts))
    tries_of: dict[str, list[Reach]] = {}
    for item in reach:
        if item.to_host == main:
            tries_of.setdefault(item.from_host, []).append(item)
    for name in list(hosts)[1:]:
        tries = tries_of.get(name, [])
        if not tries:
            yield Problem(
                f"whether it reaches {main} was not tested",
                "run the preflight again",
                severity=Severity.UNKNOWN,
                hosts=(name,),
            )
        yield from (_not_reached(item, hosts[main]) for item in tries if not item.ok)


def _not_reached(tried: Reach, facts: HostFacts) -> Problem:
    """Return what it means that a node could not connect to the main host, which has these facts."""
    main, severity, instead = tried.to_host, Severity.CRITICAL, ""
    if tried.port_was_taken:
        taken = ": another program took the port meanwhile; or choose one with --port"
        lacking = f"; if it stays, look at ulimit -n and ss -s on {main}"  # for an ephemeral port
        fix = f"run gpulaunch again{taken if tried.port else lacking}"
        if has_other_port(facts, tried.port):
            severity, instead = Severity.WARNING, ", another will be used instead"
            fix = "choose a port with --port where a firewall opens only some"
    else:
        opened = f"open the port between them (nft list ruleset, ufw status on {main})"
        seen = facts.network.interfaces if isinstance(facts.network, Network) else ()
        own_network = all(each.virtual for each in seen)  # else it has that of its machine already
        if own_network and is_started_with_options(facts):
            opened = f"start the container of {main} with --network host"
        fix = f"{opened}, or set interface: of {main} in hosts.yaml to a network that both are in"
    return Problem(
        f"cannot connect to {main} at {tried.address} port {tried.port}: {tried.error}{instead}",
        fix,
        subject=f"port {tried.port}",
        severity=severity,
        hosts=(tried.from_host,),
    )


def has_other_port(facts: HostFacts, port: int) -> bool:
    """Return whether another port of the host was proven free; it takes no place of 0, an ephemeral one."""
    return (
        port > 0 and not isinstance(facts.ports, Missing) and any(free != port for free in facts.ports.free)
    )


@cluster_check("NET005", Severity.WARNING)
def hosts_reach_each_other(hosts: Mapping[str, HostFacts], reach: tuple[Reach, ...]) -> Iterator[Problem]:
    """Every host reaches every other one, on an ephemeral port.

    Tested by real connects where `gpulaunch preflight` asks 64 hosts or fewer; a launch tests the way to the
    main host only, which is NET004. NCCL's rings and gloo's mesh also connect the other hosts to each other,
    and the main host to them: a firewall that is open towards the main host alone ends as a hang in the first
    collective.

    Fix: open the ephemeral ports between all hosts, or choose a network that is open, with `interface:`.
    Source: NCCL troubleshooting guide, networking; gloo's TCP transport, which makes a full mesh.
    """
    main = next(iter(hosts), "")
    tries = [item for item in reach if item.to_host != main and item.to_host in hosts]
    closed = _reached_by_none(tries)
    fix = (
        "open the ports between the hosts in both directions (nft list ruleset, ufw status), or set"
        " interface: in hosts.yaml to a network that all are in"
    )
    for name, item in closed.items():
        where = f"{item.address} port {item.port}"
        yield Problem(f"no other host can connect to it at {where}: {item.error}", fix, hosts=(name,))
    for name in hosts:
        failed = [t for t in tries if t.from_host == name and t.to_host not in closed and not t.ok]
        if failed:
            first, *more = failed
            others = f" (and {len(more)} more)" if more else ""
            where = f"{first.to_host} at {first.address} port {first.port}"
            yield Problem(f"cannot connect to {where}: {first.error}{others}", fix, hosts=(name,))


def _reached_by_none(tries: Sequence[Reach]) -> dict[str, Reach]:
    """Return the hosts that several others tried to reach and none did, with the first of these tries."""
    to_host: dict[str, list[Reach]] = {}
    for item in tries:
        to_host.setdefault(item.to_host, []).append(item)
    return {
        name: found[0] for name, found in to_host.items() if len(found) > 1 and not any(t.ok for t in found)
    }
