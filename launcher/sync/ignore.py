"""The patterns of .gitignore, in bounded time: no pattern takes longer than its length times the path's.

A glob needs no backtracking but to its last star, and a pattern of many stars, translated into one regular
expression, backtracks over all of them: a name of thirty letters took minutes.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self, TypeAlias

from launcher.errors import SyncFailed
from launcher.text import one_line
from preflight import regex as re
from preflight.frozen import dataclass

MAX_IGNORE = 1 << 20  # bytes of one .gitignore
MAX_PATTERNS = 5_000  # of one file or list; each is tried on each path

_NAMED_CLASS = re.compile(r"\[:(\w*):\]")
_CLASSES = {
    "alnum": r"0-9A-Za-z",
    "alpha": r"A-Za-z",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": r"0-9",
    "graph": r"\x21-\x7e",
    "lower": r"a-z",
    "print": r"\x20-\x7e",
    "punct": r"!-/:-@\[-`{-~",
    "space": r" \t-\r",
    "upper": r"A-Z",
    "xdigit": r"0-9A-Fa-f",
}
_ANY_DEPTH = None  # what stands for `**` among the parts of a pattern


class InvalidPattern(ValueError):
    """A line that git takes for a pattern that matches nothing."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A line that may name paths, as it was written, and which line of its list it is."""

    line: str
    number: int
    excludes: bool
    parts: tuple[re.Pattern[str] | None, ...]
    directories_only: bool
    anchored: bool  # to the directory of its file; else any last name matches

    def matches(self, parts: Sequence[str], *, is_directory: bool) -> bool:
        """Whether it names this path, itself and not something above it."""
        if self.directories_only and not is_directory:
            return False
        if not self.anchored:
            name = self.parts[0]
            return name is not None and name.fullmatch(parts[-1]) is not None
        return _matches(self.parts, parts)


