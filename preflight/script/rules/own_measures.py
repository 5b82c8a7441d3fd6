"""What each rank measures of its own part of the data, and decides by it alone."""

import ast
from collections.abc import Callable, Sequence

from preflight import regex as re
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.rank_values import SEEDED, SEEDED_ALIKE
from preflight.script.interpreter.values import TRUE, Class, ExternalName, Ref
from preflight.script.libraries.data_loaders import divides
from preflight.script.syntax_trees import walk

CLOCK, CHANCE, MEASURE = "its own clock", "numbers of its own seed", "what its own part of the data gave"
_CLOCKS = re.compile(
    r"time\.(?:time|monotonic|perf_counter|process_time)(?:_ns)?|datetime\.datetime\.(?:now|utcnow)"
)
_CHANCES = re.compile(r"(?:random|numpy\.random)\.(?:random|rand|uniform|randint|choice)")
_COLLECTS = frozenset({"append", "extend", "add", "update", "step"})
_COUNTS = frozenset({"range", "trange", "count"})
_MEANS = re.compile(r"grad(?!\w*accum)|norm|param|optim|sched|scaler|metric|compute", re.IGNORECASE)
"""Names of what is the same on all ranks: behind backward(), or in metrics of libraries that ask them all."""
_MOST_STEPS = 60

Names = Callable[[ast.AST], list[str]]
Agreed = Callable[[Interpreter, list[ast.AST]], bool]


def measured_by(
    it: Interpreter, test: ast.expr, turns: ast.AST | None, names_of: Names, agreed: Agreed
) -> str:
    """Return by what a rank answers a condition for itself, "" where that is not known.

    `turns` is the loop that the condition ends; `names_of` and `agreed` read syntax.
    """
    trace = _Trace(it, it.nodes[0], names_of, agreed, turns)
    found = trace.reaches(test)
    return "" if trace.means else found


def is_of_parts(it: Interpreter, iterable: ast.expr) -> bool:
    """Whether a loop goes over a loader that gives each rank its own part."""
    return any(isinstance(part, (ast.Name, ast.Attribute)) and _is_part(it, part) for part in walk(iterable))


def _is_part(it: Interpreter, node: ast.expr) -> bool:
    value = it.evaluate(node)
    thing = it.thing(value) if isinstance(value, Ref) else None
    return (
        thing is not None and thing.kind == "loader" and thing.get("touched") != TRUE and divides(it, thing)
    )


