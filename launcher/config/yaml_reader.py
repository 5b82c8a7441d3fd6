"""YAML text read into the tree of `yaml_tree`."""

from dataclasses import replace
from pathlib import Path

from launcher.config import yaml_bounds
from launcher.config.value_remedies import as_ascii
from launcher.config.yaml_bounds import yaml
from launcher.config.yaml_tree import ConfigIssues, YamlNode, YamlValue
from launcher.errors import ConfigError
from preflight import regex as re

MAX_BYTES = 1 << 20
MAX_KEY = 200  # characters; each value carries the path of keys to it
MAX_PATHS = 1 << 24  # characters of all those paths
_TILDE = "~"
_NULL_TEXTS = frozenset({"", _TILDE, "null", "Null", "NULL"})
_MERGE_KEY = "<<"
# Each starts only where a word starts, so that a search is linear.
_BARE_RANGE = re.compile(r"(?<![\w.@-])[\w.@-]+\[[0-9,/-]+\][\w.-]*")
_BARE_GLOB = re.compile(r"(?:^|[\s\[,{])(\*[^\s,\]}]*)")
_PROBLEMS = (
    (r"that cannot start any token", "a value that starts with {sign} needs quotes"),
    (r"escape (?:sequence|character)", "a backslash in double quotes; write the value in single quotes"),
    (r"quoted scalar.*unexpected end", "the quote that line {start} opens is not closed"),
    (r"expected ',' or", "the {bracket} of line {start} is not closed, or lacks a comma before this"),
    (r"node content, but found '<(?:stream|doc)", "its last bracket is not closed, or its value is missing"),
    (r"node content, but found", "a value is missing before {sign}"),
    (r"found another document", "a second document starts; keep one"),
    (r"expected '<document start>'", 'expected "key: value" in every line'),
    (r"could not find expected ':'", 'line {start} lacks the ":" after its key'),
    (r"<block end>.*'[-?]'", "a list and keys side by side; indent what belongs to the line above"),
    (r"<block end>.*'<block|expected key$", "its indentation is that of no line above"),
    (r"<block end>", "text behind a closing quote or bracket; put the whole value in quotes"),
    (r"^:.*mapping values are", 'a value with ": " in it needs quotes'),
    (r"mapping values are", 'a line above lacks ": " after its key, or this one is indented too deep'),
)
"""What PyYAML's words for a mistake mean to who wrote the file; ":" is first where the line has one."""
_LOOK_BACK = 200
_PLAIN_TAGS = frozenset(
    f"tag:yaml.org,2002:{name}"
    for name in ("str", "int", "float", "bool", "null", "timestamp", "map", "seq", "merge", "value")
)


def read_file(path: Path, mistakes: ConfigIssues, *, first_lines: str = "") -> YamlNode:
    """Return the mapping in the file. Raises ConfigError; `first_lines`: what to write for a list or word."""
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
        raise ConfigError(
            f"{shown}:{root.line}: expected a mapping (key: value) at the top, got {root.kind}", first_lines
        )
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
    """Return YAML text as a tree of YamlNodes; raises ConfigError with the line where it is not YAML."""
    try:
        node = yaml_bounds.compose_document(text)
    except yaml_bounds.YamlLimitExceeded as error:
        where = f"{source}:{error.line}" if in_file else source
        raise ConfigError(f"{where}: {error}") from None
    except yaml.MarkedYAMLError as error:
        raise ConfigError(_yaml_message(error, text, source, in_file=in_file)) from None
    except (yaml.YAMLError, UnicodeEncodeError) as error:  # a character that YAML does not allow
        position = getattr(error, "position", 0)
        where = f"{source}:{text[:position].count(chr(10)) + 1}" if in_file else source
        raise ConfigError(f"{where}: YAML takes no control character and no byte that is not UTF-8") from None
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
    ranges = [*_BARE_RANGE.finditer(here)]
    if ranges and "'['" in f"{error.problem}":  # a key before the braces needs none
        bare = next((each for each in ranges if mark and each.start() <= mark.column < each.end()), ranges[0])
        return f'{where}: not valid YAML: a range needs quotes: "{bare[0]}"'
    glob = _BARE_GLOB.search(here)
    if glob and "alias" in f"{error.context} {error.problem}":
        anchor = f", an alias its anchor above: &{glob[1][1:]}" if glob[1][1:].isalnum() else ""
        return f'{where}: not valid YAML: a pattern needs quotes: "{glob[1]}"{anchor}'
    meant = _meaning(error, here, mark.column if mark else 0)
    return f"{where}: not valid YAML: {meant}{as_ascii(''.join(lines[max(0, line - 2) : line]))}"


def _meaning(error: yaml.MarkedYAMLError, here: str, column: int) -> str:
    """Return what is wrong at a column of a line, in words of its writer where they are known."""
    colon = ":" if re.search(r":\s", here[max(0, column - _LOOK_BACK) : column]) else ""
    words = f"{colon}{error.context} {error.problem}"
    mark = error.context_mark or error.problem_mark
    start = mark.line + 1 if mark else 1
    for pattern, meant in _PROBLEMS:
        if re.search(pattern, words):
            bracket = '"["' if "sequence" in words else '"{"'
            return meant.format(start=start, bracket=bracket, sign=here[column : column + 1])
    return f"{error.problem} ({error.context}, line {start})" if error.context else f"{error.problem}"


class _Builder:
    """Turns PyYAML's nodes into YamlNodes; duplicates and foreign tags become mistakes."""

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
            nothing = YamlNode(None, self.source, line, key)
            self.mistakes.add(nothing, f"the tag {node.tag} is not used in this file; remove it")
            return nothing
        is_tilde = isinstance(node, yaml.ScalarNode) and not node.style and node.value == _TILDE
        return YamlNode(self._value(node, key), self.source, line, key, is_tilde=is_tilde)

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
            place = YamlNode(None, self.source, line, key)
            if not isinstance(key_node, yaml.ScalarNode):
                self.mistakes.add(place, "a key must be plain text")
                continue
            name = str(key_node.value)
            if len(name) > MAX_KEY:
                self.mistakes.add(place, f"a key has {len(name)} characters, expected at most {MAX_KEY}")
                continue
            path = f"{key}.{name}" if key else name
            if name == _MERGE_KEY and not key_node.style:
                merged |= self._merged(value_node, key)
                continue
            if name in own:
                first = f" (first on line {own[name].line})" if line else ""
                self.mistakes.add(replace(place, key=path), f"written twice{first}; keep one")
                continue
            own[name] = replace(self.item(value_node, path), line=line)
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