class Ignore:
    """A list of patterns; the last that names a path decides."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._patterns = tuple(reversed(patterns))
        self._directories: dict[str, bool] = {"": False}

    @classmethod
    def from_lines(cls, lines: Iterable[str], *, strict: bool = False) -> Self:
        """Read them. A bad one matches nothing, as for git, or raises InvalidPattern where `strict`."""
        found: list[Pattern] = []
        for number, line in enumerate(lines, 1):
            try:
                pattern = _read(line, number)
            except InvalidPattern:
                if strict:
                    raise
                continue
            if pattern is not None:
                found.append(pattern)
        if len(found) > MAX_PATTERNS:
            raise InvalidPattern(f"{len(found)} patterns are more than {MAX_PATTERNS}")
        return cls(found)

    def says(self, path: str, *, is_directory: bool) -> Pattern | None:
        """Return the pattern that decides of a path, by its own name; None where none names it."""
        parts = _bytewise(path).split("/")
        return next((each for each in self._patterns if each.matches(parts, is_directory=is_directory)), None)

    def excludes(self, path: str) -> bool:
        """Whether a file is excluded, by its name or with a directory above it."""
        return self._excludes_above(path) or self._names(path, is_directory=False)

    def excludes_directory(self, path: str) -> bool:
        """Whether a directory is excluded, by its name or with one above it."""
        return self._excludes_above(path + "/")

    def _excludes_above(self, path: str) -> bool:
        above = path.rpartition("/")[0]
        known = self._directories.get(above)
        if known is None:
            known = self._excludes_above(above) or self._names(above, is_directory=True)
            self._directories[above] = known
        return known

    def _names(self, path: str, *, is_directory: bool) -> bool:
        said = self.says(path, is_directory=is_directory)
        return said is not None and said.excludes


Rules: TypeAlias = tuple[tuple[str, Ignore], ...]
"""The .gitignore files above a path, each with the directory that it lies in: "", or ending in "/"."""


def add_rules(rules: Rules, root: Path, below: str) -> Rules:
    """Return the rules above a directory with those of its own .gitignore. Raises SyncFailed: too large."""
    path = root / below / ".gitignore"
    if path.is_symlink() or not path.is_file():
        return rules
    with path.open("rb") as file:
        data = file.read(MAX_IGNORE + 1)
    try:
        if len(data) > MAX_IGNORE:
            raise InvalidPattern(f"it is larger than {MAX_IGNORE >> 10} KiB")  # noqa: TRY301 - reported as other bad ones
        lines = data.decode("utf-8", "surrogateescape").removeprefix("\ufeff").split("\n")
        return (*rules, (below, Ignore.from_lines(lines)))
    except InvalidPattern as error:
        raise SyncFailed(
            f"{path}: {one_line(str(error))}", "shorten it, or set sync.from elsewhere"
        ) from None


def find_rule(rules: Rules, path: str, *, is_directory: bool) -> tuple[str, Pattern] | None:
    """Return which pattern decides of a path, and whose: the deepest .gitignore that says anything of it."""
    for below, ignore in reversed(rules):
        said = ignore.says(path.removeprefix(below), is_directory=is_directory)
        if said is not None:
            return below, said
    return None


def _bytewise(text: str) -> str:
    """Return a character for each byte: "?" and brackets stand for a byte, as they do for git."""
    return text.encode("utf-8", "surrogateescape").decode("latin-1")


def _matches(pattern: Sequence[re.Pattern[str] | None], parts: Sequence[str]) -> bool:
    """Match as globs are: on a mismatch only the last `**` takes one part more."""
    at = name = 0
    star, taken = -1, 0
    while name < len(parts):
        part = pattern[at] if at < len(pattern) else _ANY_DEPTH
        if at < len(pattern) and part is _ANY_DEPTH:
            star, taken = at, name
            at += 1
        elif part is not None and part.fullmatch(parts[name]):
            at += 1
            name += 1
        elif star >= 0:
            taken += 1
            at, name = star + 1, taken
        else:
            return False
    return all(part is _ANY_DEPTH for part in pattern[at:])


def _read(line: str, number: int) -> Pattern | None:
    text = _without_trailing_spaces(_bytewise(line))
    if not text or text.startswith("#"):
        return None
    excludes = not text.startswith("!")
    text = text if excludes else text[1:]
    directories_only = text.endswith("/")
    text = text[:-1] if directories_only else text
    anchored = "/" in text
    if not text.removeprefix("/"):
        raise InvalidPattern(f"{line!r} names nothing")
    words: list[list[str]] = [[]]
    for piece in _pieces(text.removeprefix("/")):
        if piece == "/":
            words.append([])
        else:
            words[-1].append(piece)
    parts = [_ANY_DEPTH if anchored and word == ["*", "*"] else _part(word) for word in words]
    if parts[-1] is _ANY_DEPTH:  # what is below, not the directory itself
        parts.insert(-1, _part(["*"]))
    return Pattern(line, number, excludes, tuple(parts), directories_only, anchored)


def _without_trailing_spaces(line: str) -> str:
    text = line.rstrip("\r\n")
    end = len(text.rstrip(" "))
    escapes = len(text[:end]) - len(text[:end].rstrip("\\"))
    return text[: end + 1] if escapes % 2 else text[:end]


def _part(pieces: Iterable[str]) -> re.Pattern[str]:
    """Return what matches one name of a path.

    What is between two stars is looked for once, at its first place, which is as good as any other
    (an atomic group); only what follows the last star has to be at the end.
    """
    runs = [""]
    for piece in pieces:
        if piece == "*":
            runs.append("")
        else:
            runs[-1] += piece
    head, *rest = runs
    if not rest:
        return re.compile(head, re.DOTALL)
    middle = "".join(f"(?>.*?{run})" for run in rest[:-1] if run)
    return re.compile(f"{head}{middle}.*{rest[-1]}", re.DOTALL)


def _pieces(word: str) -> Iterator[str]:
    """Yield regular expressions of one character each, "*" and "/". Raises InvalidPattern."""
    at = 0
    while at < len(word):
        sign = word[at]
        if sign == "[":
            piece, at = _bracket(word, at + 1)
            yield piece
            continue
        if sign == "\\":
            at += 1
            if at == len(word):
                raise InvalidPattern(f"{word!r} ends in a backslash")
            sign = word[at]
            yield re.escape(sign)  # "/" stays itself
        else:
            yield {"*": "*", "?": "."}.get(sign) or re.escape(sign)
        at += 1


def _bracket(word: str, at: int) -> tuple[str, int]:
    """Return the regular expression of a bracket and where the word continues after it."""
    negated = word[at : at + 1] in ("!", "^")
    at += negated
    inside: list[str] = []
    first = True
    while first or word[at : at + 1] != "]":
        first = False
        if at >= len(word):
            raise InvalidPattern(f"{word!r} has a bracket without end")
        named = _NAMED_CLASS.match(word, at)
        if named:
            if named[1] not in _CLASSES:
                raise InvalidPattern(f"{word!r}: there is no class {named[1]}")
            inside.append(_CLASSES[named[1]])
            at = named.end()
            continue
        low, at = _character(word, at)
        if word[at : at + 1] == "-" and word[at + 1 : at + 2] not in ("]", ""):
            high, at = _character(word, at + 1)
            inside.append(f"{re.escape(low)}-{re.escape(high)}" if low <= high else re.escape(low))
        else:
            inside.append(re.escape(low))
    joined = "".join(inside)
    if negated:
        return (f"[^{joined}]" if joined else "."), at + 1
    return (f"[{joined}]" if joined else "(?!)"), at + 1


def _character(word: str, at: int) -> tuple[str, int]:
    at += word[at] == "\\"
    if at >= len(word):
        raise InvalidPattern(f"{word!r} ends in a backslash")
    return word[at], at + 1
