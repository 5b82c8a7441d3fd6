"""What was measured, less 5 %, as `expect:` of the hosts in hosts.yaml."""

from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from pathlib import Path
from typing import Any

from launcher.config.inventory import Inventory
from launcher.config.yaml_bounds import compose_document, yaml
from launcher.errors import BadInput
from launcher.local.atomic_write import check_writable, write_atomic
from launcher.text import one_line
from preflight import regex as re
from preflight.deep.comparison import Reading

Floors = Mapping[str, Mapping[str, float]]  # values by key, of each host
_BREAK = re.compile("\r\n|[\r\n\x85\u2028\u2029]")  # what ends a line in YAML


def set_expectations(text: str, floors: Floors) -> str:
    """Return the text with `expect:` of hosts set, with its own line ends.

    A host that only a range names gets an entry of its own, which refines the range. Raises BadInput where
    the text cannot be edited with certainty; what is returned has been read back and compared.
    """
    compose_document(text)  # bounds
    return _checked(text, _edit(text, floors), floors) if floors else text


def _entries(floors: Floors) -> Mapping[str, Any]:
    return {host: {"expect": values} for host, values in floors.items()}


def _key(name: str) -> str:
    plain = name.replace("-", "").replace("_", "").replace(".", "")
    return name if plain.isalnum() and not plain.isdigit() and not name.startswith("-") else f'"{name}"'


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
        lines = "\n".join(_block(_entries(floors), 2, 2))
        raise BadInput(
            f"hosts.yaml cannot be edited for {', '.join(floors)}", f"add this under hosts:\n{lines}"
        )
    return new


def _plain(value: float) -> str:
    """Return a number without an exponent, as hosts.yaml takes it."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def _block(tree: Mapping[str, Any], column: int, step: int) -> Iterator[str]:
    """Yield mappings in mappings of numbers as lines, the outermost keys in a column."""
    for name, value in tree.items():
        if isinstance(value, Mapping):
            yield f"{' ' * column}{_key(name)}:"
            yield from _block(value, column + step, step)
        else:
            yield f"{' ' * column}{_key(name)}: {_plain(value)}"


def _flow(tree: Mapping[str, Any]) -> str:
    """Return them as pairs within braces that are written already."""
    parts = (f"{{{_flow(part)}}}" if isinstance(part, Mapping) else _plain(part) for part in tree.values())
    return ", ".join(f"{_key(name)}: {part}" for name, part in zip(tree, parts, strict=True))


class _Edits:
    """Changes of a text, all by positions in the text as it was; of several at one, the first is above."""

    def __init__(self, text: str, step: int) -> None:
        self._text, self._step = text, step
        self._ends = [found.end() for found in _BREAK.finditer(text)]
        found = _BREAK.search(text)
        self._break = found.group() if found else "\n"
        self._changes: list[tuple[int, int, str]] = []  # start, end, words

    def merge(self, node: yaml.Node | None, tree: Mapping[str, Any], column: int = 0) -> None:
        """Set the values of a tree in a mapping whose keys are in a column; other keys stay as they are."""
        fresh = {}
        for name, value in tree.items():
            child = _child(node, name)
            if child is None:
                fresh[name] = value
            elif not isinstance(value, Mapping):
                self._changes.append((child.start_mark.index, child.end_mark.index, _plain(value)))
            elif isinstance(child, yaml.ScalarNode):  # a key without a value
                self._add_lines(child.start_mark.line, _block(value, column + self._step, self._step))
            else:
                self.merge(child, value, child.start_mark.column)
        if not fresh:
            return
        if node is not None and getattr(node, "flow_style", False):
            brace = node.end_mark.index - 1
            start = len(self._text[:brace].rstrip())
            self._changes.append((start, brace, f"{', ' * bool(node.value)}{_flow(fresh)}"))
        else:
            end = _last_line(node) if node is not None and column else len(self._ends)
            self._add_lines(end, _block(fresh, column, self._step))

    def _add_lines(self, after: int, block: Iterator[str]) -> None:
        """Add lines after a line, or at the end of the text."""
        lines = self._break.join(block)
        if after < len(self._ends):
            at, words = self._ends[after], lines + self._break
        else:
            is_ended = not self._text or (self._ends and self._ends[-1] == len(self._text))
            at, words = len(self._text), lines + self._break if is_ended else self._break + lines
        self._changes.append((at, at, words))

    def result(self) -> str:
        """Return the new text."""
        parts, at = [], 0
        for start, end, words in sorted(self._changes, key=itemgetter(0)):
            parts += [self._text[at:start], words]
            at = end
        return "".join((*parts, self._text[at:]))


def _edit(text: str, floors: Floors) -> str:
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    hosts = _child(root, "hosts")
    step = hosts.start_mark.column or 2 if isinstance(hosts, yaml.MappingNode) else 2
    edits = _Edits(text, step)
    edits.merge(root, {"hosts": _entries(floors)})
    return edits.result()


def _child(node: yaml.Node | None, key: str) -> yaml.Node | None:
    if not isinstance(node, yaml.MappingNode):
        return None
    return next((value for name, value in node.value if name.value == key), None)


def _last_line(node: yaml.Node) -> int:
    """Return the last line that a node's own text is on; an end mark is behind comments that follow it."""
    if isinstance(node, yaml.CollectionNode) and node.value and not node.flow_style:
        last = node.value[-1]
        return max(map(_last_line, last)) if isinstance(last, tuple) else _last_line(last)
    if isinstance(node, yaml.ScalarNode) and not node.value:
        return int(node.start_mark.line)
    return int(node.end_mark.line)


