"""Before a launch: end what dead runs of one's own left on its hosts, so that they do not block it.

What to end is judged and ended exactly as `gpulaunch clean-zombies` does it (launcher/cleanup/clean.py).
"""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from launcher.cleanup.clean import (
    SKIPPED_FACTS,
    CleanOptions,
    CleanResult,
    clean,
    select_leftovers,
    write_audit,
)
from launcher.config.inventory import HostEntry
from launcher.errors import GpulaunchError
from launcher.local.home import user_state_dir
from launcher.remote.agent import AgentRequest, query_agent
from launcher.remote.connection_pool import ConnectionPool
from launcher.remote.fanout import fanout
from preflight.facts.host import HostFacts
from preflight.frozen import dataclass
from preflight.leftovers.classify import ClassifiedProcess
from preflight.leftovers.selection import CleanFilter, CleanSelection

Say = Callable[[str], None]
Confirm = Callable[[str], bool]


@dataclass(frozen=True, slots=True)
class HostLeftovers:
    """One host with what is left over on it."""

    entry: HostEntry
    facts: HostFacts
    selection: CleanSelection

    @property
    def blocks_launch(self) -> bool:
        """Whether anything that may be ended holds a GPU or a port."""
        return any(each.held for each in (*self.selection.automatic, *self.selection.needs_confirmation))


def find_leftovers(entries: tuple[HostEntry, ...], facts: dict[str, HostFacts]) -> tuple[HostLeftovers, ...]:
    """Return the hosts on which something is left over that the user may end."""
    rooms = tuple(
        HostLeftovers(entry, facts[entry.name], select_leftovers(facts[entry.name], CleanOptions()))
        for entry in entries
        if entry.name in facts
    )
    return tuple(room for room in rooms if room.selection.automatic or room.selection.needs_confirmation)


def clean_before_launch(
    rooms: tuple[HostLeftovers, ...],
    connections: ConnectionPool,
    say: Say,
    *,
    certain: bool,
    confirm: Confirm | None,
) -> bool:
    """End leftovers; return whether anything was ended.

    Dead runs of gpulaunch are ended at once, what other launchers left with `certain`, or after a yes from
    `confirm` (None: without a terminal).
    """
    from launcher.cleanup.render import (  # noqa: PLC0415 - most launches find nothing left over
        render_question,
        render_result,
        render_selection,
    )

    for room in rooms:
        for line in render_selection(room.facts, room.selection):
            say(line)
    to_confirm = sum(len(room.selection.needs_confirmation) for room in rooms)
    yes = to_confirm > 0 and (certain or (confirm is not None and confirm(render_question(to_confirm))))
    chosen = {
        room.entry.name: (*room.selection.automatic, *(room.selection.needs_confirmation if yes else ()))
        for room in rooms
    }
    todo = [room for room in rooms if chosen[room.entry.name]]
    results = fanout(lambda room: _end(room, chosen[room.entry.name], connections), todo)
    done = False
    for result in results:
        if isinstance(result, GpulaunchError):
            say(result.message)
            continue
        done = done or any(each.is_gone for each in result.killed)
        for line in render_result(result):
            say(line)
    return done


def _end(
    room: HostLeftovers, approved: tuple[ClassifiedProcess, ...], connections: ConnectionPool
) -> CleanResult:
    request = AgentRequest(host=room.entry.name, ports=_ports(approved), skip=SKIPPED_FACTS)
    options = CleanOptions(CleanFilter(pids=tuple(each.process.pid for each in approved)))
    with connections.borrow(room.entry) as connection:
        python = room.entry.python
        look = partial(query_agent, connection, python, request)
        done = clean(connection, python, room.facts, approved, options, look)
    with suppress(OSError):  # the host's own audit log has it
        write_audit(done, approved, user_state_dir())
    return done


def _ports(approved: tuple[ClassifiedProcess, ...]) -> tuple[int, ...]:
    return tuple(sorted({port for each in approved for port in each.held.ports}))
