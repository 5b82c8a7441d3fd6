"""Associative arrays of a text (`declare -A NAME`): words by their keys, beside its variables. Pure."""

from collections.abc import Iterable, Mapping

from launcher.engines.command_line.shell.variables import Value, Values
from launcher.engines.command_line.shell.words import Word
from preflight import regex as re

MARK = " -A"
"""Behind the name of a variable: holds its keys and words in turn, or one word where they are unknown."""

_ELEMENT = re.compile(r"\[([^\[\]]{1,100})\](\+?)=(.*)", re.DOTALL)
_BUCKETS = 1023  # of bash 5, which lists them in their order, and in each the newest first
_START, _FACTOR, _SIZE = 2166136261, 16777619, 0xFFFFFFFF  # of its hash, FNV-1


def is_associative(name: str, values: Values) -> bool:
    """Whether a variable is an associative array."""
    return name + MARK in values


def get_elements(name: str, values: Values) -> Mapping[str, Word] | None:
    """Return the elements of an associative array as bash lists them; None where they are unknown."""
    held = values.get(name + MARK)
    if not isinstance(held, tuple):
        return None
    pairs = [(key.text, value) for key, value in zip(held[::2], held[1::2], strict=True)]
    newest_first = pairs[::-1]
    return dict(sorted(newest_first, key=lambda pair: _bucket(pair[0])))


def update_elements(held: Value, words: Iterable[Word]) -> tuple[Word, ...] | None:
    """Return what `NAME+=([KEY]=WORD ...)` and `NAME+=(KEY WORD)` make of it; None where a key is unknown."""
    if not isinstance(held, tuple):
        return None
    elements = {key.text: value for key, value in zip(held[::2], held[1::2], strict=True)}
    rest = list(words)
    while rest:
        word = rest.pop(0)
        found = _ELEMENT.fullmatch(word.text)
        key, is_added, text = found.groups() if found is not None else (word.text, "", "")
        if any(part in key for part in word.unresolved):
            return None
        value = Word(text, word.unresolved) if found is not None else rest.pop(0) if rest else Word("")
        before = elements.get(key) if is_added else None
        if before is not None:
            value = Word(before.text + value.text, (*before.unresolved, *value.unresolved))
        elements[key] = value
    return tuple(one for key, value in elements.items() for one in (Word(key), value))


def without_element(held: Value, key: str) -> Value:
    """Return what `unset NAME[KEY]` leaves."""
    if not isinstance(held, tuple):
        return held
    pairs = zip(held[::2], held[1::2], strict=True)
    return tuple(one for pair in pairs if pair[0].text != key for one in pair)


def _bucket(key: str) -> int:
    number = _START
    for byte in key.encode("utf-8", "surrogatepass"):
        number = (number * _FACTOR & _SIZE) ^ byte
    return number & _BUCKETS
