"""What `NAME=(WORDS)`, `NAME[KEY]=WORD` and `unset NAME[KEY]` make of an array, listed or associative. Pure.

Each function returns why the array has no value any more; "" where the text decides it.
"""

from launcher.engines.command_line.shell.arithmetic import evaluate_arithmetic
from launcher.engines.command_line.shell.associative_arrays import (
    MARK,
    is_associative,
    update_elements,
    without_element,
)
from launcher.engines.command_line.shell.bracket_tests import Answer
from launcher.engines.command_line.shell.variables import Value, Variables, list_elements
from launcher.engines.command_line.shell.words import Word
from preflight import regex as re

_PAIR = re.compile(r"\[[^\[\]]{1,100}\]\+?=")
_IN_CONDITION = "set in a condition"
_GAP = "a list with a gap, or with a word that may be several"


def assign_array(values: Variables, target: str, words: tuple[Word, ...], runs: Answer) -> str:
    """Take `NAME=(WORDS)`, `NAME+=(WORDS)` and `NAME=([KEY]=VALUE ...)` of `target`, `NAME+=` or `NAME=`."""
    name, is_added = target.rstrip("+="), target.endswith("+=")
    if is_associative(name, values):
        held = values[name + MARK] if is_added else ()
        return "" if runs is False else _update(values, name, held, words) if runs else _IN_CONDITION
    if any(_PAIR.match(word.text) for word in words):
        return "a table"
    is_set = name in values
    words = tuple(word for word in words if is_set or word.unresolved != (f"${{{name}[@]}}",))
    before = list_elements(name, values) if is_added else ()
    shown = f"${name} ({_IN_CONDITION})"
    if runs is False:
        values.setdefault(name, ())
    else:
        values[name] = (*before, *(words if runs else (Word(shown, (shown,)),)))
    return ""


def assign_element(values: Variables, word: Word) -> str:
    """Take `NAME[KEY]=VALUE` and `NAME[KEY]+=VALUE`."""
    name, _, pair = word.text.partition("[")
    if is_associative(name, values):
        return _update(values, name, values[name + MARK], (Word(f"[{pair}", word.unresolved),))
    target, _, text = pair.partition("=")
    key, is_added = target.rstrip("+").removesuffix("]"), target.endswith("+")
    number = None if any(part in key for part in word.unresolved) else evaluate_arithmetic(key, values)
    elements = list_elements(name, values)
    at = -1 if number is None else number if number >= 0 else len(elements) + number
    if not 0 <= at <= len(elements) or any(one.is_split for one in elements[:at]):
        return _GAP
    before = elements[at] if is_added and at < len(elements) else Word("")
    value = Word(before.text + text, (*before.unresolved, *word.unresolved))
    values[name] = (*elements[:at], value, *elements[at + 1 :])
    return ""


def unset_element(values: Variables, written: str) -> str:
    """Take `unset NAME[KEY]`."""
    name, _, key = written.partition("[")
    if is_associative(name, values):
        values[name + MARK] = without_element(values[name + MARK], key.removesuffix("]").strip("\"'"))
        return ""
    return "without an element" if isinstance(values.get(name), tuple) else ""


def _update(values: Variables, name: str, held: Value, words: tuple[Word, ...]) -> str:
    updated = update_elements(held, words)
    if updated is None:
        return "an element without a known key"
    values[name + MARK] = updated
    return ""


def declares_associative(words: tuple[Word, ...]) -> bool:
    """Whether the options of `declare` are those of an associative array."""
    return any(re.fullmatch(r"-[a-zA-Z]*A[a-zA-Z]*", word.text) for word in words)
