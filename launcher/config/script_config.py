"""A launch of a script without a run config: what is meant by a word, and how the code gets to the hosts."""

import posixpath
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from launcher.config.inventory import HostEntry
from launcher.config.run_config import Overrides, RunConfig, known_configs, script_config
from launcher.errors import BadInput
from launcher.local.project import SUFFIXES

TREES = "~/gpulaunch"
"""Where the trees of scripts without a run config go on hosts that have no workdir."""

_NAMED = 3


def lone_script(words: Sequence[str], overrides: Overrides) -> RunConfig:
    """Return the run config that the first word, a script here, stands for; the others are its arguments.

    Raises BadInput where the word is no script, with what it may have meant.
    """
    if not words:
        raise BadInput(
            "nothing to run", "gpulaunch run train.py, or a run config: gpulaunch run --config NAME"
        )
    script, *args = words
    config = script_config(script, replace(overrides, extra_args=tuple(args)))
    if config.job.send_script or _explicit(overrides):
        return config
    if script.endswith(SUFFIXES) or (not Path(script).exists() and script in known_configs()):
        raise BadInput(f"{script} is a run config, not a script", f"gpulaunch run --config {script}")
    if not Path(script).is_file():
        raise BadInput(
            f"{script}: there is no such script locally",
            "name a local file; or a run config, with --config; or, where the script lies on the hosts only,"
            " add --set send_script=false",
        )
    return config


def with_code(
    config: RunConfig, entries: tuple[HostEntry, ...], overrides: Overrides
) -> tuple[RunConfig, tuple[HostEntry, ...]]:
    """Return both so that the code is on every host: sent alone, or with the tree where that was asked for.

    Raises BadInput for a script that would arrive without modules that it imports.
    """
    if all(entry.is_local for entry in entries):
        return config, entries
    if config.sync is not None:
        _refuse_outside(config)
        if config.sync.to or config.job.workdir:
            return config, entries
        there = posixpath.join(TREES, Path.cwd().name)
        return config, tuple(
            entry if entry.is_local or entry.workdir else replace(entry, workdir=there) for entry in entries
        )
    if config.job.send_script or _explicit(overrides):
        return config, entries
    script = Path(config.job.script)
    _refuse_lone(script)
    return replace(config, script_here=script, job=replace(config.job, send_script=True)), entries


def _explicit(overrides: Overrides) -> bool:
    """Whether the user has said how the script gets to the hosts."""
    return any(text.partition("=")[0].strip() == "send_script" for text in overrides.sets)


def _refuse_outside(config: RunConfig) -> None:
    path = posixpath.normpath(config.job.script)
    if posixpath.isabs(path) or path.startswith("../"):
        raise BadInput(
            f"{config.job.script} is not in the current directory, which is the tree that --sync sends",
            "cd to the project's directory, and name the script relative to it",
        )


def _refuse_lone(script: Path) -> None:
    """A script that needs its neighbours fails on the hosts with ModuleNotFoundError."""
    from preflight.script.source import Sources  # noqa: PLC0415 - only where a script is sent

    sources = Sources(_text)
    try:
        source = sources.add(script.as_posix(), _text(script.as_posix()) or "")
    except (SyntaxError, ValueError, RecursionError):
        return  # told by preflight, which reads it too
    modules = sources.own_modules(source)
    if not modules:
        return
    more = f" and {len(modules) - _NAMED} more" if len(modules) > _NAMED else ""
    raise BadInput(
        f"{script} imports {', '.join(modules[:_NAMED])}{more}, but only {script} itself would be sent",
        f"--sync sends this directory along (to {TREES}/{Path.cwd().name} where hosts.yaml has no workdir);"
        " or, where all of it lies on the hosts already: --set send_script=false",
    )


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        return None
