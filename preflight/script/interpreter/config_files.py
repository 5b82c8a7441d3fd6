"""Configuration files that a script reads from beside itself: YAML, JSON, TOML, INI, as values with places.

The file is looked for beside the script and in the folder it would be started from; nothing else is read.
What a launch could override (hydra's words, environment interpolation) stays unknown where it is not plain.
"""

import posixpath
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.script.bounds import MAX_CONFIG, MAX_DEPTH, MAX_WEIGHT
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.values import Const, Map, Scalar, Seq, Value
from preflight.script.values.constants import NONE, UNKNOWN
from preflight.script.values.operations import as_text

if TYPE_CHECKING:
    import yaml

Locate = Callable[[int, int], CodeLocation]  # returns the place of a line and column of a text
_SECTIONS = (".toml", ".ini", ".cfg")
ENDINGS = (".yaml", ".yml", ".json", *_SECTIONS)
_MAX_DEPTH = 20


def load_config(it: Interpreter, path: Value | None) -> Value:
    """Return what a configuration file holds, Unknown when it is not to be found or not plain."""
    name = as_text(path)
    if name is None or not name.endswith(ENDINGS):
        return UNKNOWN
    for candidate in _candidates(it, name):
        text = it.sources.text(candidate)
        if text is not None:
            return parse_config(it, text, candidate, partial(CodeLocation, candidate))
    return UNKNOWN


def _candidates(it: Interpreter, name: str) -> Iterator[str]:
    """Yield where a relative name may lie: the folder of the script, of the module, and those above."""
    yield posixpath.normpath(name)
    for folder in dict.fromkeys((it.source.package, posixpath.dirname(it.source.path))):
        yield posixpath.normpath(posixpath.join(folder, name))
    for above in ("..", "../..", "../../.."):
        yield posixpath.normpath(posixpath.join(it.source.package, above, name))


def parse_text_value(it: Interpreter, text: Const, ending: str) -> Value:
    """Return what a text holds that the script itself has, as for `json.loads`."""
    held, spot = str(text.value), text.place
    if spot is None:
        return UNKNOWN
    line = it.source.lines[spot.line - 1] if spot.path == it.source.path else ""
    whole = '"""' in line or "'''" in line  # then the lines of the text are those of the script
    return parse_config(
        it, held, f"{spot.path}{ending}", partial(_within, spot) if whole else lambda *_: spot
    )


def _within(spot: CodeLocation, line: int, column: int = 1) -> CodeLocation:
    return CodeLocation(spot.path, spot.line + line - 1, column)


def parse_config(it: Interpreter, text: str, path: str, locate: Locate) -> Value:
    """Return the content of a text, each entry with its place; `path` ends in what kind of text it is."""
    if len(text) > MAX_CONFIG:
        return _leave_out(it, path, f"more than {MAX_CONFIG} characters")
    it.work.copy(len(text))
    try:
        if path.endswith(_SECTIONS):
            return parse_sections(text, path, locate)
        node = it.sources.parser.make(_composed, text)
        return UNKNOWN if node is None else _Tree(locate).value(node, _MAX_DEPTH)
    except _TooLarge as error:
        return _leave_out(it, path, str(error))
    except (ValueError, RecursionError):
        pass
    return UNKNOWN


def _leave_out(it: Interpreter, path: str, why: str) -> Value:
    """Note that a file was not judged; so much JSON is data, not settings, and nothing is said of it."""
    if not path.endswith(".json"):
        it.note_excess(f"{path}: {why}")
    return UNKNOWN


def _composed(text: str) -> "yaml.Node | None":
    """Return the nodes of a text, None where it is empty or not YAML. Raises _TooLarge."""
    import yaml  # noqa: PLC0415 - only scripts that read a configuration need it

    try:
        node: yaml.Node | None = yaml.compose(text, Loader=_loader())
    except (yaml.YAMLError, ValueError):
        return None
    return node


@cache
def _loader() -> type["yaml.SafeLoader"]:
    """Return PyYAML's loader with a bound on depth: its time grows with the square of that."""
    import yaml  # noqa: PLC0415

    class Shallow(yaml.SafeLoader):
        depth = 0

        def compose_node(self, parent: "yaml.Node | None", index: int) -> "yaml.Node | None":
            self.depth += 1
            if self.depth > MAX_DEPTH:
                raise _TooLarge(f"more than {MAX_DEPTH} lists in one another")
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

    return Shallow


class _TooLarge(Exception):
    """The file says more than will be held."""


