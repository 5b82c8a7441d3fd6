"""gpulaunch rehearse: prove a launch by a few real steps of the real script on the real hosts."""

from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any

import click

from launcher.commands._argv import LaunchCommand
from launcher.commands._choose_hosts import choose_hosts
from launcher.commands._launch import build_launch, open_screen
from launcher.commands._launch_request import LaunchOptions, LaunchSession, parse_run_request
from launcher.commands._launch_sync import demand_verdict, sync_tree
from launcher.commands._preflight_report import print_report, shorten_error
from launcher.commands.run import command as run_command
from launcher.exit_codes import ExitCode
from launcher.follow.phases import Stopwatch
from launcher.host_checks.render_json import encode_preflight
from launcher.host_checks.result import PreflightResult
from launcher.launch.gpu_wait import GpuWait
from launcher.launch.launch import raise_if_blocked
from launcher.rehearsal.proof_store import save_proof
from launcher.rehearsal.rehearse import DEFAULT_STEPS, rehearse
from launcher.rehearsal.render import encode_rehearsal, render_rehearsal
from launcher.terminal.output import echo_json
from preflight.errors import GpulaunchError

_NOT_HERE = (
    *("dry_run", "deep", "rehearse", "guard", "clean", "detach", "restarts", "no_restart", "show_secrets"),
    *("on_disconnect", "disconnect_timeout", "grace"),  # a rehearsal ends with its client
)
_STEPS = click.Option(
    ["--steps"],
    type=click.IntRange(2, 1000),
    default=DEFAULT_STEPS,
    show_default=True,
    metavar="N",
    help="Optimizer steps.",
)
_FIT = click.Option(
    ["--fit"], is_flag=True, help="On out-of-memory try again with half the batch (`batch_args`)."
)


def _shared() -> list[click.Parameter]:
    """Return the options of `run` that a rehearsal takes, without what they say of a dry run."""
    shared = [copy(each) for each in run_command.params if each.name not in _NOT_HERE]
    for option in shared:
        if option.name == "verbose" and isinstance(option, click.Option):
            option.help = "All that the checks of the hosts found."
    return shared


@click.command(
    "rehearse",
    cls=LaunchCommand,
    params=[_STEPS, _FIT, *_shared()],
    options_metavar="[OPTIONS] {SCRIPT | -c NAME | -- COMMAND...}",
)
def command(config: str | None, extra: tuple[str, ...], steps: int, *, fit: bool, **given: Any) -> int:
    """Run a few real optimizer steps on the hosts, prove what can be proven, leave nothing behind.

    Shown for every rank: dtypes of parameters, gradients and optimizer state, the scaler, finite values,
    the GPU, the world, gradients for all that is trained, memory, speed. transformers' Trainer evaluates and
    saves once, if it ever would. The exit code is 0 only if all of it is proven; `run` then says what has
    changed since. Else it is that of the run, or 1.
    """
    options = LaunchOptions(**given)
    what = parse_run_request(config, extra, options)
    launch = build_launch(what, options)
    as_json = options.as_json
    screen = open_screen(options)

    results: list[PreflightResult] = []

    def on_result(result: PreflightResult) -> None:
        results.append(result)
        print_report(screen, result, verbose=options.verbose)

    session = LaunchSession(options, screen, Stopwatch())
    queues = session.queues
    try:
        what, launch = choose_hosts(what, launch, session)
        if options.wait is not None:
            waiting = queues.enter_context(GpuWait(launch, what.job, options.wait, screen.notify))
            waiting.wait_until_free()
            launch = replace(launch, on_started=lambda _: queues.close())
        verdict = partial(
            demand_verdict, what.config, launch, screen, raise_if_blocked, verbose=options.verbose
        )
        launch = sync_tree(what.config, launch, screen, approve=verdict)
        done = rehearse(launch, on_result, screen, steps=steps, fit=fit)
    except GpulaunchError as error:
        if not results:
            raise
        raise shorten_error(error, results[-1]).with_document(encode_preflight(results[-1])) from None
    finally:
        screen.clear()
        queues.close()
        launch.connections.close()
        what.access.close()
    document = encode_rehearsal(done, what.config.name)
    save_proof(what.config.path, document)
    for line in render_rehearsal(done, launch.job):
        screen.print_line(line)
    code = 0 if done.verdict.proven else done.outcome.exit_code or ExitCode.NEGATIVE
    if as_json:
        echo_json({**document, "left_out_hosts": dict(what.left_out), "exit_code": int(code)})
    return code
