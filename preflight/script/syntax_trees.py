"""Syntax trees of a script and its modules, and what is looked for in their nodes. Nothing is executed."""

import ast
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar, cast

from preflight.script.bounds import MAX_MODULE, MAX_WORDS, count_words, pause_collector

T = TypeVar("T")
N = TypeVar("N", bound=ast.AST)

_PLAIN = frozenset(
    {*("ctx", "op", "ops", "id", "attr", "arg", "kind"), *("module", "level", "asname", "type_comment")}
)
_PARTS = {
    kind: () if kind is ast.Constant else tuple(name for name in kind._fields if name not in _PLAIN)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
"""The fields of each kind of node that may hold others."""
_MIXED = frozenset({"keys", "kw_defaults", "names", "kwd_attrs"})  # fields that hold None or words too
_TEXT = "gpulaunch_text"  # where a node keeps how it is written
_BLOCKS = ("body", "handlers", "orelse", "finalbody", "cases")
"""The fields of statements, handlers and cases that hold statements."""


ByKind = Mapping[type[ast.AST], list[Any]]


def group_by_kind(nodes: Sequence[ast.AST]) -> ByKind:
    """Return nodes by their kind; the first is of the first kind."""
    found: defaultdict[type[ast.AST], list[Any]] = defaultdict(list)
    for node in nodes:
        found[type(node)].append(node)
    return found


def find_start(node: ast.expr) -> ast.expr:
    """Return what a chain of attributes starts with: `self` of `self.model.module`."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node


def root_of(kinds: ByKind) -> ast.AST:
    """Return the node that holds all of these."""
    root: ast.AST = next(iter(kinds.values()))[0]
    return root


class Parser:
    """Syntax trees by their texts: what a script is read for shares them. They take most of the memory.

    `root` is the folder that its absolute imports start from; None: its own.
    """

    def __init__(self, root: str | None = None) -> None:
        self.root = root
        self._trees: dict[tuple[str, str], ast.Module] = {}
        self._most_words = 0  # never too few
        self._uncounted: list[str] = []  # bounded by their length
        self._nodes: dict[int, list[ast.AST]] = {}
        self._imports: dict[int, list[tuple[str, int]]] = {}
        self._found: dict[tuple[int, Callable[..., object]], object] = {}
        self._made: dict[tuple[str, Callable[[str], object]], object] = {}
        self.mentions: dict[tuple[str, int, int], bool] = {}  # whether a tree's text has what a pattern finds
        self.branch_places: dict[int, tuple[str, str]] = {}  # by condition: each reading asks at every visit
        self.newer: dict[str, SyntaxError] = {}  # files for a newer Python, with what stops this one

    def parse(self, path: str, text: str) -> ast.Module:
        """Return the tree of a text. Raises SyntaxError, ValueError, RecursionError, MemoryError."""
        text = text.removeprefix("\ufeff")
        if len(text) > MAX_MODULE:
            raise ValueError(f"too large: more than {MAX_MODULE} characters")
        if (path, text) not in self._trees:
            self._most_words += len(text)
            self._uncounted.append(text)
            self._tighten(MAX_WORDS)
            if self._most_words > MAX_WORDS:
                raise ValueError(f"too large: more than {MAX_WORDS} words and signs in all")
            with pause_collector():
                tree = self._tree(path, text)
                self._imports[id(tree)] = _imports(path, tree)
                self._trees[path, text] = tree
        return self._trees[path, text]

    def _tree(self, path: str, text: str) -> ast.Module:
        try:
            return ast.parse(text, filename=path)
        except SyntaxError as error:
            from preflight.script.newer_syntax import replace_newer_syntax  # noqa: PLC0415 - few scripts need it

            plain = replace_newer_syntax(text)
            if plain == text:
                raise
            try:
                tree = ast.parse(plain, filename=path)
            except SyntaxError:
                raise error from None
            self.newer[path] = error
            return tree

    def has_room(self, path: str, text: str, most: int) -> bool:
        """Whether all texts that were parsed stay within a number of words and signs with this one."""
        if (path, text.removeprefix("\ufeff")) in self._trees:
            return True
        self._tighten(most - len(text))
        return self._most_words + len(text) <= most or self._most_words + count_words(text) <= most

    def _tighten(self, most: int) -> None:
        """Replace the bound by a count where it passes a limit."""
        if self._most_words > most:
            self._most_words += sum(count_words(text) - len(text) for text in self._uncounted)
            self._uncounted.clear()

    def imports(self, tree: ast.Module) -> list[tuple[str, int]]:
        """Return what a file that was parsed imports, outer blocks first, each with its number of dots."""
        return self._imports[id(tree)]

    def nodes(self, tree: ast.AST) -> list[ast.AST]:
        """Return all nodes of a file or of a part of one, itself first."""
        if id(tree) not in self._nodes:
            self._nodes[id(tree)] = walk(tree)
        return self._nodes[id(tree)]

    def find(self, what: Callable[[list[ast.AST]], T], tree: ast.AST) -> T:
        """Return what a function finds among those nodes: one search serves every reading."""
        if (id(tree), what) not in self._found:
            self._found[id(tree), what] = what(self.nodes(tree))
        return cast("T", self._found[id(tree), what])

    def find_by_kind(self, what: Callable[["ByKind"], T], tree: ast.AST) -> T:
        """Return what a function finds among those nodes sorted by kind, each kind in their order."""
        if (id(tree), what) not in self._found:
            self._found[id(tree), what] = what(self.find(group_by_kind, tree))
        return cast("T", self._found[id(tree), what])

    def list_nodes(self, tree: ast.AST, *kinds: type[N]) -> list[N]:
        """Return those of these nodes that are of some kinds, in no order between the kinds."""
        found = self.find(group_by_kind, tree)
        return cast("list[N]", [node for kind in kinds for node in found.get(kind, ())])

    def make(self, what: Callable[[str], T], text: str) -> T:
        """Return what a function makes of a text, the same in every reading. What it raises is raised."""
        if (text, what) not in self._made:
            self._made[text, what] = what(text)
        return cast("T", self._made[text, what])


def unparse(node: ast.AST) -> str:
    """Return a piece of syntax as text, as `ast.unparse` does, written out once for all who ask."""
    if type(node) is ast.Name:
        return node.id
    of_node = node.__dict__
    if _TEXT not in of_node:
        if isinstance(node, ast.Attribute) and isinstance(node.value, (ast.Name, ast.Attribute)):
            of_node[_TEXT] = f"{unparse(node.value)}.{node.attr}"
        else:
            of_node[_TEXT] = ast.unparse(node)
    text: str = of_node[_TEXT]
    return text


def walk(tree: ast.AST) -> list[ast.AST]:
    """Return the nodes in the order of `ast.walk`, in a fifth of its time, without operators and contexts."""
    nodes = [tree]
    for node in nodes:  # which grows
        for name in _PARTS[type(node)]:
            part = getattr(node, name, None)
            if type(part) is list:
                nodes += [item for item in part if isinstance(item, ast.AST)] if name in _MIXED else part
            elif isinstance(part, ast.AST):
                nodes.append(part)
    return nodes


def list_targets(node: ast.Assign | ast.AugAssign) -> Iterator[str]:
    """Yield the names to which a statement gives a value, or a part of one."""
    for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
        yield from (part.id for part in walk(target) if isinstance(part, ast.Name))


def _imports(path: str, tree: ast.Module) -> list[tuple[str, int]]:
    """Return what a file imports, found among its statements: no expression is looked at.

    Raises SyntaxError where the compiler does after the parser, which takes some statements anywhere.
    """
    found: list[tuple[str, int]] = []
    blocks: list[tuple[Sequence[ast.AST], bool | None, bool | None]] = [(tree.body, False, False)]
    for block, in_loop, in_function in blocks:  # which grows
        for node in block:
            kind = type(node)
            if kind in _FLAT:
                continue
            if isinstance(node, ast.Import):
                found += [(alias.name, 0) for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                found.append((node.module or "", node.level))
            leaves = kind in (ast.Break, ast.Continue)
            if (leaves and not in_loop) or (kind is ast.Return and not in_function):
                where = "loop" if leaves else "function"
                if (in_loop if leaves else in_function) is None:
                    where += ", as an except* block is"
                place = (path, getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1, None)
                raise SyntaxError(f"'{kind.__name__.lower()}' outside {where}", place)
            of_function = kind in (ast.FunctionDef, ast.AsyncFunctionDef)
            opens = of_function or kind is ast.ClassDef
            for name in _BLOCKS:
                if not (part := getattr(node, name, None)):
                    continue
                if name == "handlers" and kind.__name__ == "TryStar":
                    blocks.append((part, None, None))
                    continue
                loops = False if opens else True if name == "body" and kind in _LOOPS else in_loop
                inner = True if of_function else False if opens else in_function
                blocks.append((part, loops, inner))
    return found


_LOOPS = (ast.For, ast.AsyncFor, ast.While)
_FLAT = frozenset({ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr})  # the most frequent statements
