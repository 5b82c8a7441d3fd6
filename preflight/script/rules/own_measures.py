"""What each rank measures of its own part of the data, and decides by it alone."""

import ast
from collections.abc import Collection, Iterable, Sequence
from typing import TypeVar

from preflight import regex as re
from preflight.script.interpreter.classes import find_method
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.rank_values import SEEDED, SEEDED_ALIKE
from preflight.script.libraries.data_loaders import is_divided
from preflight.script.source import list_names
from preflight.script.syntax_trees import unparse, walk
from preflight.script.values import Class, ExternalName, Ref, Value
from preflight.script.values.constants import TRUE

N = TypeVar("N", bound=ast.AST)
AGREES = re.compile(
    r"reduce|gather|broadcast|bcast|scatter|full_tensor|sync|collect|agree|average|mean_across|dist_|consensus"
)
"""Names in calls that give all ranks one value."""
_CLOCKS = re.compile(
    r"time\.(?:time|monotonic|perf_counter|process_time)(?:_ns)?|datetime\.datetime\.(?:now|utcnow)"
)
_CHANCES = re.compile(r"(?:random|numpy\.random)\.(?:random|rand|uniform|randint|choice)")
_COLLECTS = frozenset({"append", "extend", "add", "update", "step"})
_COUNTS = frozenset({"range", "trange", "count"})
_MEANS = re.compile(r"grad(?!\w*accum)|norm|param|optim|sched|scaler|metric|compute", re.IGNORECASE)
"""Names of what is the same on all ranks: behind backward(), or in metrics of libraries that ask them all."""
_MOST_STEPS = 60
_FORMS = frozenset(
    {
        *("shape", "ndim", "dtype", "device", "requires_grad", "size", "dim", "numel", "len", "keys"),
        *("isinstance", "hasattr", "callable", "type"),
    }
)
"""Attributes and calls that give the form of a value, which is the same on all ranks, not its numbers."""


def get_last_name(node: ast.AST) -> str:
    """Return the last name of `a.b` or `a`, of what a call calls too; "" for others."""
    node = node.func if isinstance(node, ast.Call) else node
    return getattr(node, "attr", getattr(node, "id", ""))


def list_number_names(node: ast.AST) -> list[str]:
    """Return the names whose numbers code asks; `out.shape`, `out is None` and `"aux" in out` ask none.

    Nor does the `x` of a lambda or comprehension ask what has that name outside.
    """
    forms = list_form_nodes(parts := walk(node))
    bound = [part.target for part in parts if type(part) is ast.comprehension]
    inner = {part.id for item in bound for part in walk(item) if type(part) is ast.Name}
    inner |= {part.arg for part in parts if type(part) is ast.arg}
    names = (part for part in parts if type(part) is ast.Name and part.id not in inner)
    return [name.id for name in names if id(name) not in forms]


def list_form_nodes(parts: Iterable[ast.AST]) -> set[int]:
    """Return which pieces of syntax are part of what asks the form of a value alone."""
    may_be = (part for part in parts if type(part) in _MAY_ASK_FORM)
    return {id(inner) for part in may_be if _is_of_form(part) for inner in walk(part)}


_MAY_ASK_FORM = frozenset({ast.Compare, ast.Call, ast.Attribute})


def _is_of_form(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare):
        return all(isinstance(each, (ast.Is, ast.IsNot, ast.In, ast.NotIn)) for each in node.ops)
    return get_last_name(node) in _FORMS


def is_agreed_in(it: Interpreter, nodes: Sequence[ast.AST]) -> bool:
    """Whether a call gives all ranks one value: by its name, or by what functions call in the end."""
    called, seen = {get_last_name(node) for node in nodes if isinstance(node, ast.Call)}, set[str]()
    parser = it.sources.parser
    objects = _list_called_objects(it, nodes)
    names: Collection[str] = called.union(*(parser.find(list_names, node) for node in objects))
    called = called.union(*(parser.find(_called, node) for node in objects))
    while called:
        if any(map(AGREES.search, names)):
            return True
        seen |= called
        own = it.list_functions(called)
        names = {name for node in own for name in parser.find(list_names, node)}
        called = {name for node in own for name in parser.find(_called, node)} - seen
    return any(map(AGREES.search, names))


