"""How the nodes of a run are reached: by the user's words, never by a record's alone."""

import ipaddress
import shlex
from collections.abc import Callable, Mapping
from dataclasses import replace

from launcher.config.inventory import LOCALHOST, HostEntry, Inventory
from launcher.errors import BadInput, HostError, HostNotContacted
from launcher.planning.plan import NodePlan, Plan
from launcher.planning.run_record import RunRecord
from launcher.remote.connection_pool import OpenConnection
from launcher.runs.remote_run import RemoteRun
from launcher.text import one_line
from launcher.transports.base import Connection
from preflight.frozen import dataclass

Consent = Callable[[str], bool]  # asks a person a question of yes or no


@dataclass(frozen=True, slots=True)
class KnownHosts:
    """What the user has said of hosts."""

    requested: Mapping[str, HostEntry]  # those that were asked for the run, by name
    inventory: Inventory
    is_named: Callable[[str], bool]  # whether ssh_config has a Host line for this very name
    consent: Consent | None = None  # None: without a terminal


@dataclass(frozen=True, slots=True)
class RunAccess:
    """A run's plan, and the way to each of its nodes."""

    plan: Plan
    entries: tuple[HostEntry, ...]
    refused: tuple[tuple[HostEntry, HostNotContacted], ...]  # entries of `entries` that may not be opened
    open_known: OpenConnection

    def open(self, entry: HostEntry) -> Connection:
        """Open a node. Raises HostNotContacted for one that only a record names, or HostError."""
        for other, why in self.refused:
            if other is entry:
                raise why
        return self.open_known(entry)

    def demand(self) -> None:
        """Raise the HostNotContacted of the first node that may not be opened."""
        for _, why in self.refused:
            raise why


def open_heard(silent: Mapping[str, HostError], open_entry: OpenConnection, entry: HostEntry) -> Connection:
    """Open a host, unless it did not answer just now. Raises its HostError."""
    if entry.name in silent:
        raise silent[entry.name]
    return open_entry(entry)


def access_run(run: RemoteRun, known: KnownHosts, open_known: OpenConnection) -> RunAccess:
    """Return the way to each node: as it has answered, as the user says, as this machine launched it.

    A node that only the record of a host names is asked about, or refused. Raises BadInput where no record
    has the plan.
    """
    launched = run.record
    if launched is None:
        raise BadInput(f"{run.run_id} left no record of its launch", "it was started by another gpulaunch")
    here = {node.rank: node.entry for node in run.nodes}
    entries: list[HostEntry] = []
    refused: list[tuple[HostEntry, HostNotContacted]] = []
    for node, way in zip(launched.plan.nodes, launched.entries, strict=True):
        try:
            entry = here.get(node.node_rank) or _entry(run, node, way, launched, known)
        except HostNotContacted as why:
            entry = way
            refused.append((way, why))
        entries.append(entry)
    # What runs on the host is the interpreter of the listing, never one of a record's choice.
    nodes = tuple(
        replace(node, python=entry.python) for node, entry in zip(launched.plan.nodes, entries, strict=True)
    )
    return RunAccess(replace(launched.plan, nodes=nodes), tuple(entries), tuple(refused), open_known)


def _entry(
    run: RemoteRun, node: NodePlan, way: HostEntry, launched: RunRecord, known: KnownHosts
) -> HostEntry:
    said = known.requested.get(node.host) or known.inventory.hosts.get(node.host)
    if node.host == LOCALHOST and not run.from_here:
        said = None  # it was the launching machine's word for itself
    if said is not None:
        return said
    if run.from_here:
        return way
    if is_this_machine(way):
        words = (
            f"not asked: it is {way.name} of {one_line(launched.started_by, 80)}, which is not this machine"
        )
        raise HostNotContacted(way.name, words, "--hosts with the name of that machine")
    if known.is_named(node.host):
        return known.inventory.lookup(node.host)
    if known.consent is not None and known.consent(_question(run, way)):
        return way
    fix = f"list it in hosts.yaml, or add --hosts {shlex.quote(node.host)}"
    words = f"not asked: only the record of {run.run_id} names it; it is in no local file"
    raise HostNotContacted(way.name, words, fix)


def _question(run: RemoteRun, way: HostEntry) -> str:
    target = (f"{way.user}@" if way.user else "") + (way.address or way.alias)
    target += f":{way.port}" if way.port else ""
    jump = f" through {', '.join(way.jump)}" if way.jump else ""
    inside = f", enter {way.via}," if way.via else ""
    source = ", ".join(dict.fromkeys(node.entry.name for node in run.nodes))
    line = f"{way.name} is in no local file; {source} says that {run.run_id} has runs, too"
    return one_line(f"{line}. Log in to {target}{jump}{inside} and run {way.python}?", 400)


def is_this_machine(entry: HostEntry) -> bool:
    """Return whether an entry leads to the machine that follows it."""
    if entry.is_on_this_machine:
        return True
    if entry.via is not None and not (entry.via.is_on_host or entry.address):
        return True  # kubectl and its like would run locally
    name = (entry.address or entry.alias or entry.name).lower().rstrip(".")
    if name in ("localhost", "localhost.localdomain") or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    inner = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return any(each.is_loopback or each.is_unspecified for each in (address, inner or address))
