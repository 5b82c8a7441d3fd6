"""Expansions of a shell (`$NAME`, `${NAME:-default}`, `$((1 + 2))`), and nothing is run for them. Pure.

What needs a running shell stays unresolved: `$(hostname)`, `$RANDOM`, `$1`. `$@` is empty and `$#` is 0: a
text that is pasted has no arguments of its own. The directory of the text's script (`$(dirname $0)`) is the
one that it is pasted in, and `$(date +%F)` is the time that EPOCHSECONDS gives, as in bash.
"""

import ast
import fnmatch
import operator
import posixpath
import re
import time
from collections.abc import Callable, Mapping
from typing import TypeAlias

from launcher.engines.command_line.words import Word
from launcher.errors import CommandRefused
from preflight.frozen import dataclass

Value: TypeAlias = str | Word | tuple[Word, ...]
Values: TypeAlias = Mapping[str, Value]
"""Variables: a text, a text of which a part has no value yet, or the words of an array."""

_OPENERS = {"$(": ")", "${": "}", "$[": "]", "<(": ")", ">(": ")"}
_SIMPLE = re.compile(r"\$(?P<name>[A-Za-z_]\w*|[0-9@*#?$!-])", re.ASCII)
_PARAMETER = re.compile(
    r"(?P<name>[A-Za-z_]\w*|[0-9]+)(?P<index>\[(?:[@*]|\d{1,6})\])?(?:(?P<mark>:?[-=+])(?P<word>.*))?",
    re.ASCII | re.DOTALL,
)
_ARGUMENTS = re.compile(r"[@*](?::\d+)?")
_COUNT = re.compile(r"#(?P<name>[A-Za-z_]\w*)\[[@*]\]", re.ASCII)
_LOOKUP = re.compile(
    r"(?:which|command -v|type -[pP]) (torchrun|accelerate|deepspeed|fabric|python[\d.]*)", re.ASCII
)
_PART = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<mark>##?|%%?)(?P<pattern>[^\[\]{}$`\"'\\]{1,200})", re.ASCII)
_REPLACED = re.compile(
    r"(?P<name>[A-Za-z_]\w*)/(?P<mark>[/#%]?)(?P<pattern>(?:\\.|[^/\\\[\]{}$`\"'])+)"
    r"(?:/(?P<new>(?:\\.|[^\\{}$`\"'&])*))?",
    re.ASCII,
)
_CASE = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<mark>\^\^?|,,?)", re.ASCII)
_SLICE = re.compile(r"(?P<name>[A-Za-z_]\w*):(?P<first>\d{1,4}| -\d{1,4})(?::(?P<count>\d{1,4}))?", re.ASCII)
_LENGTH = re.compile(r"#(?P<name>[A-Za-z_]\w*)", re.ASCII)
_PATH_PART = re.compile(
    r"(?P<part>basename|dirname) (?:-- )?(?P<path>\$\(.*\)|\S+|\"[^\"]*\")(?: (?P<suffix>[\w.\"'-]+))?"
)
_EXPR = re.compile(r"expr (.+)")
_DATE = re.compile(r"date \+(?P<quote>[\"']?)(?P<format>[^\"']*)(?P=quote)")
_OWN_PATH = r"[\"']?\$(?:0|\{0\}|\{BASH_SOURCE(?:\[0\])?(?::-\$0)?\}|BASH_SOURCE)[\"']?"
_OWN_FOLDER = re.compile(
    rf"dirname (?:-- )?[\"']?(?:\$\((?:realpath|readlink -f) (?:-- )?{_OWN_PATH}\)|{_OWN_PATH})[\"']?"
)
_ENTERED = re.compile(
    r"cd (?:-P )?(?:-- )?(?P<folder>.+?)(?: [&1]?>\s*/dev/null(?: 2>&1)?)? ?(?:&&|;) ?pwd(?: -P)?"
)
_REAL_PATH = re.compile(r"(?:realpath|readlink -f)(?: -[sm-])* (?P<path>[^-].*)")
_OPERAND = re.compile(r"\$?\{?([A-Za-z_]\w*)\}?", re.ASCII)
_ARITHMETIC = re.compile(r"[\d\s+*/%()<>=!&|-]{1,120}", re.ASCII)
_OPERATORS: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: lambda left, right: int(left / right),  # towards zero, as in C
    ast.Mod: lambda left, right: left - right * int(left / right),
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_LONGEST_CUT = 1024
_LARGEST = (1024, 63)
"""Base and exponent of a power: what a shell computes fits in 64 bits."""

_DEEPEST = 20
"""Defaults within defaults; no person writes more."""


@dataclass(frozen=True, slots=True)
class Expansion:
    """One expansion of a text: what it stands for, and where it ends."""

    end: int
    words: tuple[Word, ...] = ()  # of an array; () and no text: nothing at all
    text: str | None = None  # None: see `words` and `unresolved`
    open: Word | None = None  # a text of which a part has no value
    unresolved: str = ""  # the expansion itself, where only a running shell knows its value


Split: TypeAlias = Callable[[str, int], tuple[str, tuple[str, ...]]]
"""Reads a text, at a depth, as words: their text, and what of it is unresolved."""


