"""YAML as a tree that remembers the place of each value, so that every mistake can name file, line and key.

Scalars keep their source text: `precision: no`, `port: 022` and `env: {X: on}` mean what was typed, not what
YAML 1.1 makes of it.
"""

import json
import re
from dataclasses import field
from typing import TypeAlias

from launcher.config.value_remedies import as_ascii
from launcher.errors import ConfigError
from preflight.frozen import dataclass

MAX_REPORTED = 20  # mistakes; a file with more is mostly another kind of file
MAX_ISSUES = 50  # more are not looked for: each is compared with all names for its remedy

YamlValue: TypeAlias = "str | tuple[YamlNode, ...] | dict[str, YamlNode] | None"


@dataclass(frozen=True, slots=True)
class YamlNode:
    """One value: scalar text, None (empty), a list or a mapping, and where it was written."""

    value: YamlValue
    source: str  # the file as the user knows it, or an option such as "--set"
    line: int = 0  # 1-based; 0 = not in a file
    key: str = ""  # dotted path: "hosts.titan.port"
    is_tilde: bool = False  # None, written as ~

    @property
    def text(self) -> str:
        """The text of a scalar, "" of anything else."""
        return self.value if isinstance(self.value, str) else ""

    @property
    def kind(self) -> str:
        """What this is, in the words of a message."""
        if self.value is None:
            return "nothing"
        if isinstance(self.value, str):
            return json.dumps(self.value[:60], ensure_ascii=False)
        return "a list" if isinstance(self.value, tuple) else "a mapping (key: value)"


@dataclass(frozen=True, slots=True)
class ConfigIssue:
    """One thing that is wrong in a file."""

    source: str
    line: int
    key: str
    text: str

    def __str__(self) -> str:
        """Return `file:line: key: text`; of an option, whose name has the key, only what is below it."""
        where = f"{self.source}:{self.line}" if self.line else self.source
        key = self._key_below_option() if is_typed(self.source) else self.key
        return f"{where}: {key}: {self.text}" if key else f"{where}: {self.text}"

    def _key_below_option(self) -> str:
        """Return `max` for restart.max of `--set restart=...`, `[1]` for gpus[1] of `--gpus`."""
        option, _, key = self.source.partition(" ")
        if option == "--set":
            return self.key.removeprefix(key).lstrip(".")
        _, bracket, index = self.key.partition("[")
        return bracket + index


def is_typed(source: str) -> bool:
    """Return whether a source is an option or the argument HOST of the command line, not a file."""
    return source.startswith("--") or source == "HOST"


def _place(issue: ConfigIssue) -> tuple[str, int, str, str]:
    key = re.sub("[0-9]+", lambda number: number[0].zfill(9), issue.key)  # hosts[10] comes after hosts[9]
    return issue.source, issue.line, key, issue.text


@dataclass(slots=True)
class ConfigIssues:
    """Collects every mistake, so that all are reported at once."""

    found: list[ConfigIssue] = field(default_factory=list)

    def add(self, item: YamlNode, text: str) -> None:
        """Record a mistake at `item`. Raises ConfigError when there are MAX_ISSUES."""
        text += as_ascii(f"{item.key} {text}")
        self.found.append(ConfigIssue(item.source, item.line, item.key, text))
        if len(self.found) >= MAX_ISSUES:
            self.raise_if_any()

    def add_wrong_value(self, item: YamlNode, expected: str, choices: tuple[str, ...] = ()) -> None:
        """Record a value of the wrong type or spelling, with the nearest valid spelling."""
        near = hint_nearest(item.value, choices) if isinstance(item.value, str) else ""
        self.add(item, f"expected {expected}, got {item.kind}" + near)

    def raise_if_any(self) -> None:
        """Raise ConfigError with one line per mistake."""
        if not self.found:
            return
        lines = [str(mistake) for mistake in sorted(set(self.found), key=_place)]
        if len(lines) == 1:
            raise ConfigError(lines[0])
        more = [f"and {len(lines) - MAX_REPORTED} more"] if len(lines) > MAX_REPORTED else []
        text = "\n".join(f"  {line}" for line in [*lines[:MAX_REPORTED], *more])
        raise ConfigError(f"{len(lines)} mistakes:\n{text}")


def hint_nearest(word: str, choices: tuple[str, ...]) -> str:
    """Return `; did you mean "x"?` for the choice that is spelled most like `word`, or an empty string."""
    near = find_nearest(word, choices)
    return f'; did you mean "{near}"?' if near else ""


def find_nearest(word: str, choices: tuple[str, ...]) -> str:
    """Return the choice that is spelled most like `word`, or an empty string."""
    whole = {choice.lower(): choice for choice in reversed(choices)}
    lowered = {
        part: choice for choice in reversed(choices) for part in choice.lower().split("_") if len(part) > 3
    }
    lowered |= whole
    from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

    close = get_close_matches(word.lower(), whole, n=1, cutoff=0.8)
    close = close or get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    return lowered[close[0]] if close else ""
