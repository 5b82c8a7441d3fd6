"""Variables of a text, and what an expansion of one stands for."""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from launcher.engines.command_line.shell.words import SEPARATORS, Operator, Word, drop_itself
from preflight import regex as re
from preflight.frozen import dataclass

Value: TypeAlias = str | Word | tuple[Word, ...]
Values: TypeAlias = Mapping[str, Value]  # a text, one with open parts, or the words of an array


class Variables(dict[str, Value]):
    """Variables that an expansion may set: `${NAME:=default}`, where its command runs (None: undecided).

    `code` is `$?`, where the text decides it; `read_output` reads `$(...)`, and says whether it succeeds.
    """

    def __init__(
        self, values: Values, runs: Callable[[], bool | None], code: Callable[[], str | None]
    ) -> None:
        super().__init__(values)
        self.runs, self.code = runs, code
        self.is_strict = False  # `set -u`
        self.covered: dict[str, Value | None] = {}
        self.read_output: Callable[[str], tuple[str | None, bool | None]] = lambda _: (None, None)
        self.ends: tuple[bool | None, ...] = ()  # of the substitutions in the command that is read
        self.export: Callable[[str], None] = lambda _: None  # under `set -a`, where an expansion sets one

    def substitute(self, shown: str) -> str | None:
        """Return what `$(...)` prints; None where the text does not say it."""
        printed, succeeds = self.read_output(shown)
        self.ends += (succeeds,)
        return printed

    def cover(self, words: Iterable[Word]) -> None:
        """Take assignments that the next word of their command sees, until `uncover`."""
        for word in words:
            target, _, value = word.text.partition("=")
            name = target.removesuffix("+")
            before = self.get(name, "")
            if name.isidentifier() and isinstance(before, str):
                self.covered.setdefault(name, self.get(name))
                given = drop_itself(name, Word(before * (name != target) + value, word.unresolved))
                self[name] = given.value

    def uncover(self) -> None:
        """Set what `cover` has set to what it was."""
        for name, value in self.covered.items():
            if value is None:
                self.pop(name, None)
            else:
                self[name] = value
        self.covered.clear()


DEEPEST = 20  # defaults within defaults; no person writes more


@dataclass(frozen=True, slots=True)
class Expansion:
    """One expansion of a text: what it stands for, and where it ends."""

    end: int
    words: tuple[Word, ...] = ()  # of an array; () and no text: nothing at all
    text: str | None = None  # None: see `words` and `unresolved`
    open: Word | None = None  # a text of which a part has no value
    unresolved: str = ""  # the expansion itself, where only a running shell knows its value
    is_count: bool = False  # of arguments that the text does not have
    is_joined: bool = False  # one word in double quotes: `"${ARRAY[*]}"`
    has_quotes: bool = False  # which keep the blanks of its words: `${NAME:-"a b"}`


Split: TypeAlias = Callable[[str, int], tuple[Word | Operator, ...]]  # reads a text at a depth


def join_tokens(tokens: tuple[Word | Operator, ...]) -> tuple[str, tuple[str, ...]]:
    """Return words as one text, and what of it is unresolved."""
    lacking = (one.unresolved if isinstance(one, Word) else (one.text,) for one in tokens)
    return " ".join(one.text for one in tokens), tuple(part for parts in lacking for part in parts)


def get_args(values: Values) -> tuple[Word, ...] | None:
    """Return the arguments of a function, or those that `set --` gives; None for those of the text itself."""
    given = values.get("@")
    return given if isinstance(given, tuple) else None


UNDECIDED = Word("$@ (set in a condition)", ("$@ (set in a condition)",))
"""In place of arguments that the text does not decide."""


def are_decided(given: Iterable[Word]) -> bool:
    """Whether the text decides the number of its arguments."""
    return not any(set(UNDECIDED.unresolved) & set(word.unresolved) for word in given)


_SETTINGS = {"allexport": "a", "errexit": "e", "nounset": "u"}
_OPTIONS = re.compile(r"[-+][abefhkmnptuvxBCEHPTo]+")


def parse_set_options(words: tuple[Word, ...]) -> tuple[Mapping[str, bool], tuple[Word, ...] | None]:
    """Return the options that `set` turns on or off by their letters, and the arguments behind them, if any.

    `set A=1` is of cmd.exe.
    """
    changed: dict[str, bool] = {}
    rest = list(words[1:])
    while rest and _OPTIONS.fullmatch(rest[0].text):
        option = rest.pop(0).text
        for letter in option[1:]:
            name = rest.pop(0).text if letter == "o" and rest else letter
            changed[_SETTINGS.get(name, name)] = option[0] == "-"
    mark = "".join(word.text for word in rest[:1])
    if mark in ("--", "-"):
        return changed, tuple(rest[1:]) if mark == "--" or rest[1:] else None
    is_other = mark[:1] in ("", "-", "+") or (not changed and any("=" in word.text for word in rest))
    return changed, None if is_other else tuple(rest)


PIPEFAIL, NOUNSET = "set -o pipefail", "set -u"
ASIDE = frozenset((PIPEFAIL, NOUNSET))
"""What does not itself end a text where a command fails."""


def update_error_ends(words: tuple[Word, ...], before: frozenset[str]) -> frozenset[str]:
    """Return what ends a text where a command fails, behind a `set`."""
    changed, named = parse_set_options(words)[0], {"e": "set -e", "pipefail": PIPEFAIL, "u": NOUNSET}
    on, off = ({name for key, name in named.items() if changed.get(key) is way} for way in (True, False))
    return before - off | on


def update_arguments(words: tuple[Word, ...], values: Values) -> tuple[tuple[Word, ...], bool | None] | None:
    """Return the arguments behind `set` or `shift`, and whether it succeeds; None where it leaves them."""
    name, rest = words[0].text, [word.text for word in words[1:]]
    given = get_args(values)
    behind = parse_set_options(words)[1] if name == "set" else None
    if behind is not None:
        return behind, True
    if name != "shift" or given is None:
        return None
    number = (*rest, "1")[0]
    count = int(number) if number.isdecimal() and len(number) < 9 else len(given) + 1
    is_counted = are_decided(given[:count]) and not split_before(given, len(given))
    if given and not (all(word.is_known for word in words) and is_counted):
        return (UNDECIDED,), None
    return (given[count:], True) if count <= len(given) else (given, False)


def get_separators(values: Values) -> str:
    """Return the marks between the words of a value (`IFS`)."""
    marks = values.get("IFS", SEPARATORS)
    return marks if isinstance(marks, str) else SEPARATORS


def split_before(words: tuple[Word, ...], number: int) -> Word | None:
    """Return which of the first words may be several, or none, so that the text does not say which follow."""
    return next((word for word in words[:number] if word.is_split), None)


def get_argument(given: tuple[Word, ...], number: int) -> "Word | str":
    """Return an argument of a function, which is empty where its call has too few."""
    if not are_decided(given[:number]):
        return UNDECIDED
    if split := split_before(given, number - 1):
        return split
    return given[number - 1].value if number <= len(given) else ""


def list_elements(name: str, values: Values) -> tuple[Word, ...]:
    """Return what an array has so far."""
    value = values.get(name, ())
    return value if isinstance(value, tuple) else (Word(value) if isinstance(value, str) else value,)
