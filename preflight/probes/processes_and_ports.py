"""Processes, ports and system: one walk over /proc for all three."""

import time

from .fact import Emit, fact
from .ports import ports_fact
from .processes.selection import select_pids
from .processes.table import process_table
from .processes.walk import ProcessWalk
from .request import ProbeRequest
from .sockets import sockets_on
from .system import system_fact


def probe(ask: ProbeRequest, emit: Emit) -> None:
    """Emit processes, ports and system out of one walk over /proc."""
    started = time.monotonic()
    rows = sockets_on(ask.ports)
    walk = ProcessWalk(frozenset("socket:[%s]" % row["inode"] for row in rows))
    chosen = select_pids(walk) | (walk.stats.keys() & set(ask.pids))
    emit("processes", process_table(walk, chosen))
    emit("ports", fact(lambda: ports_fact(ask, rows, walk)))
    emit("system", system_fact(walk, started))
