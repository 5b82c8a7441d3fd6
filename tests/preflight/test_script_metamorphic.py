"""Findings survive changes of a script that change nothing about its fault."""

import ast
from collections import Counter
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path

import pytest

from preflight.script.lint import lint_for
from preflight.script.rules.registry import Level
from tests.preflight.script_cases import read, some_of_each_rule, targets_of

pytestmark = pytest.mark.slow
SCRIPTS = some_of_each_rule()


def _parsed(text: str) -> ast.Module:
    return ast.parse(text.removeprefix("\ufeff"))


def _first_statement(tree: ast.Module) -> int:
    """Return where the script's own statements begin: behind its docstring and imports."""
    for index, node in enumerate(tree.body):
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        if not text and not isinstance(node, ast.Import | ast.ImportFrom):
            return index
    return len(tree.body)


def _names(nodes: list[ast.stmt], context: type[ast.expr_context]) -> set[str]:
    """Return the names that statements store or load."""
    inner = [node for statement in nodes for node in ast.walk(statement)]
    return {node.id for node in inner if isinstance(node, ast.Name) and isinstance(node.ctx, context)}


class _KeywordsReversed(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        if all(keyword.arg for keyword in node.keywords):
            node.keywords.reverse()
        return node


class _Renamed(ast.NodeTransformer):
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        return ast.copy_location(ast.Name(self._names.get(node.id, node.id), node.ctx), node)


def _renamed(text: str) -> str:
    tree = _parsed(text)
    assigned = [node for node in tree.body if isinstance(node, ast.Assign)]
    bound = {item.id for node in assigned for item in node.targets if isinstance(item, ast.Name)}
    plain = {name for name in bound & _names(tree.body, ast.Load) if name.islower() and "rank" not in name}
    plain -= {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    return ast.unparse(_Renamed({name: f"the_{name}" for name in plain}).visit(tree))


def _in_a_function(text: str) -> str:
    tree = _parsed(text)
    start = _first_statement(tree)
    body = [node for node in tree.body[start:] if not isinstance(node, ast.FunctionDef)]
    kept = [node for node in tree.body[start:] if isinstance(node, ast.FunctionDef)]
    if any(isinstance(node, ast.ClassDef) for node in body) or any(node.decorator_list for node in kept):
        return text  # a base or a decorator may be made by statements that would run later
    names = _names(body, ast.Store)
    said = f"global {', '.join(sorted(names))}" if names else "pass"
    head = ast.parse(f"def run():\n    {said}\n").body[0]
    assert isinstance(head, ast.FunctionDef)
    head.body += body
    tree.body = [*tree.body[:start], *kept, head, *ast.parse("run()").body]
    return ast.unparse(ast.fix_missing_locations(tree))


def _in_a_module(text: str) -> str:
    del text
    return "from moved import *\n"


def _in_a_deep_module(text: str) -> str:
    del text
    return "from parts.of.moved import *\n"


class _CastsApplied(ast.NodeTransformer):
    """`model.half()` as a statement becomes a cast of each of its modules."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr:
        call = node.value
        method = call.func if isinstance(call, ast.Call) and not call.args else None
        if isinstance(method, ast.Attribute) and method.attr in ("half", "bfloat16"):
            owner, cast = ast.unparse(method.value), method.attr
            applied = ast.parse(f"{owner}.apply(lambda module: module.{cast}())").body[0]
            return ast.fix_missing_locations(ast.copy_location(applied, node))  # type: ignore[return-value]
        return node


def _wrapped(condition: str) -> Callable[[str], str]:
    def change(text: str) -> str:
        tree = _parsed(text)
        start = _first_statement(tree)
        block = ast.parse(f"{condition}\n    pass\n").body[0]
        block.body = tree.body[start:] or [ast.Pass()]  # type: ignore[attr-defined]
        tree.body = [*tree.body[:start], block]
        return ast.unparse(ast.fix_missing_locations(tree))

    return change


class _Configured(ast.NodeTransformer):
    """`fp16=True` of a call becomes `fp16=SETTINGS["fp16_0"]`, which a loop has filled."""

    def __init__(self) -> None:
        self.values: list[tuple[str, ast.expr]] = []

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        for word in node.keywords if "arg" not in ast.unparse(node.func) else ():
            if word.arg and isinstance(word.value, ast.Constant) and isinstance(word.value.value, bool | str):
                key = f"{word.arg}_{len(self.values)}"
                self.values.append((key, word.value))
                word.value = ast.parse(f"SETTINGS[{key!r}]", mode="eval").body
        return node


def _configured(text: str) -> str:
    tree, configured = _parsed(text), _Configured()
    start = _first_statement(tree)
    body = [configured.visit(node) for node in tree.body[start:]]
    given = ", ".join(f"{key!r}: {ast.unparse(value)}" for key, value in configured.values)
    loop = f"SETTINGS = {{}}\nfor name, value in {{{given}}}.items():\n    SETTINGS[name] = value\n"
    tree.body[start:] = [*ast.parse(loop).body, *body]
    return ast.unparse(ast.fix_missing_locations(tree))


class _Stacked(ast.NodeTransformer):
    """`with torch.no_grad():` becomes `with ExitStack() as stack:` that enters it."""

    def visit_With(self, node: ast.With) -> ast.With:
        self.generic_visit(node)
        if len(node.items) > 1 or node.items[0].optional_vars:
            return node
        entered = (
            f"with contextlib.ExitStack() as stack:\n    stack.enter_context({ast.unparse(node.items[0])})"
        )
        made = ast.parse(entered).body[0]
        assert isinstance(made, ast.With)
        made.body += node.body
        return made


class _Sliced(ast.NodeTransformer):
    """`for batch in loader` becomes `for batch in itertools.islice(loader, 100)`."""

    def visit_For(self, node: ast.For) -> ast.For:
        self.generic_visit(node)
        node.iter = ast.parse(f"itertools.islice({ast.unparse(node.iter)}, 100)", mode="eval").body
        return node


def _by(change: ast.NodeTransformer, module: str) -> Callable[[str], str]:
    def changed(text: str) -> str:
        tree = _parsed(text)
        tree.body[_first_statement(tree) : _first_statement(tree)] = ast.parse(f"import {module}").body
        return ast.unparse(ast.fix_missing_locations(change.visit(tree)))

    return changed


def _with_dead_code(text: str) -> str:
    tree = _parsed(text)
    dead = "def never_called(value):\n    print(value)\nif False:\n    never_called([])\n"
    tree.body[_first_statement(tree) : _first_statement(tree)] = ast.parse(dead).body
    return ast.unparse(tree)


def _imports_as(text: str) -> str:
    """`import torch as its_torch`, `from x import A as its_A`."""
    tree, names = _parsed(text), {}
    for node in tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom):
            for alias in node.names:
                if not (alias.asname or "." in alias.name or alias.name == "*"):
                    alias.asname = names[alias.name] = f"its_{alias.name}"
    return ast.unparse(_Renamed(names).visit(tree))


def _imports_all(text: str) -> str:
    """`from transformers import *`."""
    tree = _parsed(text)
    for node in tree.body:
        library = isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0]
        if isinstance(node, ast.ImportFrom) and library in ("transformers", "trl", "peft", "accelerate"):
            node.names = [alias for alias in node.names if alias.asname] or [ast.alias("*")]
    return ast.unparse(tree)


def _called_by(tail: str, head: str = "") -> Callable[[str], str]:
    """Call the function that has the script's statements otherwise; a `$` decorates it."""

    def change(text: str) -> str:
        moved = _in_a_function(text)
        if moved == text or not moved.endswith("\nrun()"):
            return text
        tree = _parsed(moved.removesuffix("\nrun()"))
        run = tree.body[-1]
        assert isinstance(run, ast.FunctionDef)
        if head:
            tree.body[-1:] = ast.parse(head).body
            owner = tree.body[-1] if isinstance(tree.body[-1], ast.ClassDef) else tree
            if owner is not tree:
                run.args.args.append(ast.arg("self"))
            else:
                run.decorator_list.append(ast.Name("twice", ast.Load()))
            owner.body.append(run)
        return ast.unparse(ast.fix_missing_locations(tree)) + "\n" + tail

    return change


_DECORATOR = "def twice(function):\n    def inner(*args):\n        return function(*args)\n    return inner\n"

CHANGES: dict[str, Callable[[str], str]] = {
    "imports renamed": _imports_as,
    "imports of all": _imports_all,
    "lambda": _called_by("starter = lambda: run()\nstarter()"),
    "decorated": _called_by("run()", _DECORATOR),
    "method": _called_by("Job().run()", "class Job:\n    pass\n"),
    "try": _wrapped("try:\n    pass\nfinally:"),
    "renamed": _renamed,
    "in a function": _in_a_function,
    "main guard": _wrapped('if __name__ == "__main__":'),
    "configured": _configured,
    "stacked": _by(_Stacked(), "contextlib"),
    "sliced": _by(_Sliced(), "itertools"),
    "one turn": _wrapped("for _turn in (0,):"),
    "with": _wrapped("with open('x'):"),
    "dead code": _with_dead_code,
    "keywords reversed": lambda text: ast.unparse(_KeywordsReversed().visit(_parsed(text))),
    "module": _in_a_module,
    "deep module": _in_a_deep_module,
    "casts applied": lambda text: ast.unparse(_CastsApplied().visit(_parsed(text))),
}


def _found(text: str, path: Path, source: str) -> Counter[str]:
    def find(name: str) -> str | None:
        return source if name.endswith("/moved.py") else read(name)

    targets, certain = targets_of(source)
    result = lint_for(text, str(path), targets, certain=certain, find=find)
    return Counter({f.code for f in result.findings if f.level is not Level.INFO})


@cache
def _found_plain(path: Path) -> Counter[str]:
    source = path.read_text(encoding="utf-8")
    return _found(source, path, source)


@pytest.mark.parametrize("change", CHANGES)
def test_a_finding_survives(change: str) -> None:
    lost = []
    for path in SCRIPTS:
        source = path.read_text(encoding="utf-8")
        if "gpulaunch: ignore" in source or "%" in source.partition("import")[0]:
            continue
        if "module" in change and "__name__" in source:
            continue  # what it guards does not run
        try:
            plain = _found_plain(path)
            changed = _found(CHANGES[change](source), path, source)
        except SyntaxError:
            continue
        if change == "imports of all":  # which take what exists
            plain = plain - Counter({"V304": plain["V304"]})
        if change in ("main guard", "module", "deep module"):  # whose processes do not come to it again
            plain = plain - Counter({"D211": plain["D211"]})
        if plain != changed:
            lost.append((path.name, dict(plain - changed), dict(changed - plain)))
    assert lost == []


_LOOKED_UP = _called_by(
    "import sys\ngetattr(sys.modules[sys.argv[1]], sys.argv[2])().run()", "class Job:\n    pass\n"
)
_OF_A_TRAINING = ("P108", "P111", "P114", "P116", "P124", "P128", "P129", "R401", "R403", "R404", "R407")
"""Faults of training steps, which need no fact of what comes before."""


def test_a_fault_of_a_training_survives_in_a_class_that_is_looked_up_by_a_name() -> None:
    """It is a warning at most then, and what is not certain is none."""
    lost = []
    for path in SCRIPTS:
        source = path.read_text(encoding="utf-8")
        if "gpulaunch: ignore" in source or "__name__" in source or "%" in source.partition("import")[0]:
            continue
        try:
            changed = _LOOKED_UP(source)
        except SyntaxError:
            continue
        if changed == source:
            continue
        plain, given = _found_plain(path), _found(changed, path, source)
        if set(given) - set(plain) or (set(plain) - set(given)).intersection(_OF_A_TRAINING):
            lost.append((path.name, dict(plain - given), dict(given - plain)))
    assert lost == []
