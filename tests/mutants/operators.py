"""The mutants of a source text: one operator, one number, one condition changed in each."""

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitOr: ast.BitAnd,
    ast.BitAnd: ast.BitOr,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
}
_CALLED = {"any": "all", "all": "any", "min": "max", "max": "min"}


@dataclass(frozen=True, slots=True, order=True)
class Mutant:
    """A change of a source: the bytes from start to end become `new`."""

    line: int
    start: int
    end: int
    old: str
    new: str
    in_function: bool = False  # what it changes is evaluated when a function is called, not at import

    def apply(self, source: bytes) -> bytes:
        """Return the source with the change made; all other lines keep their numbers."""
        lines = "\n" * self.old.count("\n")
        new = self.new[:-1] + lines + ")" if self.new.endswith(")") else self.new + lines
        return source[: self.start] + new.encode() + source[self.end :]


def mutants(source: bytes) -> list[Mutant]:
    """Return every mutant of a module, in order. Annotations, decorators and texts stay as they are."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = []
    tree = ast.parse(source)
    inside = {id(node) for body in _bodies(tree) for node in ast.walk(body)}
    for node, new in _walk(tree):
        start = starts[node.lineno - 1] + node.col_offset
        assert node.end_lineno is not None and node.end_col_offset is not None  # noqa: PT018 - parse sets both
        end = starts[node.end_lineno - 1] + node.end_col_offset
        old = source[start:end].decode()
        found.append(Mutant(node.lineno, start, end, old, new, id(node) in inside))
    return sorted(set(found))


def _bodies(tree: ast.Module) -> Iterator[ast.stmt]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from node.body


def _walk(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    match node:
        case ast.JoinedStr():  # Python 3.11 knows no places inside
            return
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return
        case ast.Break():
            yield node, "continue"
        case ast.Continue():
            yield node, "break"
        case ast.AugAssign(op=op) if type(op) in _COMPUTED:
            yield node, _changed(node, _set_op(_COMPUTED[type(op)]))
        case ast.expr():
            yield from ((node, f"({new})") for new in _expression(node))
    for child in _conditions(node):
        if not isinstance(child, ast.Compare | ast.BoolOp | ast.Constant) and not _negates(child):
            yield child, f"(not ({ast.unparse(child)}))"
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        for child in value if isinstance(value, list) else (value,):
            if isinstance(child, ast.AST):
                yield from _walk(child)


def _conditions(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test):
            return [test]
        case ast.comprehension(ifs=ifs):
            return ifs
        case ast.BoolOp(values=values):
            return values
    return []


def _negates(node: ast.expr) -> bool:
    return isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)


def _expression(node: ast.expr) -> Iterator[str]:
    match node:
        case ast.Compare(ops=ops):
            for place, op in enumerate(ops):
                yield _changed(node, _set_compared(place, _COMPARED[type(op)]))
        case ast.BoolOp(op=op):
            yield _changed(node, _set_op(ast.Or if isinstance(op, ast.And) else ast.And))
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield ast.unparse(operand)
        case ast.BinOp(op=op) if type(op) in _COMPUTED:
            yield _changed(node, _set_op(_COMPUTED[type(op)]))
        case ast.Call(func=ast.Name(id=name)) if name in _CALLED:
            yield _changed(node, _set_called(_CALLED[name]))
        case ast.Constant(value=bool() as value):
            yield str(not value)
        case ast.Constant(value=int() | float() as value):
            yield repr(value + 1)


def _changed(node: ast.AST, change: Callable[[ast.AST], None]) -> str:
    other = copy.deepcopy(node)
    change(other)
    return ast.unparse(other)


def _set_op(op: type[ast.AST]) -> Callable[[ast.AST], None]:
    return lambda node: setattr(node, "op", op())


def _set_compared(place: int, op: type[ast.cmpop]) -> Callable[[ast.AST], None]:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Compare)
        node.ops[place] = op()

    return change


def _set_called(name: str) -> Callable[[ast.AST], None]:
    def change(node: ast.AST) -> None:
        assert isinstance(node, ast.Call)
        node.func = ast.Name(name)

    return change
