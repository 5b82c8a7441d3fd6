"""gpulaunch init: find the training environments of hosts, and write the first hosts.yaml and run config."""

from collections.abc import Sequence
from pathlib import Path

import click

from launcher.commands.reaching import reaching, reaching_options
from launcher.environments import Environment, best, look
from launcher.errors import BadInput, GpulaunchError
from launcher.first_files import Named, config_text, entry_lines, hosts_text, named
from launcher.inventory import FILE_NAME, LOCALHOST, HostEntry
from launcher.report.text import clean
from launcher.terminal.output import echo
from launcher.wholefile import write_whole

_EXAMPLES = """\b
Examples:
  gpulaunch init --hosts root@192.0.2.7:41022
  gpulaunch init train.py --hosts titan,l40s-01
"""


@click.command("init", epilog=_EXAMPLES)
@click.argument("script", required=False)
@click.option("--hosts", multiple=True, metavar="WORDS", help="As for ssh; repeatable. Default: localhost.")
@reaching_options
def command(
    script: str | None,
    *,
    hosts: tuple[str, ...],
    inventory: Path | None,
    accept_new_host_keys: bool,
    parallel: int,
) -> int:
    """Find the Python environments of hosts; write ./hosts.yaml, and a run config for SCRIPT.

    Of each host the environment with torch and accelerate is taken, and others are named. On the hosts
    nothing is changed. A file that is here already is left as it is, and what it lacks is shown. Exit code 3:
    a host did not answer, and nothing was written.
    """
    if script is not None and not Path(script).is_file():
        raise BadInput(f"{script}: there is no such script here", "gpulaunch init train.py")
    ways = reaching(inventory, accept_new_host_keys=accept_new_host_keys, parallel=parallel)
    entries = ways.inventory.resolve(hosts or (LOCALHOST,))
    found = _found(entries, look(entries, ways.open, width=ways.width))
    rows = named(entries, found)
    for row in rows:
        _tell(row)
    _write(ways.inventory.path or Path(FILE_NAME), hosts_text(rows), _lacking(rows, entries))
    if script is None:
        words = ",".join(row.name for row in rows)
        echo(f"next: gpulaunch preflight {words}")
        return 0
    config = Path("gpulaunch") / f"{Path(script).stem}.yaml"
    config.parent.mkdir(exist_ok=True)
    _write(config, config_text(Path(script).as_posix(), rows, Path.cwd().name), [])
    lacking = [row.name for row in rows if best(row.found) is None]
    if lacking:
        file = ways.inventory.path or Path(FILE_NAME)
        echo(f"next: install torch and accelerate on {', '.join(lacking)}, or set python: in {file}")
        echo(f"then: gpulaunch preflight --config {config.stem}")
        return 0
    echo(f"next: gpulaunch run --config {config.stem} --dry-run")
    return 0


def _found(
    entries: Sequence[HostEntry], results: Sequence["tuple[Environment, ...] | GpulaunchError"]
) -> dict[str, tuple[Environment, ...]]:
    """Return the environments by host. Raises the error of the first host that did not answer."""
    found: dict[str, tuple[Environment, ...]] = {}
    for entry, result in zip(entries, results, strict=True):
        if isinstance(result, GpulaunchError):
            raise result
        found[entry.name] = result
    return found


def _tell(row: Named) -> None:
    chosen = best(row.found)
    if chosen is None:
        echo(f"{row.name}: no environment with torch and accelerate among {len(row.found)}")
    else:
        echo(f"{row.name}: {chosen.path} ({chosen.words})")


def _lacking(rows: Sequence[Named], entries: Sequence[HostEntry]) -> list[str]:
    """Return what a hosts.yaml that is here already should say: of hosts that start another interpreter."""
    lines: list[str] = []
    for row, entry in zip(rows, entries, strict=True):
        chosen = best(row.found)
        if chosen is not None and chosen.path != entry.python:
            lines += entry_lines(row)
    return lines


def _write(path: Path, text: str, lacking: Sequence[str]) -> None:
    if not path.exists():
        write_whole(path, text)
        echo(f"{path}: written")
        return
    echo(clean(f"{path}: is here already, and is left as it is" + ("; under hosts:" if lacking else "")))
    for line in lacking:
        echo(clean(line))
