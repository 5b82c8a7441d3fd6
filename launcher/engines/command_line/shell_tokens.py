"""Split text as a POSIX shell does: words and operators, quotes and variables. Pure; nothing is executed."""

import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from launcher.engines.command_line.words import Word
from launcher.errors import CommandRefused
from preflight.frozen import dataclass

Values: TypeAlias = Mapping[str, str | tuple[Word, ...]]
"""Variables: a text, or the words of an array."""

_CONTINUED = re.compile(r"\\[ \t]*\r?\n")
_VARIABLE = re.compile(
    r"\$(?:(?P<name>[A-Za-z_]\w*|[0-9@*#?$])"
    r"|\{(?P<braced>[A-Za-z_]\w*)(?P<all>\[[@*]\])?(?:(?P<mark>:?[-=])(?P<default>[^}]*))?\})"
)
_SUBSTITUTION = re.compile(r"\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`|\$\{[^}]*\}")
_PLACEHOLDER = re.compile(r"<[A-Za-z][\w ./'-]*>|\{(?!\w+\.\.)[A-Za-z][\w ./-]*\}")
_OPERATOR = re.compile(r"&&|\|\||\|&|&>>|&>|;;|\d?>>|\d?>&(?:\d|-)?|\d?>|\d?<|[;&|()\n]")
_PLAIN = re.compile(r"[\w=:./,+@%-]+", re.ASCII)
_SPACE = " \t\r\u00a0"
_SMART = {"\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'", "\u2013": "--", "\u2014": "--"}


@dataclass(frozen=True, slots=True)
class Operator:
    """`&&`, `|`, `>` and their like, outside of quotes."""

    text: str


def split_text(text: str, values: Values) -> Iterator[Word | Operator]:
    """Yield the words and operators of a text, variables filled in from `values` when a word is reached.

    Raises CommandRefused for a quote that does not end and for typographic quotes and dashes.
    """
    at = 0
    while at < len(text):
        continued = _CONTINUED.match(text, at)
        if continued is not None:
            at = continued.end()
        elif text[at] in _SPACE:
            at += 1
        elif text[at] == "#":
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        elif _PLACEHOLDER.match(text, at) is None and (operator := _OPERATOR.match(text, at)) is not None:
            yield Operator(operator[0])
            at = operator.end()
        else:
            reader = _WordReader(text, at, values)
            yield from reader.words()
            at = reader.at


class _WordReader:
    """Reads the word that starts at a place, which can become several or none."""

    def __init__(self, text: str, at: int, values: Values) -> None:
        self.text = text
        self.at = at
        self.values = values
        self.done: list[Word] = []
        self.current: str | None = None
        self.unresolved: list[str] = []

    def words(self) -> list[Word]:
        while self.at < len(self.text) and self._read_part():
            pass
        self._finish()
        return self.done

    def _read_part(self) -> bool:
        """Read a quote, a variable or a character; return False where the word ends."""
        char = self.text[self.at]
        continued = _CONTINUED.match(self.text, self.at)
        plain = _PLAIN.match(self.text, self.at)
        if plain is not None:
            self._add(plain[0])
            self.at = plain.end()
            return True
        if continued is not None:
            self.at = continued.end()
            return False
        placeholder = _PLACEHOLDER.match(self.text, self.at)
        if placeholder is not None:
            self._add_unresolved(placeholder[0])
            self.at = placeholder.end()
        elif char in _SPACE or char in "\n;&|()<>":
            return False
        elif char == "'":
            self._add(self.text[self.at + 1 : self._end_of_quote("'")])
            self.at = self._end_of_quote("'") + 1
        elif char == '"':
            self._read_double_quoted()
        elif char == "\\":
            self._add(self.text[self.at + 1 : self.at + 2])
            self.at += 2
        elif char in "$`" and self._read_expansion(is_quoted=False):
            pass
        else:
            self._check_typographic(char)
            self._add(char)
            self.at += 1
        return True

    def _read_double_quoted(self) -> None:
        start = self.at
        self.at += 1
        self._add("")
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                return
            following = self.text[self.at + 1 : self.at + 2]
            if char == "\\" and following == "\n":
                self.at += 2
            elif char == "\\" and following and following in '"\\$`':
                self._add(following)
                self.at += 2
            elif char not in "$`" or not self._read_expansion(is_quoted=True):
                self._add(char)
                self.at += 1
        raise _no_end('"', self.text[start : start + 20])

    def _read_expansion(self, *, is_quoted: bool) -> bool:
        match = _VARIABLE.match(self.text, self.at)
        if match is None:
            substitution = _SUBSTITUTION.match(self.text, self.at)
            if substitution is not None:
                self._add_unresolved(substitution[0])
                self.at = substitution.end()
            return substitution is not None
        self.at = match.end()
        value = self.values.get(match["name"] or match["braced"])
        if (value is None or (value == "" and match["mark"] and ":" in match["mark"])) and match["mark"]:
            value = match["default"]
        if value is None:
            self._add_unresolved(match[0])
        elif isinstance(value, tuple):
            self._add_array(value, is_all=match["all"] is not None)
        elif is_quoted:
            self._add(value)
        else:
            self._add_split(value)
        return True

    def _add_array(self, value: tuple[Word, ...], *, is_all: bool) -> None:
        for number, word in enumerate(value if is_all else value[:1]):
            if number:
                self._finish()
            self._add(word.text)
            self.unresolved += word.unresolved

    def _add_split(self, value: str) -> None:
        for number, part in enumerate(re.split(r"\s+", value)):
            if number:
                self._finish()
            if part:
                self._add(part)

    def _add(self, text: str) -> None:
        self.current = (self.current or "") + text

    def _add_unresolved(self, text: str) -> None:
        self._add(text)
        self.unresolved.append(text)

    def _finish(self) -> None:
        if self.current is not None:
            self.done.append(Word(self.current, tuple(self.unresolved)))
        self.current, self.unresolved = None, []

    def _end_of_quote(self, quote: str) -> int:
        end = self.text.find(quote, self.at + 1)
        if end < 0:
            raise _no_end(quote, self.text[self.at : self.at + 20])
        return end

    def _check_typographic(self, char: str) -> None:
        if char in _SMART and (self.current is None or char in "\u201c\u201d\u2018\u2019"):
            raise CommandRefused(
                f"the line has a typographic {char!r} at {self.text[self.at : self.at + 20]!r}, no ASCII one",
                f"write {_SMART[char]}",
            )


def _no_end(quote: str, start: str) -> CommandRefused:
    return CommandRefused(f"the quote {quote} at {start!r} has no end", "close it, or paste the whole line")
