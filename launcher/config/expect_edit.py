"""Measured floors written into hosts.yaml, whose comments and order stay as their author wrote them. Pure."""

from collections.abc import Mapping
from typing import Any

from launcher.config.yaml_bounds import compose, yaml
from launcher.errors import BadInput
from preflight import regex as re

Floors = Mapping[str, Mapping[str, float]]  # values by key, of each host
_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")  # what ends a line in YAML


def set_expectations(text: str, floors: Floors) -> str:
    """Return the text with `expect:` of hosts set, with its own line ends.

    A host that only a range names gets an entry of its own, which refines the range. Raises BadInput where
    the text cannot be edited with certainty; what is returned has been read back and compared.
    """
    compose(text)  # bounds
    return _checked(text, _edit(text, floors), floors) if floors else text


def render_expect(host: str, values: Mapping[str, float], indent: int = 2) -> list[str]:
    """Return a host's entry, in the lines of hosts.yaml."""
    pad = " " * indent
    keys = [f"{pad * 3}{name}: {_plain(value)}" for name, value in values.items()]
    return [f"{pad}{_key(host)}:", f"{pad * 2}expect:", *keys]


def _key(host: str) -> str:
    plain = host.replace("-", "").replace("_", "").replace(".", "")
    return host if plain.isalnum() and not plain.isdigit() and not host.startswith("-") else f'"{host}"'


def _checked(old: str, new: str, floors: Floors) -> str:
    """Return the new text if it means the old one plus these values, and nothing else."""
    try:
        wanted: dict[str, Any] = dict(yaml.safe_load(old) or {})
        hosts = dict(wanted.get("hosts") or {})
        for host, values in floors.items():
            entry = dict(hosts.get(host) or {})  # copies: an alias of it stays as it is
            numbers = {name: float(_plain(value)) for name, value in values.items()}
            hosts[host] = {**entry, "expect": {**(entry.get("expect") or {}), **numbers}}
        wanted["hosts"] = hosts
        same = yaml.safe_load(new) == wanted
    except (yaml.YAMLError, ValueError, TypeError):  # PyYAML reads 2024-13-45 as a date, and fails
        same = False
    if not same:
        lines = "\n".join(line for host, values in floors.items() for line in render_expect(host, values))
        raise BadInput(
            f"hosts.yaml cannot be edited for {', '.join(floors)}", f"add this under hosts:\n{lines}"
        )
    return new


def _plain(value: float) -> str:
    """Return a number without an exponent, as hosts.yaml takes it."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


class _Edits:
    """Changes of a text, all by positions in the text as it was."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._ends = [found.end() for found in _BREAK.finditer(text)]
        found = _BREAK.search(text)
        self._break = found.group() if found else "\n"
        self._changes: list[tuple[int, int, int, str]] = []  # start, order, end, words
        self._flows: dict[int, tuple[yaml.Node, list[str]]] = {}

    def add_lines(self, after: int, block: list[str], *, last: bool = False) -> None:
        """Add lines after a line; `last`: behind what others add to it."""
        lines = self._break.join(block)
        if after < len(self._ends):
            at, words = self._ends[after], lines + self._break
        else:  # the last line, without an end
            at, words = len(self._text), (self._break if self._text else "") + lines
        self._changes.append((at, int(last), at, words))

    def add_at_end(self, block: list[str]) -> None:
        """Add lines at the end of the text, each with its end."""
        missing = self._text and not (self._ends and self._ends[-1] == len(self._text))
        words = self._break.join([*([""] if missing else []), *block, ""])
        self._changes.append((len(self._text), 1, len(self._text), words))

    def add_to_flow(self, node: yaml.Node, text: str) -> None:
        """Add a pair before the closing brace of a mapping."""
        self._flows.setdefault(id(node), (node, []))[1].append(text)

    def replace(self, node: yaml.Node, text: str) -> None:
        """Put words in the place of a value."""
        self._changes.append((node.start_mark.index, 0, node.end_mark.index, text))

    def result(self) -> str:
        """Return the new text."""
        for node, pairs in self._flows.values():
            brace = node.end_mark.index - 1
            start = len(self._text[:brace].rstrip())
            self._changes.append((start, 0, brace, ", ".join([""] * bool(node.value) + pairs)))
        text = self._text
        for start, _, end, words in sorted(self._changes, key=lambda each: each[:2], reverse=True):
            text = text[:start] + words + text[end:]
        return text


def _edit(text: str, floors: Floors) -> str:
    edits = _Edits(text)
    hosts = _child(yaml.compose(text, Loader=yaml.SafeLoader), "hosts")
    fresh = [host for host in floors if _child(hosts, host) is None]
    for host, values in floors.items():
        entry = _child(hosts, host)
        if entry is not None and isinstance(entry, yaml.ScalarNode):
            edits.add_lines(entry.start_mark.line, render_expect(host, values, _step(hosts))[1:])
        elif entry is not None:
            _edit_entry(edits, entry, values)
    lines = [line for host in fresh for line in render_expect(host, floors[host], _step(hosts))]
    if hosts is None:
        edits.add_at_end(["hosts:", *lines])
    elif isinstance(hosts, yaml.ScalarNode) and not hosts.value:
        edits.add_lines(hosts.start_mark.line, lines)
    elif _is_flow(hosts):
        for host in fresh:
            edits.add_to_flow(hosts, f"{_key(host)}: {{expect: {_flow(floors[host])}}}")
    elif fresh:
        edits.add_lines(_last_line(hosts), lines, last=True)
    return edits.result()


def _step(hosts: yaml.Node | None) -> int:
    """Return how far the names of hosts are indented."""
    return hosts.start_mark.column or 2 if isinstance(hosts, yaml.MappingNode) else 2


def _edit_entry(edits: _Edits, entry: yaml.Node, values: Mapping[str, float]) -> None:
    expect = _child(entry, "expect")
    if expect is None or isinstance(expect, yaml.ScalarNode):
        if _is_flow(entry):
            edits.add_to_flow(entry, f"expect: {_flow(values)}")
            return
        pad = " " * entry.start_mark.column
        block = [f"{pad}expect:", *(f"{pad}  {name}: {_plain(value)}" for name, value in values.items())]
        edits.add_lines(_last_line(entry), block)
        return
    fresh = [f"{name}: {_plain(value)}" for name, value in values.items() if _child(expect, name) is None]
    if fresh and _is_flow(expect):
        edits.add_to_flow(expect, ", ".join(fresh))
    elif fresh:
        pad = " " * expect.start_mark.column
        edits.add_lines(_last_line(expect), [pad + line for line in fresh])
    for name, value in values.items():
        old = _child(expect, name)
        if old is not None:
            edits.replace(old, _plain(value))


def _child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for name, value in node.value if name.value == key), None)


def _is_flow(node: yaml.Node) -> bool:
    return bool(getattr(node, "flow_style", False))


def _flow(values: Mapping[str, float]) -> str:
    return "{" + ", ".join(f"{name}: {_plain(value)}" for name, value in values.items()) + "}"


def _last_line(node: yaml.Node) -> int:
    """Return the last line that a node's own text is on; an end mark is behind comments that follow it."""
    if isinstance(node, yaml.MappingNode) and node.value and not _is_flow(node):
        key, value = node.value[-1]
        return max(_last_line(key), _last_line(value))
    if isinstance(node, yaml.SequenceNode) and node.value and not _is_flow(node):
        return _last_line(node.value[-1])
    if isinstance(node, yaml.ScalarNode) and not node.value:
        return int(node.start_mark.line)
    return int(node.end_mark.line)
