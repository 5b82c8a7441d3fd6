"""A launch as `run` shows it: findings, plan, rehearsal, output, outcome."""

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from launcher.commands._choose_hosts import choose_hosts, leave_out
from launcher.commands._host_access import ask_options
from launcher.commands._interrupt_prompt import build_ctrl_c_prompt
from launcher.commands._launch_checks import check_launch
from launcher.commands._launch_request import LaunchOptions, LaunchSession, RunRequest
from launcher.commands._launch_sync import demand_verdict, has_same_tree, sync_tree
from launcher.commands._on_end import create_notice, deliver_notice
from launcher.commands._preflight_report import print_report
from launcher.config.inventory import HostEntry
from launcher.config.run_config import RunConfig
from launcher.error_codes import read_codes
from launcher.errors import GpulaunchError, LaunchRefused
from launcher.follow.outcome import Outcome
from launcher.follow.phases import Stopwatch, format_phases
from launcher.host_checks.fact_cache import FactCache
from launcher.host_checks.preflight_options import PreflightOptions
from launcher.host_checks.result import PreflightResult
from launcher.launch.launch import CheckedLaunch, launch_and_follow, say_unstarted
from launcher.launch.request import FollowOptions, LaunchRequest
from launcher.planning.script_file import find_tree, read_script_to_send
from launcher.rehearsal.proof_store import describe_proof, fingerprint, save_proof
from launcher.remote.connection_pool import ConnectionPool
from launcher.rundir.layout import OUTCOME
from launcher.rundir.log_store import LogStore, demand_room
from launcher.runs.end_notice import HeldNotice
from launcher.runs.gone_hosts import note_end
from launcher.terminal.live_screen import choose_screen
from launcher.terminal.output import echo_json
from launcher.terminal.screen import Screen
from launcher.transports.command_consent import find_consent


def build_launch(request: RunRequest, options: LaunchOptions) -> LaunchRequest:
    """Return the launch that the options of `run` and `rehearse` describe."""
    return LaunchRequest(
        entries=request.entries,
        job=request.job,
        connections=ConnectionPool(request.access.open),
        preflight=PreflightOptions(
            sent=read_script_to_send(request.config),
            tree=find_tree(request.config),
            ignore=read_codes(options.ignore) | request.config.ignore,
            access_words=request.access.inventory.access_words,
            width=request.access.width,
            # no launch uses the connections of shards again
            shards=request.access.shards if options.dry_run else None,
            cache=None if options.max_age is None else FactCache(options.max_age),
        ),
        follow=FollowOptions(
            request.config.disconnect, logs=options.logs, detach=options.detach, all_ranks=options.all_ranks
        ),
        identity_file=request.access.inventory.identity_file,
        job_notice=request.access.job_notice,
    )


def open_screen(options: LaunchOptions) -> Screen:
    """Return the screen for messages; with --json that is stderr."""
    stream = sys.stderr if options.as_json else sys.stdout
    return choose_screen(stream, plain=options.plain, all_ranks=options.all_ranks)


def launch_and_report(request: RunRequest, launch: LaunchRequest, options: LaunchOptions) -> int:
    """Carry `gpulaunch run` through; return its exit code."""
    screen = open_screen(options)
    if not options.dry_run:
        demand_room(launch.follow.logs)
    if (end := request.config.on_end) is not None:
        from launcher.transports.on_end_command import check_end_command  # noqa: PLC0415 - only for few runs

        check_end_command(end.words)
        if not end.is_typed and not options.dry_run:
            find_consent(ask_options(options)).demand_end_command(end.words, request.config.path)
    launch = replace(launch, follow=replace(launch.follow, choose=build_ctrl_c_prompt(screen, again="stop")))
    try:
        with ExitStack() as queues:
            notice = create_notice(request.config, launch.follow.logs)
            if notice is not None:
                queues.callback(notice.close)
                launch = replace(launch, follow=replace(launch.follow, on_start=notice.keep))
            session = LaunchSession(options, screen, Stopwatch(), queues)
            code, document = _launch_and_report(request, launch, session)
            _conclude(notice, document, screen)
            return code
    finally:
        screen.clear()


def _conclude(notice: HeldNotice | None, document: Mapping[str, Any], screen: Screen) -> None:
    """Run `on_end:` with how the run has ended, or say who will."""
    if notice is None or not document:
        return
    if document["verdict"] == "detached":
        screen.notify(
            "its on_end is run by the next gpulaunch ps, attach or stop on this machine after its end"
        )
        return
    failed = deliver_notice(notice, document)
    if failed:
        screen.notify(failed, bad=True)


