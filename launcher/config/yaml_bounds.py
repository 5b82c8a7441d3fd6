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


def compose_document(text: str) -> yaml.Node | None:
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
    """Return the document as others read it: `no` is False. Raises as `compose_document`, and for dates."""
    compose_document(text)
    try:
        values = yaml.safe_load(text)
        json.dumps(values)
    except yaml.MarkedYAMLError as error:
        raise YamlLimitExceeded(_line(error.problem_mark), str(error.problem)) from None
    except (ValueError, AttributeError, TypeError) as error:  # PyYAML reads 2024-13-45 as a date, and fails
        raise YamlLimitExceeded(1, f"a value that a launch cannot take: {error}") from None
    return values


def _compose(text: str, loader: type[yaml.SafeLoader]) -> yaml.Node | None:
    _check_events(text, loader)
    return yaml.compose(text, Loader=loader)


def _line(mark: object) -> int:
    return int(getattr(mark, "line", 0)) + 1


def _check_events(text: str, loader: type[yaml.SafeLoader]) -> None:
    """Raise YamlLimitExceeded. An alias counts as all that it names, each time."""
    values = deepest = 0  # so far, the latter in the innermost collection that is open
    opened: list[tuple[str | None, int, int]] = []  # the collections: anchor, and both as they were before it
    named: dict[str | None, tuple[int, int]] = {}  # by anchor: how many values, on how many levels
    for event in yaml.parse(text, Loader=loader):
        if isinstance(event, yaml.CollectionEndEvent):
            anchor, before, outer = opened.pop()
            named[anchor] = values - before, deepest - len(opened)
            deepest = max(outer, deepest)
        if not isinstance(event, yaml.NodeEvent):
            continue
        line, is_alias, size, levels = _line(event.start_mark), isinstance(event, yaml.AliasEvent), 1, 0
        if isinstance(event, yaml.ScalarEvent) and not event.style and _LONG_NUMBER.match(event.value):
            raise YamlLimitExceeded(line, f"a number of more than {MAX_DIGITS} digits")
        if isinstance(event, yaml.CollectionStartEvent):
            opened.append((event.anchor, values, deepest))
            deepest = len(opened)
        elif is_alias:  # one of a collection that is still open has no end
            refers_to_itself = event.anchor in {anchor for anchor, _, _ in opened}
            size, levels = (1, MAX_DEPTH) if refers_to_itself else named.get(event.anchor, (1, 0))
        values, deepest = values + size, max(deepest, len(opened) + levels)
        if deepest > MAX_DEPTH:
            raise YamlLimitExceeded(line, "nested too deep" + ", or an alias refers to itself" * is_alias)
        if values > 2 * MAX_VALUES:  # keys are not values
            what = "its aliases expand to more than" if is_alias else "more than"
            raise YamlLimitExceeded(line, f"{what} {MAX_VALUES} values")
