"""The local script: beside its run config, or in the tree that a sync sends."""

import posixpath
from dataclasses import replace
from pathlib import Path

from launcher.config.inventory import HostEntry
from launcher.config.run_config import RunConfig
from launcher.config.script_config import choose_tree_dir
from launcher.errors import BadInput
from launcher.local.home import expand_home
from launcher.planning.plan import ScriptFile


def read_script_to_send(config: RunConfig) -> ScriptFile | None:
    """Return the script to send, None when it lies on the hosts already. Raises BadInput."""
    return None if config.local_script is None else _read(config.local_script, config.local_script.name)


def read_script_after_sync(config: RunConfig) -> ScriptFile | None:
    """Return the script that a sync would put on the hosts, None where none surely is. Raises BadInput."""
    tree = find_tree(config)
    if tree is None or not config.job.script or not (tree / config.job.script).is_file():
        return None
    return _read(tree / config.job.script, config.job.script)


def find_tree(config: RunConfig) -> Path | None:
    """Return the local directory that a sync makes that of the ranks, None where none surely is."""
    sync, workdir = config.sync, config.job.workdir
    if sync is None or (sync.to and not workdir):  # which hosts.yaml may say for each host
        return None
    inside = posixpath.relpath(workdir, sync.to) if sync.to else ""
    return None if inside.startswith("..") else expand_home(sync.source) / inside / config.job.subdirectory


def start_in_tree(
    config: RunConfig, entries: tuple[HostEntry, ...]
) -> tuple[RunConfig, tuple[HostEntry, ...]]:
    """Return both so that ranks start where `sync.to` sends the tree, but in the `workdir` of the config, or
    in that of their host where it lies in the tree: any other has the files of an earlier launch, or none.
    A tree that nothing gives a place has one below the home, by its own name.
    """
    if config.sync is None or config.job.workdir:
        return config, entries
    if not config.sync.to:
        there = choose_tree_dir(expand_home(config.sync.source).resolve().name)
        return config, tuple(
            entry if entry.is_local or entry.workdir else replace(entry, workdir=there) for entry in entries
        )
    to = posixpath.normpath(config.sync.to)  # nothing makes the x of x/..
    config = replace(config, sync=replace(config.sync, to=to))
    inside = [f"{posixpath.normpath(entry.workdir)}/".startswith(f"{to}/") for entry in entries]
    if not any(inside):
        return replace(config, job=replace(config.job, workdir=to)), entries
    pairs = zip(entries, inside, strict=True)
    return config, tuple(entry if is_in else replace(entry, workdir=to) for entry, is_in in pairs)


def read_script_of_job(config: RunConfig) -> ScriptFile | None:
    """Return the script of a job that is submitted locally, None where none surely is. Raises BadInput."""
    found = read_script_to_send(config) or read_script_after_sync(config)
    here = Path(config.job.script_in_tree)
    if found is None and config.job.script and not config.job.workdir and here.is_file():
        return _read(here, config.job.script)
    return found


def _read(path: Path, name: str) -> ScriptFile:
    try:
        return ScriptFile(name, path.read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise BadInput(f"{path}: the script to send is not UTF-8 text", "save it as UTF-8") from None
