"""Which commands of a hosts.yaml may run: those of the user's own file, and those that were confirmed.

hosts.yaml and run configs may come with a repository. A `via:` that is a list of words runs any program,
locally or on a host, already in a preflight, and `on_end:` runs one locally after a run. OpenSSH reads
ProxyCommand from the user's own files only. The presets need no consent: gpulaunch writes their commands, and
a file adds nothing but checked names.

A yes to a local command is for the working directory, too: `[sh, notify.sh]` is the same words in every
repository, and another program in each.
"""

import json
import os
import shlex
import stat
import threading
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from launcher.errors import BadInput, CommandNotAllowed, PathRefused
from launcher.local.home import user_config_dir
from launcher.local.safe_paths import write_below
from launcher.text import one_line
from launcher.transports.base import Endpoint, OpenOptions

FILE_NAME = "allowed-commands"
"""In the user's configuration directory: a JSON object a line; `runs` is local, host or end (as below)."""
Command = tuple[str, tuple[str, ...], str]
"""Where it runs (or "end": locally, as `on_end:`), its words, and the directory it runs in ("" on a host)."""
_LARGEST_FILE = 1 << 20
_LOCALLY = "locally"
_AT_END = "end"
_TRIES = 3
_LINE = 300
_QUESTION = "Run it now and from now on{} (yes/no)?"
_IN_DIRECTORY = " in this directory"


class Consent:
    """What was said of commands in this process: each is asked about once, however many hosts it reaches."""

    def __init__(self, options: OpenOptions) -> None:
        self._options = options
        self._lock = threading.Lock()
        self._answers: dict[Command, bool] = {}

    def demand(self, endpoint: Endpoint) -> None:
        """Raise CommandNotAllowed unless the user's own file or the user allows the endpoint's command."""
        if endpoint.own_command:
            return
        command = build_command(endpoint)
        where = _where(endpoint)
        what = f"hosts.yaml of this project reaches {endpoint.name} by a command that runs {where}, as you:"
        if not self.allows(command, what):
            shown = shlex.join(command[1])
            fix = (
                "if you trust it: type the command at a terminal, and answer yes; or move the host to"
                f" {user_config_dir() / 'hosts.yaml'}, which is yours alone"
            )
            message = f"hosts.yaml of this project would run a command {where}, not allowed yet: {shown}"
            raise CommandNotAllowed(endpoint.name, message, fix)

    def demand_end_command(self, words: tuple[str, ...], config: Path) -> None:
        """Raise BadInput unless the run config is the user's own, or the user allows its `on_end:`."""
        what = f"{one_line(str(config))} of this project runs a command locally when the run ends, as you:"
        if is_users_own(config, config.name) or self.allows((_AT_END, words, _directory()), what):
            return
        raise BadInput(
            f"on_end of {one_line(str(config))} would run a local command, not allowed yet:"
            f" {shlex.join(words)}",
            "if you trust it: run at a terminal, and answer yes; or run without it: --set on_end=",
        )

    def allows(self, command: Command, heading: str) -> bool:
        """Return whether the user allows a command, asked once at most; `heading` heads the question."""
        with self._lock:
            if command not in self._answers:
                self._answers[command] = command in read_allowed_commands() or self._ask(command, heading)
        return self._answers[command]

    def _ask(self, command: Command, heading: str) -> bool:
        if self._options.confirm is None:
            return False
        shown = shlex.join(command[1])
        lines: tuple[str, ...] = (heading, *(shown[at : at + _LINE] for at in range(0, len(shown), _LINE)))
        question = _QUESTION.format(_IN_DIRECTORY if command[2] else "")
        with suppress(EOFError):
            for _ in range(_TRIES):
                answer = self._options.confirm(lines, question).strip().lower()
                if answer in ("yes", "no"):
                    if answer == "yes":
                        _allow(command)
                    return answer == "yes"
                lines, question = (), "Please type 'yes' or 'no':"
        return False


@lru_cache(maxsize=4)
def find_consent(options: OpenOptions) -> Consent:
    """Return the consent that all calls with the same options share."""
    return Consent(options)


def is_users_own(path: Path | None, name: str = "hosts.yaml") -> bool:
    """Whether a file of this name is the user's own: in the user's configuration directory, safe from others.

    OpenSSH demands the same of ~/.ssh/config (`Bad owner or permissions`).
    """
    if path is None:
        return False
    with suppress(OSError):
        if path.resolve() != (user_config_dir() / name).resolve():
            return False
        return _is_private(path.stat()) and _is_private(path.resolve().parent.stat())
    return False


def build_command(endpoint: Endpoint) -> Command:
    """Return what is allowed or not: words that may run on hosts may not run locally for that."""
    words = endpoint.via.words if endpoint.via else ()
    return ("local", words, _directory()) if _where(endpoint) == _LOCALLY else ("host", words, "")


def _directory() -> str:
    """Return the directory that local commands run in."""
    try:
        return str(Path.cwd())
    except OSError:  # it was deleted, and holds no file
        return "/"


def _where(endpoint: Endpoint) -> str:
    base = endpoint.base
    return _LOCALLY if base is None or base.transport == "local" else f"on {base.address}"


def read_allowed_commands() -> frozenset[Command]:
    """Return the commands that the user has confirmed; none where others could have written the file."""
    path = user_config_dir() / FILE_NAME
    try:
        with path.open(encoding="utf-8") as file:
            lines = file.read(_LARGEST_FILE).splitlines() if _is_private(os.fstat(file.fileno())) else []
        found = [json.loads(line) for line in lines]
    except (OSError, ValueError, RecursionError):
        return frozenset()
    return frozenset(
        (str(each.get("runs")), tuple(map(str, each["words"])), str(each.get("in", "")))
        for each in found
        if isinstance(each, dict) and isinstance(each.get("words"), list)
    )


def _allow(command: Command) -> None:
    """Keep a yes; where it cannot be kept it holds for this process."""
    commands = sorted({*read_allowed_commands(), command})
    text = "".join(
        json.dumps({"runs": runs, "words": words, "in": place}) + "\n" for runs, words, place in commands
    )
    with suppress(OSError, PathRefused):
        write_below(user_config_dir(), FILE_NAME, text)


def _is_private(state: os.stat_result) -> bool:
    return state.st_uid in (os.geteuid(), 0) and not state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
