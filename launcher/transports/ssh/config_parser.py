"""ssh_config(5) as OpenSSH reads it: Host, Match, Include, first value wins; mistakes name file and line."""

import glob
import os
import shlex
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import field
from functools import lru_cache
from pathlib import Path
from typing import Literal

from launcher.errors import ConfigError, HostError
from launcher.local.descriptors import raise_if_exhausted
from launcher.local.home import expand_home
from launcher.local.user import is_open_to_others, read_login_name
from launcher.transports.ssh.config_values import Tokens, matches_patterns, split_words
from preflight.frozen import dataclass

USER_FILE = "~/.ssh/config"
SYSTEM_FILE = "/etc/ssh/ssh_config"
_SYSTEM = Path(SYSTEM_FILE)

_DEEPEST_INCLUDE = 16
_MATCH_EXEC_S = 10.0
_REPEATED = frozenset({"identityfile", "certificatefile"})  # every occurrence counts, not only the first


@dataclass(frozen=True, slots=True)
class ConfigLine:
    """One directive, its name in lower case."""

    key: str
    words: tuple[str, ...]
    text: str  # the value as written, for commands
    where: str  # FILE:LINE


@dataclass(frozen=True, slots=True)
class _Block:
    """A line that turns directives on or off, and the directives up to the next such line."""

    head: ConfigLine
    lines: tuple[ConfigLine, ...]
    names: frozenset[str] | None  # of a Host line without patterns: all that it matches, in lower case


_Kind = Literal["own", "system", "given"]
_PATTERN = frozenset("*?!")
_HEADS = frozenset({"host", "match", "<include>", "</include>"})
_reading = threading.Lock()


@dataclass(slots=True)
class _Lookup:
    """What is known so far while the lines are read for one host."""

    original: str
    user: str
    values: dict[str, list[ConfigLine]] = field(default_factory=dict)

    @property
    def host(self) -> str:
        """HostName so far, else the name as typed."""
        named = self.get_first("hostname")
        return Tokens(self.original, self.original, "", "").expand_text(named) or self.original

    @property
    def remote_user(self) -> str:
        """Who to log in as, as far as that is known; "" for the local user."""
        return self.user or self.get_first("user")

    def get_first(self, key: str) -> str:
        lines = self.values.get(key)
        return lines[0].text if lines else ""


def find_directives(path: Path | None, name: str, user: str = "") -> dict[str, list[ConfigLine]]:
    """Return the directives that apply to `name`: for each key its lines, the effective one first.

    `path` None reads the user's file and then the system's; files that do not exist say nothing, but a `path`
    that is given must exist. Raises ConfigError, and HostError for a command of a Match that does not end.
    """
    state = _Lookup(name, user)
    for blocks in _read_files(path):
        _apply(blocks, state)
    return state.values


def is_named(path: Path | None, name: str) -> bool:
    """Return whether a Host line names this very host, not by a pattern. Raises ConfigError."""
    return any(name.lower() in map(str.lower, head.words) for head in _host_lines(path))


def list_host_names(path: Path | None) -> Iterator[str]:
    """Yield the names of Host lines that are not patterns. Raises ConfigError."""
    for head in _host_lines(path):
        yield from (word for word in head.words if not _PATTERN.intersection(word))


def _host_lines(path: Path | None) -> list[ConfigLine]:
    return [block.head for blocks in _read_files(path) for block in blocks if block.head.key == "host"]


def _read_files(path: Path | None) -> tuple[tuple[_Block, ...], ...]:
    with _reading:  # many threads ask at once, and the first of them reads for all
        return _files(expand_home(USER_FILE if path is None else path), path is None)


@lru_cache(maxsize=4)
def _files(path: Path, is_users_own: bool) -> tuple[tuple[_Block, ...], ...]:  # noqa: FBT001 - lru_cache keys
    """Return the files that count, read. Looked for once for all hosts."""
    if not is_users_own:
        return (_read(str(path), "given"),)
    own = [_read(str(path), "own")] if path.exists() else []
    return (*own, *([_read(SYSTEM_FILE, "system")] if _SYSTEM.exists() else []))


def _apply(blocks: tuple[_Block, ...], state: _Lookup) -> None:
    """Apply the blocks in order; those that do not match are passed over."""
    active, depth_active = True, [True]
    name = state.original.lower()
    for block in blocks:
        head = block.head
        if head.key == "<include>":
            depth_active.append(active)
        elif head.key == "</include>":
            active = depth_active.pop()  # a Host inside an included file ends with that file
        elif head.key == "host":
            matches = matches_patterns(head.words, name) if block.names is None else name in block.names
            active = depth_active[-1] and matches
        elif head.key == "match":
            active = depth_active[-1] and _match(head, state)
        if active:
            for line in block.lines:
                if line.key in _REPEATED or line.key not in state.values:
                    state.values.setdefault(line.key, []).append(line)


