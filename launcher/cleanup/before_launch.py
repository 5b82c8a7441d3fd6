"""Before a launch: end what dead runs of one's own left on its hosts, so that they do not block it.

What to end is judged and ended exactly as `gpulaunch clean-zombies` does it (launcher/cleanup/clean.py).
"""

from collections.abc import Callable
from contextlib import suppress

from launcher.cleanup import clean
from launcher.config.inventory import HostEntry
from launcher.errors import GpulaunchError, HostInterrupted, PathRefused
from launcher.local.home import user_state_dir
from launcher.remote.agent import AgentRequest
from launcher.remote.connection_pool import ConnectionPool
from launcher.remote.fanout import fanout
from preflight.facts.host import HostFacts
from preflight.leftovers.classify import ClassifiedProcess

Say = Callable[[str], None]
Confirm = Callable[[str], bool]


def list_leftovers(
    entries: tuple[HostEntry, ...], facts: dict[str, HostFacts]
) -> tuple[clean.HostLeftovers, ...]:
    """Return the hosts on which something is left over that the user may end."""
    leftovers = tuple(
        clean.find_leftovers(entry, facts[entry.name], clean.CleanOptions())
        for entry in entries
        if entry.name in facts
    )
    return tuple(host for host in leftovers if host.list_approved(yes=True))


def clean_before_launch(
    leftovers: tuple[clean.HostLeftovers, ...],
    connections: ConnectionPool,
    say: Say,
    *,
    certain: bool,
    confirm: Confirm | None,
) -> bool:
    """End leftovers; return whether anything was ended.

    Dead runs of gpulaunch are ended at once, what other launchers left with `certain`, or after a yes from
    `confirm` (None: without a terminal). Raises KeyboardInterrupt once what hosts have done is said.
    """
    from launcher.cleanup.render import render_question, render_result, render_selection  # noqa: PLC0415 - most launches find nothing left over

    for host in leftovers:
        for line in render_selection(host.facts, host.selection):
            say(line)
    to_confirm = sum(len(host.selection.needs_confirmation) for host in leftovers)
    yes = to_confirm > 0 and (certain or (confirm is not None and confirm(render_question(to_confirm))))
    todo = [host for host in leftovers if host.list_approved(yes=yes)]
    results = fanout(
        lambda host: _end(host, host.list_approved(yes=yes), connections),
        todo,
        on_interrupt=lambda host: clean.explain_doubt(
            HostInterrupted, host.entry.name, host.list_approved(yes=yes)
        ),
    )
    done = False
    for result in results:
        if isinstance(result, GpulaunchError):
            say(result.message)
            continue
        done = done or any(each.is_gone for each in result.killed)
        for line in (*render_result(result), *((result.lost.message,) if result.lost else ())):
            say(line)
    if any(isinstance(result, HostInterrupted) for result in results):
        raise KeyboardInterrupt
    return done


def _end(
    host: clean.HostLeftovers, approved: tuple[ClassifiedProcess, ...], connections: ConnectionPool
) -> clean.CleanResult:
    ports = tuple(sorted({port for each in approved for port in each.held.ports}))
    request = AgentRequest(host=host.entry.name, ports=ports, skip=clean.SKIPPED_FACTS)
    with connections.borrow(host.entry) as connection:
        done = clean.clean_host(connection, host, approved, clean.CleanOptions(), request)
    with suppress(OSError, PathRefused):  # the host's own audit log has it
        clean.write_audit(done, approved, user_state_dir())
    return done
