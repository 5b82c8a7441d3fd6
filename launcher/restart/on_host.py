"""The client that the keeper of a run starts on its host: it makes one restart as any other client would.

It arrives as client.pack and needs Python 3.11 and nothing else. stdin is what the keeper holds for the
restart; argv are the directory of the code, the run directory, and a directory to work in, where it leaves
result.json.
"""

import json
import os
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from launcher.config.inventory import HostEntry, Inventory
from launcher.errors import GpulaunchError
from launcher.follow.outcome import Outcome
from launcher.launch.request import FollowOptions
from launcher.launch.signals import choose_detach
from launcher.local.safe_paths import write_below
from launcher.restart.restart_lock import Hold
from launcher.restart.restart_order import RestartOrder, read_order
from launcher.restart.restarter import RestartLoop
from launcher.restart.start_chain import FollowContext, restart_loop
from launcher.runs.access import KnownHosts, RunAccess, access_run
from launcher.runs.attach import AttachedRun
from launcher.runs.remote_run import RemoteRun
from launcher.runs.search import find_in_runs
from launcher.terminal.screen import Screen
from launcher.transports.base import Connection, Endpoint
from launcher.transports.local import LocalConnection
from preflight.errors import BadInput

RESULT = "result.json"


class NeedsClientError(Exception):
    """What only a client on another machine can do."""


class OwnScreen(Screen):
    """Messages go to supervisor.log; what ranks print is in their own logs."""

    def output(self, host: str, log: str, data: bytes, now: float) -> None:
        """Show nothing of it."""


class KeeperHold(Hold):
    """The right, held and given back by the keeper that has started this client, which notes the result."""

    def __init__(self, run_dir: Path) -> None:
        self._run_dir = run_dir

    def confirm(self) -> bool:
        """Return whether the run was not stopped."""
        return not (self._run_dir / "decided.json").exists()


def main() -> int:
    """Restart the run; leave what became of it in result.json."""
    run_dir, place = Path(sys.argv[2]), Path(sys.argv[3])
    try:
        result = restart_run(run_dir, place, os.pread(0, os.fstat(0).st_size, 0).decode())
    except (NeedsClientError, GpulaunchError, BadInput) as error:
        result = {"state": "waits", "why": str(error)}
    except Exception as error:  # noqa: BLE001 - the keeper then waits for a client
        traceback.print_exc()
        result = {"state": "waits", "why": repr(error)}
    write_below(place, RESULT, json.dumps(result))
    return 0


def restart_run(run_dir: Path, place: Path, text: str) -> dict[str, Any]:
    """Decide and restart as the order says; return what became of it."""
    spec = json.loads((run_dir / "spec.json").read_text())
    order = read_order(text, [spec.get("restart")])
    means = build_context(order, place)
    found, to = means.find(run_dir.name)
    outcome = AttachedRun(to, means.screen, run=found, options=means.follow).follow()
    if outcome is None:
        raise NeedsClientError("it was interrupted")
    with restart_loop(order, found, to, means) as loop:
        return _carry_on(loop, outcome, KeeperHold(run_dir))


def _carry_on(loop: RestartLoop, outcome: Outcome, hold: "KeeperHold") -> dict[str, Any]:
    """Make starts until one runs as planned, or none is to follow."""
    last = loop.resume(outcome, hold)
    why = last.restarts.stop_reason if last.restarts is not None else last.why
    if last.verdict == "detached":
        return {"state": "restarted", "run_id": last.plan.run_id}
    if loop.may_try_later:
        return {"state": "waits", "why": why}
    return {"state": "ended", "why": why}


def build_context(order: RestartOrder, place: Path) -> FollowContext:
    """Return how starts are found and made on this host, whatever other machines call it."""
    entry = order.entries[0]

    def find(run_id: str) -> tuple[RemoteRun, RunAccess]:
        found = find_in_runs(run_id, (entry,), connect_self, width=1, warn=lambda _: None)
        known = KnownHosts({entry.name: entry}, Inventory(), lambda _: False)
        return found, access_run(found, known, connect_self)

    return FollowContext(
        screen=OwnScreen(sys.stderr),
        follow=FollowOptions(
            choose=choose_detach, logs=place / "logs", detach=True, keeps_record=entry.is_local
        ),
        find=find,
        spares=lambda order: order.spares,
        on_preflight=lambda _: None,
        prepare_spare=_refuse_spare,
    )


def connect_self(entry: HostEntry) -> Connection:
    """Return this machine, which is the only host of the run."""
    return LocalConnection(Endpoint(entry.name, "local", ""))


def _refuse_spare(spare: HostEntry) -> None:
    raise NeedsClientError(f"{spare.name} is to take its place, which only a client reaches")


if __name__ == "__main__":
    with suppress(BrokenPipeError):
        sys.exit(main())
