"""A launch of a script without a run config: what is meant by a word, and how the code gets to the hosts."""

import os
import posixpath
import shlex
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path

from launcher.config.config_overrides import Overrides
from launcher.config.config_search import is_config_name
from launcher.config.inventory import FILE_NAME, HostEntry
from launcher.config.run_config import RunConfig, build_command_config, build_config_from_script
from launcher.errors import BadInput
from launcher.text import name_first
from preflight import regex as re

PLACES_OF_WORDS = "name a local file; a host goes after --hosts, a command after --"
_ON_HOSTS = "or, where the code lies on the hosts only, add --set send_script=false"

_NAMED = 3
_LONGEST_HEAD = 4096
_SHELL = re.compile(rb"\b(?:ba|da|z|k)?sh\b")
_SHELL_SUFFIXES = frozenset({".sh", ".bash", ".sbatch", ".slurm"})
_MOST_BESIDE = 1000
_SYNC = (
    "--sync sends this directory (to {target} where hosts.yaml has no workdir);"
    " or, where all of it lies on the hosts already: --set send_script=false"
)


def choose_tree_dir(name: str) -> str:
    """Return the directory of a tree of that name, on a host without a workdir."""
    return posixpath.join("~/gpulaunch", name)


def build_config_for_script(words: Sequence[str], overrides: Overrides) -> RunConfig:
    """Return the run config that the first word, a local script, stands for; the others are its arguments.

    Raises BadInput where the word is not a script, with what it may have meant.
    """
    if not words or not words[0]:
        raise BadInput(
            "nothing to run", "name a local script, such as train.py, or a run config: --config NAME"
        )
    script, *args = words
    config = build_config_from_script(script, replace(overrides, extra_args=tuple(args)))
    refuse_shell_script(script, "run")
    if config.job.send_script or overrides.sets("send_script"):
        return config
    if Path(script).name == FILE_NAME:
        raise BadInput(
            f"{script} lists hosts, expected a script", f"gpulaunch run train.py -i {script} --hosts all"
        )
    if is_config_name(script):
        raise BadInput(f"{script} is a run config, not a script", f"gpulaunch run --config {script}")
    if not Path(script).is_file():
        raise explain_absent_script(script, f"{PLACES_OF_WORDS}, a run config after --config; {_ON_HOSTS}")
    return config


def refuse_shell_script(script: str, command: str) -> None:
    """Raise BadInput for a file that a shell runs; `command` is the command of gpulaunch that was typed."""
    path = Path(script)
    if not path.is_file():
        return
    with suppress(OSError), path.open("rb") as file:
        head = file.read(_LONGEST_HEAD)
        shebang = head.partition(b"\n")[0] if head.startswith(b"#!") else b""
        if not (_SHELL.search(shebang) if shebang else path.suffix in _SHELL_SUFFIXES):
            return
        word = shlex.quote(script)
        if command == "run" and b"\n#SBATCH " in head:
            what, fix = "batch script of Slurm", f"gpulaunch init {word} makes a run config of it"
        else:
            what = "shell script"
            fix = (
                f"gpulaunch {command} -- bash {word} starts it on each host;"
                f' gpulaunch {command} -- "$(cat {word})" reads the launch in it'
            )
        raise BadInput(f"{script} is a {what}, expected a Python script", fix)


def explain_absent_script(script: str, fix: str) -> BadInput:
    """Return the error for a script that does not exist, with one spelled alike. Raises FileNotFoundError."""
    path = Path(script)
    if not path.is_absolute():
        Path.cwd()
    if path.is_dir():
        return BadInput(
            f"{script} is a directory, expected a script", f"name a script in it: {path / 'train.py'}"
        )
    files = islice(path.parent.glob("*"), _MOST_BESIDE)
    beside = [each.name for each in files if each.suffix == path.suffix]
    from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

    close = get_close_matches(path.name, beside, n=1, cutoff=0.75)
    meant = f"did you mean {path.with_name(close[0])}? Otherwise " if close else ""
    return BadInput(f"{script}: no such script locally", f"{meant}{fix}")


def build_config_for_command(words: Sequence[str], overrides: Overrides) -> RunConfig:
    """Return the run config of a command. Raises BadInput where its script does not exist locally."""
    config = build_command_config(words, overrides)
    script, folder = config.job.script_in_tree, config.job.subdirectory
    if folder and not (overrides.sets("send_script") or Path(folder).is_dir()):
        raise BadInput(
            f"cd {folder}: no such local directory",
            f"start gpulaunch where the command is typed today; {_ON_HOSTS}",
        )
    program = config.job.command.executable
    if "/" in program and Path(program).is_dir():
        raise explain_absent_script(program, "")
    if "/" in program and Path(program).is_file() and not os.access(program, os.X_OK):
        raise BadInput(
            f"{program} is not executable",
            f"chmod +x {shlex.quote(program)}; or name its interpreter: -- bash {shlex.quote(program)}",
        )
    if script and not (config.job.send_script or overrides.sets("send_script") or Path(script).is_file()):
        raise explain_absent_script(script, f"cd to where the command is typed today; {_ON_HOSTS}")
    return config


def choose_code_transfer(
    config: RunConfig, entries: tuple[HostEntry, ...], overrides: Overrides
) -> RunConfig:
    """Return it so that the code is on every host: sent alone, or with the tree where that was asked for.

    Raises BadInput for a script that would arrive without modules that it imports.
    """
    if all(entry.is_local for entry in entries):
        return config
    if config.sync is not None:
        _refuse_outside(config)
        return config
    if config.job.send_script or overrides.sets("send_script"):
        return config
    _refuse_neighbours(config)
    if not config.job.script:
        return config
    script = Path(config.job.script_in_tree)
    _refuse_lone(script)
    return replace(config, local_script=script, job=replace(config.job, send_script=True))


def _refuse_outside(config: RunConfig) -> None:
    if not config.job.script:
        return
    path = config.job.script_in_tree
    if posixpath.isabs(path) or path.startswith("../"):
        raise BadInput(
            f"{path} is not in the current directory, which is the tree that --sync sends",
            "cd to the project's directory, and name the script relative to it",
        )


def _refuse_neighbours(config: RunConfig) -> None:
    """A command that names files or a package of this directory fails on hosts that have neither."""
    if config.command is None:
        return
    job = config.job
    top, here = job.module.partition(".")[0], Path(job.subdirectory)
    names = [name for name in (top, f"{top}.py") if top and (here / name).exists()]
    words = (job.command.executable, *job.args)
    names += [word for word in words if word and not posixpath.isabs(word) and (here / word).is_file()]
    if names:
        what = f"only {job.script}" if job.script else "nothing"
        raise BadInput(
            f"the command needs {name_first(names, _NAMED)}, and {what} would be sent to the hosts",
            _SYNC.format(target=choose_tree_dir(Path.cwd().name)),
        )


def _refuse_lone(script: Path) -> None:
    """A script that needs its neighbours fails on the hosts with ModuleNotFoundError."""
    from launcher.local.source_files import read_source  # noqa: PLC0415 - as below
    from preflight.script.source import Sources  # noqa: PLC0415 - only where a script is sent

    sources = Sources(read_source)
    try:
        source = sources.add(script.as_posix(), read_source(script.as_posix()) or "")
    except (SyntaxError, ValueError, RecursionError):
        return  # preflight reports it, which reads it too
    modules = sources.list_own_modules(source)
    if not modules:
        return
    raise BadInput(
        f"{script} imports {name_first(modules, _NAMED)}, but only {script} itself would be sent",
        _SYNC.format(target=choose_tree_dir(Path.cwd().name)),
    )
