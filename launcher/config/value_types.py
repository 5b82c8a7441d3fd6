"""What a value in hosts.yaml or a run config may be: a FieldType reads it and has its schema."""

# ruff: noqa: D102 - the methods are documented once, in FieldType

import json
from collections.abc import Callable, Mapping
from itertools import takewhile
from typing import Any, Protocol

from launcher import durations
from launcher.config import value_remedies
from launcher.config.host_ranges import check_form
from launcher.config.yaml_tree import ConfigIssues, YamlNode, hint_nearest
from preflight import regex as re
from preflight.frozen import dataclass

Schema = dict[str, Any]

_TRUE = frozenset({"true", "yes", "on"})
_FALSE = frozenset({"false", "no", "off"})
_PLAIN = re.compile(r"\w[\w.:+-]*")  # what needs no quotes within braces
MAX_TEXT = 4096  # characters: the longest path that Linux takes
_SCALAR_SCHEMA = ["string", "number", "boolean"]


class FieldType(Protocol):
    """A type of value. `read` returns None after it has recorded a mistake."""

    @property
    def expected(self) -> str:
        """What a message says was expected."""

    def read(self, item: YamlNode, mistakes: ConfigIssues) -> Any:
        """Return the value."""

    def schema(self) -> Schema:
        """Return it as JSON Schema."""


@dataclass(frozen=True, slots=True)
class Text:
    """A line of text. Empty text is accepted only where `pattern` accepts it; `judge` says what is wrong."""

    expected: str = "text"
    pattern: str = r"[^\x00-\x1f\x7f]+"
    has_home: bool = False  # ~ is the home directory, and not YAML's word for nothing
    judge: Callable[[str], str] = lambda _: ""

    def read(self, item: YamlNode, mistakes: ConfigIssues) -> str | None:
        if item.is_tilde and self.has_home:
            return "~"
        if isinstance(item.value, str) and len(item.value) > MAX_TEXT:
            mistakes.add(item, f"has {len(item.value)} characters, expected at most {MAX_TEXT}")
        elif not isinstance(item.value, str) or not re.fullmatch(self.pattern, item.value):
            mistakes.add_wrong_value(item, self.expected)
        elif problem := self.judge(item.value):
            mistakes.add(item, problem)
        else:
            return item.value
        return None

    def schema(self) -> Schema:
        return {"type": "string", "maxLength": MAX_TEXT, "pattern": f"^(?:{self.pattern})$"}


def judge_host_path(path: str) -> str:
    """Return what is wrong with a path that is sent as it is written."""
    name = re.match(r"\$\{?(\w+)\}?(?=/|$)", path)
    if name is None:
        return "quotes are part of it (write it without)" if re.match("[\"'\u2018-\u201f]", path) else ""
    written = f"~{path[name.end() :]}" if name[1] == "HOME" else "it out"
    return f"no shell replaces {name[0]} in it (write {written})"


HOST_PATH = Text("a path on the host", has_home=True, judge=judge_host_path)


@dataclass(frozen=True, slots=True)
class Custom:
    """A type with a grammar of its own. `parse` returns the value or raises ValueError with what it wants."""

    expected: str
    parse: Callable[[YamlNode], Any]
    shape: Callable[[], Schema]

    def read(self, item: YamlNode, mistakes: ConfigIssues) -> Any:
        try:
            return self.parse(item)
        except ValueError as error:
            mistakes.add_wrong_value(item, str(error) or self.expected)
            return None

    def schema(self) -> Schema:
        return self.shape()


def _read_scalar(item: YamlNode) -> str:
    if isinstance(item.value, str) and "\0" not in item.value:
        return item.value
    raise ValueError('text or a number; write "" for empty text' if item.value is None else "")


SCALAR = Custom("text or a number", _read_scalar, lambda: {"type": _SCALAR_SCHEMA})
"""Text that may look like a number or a boolean (script args, env values): what was typed arrives."""