def _list_called_objects(it: Interpreter, nodes: Sequence[ast.AST]) -> list[ast.AST]:
    """Return the code that calls of objects run: of `stop(loss)` what __call__() of its class does."""
    funcs = [node.func for node in nodes if type(node) is ast.Call]
    values: list[Value] = [it.lookup(func.id) for func in funcs if type(func) is ast.Name]
    held = [
        (func.value.id, func.attr)
        for func in funcs
        if type(func) is ast.Attribute and type(func.value) is ast.Name
    ]
    values += [it.attr(it.lookup(owner), name) for owner, name in held]
    methods = [find_method(it, value, "__call__") for value in values if type(value) is Ref]
    return [it.functions[method.key].node for method in methods if method is not None]


def _called(nodes: Sequence[ast.AST]) -> set[str]:
    return {get_last_name(node) for node in nodes if type(node) is ast.Call}


def is_measured_by(it: Interpreter, test: ast.expr, turns: ast.AST | None) -> bool:
    """Whether a rank is known to answer a condition for itself; `turns` is the loop that it ends."""
    trace = _Trace(it, it.scope, turns)
    return (
        trace.reaches(test) and not trace.means and not is_agreed_in(it, [*_calls_on(it, test), *walk(test)])
    )


def _calls_on(it: Interpreter, test: ast.expr) -> list[ast.Call]:
    """Return the calls of methods of what a condition asks: `meter.merge()` before `if meter.mean < x:`."""
    asked = {unparse(part) for part in walk(test) if type(part) in (ast.Name, ast.Attribute)}
    calls = ((call, call.func) for call in it.list_nodes(ast.Call))
    return [call for call, func in calls if type(func) is ast.Attribute and unparse(func.value) in asked]


def is_of_parts(it: Interpreter, iterable: ast.expr) -> bool:
    """Whether a loop goes over a loader that gives each rank its own part."""
    return any(isinstance(part, (ast.Name, ast.Attribute)) and _is_part(it, part) for part in walk(iterable))


def _is_part(it: Interpreter, node: ast.expr) -> bool:
    return _gives_part(it, it.evaluate(node))


def _gives_part(it: Interpreter, value: Value | None) -> bool:
    thing = it.thing(value)
    loads = thing is not None and thing.kind == "loader" and thing.get("touched") != TRUE
    return loads and thing is not None and is_divided(it, thing)


def _list_if_spans(nodes: Sequence[ast.AST]) -> list[tuple[int, int, ast.expr]]:
    """Return the conditions of code with the first and last line of what each decides."""
    return [(node.body[0].lineno, node.end_lineno or 0, node.test) for node in nodes if type(node) is ast.If]


