"""gpulaunch stacks: what every rank of a run is executing, without stopping it."""

from typing import Any

import click

from launcher.commands._answer import encode_unreachable, json_option
from launcher.commands._host_access import HostAccess, open_host_access
from launcher.commands._job_hosts import reach_run
from launcher.commands._run_options import FoundRunOptions, find_run, open_run, run_argument, run_options
from launcher.config.node_sets import fold_hosts
from launcher.errors import RunAlreadyEnded
from launcher.exit_codes import ExitCode
from launcher.report.stacks import SCHEMA, encode_hang, render_hang
from launcher.runs.remote_run import RemoteRun
from launcher.runs.search import explain_unanswered
from launcher.runs.stacks import request_stacks
from launcher.terminal.output import echo_json, echo_lines


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