def _launch_and_report(
    request: RunRequest, launch: LaunchRequest, session: LaunchSession
) -> tuple[int, Mapping[str, Any]]:
    """Return the exit code, and how the run ended as JSON, {} where nothing was started."""
    config, began = request.config, time.monotonic()
    options, screen, before = session.options, session.screen, session.before
    with say_unstarted(screen):
        request, prepared, launch = _choose_and_prepare(request, launch, session)
    from launcher.report.outcome import encode_outcome  # noqa: PLC0415 - as above
    from launcher.report.outcome_printer import print_outcome  # noqa: PLC0415 - most of it came while the hosts answered

    if options.dry_run:
        from launcher.commands._plan_output import show_plan  # noqa: PLC0415 - only for a dry run

        return show_plan(prepared, request, options), {}
    if options.deep:
        from launcher.commands._deep import measure_first  # noqa: PLC0415 - most launches do without it

        with before.phase("deep checks"), say_unstarted(screen):
            prepared = measure_first(prepared, screen)
    if options.rehearse:
        with before.phase("rehearsal"), say_unstarted(screen):
            rehearse_first(config, launch, screen)
    words = describe_proof(config.path, fingerprint(launch.job, prepared.result.facts, launch.preflight.sent))
    if words:
        screen.notify(words, bad="rehearse again" in words or "not prove" in words)
    with say_unstarted(screen):
        screen.notify(format_phases(before.phases))
        prepared = _resumed(request, prepared, screen, verbose=options.verbose)
        launch = replace(prepared.launch, earlier_phases=before.phases)
    outcome = _carried_through(request, replace(prepared, launch=launch), screen, verbose=options.verbose)
    if options.wait is not None:
        from launcher.launch.gpu_wait import has_lost_gpus  # noqa: PLC0415 - most launches do without it

        if has_lost_gpus(outcome):
            screen.notify(f"{outcome.why}; this run waits again")
            session.queues.close()
            again = replace(session, options=_with_time_left(options, began), before=Stopwatch())
            return _launch_and_report(request, launch, again)
    outcome = _with_stop_checkpoint(outcome, request.config, launch)
    note_end(outcome)
    print_outcome(outcome, screen)
    code = outcome.exit_code
    if request.slurm_job is not None:
        from launcher.commands._job_end import conclude_job  # noqa: PLC0415 - only in a job of Slurm

        code = conclude_job(
            request, request.slurm_job, outcome, request.left_out, launch.follow.logs, screen.print_line
        )
    left_out_hosts = {"left_out_hosts": dict(request.left_out)}
    document = {**encode_outcome(outcome), **left_out_hosts, "exit_code": int(code)}
    if options.as_json:
        echo_json(document)
    return code, document


def _with_time_left(options: LaunchOptions, began: float) -> LaunchOptions:
    if options.wait is None:
        return options
    return replace(options, wait=max(0.0, options.wait - (time.monotonic() - began)))


def _resumed(request: RunRequest, prepared: CheckedLaunch, screen: Screen, *, verbose: bool) -> CheckedLaunch:
    """Return the launch as a job continues that Slurm has started again."""
    job, spec = request.slurm_job, request.config.restart
    if job is None or spec is None or not spec.resume_args:
        return prepared
    from launcher.commands._job_end import keep_first_start, record_path  # noqa: PLC0415 - only in such a job
    from launcher.restart.checkpoints import resume_after_requeue  # noqa: PLC0415 - as above
    from launcher.slurm.requeue import read_began  # noqa: PLC0415 - as above

    if not job.restarts:
        keep_first_start(job, prepared.launch.follow.logs)
        return prepared
    began = read_began(record_path(prepared.launch.follow.logs, job))
    if not began:  # not requeued by gpulaunch: which checkpoints are its own is not known
        screen.notify("gpulaunch has no record of this job's first start, so it looks for no checkpoint")
        return prepared
    return resume_after_requeue(prepared, spec, began, screen.notify, verbose=verbose)


def _with_stop_checkpoint(outcome: Outcome, config: RunConfig, launch: LaunchRequest) -> Outcome:
    """Return the outcome with the checkpoint that the run wrote when it was stopped, and keep it so."""
    if outcome.verdict != "interrupted" or config.disconnect.before_stop is None:
        return outcome
    from launcher.report.outcome import encode_outcome  # noqa: PLC0415 - most runs do without it
    from launcher.restart.checkpoints import find_stop_checkpoint  # noqa: PLC0415 - as above

    found = find_stop_checkpoint(outcome, launch, config.restart, time.monotonic())
    outcome = replace(outcome, stop_checkpoint=found)
    LogStore(outcome.directory).store(OUTCOME, json.dumps(encode_outcome(outcome), indent=1) + "\n")
    return outcome


