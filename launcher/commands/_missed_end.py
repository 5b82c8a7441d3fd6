"""The end of a run that no client has followed, read from its hosts by a later command."""

import os
from collections.abc import Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from launcher.commands._host_access import HostAccess
from launcher.config.inventory import HostEntry
from launcher.launch.request import FollowOptions
from launcher.launch.signals import choose_detach
from launcher.planning.run_record import read_run_records
from launcher.report.outcome import encode_outcome
from launcher.restart.start_chain import FollowContext, follow_starts
from launcher.runs.access import KnownHosts, RunAccess, access_run
from launcher.runs.remote_run import RemoteRun
from launcher.runs.search import search_all
from launcher.terminal.screen import Screen
from launcher.transports.ssh.config_parser import is_named
from preflight.errors import BadInput


def find_last_start(run_id: str, access: HostAccess, entries: Collection[HostEntry]) -> RemoteRun | None:
    """Return the run or its last restart, None where its hosts lack it. Raises BadInput for other hosts."""
    launched = read_run_records().get(run_id)
    found, silent = _find(run_id, access, entries)
    if found is None:
        own = {entry.name for entry in launched.entries} if launched is not None else set()
        if own <= {entry.name for entry in entries} - set(silent):
            return None
        raise BadInput(f"{run_id} was not found")
    while found.next_start:
        following, _ = _find(found.next_start, access, entries)
        if following is None or following.started <= found.started:
            raise BadInput(f"{found.next_start} was not found")
        found = following
    return found


def _find(
    run_id: str, access: HostAccess, entries: Collection[HostEntry]
) -> tuple[RemoteRun | None, Collection[str]]:
    """Return the run by its whole id, and the hosts that did not answer."""
    listed = access.inventory.hosts
    found = search_all(
        entries, access.open, width=access.width, listed=listed, prefix=run_id, ended=True, tail=0
    )
    return next((run for run in found.runs if run.run_id == run_id), None), found.errors.keys()


def read_end(
    run: RemoteRun, access: HostAccess, entries: Collection[HostEntry], logs: Path
) -> Mapping[str, Any]:
    """Return how a run that is over has ended, as `run --json` reports it; complete its local logs."""

    def access_of(found: RemoteRun) -> tuple[RemoteRun, RunAccess]:
        known = KnownHosts(
            {entry.name: entry for entry in entries}, access.inventory, partial(is_named, None)
        )
        to = access_run(found, known, access.open)
        to.demand()
        return found, to

    def find(run_id: str) -> tuple[RemoteRun, RunAccess]:
        found, _ = _find(run_id, access, entries)
        if found is None:
            raise BadInput(f"{run_id} was not found")
        return access_of(found)

    with Path(os.devnull).open("w", encoding="utf-8") as nowhere:
        means = FollowContext(
            screen=Screen(nowhere),
            follow=FollowOptions(choose=choose_detach, unasked="detach", logs=logs),
            find=find,
            spares=lambda _: (),
            on_preflight=lambda _: None,
        )
        outcome = follow_starts(*access_of(run), means)
    if outcome is None:
        raise BadInput(f"{run.run_id} continues")
    return {**encode_outcome(outcome), "exit_code": int(outcome.exit_code)}