class _Tree:
    """The values of one file. An alias represents all that it names, so what is built is counted."""

    def __init__(self, locate: Locate) -> None:
        self._locate = locate
        self._left = MAX_WEIGHT

    def value(self, node: "yaml.Node", depth: int) -> Value:
        """Return a node as a value. Raises _TooLarge."""
        import yaml  # noqa: PLC0415

        self._left -= 1
        if self._left < 0:
            raise _TooLarge(f"more than {MAX_WEIGHT} items, counted where aliases repeat them")
        if depth == 0:
            return UNKNOWN
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node, self._place(node))
        if isinstance(node, yaml.SequenceNode):
            return Seq(tuple(self.value(item, depth - 1) for item in node.value))
        items: dict[Scalar, Value] = {}
        places: dict[Scalar, CodeLocation] = {}
        is_open = False
        for key, inner in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
                is_open = True
                continue
            items[key.value] = self.value(inner, depth - 1)
            places[key.value] = self._place(key)
        return Map(tuple(items.items()), is_open, places)

    def _place(self, node: "yaml.Node") -> CodeLocation:
        return self._locate(node.start_mark.line + 1, node.start_mark.column + 1)


_WORDS: dict[str, Scalar] = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def _scalar(node: "yaml.ScalarNode", place: CodeLocation) -> Value:
    text = str(node.value)
    kind = node.tag.rpartition(":")[2]
    if kind == "null":
        return NONE
    if kind == "bool":
        return Const(_WORDS.get(text.lower()), place)
    try:
        if kind == "int":
            return Const(int(text.replace("_", ""), 0), place)
        if kind == "float":
            return Const(float(text.replace("_", "")), place)
    except ValueError:
        return UNKNOWN
    return UNKNOWN if "${" in text else Const(text, place)


_HEADER = re.compile(r"\s*\[{1,2}\s*([^\]\n]+?)\s*\]{1,2}\s*(?:[#;].*)?")
_KEY = re.compile(r"\s*([\w.\"'-]+)\s*[=:]")


def parse_sections(text: str, path: str, locate: Locate) -> Value:
    """Return what a TOML or INI text holds. Raises ValueError for a text that is none, or holds too much."""
    lines = dict(_lines(text))
    lines = {(*key[:-1], key[-1].lower()): line for key, line in lines.items()} | lines  # as INI has them
    tree = _toml(text) if path.endswith(".toml") else _ini(text)
    return _Sections(locate, lines).value(tree, (), MAX_DEPTH)


def _toml(text: str) -> Mapping[str, Any]:
    import tomllib  # noqa: PLC0415 - few scripts need it

    return tomllib.loads(text)


def _ini(text: str) -> Mapping[str, Any]:
    import configparser  # noqa: PLC0415 - few scripts need it

    parser = configparser.ConfigParser(interpolation=None)
    try:
        parser.read_string(text)
    except configparser.Error as error:
        raise ValueError(str(error)) from error
    return {name: dict(parser[name]) for name in parser.sections()}


def _lines(text: str) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield each key, below the names of its table, with its line; of a key written twice the last counts."""
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.split("\n"), 1):
        if header := _HEADER.fullmatch(line):
            table = tuple(word.strip(" \"'") for word in header[1].split("."))
        elif key := _KEY.match(line):
            yield (*table, *(word.strip(" \"'") for word in key[1].split("."))), number


class _Sections:
    """The values of one text."""

    def __init__(self, locate: Locate, lines: Mapping[tuple[str, ...], int]) -> None:
        self._locate = locate
        self._lines = lines
        self._left = MAX_WEIGHT

    def value(self, item: Any, keys: tuple[str, ...], depth: int) -> Value:
        """Return an item below these keys as a value. Raises ValueError."""
        self._left -= 1
        if self._left < 0 or depth == 0:
            raise ValueError("it holds too much")
        if isinstance(item, dict):
            held = {key: self.value(inner, (*keys, key), depth - 1) for key, inner in item.items()}
            places = {key: self._place((*keys, key)) for key in held}
            return Map(tuple(held.items()), open=False, places=places)
        if isinstance(item, list):
            return Seq(tuple(self.value(inner, keys, depth - 1) for inner in item))
        return Const(item, self._place(keys)) if isinstance(item, (str, int, float, bool)) else UNKNOWN

    def _place(self, keys: tuple[str, ...]) -> CodeLocation:
        of_all = self._lines.get(("DEFAULT", *keys[1:]), 1)
        return self._locate(self._lines.get(keys, of_all), 1)