def integer(low: int, high: int, *, in_mib: bool = False, note: str = "") -> Custom:
    """Return the type of a whole number, in decimal."""
    expected = f"a whole number from {low} to {high}{note}"

    def parse(item: YamlNode) -> int:
        number = int(item.text) if re.fullmatch(r"[+-]?[0-9]{1,18}", item.text) else low - 1
        if low <= number <= high:
            return number
        raise ValueError(expected + value_remedies.as_mib(item.text) * in_mib)

    shape = {"type": "integer", "minimum": low, "maximum": high}
    return Custom(expected, parse, lambda: shape)


def _read_number(item: YamlNode) -> float:
    if re.fullmatch(r"[0-9]{1,15}(\.[0-9]{1,15})?", item.text):
        return float(item.text)
    raise ValueError


NUMBER = Custom("a number from 0", _read_number, lambda: {"type": "number", "minimum": 0})


def duration(low_s: float = 0, high_s: float = 1e9) -> Custom:
    """Return the type of a time span; seconds where no unit is given."""

    def parse(item: YamlNode) -> float:
        seconds = durations.parse_duration(item.text)
        if seconds is None:
            raise ValueError(durations.EXPECTED + value_remedies.as_duration(item.text))
        if not low_s <= seconds <= high_s:
            raise ValueError(f"a duration from {low_s:g} s" + f" to {high_s:g} s" * (seconds > high_s))
        return seconds

    number = {"type": "number", "minimum": low_s, "maximum": high_s}
    text = {"type": "string", "pattern": f"^{durations.PATTERN}$"}
    return Custom(durations.EXPECTED, parse, lambda: {"anyOf": [number, text]})


def boolean(expected: str = "true or false") -> Custom:
    """Return the type of true or false."""

    def parse(item: YamlNode) -> bool:
        if item.text.lower() in _TRUE | _FALSE:
            return item.text.lower() in _TRUE
        raise ValueError(expected)

    return Custom(expected, parse, lambda: {"type": "boolean"})


@dataclass(frozen=True, slots=True)
class Keyword:
    """One word of a list, or what people type for it."""

    words: tuple[str, ...]
    aliases: tuple[tuple[str, str], ...] = ()
    remedy: str = ""  # for a word that is none of these

    @property
    def expected(self) -> str:
        return "one of " + ", ".join(self.words)

    def read(self, item: YamlNode, mistakes: ConfigIssues) -> str | None:
        word = dict(self.aliases).get(item.value, item.value) if isinstance(item.value, str) else None
        if word in self.words:
            return word
        mistakes.add_wrong_value(item, self.expected + self.remedy, self.words)
        return None

    def schema(self) -> Schema:
        # YAML 1.1 editors read a bare `no` or `off` as false
        aliases = [alias for alias, _ in self.aliases]
        numbers = [int(word) for word in self.words if word.isdecimal()]
        return {
            "enum": [*self.words, *aliases, *([False] if {"no", "off"} & {*self.words} else []), *numbers]
        }