class _Trace:
    """The values that a condition is made of, in one function and in those of the script that it calls."""

    def __init__(
        self,
        it: Interpreter,
        function: ast.AST,
        turns: ast.AST | None = None,
        depth: int = 2,
        owner: Ref | None = None,
    ) -> None:
        self._it, self._function, self._depth, self._owner = it, function, depth, owner
        self.means = False  # what it is made of is the same on all ranks
        loops = [node for node in self._all(ast.For) if node is not turns and self._goes_over_part(node)]
        self._fed = {name for node in loops for name in find_turn_value(node)}

    def _goes_over_part(self, loop: ast.For) -> bool:
        """Whether a loop goes over a rank's own part: `self.loader` is that of the method's owner."""
        if self._owner is None:
            return is_of_parts(self._it, loop.iter)
        held = (part for part in walk(loop.iter) if isinstance(part, ast.Attribute))
        own = (part.attr for part in held if getattr(part.value, "id", "") == "self")
        return any(_gives_part(self._it, self._it.attr(self._owner, name)) for name in own)

    def _all(self, kind: type[N]) -> list[N]:
        return self._it.sources.parser.list_nodes(self._function, kind)

    def reaches(self, *exprs: ast.expr) -> bool:
        """Whether expressions come to what is each rank's own."""
        pending, seen = list(exprs), set[str]()
        for count, expr in enumerate(pending):  # which grows
            parts = walk(expr)
            said = [get_last_name(part) for part in parts if type(part) in (ast.Name, ast.Attribute)]
            if count > _MOST_STEPS or _MEANS.search(" ".join(said)):
                self.means = True
                return False
            names = list_number_names(expr)
            calls = [part for part in parts if type(part) is ast.Call]
            if any(self._is_own(call, "") for call in calls) or not self._fed.isdisjoint(names):
                return True
            dotted = [unparse(part) for part in parts if type(part) is ast.Attribute]
            for name in (name for name in (*names, *dotted) if name not in seen):
                seen.add(name)
                for value, at in self._stores(name):
                    if isinstance(value, ast.Call) and self._is_own(value, name):
                        return True
                    pending += [value, *self._tests_around(at)]
                if "." in name and self._depth > 1 and self._is_of_object(name):
                    return True
        return False

    def _stores(self, name: str) -> list[tuple[ast.expr, ast.AST]]:
        return self._it.sources.parser.find(list_stores, self._function).get(name, [])

    def _tests_around(self, at: ast.AST) -> list[ast.expr]:
        """Return the conditions under which a statement of a loop is reached."""
        line = getattr(at, "lineno", 0)
        spans = self._it.sources.parser.find(_list_if_spans, self._function)
        return [test for first, last, test in spans if first <= line <= last]

    def _is_own(self, call: ast.Call, target: str) -> bool:
        """Whether a call gives what is each rank's own: the time, chance, or what a function measures."""
        it = self._it
        func = it.evaluate(call.func) if isinstance(call.func, (ast.Name, ast.Attribute)) else None
        if isinstance(func, ExternalName):
            seeded = it.notes.get(SEEDED) and not it.notes.get(SEEDED_ALIKE)
            known = _CLOCKS.fullmatch(func.name) or (seeded and _CHANCES.fullmatch(func.name))
            return bool(known)
        method = find_method(it, func, "__call__") if isinstance(func, Ref) else None
        own = [it.functions[method.key].node] if method else it.list_functions([get_last_name(call)])
        if len(own) != 1 or not isinstance(own[0], ast.FunctionDef) or not self._depth:
            return False
        if is_agreed_in(it, it.sources.parser.list_nodes(own[0], ast.Call) if method else [call]):
            self.means = True
            return False
        given = [word.arg for word in call.keywords if word.arg and _is_part(it, word.value)]
        params = [each.arg for each in own[0].args.args]
        bound = method is not None or isinstance(call.func, ast.Attribute)
        params = params[bound and params[:1] == ["self"] :]
        given += [param for param, arg in zip(params, call.args, strict=False) if _is_part(it, arg)]
        owner: Value | None = func
        if method is None and isinstance(call.func, ast.Attribute):
            owner = it.evaluate(call.func.value)
        inner = self._inside(own[0], owner if isinstance(owner, Ref) else None)
        return inner.measures(given, self._position(call, target))

    def _inside(self, function: ast.AST, owner: Ref | None = None) -> "_Trace":
        return _Trace(self._it, function, depth=self._depth - 1, owner=owner)

    def _position(self, call: ast.Call, target: str) -> int | None:
        """Return which of several values that a call gives has a name, None for one value."""
        for node in self._all(ast.Assign):
            if node.value is call and isinstance(node.targets[0], ast.Tuple):
                names = [unparse(item) for item in node.targets[0].elts]
                return names.index(target) if target in names else -1
        return None

    def measures(self, given: Sequence[str], position: int | None) -> bool:
        """Whether a function returns what it has measured of a loader that it gets."""
        for node in self._all(ast.For):
            if any(get_last_name(part) in given for part in walk(node.iter)):
                self._fed.update(find_turn_value(node))
        returns = [node.value for node in self._all(ast.Return) if node.value]
        if position is not None:
            tuples = [value.elts for value in returns if isinstance(value, ast.Tuple)]
            returns = [elts[position] for elts in tuples if 0 <= position < len(elts)]
        return self.puts(returns)

    def puts(self, exprs: Sequence[ast.expr]) -> bool:
        """Whether a function that goes through a loader puts what it has measured into something."""
        return bool(self._fed) and self.reaches(*exprs) and not self.means

    def _is_of_object(self, name: str) -> bool:
        """Whether methods of an object have put that into its attribute: `stopper.step(loss)`."""
        owner, _, attribute = name.rpartition(".")
        it = self._it
        held = it.evaluate(ast.parse(owner, mode="eval").body)
        cls = it.attr(held, "__class__") if isinstance(held, Ref) else None
        for info in it.mro(cls.key) if isinstance(cls, Class) else ():
            for method in (item for item in info.node.body if isinstance(item, ast.FunctionDef)):
                inner = self._inside(method)
                stored = inner._stores(f"self.{attribute}")  # noqa: SLF001 - of its own kind
                if not stored:
                    continue
                if is_agreed_in(it, it.sources.parser.list_nodes(method, ast.Call)):
                    self.means = True
                    return False
                exprs = [each for value, at in stored for each in (value, *inner._tests_around(at))]  # noqa: SLF001
                if owner == "self" and inner.puts(exprs):
                    return True
                calls = (f"{owner}.{method.name}", owner)
                if self.reaches(
                    *(
                        argument
                        for call in self._all(ast.Call)
                        if call.args and unparse(call.func) in calls
                        for argument in call.args
                    )
                ):
                    return True
        return False