def _match(line: ConfigLine, state: _Lookup) -> bool:
    words = iter(line.words)
    for word in words:
        negated = word.startswith("!")
        criterion, _, given = word.removeprefix("!").lower().partition("=")
        if criterion in ("all", "final"):  # no file is read twice, so the only pass is the final one
            result = True
        elif criterion == "canonical":
            result = False
        else:
            value = given or next(words, "")
            if not value:
                raise ConfigError(f"{line.where}: Match {criterion}: expected a value")
            result = _criterion(line, criterion, value, state)
        if result == negated:
            return False
    return True


def _criterion(line: ConfigLine, criterion: str, value: str, state: _Lookup) -> bool:
    subjects = {
        "host": lambda: state.host,
        "originalhost": lambda: state.original,
        "user": lambda: state.remote_user or read_login_name(),
        "localuser": read_login_name,
    }
    if criterion in subjects:
        return matches_patterns(tuple(value.split(",")), subjects[criterion]())
    if criterion == "exec":
        tokens = Tokens(state.original, state.host, state.get_first("port") or "22", state.remote_user)
        return _runs(state.original, tokens.expand_command(value, line.where), line.where)
    if criterion in ("tagged", "localnetwork", "sessiontype", "command", "version"):
        return False  # about the ssh command itself, which is not what runs
    raise ConfigError(f"{line.where}: Match knows no {criterion!r}")


def _runs(host: str, command: str, where: str) -> bool:
    try:
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_MATCH_EXEC_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        what = f"{where}: Match exec has not ended within {_MATCH_EXEC_S:g} s: {command[:60]!r}"
        raise HostError(host, what, "try its command by hand; ssh waits for it, too") from None
    except OSError:
        return False
    return done.returncode == 0


@lru_cache(maxsize=8)
def _read(path: str, kind: _Kind) -> tuple[_Block, ...]:
    """Return a file's blocks, included ones in place. Read once for all hosts."""
    blocks: list[tuple[ConfigLine, list[ConfigLine]]] = [(ConfigLine("", (), "", path), [])]
    for line in _lines(Path(path), kind, depth=0):
        if line.key in _HEADS:
            blocks.append((line, []))
        else:
            blocks[-1][1].append(line)
    return tuple(_Block(head, tuple(lines), _plain_names(head)) for head, lines in blocks)


def _plain_names(head: ConfigLine) -> frozenset[str] | None:
    if head.key != "host" or any(_PATTERN.intersection(word) for word in head.words):
        return None
    return frozenset(word.lower() for word in head.words)


def _lines(path: Path, kind: _Kind, *, depth: int) -> Iterator[ConfigLine]:
    if depth > _DEEPEST_INCLUDE:
        raise ConfigError(
            f"{path}: Include goes deeper than {_DEEPEST_INCLUDE} files; does it include itself?"
        )
    try:
        with path.open("rb") as file:
            state = os.fstat(file.fileno())
            text = file.read().decode("utf-8", "surrogateescape")
    except OSError as failure:
        raise_if_exhausted(failure)
        raise ConfigError(f"{path}: {failure.strerror}") from None
    if kind == "own" and is_open_to_others(state):
        raise ConfigError(
            f"{path}: others may write commands into it, and ssh refuses it, too"
            f" (Bad owner or permissions):"
            f" chown $USER {shlex.quote(str(path))}; chmod go-w {shlex.quote(str(path))}"
        )
    for number, raw in enumerate(text.splitlines(), start=1):
        line = _parse(raw, f"{path}:{number}")
        if line is None:
            continue
        if line.key != "include":
            yield line
            continue
        for word in line.words:
            for part in _included(word, kind):
                yield ConfigLine("<include>", (), "", line.where)
                yield from _lines(part, kind, depth=depth + 1)
                yield ConfigLine("</include>", (), "", line.where)


def _included(word: str, kind: _Kind) -> list[Path]:
    base = "/etc/ssh" if kind == "system" else str(expand_home("~/.ssh"))
    pattern = str(Path(base) / expand_home(word))
    found = sorted(glob.glob(pattern))  # noqa: PTH207 - Path.glob takes no absolute pattern
    return [Path(name) for name in found if Path(name).is_file()]


def _parse(raw: str, where: str) -> ConfigLine | None:
    """Parse `Key value...` or `Key=value`; None for blank lines and comments."""
    text = raw.strip()
    if not text or text.startswith("#"):
        return None
    key = text.split(maxsplit=1)[0].partition("=")[0]
    value = text[len(key) :].strip().removeprefix("=").strip()
    key = key.lower()
    if not key.isalnum() or not value:
        raise ConfigError(f"{where}: expected `Keyword value`, got {text[:60]!r}")
    if key in ("proxycommand", "localcommand", "remotecommand", "knownhostscommand"):
        return ConfigLine(key, (value,), value, where)  # the rest of the line, quotes and all, is for a shell
    split = split_words(value)
    if split is None:
        raise ConfigError(f"{where}: {text[:60]!r} has a quote without its partner")
    return ConfigLine(key, split, split[0] if split else "", where)