SHARE = 0.95
KEYS = ("gemm_tflops", "memory_gbs", "h2d_gbs", "allreduce_gbs")


def calculate_floors(readings: Iterable[Reading]) -> dict[str, dict[str, float]]:
    """Return the floors of each host: its slowest GPU's; a value that was judged bad is left out."""
    found: dict[str, dict[str, float]] = {}
    bad = set()
    for reading in readings:
        if reading.name not in KEYS:
            continue
        if reading.verdict != "ok":
            bad.add((reading.host, reading.name))
        values = found.setdefault(reading.host, {})
        floor = float(f"{SHARE * reading.value:.3g}")
        values[reading.name] = min(floor, values.get(reading.name, floor))
    kept = {
        host: {name: value for name, value in values.items() if (host, name) not in bad}
        for host, values in found.items()
    }
    return {host: values for host, values in kept.items() if values}


def require_editable(inventory: Inventory, hosts: Iterable[str]) -> None:
    """Find out before anything is measured whether hosts.yaml can be written. Raises BadInput and OSError."""
    path = _require_path(inventory)
    set_expectations(_read(path), {host: {KEYS[0]: 1.0} for host in hosts})
    check_writable(path)


def _require_path(inventory: Inventory) -> Path:
    """Return where hosts.yaml lies. Raises BadInput."""
    if inventory.path is None:
        raise BadInput("--save-expect: no hosts.yaml to write to", "gpulaunch init makes one")
    return inventory.path


def save_floors(readings: Iterable[Reading], inventory: Inventory) -> Iterator[str]:
    """Write the floors; yield what was done. Raises BadInput where hosts.yaml cannot be edited."""
    floors = calculate_floors(readings)
    if not floors:
        yield "nothing was saved: no value was measured that is fine"
        return
    path = _require_path(inventory)
    write_atomic(path, set_expectations(_read(path), floors))
    for host, values in floors.items():
        words = ", ".join(f"{name} {value:g}" for name, value in values.items())
        yield f"{one_line(str(path))}: {host} expects {words}"


def _read(path: Path) -> str:
    """Return the text with the line ends that it has."""
    return path.read_bytes().decode("utf-8")
