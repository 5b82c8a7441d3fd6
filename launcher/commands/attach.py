"""gpulaunch attach: follow a live run again, from any machine."""

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import click

from launcher.commands import _run_options
from launcher.commands._answer import Answer, json_option
from launcher.commands._host_access import HostAccess
from launcher.commands._interrupt_prompt import build_ctrl_c_prompt
from launcher.commands._on_end import deliver_for
from launcher.commands._param_types import all_ranks_option, flag, logs_option, plain_option
from launcher.commands._preflight_report import print_report
from launcher.config.host_access_args import complete_run_commands
from launcher.exit_codes import ExitCode
from launcher.launch.request import FollowOptions
from launcher.launch.signals import choose_detach, choose_stop
from launcher.report.outcome import describe_left, encode_outcome, render_launch
from launcher.report.outcome_printer import print_outcome
from launcher.restart.start_chain import FollowContext, follow_starts
from launcher.runs.access import RunAccess
from launcher.runs.gone_hosts import note_end
from launcher.runs.remote_run import RemoteRun
from launcher.terminal.live_screen import choose_screen
from launcher.terminal.output import echo_json
from preflight.checks.message_text import round_duration


@click.command("attach")
@_run_options.run_argument
@flag("--stop-on-exit", "Ctrl-C stops the run, without a question.")
@logs_option("Local directory for the full log of each rank.")
@plain_option
@all_ranks_option
@json_option
@_run_options.run_options
def command(
    run: str, *, stop_on_exit: bool, logs: Path, plain: bool, all_ranks: bool, as_json: bool, **given: Any
) -> int:
    """Follow RUN as `gpulaunch run` does, to its end.

    A run that has failed and waits for a restart is started again by this client.
    Of what was printed before, the last part is shown; the local logs get all of it. Ctrl-C asks whether to
    detach or to stop the run; without a terminal it detaches, and so does SIGTERM. The exit code is the
    run's; 0 after detaching.
    """
    options = _run_options.FoundRunOptions(**given)
    access, found, to = _run_options.open_named_run(run, options, waits=True)
    to.demand()  # to follow a part of it would end the rest: a host that is not heard counts as lost
    plan, run_words = to.plan, _run_options.list_access_words(access, options)
    stream = sys.stderr if as_json else sys.stdout
    screen = choose_screen(stream, plain=plain, all_ranks=all_ranks)
    asks = build_ctrl_c_prompt(screen, again="detach")
    choose = choose_stop if stop_on_exit else asks or choose_detach
    means = FollowContext(
        screen=screen,
        follow=FollowOptions(choose=choose, unasked="detach", logs=logs, all_ranks=all_ranks),
        find=partial(_find_start, access, options),
        spares=lambda _: (),  # what names them is the word of the hosts that have failed
        on_preflight=partial(print_report, screen),
    )
    for line in render_launch(plan, str(logs / plan.run_id)):
        screen.notify(line)
    for line in _run_options.describe_renamed_hosts(to):
        screen.notify(line)
    if found.is_over:
        when = "" if found.ended is None else f" {round_duration(time.time() - found.ended)} ago"
        screen.notify(f"this run has ended{when}; this is how it was")
    outcome = follow_starts(found, to, means)
    if outcome is None or outcome.verdict == "detached":
        run_id = plan.run_id if outcome is None else outcome.plan.run_id
        again = found.slurm_job or run_id
        ended = not found.is_live or (outcome is not None and outcome.ranks_have_ended)
        line = f"detached; {describe_left(ended=ended)}. Come back with: gpulaunch attach {again}"
        screen.notify(complete_run_commands(line, run_words))
        answer = Answer("gpulaunch.attach/1", as_json=as_json)
        code = ExitCode.TERMINAL_CLOSED if screen.is_closed else ExitCode.OK
        return answer.finish(code, run_id=run_id, detached=True)
    note_end(outcome)
    print_outcome(outcome, screen, run_words)
    document = {**encode_outcome(outcome), "exit_code": int(outcome.exit_code)}
    if as_json:
        echo_json(document)
    starts = [] if outcome.restarts is None else [start.run_id for start in outcome.restarts.starts]
    deliver_for(dict.fromkeys([*starts, found.run_id, outcome.plan.run_id]), document)
    return outcome.exit_code


def _find_start(
    access: HostAccess, options: _run_options.FoundRunOptions, run_id: str
) -> tuple[RemoteRun, RunAccess]:
    """Return a start by its run id. Raises BadInput, or HostError when no host answered."""
    found = _run_options.find_run(run_id, access, options)
    to = _run_options.open_run(found, access, options, waits=True)
    to.demand()
    return found, to
