"""Local paths that start with `~` or `~USER`."""

import os
import pwd
from contextlib import suppress
from pathlib import Path

from launcher.errors import BadInput


def expand_home(path: str | Path) -> Path:
    """Return a path with its `~` or `~USER` replaced. Raises BadInput where there is no such user or home."""
    try:
        given = Path(path)
        if given.parts[:1] == ("~",) and os.environ.get("HOME") == "":  # pathlib would make it /
            return Path(pwd.getpwuid(os.getuid()).pw_dir, *given.parts[1:])
        return given.expanduser()
    except (RuntimeError, KeyError):
        first = Path(path).parts[0]
        if first == "~":
            raise BadInput(f"{path}: you have no local home directory", "set HOME") from None
        message = f"{path}: the user {first.removeprefix('~')!r} does not exist on this machine"
        raise BadInput(
            message, f"name a user of this machine, or write ./{path} for a file of this name"
        ) from None


def abbreviate_home(path: str) -> str:
    """Return an absolute local path as `~/...` where it lies in the user's home directory."""
    try:
        return f"~/{Path(path).relative_to(find_home())}"
    except (ValueError, BadInput):
        return path


def shorten_path(path: str) -> str:
    """Return the shortest spelling of an absolute local path, for a command to type in this directory."""
    spellings = [abbreviate_home(path), path]
    with suppress(OSError, ValueError):  # a directory that was deleted; a path elsewhere
        inside = str(Path(path).relative_to(Path.cwd()))
        spellings.append(f"./{inside}" if inside.startswith(("-", "~")) else inside)
    return min(spellings, key=len)


def find_home() -> Path:
    """Return the user's local home directory. Raises BadInput where there is none."""
    return expand_home("~")


def user_cache_dir() -> Path:
    """Return gpulaunch's directory for what can be made anew ($XDG_CACHE_HOME or ~/.cache)."""
    return _directory("XDG_CACHE_HOME", ".cache")


def user_config_dir() -> Path:
    """Return gpulaunch's directory in the user's configuration ($XDG_CONFIG_HOME or ~/.config)."""
    return _directory("XDG_CONFIG_HOME", ".config")


def user_state_dir() -> Path:
    """Return gpulaunch's directory for state ($XDG_STATE_HOME or ~/.local/state)."""
    return _directory("XDG_STATE_HOME", ".local/state")


def _directory(variable: str, below_home: str) -> Path:
    base = os.environ.get(variable, "")  # the specification: a relative path is invalid and ignored
    return (Path(base) if base.startswith("/") else find_home() / below_home) / "gpulaunch"
