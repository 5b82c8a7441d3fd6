"""What a reading comes upon: calls, things that rules may judge, the script's own functions and classes."""

import ast
from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, TypeAlias

from preflight.facts.script import CodeLocation
from preflight.frozen import dataclass
from preflight.script.interpreter.values import UNKNOWN, Element, Map, Ref, Scalar, Value
from preflight.script.source import Source

if TYPE_CHECKING:
    from preflight.script.interpreter.interpreter import Interpreter

THROUGH = "forward of the wrapper"
"""Note of where DDP is called, or given to code that is not read and may call it."""


@dataclass(frozen=True, slots=True)
class Call:
    """One call as it is seen: evaluated arguments, and where each is."""

    node: ast.Call
    place: CodeLocation
    args: tuple[Value, ...]
    kwargs: Mapping[str, Value]
    places: Mapping[str, CodeLocation]  # of keyword arguments
    open: bool  # more arguments are possible than are known
    maybe: frozenset[str] = frozenset()  # keywords that are given on some paths only

    def get(self, name: str, position: int | None = None) -> Value | None:
        """Return an argument by keyword or position, None when it is not given."""
        if name in self.kwargs:
            return self.kwargs[name]
        if position is not None and position < len(self.args):
            return self.args[position]
        return None

    @property
    def first(self) -> Value:
        """The first argument; unknown where none is given by position."""
        return self.args[0] if self.args else UNKNOWN

    def named(self) -> Map:
        """Return the keyword arguments as the dict they are to the function."""
        places: dict[Scalar, CodeLocation] = dict(self.places.items())
        return Map(tuple(self.kwargs.items()), self.open, places)

    def at(self, name: str) -> CodeLocation:
        """Return where a keyword argument is, else where the call does."""
        return self.places.get(name, self.place)

    def passing(self, *args: Value) -> "Call":
        """Return a call at this place with these arguments and no others."""
        return Call(self.node, self.place, args, {}, {}, open=False)

    def event(self, name: str, ref: int | None = None, what: str = "", /, **values: Value) -> "ScriptEvent":
        """Return what rules may judge about this call."""
        return ScriptEvent(name, self.place, ref, self, what, values)


CallModel: TypeAlias = Callable[["Interpreter", Call], Value]
"""What calling a function of a library gives."""
MethodModel: TypeAlias = Callable[["Interpreter", Ref | Element, Call], Value]
ConstructorModel: TypeAlias = Callable[["Interpreter", Ref, str, Call], None]
"""What a class of a library, by its name, makes of a new object."""


@dataclass(frozen=True, slots=True)
class ScriptEvent:
    """Something that rules may judge; `things` and `values` are what it is about."""

    name: str
    place: CodeLocation
    ref: int | None = None
    call: Call | None = None
    what: str = ""
    values: Mapping[str, Value] = field(default_factory=dict)

    def place_of(self, keyword: str) -> CodeLocation:
        """Return where a keyword argument of the call is, else where the event is."""
        return self.place if self.call is None else self.call.at(keyword)


OWN_STEP = "own"
"""Of a step by an optimizer of the script: what it does to which dtypes only its class knows."""


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop or, by its number, a call that is read, inside of how many contexts, calls and conditions.

    `newest`: the number of the newest thing of before the loop.
    """

    place: CodeLocation
    depth: int
    calls: int
    number: int = 0
    tests: int = 0
    by_condition: bool = False
    newest: int = 0


@dataclass(frozen=True, slots=True)
class Draw:
    """A loop, or `next`, that draws from one of some data loaders, inside of how many other loops.

    `by_steps`: one of those is a `while`, which ends by a number of steps.
    """

    loaders: tuple[int, ...]
    depth: int
    by_next: bool = False
    by_steps: bool = False


@dataclass(frozen=True, slots=True)
class FuncInfo:
    """A function of the script."""

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    source: Source
    decorators: tuple[Value, ...]
    defaults: Mapping[int, Value]  # names of other values, by syntax, as the `def` finds them


@dataclass(frozen=True, slots=True)
class ClassInfo:
    """A class of the script; `names` are its class attributes and methods."""

    node: ast.ClassDef
    source: Source
    bases: tuple[Value, ...]
    names: Mapping[str, Value]
    is_dataclass: bool


def unwrap_value(it: "Interpreter", node: ast.AST, args: tuple[Value, ...]) -> Call:
    """Return a call that represents something that is not written as one."""
    syntax = ast.copy_location(ast.Call(func=ast.Name(id="_", ctx=ast.Load()), args=[], keywords=[]), node)
    return Call(syntax, it.place(node), args, {}, {}, open=False)