def expand(text: str, at: int, values: Values, split: Split, depth: int = 0) -> Expansion | None:
    """Return the expansion that starts at a place; None where the character stands for itself.

    Raises CommandRefused for one that does not end.
    """
    if text[at] == "`" or (text[at] == "$" and text[at : at + 2] in _OPENERS):
        end = closing(text, at)
        return _bracketed(text[at:end], end, values, split, depth)
    simple = _SIMPLE.match(text, at)
    if simple is None:
        return None
    if simple["name"] in "@*":
        return Expansion(simple.end())
    if simple["name"] == "#":
        return Expansion(simple.end(), text="0")
    return _value(values.get(simple["name"]), simple[0], simple.end())


def closing(text: str, at: int) -> int:
    """Return the place behind the expansion or double quote that starts at `at`. Raises CommandRefused."""
    open_: list[str] = []
    here = at
    while here < len(text):
        char, pair = text[here], text[here : here + 2]
        top = open_[-1] if open_ else ""
        here += 1
        if char == "\\":
            here += 1
        elif open_ and char == top:
            open_.pop()
            if not open_:
                return here
        elif pair in _OPENERS:
            open_.append(_OPENERS[pair])
            here += 1
        elif char in '`"':
            open_.append(char)
        elif char == "(" and top == ")":
            open_.append(")")
        elif char == "'" and top not in ('"', ""):
            end = text.find("'", here)
            here = len(text) if end < 0 else end + 1
    raise no_end(text[at : at + 2].strip("\n"), text[at : at + 20])


def no_end(quote: str, start: str) -> CommandRefused:
    """Return the error for a quote or bracket that is open where the text ends."""
    return CommandRefused(f"the quote {quote} at {start!r} has no end", "close it, or paste the whole line")


def _value(value: Value | None, shown: str, end: int) -> Expansion:
    if value is None:
        return Expansion(end, unresolved=shown)
    if isinstance(value, Word):
        return Expansion(end, open=value)
    if isinstance(value, tuple):
        return Expansion(end, words=value[:1])
    return Expansion(end, text=value)


def _bracketed(shown: str, end: int, values: Values, split: Split, depth: int) -> Expansion:
    """Return what `$(...)`, `$((...))`, `$[...]`, `${...}` or a command in backticks stands for."""
    if shown.startswith("${"):
        return _braced(shown, end, values, split, depth)
    number = None
    if shown.startswith("$((") and shown.endswith("))"):
        number = arithmetic(shown[3:-2], values)
    elif shown.startswith("$["):
        number = arithmetic(shown[2:-1], values)
    if number is not None:
        return Expansion(end, text=str(number))
    command = " ".join(shown.strip("`").removeprefix("$(").removesuffix(")").split())
    if command.startswith("#"):  # `# a comment` within a command
        return Expansion(end)
    program = _LOOKUP.fullmatch(command)
    if program is not None:
        return Expansion(end, text=program[1])
    said = _printed(command, values, split, depth)
    return Expansion(end, unresolved=shown) if said is None else Expansion(end, text=said)


def _printed(command: str, values: Values, split: Split, depth: int) -> str | None:
    """Return what a command prints whose answer follows from the text alone, None for any other."""
    here, now = values.get("PWD"), values.get("EPOCHSECONDS")
    if command == "pwd":
        return here if isinstance(here, str) else None
    if command == "whoami":
        user = values.get("USER")
        return user if isinstance(user, str) else None
    if _OWN_FOLDER.fullmatch(command):
        return "."
    entered = _ENTERED.fullmatch(command)
    if entered is not None and isinstance(here, str) and depth < _DEEPEST:
        folder, lacking = split(entered["folder"], depth + 1)
        return None if lacking else posixpath.normpath(posixpath.join(here, folder))
    named = _PATH_PART.fullmatch(command)
    if named is not None and depth < _DEEPEST:
        path, lacking = split(named["path"], depth + 1)
        return None if lacking else _path_part(named["part"], path, (named["suffix"] or "").strip("\"'"))
    real = _REAL_PATH.fullmatch(command)
    if real is not None and depth < _DEEPEST:
        path, lacking = split(real["path"], depth + 1)
        return None if lacking else posixpath.normpath(path)
    expression = _EXPR.fullmatch(command)
    if expression is not None:
        number = arithmetic(expression[1].replace("\\*", "*"), values)
        return None if number is None else str(number)
    date = _DATE.fullmatch(command)
    if date is not None and isinstance(now, str) and now.isdecimal():
        return time.strftime(date["format"], time.localtime(int(now)))
    return None


def _path_part(part: str, path: str, suffix: str) -> str:
    """Return what basename and dirname of coreutils print."""
    path = path.rstrip("/") or path
    if part == "dirname":
        return posixpath.dirname(path) or "."
    name = posixpath.basename(path)
    return name.removesuffix(suffix) if name != suffix else name


