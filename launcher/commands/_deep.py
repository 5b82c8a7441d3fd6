"""The deep checks as commands run them: after a preflight of the hosts, before a launch on them."""

import json
import sys
from dataclasses import replace

from launcher.commands._deep_options import DeepCommandOptions
from launcher.commands._host_access import HostAccess
from launcher.deep.measurement import measure_hosts
from launcher.deep.save_expect import require_editable, save_floors
from launcher.deep.targets import DeepOptions
from launcher.errors import LaunchRefused
from launcher.host_checks.preflight_options import PreflightOptions
from launcher.host_checks.render_text import render_finding_list
from launcher.host_checks.result import PreflightResult
from launcher.launch.launch import CheckedLaunch
from launcher.launch.request import FollowOptions, LaunchRequest
from launcher.local.project import local_runs_dir
from launcher.planning.plan import NodePlan
from launcher.remote.connection_pool import ConnectionPool
from launcher.report.deep import DOCUMENT, DeepReport, encode_deep, render_deep_report
from launcher.terminal.live_screen import choose_screen
from launcher.terminal.screen import Screen
from preflight.checks.finding import blocks_launch
from preflight.facts.missing import Missing
from preflight.job import Job


def measure_after(
    result: PreflightResult,
    job: Job,
    access: HostAccess,
    options: DeepCommandOptions,
    *,
    ignore: frozenset[str] = frozenset(),
    to_stderr: bool = False,
) -> tuple[PreflightResult, DeepReport]:
    """Measure the hosts of a preflight; return its result with the deep findings, and the report."""
    if options.save_expect:
        require_editable(access.inventory, (entry.name for entry in result.entries))
    connections = ConnectionPool(access.open)
    screen = choose_screen(sys.stderr if to_stderr else sys.stdout)
    launch = LaunchRequest(
        entries=result.entries,
        job=job,
        connections=connections,
        preflight=PreflightOptions(
            ignore=ignore, width=access.width, access_words=access.inventory.access_words
        ),
        follow=FollowOptions(logs=local_runs_dir()),
    )
    try:
        report = measure_hosts(launch, result, screen, DeepOptions(options.seconds, options.step_timeout))
    finally:
        screen.clear()
        connections.close()
    if options.save_expect:
        for line in save_floors(report.readings, access.inventory):
            screen.notify(line)
    findings = (*result.findings, *report.findings)
    return replace(result, findings=findings, stopped=report.run.stopped), report


def measure_first(prepared: CheckedLaunch, screen: Screen) -> CheckedLaunch:
    """Measure the GPUs of a launch; return the launch that keeps them.

    Raises LaunchRefused, and KeyboardInterrupt where the measurement was stopped.
    """
    gpus = {node.host: _indices(prepared, node) for node in prepared.plan().nodes}
    job = prepared.launch.job
    if any(gpus.values()):
        job = replace(job, gpus="all", command=replace(job.command, host_gpus=gpus))
    launch = replace(prepared.launch, job=job)
    report = measure_hosts(launch, prepared.result, screen, DeepOptions())
    document = encode_deep(report)
    for line in (*render_deep_report(document), *render_finding_list(report.findings)):
        screen.print_line(line)
    if report.run.stopped:
        raise KeyboardInterrupt(report.run.ended)
    if any(blocks_launch(finding) for finding in report.findings):
        words = "nothing was started: the deep checks found what stops this launch"
        raise LaunchRefused(words).with_document(document)
    kept = (DOCUMENT, json.dumps(document, indent=1) + "\n")
    keeping = replace(prepared.launch, extra_files=(*prepared.launch.extra_files, kept))
    return replace(prepared, launch=keeping)


def _indices(prepared: CheckedLaunch, node: NodePlan) -> tuple[int, ...]:
    """Return the indices of the GPUs that a node of the plan uses."""
    known = prepared.result.facts[node.host].gpus
    return () if isinstance(known, Missing) else tuple(gpu.index for gpu in known if gpu.uuid in node.gpus)
