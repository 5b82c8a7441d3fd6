"""The interpreter that a command names or enters, as a file of this machine."""

import os
import posixpath
from collections.abc import Iterator

from launcher.engines.command_line.parsed_command import Environment, ParsedCommand
from launcher.local.home import at_home, from_home


def find_python_of_line(parsed: ParsedCommand) -> str:
    """Return the interpreter of a command as a path of this machine, "" where it names none or it is absent.

    `/opt/venv/bin/python` and `/opt/venv/bin/torchrun` name one; `source .venv/bin/activate` and `uv run`
    enter an environment that has one. Other hosts have that of hosts.yaml, or find_python_of_hosts.
    """
    if "/" in parsed.python:
        python = os.path.join(parsed.directory, at_home(parsed.python))  # noqa: PTH118 - as below
        return os.path.abspath(python)  # noqa: PTH100 - a venv's python is a link, to be kept
    if parsed.environment is None:
        return ""
    places = (at_home(folder) / "bin" / "python" for folder in _folders(parsed.environment))
    found = next((place for place in places if place.exists()), None)
    return os.path.abspath(found) if found is not None else ""  # noqa: PTH100 - as above


def find_python_of_hosts(parsed: ParsedCommand) -> str:
    """Return the interpreter that a command names or enters by a path which hosts can have too, else "".

    One below the local home directory is below that of each host; an environment that is only named lies
    where it does on this machine.
    """
    folders = _folders(parsed.environment) if parsed.environment is not None else ()
    named = [parsed.python] if "/" in parsed.python else [f"{folder}/bin/python" for folder in folders]
    found = [from_home(one) for one in named if one.startswith(("/", "~/"))]
    return next((one for one in found if len(named) == 1 or at_home(one).exists()), "")


def _folders(environment: Environment) -> Iterator[str]:
    """Yield where the environment of a tool lies, by the rules of that tool."""
    tool, name, path = environment.tool, environment.name, environment.path
    if tool == "venv":
        yield path
    elif tool == "pixi":
        yield f".pixi/envs/{name or 'default'}"
    elif tool in ("conda", "mamba", "micromamba", "pyenv"):
        yield from _conda_folders(name, path)
    else:  # uv, poetry, pdm and others keep it beside the project
        chosen = os.environ.get("UV_PROJECT_ENVIRONMENT", "") if tool == "uv" else ""
        yield posixpath.join(path or ".", chosen or ".venv")


def _conda_folders(name: str, path: str) -> Iterator[str]:
    if path:
        yield path
        return
    if name and os.environ.get("CONDA_DEFAULT_ENV") == name and "CONDA_PREFIX" in os.environ:
        yield os.environ["CONDA_PREFIX"]
    from launcher.onhost.find_interpreters import CONDAS  # noqa: PLC0415 - a program of its own, with what it imports

    roots = [os.environ.get("MAMBA_ROOT_PREFIX", "")]
    roots.append(posixpath.dirname(posixpath.dirname(os.environ.get("CONDA_EXE", ""))))
    roots += (f"~/{folder}" for folder in CONDAS)  # of a shell that has not run `conda init`
    for root in filter(None, roots):
        yield root if name == "base" else f"{root}/envs/{name}"
