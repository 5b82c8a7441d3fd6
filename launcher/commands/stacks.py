"""gpulaunch stacks: what every rank of a run is executing, without stopping it."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from launcher.commands._answer import encode_unreachable, json_option
from launcher.commands._host_access import HostAccess, open_host_access
from launcher.commands._job_hosts import reach_run
from launcher.commands._run_options import FoundRunOptions, find_run, open_run, run_argument, run_options
from launcher.config.inventory import HostEntry
from launcher.config.node_sets import fold_hosts
from launcher.errors import GpulaunchError, RunAlreadyEnded
from launcher.exit_codes import ExitCode
from launcher.planning.plan import Plan
from launcher.remote.connection_pool import OpenConnection
from launcher.remote.fanout import fanout
from launcher.report.stacks import SCHEMA, encode_hang, render_hang
from launcher.runs.remote_run import RemoteRun
from launcher.runs.request import send_request
from launcher.runs.search import explain_unanswered
from launcher.terminal.output import echo_json, echo_lines
from launcher.terminal.slow_hosts import name_slow_hosts
from launcher.text import sanitize
from preflight.diagnosis.stack_analysis import Hang, RankStack, find_outliers, read_stacks

STACKS_TIMEOUT_S = 90.0  # writing stacks down takes a minute at most, where something does not answer


@click.command("stacks")
@run_argument
@json_option
@run_options
def command(run: str, *, as_json: bool, **given: Any) -> int:
    """Show what every rank of RUN is executing; it continues.

    Each rank's main thread, the innermost call first, and which ranks differ from most. All threads
    and DataLoader workers are in stacks-rank-N.log of the run. Exit code 3: a host did not answer.
    """
    options = FoundRunOptions(**given)
    access = reach_run(open_host_access(options), run, options.hosts)
    return show_stacks(find_run(run, access, options), access, options, as_json=as_json)


def show_stacks(found: RemoteRun, access: HostAccess, options: FoundRunOptions, *, as_json: bool) -> int:
    """Take the stacks of a run and print them; return the exit code. Raises RunAlreadyEnded."""
    if found.status not in ("running", "stopping"):
        for error in found.unheard.values():  # it may still run on them
            raise error
        on = "" if found.is_over else f" on {fold_hosts(node.entry.name for node in found.nodes)}"
        raise RunAlreadyEnded(
            f"{found.run_id} is over{on} ({found.status}): its ranks have no stacks any more",
            f"gpulaunch fetch {found.run_id} brings the stacks that gpulaunch took when it hung, if it did",
        )
    to = open_run(found, access, options)
    plan = to.plan
    hang, errors = request_stacks(plan, to.entries, to.open)
    code = ExitCode.UNREACHABLE if errors else ExitCode.OK
    if as_json:
        unreachable = encode_unreachable(errors, access.inventory.access_words)
        document = {"schema": SCHEMA, "run_id": plan.run_id, **encode_hang(hang), **unreachable}
        echo_json({**document, "exit_code": int(code)})
    else:
        echo_lines(render_hang(hang))
    echo_lines(explain_unanswered(errors, access.inventory.access_words), err=True)
    return code


def request_stacks(
    plan: Plan, entries: Sequence[HostEntry], open_entry: OpenConnection
) -> tuple[Hang, Mapping[str, GpulaunchError]]:
    """Return what the ranks execute, and the hosts that did not answer."""
    request = {"mode": "stacks", "run_id": plan.run_id}

    def one(entry: HostEntry) -> Mapping[str, object]:
        with open_entry(entry) as connection:
            said = send_request(connection, entry.python, request, timeout_s=STACKS_TIMEOUT_S).get("stacks")
            return said if isinstance(said, dict) else {}

    errors: dict[str, GpulaunchError] = {}
    stacks: list[RankStack] = []
    # All at once, so that they are of one moment.
    results = fanout(one, entries, width=max(1, len(entries)), on_slow=name_slow_hosts)
    for node, result in zip(plan.nodes, results, strict=True):
        if isinstance(result, GpulaunchError):
            errors[node.host] = result
            continue
        texts = [sanitize(text) for text in result.values() if isinstance(text, str)]
        stacks += [found for text in texts if (found := read_stacks(text, node.host)) is not None]
    return find_outliers(stacks, plan.world_size), errors
