"""gpulaunch ps: list runs, found by asking the hosts."""

import time
from typing import Any

import click

from launcher.commands._host_access import open_host_access
from launcher.commands._host_options import HostOptions, host_access_options, hosts_argument
from launcher.commands._job_hosts import reach_run
from launcher.commands._on_end_notice import deliver_due
from launcher.exit_codes import ExitCode
from launcher.runs.render import encode_runs, render_runs
from launcher.runs.search import format_hosts, search, search_hosts, unanswered_lines
from launcher.terminal.output import echo, echo_json, echo_lines
from launcher.text import sanitize

_FIXES_SHOWN = 3


@click.command("ps")
@hosts_argument
@click.option("--all", "-a", "ended", is_flag=True, help="Also runs that are over.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@host_access_options
def command(hosts: tuple[str, ...], *, ended: bool, as_json: bool, **given: Any) -> int:
    """List your runs on HOSTS: those that run, and those that were lost.

    Without HOSTS: all of hosts.yaml, this machine, and the hosts of runs that were started on this machine.
    The id of a Slurm job means its nodes, in this command and wherever a command takes RUN.
    Exit code 3: a host that was named did not answer.
    """
    ways = reach_run(open_host_access(HostOptions(**given)), hosts[0] if len(hosts) == 1 else "", ())
    entries = ways.nodes or search_hosts(ways.inventory, hosts)
    found = search(
        entries, ways.open, width=ways.width, listed=ways.inventory.hosts, ended=ended, gpu_use=True
    )
    errors = {name: sanitize(error.detail, keep_lines=False) for name, error in found.errors.items()}
    code = ExitCode.UNREACHABLE if errors and (hosts or len(errors) == len(entries)) else ExitCode.OK
    if as_json:
        document = encode_runs(found.runs, errors, found.strays, found.other_hosts)
        echo_json({**document, "exit_code": int(code)})
    elif found.runs:
        echo_lines(render_runs(found.runs, time.time()))
    else:
        answered = [entry.name for entry in entries if entry.name not in errors]
        lives = "no run" if ended else "no run lives"
        names = format_hosts(list(found.other_hosts))
        others = f" (their home also has runs of {names})" if names else ""
        echo(f"{lives} on {format_hosts(answered)}{others}" if answered else "no host answered")
    for run_id, strays in found.strays.items():
        for words in strays:
            echo(f"{run_id}: {words}", err=True)
    for line in unanswered_lines(errors):
        echo(line, err=True)
    fixes = dict.fromkeys(error.fix for error in found.errors.values() if error.fix)
    for fix in list(fixes)[:_FIXES_SHOWN] if code else ():
        echo(f"  fix: {fix}", err=True)
    answered_entries = [entry for entry in entries if entry.name not in errors]
    deliver_due(ways, answered_entries, {run.run_id for run in found.runs if run.is_live})
    return code
