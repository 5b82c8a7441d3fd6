"""Arithmetic of a shell, in whole numbers: `$((2 * N))`, `((N > 4))`. Pure."""

import ast
import operator
from collections.abc import Callable, Iterator

from launcher.engines.command_line.shell.associative_arrays import get_elements, is_associative
from launcher.engines.command_line.shell.variables import Value, Values, are_decided, get_args, get_argument
from launcher.engines.command_line.shell.words import Word
from preflight import regex as re

_OPERAND = re.compile(r"\$?\{?([A-Za-z_]\w*)\}?|\$\{?([1-9]\d{0,3})\}?", re.ASCII)
_ELEMENT = re.compile(r"\$?\{?\b([A-Za-z_]\w*)\[([^\[\]]{1,60})\]\}?", re.ASCII)
_ARITHMETIC = re.compile(r"(?!.*(?:<<|>>))(?:[\d\s+*/%()<>=!?:-]|&&|\|\|){1,120}", re.ASCII | re.DOTALL)
"""Without bits and shifts, which no launch script has."""

_CALCULATED = re.compile(
    r"\s*(?P<name>[A-Za-z_]\w*(?:\[[^\[\]=]{1,60}\])?)\s*(?:(?P<mark>[+*/%-]?)=(?P<expression>[^=].*)|(?P<step>\+\+|--))\s*",
    re.ASCII,
)
_STEP_BEFORE = re.compile(r"\A\s*(\+\+|--)\s*([A-Za-z_]\w*)\s*\Z", re.ASCII)
_SETS = re.compile(
    r"(?:\+\+|--)\s*\$?\{?([A-Za-z_]\w*)"
    r"|\b([A-Za-z_]\w*)(?:\[[^\[\]]*\])?\s*(?:\+\+|--|(?:<<|>>|[+*/%&|^-])?=(?!=))",
    re.ASCII,
)


def _quotient(left: int, right: int) -> int:
    """Return a quotient that is rounded towards zero, as in C."""
    size = abs(left) // abs(right)
    return size if (left < 0) == (right < 0) else -size


_OPERATORS: dict[type[ast.AST], Callable[..., int]] = {
    ast.USub: operator.neg,
    ast.Not: operator.not_,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: _quotient,
    ast.Mod: lambda left, right: left - right * _quotient(left, right),
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}
_LARGEST = (1024, 63)  # base and exponent of a power


def evaluate_arithmetic(text: str, values: Values) -> int | None:
    """Return the number of an arithmetic expression, None where a variable of it has none."""
    if any(list_assigned(text)):
        return None
    given = get_args(values)

    def number(match: re.Match[str]) -> str:
        is_argument = match[2] is not None and given is not None
        value = get_argument(given or (), int(match[2])) if is_argument else values.get(match[1])
        return f"({value})" if isinstance(value, str) and _ARITHMETIC.fullmatch(value.strip()) else "\0"

    text = _ELEMENT.sub(lambda match: _element(match[1], match[2], values), text[:400])
    count = str(len(given or ())) if are_decided(given or ()) else "\0"
    filled = _OPERAND.sub(number, text.replace('"', "").replace("$#", count)).strip()
    if not _ARITHMETIC.fullmatch(filled):
        return None
    filled = _with_choice(filled).replace("&&", " and ").replace("||", " or ")
    filled = " ".join(re.sub(r"!(?!=)", " not ", filled).split())  # places are those of one line
    try:
        tree = ast.parse(filled, mode="eval")
        return None if _binds_otherwise(filled, tree) else _computed(tree.body)
    except (SyntaxError, ValueError, ZeroDivisionError, OverflowError):
        return None


