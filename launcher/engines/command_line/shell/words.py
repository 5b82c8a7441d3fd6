"""The words of a command line, with what a shell would still have to fill in."""

from collections.abc import Iterator, Sequence

from preflight import regex as re
from preflight.frozen import dataclass

ELEMENT = re.compile(r"[A-Za-z_]\w*\[[^\[\]=]{1,100}\]\+?=")
"""`NAME[KEY]=VALUE` of an array or a table."""

DECLARATIONS = ("export", "declare", "local", "readonly", "typeset", "setenv", "set")
ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=", re.ASCII)
SEPARATORS = " \t\n\r\u00a0"  # `IFS` where a text sets none, and what pages have for a blank

_MARKED = re.compile(r"\0(\d+)\0")


@dataclass(frozen=True, slots=True)
class Word:
    """One word, its quotes removed."""

    text: str
    unresolved: tuple[str, ...] = ()  # `$NAME`, `$(...)`, `<placeholder>`: what has no value yet
    is_count: bool = False  # of the arguments that the text does not have: `$#`
    is_split: bool = False  # what it lacks is outside of quotes, and may be no word, or several

    @property
    def is_known(self) -> bool:
        """Whether every part of it has a value."""
        return not self.unresolved

    @property
    def value(self) -> "Word | str":
        """Its text, where every part of it has a value, else itself."""
        return self.text if self.is_known else self

    @property
    def is_open(self) -> bool:
        """Whether it is all one variable without a value, which may stand for no word or for several."""
        return len(self.unresolved) == 1 and self.text[:1] == "$" and self.unresolved[0].startswith(self.text)

    @property
    def is_output(self) -> bool:
        """Whether it is all that a program prints: `$(cat .env)`."""
        return self.unresolved == (self.text,) and self.text.startswith(("$(", "`"))


@dataclass(frozen=True, slots=True)
class Operator:
    """`&&`, `|`, `>` and their like, outside of quotes."""

    text: str


def make_words(words: Sequence[str]) -> tuple[Word, ...]:
    """Return words that a shell has already split and filled in."""
    return tuple(Word(word) for word in words)


def is_assignment(word: Word) -> bool:
    """Whether a word is `NAME=VALUE`, `NAME+=VALUE` or `NAME[KEY]=VALUE`."""
    return ASSIGNMENT.match(word.text) is not None or ELEMENT.match(word.text) is not None


def drop_itself(name: str, value: Word) -> Word:
    """Return the value of `NAME=$NAME:more`, where a variable that has no value is empty, as in a shell."""
    own = (f"${name}", f"${{{name}}}")
    lacking = tuple(part for part in value.unresolved if part not in own)
    if lacking == value.unresolved:
        return value
    text = value.text
    for part in own:
        text = text.replace(part, "")
    return Word(text, lacking)


def explain_replaced(name: str) -> str:
    """Return what is said of `NAME=$NAME:more`, whose own part has no value."""
    return f"${name}: the value that a host has itself is replaced by what is written, not extended"


def split_fields(text: str, separators: str, most: int = 0) -> Iterator[str | None]:
    """Yield the fields of a text between marks of `IFS`, the first `most` (0: all); None for an empty end."""
    blanks = "".join(filter(str.isspace, separators)) or r"\0"
    others = re.escape("".join(one for one in separators if not one.isspace())) or r"\0"
    first, *rest = re.split(rf"[{blanks}]*[{others}][{blanks}]*|[{blanks}]+", text, maxsplit=most)
    has_first = first or (text.strip() and text.lstrip()[0] in separators)
    yield from (first if has_first else None, *rest[:-1], *(one or None for one in rest[-1:]))


def split_open(word: Word) -> tuple[Word, ...]:
    """Split a text at its blanks, but not within parts that have no value yet."""
    marked: list[str] = []
    missing: set[str] = set()
    at = 0
    for number, part in enumerate(word.unresolved):
        start = -1 if part in missing else word.text.find(part, at)
        if start < 0:
            missing.add(part)
            continue
        marked += (word.text[at:start], f"\0{number}\0")
        at = start + len(part)
    found: list[Word] = []
    for piece in "".join((*marked, word.text[at:])).split():
        lacking = tuple(word.unresolved[int(number)] for number in _MARKED.findall(piece))
        found.append(Word(_MARKED.sub(lambda mark: word.unresolved[int(mark[1])], piece), lacking))
    return tuple(found)
