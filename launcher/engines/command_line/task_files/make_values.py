"""Variables and functions of make, filled in as make does it. Pure.

What make alone would know stays open within a text: a variable that nothing sets, what a program prints.
"""

from collections.abc import Callable, Mapping

from launcher.engines.command_line.shell.bracket_tests import Files
from launcher.errors import CommandRefused
from preflight import regex as re
from preflight.frozen import dataclass

_UNSET, _OPEN, _END = "\ue000", "\ue001", "\ue002"  # around what has no value; no text of a person has them
_MARKED = re.compile(f"[{_UNSET}{_OPEN}]([^{_UNSET}{_OPEN}{_END}]*){_END}")
_UNSET_NAME = re.compile(f"{_UNSET}[^{_END}]*{_END}")
_WORD = re.compile(rf"(?:{_MARKED.pattern}|\S)+")
_QUOTED = re.compile(r"\"(?:[^\"\\\n]|\\[^\n])*\"|'[^'\n]*'|\\.")
_FUNCTION = re.compile(r"(?P<name>[a-z][a-z-]*)[ \t\n]+(?P<given>.*)", re.DOTALL)
_GIVEN = re.compile(r"(?:\w+_)?(?:ARGS|FLAGS|OPTS|OPTIONS)|(?:\w+_)?(?:args|flags|opts)", re.ASCII)
"""What a user adds behind `make train`: empty where nothing does."""

_BUILT_IN = {"MAKE": "make", "RM": "rm -f", "SHELL": "/bin/sh"}
_RUNNING = ("MAKECMDGOALS", "MAKEFILE_LIST", "MAKEFLAGS", "MAKELEVEL")  # which make sets itself
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_SET = re.compile(
    r"(?P<name>[A-Za-z_]\w*)[ \t]*(?::{0,3}|[?+!])=.*|[^=]*:[ \t]*;[ \t]*@?(?::|true)", re.ASCII
)
"""A variable; or a rule that starts nothing, for words behind `make TARGET`."""

_DEEPEST = 50
_MOST, _LONGEST = 100_000, 2_000_000  # expansions of a file, and their characters


@dataclass(frozen=True, slots=True)
class MakeValue:
    """A variable of make."""

    text: str
    is_simple: bool = False  # filled in when it was set (`:=`)


def open_text(text: str) -> str:
    """Return a part of a text that has no value, as a shell is shown it."""
    return f"{_OPEN}{_MARKED.sub(_shown, text).replace(_UNSET, '').replace(_END, '')}{_END}"


def _shown(found: re.Match[str]) -> str:
    return found[1]


def decide_text(text: str) -> str | None:
    """Return a text that make compares, where a variable without a value is empty; None for an open one."""
    text = _UNSET_NAME.sub("", text)
    return None if _OPEN in text else text


def as_shell(text: str) -> str:
    """Return a filled recipe as a shell reads it: what is open within single quotes has a value, too."""
    if _END not in text:
        return text
    text = _QUOTED.sub(
        lambda one: _MARKED.sub("'\"\\1\"'", one[0]) if one[0].startswith("'") else one[0], text
    )
    return _MARKED.sub(_shown, text)


def list_words(text: str) -> list[str]:
    """Return the words of a filled text; what is open within one stays in one piece."""
    return [as_shell(one[0]) for one in _WORD.finditer(text)]


def quote_word(text: str) -> str:
    """Return a value as one word of a shell."""
    inner = text.replace("'", "'\\''")
    return _MARKED.sub("'\"\\1\"'", f"'{inner}'")


def split_given(text: str, most: int = 0) -> list[str]:
    """Split the arguments of a function at its commas, but for those in parentheses within it."""
    parts, depth, start = list[str](), 0, 0
    for at, sign in enumerate(text):
        depth += (sign in "({") - (sign in ")}")
        if sign == "," and depth == 0 and (not most or len(parts) < most - 1):
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]]


def find_closing(text: str, at: int) -> int:
    """Return where the parenthesis or brace at a place is closed, -1 for one that never is."""
    opening, depth = text[at], 0
    end = ")" if opening == "(" else "}"
    for place in range(at, len(text)):
        depth += (text[place] == opening) - (text[place] == end)
        if depth == 0:
            return place
    return -1


