"""The deep checks as a launch: hosts chosen, ranks started, their reports put together and judged."""

import json
from dataclasses import replace

from launcher.config.disconnect_options import ATTENDED
from launcher.config.host_access_args import complete_commands
from launcher.deep import targets
from launcher.deep.best_values import BestValues
from launcher.errors import GpulaunchError
from launcher.follow.outcome import Outcome
from launcher.host_checks.result import PreflightResult
from launcher.launch.launch import CheckedLaunch, launch_and_follow, note_clean_end, preflight_hosts
from launcher.launch.request import LaunchRequest
from launcher.planning.plan import ScriptFile
from launcher.remote.program_source import read_program_source
from launcher.report.deep import DOCUMENT, DeepReport, encode_deep
from launcher.rundir.log_store import LogStore
from launcher.terminal.screen import Screen
from launcher.text import one_line
from preflight.checks.finding import blocks_launch
from preflight.checks.runner import check_deep
from preflight.deep.measurements import DeepRun, RankDeep, Unmeasured, add_reports
from preflight.frozen import dataclass

_ROUNDS = 3
_SHOWN_FRAMES = 12


@dataclass(frozen=True, slots=True)
class _Prepared:
    """A launch that may happen, or why none of the hosts can be measured."""

    checked: CheckedLaunch | None
    left_out: tuple[Unmeasured, ...]


def measure_hosts(
    launch: LaunchRequest, result: PreflightResult, screen: Screen, options: targets.DeepOptions
) -> DeepReport:
    """Measure what `result` found free, judge it, keep it beside the logs of its run.

    `launch` says which hosts, for which job, how they are reached and where logs go. Raises what a launch
    raises; what cannot be measured is among the findings.
    """
    prepared = _prepare(launch, result, options)
    if prepared.checked is None:
        return judge_run(DeepRun((), prepared.left_out), launch)
    outcome = launch_and_follow(prepared.checked, screen)
    note_clean_end(outcome)
    run = build_run(outcome, prepared.left_out)
    store = BestValues.load()
    expect = {entry.name: entry.expect for entry in launch.entries}
    run = replace(run, former=store.history(run.hosts), expect=expect)
    report = judge_run(run, launch)
    store.add(report.readings)
    LogStore(outcome.directory).store(DOCUMENT, json.dumps(encode_deep(report), indent=1) + "\n")
    return report


def judge_run(run: DeepRun, launch: LaunchRequest) -> DeepReport:
    """Return the run with its readings and findings."""
    ignore = {entry.name: launch.preflight.ignore | entry.ignore for entry in launch.entries}
    words = launch.preflight.access_words
    findings = tuple(
        replace(each, fix=complete_commands(each.fix, words)) for each in check_deep(run, ignore=ignore)
    )
    return DeepReport.of(run, findings)


def _prepare(launch: LaunchRequest, result: PreflightResult, options: targets.DeepOptions) -> _Prepared:
    """Check the hosts for the measuring launch, without those that cannot take part in it."""
    job = targets.settle_gpus(targets.build_deep_job(launch.job, options), result)
    entries, left_out = targets.choose_hosts(result, job)
    if not entries:
        return _Prepared(None, left_out)
    source = read_program_source("deep").decode()
    attended = replace(ATTENDED, slurm_job=launch.follow.disconnect.slurm_job)
    request = replace(
        launch,
        entries=entries,
        job=job,
        preflight=replace(
            launch.preflight,
            sent=ScriptFile(targets.SCRIPT, source),
            script_after_sync=None,
            tree=None,
            makes_workdir=False,
        ),
        follow=replace(launch.follow, disconnect=attended, detach=False),
        extra_files=(),
    )
    for _ in range(_ROUNDS):
        checked = preflight_hosts(request)
        bad = {
            name: Unmeasured(name, None, one_line(error.detail), error.fix)
            for name, error in checked.errors.items()
        } | targets.list_blocked_hosts(checked)
        left_out += tuple(bad.values())
        if not bad:
            return _without_cluster_findings(request, checked, left_out)
        request = replace(request, entries=tuple(each for each in request.entries if each.name not in bad))
        if not request.entries:
            break
    return _Prepared(None, left_out)


def _without_cluster_findings(
    request: LaunchRequest, result: PreflightResult, left_out: tuple[Unmeasured, ...]
) -> _Prepared:
    """Return the launch, unless findings about several hosts, or the plan itself, are against it."""
    stopping = [finding for finding in result.findings if blocks_launch(finding)]
    launch = CheckedLaunch(request, result, result.script)
    why = "; ".join(f"{finding.code}: {one_line(finding.message)}" for finding in stopping[:2])
    if not why:
        try:
            launch.plan()
        except GpulaunchError as refusal:
            why = one_line(refusal.message, 300)
    if not why:
        return _Prepared(launch, left_out)
    more = tuple(Unmeasured(entry.name, None, why) for entry in request.entries)
    return _Prepared(None, (*left_out, *more))


def build_run(outcome: Outcome, left_out: tuple[Unmeasured, ...] = ()) -> DeepRun:
    """Return what the ranks of a run reported, by the plan's own ranks and GPUs."""
    ranks = []
    for number, node, slot in outcome.plan.slots:
        rank = RankDeep(number, node.host, slot.gpu_index, local_rank=slot.local_rank)
        ranks.append(add_reports(rank, outcome.measurements.deep.get(number, ())))
    failure, hang = outcome.cause.failure, outcome.cause.hang
    stacks = {
        each.rank: tuple(frame.description for frame in each.frames[:_SHOWN_FRAMES])
        for each in (hang.stacks if hang is not None else ())
    }
    return DeepRun(
        ranks=tuple(ranks),
        unmeasured=left_out,
        ended="" if outcome.verdict == "finished" else one_line(outcome.why or outcome.verdict, 300),
        stopped=outcome.verdict == "interrupted",
        failed_rank=failure.rank if failure is not None and not failure.hung else None,
        lost={host: one_line(why, 300) for host, why in outcome.cleanup.lost.items()},
        hung=failure is not None and failure.hung,
        stacks=stacks,
        outliers=hang.outliers if hang is not None else (),
        outliers_why=one_line(hang.summary, 300) if hang is not None else "",
        run_id=outcome.plan.run_id,
        seconds=outcome.seconds,
    )
