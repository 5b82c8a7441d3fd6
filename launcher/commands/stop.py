"""gpulaunch stop: end a run on all of its nodes, and hear from each that nothing is left."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import click

from launcher.commands._answer import Answer, encode_error, json_option
from launcher.commands._host_access import open_host_access
from launcher.commands._job_hosts import ask_slurm, reach_run
from launcher.commands._on_end import deliver_due
from launcher.commands._option_rules import forbid_together
from launcher.commands._param_types import DurationParam, flag
from launcher.commands._run_options import (
    FoundRunOptions,
    find_run,
    list_access_words,
    name_node,
    open_run,
    run_argument,
    run_options,
)
from launcher.config.disconnect_options import MAX_GRACE_S
from launcher.config.node_sets import fold_hosts
from launcher.errors import GpulaunchError, HostInterrupted
from launcher.exit_codes import ExitCode
from launcher.launch.signals import outlive_terminal, report_stop_signals
from launcher.local.project import local_runs_dir
from launcher.local.user import format_user_at_machine
from launcher.onhost.exit_status import describe_exit
from launcher.planning.run_record import note_in_record, read_run_records
from launcher.rundir.end_state import explain_stall
from launcher.rundir.run_id import LAST, is_job_id
from launcher.runs.last_run import find_other_project, follow_next_starts
from launcher.runs.remote_run import RemoteRun
from launcher.runs.request import RequestDenied
from launcher.runs.stop import stop_run
from launcher.slurm.jobs import await_end, cancel_job, end_without_run
from launcher.text import group_alike, name_ranks, one_line

NodeAnswer: TypeAlias = "dict[str, Any] | GpulaunchError"
_NOT_HEARD = (ExitCode.UNREACHABLE, ExitCode.INTERRUPTED)
JOB_STOP_TIMEOUT_S = 30.0  # after its run has ended a job may still fetch and report


@click.command("stop")
@partial(run_argument, default="")
@flag("--now", "SIGKILL right after SIGTERM: no time for a last checkpoint.")
@click.option(
    "--grace",
    type=DurationParam(0, MAX_GRACE_S),
    help="From SIGTERM to SIGKILL: time for a last checkpoint.  [default: as the run was launched]",
)
@flag("--yes", "-y", "Do not ask: without RUN, and for last of another project, a question is asked.")
@json_option
@run_options
@forbid_together("--now", "--grace", "gives no time between SIGTERM and SIGKILL")
@report_stop_signals()
def command(run: str, *, now: bool, grace: float | None, yes: bool, as_json: bool, **given: Any) -> int:
    """Stop RUN: SIGTERM on every node, a grace period, SIGKILL.

    Of several that RUN fits it is the one that lives; of one that was started again, the last start. RUN may
    be the id of a Slurm job: its run is stopped, which ends the job; one that waits is cancelled. Without RUN
    it is the last one that has not ended, after a question; `last` asks where this machine has launched it in
    another project. Two who stop one run do no harm: the shorter
    grace counts. Exit code 0: every node has answered that nothing of the run is left, or no run is live; 1:
    something cannot be ended, or you said no; 3: a node could not be reached; 5: one has nothing of the run.
    """
    options = FoundRunOptions(**given)
    answer = Answer("gpulaunch.stop/1", as_json=as_json)
    slurm_job = run if is_job_id(run) and not options.hosts else ""
    if slurm_job and (end := ask_slurm(partial(end_without_run, slurm_job))):
        answer.say(end)
        return answer.finish(0, run_id=None, nodes=[])
    access = reach_run(open_host_access(options), run, options.hosts)
    answer.words = list_access_words(access, options)
    found = find_run(run or LAST, access, options, prefer="exact" if run == LAST else "live")
    is_other = run == LAST and find_other_project(found, local_runs_dir(), read_run_records()) != ""
    if (is_other or not run) and (left := _leave(found, answer, yes=yes)) is not None:
        return left
    why = f"stopped by {format_user_at_machine()}"
    outlive_terminal()
    while True:
        if not access.nodes:  # in a Slurm job it is found by the job
            last = follow_next_starts(found, lambda run_id: find_run(run_id, access, options))
            if last.run_id != found.run_id:
                answer.say(f"{found.run_id} was started again; its last start is {last.run_id}")
            found = last
        to = open_run(found, access, options)
        plan = to.plan
        grace_s = 0.0 if now else found.grace_s if grace is None else float(grace)
        results = stop_run(plan.run_id, to.entries, to.open, grace_s=grace_s, why=why, is_command=True)
        if not any(_next_state(result) == "restarted" for result in results) or found.next_start:
            break
        found = find_run(plan.run_id, access, options)  # it was started again while it was being stopped
    names = [name_node(node.host, entry.name) for node, entry in zip(plan.nodes, to.entries, strict=True)]
    code = max((explain_answer(result)[1] for result in results), default=0)
    for words, worse in render_ends(names, results):
        answer.say(words, err=worse != 0)
    if grace_s > found.grace_s and (deaf := list_unwritable(names, results)):
        words = "the run directory cannot be written, so SIGKILL came after the grace of the launch"
        answer.say(f"{fold_hosts(deaf)}: {words} ({found.grace_s:g} s)", err=True)
    if slurm_job and code != ExitCode.INTERRUPTED and not _see_job_end(slurm_job, answer):
        code = ExitCode.INTERRUPTED
    _conclude(plan.run_id, names, results, code, answer)
    pairs = zip(plan.nodes, results, strict=True)
    nodes = [_encode_node(node.host, result, answer.words) for node, result in pairs]
    code = answer.finish(code, run_id=plan.run_id, nodes=nodes)
    if code == 0:
        note_in_record(plan.run_id, over=True)
        deliver_due(access, to.entries)
    return code


def _leave(found: RemoteRun, answer: Answer, *, yes: bool) -> int | None:
    """Return the exit code where the last run is not to be stopped: it has ended, or you said no."""
    if not found.is_live:
        answer.say(f"no run is live: {found.run_id} has ended")
        return answer.finish(0, run_id=None, nodes=[])
    if yes or answer.confirm(f"Stop {found.run_id}?", f"gpulaunch stop {found.run_id}"):
        return None
    answer.say("nothing was stopped")
    return answer.finish(ExitCode.NEGATIVE, run_id=found.run_id, nodes=[])


def _next_state(result: NodeAnswer) -> object:
    return None if isinstance(result, GpulaunchError) else (result.get("next") or {}).get("state")


def list_unwritable(names: Sequence[str], results: Sequence[NodeAnswer]) -> list[str]:
    """Return the nodes that could not be sent the grace of this stop."""
    pairs = zip(names, results, strict=True)
    return [name for name, each in pairs if not isinstance(each, GpulaunchError) and each.get("unwritable")]


def _see_job_end(job: str, answer: Answer) -> bool:
    """Wait for the end of a Slurm job whose run has ended, or cancel it; return False where Ctrl-C comes."""
    try:
        if not await_end(job, JOB_STOP_TIMEOUT_S):
            cancel_job(job)
            answer.say(f"Slurm job {job} had not ended {JOB_STOP_TIMEOUT_S:g} s after its run: cancelled")
    except KeyboardInterrupt:
        answer.say(f"interrupted: Slurm job {job} may not have ended yet", err=True)
        return False
    return True


def _conclude(
    run_id: str, names: Sequence[str], results: Sequence[NodeAnswer], code: int, answer: Answer
) -> None:
    """Say that the run has ended, or where it may continue."""
    if code == 0:
        answer.say(f"{run_id} has ended on {fold_hosts(names)}; no process of it is left")
    pairs = zip(names, results, strict=True)
    if silent := [name for name, result in pairs if explain_answer(result)[1] in _NOT_HEARD]:
        again = f"gpulaunch stop {run_id}" + " once reached" * (code != ExitCode.INTERRUPTED)
        answer.say(f"the run may continue on {fold_hosts(silent)}: {again}", err=True)


def render_ends(names: Sequence[str], results: Sequence[NodeAnswer]) -> Iterator[tuple[str, int]]:
    """Yield what the nodes have answered, each with its exit code; nodes whose ranks ended alike together."""

    def kind(result: NodeAnswer) -> object:
        words, worse = explain_answer(result)
        ranks = _encode_end(result)["ranks"]
        return words if worse or not ranks else (words.rpartition(")")[2], *sorted(_ranks_by_end(ranks)))

    pairs = zip(names, results, strict=True)
    for nodes in group_alike((kind(result), (name, result)) for name, result in pairs).values():
        ranks = {rank: code for _, result in nodes for rank, code in _encode_end(result)["ranks"].items()}
        words, worse = explain_answer(nodes[0][1], ranks)
        yield f"{fold_hosts(name for name, _ in nodes)}: {words}", worse


def _encode_node(host: str, result: NodeAnswer, words: Sequence[str]) -> dict[str, Any]:
    said, worse = explain_answer(result)
    failed = result if isinstance(result, GpulaunchError) else None
    head = {"host": host, "ended": worse == 0, "message": said}
    return {**head, **_encode_end(result), "error": encode_error(failed, words)}


def _encode_end(result: NodeAnswer) -> dict[str, Any]:
    state = {} if isinstance(result, GpulaunchError) else result.get("state") or {}
    end = state.get("exit") or {}
    return {
        "ranks": end.get("ranks") or {},
        "remaining_pids": end.get("remaining_pids") or [],
        "port_free": end.get("port_free"),
    }


def explain_answer(result: NodeAnswer, ranks: Mapping[str, Any] | None = None) -> tuple[str, int]:
    """Return what a node has answered, and the exit code of it; `ranks` are of all that say the same."""
    if isinstance(result, RequestDenied):  # it was reached, and has nothing of the run, or not of its own
        return f"not stopped: {result.detail}", ExitCode.ABORTED
    if isinstance(result, HostInterrupted):
        return result.detail, result.exit_code
    if isinstance(result, GpulaunchError):
        return f"not stopped: {one_line(result.detail, 300)}", ExitCode.UNREACHABLE
    state = result.get("state") or {}
    end = state.get("exit") or {}
    if end.get("remaining_pids"):
        return "could not be ended: " + ", ".join(
            str(pid) for pid in end["remaining_pids"]
        ), ExitCode.NEGATIVE
    if state.get("phase") != "ended" and result.get("alive"):
        stall = f"; {explain_stall(result['stall'])}" if result.get("stall") else ""
        return f"has not ended, though its supervisor was sent SIGKILL{stall}", ExitCode.NEGATIVE
    if state.get("phase") != "ended":
        return (
            "was lost before: its supervisor is gone; gpulaunch clean-zombies shows what it left",
            ExitCode.NEGATIVE,
        )
    port = ", its port is still in use" if end.get("port_free") is False else ""
    by_end = _ranks_by_end(ranks or end.get("ranks") or {})
    ends = "; ".join(f"{name_ranks(ranks)}: {words}" for words, ranks in by_end.items())
    is_unseen = state.get("launcher") and end.get("launcher_code") is None  # its supervisor was killed
    return f"ended ({ends or ('exit codes not seen' if is_unseen else 'no rank had started')}){port}", 0


def _ranks_by_end(codes: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    """Return the ranks by how they have ended, in words."""
    numbers = {int(rank): code for rank, code in codes.items() if rank.isascii() and rank.isdigit()}
    return group_alike((describe_exit(code), rank) for rank, code in sorted(numbers.items()))