def _choose_and_prepare(
    listed: RunRequest, launch: LaunchRequest, session: LaunchSession
) -> tuple[RunRequest, CheckedLaunch, LaunchRequest]:
    """Take hosts of the list and prepare the launch on them; again where one fails meanwhile."""
    began, now = time.monotonic(), session
    while True:
        request, taken = choose_hosts(listed, launch, now)
        try:
            prepared, sent, left_out = _prepared_in_turn(request, taken, now)
        except GpulaunchError as error:
            rest = leave_out(listed, request, error, session.screen)
            if rest is None:
                raise
            session.queues.close()
            listed, launch = rest, replace(launch, entries=rest.entries)
            now = replace(session, options=_with_time_left(session.options, began))
            continue
        spares = tuple(each for each in request.spares if each not in prepared.launch.entries)
        request = replace(request, spares=spares, left_out={**request.left_out, **left_out})
        return request, prepared, replace(sent, entries=prepared.launch.entries, job=prepared.launch.job)


def _prepared_in_turn(
    request: RunRequest, launch: LaunchRequest, session: LaunchSession
) -> tuple[CheckedLaunch, LaunchRequest, Mapping[str, str]]:
    """Send the tree and check the hosts; with --wait, when their GPUs are free and it is this run's turn.

    Return also the launch as its tree was sent, and who was left out.
    """
    options = session.options
    sent: list[LaunchRequest] = []
    found: list[Mapping[str, str]] = []

    def check() -> CheckedLaunch:
        sent.append(_sent(request, launch, session, sent))
        prepared, left_out = check_launch(request, sent[-1], session)
        found.append(left_out)
        return prepared

    if options.wait is None or options.dry_run:
        return check(), sent[-1], found[-1]
    from launcher.launch.gpu_wait import GpuWait, check_in_turn  # noqa: PLC0415 - most launches do without it

    waiting = session.queues.enter_context(GpuWait(launch, request.job, options.wait, session.screen.notify))
    return check_in_turn(waiting, check, session.before), sent[-1], found[-1]


def _sent(
    request: RunRequest, launch: LaunchRequest, session: LaunchSession, earlier: Sequence[LaunchRequest]
) -> LaunchRequest:
    """Send the tree; again after a wait: the run has the code of its start, and its record says so.

    Where it would change code under a live run, the hosts are checked first.
    """
    config, options, screen = request.config, session.options, session.screen
    if config.sync is None:
        return launch

    def check(arriving: LaunchRequest, show: Callable[[PreflightResult], None]) -> None:
        check_launch(request, arriving, replace(session, before=Stopwatch()), show)

    demand = partial(demand_verdict, config, launch, screen, check, verbose=options.verbose)
    with session.before.phase("sync"):
        sent = sync_tree(config, launch, screen, dry_run=options.dry_run, approve=demand)
    if earlier and not has_same_tree(earlier[-1], sent):
        screen.notify("the local tree has changed while the run waited; it starts with the tree as it is now")
    return sent


def _carried_through(
    request: RunRequest, prepared: CheckedLaunch, screen: Screen, *, verbose: bool
) -> Outcome:
    """Run to the end, through the restarts that the run config allows."""
    config = request.config
    if config.restart is None:
        return launch_and_follow(prepared, screen)
    from launcher.restart.context import RestartContext  # noqa: PLC0415
    from launcher.restart.restarter import run_with_restarts  # noqa: PLC0415
    from launcher.restart.start_chain import follow_launched  # noqa: PLC0415 - most launches do without it

    report = partial(print_report, screen)

    def welcome(spare: HostEntry) -> None:
        if config.sync is not None:
            sent = sync_tree(config, replace(prepared.launch, entries=(spare,)), screen)
            if not has_same_tree(prepared.launch, sent):  # it would run other code than the others
                words = f"the local tree has changed since the launch, so {spare.name} has other code"
                raise LaunchRefused(words)

    def follow_other(run_id: str) -> Outcome | None:
        return follow_launched(run_id, prepared.launch, screen, request.spares, report)

    context = RestartContext(
        config.restart,
        request.spares,
        welcome,
        report,
        follow_other,
        syncs=config.sync is not None,
        verbose=verbose,
    )
    return run_with_restarts(prepared, screen, context)


def rehearse_first(config: RunConfig, launch: LaunchRequest, screen: Screen) -> None:
    """Rehearse before a run; keep the proof.

    Raises LaunchRefused where something is not proven, and KeyboardInterrupt where it was stopped.
    """
    from launcher.rehearsal.rehearse import rehearse  # noqa: PLC0415 - most runs take no rehearsal
    from launcher.rehearsal.render import encode_rehearsal, render_rehearsal  # noqa: PLC0415 - as above

    done = rehearse(launch, lambda _: None, screen)
    for line in render_rehearsal(done, launch.job):
        screen.print_line(line)
    document = encode_rehearsal(done, config.name)
    save_proof(config.path, document)
    if done.outcome.verdict == "interrupted":
        raise KeyboardInterrupt(done.outcome.why)
    if not done.verdict.proven:
        words = "nothing was started: the rehearsal has not proven this run"
        raise LaunchRefused(words).with_document(document)
