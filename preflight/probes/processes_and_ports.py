"""Processes, ports and system: one walk over /proc for all three."""

import time

from .fact import Emit, read_fact
from .ports import read_ports_fact
from .processes.selection import select_pids
from .processes.table import process_table
from .processes.walk import ProcessWalk
from .request import ProbeRequest
from .sockets import list_sockets_on
from .system import read_system_fact


def probe(ask: ProbeRequest, emit: Emit) -> None:
    """Emit processes, ports and system out of one walk over /proc."""
    started = time.monotonic()
    rows = list_sockets_on(ask.ports)
    walk = ProcessWalk(frozenset("socket:[%s]" % row["inode"] for row in rows))
    chosen = select_pids(walk) | (walk.stats.keys() & set(ask.pids))
    emit("processes", process_table(walk, chosen))
    emit("ports", read_fact(lambda: read_ports_fact(ask, rows, walk)))
    emit("system", read_system_fact(walk, started))
