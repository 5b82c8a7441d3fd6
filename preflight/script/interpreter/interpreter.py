"""What reads a script, with abstract values instead of real ones: where it is, and what it knows.

Nothing is executed. What each piece of syntax does is in `expressions` and `statements`; what torch,
transformers, accelerate, peft and trl do is a `Library`.
"""

import ast
import builtins
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar

from preflight.facts.script import CodeLocation
from preflight.script import bounds
from preflight.script.bounds import TooLong, WorkBudget, describe_excess, is_small, weigh_value
from preflight.script.interpreter.call_cache import CallCache
from preflight.script.interpreter.events import (
    AloneNames,
    Call,
    ClassInfo,
    Draw,
    FuncInfo,
    Loop,
    ScriptEvent,
    ScriptOptions,
    UnreadCalls,
)
from preflight.script.interpreter.state import State, WaysOut, is_own_float32
from preflight.script.library_names import is_named_trainer
from preflight.script.source import PLACE, Source, Sources
from preflight.script.target import RankTarget
from preflight.script.values import (
    Class,
    Const,
    Device,
    Dtype,
    Element,
    ExternalName,
    Func,
    Method,
    Module,
    RankValue,
    Ref,
    Unknown,
    Value,
)
from preflight.script.values.constants import NONE, UNKNOWN
from preflight.script.values.heap import HeapObject

N = TypeVar("N", bound=ast.AST)

_OF_ONE_SIZE = frozenset({Unknown, Ref, Element, Method, Func, Class, Module, Dtype, Device, RankValue})
_BUILTINS = frozenset(dir(builtins))
_MAX_PROBLEMS = 20
_NO_NAMES, _NO_FRAMES = dict[str, Value](), dict[str, int]()


class Library(Protocol):
    """What is known of code that is not the script's own."""

    def constant(self, it: "Interpreter", name: str, node: ast.AST) -> Value | None:
        """Return the value that a node has by a library's name, None when it is nothing but a name."""

    def find_export(self, it: "Interpreter", name: str, node: ast.AST) -> Value | None:
        """Return what a name is that a script gets by `import *`, None when the library has none such."""

    def call(self, it: "Interpreter", name: str, call: Call) -> Value:
        """Return what calling a library's name gives, and do to the state what it does."""

    def method(self, it: "Interpreter", owner: Ref | Element, name: str, call: Call) -> Value:
        """Return what a method of a known object gives."""

    def attribute(self, it: "Interpreter", owner: Ref | Element, name: str) -> Value:
        """Return an attribute of a known object."""

    def assign(self, it: "Interpreter", owner: Value, name: str, value: Value, place: CodeLocation) -> None:
        """Note that an attribute of a known object, or of a library's name, was set."""

    def subscript(self, it: "Interpreter", name: str, key: Value) -> Value:
        """Return an item of a library's mapping, as of os.environ."""

    def element(self, it: "Interpreter", iterable: Value) -> Value:
        """Return what iterating over a value yields."""

    def note_raw_backward(self, it: "Interpreter", call: Call) -> None:
        """Note a `backward()` of something that is not known to be scaled."""

    def note_own_step(self, it: "Interpreter", owner: Value | None, call: Call) -> None:
        """Note step() of an optimizer whose class is the script's own."""

    def promote_owner(self, it: "Interpreter", call: Call) -> Value | None:
        """Return what a method gives whose unknown owner must be a model, None where it need not be one."""

    def move_unknown(self, it: "Interpreter", call: Call) -> Value:
        """Return what `.to(...)` or `.cuda(...)` of something that is not known gives."""

    def class_kind(self, name: str) -> str:
        """Return the kind of thing that a library's class makes, "" when not known."""

    def kind_of_call(self, it: "Interpreter", name: str, call: Call) -> str:
        """Return the kind of thing that a library's class makes of these arguments, "" when not known."""

    def construct(self, it: "Interpreter", ref: Ref, name: str, call: Call) -> None:
        """Do what the library's constructor does to a new object of that class or of a subclass."""


Listener = Callable[["Interpreter", ScriptEvent], None]