@dataclass(frozen=True, slots=True)
class ListOf:
    """A list. A single scalar is taken as a list of one where `allow_scalar` says so."""

    kind: FieldType
    allow_scalar: bool = False
    has_blanks: bool = True  # a scalar may; else it is several

    @property
    def expected(self) -> str:
        return f"a list, each {self.kind.expected}"

    def read(self, item: YamlNode, mistakes: ConfigIssues) -> tuple[Any, ...] | None:
        if isinstance(item.value, str) and self.allow_scalar:
            if not self.has_blanks and len(words := item.value.split()) > 1:
                several = ", ".join(json.dumps(word, ensure_ascii=False) for word in words)
                one = json.dumps(item.value, ensure_ascii=False)
                mistakes.add_wrong_value(
                    item, f"{self.expected} (write [{several}]; one with a blank: [{one}])"
                )
                return None
            found = ConfigIssues()
            value = self.kind.read(item, found)
            if found.found and (several := value_remedies.as_list(item.value, least=2)):
                mistakes.add_wrong_value(item, self.kind.expected + several)
            else:
                mistakes.found += found.found
            return None if value is None else (value,)
        parts = item.value if isinstance(item.value, tuple) else (item,)
        pairs = next((part for part in parts if isinstance(part.value, dict)), None)
        if self.kind is SCALAR and pairs is not None:
            mistakes.add_wrong_value(pairs, self.expected + value_remedies.as_arguments(item.value))
            return None
        if not isinstance(item.value, tuple):
            mistakes.add_wrong_value(item, self.expected + value_remedies.as_list(item.value))
            return None
        return tuple(value for part in item.value if (value := self.kind.read(part, mistakes)) is not None)

    def schema(self) -> Schema:
        many: Schema = {"type": "array", "items": self.kind.schema()}
        return {"anyOf": [self.kind.schema(), many]} if self.allow_scalar else many


HOST_WORD = r"[A-Za-z0-9_@\[:][A-Za-z0-9_.+@#%=,:/!&^\[\]\\-]*"
HOST_WORDS = ListOf(
    Text(
        "a host: a name, a range such as l40s-[01-04], a group, or user@host:port",
        HOST_WORD,
        judge=check_form,
    ),
    allow_scalar=True,
)


@dataclass(frozen=True, slots=True)
class MapOf:
    """A mapping from free names to one type of value. Nothing at all is an empty mapping."""

    kind: FieldType
    name_expected: str
    name_pattern: str
    names: tuple[str, ...] = ()  # when only these are allowed

    @property
    def expected(self) -> str:
        return f"a mapping, each value {self.kind.expected}"

    def read(self, item: YamlNode, mistakes: ConfigIssues) -> dict[str, Any] | None:
        if item.value is None:
            return {}
        if not isinstance(item.value, dict):
            mistakes.add_wrong_value(
                item, self.expected + value_remedies.as_key(item.value, self.name_pattern)
            )
            return None
        found = {}
        for name, part in item.value.items():
            if self.names and name not in self.names:
                mistakes.add(
                    part,
                    f"unknown key; expected one of {', '.join(self.names)}{hint_nearest(name, self.names)}",
                )
            elif not re.fullmatch(self.name_pattern, name):
                hint = value_remedies.as_name(name, self.name_pattern)
                mistakes.add(part, f"expected {self.name_expected} as the key{hint}")
            elif above := self._find_entry_above(name, item.value):
                mistakes.add(part, f'is a key of "{above}": indent it further than that line')
            elif (value := self.kind.read(part, mistakes)) is not None:
                found[name] = value
        return found

    def _find_entry_above(self, name: str, values: Mapping[str, YamlNode]) -> str:
        """Return the entry without a value that a key with one was meant for, which is indented as it is."""
        keys = {key.name for key in self.kind.keys} if isinstance(self.kind, Section) else set()
        if name not in keys or not values[name].text:
            return ""
        before = [each for each in takewhile(lambda other: other != name, values) if each not in keys]
        return before[-1] if before and values[before[-1]].value is None else ""

    def schema(self) -> Schema:
        shape: Schema = {"type": ["object", "null"], "additionalProperties": self.kind.schema()}
        if self.names:
            shape |= {
                "properties": {name: self.kind.schema() for name in self.names},
                "additionalProperties": False,
            }
        else:
            shape["propertyNames"] = {"pattern": f"^(?:{self.name_pattern})$"}
        return shape


