"""What a reading comes upon: calls, things that rules may judge, the script's functions, classes, options."""

import ast
from collections.abc import Mapping
from dataclasses import field

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.frozen import dataclass
from preflight.script.interpreter.branch_conditions import COUNT
from preflight.script.library_names import TRAINS
from preflight.script.source import Source
from preflight.script.values import Const, Func, Map, Scalar, Value
from preflight.script.values.constants import UNKNOWN

RESUMES = re.compile(
    r"^(?:resume|restore|load)(?:_(?:from|path|ckpt|checkpoint|step|epoch|model|file|weights|state|run|iter))*$"
    r"|(?:^|_)resume(?:_|$)"
)
"""Names of options that say what a run continues from."""
THROUGH = "forward of the wrapper"  # where DDP is called, or given to code that may call it


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
    among: tuple[Value, ...] = ()  # of `*items` of unknown length, what items may be

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

    def get_keywords(self) -> Map:
        """Return the keyword arguments as the dict they are to the function."""
        places: dict[Scalar, CodeLocation] = dict(self.places.items())
        return Map(tuple(self.kwargs.items()), self.open, places)

    def get_place(self, name: str) -> CodeLocation:
        """Return where a keyword argument is, else where the call does."""
        return self.places.get(name, self.place)

    def with_arguments(self, *args: Value) -> "Call":
        """Return a call at this place with these arguments and no others."""
        return Call(self.node, self.place, args, {}, {}, open=False)

    def event(self, name: str, ref: int | None = None, what: str = "", /, **values: Value) -> "ScriptEvent":
        """Return what rules may judge about this call."""
        return ScriptEvent(name, self.place, ref, self, what, values)


@dataclass(frozen=True, slots=True)
class ScriptEvent:
    """Something that rules may judge: `ref` is the thing that it is about, `values` what is known of it."""

    name: str
    place: CodeLocation
    ref: int | None = None
    call: Call | None = None
    what: str = ""
    values: Mapping[str, Value] = field(default_factory=dict)

    def place_of(self, keyword: str) -> CodeLocation:
        """Return where a keyword argument of the call is, else where the event is."""
        return self.place if self.call is None else self.call.get_place(keyword)


OWN_STEP = "own"  # of a step by an optimizer of the script: what it does to which dtypes only its class knows


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop or, by its number, a call or block that is read, inside of how many contexts, calls, conditions.

    `newest`: the number of the newest thing of before the loop; `caught`: what a block catches; `by_rank`:
    over the rank's own part; `began`: at which step of the reading this turn did; `asked`: under a condition
    that is not known, in the loop around.
    """

    place: CodeLocation
    depth: int
    calls: int
    number: int = 0
    tests: int = 0
    by_condition: bool = False
    newest: int = 0
    caught: str = ""
    by_rank: bool = False
    began: int = 0
    asked: bool = False

    def catches(self, name: str) -> bool:
        """Whether an exception of this name ends the block only."""
        general = "|Exception|BaseException" if name not in ("SystemExit", "KeyboardInterrupt") else ""
        return re.search(rf"\b(?:{name}{general})\b", self.caught) is not None


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


@dataclass(frozen=True, slots=True)
class ModuleName:
    """The known ends of a module's name, and the file that imports it."""

    head: str
    tail: str
    source: Source


@dataclass(frozen=True, slots=True)
class DeclaredOption:
    """One declared option."""

    flags: tuple[str, ...]
    dest: str
    default: Value
    when_given: Value | None  # None: it takes a value
    kind: str  # "int", "float", "str", "bool", "" for other types
    choice: str = ""  # one that is not the default and starts, or changes, the training of several ranks
    choices: tuple[str, ...] = ()
    half: str = ""  # one that is not the default, and trains in fp16
    group: int = 0  # the group of which one option must be given
    given: bool = False  # by the script itself, to its parser: a launch has no say

    @property
    def flag(self) -> str:
        """The flag that messages name: none that turns it off, as --no-amp does beside --amp."""
        off = {f"--no{dash}{flag[2:]}" for flag in self.flags for dash in ("", "-")}
        return next((flag for flag in reversed(self.flags) if flag not in off), self.flags[-1])

    @property
    def long_flag(self) -> str:
        """The flag that a launch gives: the first that is a word."""
        return next((flag for flag in self.flags if flag.startswith("--")), self.flags[0])

    def trains(self) -> bool:
        """Whether the script trains where it is given."""
        return self.when_given is not None and TRAINS.search(self.dest) is not None

    def is_local_rank(self) -> bool:
        """Whether it is what launchers pass to each rank, whatever the script calls it."""
        return any(name.strip("-").replace("-", "_") == "local_rank" for name in (*self.flags, self.dest))

    def resumes(self) -> bool:
        """Whether it names what a run continues from, and none does by default."""
        none = isinstance(self.default, Const) and self.default.value in (None, "", -1, 0)
        return none and self.when_given is None and RESUMES.search(self.dest) is not None

    def get_enabling_value(self) -> str:
        """Return the value that turns on what the default leaves out, of a count or a text; "" of others."""
        if self.when_given is not None or not isinstance(self.default, Const):
            return ""
        if self.resumes():
            return "2" if self.kind == "int" else "checkpoint.pt"
        if str(self.default.value) in ("False", "false"):
            return "True"
        return "2" if self.default.value == 1 and COUNT.search(self.dest) else ""


@dataclass(slots=True)
class ScriptOptions:
    """The options of the script, and what their defaults leave out."""

    declared: dict[int, DeclaredOption] = field(default_factory=dict)  # by the id of their thing
    places: dict[CodeLocation, str] = field(default_factory=dict)  # where defaults are written, with flags
    closed: dict[str, None] = field(default_factory=dict)  # attributes that are off and left a branch out
    opened: dict[str, str] = field(default_factory=dict)  # and which value opens a branch of ranks
    defaults: dict[tuple[str, int, int], str] = field(default_factory=dict)  # lines of one, and its context


@dataclass(slots=True)
class AloneNames:
    """What only branches of rank 0 give a value: by their conditions, and the frames of each name."""

    by_test: dict[int, frozenset[str]] = field(default_factory=dict)
    frames: dict[str, set[int]] = field(default_factory=dict)


@dataclass(slots=True)
class UnreadCalls:
    """What code that is not read may call of the script."""

    methods: dict[str, Call] = field(default_factory=dict)  # of what is not known, with their first calls
    modules: dict[ModuleName, None] = field(default_factory=dict)  # by names that are not known
    functions: dict[int, Func] = field(default_factory=dict)  # that it got
