"""gpulaunch run: check the hosts, launch the training on all of them, follow it to its end."""

from typing import Any

import click

from launcher.commands import _param_types
from launcher.commands._argv import LaunchCommand
from launcher.commands._completion import complete_files
from launcher.commands._deep_options import deep_flag
from launcher.commands._host_options import add_host_options, max_age_option, transport_option
from launcher.commands._option_rules import forbid_together, require_another

MOST_WAIT_S = 7 * 86400.0  # /tmp loses files unchanged for ten days; a ticket in a queue may not change


@click.command("run", cls=LaunchCommand, options_metavar="[OPTIONS] {SCRIPT | -c NAME | -- COMMAND...}")
@_param_types.config_option("Run config: a name, or a path to a YAML file.")
@_param_types.hosts_option("Names, ranges, groups or all")
@_param_types.key_option(
    "--nodes",
    "nodes",
    "N",
    "Take the first N of these hosts that nothing stops; other good ones are spares for restarts.",
)
@_param_types.gpus_option
@click.option(
    "--name",
    type=_param_types.RunNameParam(),
    default="",
    metavar="NAME",
    help="Name of the run, the first part of its id; else that of the script or run config.",
)
@_param_types.key_option(
    "--port", "main_port", "N", "Main port to ask for; another free one is taken when it is busy."
)
@_param_types.key_option("--precision", "precision", "WHICH", "Mixed precision: auto, no, fp16, bf16 or fp8.")
@_param_types.key_option("--guard", "guard", "WHAT", "What the guard in each rank does: stop, warn or off.")
@_param_types.key_option(
    "--hang-timeout", "hang_timeout", "DURATION", "End a run that shows no life for so long."
)
@_param_types.flag("--sync", "Send the working tree to the hosts first; without it a SCRIPT goes alone.")
@_param_types.set_option
@_param_types.launch_option
@_param_types.ignore_option
@_param_types.flag("--dry-run", "Print the plan and why; start nothing.")
@_param_types.flag("--show-secrets", "With --dry-run: print passwords and tokens as they are.")
@_param_types.flag("--clean", "First end what is proven left over from dead runs of yours.")
@click.option(
    "--wait",
    type=_param_types.DurationParam(min=0, max=MOST_WAIT_S),
    help="Wait in turn until the GPUs are free, at most so long.",
)
@max_age_option
@_param_types.flag("--rehearse", "Rehearse a few steps first; run only if all is proven.")
@deep_flag
@_param_types.flag("--json", "as_json", "Print one JSON document; all else goes to stderr.")
@_param_types.plain_option
@_param_types.flag(
    "-v", "--verbose", "All that the checks of the hosts found; with --dry-run the environments, too."
)
@_param_types.all_ranks_option
@_param_types.flag("-d", "--detach", "Leave once the ranks are as planned; the run continues.")
@_param_types.key_option(
    "--restarts", "restart.max", "N", "How often at most a run that failed is started again."
)
@_param_types.flag("--no-restart", "Let a run that failed stay ended, whatever its config says.")
@_param_types.key_option(
    "--on-disconnect",
    "on_disconnect",
    "WHAT",
    "continue (default): the run continues when this client is gone; stop: it ends.",
)
@_param_types.key_option(
    "--disconnect-timeout",
    "disconnect_timeout",
    "DURATION",
    "How long hosts wait for this client (--on-disconnect stop), and it for silent hosts (10m).",
)
@_param_types.key_option(
    "--grace",
    "grace",
    "DURATION",
    "From SIGTERM to SIGKILL when the run is stopped (10s): time for a last checkpoint.",
)
@_param_types.logs_option("Local directory for the full log of each rank.")
@transport_option
@add_host_options
@require_another("--show-secrets", "--dry-run")
@forbid_together("--no-restart", "--restarts", "starts no failed run again")
@click.argument(
    "extra", nargs=-1, type=click.UNPROCESSED, shell_complete=complete_files, metavar="[-- ARGS]..."
)
def command(config: str | None, extra: tuple[str, ...], **given: Any) -> int:
    """Check the hosts, launch the training on all of them, and follow it to its end.

    SCRIPT is a local file; it needs no run config, and is sent to the hosts. ARGS (after --) are the
    script's; with a run config they are added to those in it. Instead of SCRIPT, a whole command that you
    type today goes after --: torchrun, accelerate launch, deepspeed, python, or a program that starts one.

    The run continues without this client: when its terminal closes, the laptop sleeps, the link is lost or it
    is killed. With restarts, one host then restarts a run that fails; on several hosts it waits for
    `gpulaunch attach`. Ctrl-C at a terminal asks whether to stop it, to detach or to stay; elsewhere it
    stops it.

    The exit code is the first failing rank's; 1: findings stopped the launch; 2: the command line or a file
    is wrong; 3: a host could not be reached; 4: the ranks were not as planned; 5: the run could not be
    carried through; 75: the GPUs were not free within --wait; 77: a node of the Slurm job is bad and no spare
    takes its place; 86: the guard stopped it; 124: it hung; 129: the terminal was closed, and the run
    continues; 130: Ctrl-C stopped it (SIGTERM everywhere; once more: SIGKILL).
    """
    from launcher.commands import _launch, _launch_request  # noqa: PLC0415 - --help needs none of it

    options = _launch_request.LaunchOptions(**given)
    what = _launch_request.parse_run_request(config, extra, options)
    try:
        launch = _launch.build_launch(what, options)
        try:
            return _launch.launch_and_report(what, launch, options)
        finally:
            launch.connections.close()
    finally:
        what.access.close()
