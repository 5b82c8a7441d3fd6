"""gpulaunch ssh-config: hosts.yaml in OpenSSH's words."""

from pathlib import Path

import click

from launcher.commands._answer import Answer, json_option
from launcher.commands._completion import complete_hosts
from launcher.commands._host_options import inventory_option
from launcher.config.inventory_reader import load_inventory
from launcher.errors import BadInput
from launcher.terminal.output import echo_lines
from launcher.text import one_line
from launcher.transports.ssh.config_export import export_config


@click.command("ssh-config")
@inventory_option
@json_option
@click.argument("hosts", nargs=-1, shell_complete=complete_hosts)
def command(*, inventory: Path | None, hosts: tuple[str, ...], as_json: bool) -> int:
    """Print the hosts of hosts.yaml (all by default) as an OpenSSH configuration to Include.

    With it ssh, scp, rsync, pdsh and editors reach what gpulaunch reaches. Only what hosts.yaml says is in
    it: put the Include at the top of ~/.ssh/config, and your own lines say the rest. A host that `via:`
    enters is left out, and named.
    """
    loaded = load_inventory(inventory)
    entries = loaded.resolve(hosts) if hosts else tuple(loaded.hosts.values())
    unlisted = [entry.name for entry in entries if not entry.in_inventory]
    if unlisted:
        raise BadInput(
            f"{', '.join(unlisted)}: not in hosts.yaml, and nothing else is printed",
            f"gpulaunch init --hosts {unlisted[0]} shows what to add to hosts.yaml",
        )
    if not entries:
        raise BadInput("no hosts.yaml lists a host", "gpulaunch init writes one")
    found, left_out = export_config(loaded, entries)
    lines = (f"# {one_line(str(loaded.path), 400)}, printed by gpulaunch ssh-config", *found)
    answer = Answer("gpulaunch.ssh-config/1", as_json=as_json)
    for name, why in left_out.items():
        answer.say(f"{name} is left out: {why}", err=True)
    if not as_json:
        echo_lines(lines)
    return answer.finish(0, config="".join(f"{line}\n" for line in lines), left_out=left_out)
