"""What Hydra, fire and tyro take for a script, by its functions and dataclasses. Nothing is executed.

Source: hydra-core 1.3, fire 0.7 and tyro 1.0, whose own parsers were run beside this.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

from preflight.facts.script import CodeLocation, ParserArgument, ScriptParser
from preflight.script.declared_arguments import KINDS, Unproven
from preflight.script.syntax_trees import unparse, walk

_OF_HYDRA = {
    "store_true": "--help/-h --hydra-help --version --resolve --run/-r --multirun/-m --shell-completion/-sc",
    "store": "--cfg/-c --package/-p --config-path/-cp --config-name/-cn --config-dir/-cd"
    " --experimental-rerun",
}
_TEXTS = frozenset({"str", "Path", "pathlib.Path"})
_Defined: TypeAlias = ast.FunctionDef | ast.ClassDef
_Fields: TypeAlias = list[tuple[ast.AST, str, ast.expr | None, ast.expr | None]]  # type, default


def find_modules(nodes: Iterable[ast.AST]) -> dict[str, str]:
    """Return the names by which a module knows these libraries and their parts, with the full ones."""
    found: dict[str, str] = {}
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            of = f"{node.module}." if isinstance(node, ast.ImportFrom) else ""
            found |= {item.asname or item.name: of + item.name for item in node.names}
    return {name: full for name, full in found.items() if full.partition(".")[0] in ("fire", "hydra", "tyro")}


class OtherParsers:
    """The functions and classes of one module from which such libraries make parsers."""

    def __init__(self, path: str, modules: Mapping[str, str], defined: Mapping[str, _Defined]) -> None:
        self._path, self._modules, self._defined = path, modules, defined

    def read_call(self, call: ast.Call) -> ScriptParser | None:
        """Return what `tyro.cli(Args)` or `fire.Fire(main)` takes, None for other calls. Raises Unproven."""
        by = self._resolve(call.func)
        if by not in ("tyro.cli", "fire.Fire"):
            return None
        match call.args:
            case [ast.Name(name)] if name in self._defined and not call.keywords:
                owner, place = self._defined[name], self._place(call)
                found = self._read_fire(owner) if by == "fire.Fire" else self._read_tyro(owner)
                return ScriptParser(place, tuple(found), allow_abbrev=False, by=by)
        raise Unproven

    def read_decorated(self, function: ast.FunctionDef) -> ScriptParser | None:
        """Return what a function takes that Hydra calls, None for others."""
        if [self._resolve(item) for item in function.decorator_list] != ["hydra.main"]:
            return None
        place = self._place(function)
        named = [(action, words) for action, texts in _OF_HYDRA.items() for words in texts.split()]
        found = [ParserArgument(place, tuple(words.split("/")), action) for action, words in named]
        found += [
            ParserArgument(place, ("--info", "-i"), nargs="?"),
            ParserArgument(place, ("overrides",), nargs="*"),
        ]
        return ScriptParser(place, tuple(found), add_help=False, by="hydra.main")

    def _resolve(self, node: ast.expr) -> str:
        name, _, rest = unparse(node.func if isinstance(node, ast.Call) else node).partition(".")
        return ".".join(filter(None, (self._modules.get(name), rest)))

    def _place(self, node: ast.AST) -> CodeLocation:
        return CodeLocation(self._path, getattr(node, "lineno", 1), getattr(node, "col_offset", 0) + 1)

    def _read_fire(self, owner: _Defined) -> Iterator[ParserArgument]:
        for node, name, _, _ in self._list_fields(owner):
            yield ParserArgument(self._place(node), (f"--{name}",), nargs="?")
        returns = (isinstance(node, ast.Return) and node.value is not None for node in walk(owner))
        if isinstance(owner, ast.ClassDef) or any(returns):
            raise Unproven  # further words may be for what it returns

    def _read_tyro(self, owner: _Defined, prefix: str = "--") -> Iterator[ParserArgument]:
        for node, name, annotation, default in self._list_fields(owner):
            nested = self._defined.get(annotation.id) if isinstance(annotation, ast.Name) else None
            option = prefix + name.replace("_", "-")
            if isinstance(nested, ast.ClassDef):
                yield from self._read_tyro(nested, f"{option}.")
            else:
                yield _make_of_tyro(self._place(node), option, annotation, default)

    def _list_fields(self, owner: _Defined) -> _Fields:
        """Return the parameters of a plain function, or the fields of a dataclass. Raises Unproven."""
        if isinstance(owner, ast.ClassDef):
            if owner.bases or not any("dataclass" in unparse(item) for item in owner.decorator_list):
                raise Unproven
            fields = [item for item in owner.body if isinstance(item, ast.AnnAssign)]
            return [(item, unparse(item.target), item.annotation, item.value) for item in fields]
        spec = owner.args
        if owner.decorator_list or spec.vararg or spec.kwarg or spec.posonlyargs:
            raise Unproven
        defaults = [*([None] * (len(spec.args) - len(spec.defaults))), *spec.defaults, *spec.kw_defaults]
        every = zip([*spec.args, *spec.kwonlyargs], defaults, strict=True)
        return [(item, item.arg, item.annotation, default) for item, default in every]


def _make_of_tyro(
    place: CodeLocation, name: str, annotation: ast.expr | None, default: ast.expr | None
) -> ParserArgument:
    """Return a field of a type that tyro reads from one word. Raises Unproven for others."""
    required = default is None
    if isinstance(default, ast.Call):  # field(default=...)
        given = {item.arg: item.value for item in default.keywords}
        required = given.keys().isdisjoint({"default", "default_factory"})
        default = given.get("default")
        if "init" in given or required:
            raise Unproven
    match annotation:
        case ast.Name("bool") if isinstance(default, ast.Constant) and isinstance(default.value, bool):
            return ParserArgument(place, (name,), "boolean")
        case ast.Subscript(ast.Name("Literal"), ast.Tuple(items)):
            choices = tuple(item.value if isinstance(item, ast.Constant) else None for item in items)
            if all(isinstance(item, str) for item in choices):
                return ParserArgument(place, (name,), "store", "str", None, choices, required)  # type: ignore[arg-type]
        case ast.Subscript(ast.Name("Optional"), inner) | ast.BinOp(inner, ast.BitOr(), ast.Constant(None)):
            if unparse(inner) in KINDS | _TEXTS | {"bool"}:
                return ParserArgument(place, (name,), required=required)
        case ast.Name() | ast.Attribute() if unparse(annotation) in KINDS | _TEXTS:
            kind = unparse(annotation)
            return ParserArgument(place, (name,), "store", kind if kind in KINDS else "", required=required)
    raise Unproven
