"""YAML as a tree that remembers the place of each value, so that every mistake can name file, line and key.

Scalars keep their source text: `precision: no`, `port: 022` and `env: {X: on}` mean what was typed, not what
YAML 1.1 makes of it.
"""

import json
import re
from dataclasses import field
from pathlib import Path
from typing import TypeAlias

import yaml

from launcher.config import yaml_nodes
from launcher.errors import ConfigError
from preflight.frozen import dataclass

MAX_BYTES = 1 << 20
MAX_KEY = 200  # characters; each value carries the path of keys to it
MAX_PATHS = 1 << 24  # characters of all those paths
MAX_REPORTED = 20  # mistakes; a file with more is mostly another kind of file
MAX_ISSUES = 50  # more are not looked for: each is compared with all names for its remedy

YamlValue: TypeAlias = "str | tuple[YamlNode, ...] | dict[str, YamlNode] | None"

_NULL_TEXTS = frozenset({"", "~", "null", "Null", "NULL"})
_MERGE_KEY = "<<"
_BARE_RANGE = re.compile(
    r"(?<![\w.@-])[\w.@-]+\[[0-9,/-]+\][\w.-]*"
)  # from the start of a word alone: linear
_PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "timestamp", "map", "seq", "merge", "value")
)


@dataclass(frozen=True, slots=True)
class YamlNode:
    """One value: scalar text, None (empty), a list or a mapping, and where it was written."""

    value: YamlValue
    source: str  # the file as the user knows it, or an option such as "--set"
    line: int = 0  # 1-based; 0 = not in a file
    key: str = ""  # dotted path: "hosts.titan.port"

    @property
    def kind(self) -> str:
        """What this is, in the words of a message."""
        if self.value is None:
            return "nothing"
        if isinstance(self.value, str):
            return json.dumps(self.value[:60], ensure_ascii=False)
        return "a list" if isinstance(self.value, tuple) else "a mapping (key: value)"


@dataclass(frozen=True, slots=True, order=True)
class ConfigIssue:
    """One thing that is wrong in a file; sorted as a reader meets them."""

    source: str
    line: int
    key: str
    text: str

    def __str__(self) -> str:
        """Return `file:line: key: text`; of an option, whose name has the key, only what is below it."""
        where = f"{self.source}:{self.line}" if self.line else self.source
        key = self._key_below_option() if self.source.startswith("--") else self.key
        return f"{where}: {key}: {self.text}" if key else f"{where}: {self.text}"

    def _key_below_option(self) -> str:
        """Return `max` for restart.max of `--set restart=...`, `[1]` for gpus[1] of `--gpus`."""
        option, _, key = self.source.partition(" ")
        if option == "--set":
            return self.key.removeprefix(key).lstrip(".")
        _, bracket, index = self.key.partition("[")
        return bracket + index


@dataclass(slots=True)
class ConfigIssues:
    """Collects every mistake, so that all are reported at once."""

    found: list[ConfigIssue] = field(default_factory=list)

    def add(self, item: YamlNode, text: str) -> None:
        """Record a mistake at `item`. Raises ConfigError when there are MAX_ISSUES."""
        self.found.append(ConfigIssue(item.source, item.line, item.key, text))
        if len(self.found) >= MAX_ISSUES:
            self.raise_if_any()

    def expected(self, item: YamlNode, expected: str, choices: tuple[str, ...] = ()) -> None:
        """Record a value of the wrong type or spelling, with the nearest valid spelling."""
        near = nearest(item.value, choices) if isinstance(item.value, str) else ""
        self.add(item, f"expected {expected}, got {item.kind}" + near)

    def raise_if_any(self) -> None:
        """Raise ConfigError with one line per mistake."""
        if not self.found:
            return
        lines = [str(mistake) for mistake in sorted(set(self.found))]
        if len(lines) == 1:
            raise ConfigError(lines[0])
        more = [f"and {len(lines) - MAX_REPORTED} more"] if len(lines) > MAX_REPORTED else []
        text = "\n".join(f"  {line}" for line in [*lines[:MAX_REPORTED], *more])
        raise ConfigError(f"{len(lines)} mistakes:\n{text}")


def nearest(word: str, choices: tuple[str, ...]) -> str:
    """Return `; did you mean "x"?` for the choice that is spelled most like `word`, or an empty string."""
    whole = {choice.lower(): choice for choice in reversed(choices)}
    lowered = {part: choice for choice in reversed(choices) for part in choice.lower().split("_")} | whole
    from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

    close = get_close_matches(word.lower(), whole, n=1, cutoff=0.8)
    close = close or get_close_matches(word.lower(), lowered, n=1, cutoff=0.6)
    return f'; did you mean "{lowered[close[0]]}"?' if close else ""


def read_file(path: Path, mistakes: ConfigIssues) -> YamlNode:
    """Return the mapping in the file. Raises ConfigError when it cannot be read as YAML at all."""
    shown = str(path)
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except IsADirectoryError:
        raise ConfigError(f"{shown}: this is a directory, expected a YAML file") from None
    except OSError as error:
        raise ConfigError(f"{shown}: cannot be read: {error.strerror}") from None
    root = parse_text(_decode(data, shown), shown, mistakes)
    if root.value is None:
        return YamlNode({}, shown, 1)
    if not isinstance(root.value, dict):
        raise ConfigError(f"{shown}:{root.line}: expected a mapping (key: value) at the top, got {root.kind}")
    return root


