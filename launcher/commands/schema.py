"""`gpulaunch schema hosts|config`."""

import click

from launcher.config.schema import SCHEMAS, build_schema
from launcher.terminal.output import echo_json


@click.command()
@click.argument("what", type=click.Choice(tuple(SCHEMAS)))
def command(what: str) -> None:
    """Print the JSON Schema of hosts.yaml or of a run config, for editors that complete from it.

    In VS Code or any editor with the YAML language server, save it beside the file and put this on its first
    line: `# yaml-language-server: $schema=hosts.schema.json`
    """
    echo_json(build_schema(what))