def _element(name: str, key: str, values: Values) -> str:
    """Return `NAME[KEY]` of an array as a number; a mark that no expression has without one."""
    value, word = values.get(name), None
    if is_associative(name, values):
        key = re.sub(r"\$\{?(\w+)\}?", lambda found: _text(values.get(found[1])), key.strip("\"'"))
        word = (get_elements(name, values) or {}).get(key)
    elif isinstance(value, tuple):
        number = evaluate_arithmetic(key, values)
        is_within = number is not None and -len(value) <= number < len(value)
        word = value[number] if number is not None and is_within else None
        word = None if any(one.is_split for one in value) else word
    is_number = word is not None and word.is_known and _ARITHMETIC.fullmatch(word.text.strip())
    return f"({word.text})" if word is not None and is_number else "\0"


def _text(value: Value | None) -> str:
    return value if isinstance(value, str) else "\0"


def read_assignment(text: str, values: Values) -> tuple[str, int | None]:
    """Return the variable that `N += 2` sets and its number (None without one), "" for other texts."""
    found = _CALCULATED.fullmatch(_STEP_BEFORE.sub(r"\2\1", text))
    if found is None:
        return "", None
    name, right = found["name"], found["expression"] or "1"
    mark = found["mark"] or (found["step"] or "")[:1]
    return name, evaluate_arithmetic(f"{name} {mark} ({right})" if mark else right, values)


def assign_number(word: Word, values: Values) -> Word:
    """Return an assignment to a variable of `declare -i` with its number; any other word as it is."""
    name, equals, value = word.text.partition("=")
    if not equals or f"{name.rstrip('+')} -i" not in values:
        return word
    number = read_assignment(f"{name}={value or 0}", values)[1]
    shown = f"$(({value}))" if number is None else str(number)
    return Word(f"{name.rstrip('+')}={shown}", (shown,) if number is None else ())


def is_true(text: str, values: Values) -> bool | None:
    """Whether `((N += 2))` or `((N++))` says something else than 0; None where that is not known."""
    number = read_assignment(text, values)[1]
    return None if number is None else number != {"++": 1, "--": -1}.get(text.strip()[-2:], 0)


def list_assigned(text: str) -> Iterator[str]:
    """Yield the variables that an expression sets: `P++`, `N += 2`."""
    return (found[1] or found[2] for found in _SETS.finditer(text))


def _in_64_bits(number: int) -> int:
    """Return a number as it is; raises ValueError for one that a shell would wrap around."""
    if not -1 << 63 <= number < 1 << 63:
        raise ValueError(number)
    return number


def _binds_otherwise(text: str, tree: ast.AST) -> bool:
    """Whether a sign takes more than in a shell, which reads `! A == B` as `(! A) == B`, and `-A ** B` so."""
    signs = [node for node in ast.walk(tree) if isinstance(node, ast.UnaryOp)]
    return any(
        isinstance(node.operand, (ast.BinOp, ast.Compare))
        and "(" not in text[node.col_offset : node.operand.col_offset]
        for node in signs
    )


def _with_choice(text: str) -> str:
    """Return an expression with `A ? B : C` as Python has it; the parts may have parentheses around them."""
    found = re.fullmatch(r"([^?:]+)\?([^?:]+):(.+)", text)
    return text if found is None else f"({found[2]}) if ({found[1]}) else ({_with_choice(found[3].strip())})"


def _computed(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return _in_64_bits(node.value)
    if isinstance(node, ast.UnaryOp) and type(node.op) in _OPERATORS:
        return int(_OPERATORS[type(node.op)](_computed(node.operand)))
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return _in_64_bits(_OPERATORS[type(node.op)](_computed(node.left), _computed(node.right)))
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        base, exponent = _computed(node.left), _computed(node.right)
        if abs(base) <= _LARGEST[0] and 0 <= exponent <= _LARGEST[1]:
            return _in_64_bits(int(base**exponent))
    if isinstance(node, ast.IfExp):
        return _computed(node.body if _computed(node.test) else node.orelse)
    if isinstance(node, ast.BoolOp):
        values = [bool(_computed(value)) for value in node.values]
        return int(all(values) if isinstance(node.op, ast.And) else any(values))
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _OPERATORS:
        return int(_OPERATORS[type(node.ops[0])](_computed(node.left), _computed(node.comparators[0])))
    raise ValueError(ast.dump(node))
