"""Expansions of a shell (`$NAME`, `$((1 + 2))`, `{a,b}`), and nothing is run for them. Pure.

What needs a running shell stays unresolved: `$(hostname)`, `$RANDOM`, `$1`. `$@` is empty and `$#` is 0: a
text that is pasted has no arguments of its own, but for those that `set --` and the call of a function give.
"""

from collections.abc import Sequence
from itertools import pairwise

from launcher.engines.command_line.shell.arithmetic import evaluate_arithmetic, list_assigned
from launcher.engines.command_line.shell.block_extents import OPENERS, find_closing
from launcher.engines.command_line.shell.parameter_expansion import WrittenPart, expand_parameter
from launcher.engines.command_line.shell.variables import DEEPEST, Expansion, Split, Values, Variables
from launcher.engines.command_line.shell.words import Word
from preflight import regex as re

_MARK = re.compile(r"\"|(?<!\\)(?:\$[({]|`)")
_TEMPLATE = re.compile(r"\$\{\{[^{}\n]*\}\}")  # filled in by a workflow or Azure ML: `${{inputs.data}}`

_PART = re.compile(r"\$\{(?!\w+\})|\$\((?!\()|`")
_CALCULATED = re.compile(r"\$\(\((.*)\)\)|\$\[(.*)\]", re.DOTALL)
_SIMPLE = re.compile(r"\$(?P<name>[A-Za-z_]\w*|[0-9@*#?$!-])", re.ASCII)

_ESCAPED = re.compile(
    r"\\(?:x(?P<hex>[\da-fA-F]{1,2})|u(?P<code>[\da-fA-F]{1,4})|(?P<octal>[0-7]{1,3})|(?P<sign>.))", re.DOTALL
)
_ESCAPES = dict(zip("abefnrtv\\'\"?", "\a\b\x1b\f\n\r\t\v\\'\"?", strict=True))  # of `$'...'`


def expand(
    text: str, at: int, values: Values, split: Split, depth: int = 0, *, is_quoted: bool = False
) -> Expansion | None:
    """Return the expansion at a place; None for a plain character. Raises CommandRefused without an end."""
    template = _TEMPLATE.match(text, at)
    if template is not None:
        return Expansion(template.end(), unresolved=template[0])
    if text[at] == "`" or (text[at] == "$" and text[at : at + 2] in OPENERS):
        end = find_closing(text, at)
        return _bracketed(WrittenPart(text[at:end], end, values, split, depth, is_quoted))
    simple = _SIMPLE.match(text, at)
    if simple is None:
        return None
    return expand_parameter(simple["name"], WrittenPart(simple[0], simple.end(), values, split, depth))


def fill_parts(expression: str, values: Values, split: Split, depth: int) -> str:
    """Return an arithmetic expression with what `${#NAME}`, `${NAME:-2}` and `$(...)` in it stand for.

    A plain variable stays, which a loop changes; so does what has no value.
    """
    parts: list[str] = []
    at = 0
    while depth < DEEPEST and (found := _PART.search(expression, at)) is not None:
        one = expand(expression, found.start(), values, split, depth + 1)
        if one is None or one.text is None:
            break
        parts += [expression[at : found.start()], one.text or "0"]
        at = one.end
    return "".join((*parts, expression[at:]))


def escape_quoted(body: str) -> str:
    """Return a text in place as it is within double quotes: its own are characters, but in `$(...)`."""
    parts: list[str] = []
    at = 0
    while (found := _MARK.search(body, at)) is not None:
        end = found.end() if found[0] == '"' else find_closing(body, found.start())
        parts += [body[at : found.start()], r"\"" if found[0] == '"' else body[found.start() : end]]
        at = end
    return "".join((*parts, body[at:]))


