"""How ssh_config(5) writes a value: words, quotes, patterns, percent tokens, environment variables, times."""

import fnmatch
import os
import socket
from collections.abc import Callable

from launcher.config.host_names import HOST_RULE, USER_RULE, is_host, is_user
from launcher.errors import ConfigError
from launcher.local.home import find_home
from launcher.local.user import read_login_name
from preflight import regex as re
from preflight.frozen import dataclass

_SPECIAL = frozenset("\"'\\#")
_ESCAPED = frozenset("\"'\\")
_PERCENT = re.compile(r"%(?P<token>.)")
_PERCENT_OR_VARIABLE = re.compile(r"%(?P<token>.)|\$\{(?P<variable>\w+)\}")
_TIME = re.compile(r"(\d+)([smhdw]?)", re.IGNORECASE)
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


def matches_patterns(patterns: tuple[str, ...], name: str) -> bool:
    """Match a pattern list: a matching `!pattern` wins over everything."""
    found, lower = False, name.lower()
    for pattern in patterns:
        wanted = pattern.removeprefix("!").lower()
        plain = "*" not in wanted and "?" not in wanted
        if wanted == lower if plain else fnmatch.fnmatchcase(lower, wanted.replace("[", "[[]")):
            if pattern.startswith("!"):
                return False
            found = True
    return found


def split_words(value: str) -> tuple[str, ...] | None:
    r"""Split as OpenSSH does, which is not as a shell does; None where a quote has no partner.

    A backslash stands for itself (`CORP\ada`) but before a quote, a backslash or a blank; `#` starts a
    comment only where a word could start.
    """
    if value.isascii() and _SPECIAL.isdisjoint(value):
        return tuple(value.split())
    found: list[str] = []
    at = 0
    while at < len(value) and value[at] != "#":
        if value[at].isspace():
            at += 1
            continue
        word, at = _word(value, at)
        if word is None:
            return None
        found.append(word)
    return tuple(found)


def _word(value: str, at: int) -> tuple[str | None, int]:
    """Return the word that starts at `at`, and where it ends."""
    word, quote = "", ""
    while at < len(value) and (quote or not value[at].isspace()):
        char, following = value[at], value[at + 1 : at + 2]
        if char == "\\" and (following in _ESCAPED or (following == " " and not quote)):
            word += following
            at += 1
        elif char == quote:
            quote = ""
        elif char in "\"'" and not quote:
            quote = char
        else:
            word += char
        at += 1
    return (None if quote else word), at


@dataclass(frozen=True, slots=True)
class Tokens:
    """What the percent tokens of ssh_config(5) stand for, for one host."""

    name: str
    host: str
    port: str
    user: str
    key_alias: str = ""

    def expand_text(self, text: str) -> str:
        """Expand the tokens of a name."""
        return _PERCENT.sub(self._token, text) if "%" in text else text

    def expand_command(self, text: str, where: str) -> str:
        """Expand the tokens of a shell command, but `${NAME}`. Raises ConfigError for an unsafe name."""
        for letter in {match["token"] for match in _PERCENT.finditer(text)}:
            value = self._token_of(letter)
            if letter in "hnk" and not is_host(value):
                raise ConfigError(f'{where}: %{letter} is "{value}", not a host: expected {HOST_RULE}')
            if letter == "r" and not is_user(value):
                raise ConfigError(f'{where}: %r is "{value}", not a user: expected {USER_RULE}')
            if letter == "p" and not value.isdecimal():
                raise ConfigError(f'{where}: %p is "{value}", not a port')
        return self.expand_text(text)

    def expand_path(self, text: str, where: str) -> str:
        """Expand the tokens and the environment variables of a path. Raises ConfigError for one not set."""

        def value(match: re.Match[str]) -> str:
            variable = match["variable"]
            if variable is None:
                return self._token(match)
            if variable not in os.environ:
                raise ConfigError(f"{where}: the environment variable {variable} is not set")
            return os.environ[variable]

        return _PERCENT_OR_VARIABLE.sub(value, text) if "%" in text or "${" in text else text

    def _token(self, match: re.Match[str]) -> str:
        return self._token_of(match["token"]) or match[0]

    def _token_of(self, token: str) -> str:
        given = {"%": "%", "h": self.host, "n": self.name, "p": self.port, "r": self.user}
        given["k"] = self.key_alias or self.name
        here = _HERE.get(token)
        return given.get(token) or (here() if here else "")


_HERE: dict[str, Callable[[], str]] = {
    "r": read_login_name,
    "u": read_login_name,
    "i": lambda: str(os.getuid()),
    "d": lambda: str(find_home()),
    "l": socket.gethostname,
    "L": lambda: socket.gethostname().partition(".")[0],
}
"""Tokens about this machine, asked for only where one is written."""


def parse_seconds(text: str) -> int | None:
    """Return what a time such as `90`, `1m30s` or `2h` says, None where it says none."""
    if not text or _TIME.sub("", text):
        return None
    return sum(int(number) * _SECONDS[unit.lower()] for number, unit in _TIME.findall(text))
