"""gpulaunch record: save what was read on a host."""

import json
from pathlib import Path
from typing import Any

import click

from launcher.commands.reaching import reaching, reaching_options
from launcher.preflighting import Manner, preflight
from launcher.recording import record_json
from launcher.terminal.output import echo
from launcher.wholefile import write_whole
from preflight.job import Job


@click.command()
@click.argument("host")
@click.option(
    "-o",
    "--output",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="File to write.",
)
@click.option("--mask", is_flag=True, help="Hide user and host names, paths, serials and addresses.")
@click.option("--force", is_flag=True, help="Write over a file that exists.")
@reaching_options
def command(host: str, *, output: Path, mask: bool, force: bool, **options: Any) -> int:
    """Save the facts of HOST in a file, which `gpulaunch preflight --from FILE` judges again anywhere."""
    if output.exists() and not force:
        raise click.UsageError(f"{output} exists; --force writes over it")
    ways = reaching(
        options["inventory"],
        accept_new_host_keys=options["accept_new_host_keys"],
        parallel=options["parallel"],
    )
    entries = ways.inventory.resolve((host,))
    if len(entries) != 1:
        raise click.UsageError(f"{host} names {len(entries)} hosts; a recording is of one")
    result = preflight(entries, Job(gpus="auto"), ways.open, manner=Manner(together=False))
    for error in result.errors.values():
        raise error
    facts = result.facts[entries[0].name]
    document = record_json(facts, result.findings, masked=mask)
    write_whole(output, json.dumps(document, indent=1) + "\n")
    echo(f"{output}: facts of {host}" + (", masked" if mask else ""))
    return 0
