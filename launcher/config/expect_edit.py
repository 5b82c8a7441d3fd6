"""Measured floors written into hosts.yaml, whose comments and order stay as their author wrote them. Pure."""

from collections.abc import Mapping
from typing import Any

import yaml

from launcher.config.yaml_nodes import compose
from launcher.errors import BadInput


def set_expectations(text: str, floors: Mapping[str, Mapping[str, float]]) -> str:
    """Return the text with `expect:` of hosts set: host -> key -> value.

    A host that only a range names gets an entry of its own, which refines the range. Raises BadInput where
    the text cannot be edited with certainty; what is returned has been read back and compared.
    """
    compose(text)  # bounds
    for host, values in floors.items():
        text = _checked(text, _edit(text, host, values), host, values)
    return text


def expect_lines(host: str, values: Mapping[str, float], indent: int = 2) -> list[str]:
    """Return a host's entry, in the lines of hosts.yaml."""
    pad = " " * indent
    keys = [f"{pad * 3}{name}: {_plain(value)}" for name, value in values.items()]
    return [f"{pad}{_key(host)}:", f"{pad * 2}expect:", *keys]


def _key(host: str) -> str:
    plain = host.replace("-", "").replace("_", "").replace(".", "")
    return host if plain.isalnum() and not plain.isdigit() and not host.startswith("-") else f'"{host}"'


def _checked(old: str, new: str, host: str, values: Mapping[str, float]) -> str:
    """Return the new text if it means the old one plus these values, and nothing else."""
    try:
        wanted: dict[str, Any] = dict(yaml.safe_load(old) or {})
        hosts = dict(wanted.get("hosts") or {})
        entry = dict(hosts.get(host) or {})  # copies: an alias of it stays as it is
        floors = {name: _number(value) for name, value in values.items()}
        wanted["hosts"] = {**hosts, host: {**entry, "expect": {**(entry.get("expect") or {}), **floors}}}
        same = yaml.safe_load(new) == wanted
    except (yaml.YAMLError, ValueError, TypeError):  # PyYAML reads 2024-13-45 as a date, and fails
        same = False
    if not same:
        lines = "\n".join(expect_lines(host, values))
        raise BadInput(f"hosts.yaml cannot be edited for {host}", f"add this under hosts:\n{lines}")
    return new


def _number(value: float) -> float:
    found: float = yaml.safe_load(_plain(value))
    return found


def _plain(value: float) -> str:
    """Return a number without an exponent, as hosts.yaml takes it."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _edit(text: str, host: str, values: Mapping[str, float]) -> str:
    lines = text.split("\n")
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    hosts = _child(root, "hosts")
    if hosts is None or (isinstance(hosts, yaml.ScalarNode) and not hosts.value):
        if hosts is None:
            body = text if not text or text.endswith("\n") else text + "\n"
            return body + "\n".join(["hosts:", *expect_lines(host, values)]) + "\n"
        return _insert(lines, hosts.start_mark.line, expect_lines(host, values))
    step = hosts.start_mark.column or 2
    entry = _child(hosts, host)
    if entry is None:
        if _is_flow(hosts):
            return _into_flow(text, hosts, f"{_key(host)}: {{expect: {_flow(values)}}}")
        return _insert(lines, _last_line(hosts), expect_lines(host, values, step))
    if isinstance(entry, yaml.ScalarNode):
        return _insert(lines, entry.start_mark.line, expect_lines(host, values, step)[1:])
    return _edit_entry(text, lines, entry, values)


def _edit_entry(text: str, lines: list[str], entry: yaml.Node, values: Mapping[str, float]) -> str:
    expect = _child(entry, "expect")
    if expect is None or isinstance(expect, yaml.ScalarNode):
        if _is_flow(entry):
            return _into_flow(text, entry, f"expect: {_flow(values)}")
        pad = " " * entry.start_mark.column
        block = [f"{pad}expect:", *(f"{pad}  {name}: {_plain(value)}" for name, value in values.items())]
        return _insert(lines, _last_line(entry), block)
    fresh = {name: value for name, value in values.items() if _child(expect, name) is None}
    if fresh and _is_flow(expect):
        text = _into_flow(
            text, expect, ", ".join(f"{name}: {_plain(value)}" for name, value in fresh.items())
        )
    elif fresh:
        pad = " " * expect.start_mark.column
        text = _insert(
            lines, _last_line(expect), [f"{pad}{name}: {_plain(value)}" for name, value in fresh.items()]
        )
    old = [(_child(expect, name), value) for name, value in values.items() if name not in fresh]
    for node, value in sorted(
        ((node, value) for node, value in old if node is not None), key=lambda each: -each[0].start_mark.index
    ):
        text = text[: node.start_mark.index] + f"{_plain(value)}" + text[node.end_mark.index :]
    return text


def _child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for name, value in node.value if name.value == key), None)


def _is_flow(node: yaml.Node) -> bool:
    return bool(getattr(node, "flow_style", False))


def _flow(values: Mapping[str, float]) -> str:
    return "{" + ", ".join(f"{name}: {_plain(value)}" for name, value in values.items()) + "}"


def _into_flow(text: str, node: yaml.Node, words: str) -> str:
    """Return the text with words before the closing brace of a mapping."""
    at = node.end_mark.index - 1
    separator = ", " if node.value else ""
    return text[:at].rstrip() + separator + words + text[at:]


def _insert(lines: list[str], after: int, block: list[str]) -> str:
    return "\n".join([*lines[: after + 1], *block, *lines[after + 1 :]])


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
