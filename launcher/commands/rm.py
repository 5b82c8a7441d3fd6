"""gpulaunch rm: delete a run that is over from its hosts."""

import time
from typing import Any

import click

from launcher.commands import _run_options
from launcher.commands._answer import Answer, encode_unreachable, json_option
from launcher.commands._host_access import open_host_access
from launcher.commands._param_types import flag
from launcher.commands._remove import confirm_delete, remove_runs
from launcher.errors import BadInput
from launcher.exit_codes import ExitCode
from launcher.launch.signals import report_stop_signals
from launcher.rundir.end_state import LIVING
from launcher.rundir.run_id import LAST, is_job_id, run_name
from launcher.runs.render import run_line
from launcher.runs.search import explain_unanswered


@click.command("rm")
@_run_options.run_argument
@flag("--yes", "-y", "Do not ask.")
@json_option
@_run_options.run_options
@report_stop_signals()
def command(run: str, *, yes: bool, as_json: bool, **given: Any) -> int:
    """Delete RUN's directory (logs, records) on every host of it. Its output and the local files stay.

    Of several that RUN fits none is deleted, nor one that is not over; `last` is always asked about. Exit
    code 1: it is not over, a host refused, or you said no; 3: a host could not be reached.
    """
    options = _run_options.FoundRunOptions(**given)
    if is_job_id(run) and not options.hosts:
        raise BadInput(
            f"{run} is the id of a Slurm job, which rm does not take", f"gpulaunch ps {run} names its run"
        )
    access = open_host_access(options)
    found = _run_options.find_run(run, access, options, prefer="exact")
    fix = f"gpulaunch rm {found.run_id} --yes"
    if run == LAST and yes:
        raise BadInput("--yes needs a run's name: with each deletion another run becomes the last", fix)
    answer = Answer("gpulaunch.removal/1", as_json=as_json)
    answer.words = _run_options.list_access_words(access, options)
    if run not in (LAST, run_name(found.run_id)):  # which `find_run` has shown
        answer.say(run_line(found, time.time()))
    if found.status in LIVING:
        answer.say(
            f"{found.run_id} is not over, and is kept; gpulaunch stop {found.run_id} ends it", err=True
        )
        return answer.finish(ExitCode.NEGATIVE, runs=[], **encode_unreachable({}))
    if not confirm_delete("Delete its logs and records on the hosts?", answer, yes=yes, fix=fix):
        return answer.finish(ExitCode.NEGATIVE, runs=[], **encode_unreachable({}))
    words = access.inventory.access_words
    for line in explain_unanswered(found.unheard, words):
        answer.say(line, err=True)
    return remove_runs([found], access.open, answer, found.unheard, words)
