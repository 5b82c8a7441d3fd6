"""gpulaunch stop: end a run on all of its nodes, and hear from each that nothing is left."""

from typing import Any

import click

from launcher.commands.param_types import Duration
from launcher.commands.runs_options import access, found_run, run_options, ways_of
from launcher.errors import GpulaunchError, HostError
from launcher.exit_codes import ExitCode
from launcher.identity import user_at_machine
from launcher.report.text import one_line
from launcher.runs.finding import hosts_text
from launcher.runs.stopping import stop_run
from launcher.terminal.output import echo


@click.command("stop")
@click.argument("run")
@click.option("--now", is_flag=True, help="SIGKILL right after SIGTERM: no time for a last checkpoint.")
@click.option(
    "--grace",
    type=Duration(0, 86400),
    default="30s",
    show_default=True,
    help="Seconds from SIGTERM to SIGKILL; a script that handles SIGTERM saves its checkpoint in them.",
)
@run_options
def command(run: str, **options: Any) -> int:
    """Stop RUN (a unique beginning of its id, or `last`): SIGTERM on every node, a grace period, SIGKILL.

    Two who stop one run do no harm: the shorter grace counts. Exit code 0: every node has answered that
    nothing of the run is left; 1: something cannot be ended; 3: a node could not be reached.
    """
    ways = ways_of(options)
    found = found_run(run, ways, options)
    to = access(found, ways, options)
    plan = to.plan
    grace_s = 0.0 if options["now"] else float(options["grace"])
    why = f"stopped by {user_at_machine()}"
    results = stop_run(plan.run_id, to.entries, to.open, grace_s=grace_s, why=why)
    code = 0
    for node, result in zip(plan.nodes, results, strict=True):
        words, worse = _told(result)
        code = max(code, worse)
        echo(f"{node.host}: {words}", err=worse != 0)
    if code == 0:
        names = hosts_text([node.host for node in plan.nodes])
        echo(f"{plan.run_id} has ended on {names}; nothing of it is left there")
    return code


def _told(result: "dict[str, Any] | GpulaunchError") -> tuple[str, int]:
    if isinstance(result, GpulaunchError):
        detail = result.detail if isinstance(result, HostError) else result.message
        return f"not stopped: {one_line(detail, 300)}", ExitCode.UNREACHABLE
    state = result.get("state") or {}
    end = state.get("exit") or {}
    if end.get("left"):
        return "could not be ended: " + ", ".join(str(pid) for pid in end["left"]), ExitCode.NEGATIVE
    if state.get("phase") != "ended" and result.get("alive"):
        return "has not ended in time", ExitCode.NEGATIVE
    if state.get("phase") != "ended":
        return (
            "was lost before: its supervisor is gone; gpulaunch clean-zombies tells what it left",
            ExitCode.NEGATIVE,
        )
    codes = ", ".join(f"rank {rank}: {code}" for rank, code in sorted((end.get("ranks") or {}).items()))
    port = ", its port is still in use" if end.get("port_free") is False else ""
    return f"ended ({codes or 'no rank had started'}){port}", 0
