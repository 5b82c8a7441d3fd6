"""What numbers, divides or shuffles by the order of a set of texts, which is another in each process."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import RANK_0, find_branch_places
from preflight.script.rules.own_measures import AGREES, get_last_name
from preflight.script.syntax_trees import ByKind, root_of, unparse, walk

_TEXTS = re.compile(
    r"\.(?:r?strip|lower|upper|r?split|splitlines|casefold|title|stem|decode|replace|join)\b|\bstr\(|\bf['\"]"
    r"|(?i:word|token|label|class|categor|species|speaker|vocab|char|_tags?\b|\btags?\b|_names?\b|\bnames?\b|path|files?\b|text|sentence|phon|intent"
    r"|symbol|smiles|genre|lang|caption|string)"
)
"""What texts are made by, or called."""
_NUMBERS = re.compile(r"\bint\(|\bid\b|ids?\b|range\(|\.tolist\(|\.item\(|\.shape\b|\blen\(|index")
_OF_SETS = frozenset({"union", "intersection", "difference", "symmetric_difference", "copy"})
_KEEPS = frozenset({"list", "tuple", "array", "asarray", "iter", "reversed", "tqdm", "deepcopy"})
_RANDOM = re.compile("random|rng")
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def list_set_uses(kinds: ByKind) -> list[tuple[ast.expr, str]]:
    """Return the expressions of a file by which the order of a set of texts counts, and for what."""
    functions: list[_Function] = [*kinds.get(ast.FunctionDef, ()), *kinds.get(ast.AsyncFunctionDef, ())]
    firsts = [node for node in kinds.get(ast.If, ()) if find_branch_places(node.test)[0] == RANK_0]
    lines = {line for node in firsts for line in range(node.lineno, (node.body[-1].end_lineno or 0) + 1)}
    found = []
    walked = [walk(function) for function in functions]
    inside = {id(part) for nodes in walked for part in nodes[1:]}
    for nodes in ([part for part in walk(root_of(kinds)) if id(part) not in inside], *walked):
        if not any(isinstance(part, ast.Call) and AGREES.search(get_last_name(part)) for part in nodes):
            uses = _Scope(nodes, functions, kinds).list_uses()
            found += [(node, what) for node, what in uses if node.lineno not in lines]
    return found


class _Scope:
    """The names of one function, and the functions and attributes of its file."""

    def __init__(self, nodes: list[ast.AST], functions: list[_Function], kinds: ByKind) -> None:
        self.nodes, self.functions, self.kinds = nodes, functions, kinds
        self.asked = set[str]()

    def list_uses(self) -> Iterator[tuple[ast.expr, str]]:
        """Yield what numbers, divides or shuffles by the order of a set of texts."""
        for node in self.nodes:
            if isinstance(node, (ast.DictComp, ast.GeneratorExp)):
                numbered = self._numbered(node.generators[0].iter)
                if numbered and isinstance(node.generators[0].target, ast.Tuple):
                    yield numbered, "numbers them"
            elif isinstance(node, ast.For):
                if (numbered := self._numbered(node.iter)) and _counts(node):
                    yield numbered, "numbers them"
                elif self.is_unordered(node.iter) and _counts(node):
                    yield node.iter, "numbers them"
            elif isinstance(node, ast.Call):
                yield from self._of_call(node)
            elif isinstance(node, ast.Subscript) and _is_part_of_rank(node) and self.is_unordered(node.value):
                yield node.value, "takes its part"

    def _of_call(self, node: ast.Call) -> Iterator[tuple[ast.expr, str]]:
        name = get_last_name(node)
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name == "index" and owner is not None and len(node.args) == 1 and self.is_unordered(owner):
            yield node, "numbers them"
        elif name == "dict" and node.args and (numbered := self._numbered(node.args[0])):
            yield numbered, "numbers them"
        elif name in ("shuffle", "sample") and node.args and self.is_unordered(node.args[0]):
            yield from [(node.args[0], "shuffles them")] if _RANDOM.search(unparse(node.func)) else ()

    def _numbered(self, node: ast.expr) -> ast.expr | None:
        """Return the set of `enumerate(set)` and `zip(set, range(n))`."""
        if not (isinstance(node, ast.Call) and node.args):
            return None
        name, rest = get_last_name(node), " ".join(map(unparse, node.args))
        numbers = name == "enumerate" or (name == "zip" and ("range(" in rest or "count(" in rest))
        parts = node.args if numbers else ()
        return next((part for part in parts if self.is_unordered(part)), None)

    def is_unordered(self, node: ast.expr) -> bool:
        """Whether an expression has the order of a set of texts."""
        self.asked.clear()
        made = [*self._sets(node)]
        words = " ".join([unparse(node), *map(unparse, made), *self._added(made)])
        return bool(made) and _TEXTS.search(words) is not None and _NUMBERS.search(words) is None

    def _sets(self, node: ast.expr) -> Iterator[ast.expr]:
        """Yield the sets whose order an expression has."""
        if isinstance(node, ast.SetComp):
            yield node
        elif isinstance(node, ast.BinOp) and isinstance(
            node.op, (ast.BitOr, ast.BitAnd, ast.Sub, ast.BitXor)
        ):
            yield from self._sets(node.left)
            yield from self._sets(node.right)
        elif isinstance(node, ast.ListComp) and len(node.generators) == 1:
            yield from self._sets(node.generators[0].iter)
        elif isinstance(node, ast.Call):
            yield from self._sets_of_call(node)
        elif isinstance(node, (ast.Name, ast.Attribute)) and (name := unparse(node)) not in self.asked:
            self.asked.add(name)
            values = self._values(name)
            made = [each for value in values for each in self._sets(value)]
            parts = (part for value in values for part in walk(value))
            again = any(type(part) in (ast.Name, ast.Attribute) and unparse(part) == name for part in parts)
            if made and not again and not self._is_sorted(name):  # none of `names = sorted(names)`
                yield from made

    def _sets_of_call(self, node: ast.Call) -> Iterator[ast.expr]:
        name = get_last_name(node)
        if name in ("set", "frozenset") and isinstance(node.func, ast.Name):
            yield node
        elif name in _OF_SETS and isinstance(node.func, ast.Attribute):
            yield from self._sets(node.func.value)
        elif name in _KEEPS and node.args:
            yield from self._sets(node.args[0])
        elif name not in self.asked:
            self.asked.add(name)
            for function in [each for each in self.functions if each.name == name][:1]:
                inner = _Scope(walk(function), self.functions, self.kinds)
                inner.asked = self.asked
                for part in inner.nodes:
                    yield from inner._sets(part.value) if isinstance(part, ast.Return) and part.value else ()

    def _nodes_of(self, name: str) -> list[ast.AST]:
        """Return where a name may get a value: of an attribute anywhere in the file."""
        if "." not in name:
            return self.nodes
        return [node for kind in (ast.Assign, ast.AnnAssign, ast.Call) for node in self.kinds.get(kind, ())]

    def _values(self, name: str) -> list[ast.expr]:
        stores = (node for node in self._nodes_of(name) if isinstance(node, (ast.Assign, ast.AnnAssign)))
        pairs = (
            (node.targets[0] if isinstance(node, ast.Assign) else node.target, node.value) for node in stores
        )
        return [value for target, value in pairs if value and unparse(target) == name]

    def _is_sorted(self, name: str) -> bool:
        calls = (node for node in self._nodes_of(name) if isinstance(node, ast.Call))
        return any(unparse(node.func) == f"{name}.sort" for node in calls)

    def _added(self, made: list[ast.expr]) -> list[str]:
        """Return what is added to sets that are made empty."""
        empty = any(isinstance(node, ast.Call) and not node.args for node in made)
        calls = self.kinds.get(ast.Call, ()) if empty else ()
        added = (node for node in calls if get_last_name(node) in ("add", "update") and node.args)
        return [unparse(node) for node in added]


def _is_part_of_rank(node: ast.Subscript) -> bool:
    """Whether this is `files[rank::world]`."""
    return isinstance(node.slice, ast.Slice) and node.slice.step is not None and "rank" in unparse(node.slice)


def _counts(loop: ast.For) -> bool:
    """Whether a loop puts numbers of its items into a dict: `index[word] = i`, `index[word] = len(index)`."""
    names = {part.id for part in walk(loop.target) if isinstance(part, ast.Name)}
    counted = {unparse(part.target) for part in walk(loop) if isinstance(part, ast.AugAssign)}
    for part in (part for part in walk(loop) if isinstance(part, ast.Assign)):
        target = part.targets[0]
        if isinstance(target, ast.Subscript) and names & {unparse(each) for each in walk(target.slice)}:
            value = unparse(part.value)
            if value in names | counted or value == f"len({unparse(target.value)})":
                return True
    return False
