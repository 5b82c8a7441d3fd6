"""`gpulaunch schema hosts|config`."""

import json

import click

from launcher.schema import SCHEMAS


@click.command()
@click.argument("what", type=click.Choice(tuple(SCHEMAS)))
def command(what: str) -> None:
    """Print the JSON Schema of hosts.yaml or of a run config, for editors that complete from it.

    In VS Code or any editor with the YAML language server, save it beside the file and put this on its first
    line: `# yaml-language-server: $schema=hosts.schema.json`
    """
    click.echo(json.dumps(SCHEMAS[what](), indent=2))
