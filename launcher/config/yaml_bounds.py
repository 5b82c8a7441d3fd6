"""YAML text as nodes, with bounds on depth, values and aliases that hold before anything is built.

libyaml composes by recursion, so 50,000 brackets end the process, and an alias stands for all that it names,
each time: a few kilobytes can mean gigabytes. The events of the parser cost neither, so they are read first.
"""

import json
from typing import TYPE_CHECKING

from preflight import regex as re

if TYPE_CHECKING:
    import yaml as yaml  # noqa: PLC0414 - for the modules beside this one
else:
    yaml = re.import_late("yaml")  # half of its import were patterns, most of them of the pure loader
MAX_DEPTH = 24
MAX_VALUES = 100_000
MAX_DIGITS = 300
_LONG_NUMBER = re.compile(rf"[-+]?[0-9][0-9a-fA-F_:xo.]{{{MAX_DIGITS}}}")
_PURE_BYTES = 1 << 16  # up to this size the slow pure loader, which words errors better, looks again


class YamlLimitExceeded(yaml.YAMLError):
    """The text nests too deep, holds too many values or one that cannot be built. `line` counts from 1."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


def compose(text: str) -> yaml.Node | None:
    """Return the one document in the text, None where it is empty.

    Aliases are resolved, so a node can occur several times; all together are at most MAX_VALUES values,
    MAX_DEPTH deep. Raises YamlLimitExceeded, or another yaml.YAMLError where the text is not YAML.
    """
    fast = getattr(yaml, "CSafeLoader", None)
    if fast is not None:
        try:
            return _compose(text, fast)
        except YamlLimitExceeded:
            raise
        except yaml.YAMLError:
            if len(text) > _PURE_BYTES:
                raise
    try:
        return _compose(text, yaml.SafeLoader)
    except ValueError as error:  # an escape of a character that Unicode does not have
        raise YamlLimitExceeded(1, f"not valid YAML: {error}") from None


def load_values(text: str) -> object:
    """Return the document as other programs read it: `no` is False. Raises as `compose`, and for dates."""
    compose(text)
    try:
        values = yaml.safe_load(text)
        json.dumps(values)
    except yaml.MarkedYAMLError as error:
        raise YamlLimitExceeded(_line(error.problem_mark), str(error.problem)) from None
    except (ValueError, AttributeError, TypeError) as error:  # PyYAML reads 2024-13-45 as a date, and fails
        raise YamlLimitExceeded(1, f"a value that a launch cannot take: {error}") from None
    return values


def _compose(text: str, loader: type[yaml.SafeLoader]) -> yaml.Node | None:
    has_alias = _check_events(text, loader)
    node = yaml.compose(text, Loader=loader)
    if has_alias and node is not None:
        _Measure().of(node, 0)
    return node


def _line(mark: object) -> int:
    return int(getattr(mark, "line", 0)) + 1


def _check_events(text: str, loader: type[yaml.SafeLoader]) -> bool:
    """Return whether there are aliases. Raises YamlLimitExceeded."""
    depth = values = 0
    has_alias = False
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
            continue
        if isinstance(event, yaml.ScalarEvent) and not event.style and _LONG_NUMBER.match(event.value):
            raise YamlLimitExceeded(_line(event.start_mark), f"a number of more than {MAX_DIGITS} digits")
        values += isinstance(event, yaml.NodeEvent)
        has_alias = has_alias or isinstance(event, yaml.AliasEvent)
        depth += isinstance(event, yaml.CollectionStartEvent)
        if depth > MAX_DEPTH:
            raise YamlLimitExceeded(_line(event.start_mark), "nested too deep")
        if values > 2 * MAX_VALUES:  # keys are not values
            raise YamlLimitExceeded(_line(event.start_mark), f"more than {MAX_VALUES} values")
    return has_alias


class _Measure:
    """How many values a node stands for and how deep they go, each node looked at once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, int]] = {}

    def of(self, node: yaml.Node, depth: int) -> tuple[int, int]:
        """Return (values, levels). Raises YamlLimitExceeded."""
        line = _line(node.start_mark)
        if id(node) not in self._known:
            if depth > MAX_DEPTH:
                raise YamlLimitExceeded(line, "nested too deep, or an alias refers to itself")
            self._known[id(node)] = self._count(node, depth)
        values, levels = self._known[id(node)]
        if depth + levels > MAX_DEPTH:
            raise YamlLimitExceeded(line, "nested too deep, or an alias refers to itself")
        if values > MAX_VALUES:
            raise YamlLimitExceeded(line, f"its aliases expand to more than {MAX_VALUES} values")
        return values, levels

    def _count(self, node: yaml.Node, depth: int) -> tuple[int, int]:
        if isinstance(node, yaml.MappingNode):
            below = [part for pair in node.value for part in pair]
        else:
            below = node.value if isinstance(node, yaml.SequenceNode) else []
        values, levels = 1, 0
        for part in below:
            more, deep = self.of(part, depth + 1)
            values, levels = values + more, max(levels, deep + 1)
            if values > 2 * MAX_VALUES:
                raise YamlLimitExceeded(
                    _line(node.start_mark), f"its aliases expand to more than {MAX_VALUES} values"
                )
        return values, levels