@dataclass(frozen=True, slots=True)
class ScalarOrMap:
    """One scalar for all, or a mapping."""

    scalar: FieldType
    mapping: FieldType

    @property
    def expected(self) -> str:
        return f"{self.scalar.expected}, or {self.mapping.expected}"

    def read(self, item: YamlNode, mistakes: ConfigIssues) -> Any:
        if isinstance(item.value, dict):
            return self.mapping.read(item, mistakes) or None
        keys = self.mapping.keys if isinstance(self.mapping, Section) else ()
        pair = value_remedies.as_pair(item.text, [key.name for key in keys])
        if pair or not isinstance(item.value, str):
            mistakes.add_wrong_value(item, self.expected + pair)
            return None
        return self.scalar.read(item, mistakes)

    def schema(self) -> Schema:
        return {"anyOf": [self.scalar.schema(), {**self.mapping.schema(), "type": "object"}]}


@dataclass(frozen=True, slots=True)
class Field:
    """One row of a table: a key, what it holds, what it is for, and a value that works."""

    name: str
    kind: FieldType
    doc: str
    example: str
    default: str = ""  # for the reference; "" = not set


def is_called(key: Field, name: str) -> bool:
    """Return whether a mistaken name is a key, but for its case, or what another tool calls it."""
    word = name.lower().replace("-", "_")
    return word == key.name or word in value_remedies.OTHER_NAMES.get(key.name, "").split()


def _as_mapping(item: YamlNode, keys: tuple[Field, ...], *, has_short: bool = True) -> str:
    """Return how a scalar in place of a mapping is written: `restart: 3`, `restart: true`, `port 22`."""
    text, first = item.text.lower(), keys[0]
    if text in _TRUE | _FALSE:
        return " (write {} for its defaults)" if text in _TRUE else " (leave it out)"
    found = ConfigIssues()
    fits = has_short and first.kind.read(item, found) is not None and _PLAIN.fullmatch(text)
    one = f" (write {{{first.name}: {item.text}}})" if fits else ""
    several = re.search(rf"\(write ({first.name}: [^()]+)\)", str(found.found[0])) if found.found else None
    one = f" (write {{{several[1]}}})" if several else one
    return value_remedies.as_pair(item.text, [key.name for key in keys]) or one


@dataclass(frozen=True, slots=True)
class Section:
    """A mapping with known keys; `make` makes a value of its own of it.

    Without `make`, nothing at all is an empty mapping. `judge` finds what keys get wrong together.
    """

    keys: tuple[Field, ...]
    expected: str = "a mapping (key: value)"
    elsewhere: Callable[[str], str] = lambda _: ""  # says of what else a name is a key
    has_short: bool = True  # a scalar in its place is most likely its first key
    make: Callable[..., Any] | None = None
    judge: Callable[[dict[str, YamlNode], ConfigIssues], None] = lambda _, __: None

    def read(self, item: YamlNode, mistakes: ConfigIssues) -> Any:
        if item.value is None and self.make is None:
            return {}
        if not isinstance(item.value, dict):
            mistakes.add_wrong_value(
                item, self.expected + _as_mapping(item, self.keys, has_short=self.has_short)
            )
            return None
        known = {key.name: key.kind for key in self.keys}
        values = {name: part.value for name, part in item.value.items()}
        found = {}
        for name, part in item.value.items():
            if name not in known:
                names, pair = tuple(known), value_remedies.as_pair(name, known) * (part.value is None)
                meant = next((key.name for key in self.keys if is_called(key, name)), "")
                hint = hint_nearest(meant, names) or self.elsewhere(name) or hint_nearest(name, names)
                hint = pair or value_remedies.as_list_in_braces(name, values) or hint
                hint = hint or f"; expected one of {', '.join(names)}"
                mistakes.add(part, f"unknown key{hint}")
            elif (value := known[name].read(part, mistakes)) is not None:
                found[name] = value
        self.judge(item.value, mistakes)
        return found if self.make is None else self.make(**found)

    def schema(self) -> Schema:
        properties = {key.name: {"description": key.doc, **key.kind.schema()} for key in self.keys}
        kind = ["object", "null"] if self.make is None else "object"
        return {"type": kind, "properties": properties, "additionalProperties": False}