def _decode(data: bytes, shown: str) -> str:
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{shown}: larger than {MAX_BYTES >> 20} MiB; this is not a configuration file")
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise ConfigError(f"{shown}: encoded as UTF-16, expected UTF-8; save it as UTF-8")
    if b"\0" in data:
        line = data[: data.index(b"\0")].count(b"\n") + 1
        raise ConfigError(f"{shown}:{line}: holds binary data, expected YAML text in UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise ConfigError(
            f"{shown}:{line}: byte 0x{data[error.start]:02x} is not UTF-8; save the file as UTF-8"
        ) from None


def parse_text(text: str, source: str, mistakes: ConfigIssues, *, in_file: bool = True) -> YamlNode:
    """Return YAML text as an Item tree; raises ConfigError with the line where it is not YAML."""
    try:
        node = yaml_nodes.compose(text)
    except yaml_nodes.YamlLimitExceeded as error:
        where = f"{source}:{error.line}" if in_file else source
        raise ConfigError(f"{where}: {error}") from None
    except yaml.MarkedYAMLError as error:
        raise ConfigError(_yaml_message(error, text, source, in_file=in_file)) from None
    except yaml.YAMLError as error:  # ReaderError: a character that YAML does not allow
        position = getattr(error, "position", 0)
        where = f"{source}:{text[:position].count(chr(10)) + 1}" if in_file else source
        raise ConfigError(f"{where}: a control character is not allowed in YAML") from None
    if node is None:
        return YamlNode(None, source, 1 if in_file else 0)
    return _Builder(source, mistakes, in_file=in_file).item(node, "")


def _yaml_message(error: yaml.MarkedYAMLError, text: str, source: str, *, in_file: bool) -> str:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    where = f"{source}:{line}" if in_file else source
    lines = text.splitlines()
    here = lines[line - 1] if 0 < line <= len(lines) else ""
    if "\t" in here[: len(here) - len(here.lstrip())] or "'\\t'" in (error.problem or ""):
        return f"{where}: found a tab, expected spaces"
    problem = error.problem or "not valid YAML"
    begun = f" started in line {error.context_mark.line + 1}" if error.context_mark else ""
    context = f" ({error.context}{begun})" if error.context else ""
    bare = _BARE_RANGE.search(here)
    if bare and "'['" in problem:
        return f'{where}: not valid YAML: a range needs quotes: "{bare[0]}"'
    return f"{where}: not valid YAML: {problem}{context}"


class _Builder:
    """Turns composed nodes into Items; duplicates and foreign tags become mistakes."""

    def __init__(self, source: str, mistakes: ConfigIssues, *, in_file: bool) -> None:
        self.source = source
        self.mistakes = mistakes
        self.in_file = in_file
        self.paths = 0

    def item(self, node: yaml.Node, key: str) -> YamlNode:
        line = node.start_mark.line + 1 if self.in_file else 0
        self.paths += len(key)
        if self.paths > MAX_PATHS:
            where = f"{self.source}:{line}" if line else self.source
            raise ConfigError(f"{where}: too many values under long keys")
        if node.tag not in _PLAIN_TAGS:
            self.mistakes.add(
                YamlNode(None, self.source, line, key),
                f"the tag {node.tag} is not used in this file; remove it",
            )
            return YamlNode(None, self.source, line, key)
        return YamlNode(self._value(node, key), self.source, line, key)

    def _value(self, node: yaml.Node, key: str) -> YamlValue:
        if isinstance(node, yaml.ScalarNode):
            text = str(node.value)
            return None if not node.style and text in _NULL_TEXTS else text
        if isinstance(node, yaml.SequenceNode):
            return tuple(self.item(child, f"{key}[{n}]") for n, child in enumerate(node.value))
        return self._mapping(node, key)

    def _mapping(self, node: yaml.Node, key: str) -> dict[str, YamlNode]:
        own: dict[str, YamlNode] = {}
        merged: dict[str, YamlNode] = {}
        for key_node, value_node in node.value:
            line = key_node.start_mark.line + 1 if self.in_file else 0
            if not isinstance(key_node, yaml.ScalarNode):
                self.mistakes.add(YamlNode(None, self.source, line, key), "a key must be plain text")
                continue
            name = str(key_node.value)
            if len(name) > MAX_KEY:
                shown = YamlNode(None, self.source, line, key)
                self.mistakes.add(shown, f"a key has {len(name)} characters, expected at most {MAX_KEY}")
                continue
            path = f"{key}.{name}" if key else name
            if name == _MERGE_KEY and not key_node.style:
                merged |= self._merged(value_node, key)
                continue
            if name in own:
                first = f" (first on line {own[name].line})" if line else ""
                self.mistakes.add(YamlNode(None, self.source, line, path), f"written twice{first}; keep one")
                continue
            value = self.item(value_node, path)
            own[name] = YamlNode(value.value, self.source, line, path)
        return merged | own

    def _merged(self, node: yaml.Node, key: str) -> dict[str, YamlNode]:
        value = self.item(node, key)
        parts = value.value if isinstance(value.value, tuple) else (value,)
        found: dict[str, YamlNode] = {}
        for part in reversed(parts):  # YAML's merge: the first mapping in a list wins
            if isinstance(part.value, dict):
                found |= part.value
            else:
                self.mistakes.add(part, f"<<: expected a mapping, got {part.kind}")
        return found
