"""gpulaunch bench: measure every free GPU of hosts and the links between them, as a table to keep."""

from pathlib import Path
from typing import Any

import click

from launcher.commands._answer import json_option
from launcher.commands._deep_options import DeepCommandOptions, add_deep_options
from launcher.commands._host_access import open_host_access
from launcher.commands._host_options import Transport, add_host_options, add_hosts_argument, transport_option
from launcher.commands._job_hosts import find_job, reach_job
from launcher.config.inventory import LOCALHOST
from launcher.config.local_entries import LOCAL_NAMES, resolve_local_entries
from launcher.host_checks.preflight import preflight
from launcher.host_checks.preflight_options import PreflightOptions
from launcher.host_checks.render_text import render_finding_list
from launcher.report.deep import encode_deep, render_deep_report
from launcher.terminal.output import echo_json, echo_lines, lacks_utf8
from preflight.job import Job


@click.command("bench")
@add_hosts_argument
@click.option("--gpus", default="", metavar="WHICH", help="all, none, auto, or indices (0-3,6) or UUIDs.")
@json_option
@add_deep_options
@transport_option
@add_host_options
def command(
    hosts: tuple[str, ...], *, gpus: str, as_json: bool, transport: Transport | None, **given: Any
) -> int:
    """Measure the GPUs of HOSTS and the links between them (default: localhost).

    As `preflight --deep`, without the other checks: a launch on every free GPU, all at once, which uses the
    torch of the hosts and installs nothing. Exit code 0: all was measured and is as expected; 1: something is
    not, or could not be measured.
    """
    from launcher.commands._deep import measure_after  # noqa: PLC0415 - loads all of a launch
    from launcher.commands._preflight import parse_gpus  # noqa: PLC0415 - as above

    options = DeepCommandOptions(**given)
    job = Job(gpus=parse_gpus(gpus) if gpus else "auto")
    access = open_host_access(options)
    slurm_job = find_job(transport, names_hosts=bool(hosts))
    if slurm_job is not None:
        access, entries = reach_job(access, slurm_job, transport, Path(), typed=hosts)
    else:
        entries = resolve_local_entries(access.resolve(hosts or (LOCALHOST,)), job, LOCAL_NAMES)
    try:
        preflight_options = PreflightOptions(as_one_launch=False, width=access.width)
        result = preflight(entries, job, access.open, options=preflight_options)
        _, report = measure_after(result, job, access, options, to_stderr=as_json)
    finally:
        access.close()
    code = report.exit_code
    document = encode_deep(report)
    if as_json:
        echo_json({**document, "exit_code": code})
    else:
        echo_lines(render_deep_report(document, ascii_only=lacks_utf8()))
        echo_lines(render_finding_list(report.findings))
    return code
