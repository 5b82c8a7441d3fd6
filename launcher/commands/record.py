"""gpulaunch record: save what was read on a host."""

import json
from pathlib import Path
from typing import Any

import click

from launcher.commands._answer import Answer, json_option
from launcher.commands._host_access import open_host_access
from launcher.commands._host_options import HostOptions, add_host_options, add_hosts_argument
from launcher.commands._param_types import LocalPathParam, flag
from launcher.commands._usage_errors import WrongUsage
from launcher.config.inventory import LOCALHOST
from launcher.host_checks.preflight import preflight
from launcher.host_checks.preflight_options import PreflightOptions
from launcher.local.atomic_write import write_atomic
from launcher.remote.recording import record_json
from preflight.job import Job


@click.command()
@add_hosts_argument
@click.option("-o", "--output", required=True, type=LocalPathParam(dir_okay=False), help="File to write.")
@flag("--mask", "Hide user and host names, paths, serials and addresses.")
@flag("--force", "Write over a file that exists.")
@json_option
@add_host_options
def command(
    hosts: tuple[str, ...], *, output: Path, mask: bool, force: bool, as_json: bool, **given: Any
) -> int:
    """Save the facts of one host (default: localhost) in a file.

    `gpulaunch preflight --from FILE` judges it again anywhere.
    """
    options = HostOptions(**given)
    if output.exists() and not force:
        raise WrongUsage(f"{output} exists", "--force writes over it")
    access = open_host_access(options)
    entries = access.resolve(hosts or (LOCALHOST,))
    if len(entries) != 1:
        raise WrongUsage(
            f"{' '.join(hosts)} names {len(entries)} hosts", "name one: a recording is of one host"
        )
    result = preflight(entries, Job(gpus="auto"), access.open, options=PreflightOptions(as_one_launch=False))
    for error in result.errors.values():
        raise error
    facts = result.facts[entries[0].name]
    document = record_json(facts, result.findings, masked=mask)
    write_atomic(output, json.dumps(document, indent=1) + "\n")
    answer = Answer("gpulaunch.recording/1", as_json=as_json)
    answer.say(f"{output}: facts of {entries[0].name}" + (", masked" if mask else ""))
    return answer.finish(0, file=str(output), host=entries[0].name, masked=mask)
