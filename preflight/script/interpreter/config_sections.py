"""TOML and INI: tables of keys, each with the line that it is written on."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.script.bounds import MAX_DEPTH, MAX_WEIGHT
from preflight.script.interpreter.values import UNKNOWN, Const, Map, Seq, Value

_HEADER = re.compile(r"\s*\[{1,2}\s*([^\]\n]+?)\s*\]{1,2}\s*(?:[#;].*)?")
_KEY = re.compile(r"\s*([\w.\"'-]+)\s*[=:]")


Locate = Callable[[int, int], CodeLocation]  # returns the place of a line and column of a text


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
