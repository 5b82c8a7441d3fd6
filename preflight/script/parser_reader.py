"""The argparse parser of a script, where reading proves all of it. Nothing is executed.

From the first statement of the script on, only what surely runs is followed: straight code, functions that
are called by their names, conditions that are decided (`__name__ == "__main__"`). A parser that anything else
has a hand in is not known: another function or module gets it, a loop or a branch adds to it, sys.argv is
edited, a part of the command line is parsed. Source of the rules: Python's own argparse.
"""

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import TypeAlias

from preflight.facts.script import CodeLocation, ParserArgument, ScriptParser
from preflight.script import parser_syntax
from preflight.script.declared_arguments import KINDS, Built, Group, Unproven, read_argument
from preflight.script.other_parsers import OtherParsers, find_modules
from preflight.script.syntax_trees import Parser, unparse, walk

_MAX_STEPS = 5000
_NODES_PER_STEP = 100
_MAX_DEPTH = 20
_LOOKS = frozenset(
    {"print_help", "print_usage", "format_help", "format_usage", "get_default", "set_defaults"}
)
"""Methods of a parser after which it takes the same arguments."""
_SAME_FUNCTION = frozenset({"record", "no_grad", "inference_mode"})  # decorators that keep the function
_SHOWN = frozenset({"prog", "usage", "description", "epilog", "formatter_class", "argument_default"})
"""Keywords of ArgumentParser that change nothing about what it takes."""
_OF_DEEPSPEED = ("--deepspeed", "--deepspeed_config", "--deepscale", "--deepscale_config", "--deepspeed_mpi")
"""What deepspeed.add_config_arguments adds. Source: deepspeed/__init__.py of 0.19 and older."""
_SWITCHES = frozenset({"add_help", "allow_abbrev"})
_BY_TEXT = frozenset({"exec", "globals", "locals"})  # functions that reach a parser without its name


class _Known(Enum):
    NONE = "None"
    ARGV = "sys.argv[1:]"


_Value: TypeAlias = Built | Group | _Known | None
_Names: TypeAlias = dict[str, _Value]


class _Found(Exception):
    def __init__(self, parser: ScriptParser) -> None:
        self.parser = parser


class _Returned(Exception):
    def __init__(self, value: _Value) -> None:
        self.value = value


def read_parser(parser: Parser, path: str, text: str) -> ScriptParser | None:
    """Return the parser that gets the script's command line, None where reading does not prove it."""
    if not any(name in text for name in ("ArgumentParser", "tyro.cli", "Fire", "hydra")):
        return None
    tree = parser.parse(path, text)
    try:
        _Reader(path, tree, parser.nodes(tree)).run()
    except _Found as found:
        return found.parser
    except (Unproven, _Returned, RecursionError):
        return None
    return None