def _bracketed(place: WrittenPart) -> Expansion:
    """Return what `$(...)`, `$((...))`, `$[...]`, `${...}` or a command in backticks stands for."""
    shown, values = place.shown, place.values
    if shown.startswith("${"):
        return expand_parameter(shown[2:-1], place)
    calculated = _CALCULATED.fullmatch(shown)
    if calculated is not None:
        inner = fill_parts(calculated[1] or calculated[2], values, place.split, place.depth)
        number = evaluate_arithmetic(inner, values)
        if number is not None:
            return Expansion(place.end, text=str(number))
        _forget_set(inner, shown, values)
    said = values.substitute(shown) if calculated is None and isinstance(values, Variables) else None
    return place.as_unresolved() if said is None else Expansion(place.end, text=said)


def _forget_set(expression: str, shown: str, values: Values) -> None:
    """Take what an expression sets in passing, as `--port $((PORT++))`, as without a value behind it."""
    if isinstance(values, Variables) and values.runs() is not False:
        for name in list_assigned(expression):
            lacking = f"${name} (set in {shown})"
            values[name] = Word(lacking, (lacking,))


def decode_escapes(text: str) -> str:
    """Return what the inside of `$'...'` stands for."""
    try:
        return _ESCAPED.sub(_unescaped, text).encode("utf-8", "surrogateescape").decode("utf-8")
    except UnicodeError:
        return text


def _unescaped(found: re.Match[str]) -> str:
    if found["sign"]:
        return _ESCAPES.get(found["sign"], found[0])
    number = int(found["octal"], 8) & 0xFF if found["octal"] else int(found["hex"] or found["code"], 16)
    is_byte = number >= 0x80 and not found["code"]  # of a character
    return chr(number + 0xDC00 * is_byte) if number else found[0]


_BRACES = re.compile(r"(?<!\$)\{(?P<inner>[^{}\s'\"\\()]{0,200}(?:,|\.\.)[^{}\s'\"\\()]{0,200})\}")
_QUOTED = re.compile(r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"|\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`", re.DOTALL)
_RANGE = re.compile(r"(?P<first>-?\d{1,9})\.\.(?P<last>-?\d{1,9})(?:\.\.(?P<step>-?\d{1,9}))?")
_LETTERS = re.compile(r"(?P<first>[A-Za-z])\.\.(?P<last>[A-Za-z])")
_MOST = 1000
_LONGEST = 1000


def expand_braces(word: str) -> tuple[str, ...]:
    """Return the words that the braces of one make, as it is written: quotes and variables stay in them.

    A word without such braces, or that makes more than a command can have, is returned as it is.
    """
    if len(word) > _LONGEST:
        return (word,)
    done: list[str] = []
    waiting = [word]
    while waiting:
        one = waiting.pop(0)
        plain = _QUOTED.sub(lambda quoted: "x" * len(quoted[0]), one)
        found = _BRACES.search(plain)
        parts = () if found is None else _parts(one[found.start() + 1 : found.end() - 1], found["inner"])
        if len(done) + len(waiting) + len(parts) > _MOST:
            return (word,)
        if found is None or not parts:
            done.append(one)
        else:
            waiting[:0] = [f"{one[: found.start()]}{part}{one[found.end() :]}" for part in parts]
    return tuple(done)


def _parts(inner: str, plain: str) -> Sequence[str]:
    """Return what a list or range in braces stands for, () for others; in `plain` what is quoted is x."""
    numbers, letters = _RANGE.fullmatch(inner), _LETTERS.fullmatch(inner)
    if numbers is not None:
        first, last, step = int(numbers["first"]), int(numbers["last"]), abs(int(numbers["step"] or 1)) or 1
        ends = numbers["first"], numbers["last"]
        width = max(map(len, ends)) if any(re.match(r"-?0\d", end) for end in ends) else 0
        span = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
        return [str(number).zfill(width) for number in span[: _MOST + 1]]
    if letters is not None:
        start, end = ord(letters["first"]), ord(letters["last"])
        return [chr(code) for code in (range(start, end + 1) if start <= end else range(start, end - 1, -1))]
    cuts = [-1, *(at for at, char in enumerate(plain) if char == ","), len(inner)]
    return [inner[start + 1 : end] for start, end in pairwise(cuts)] if len(cuts) > 2 else ()