class Interpreter:
    """One reading of a script for one target."""

    expressions: ClassVar[Mapping[type[ast.expr], Callable[["Interpreter", Any], Value]]]
    statements: ClassVar[Mapping[type[ast.stmt], Callable[["Interpreter", Any], object]]]
    guard: CodeLocation | None = None  # the condition around the current point by which rank 0 is alone
    drawn: tuple[Draw, ...] = ()  # data loaders that the loops around the current point draw from
    of_first: set[int]  # conditions, by their syntax, whose branch rank 0 alone takes
    decisions: dict[int, list[ast.expr] | None]  # by condition: which calls say who decides, None: rank 0
    yielded_drawn: tuple[Draw, ...] = ()  # those at the last yield
    _counted = 0  # functions that are known by their names
    worker_draws: list[Draw] | None = None  # those of the thread that is being read

    def __init__(self, sources: Sources, target: RankTarget, library: Library, listener: Listener) -> None:
        self.sources, self.target, self.library = sources, target, library
        self.work, self.calls = WorkBudget(), CallCache()  # calls: what came of each
        self.state = State(work=self.work)
        self.excesses: dict[str, None] = {}  # values that were too large, with their places
        self.functions: dict[int, FuncInfo] = {}
        # as many of those as were asked by name
        self._named: defaultdict[str, list[ast.AST]] = defaultdict(list)
        self.classes: dict[int, ClassInfo] = {}
        self.factories: dict[int, Value] = {}  # by the syntax of a field, what makes its default
        self.parents: dict[int, int | None] = {}
        self.captured: set[int] = set()
        self.called: set[int] = set()
        self.modules: dict[str, int] = {}  # path -> frame
        self._module_names: dict[int, dict[str, Value]] = {}  # as each module was when it had been read
        self.frame = self.newest = self.loop_depth = 0
        self.open_loops = 0  # those whose turns are not read one by one
        self.call_depth = 0
        self.ways = WaysOut()  # of the function around the current point
        self.contexts: list[str] = []  # kinds of the with-blocks around the current point
        self.block: list[ast.stmt] = []  # of the `with` whose context managers are being evaluated
        self.stack: list[int] = []
        self.loops: list[Loop] = []
        self.tests: list[ast.expr] = []  # conditions, of the loop around, that are not known
        self.scaled_if: dict[str, bool] = {}  # conditions, and whether the loss is scaled where they hold
        self.partings: dict[int, tuple[int, str]] = {}  # which returns leave rank 0, or the others, alone
        self.yielded_in: dict[int, tuple[tuple[str, ...], Value]] = {}  # where a block runs, and its dtype
        self.options, self.alone = ScriptOptions(), AloneNames()
        self.turns = 1  # of the loops around the current point whose items are read one by one
        self.branch_places, self.of_first, self.decisions = sources.parser.branch_places, set(), {}
        self.named_value: ast.expr | None = None  # what the assignment read last gives a name to
        self.passed_value: ast.expr | None = None  # what a call of the script's own gives a name to
        self.open_branches: set[tuple[str, int, int]] = set()  # lines of branches that other paths go past
        self.starred: dict[str, None] = {}  # libraries of which all names are imported
        self.notes: dict[Hashable, list[CodeLocation]] = {}  # see `note`
        self.held_back: dict[str, list[Any]] = {}  # findings on which rules decide at the end
        self.requested: dict[CodeLocation, Value] = {}  # precision by Accelerator or TrainingArguments
        self.autocasts: dict[CodeLocation, str] = {}  # dtypes of the script's own autocasts around training
        self.default_dtype: Value = Dtype("float32")  # as torch.set_default_dtype leaves it
        self.models: dict[int, set[bool | None]] = {}  # by id, whether each was float32 and the script's own
        self.judged: tuple[ScriptEvent | None, tuple[Any, ...]] = (None, ())  # what the last event trains
        self.kept: list[Call] = []  # what functools.partial got
        self.exits: list[tuple[Value, tuple[str, ...], Call]] = []  # what ExitStacks call
        self.second_names: dict[tuple[int, str], list[ast.expr]] = {}  # by frame: of one list or dict
        self.setters, self.dispatchers = set[str](), set[int]()  # the latter call what they get or name
        self.filled: dict[int, set[str]] = {}  # names of a frame whose list or dict was changed in place
        self.unread_calls = UnreadCalls()
        self.global_names: dict[int, dict[str, int]] = {}
        # asked_gpu: the script asks which GPU it has, and reads differently on others; repeated: a loop again
        self.complete, self.asked_gpu, self.repeated = True, False, False
        self.changed_variables: set[str] = set()  # of the environment, by the script; "" stands for any
        self._listener = listener
        self._source: Source | None = None

    # --- reading -----------------------------------------------------------------------

    def note(self, of: Hashable, *places: CodeLocation) -> None:
        """Remember places for rules, under a word or a record of their own."""
        self.notes.setdefault(of, []).extend(places)

    def is_named(self, node: ast.AST) -> bool:
        """Whether an expression is what an assignment gives a name to, on one of its paths."""
        value = self.named_value
        choices = (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)
        return any(node is choice for choice in choices)

    def module_frame(self, source: Source, *, main: bool = False) -> int:
        """Return the frame of a module, reading it the first time."""
        if source.path in self.modules:
            frame = self.modules[source.path]
            if frame not in self.state.frames:  # it was imported on a path that has ended
                self.state.names(frame).update(self._module_names.get(frame, {}))
            return frame
        frame = self.make_frame(None)
        self.modules[source.path] = frame
        self.captured.add(frame)
        self.state.names(frame).update(
            {"__name__": Const("__main__" if main else source.path), "__file__": Const(source.path)}
        )
        with self.enter_source(source, frame):
            self.execute(source.tree.body)
        self.state.dead = False
        self._module_names[frame] = dict(self.state.frames.get(frame, {}))
        return frame

    @contextmanager
    def enter_source(self, source: Source, frame: int) -> Iterator[None]:
        """Evaluate in another file and frame for a while."""
        before, self._source = self._source, source
        frame_before, self.frame = self.frame, frame
        try:
            yield
        finally:
            self._source, self.frame = before, frame_before

    # --- state -------------------------------------------------------------------------

    @property
    def source(self) -> Source:
        """The file that is being read."""
        if self._source is None:
            raise RuntimeError("nothing is being read")
        return self._source

    @property
    def function(self) -> FuncInfo | None:
        """The script's function that is being read, None outside of all."""
        return self.functions.get(self.stack[-1]) if self.stack else None

    @property
    def scope(self) -> ast.AST:
        """The syntax of that function, of the file outside of all."""
        return self.function.node if self.stack and self.function else self.source.tree

    @property
    def nodes(self) -> list[ast.AST]:
        """All pieces of that syntax; itself first."""
        return self.sources.parser.nodes(self.scope)

    def list_nodes(self, *kinds: type[N]) -> list[N]:
        """Return the nodes of some kinds in that function, which many conditions ask."""
        return self.sources.parser.list_nodes(self.scope, *kinds)

    def list_functions(self, names: Iterable[str]) -> list[ast.AST]:
        """Return the syntax of the script's own functions that have one of these names."""
        if self._counted < len(self.functions):
            for info in islice(self.functions.values(), self._counted, None):
                self._named[getattr(info.node, "name", "")].append(info.node)
            self._counted = len(self.functions)
        return [node for name in names for node in self._named.get(name, ())]

    def place(self, node: ast.AST) -> CodeLocation:
        """Return where a piece of syntax is."""
        known: CodeLocation | None = node.__dict__.get(PLACE)
        return self.source.place(node) if known is None else known

    def make_frame(self, parent: int | None) -> int:
        """Return a new, empty frame of names."""
        self.newest += 1
        self.state.names(self.newest)
        self.parents[self.newest] = parent
        return self.newest

    def allocate(self, thing: HeapObject) -> Ref:
        """Put a thing on the heap."""
        self.newest += 1
        self.put(self.newest, thing)
        return Ref(self.newest)

    def put(self, ref: int, thing: HeapObject) -> None:
        """Put a thing in the place of another, and remember what every model was at any time."""
        self.state.put(ref, thing)
        self.calls.events += thing.kind != "instance"
        if thing.kind == "model":
            self.models.setdefault(ref, set()).add(is_own_float32(thing))

    def thing(self, value: Value | int | None) -> HeapObject | None:
        """Return the thing that a value is, or is a part of."""
        if type(value) is Ref:
            return self.state.heap.get(value.id)
        if type(value) is Element:
            return self.state.heap.get(value.of)
        return self.state.heap.get(value) if isinstance(value, int) else None

    def attr(self, value: Value | int | None, name: str, default: Value = NONE) -> Value:
        """Return an attribute of the thing that a value is; the default also where it is none."""
        thing = self.thing(value)
        return default if thing is None else thing.get(name, default)

    def kind(self, value: Value | None) -> str:
        """Return the kind of thing a value is, "" when it is none."""
        thing = self.state.heap.get(value.id) if type(value) is Ref else None
        return thing.kind if thing else ""

    def keep(self, call: Call) -> int:
        """Remember a call's arguments, and return under which number."""
        self.kept.append(call)
        return len(self.kept) - 1

    def change(self, ref: int, /, **attrs: Value) -> None:
        """Change attributes of a thing."""
        thing = self.state.heap.get(ref)
        if thing is not None:
            self.work.copy(len(thing.attrs))
            self.put(ref, thing.with_changes(**attrs))

    def emit(self, event: ScriptEvent) -> None:
        """Send an event to the rules."""
        self.calls.events += 1
        self._listener(self, event)

    # --- names -------------------------------------------------------------------------

    def lookup(self, name: str) -> Value:
        """Return what a name means at this point."""
        frame: int | None = self.frame
        frames = self.state.frames
        while frame is not None:
            value = frames.get(frame, _NO_NAMES).get(name)
            if value is not None:
                return value
            frame = self.parents.get(frame)
        return ExternalName(f"builtins.{name}") if name in _BUILTINS else UNKNOWN

    def bind(self, name: str, value: Value) -> None:
        """Give a name of the current frame a value."""
        frame = self.global_names.get(self.frame, _NO_FRAMES).get(name, self.frame)
        self.state.names(frame)[name] = value
        if frame in self.filled:
            self.filled[frame].discard(name)

    def evaluate(self, node: ast.expr) -> Value:
        """Return what an expression may be; what would be too large to hold is not known."""
        work = self.work
        work.steps += 1
        if work.steps > bounds.MAX_STEPS:
            raise TooLong
        value = self.expressions.get(type(node), Interpreter.evaluate_parts)(self, node)
        if type(value) in _OF_ONE_SIZE or is_small(value):
            return value
        work.copy(weigh_value(value))
        return self.limit_value(value, node)

    def evaluate_parts(self, node: ast.expr) -> Value:
        """Evaluate what is inside an expression that is not modelled, for what it does."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.evaluate(child)
        return UNKNOWN

    def limit_value(self, value: Value, node: ast.AST) -> Value:
        """Return a value, Unknown when it is too large, which is noted as not judged."""
        if reason := describe_excess(value):
            self.note_excess(f"{self.place(node)}: {reason}")
        return UNKNOWN if reason else value

    def note_excess(self, reason: str) -> None:
        """Note what was too large to be held, and so was not judged."""
        if len(self.excesses) < _MAX_PROBLEMS:
            self.excesses[reason] = None

    def execute(self, body: list[ast.stmt]) -> None:
        """Carry out statements until the path ends."""
        for statement in body:
            if self.state.dead:
                return
            self.work.add()
            handler = self.statements.get(type(statement))
            if handler is not None:
                handler(self, statement)

    def mro(self, key: int) -> Iterator[ClassInfo]:
        """Yield a class of the script and its bases of the script."""
        pending = [key]
        for number, current in enumerate(pending):  # which grows
            info = self.classes.get(current)
            if info is not None and current not in pending[:number]:
                yield info
                pending += [base.key for base in info.bases if type(base) is Class]

    def library_base(self, key: int) -> str:
        """Return the library class that a class of the script derives from, "" when none."""
        names = (base.name for info in self.mro(key) for base in info.bases if isinstance(base, ExternalName))
        return next((name for name in names if self.library.class_kind(name) or is_named_trainer(name)), "")


CallModel: TypeAlias = Callable[[Interpreter, Call], Value]  # what calling a function of a library gives
MethodModel: TypeAlias = Callable[[Interpreter, Ref | Element, Call], Value]
ConstructorModel: TypeAlias = Callable[[Interpreter, Ref, str, Call], None]
"""What a class of a library, by its name, makes of a new object."""


def unwrap_value(it: Interpreter, node: ast.AST, args: tuple[Value, ...]) -> Call:
    """Return a call that represents something that is not written as one."""
    syntax = ast.copy_location(ast.Call(func=ast.Name(id="_", ctx=ast.Load()), args=[], keywords=[]), node)
    return Call(syntax, it.place(node), args, {}, {}, open=False)