_STORES = frozenset({ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr})


def list_stores(nodes: Sequence[ast.AST]) -> dict[str, list[tuple[ast.expr, ast.AST]]]:
    """Return what each name of a function is given, and where: what is put into it too."""
    stores: dict[str, list[tuple[ast.expr, ast.AST]]] = {}
    for node in nodes:
        targets, values = _stored(node) if type(node) in _STORES else ((), ())
        for target in targets:
            for held, given in _pair(target, values):
                part = find_holder(held)
                if isinstance(part, (ast.Name, ast.Attribute)):
                    key = part.id if isinstance(part, ast.Name) else unparse(part)
                    stores.setdefault(key, []).extend((value, node) for value in given)
    return stores


def find_holder(target: N) -> N | ast.expr:
    """Return what a statement stores into: `losses` of `losses[step] = loss`, which leaves `step` alone."""
    holder: N | ast.expr = target
    while isinstance(holder, ast.Subscript):
        holder = holder.value
    return holder


def _pair(target: ast.expr, values: Sequence[ast.expr]) -> list[tuple[ast.expr, Sequence[ast.expr]]]:
    """Return each target beside its values: `step, start = 0, time.time()` gives each name one of both."""
    if not isinstance(target, ast.Tuple):
        return [(target, values)]
    value = values[0] if len(values) == 1 else None
    items = value.elts if isinstance(value, ast.Tuple) else []
    if len(items) != len(target.elts) or any(
        isinstance(each, ast.Starred) for each in (*items, *target.elts)
    ):
        return [(part, values) for part in target.elts]
    return [(part, [item]) for part, item in zip(target.elts, items, strict=True)]


def _stored(node: ast.AST) -> tuple[Sequence[ast.expr], Sequence[ast.expr]]:
    if isinstance(node, ast.Assign):
        return node.targets, [node.value]
    if isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        return [node.target], [node.value] if node.value is not None else []
    call = node.value if isinstance(node, ast.Expr) else None
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and call.func.attr in _COLLECTS:
        return [call.func.value], call.args
    return (), ()


def list_turn_nodes(it: Interpreter, call: ast.Call) -> list[ast.AST]:
    """Return the syntax of the innermost loop around a call of the function that is read."""
    loops = (node for node in it.list_nodes(ast.For, ast.While) if node.lineno < call.lineno)
    around = [node for node in loops if call.lineno <= (node.end_lineno or 0)]
    return it.sources.parser.nodes(max(around, key=lambda node: node.lineno)) if around else []


def find_turn_value(node: ast.For) -> list[str]:
    """Return what a loop over data gives each turn, without its number; a range gives all ranks the same."""
    if isinstance(node.iter, ast.Call) and get_last_name(node.iter) in _COUNTS:
        return []
    target = node.target
    numbered = any(get_last_name(part) == "enumerate" for part in walk(node.iter))
    pair = numbered and isinstance(target, ast.Tuple) and len(target.elts) == 2
    return list_number_names(target.elts[1] if pair and isinstance(target, ast.Tuple) else target)