class _Trace:
    """The values that a condition is made of, in one function and in those of the script that it calls."""

    def __init__(
        self,
        it: Interpreter,
        function: ast.AST,
        names_of: Names,
        agreed: Agreed,
        turns: ast.AST | None = None,
        depth: int = 2,
    ) -> None:
        self._it, self._function, self._names_of, self._agreed, self._depth = (
            it,
            function,
            names_of,
            agreed,
            depth,
        )
        self._nodes = it.sources.parser.nodes(function)
        self.means = False  # what it is made of is the same on all ranks
        self._fed = [
            (set(fed_by(node, names_of)), node)
            for node in self._nodes
            if isinstance(node, ast.For) and node is not turns and is_of_parts(it, node.iter)
        ]

    def reaches(self, *exprs: ast.expr) -> str:
        """Return what expressions come to that is each rank's own."""
        pending, seen = list(exprs), set[str]()
        for count, expr in enumerate(pending):  # which grows
            parts = walk(expr)
            if count > _MOST_STEPS or any(_MEANS.search(_named(part)) for part in parts):
                self.means = True
                return ""
            names = self._names_of(expr)
            for part in parts:
                if isinstance(part, ast.Call) and (found := self._called(part, "")):
                    return found
            if any(name in fed for name in names for fed, _ in self._fed):
                return MEASURE
            dotted = [ast.unparse(part) for part in parts if isinstance(part, ast.Attribute)]
            for name in (name for name in (*names, *dotted) if name not in seen):
                seen.add(name)
                for value, at in self._stores(name):
                    if isinstance(value, ast.Call) and (found := self._called(value, name)):
                        return found
                    pending += [value, *self._tests_around(at)]
                if "." in name and self._depth > 1 and (found := self._of_object(name)):
                    return found
        return ""

    def _stores(self, name: str) -> list[tuple[ast.expr, ast.AST]]:
        return self._it.sources.parser.find(_stores_of, self._function).get(name, [])

    def _tests_around(self, at: ast.AST) -> list[ast.expr]:
        """Return the conditions under which a statement of a loop is reached."""
        line = getattr(at, "lineno", 0)
        ifs = (node for node in self._nodes if isinstance(node, ast.If))
        return [node.test for node in ifs if node.body[0].lineno <= line <= (node.end_lineno or 0)]

    def _called(self, call: ast.Call, target: str) -> str:
        """Return what a call gives that is each rank's own: the time, chance, or what a function measures."""
        it = self._it
        func = it.evaluate(call.func) if isinstance(call.func, (ast.Name, ast.Attribute)) else None
        if isinstance(func, ExternalName):
            if _CLOCKS.fullmatch(func.name):
                return CLOCK
            seeded = it.notes.get(SEEDED) and not it.notes.get(SEEDED_ALIKE)
            return CHANCE if seeded and _CHANCES.fullmatch(func.name) else ""
        name = _named(call.func)
        own = [info.node for info in it.functions.values() if getattr(info.node, "name", "") == name]
        if len(own) != 1 or not isinstance(own[0], ast.FunctionDef) or not self._depth:
            return ""
        if self._agreed(it, [call]):
            self.means = True
            return ""
        given = [word.arg for word in call.keywords if word.arg and _is_part(it, word.value)]
        params = [each.arg for each in own[0].args.args]
        params = params[isinstance(call.func, ast.Attribute) and params[:1] == ["self"] :]
        given += [param for param, arg in zip(params, call.args, strict=False) if _is_part(it, arg)]
        inner = self._inside(own[0])
        return inner.measures(given, self._position(call, target))

    def _inside(self, function: ast.AST) -> "_Trace":
        return _Trace(self._it, function, self._names_of, self._agreed, depth=self._depth - 1)

    def _position(self, call: ast.Call, target: str) -> int | None:
        """Return which of several values that a call gives has a name, None for one value."""
        for node in self._nodes:
            if isinstance(node, ast.Assign) and node.value is call and isinstance(node.targets[0], ast.Tuple):
                names = [ast.unparse(item) for item in node.targets[0].elts]
                return names.index(target) if target in names else -1
        return None

    def measures(self, given: Sequence[str], position: int | None, exprs: Sequence[ast.expr] = ()) -> str:
        """Return whether a function returns, or `exprs` are, what it has measured of a loader it gets."""
        for node in self._nodes:
            if isinstance(node, ast.For) and any(_named(part) in given for part in walk(node.iter)):
                self._fed.append((set(fed_by(node, self._names_of)), node))
        returns = [node.value for node in self._nodes if isinstance(node, ast.Return) and node.value]
        if position is not None:
            tuples = [value.elts for value in returns if isinstance(value, ast.Tuple)]
            returns = [elts[position] for elts in tuples if 0 <= position < len(elts)]
        found = self.reaches(*(exprs or returns)) if self._fed else ""
        return "" if self.means else found

    def _of_object(self, name: str) -> str:
        """Return what methods of an object have put into its attribute: `stopper.step(loss)`."""
        owner, _, attribute = name.rpartition(".")
        it = self._it
        held = it.evaluate(ast.parse(owner, mode="eval").body)
        cls = it.attr(held, "__class__") if isinstance(held, Ref) else None
        for info in it.mro(cls.key) if isinstance(cls, Class) else ():
            for method in (item for item in info.node.body if isinstance(item, ast.FunctionDef)):
                if f"self.{attribute}" not in it.sources.parser.find(_stores_of, method):
                    continue
                inner = self._inside(method)
                stored = inner._stores(f"self.{attribute}")  # noqa: SLF001 - of its own kind
                exprs = [each for value, at in stored for each in (value, *inner._tests_around(at))]  # noqa: SLF001
                if owner == "self" and (found := inner.measures((), None, exprs)):
                    return found
                calls = (node for node in self._nodes if isinstance(node, ast.Call) and exprs)
                given = [
                    argument
                    for call in calls
                    if ast.unparse(call.func) in (f"{owner}.{method.name}", owner)
                    for argument in call.args
                ]
                if found := self.reaches(*given):
                    return found
        return ""


def _stores_of(nodes: Sequence[ast.AST]) -> dict[str, list[tuple[ast.expr, ast.AST]]]:
    """Return what each name of a function is given, and where: what is put into it too."""
    stores: dict[str, list[tuple[ast.expr, ast.AST]]] = {}
    for node in nodes:
        targets, values = _stored(node)
        for target in targets:
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            for part in parts:
                if isinstance(part, (ast.Name, ast.Attribute)):
                    key = part.id if isinstance(part, ast.Name) else ast.unparse(part)
                    stores.setdefault(key, []).extend((value, node) for value in values)
    return stores


def _stored(node: ast.AST) -> tuple[list[ast.expr], list[ast.expr]]:
    if isinstance(node, ast.Assign):
        return node.targets, [node.value]
    if isinstance(node, (ast.AugAssign, ast.AnnAssign)):
        return [node.target], [node.value] if node.value is not None else []
    func = node.value.func if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else None
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and isinstance(func, ast.Attribute):
        return ([func.value], node.value.args) if func.attr in _COLLECTS else ([], [])
    return [], []


def fed_by(node: ast.For, names_of: Names) -> list[str]:
    """Return what a loop over data gives each turn, without the number of it."""
    called = _named(node.iter.func) if isinstance(node.iter, ast.Call) else ""
    target = node.target
    if called in _COUNTS:
        return []
    numbered = any(_named(part) == "enumerate" for part in walk(node.iter))
    return names_of(
        target.elts[1] if numbered and isinstance(target, ast.Tuple) and len(target.elts) == 2 else target
    )


def _named(node: ast.AST) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))
