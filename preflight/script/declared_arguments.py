"""One `add_argument` as it is written, where reading proves what it declares. Nothing is executed."""

import ast
from collections.abc import Collection, Mapping
from dataclasses import field

from preflight.facts.script import CodeLocation, OptionValue, ParserArgument
from preflight.frozen import dataclass

_ACTIONS = frozenset(
    {
        *("store", "store_true", "store_false", "store_const", "append", "append_const", "count", "extend"),
        *("help", "version"),
    }
)
KINDS = frozenset({"int", "float", "str"})
_SHOWN = frozenset({"help", "metavar", "dest", "const", "version", "deprecated"})
"""Keywords that change nothing about what is taken."""
_MAX_CHOICES = 1000


class Unproven(Exception):
    """Reading does not show what the parser takes."""


@dataclass(slots=True)
class Declarations:
    """What was added to a parser, in its order."""

    arguments: list[ParserArgument] = field(default_factory=list)
    required_groups: list[int] = field(default_factory=list)
    groups: int = 0

    def add(self, argument: ParserArgument) -> None:
        """Add an argument."""
        self.arguments.append(argument)

    def add_group(self, call: ast.Call) -> int:
        """Return the number of one more group of options that exclude each other. Raises Unproven."""
        self.groups += 1
        for value in (*call.args, *(item.value for item in call.keywords)):
            if not isinstance(value, ast.Constant):
                raise Unproven
            if value.value:
                self.required_groups.append(self.groups)
        return self.groups


@dataclass(slots=True)
class Built:
    """A parser as far as it was read."""

    add_help: bool = True
    allow_abbrev: bool = True
    escaped: bool = False  # something that is not read has it
    declared: Declarations = field(default_factory=Declarations)


@dataclass(frozen=True, slots=True)
class Group:
    """Where arguments are added: a parser, or options of it that may exclude each other."""

    parser: Built
    number: int  # 0: its options do not exclude each other


def read_argument(
    call: ast.Call, place: CodeLocation, constants: Mapping[str, ast.expr], modules: Collection[str]
) -> ParserArgument:
    """Return what a call of `add_argument` declares; `modules` are the names of argparse. Raises Unproven."""
    names = tuple(str(_constant(item) or "") for item in call.args)
    given = {item.arg or "": item.value for item in call.keywords}
    if not names or not all(names):
        raise Unproven
    action = _action(given.pop("action", None), modules)
    kind, listed = _kind(given.pop("type", None)), given.pop("choices", None)
    nargs = _nargs(given.pop("nargs", None))
    choices = _choices(listed, constants) if kind else None
    positional = not names[0].startswith("-")
    if positional and nargs == "*" and listed is not None:
        raise Unproven  # Python's versions differ in what an empty list is
    required = _constant(given.pop("required", None)) is True
    default = _constant(given.pop("default", None))
    if not _SHOWN.issuperset(given):
        raise Unproven
    return ParserArgument(place, names, action, kind, nargs, choices, required, default)


def _action(node: ast.expr | None, modules: Collection[str]) -> str:
    match node:
        case None:
            return "store"
        case ast.Constant(str() as name) if name in _ACTIONS:
            return name
        case ast.Attribute(ast.Name(module), "BooleanOptionalAction") if module in modules:
            return "boolean"
        case ast.Name("BooleanOptionalAction"):
            return "boolean"
    raise Unproven


def _kind(node: ast.expr | None) -> str:
    if node is None:
        return "str"
    return node.id if isinstance(node, ast.Name) and node.id in KINDS else ""


def _nargs(node: ast.expr | None) -> int | str | None:
    match node:
        case None | ast.Constant(None):
            return None
        case ast.Constant("?" | "*" | "+" as several):
            return several
        case ast.Constant(int() as count) if 0 < count < _MAX_CHOICES:
            return count
    raise Unproven


def _constant(node: ast.expr | None) -> OptionValue:
    match node:
        case ast.Constant(str() | int() | float() as value):
            return value
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
            return -value
    return None


def _choices(node: ast.expr | None, constants: Mapping[str, ast.expr]) -> tuple[OptionValue, ...] | None:
    """Return what is written out, None for other expressions."""
    if isinstance(node, ast.Name):
        node = constants.get(node.id)
    match node:
        case ast.List(items) | ast.Tuple(items) | ast.Set(items) if all(
            isinstance(item, ast.Constant) for item in items
        ):
            return tuple(_constant(item) for item in items)
        case ast.Call(ast.Name("range"), [*items], []) if all(
            isinstance(item, ast.Constant) for item in items
        ):
            return _numbers([_constant(item) for item in items])
    return None


def _numbers(bounds: list[OptionValue]) -> tuple[OptionValue, ...] | None:
    whole = [bound for bound in bounds if type(bound) is int]
    if len(whole) != len(bounds) or not 0 < len(whole) <= 3 or 0 in whole[2:]:
        return None
    numbers = range(*whole)
    return tuple(numbers) if len(numbers) <= _MAX_CHOICES else None