def _without_part(text: str, mark: str, pattern: str) -> str:
    """Return what `${NAME#PATTERN}` and `${NAME%PATTERN}` leave; a double mark takes off the longest part."""
    matched = re.compile(fnmatch.translate(pattern))
    cuts = range(len(text) + 1)
    if mark[0] == "#":
        for cut in reversed(cuts) if mark == "##" else cuts:
            if matched.fullmatch(text[:cut]):
                return text[cut:]
    else:
        for cut in cuts if mark == "%%" else reversed(cuts):
            if matched.fullmatch(text[cut:]):
                return text[:cut]
    return text


def _replaced(text: str, mark: str, pattern: str, new: str) -> str:
    """Return what `${NAME/PATTERN/NEW}` makes of a text; `//` is each place, `/#` the start, `/%` the end."""
    globs = {"*": ".*", "?": "."}
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    found = "".join(globs.get(part) or re.escape(part[-1]) for part in parts)
    found = {"#": rf"\A{found}", "%": rf"{found}\Z"}.get(mark, found)
    to = re.sub(r"\\(.)", r"\1", new, flags=re.DOTALL)
    return re.sub(found, lambda _: to, text, count=0 if mark == "/" else 1, flags=re.DOTALL)


def _changed(inner: str, values: Values) -> str | None:
    """Return what `${NAME#a}`, `${NAME/a/b}`, `${NAME^^}`, `${NAME:0:2}` and `${#NAME}` make of a text."""
    for kind in (_PART, _REPLACED, _CASE, _SLICE, _LENGTH):
        match = kind.fullmatch(inner)
        whole = values.get(match["name"]) if match is not None else None
        if match is None or not isinstance(whole, str) or len(whole) > _LONGEST_CUT:
            continue
        if kind is _PART:
            return _without_part(whole, match["mark"], match["pattern"])
        if kind is _REPLACED:
            return _replaced(whole, match["mark"], match["pattern"], match["new"] or "")
        if not whole.isascii():  # the locale decides what a letter is
            return None
        if kind is _LENGTH:
            return str(len(whole))
        if kind is _SLICE:
            rest = whole[int(match["first"]) :] if -int(match["first"]) <= len(whole) else ""
            return rest[: int(match["count"])] if match["count"] else rest
        end = len(whole) if len(match["mark"]) > 1 else 1
        start = whole[:end].upper() if match["mark"][0] == "^" else whole[:end].lower()
        return start + whole[end:]
    return None


def _braced(shown: str, end: int, values: Values, split: Split, depth: int) -> Expansion:
    inner = shown[2:-1]
    if _ARGUMENTS.fullmatch(inner):
        return Expansion(end)
    counted = _COUNT.fullmatch(inner)
    counted_words = values.get(counted["name"]) if counted is not None else None
    if isinstance(counted_words, tuple):
        return Expansion(end, text=str(len(counted_words)))
    changed = _changed(inner, values)
    if changed is not None:
        return Expansion(end, text=changed)
    match = _PARAMETER.fullmatch(inner)
    if match is None or depth >= _DEEPEST:
        return Expansion(end, unresolved=shown)
    value = values.get(match["name"])
    if match["index"] and isinstance(value, tuple):
        number = match["index"][1:-1]
        if number in "@*":
            return Expansion(end, words=value)
        chosen = value[int(number) : int(number) + 1]
        return Expansion(end, words=chosen) if chosen else Expansion(end, text="")
    mark = match["mark"] or ""
    is_set = value is not None and not (value == "" and mark.startswith(":"))
    if mark.endswith("+") or (mark and not is_set):
        if is_set is not mark.endswith("+"):
            return Expansion(end, text="")
        text, lacking = split(match["word"], depth + 1)
        if mark.endswith("=") and not lacking and isinstance(values, dict):
            values[match["name"]] = text
        return Expansion(end, unresolved=shown) if lacking else Expansion(end, text=text)
    return _value(value, shown, end)


def arithmetic(text: str, values: Values) -> int | None:
    """Return the number of an arithmetic expression, None where a variable of it has none."""

    def number(match: re.Match[str]) -> str:
        value = values.get(match[1])
        return f"({value})" if isinstance(value, str) and _ARITHMETIC.fullmatch(value.strip()) else "?"

    filled = _OPERAND.sub(number, text[:400].replace('"', "").replace("$#", "0")).strip()
    if not _ARITHMETIC.fullmatch(filled):
        return None
    filled = re.sub(r"!(?!=)", " not ", filled.replace("&&", " and ").replace("||", " or "))
    try:
        return _computed(ast.parse(filled.strip(), mode="eval").body)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError):
        return None


def _computed(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_computed(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _OPERATORS[type(node.op)](_computed(node.left), _computed(node.right))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        base, exponent = _computed(node.left), _computed(node.right)
        if abs(base) <= _LARGEST[0] and 0 <= exponent <= _LARGEST[1]:
            return int(base**exponent)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return int(not _computed(node.operand))
    if isinstance(node, ast.BoolOp):
        values = [bool(_computed(value)) for value in node.values]
        return int(all(values) if isinstance(node.op, ast.And) else any(values))
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _COMPARISONS:
        compare = _COMPARISONS[type(node.ops[0])]
        return int(compare(_computed(node.left), _computed(node.comparators[0])))
    raise ValueError(ast.dump(node))