class _Reader:
    def __init__(self, path: str, tree: ast.Module, nodes: Sequence[ast.AST]) -> None:
        self._path, self._tree = path, tree
        self._makers, self._module = parser_syntax.find_argparse(nodes)
        modules = find_modules(nodes)
        if not self._makers and not self._module and not modules:
            raise Unproven
        parser_syntax.refuse_edited_command_line(nodes, self._module)
        self._globals: _Names = {}
        bound = parser_syntax.count_bindings(nodes)
        if not KINDS.isdisjoint(bound):
            raise Unproven
        self._functions = parser_syntax.find_functions(tree, bound)
        self._constants = parser_syntax.find_constants(nodes, bound)
        classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
        once = {name: node for name, node in classes.items() if bound[name] == 1}
        self._others, self._libraries = OtherParsers(path, modules, {**self._functions, **once}), set(modules)
        self._relevant = self._find_relevant()
        self._known_names: dict[int, set[str]] = {}
        self._unread: set[str] = set()  # names in code that is not followed
        self._steps = self._depth = 0
        self._sure = True  # nothing that was passed over may have ended the function or the script

    def run(self) -> None:
        """Follow the script. Raises _Found, or Unproven."""
        self._block(self._tree.body, self._globals)

    # --- what is of interest -----------------------------------------------------------------

    def _find_relevant(self) -> frozenset[str]:
        """Return the names in the module that lead to a parser: it, or functions that make or use one."""
        found = {*self._makers, *self._module, *_BY_TEXT, *self._libraries}
        mentions = {
            name: parser_syntax.find_names([*node.body, *node.decorator_list])
            for name, node in self._functions.items()
        }
        assigned = [
            (target.id, parser_syntax.find_names([node.value]))
            for node in parser_syntax.list_outer_statements(self._tree)
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        ]
        parts = [*mentions.items(), *assigned]
        for _ in range(_MAX_DEPTH):
            more = {name for name, named in parts if not found.isdisjoint(named)}
            if more <= found:
                return frozenset(found)
            found |= more
        raise Unproven

    def _matters(self, nodes: Iterable[ast.AST], names: _Names) -> bool:
        """Whether anything in these nodes leads to a parser or its command line."""
        here = {name for name, value in names.items() if value not in (None, _Known.NONE)}
        return any(not self._relevant.union(here).isdisjoint(self._names_of(node)) for node in nodes)

    def _names_of(self, node: ast.AST) -> set[str]:
        """Return the names in a node, looked for once: blocks within blocks ask often."""
        if id(node) not in self._known_names:
            self._known_names[id(node)] = parser_syntax.find_names([node])
        return self._known_names[id(node)]

    # --- statements --------------------------------------------------------------------------

    def _block(self, body: Sequence[ast.stmt], names: _Names) -> None:
        for node in body:
            self._steps += 1
            if self._steps > _MAX_STEPS:
                raise Unproven
            self._statement(node, names)

    def _statement(self, node: ast.stmt, names: _Names) -> None:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                self._define(node, names)
            case ast.Global(shared) if self._relevant.intersection(shared):
                raise Unproven
            case ast.If():
                self._if(node, names)
            case ast.Return():
                raise _Returned(None if node.value is None else self._value(node.value, names))
            case ast.With() if self._matters(node.body, names):
                self._escape([self._value(item.context_expr, names) for item in node.items])
                self._block(node.body, names)
            case ast.Try() if self._matters([node], names):
                self._try(node, names)
            case ast.Expr():
                self._value(node.value, names)
            case ast.Assign() | ast.AnnAssign():
                self._assign(node, names)
            case _:
                self._pass_over([node], names)

    def _define(self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef, names: _Names) -> None:
        inside = node.body if names is not self._globals else []  # of a function within a function
        defaults = [] if isinstance(node, ast.ClassDef) else [*node.args.defaults, *node.args.kw_defaults]
        of_hydra = isinstance(node, ast.FunctionDef) and self._others.read_decorated(node)
        decorators = [] if of_hydra else node.decorator_list
        if self._matters([*inside, *filter(None, defaults), *decorators], names):
            raise Unproven
        if self._functions.get(node.name) is not node:
            self._unread |= parser_syntax.find_names(node.body)

    def _if(self, node: ast.If, names: _Names) -> None:
        taken = self._decide(node.test, names)
        if taken is not None:
            self._block(node.body if taken else node.orelse, names)
        else:
            self._pass_over([node], names)

    def _decide(self, test: ast.expr, names: _Names) -> bool | None:
        """Return what a condition is, None where it is not known."""
        match test:
            case ast.Compare(ast.Name("__name__"), [ast.Eq()], [ast.Constant("__main__")]):
                return True
            case ast.Compare(ast.Name(name), [ast.Is() | ast.IsNot() as sign], [ast.Constant(None)]):
                value = names.get(name)
                return None if value is None else (value is _Known.NONE) == isinstance(sign, ast.Is)
            case ast.Name(name) if names.get(name) is _Known.NONE:
                return False
            case ast.UnaryOp(ast.Not(), ast.Name(name)) if names.get(name) is _Known.NONE:
                return True
        return None

    def _try(self, node: ast.Try, names: _Names) -> None:
        """Follow `try: main()`, where no handler keeps the script alive after argparse has ended it."""
        caught = parser_syntax.find_names([item.type for item in node.handlers if item.type is not None])
        bare = any(item.type is None for item in node.handlers)
        if bare or {"SystemExit", "BaseException"} & caught or len(node.body) != 1 or node.finalbody:
            raise Unproven
        self._block(node.body, names)

    def _pass_over(self, nodes: Sequence[ast.AST], names: _Names) -> None:
        """Pass over what may run or not."""
        if self._matters(nodes, names):
            raise Unproven
        held = [inner for item in nodes for inner in walk(item)]
        self._steps += len(held) // _NODES_PER_STEP
        for node in held:
            self._sure = self._sure and not parser_syntax.may_leave(node)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names[node.id] = None

    def _assign(self, node: ast.Assign | ast.AnnAssign, names: _Names) -> None:
        value = None if node.value is None else self._value(node.value, names)
        for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
            if isinstance(target, ast.Name):
                names[target.id] = value
            elif self._matters([target], names):
                raise Unproven
            elif isinstance(value, Built | Group):
                self._escape([value])

    # --- expressions -------------------------------------------------------------------------

    def _value(self, node: ast.expr, names: _Names) -> _Value:
        """Follow an expression that surely runs; return the parser, group or command line that it is."""
        match node:
            case ast.Constant(None):
                return _Known.NONE
            case ast.Name(name):
                if name in self._functions and name in self._relevant:
                    raise Unproven  # who gets it may call it
                return names.get(name, self._globals.get(name))
            case ast.Subscript(
                ast.Attribute(ast.Name("sys"), "argv"), ast.Slice(ast.Constant(1), None, None)
            ):
                return _Known.ARGV
            case ast.Call():
                return self._call(node, names)
        if not self._matters([node], names):
            self._sure = self._sure and not any(map(parser_syntax.may_leave, walk(node)))
            return None
        if isinstance(node, ast.IfExp | ast.BoolOp | ast.Lambda | ast.NamedExpr | ast.comprehension) or any(
            isinstance(item, ast.comprehension) for item in ast.iter_child_nodes(node)
        ):
            raise Unproven
        held = [self._value(item, names) for item in ast.iter_child_nodes(node) if isinstance(item, ast.expr)]
        self._escape(held)
        return None

    def _call(self, node: ast.Call, names: _Names) -> _Value:
        func = node.func
        if self._is_maker(func):
            return self._make(node, names)
        other = self._others.read_call(node)
        if other is not None and self._sure:
            raise _Found(other)
        if isinstance(func, ast.Name) and func.id in _BY_TEXT:
            raise Unproven
        if isinstance(func, ast.Name) and func.id in self._functions:
            given = [self._value(item, names) for item in node.args]
            named = {item.arg: self._value(item.value, names) for item in node.keywords}
            held = any(isinstance(item, Built | Group) for item in (*given, *named.values()))
            if func.id in self._relevant or held:
                return self._enter(self._functions[func.id], given, named)
            return None
        owner = self._value(func.value, names) if isinstance(func, ast.Attribute) else None
        if owner is _Known.ARGV:
            raise Unproven  # argv.pop()
        if isinstance(owner, Built | Group) and isinstance(func, ast.Attribute):
            return self._method(owner, func.attr, node, names)
        parts = [*node.args, *(item.value for item in node.keywords)]
        if isinstance(func, ast.Attribute) and unparse(func) == "deepspeed.add_config_arguments":
            return self._add_of_deepspeed(node, names)
        reached = [self._value(item, names) for item in parts]
        self._escape([] if parser_syntax.get_last_name(func) in parser_syntax.HARMLESS else reached)
        if not isinstance(func, ast.Attribute | ast.Name) and self._matters([func], names):
            raise Unproven
        self._sure = self._sure and not parser_syntax.may_leave(node)
        return None

    def _escape(self, values: Iterable[_Value]) -> None:
        for value in values:
            if value is _Known.ARGV:
                raise Unproven
            if isinstance(value, Built | Group):
                (value.parser if isinstance(value, Group) else value).escaped = True

    def _is_maker(self, func: ast.expr) -> bool:
        match func:
            case ast.Name(name):
                return name in self._makers
            case ast.Attribute(ast.Name(module), "ArgumentParser"):
                return module in self._module
        return False

    def _make(self, node: ast.Call, names: _Names) -> Built:
        built = Built()
        for item in node.keywords:
            if item.arg in _SWITCHES and isinstance(item.value, ast.Constant):
                setattr(built, str(item.arg), bool(item.value.value))
            elif item.arg == "parents" and isinstance(item.value, ast.List):
                for parent in [self._value(part, names) for part in item.value.elts]:
                    if not isinstance(parent, Built) or parent.add_help or parent.declared.groups:
                        raise Unproven
                    built.escaped = built.escaped or parent.escaped
                    built.declared.arguments += parent.declared.arguments
            elif item.arg not in _SHOWN:
                built.escaped = True  # another prefix, files of arguments
        return built

    def _add_of_deepspeed(self, node: ast.Call, names: _Names) -> Built:
        parser = self._value(node.args[0], names) if len(node.args) == 1 and not node.keywords else None
        if not isinstance(parser, Built):
            raise Unproven
        for name in _OF_DEEPSPEED:
            action = "store" if name.endswith("_config") else "store_true"
            place = CodeLocation(self._path, node.lineno, node.col_offset + 1)
            parser.declared.add(ParserArgument(place, (name,), action))
        return parser

    def _method(self, owner: Built | Group, name: str, node: ast.Call, names: _Names) -> _Value:
        parser, group = (owner.parser, owner.number) if isinstance(owner, Group) else (owner, 0)
        parts = [*node.args, *(item.value for item in node.keywords)]
        leading = self._relevant - self._makers - self._module
        if name != "parse_args" and not leading.isdisjoint(parser_syntax.find_names(parts)):
            raise Unproven
        match name:
            case "add_argument":
                place = CodeLocation(self._path, node.lineno, node.col_offset + 1)
                argument = read_argument(node, place, self._constants, self._module)
                parser.declared.add(replace(argument, group=group))
            case "add_argument_group" if not group:
                return Group(parser, 0)
            case "add_mutually_exclusive_group" if not group:
                return Group(parser, parser.declared.add_group(node))
            case "parse_args" if isinstance(owner, Built):
                self._parse(owner, node, parts, names)
            case _ if name not in _LOOKS:
                raise Unproven
        return None

    def _parse(self, parser: Built, node: ast.Call, parts: list[ast.expr], names: _Names) -> None:
        """Raise _Found for a parser that gets the whole command line. Raises Unproven for another one."""
        given = {item.arg: item.value for item in node.keywords}
        words = given.get("args", node.args[0] if node.args else None)
        whole = words is None or self._value(words, names) in (_Known.NONE, _Known.ARGV)
        shared = any(isinstance(self._globals.get(name), Built | Group) for name in self._unread)
        lost = parser.escaped or shared or any(isinstance(part, ast.Starred) for part in parts)
        if not whole or not self._sure or lost:
            raise Unproven
        declared = parser.declared
        place = CodeLocation(self._path, node.lineno, node.col_offset + 1)
        arguments, required = tuple(declared.arguments), tuple(declared.required_groups)
        raise _Found(
            ScriptParser(place, arguments, required, declared.groups, parser.add_help, parser.allow_abbrev)
        )

    def _enter(
        self, function: ast.FunctionDef, given: list[_Value], named: Mapping[str | None, _Value]
    ) -> _Value:
        """Follow a function of the script that is called; return what it returns."""
        spec, other = function.args, self._others.read_decorated(function)
        if other is not None and self._sure and not given and not named:
            raise _Found(other)
        decorated = any(
            parser_syntax.get_last_name(item) not in _SAME_FUNCTION for item in function.decorator_list
        )
        yields = any(isinstance(item, ast.Yield | ast.YieldFrom) for item in walk(function))
        positional = [*spec.posonlyargs, *spec.args]
        if decorated or yields or None in named or len(given) > len(positional) or self._depth > _MAX_DEPTH:
            raise Unproven
        names: _Names = {}
        defaults = [*([None] * (len(positional) - len(spec.defaults))), *spec.defaults, *spec.kw_defaults]
        for item, default in zip([*positional, *spec.kwonlyargs], defaults, strict=True):
            is_none = isinstance(default, ast.Constant) and default.value is None
            names[item.arg] = named.get(item.arg, _Known.NONE if is_none else None)
        names |= {item.arg: value for item, value in zip(positional, given, strict=False)}
        self._depth += 1
        try:
            self._block(function.body, names)
        except _Returned as returned:
            return returned.value
        finally:
            self._depth -= 1
        return None
