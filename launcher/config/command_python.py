"""The interpreter that a command names or enters, on this machine and on each host."""

import os
import posixpath
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from launcher.config.inventory import HostEntry
from launcher.engines.command_line.parsed_command import CONDAS, Environment, ParsedCommand
from launcher.local.home import abbreviate_home, expand_home
from launcher.local.project import list_folders_up

_BY_HASH = ("poetry", "pipenv", "hatch")
"""Tools that keep environments below the home, named by a hash, where the project has no `.venv`."""

_ACTIVE = ("poetry", "pipenv", "pdm")
"""Tools that take the environment in which they are started."""


def choose_pythons(
    parsed: ParsedCommand, entries: Sequence[HostEntry], workdir: str
) -> tuple[tuple[HostEntry, ...], str]:
    """Return the entries with the interpreter of the command where hosts.yaml names none.

    The second value says which hosts have another one than the command's, "" for none. A relative path is
    one below the working directory of each host: `workdir`, else that of the host.
    """
    chosen, others = [], []
    for entry in entries:
        if not entry.names_python:
            directory = workdir or entry.workdir
            python = _local_python(parsed) if entry.is_local else _host_python(parsed, directory)
            enters = "/" in parsed.python or parsed.environment is not None
            others += [f"{entry.python} on {entry.name}"] if enters and not python else []
            entry = replace(entry, python=python or entry.python)  # noqa: PLW2901
        chosen.append(entry)
    entered = parsed.environment or Environment("")
    names = (entered.tool, entered.name, entered.path)
    what = parsed.python if "/" in parsed.python else " ".join(filter(None, names))
    said = f"the ranks run {', '.join(others)}: gpulaunch does not know the interpreter of {what} on"
    said += " these hosts; write its path as python: in hosts.yaml"
    return tuple(chosen), said if others else ""


def _local_python(parsed: ParsedCommand) -> str:
    """Return the interpreter as a path of this machine, "" where it is absent."""
    found = next((one for one in _places(parsed) if "/" in parsed.python or expand_home(one).exists()), "")
    return os.path.abspath(expand_home(found)) if found else ""  # noqa: PTH100 - a venv's python is a link, to be kept


def _host_python(parsed: ParsedCommand, workdir: str) -> str:
    """Return the interpreter as a path that a host can have too, "" where the command does not say it.

    One below the local home directory is below that of each host; an environment that is only named lies
    where it does on this machine.
    """
    places = _places(parsed)
    found = next((one for one in places if len(places) == 1 or expand_home(one).exists()), "")
    if not found or found.startswith(("/", "~")):
        return abbreviate_home(found)
    return posixpath.normpath(posixpath.join(workdir, found)) if workdir else ""


def _places(parsed: ParsedCommand) -> list[str]:
    """Return where the interpreter may be; a relative path is one below the working directory."""
    if "/" not in parsed.python:
        return [f"{folder}/bin/python" for folder in _folders(parsed)]
    directory = "" if parsed.python.startswith("~") else parsed.directory
    return [posixpath.join(directory, parsed.python)]


def _folders(parsed: ParsedCommand) -> Iterator[str]:
    """Yield where the environment of a tool may lie, by the rules of that tool."""
    environment = parsed.environment or Environment("")
    tool, name, path = environment.tool, environment.name, environment.path
    if tool == "venv":
        yield path
    elif tool in CONDAS:
        yield from _conda_folders(name, path)
    elif tool:
        if os.environ.get("HATCH_ENV_ACTIVE") if tool == "hatch" else tool in _ACTIVE:
            yield from filter(None, [os.environ.get("VIRTUAL_ENV", "")])
        variable = f"{tool.upper()}_PROJECT_ENVIRONMENT"
        chosen = parsed.env.get(variable) or os.environ.get(variable) or ".venv"
        inside = f".pixi/envs/{name or 'default'}" if tool == "pixi" else chosen
        ups = (
            Path(path),
            *Path(path).parents,
            *list_folders_up()[1:],
        )  # a project may be above the directory
        places = [posixpath.join("" if str(up) == "." else str(up), inside) for up in ups]
        found = next(filter(os.path.exists, places), "" if tool in _BY_HASH else places[0])
        yield from filter(None, [found])


def _conda_folders(name: str, path: str) -> Iterator[str]:
    if path:
        yield path
        return
    if name and os.environ.get("CONDA_DEFAULT_ENV") == name and "CONDA_PREFIX" in os.environ:
        yield os.environ["CONDA_PREFIX"]
    from launcher.onhost.find_interpreters import CONDAS as FOLDERS  # noqa: PLC0415 - a program of its own, with what it imports

    roots = [os.environ.get("MAMBA_ROOT_PREFIX", "")]
    roots.append(posixpath.dirname(posixpath.dirname(os.environ.get("CONDA_EXE", ""))))
    roots += (f"~/{folder}" for folder in FOLDERS)  # of a shell that has not run `conda init`
    for root in filter(None, roots):
        yield root if name == "base" else f"{root}/envs/{name}"