class MakeValues:
    """The variables of a file, and what texts with them stand for."""

    def __init__(self, environ: Mapping[str, str], files: Files | None) -> None:
        self.environ = environ
        self.files = files
        self.values: dict[str, MakeValue] = {}
        self.own: Mapping[str, MakeValue] = {}  # of the target whose recipe is read
        self.is_open = False  # whether a file that was not read may set others
        self.fails = False  # $(error ...)
        self.unread = ""  # what may set anything, and make rules
        self._left, self._count, self._depth = _LONGEST, 0, 0

    def find(self, name: str) -> MakeValue | None:
        """Return the variable of a name; the file's before that of the environment."""
        found = self.own.get(name) or self.values.get(name)
        name = "PWD" if name == "CURDIR" else name
        if found is None and isinstance(self.environ.get(name), str) and name != "SHELL":
            return MakeValue(self.environ[name], is_simple=True)
        return MakeValue(_BUILT_IN[name]) if found is None and name in _BUILT_IN else found

    def expand(self, text: str) -> str:
        """Return a text with the values of its variables and functions.

        Raises CommandRefused for a text whose variables grow without end.
        """
        if "$" not in text:
            return text
        self._depth += 1
        filled = self._filled(text) if self._depth < _DEEPEST else open_text(text)
        self._depth -= 1
        self.charge(len(filled))
        return filled

    def charge(self, length: int) -> None:
        """Count what a file becomes. Raises CommandRefused for more than any that launches something."""
        self._left -= length
        self._count += 1
        if self._left < 0 or self._count > _MOST:
            raise CommandRefused("the variables of the text grow without end", "paste one launch")

    def _filled(self, text: str) -> str:
        done: list[str] = []
        at = 0
        while (sign := text.find("$", at)) >= 0 and sign + 1 < len(text):
            done.append(text[at:sign])
            if text[sign + 1] in "({":
                end = find_closing(text, sign + 1)
                if end < 0:
                    return "".join(done) + text[sign:]
                done.append(self._value(text[sign + 2 : end], text[sign : end + 1]))
                at = end + 1
            else:
                one = text[sign + 1]
                done.append("$" if one == "$" else self._variable(one))
                at = sign + 2
        return "".join((*done, text[at:]))

    def _value(self, inner: str, shown: str) -> str:
        function = _FUNCTION.fullmatch(inner.lstrip())
        if function is not None and function["name"] in _FUNCTIONS:
            return _FUNCTIONS[function["name"]](self, function["given"], shown)
        if function is not None:
            name = function["given"].partition(",")[0].strip()
            called = self.find(name) if function["name"] == "call" else None
            self._perhaps(called.text if called is not None else "")
            return open_text(f"$({self.expand(inner)})")
        return self._variable(self.expand(inner))

    def _variable(self, name: str) -> str:
        found = self.find(name)
        if found is not None and found.is_simple:
            return found.text
        if found is not None:
            return self.expand(found.text)
        if _GIVEN.fullmatch(name) and not self.is_open:
            return ""
        if not _PLAIN_NAME.fullmatch(name):  # no `${a-b}`, which to a shell has a default
            return open_text(f"$({name})")
        return f"{_OPEN if self.is_open or name in _RUNNING else _UNSET}${{{name}}}{_END}"

    def strip(self, given: str, _: str) -> str:
        """`$(strip TEXT)`."""
        text = self.expand(given)
        known = decide_text(text)
        if known is not None and _UNSET not in text:
            return " ".join(known.split())
        return f"{_OPEN if known is None or known.strip() else _UNSET}{open_text(f'$(strip {text})')[1:]}"

    def choose(self, given: str, shown: str) -> str:
        """`$(if A,B,C)`."""
        first, *rest = split_given(given, 3)
        asked = decide_text(self.expand(first.strip()))
        if asked is None:
            self._perhaps(*rest)
            return open_text(shown)
        return self.expand((rest[0] if asked.strip() else "".join(rest[1:2])) if rest else "")

    def _perhaps(self, *texts: str) -> None:
        """Take what `$(eval ...)` sets in texts that make may use."""
        fails = self.fails
        for text in texts:
            self.expand(text)
        self.fails = fails

    def choose_any(self, given: str, shown: str) -> str:
        """`$(or A,B)`."""
        for part in split_given(given):
            text = decide_text(self.expand(part.strip()))
            if text is None or text.strip():
                return open_text(shown) if text is None else text
        return ""

    def run(self, given: str, _: str) -> str:
        """`$(shell COMMAND)`, which the shell reads."""
        return open_text(f"$({self.expand(given)})")

    def find_existing(self, given: str, shown: str) -> str:
        """`$(wildcard NAMES)`, of small files; what is none of them may be a directory."""
        names = (decide_text(self.expand(given)) or "*").split()
        are_files = self.files is not None and all(self.files(name) is not None for name in names)
        return " ".join(names) if are_files else open_text(shown)

    def stop(self, given: str, _: str) -> str:
        """`$(error TEXT)`."""
        self.expand(given)
        self.fails = True
        return ""

    def read(self, given: str, _: str) -> str:
        """`$(eval LINES)`, which are not read: what they set has no value."""
        lines = as_shell(self.expand(given)).replace("\\\n", " ").split("\n")
        for line in filter(str.strip, lines):
            found = _SET.fullmatch(line.strip())
            if found is None:
                self.unread = f"$(eval {given})"
            elif found["name"]:
                self.values[found["name"]] = MakeValue(open_text(f"$({found['name']})"), is_simple=True)
        return ""

    def say(self, given: str, _: str) -> str:
        """`$(info TEXT)`."""
        self.expand(given)
        return ""


def match_stem(word: str, pattern: str) -> str | None:
    """Return what `%` of a pattern stands for in a word; None for a word that it does not match."""
    start, sign, end = pattern.partition("%")
    if not sign:
        return "" if word == pattern else None
    is_match = word.startswith(start) and word.endswith(end) and len(word) >= len(start) + len(end)
    return word[len(start) : len(word) - len(end)] if is_match else None


_FUNCTIONS: Mapping[str, Callable[[MakeValues, str, str], str]] = {
    "strip": MakeValues.strip,
    "if": MakeValues.choose,
    "or": MakeValues.choose_any,
    "shell": MakeValues.run,
    "wildcard": MakeValues.find_existing,
    "error": MakeValues.stop,
    "eval": MakeValues.read,
    "info": MakeValues.say,
    "warning": MakeValues.say,
}
