"""What reading a script can know of a value: a constant, a dtype, an object, one of several, nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from preflight.facts.script import CodeLocation
from preflight.frozen import dataclass

Scalar: TypeAlias = str | int | float | bool | bytes | None


@dataclass(frozen=True, slots=True)
class Unknown:
    """Nothing is known. Rules stay silent or warn on it; it is never an error."""

    by_rank: bool = field(default=False, compare=False)  # it was made with the rank, and may differ with it
    on: str = field(default="", compare=False)  # "cpu" or "cuda" of a tensor that is surely on it


@dataclass(frozen=True, slots=True)
class Const:
    """A Python constant; `place` is where the script writes it."""

    value: Scalar
    place: CodeLocation | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Dtype:
    """A torch dtype by its name, e.g. "float16"; `place` is where the script names it."""

    name: str
    place: CodeLocation | None = field(default=None, compare=False)
    actual: str = field(default="", compare=False)  # of "own": the dtype of all parameters, where it is known


@dataclass(frozen=True, slots=True)
class RankValue:
    """What differs from rank to rank: LOCAL_RANK, a process index, a comparison with one."""

    first: bool | None = field(default=None, compare=False)  # of a comparison: True on rank 0 only, or not
    sure: bool | None = field(default=None, compare=False)  # the answer from which this follows, None: either
    of: str = ""  # OF_NODE: the rank in its node, OF_LAUNCH: in all of the launch, "": either


@dataclass(frozen=True, slots=True)
class Device:
    """A torch device. `index` None: the current one; `of_rank`: by the rank; `is_text`: a string."""

    kind: str
    index: int | None = None
    of_rank: bool = False
    place: CodeLocation | None = field(default=None, compare=False)  # where the script names it
    is_text: bool = field(default=False, compare=False)


@dataclass(frozen=True, slots=True)
class ExternalName:
    """A name from a library, fully dotted: "transformers.Trainer". Libraries are not read, only known."""

    name: str


@dataclass(frozen=True, slots=True)
class Module:
    """A module of the script's own, by its path."""

    path: str


@dataclass(frozen=True, slots=True)
class Func:
    """A function or method that the script defines; `key` finds its syntax tree."""

    key: int
    frame: int
    bound: "Value | None" = None


@dataclass(frozen=True, slots=True)
class Class:
    """A class that the script defines."""

    key: int
    frame: int


@dataclass(frozen=True, slots=True)
class Ref:
    """An object on the heap."""

    id: int
    shared: bool = False  # a model by the name that goes through its DDP, on one path at least


@dataclass(frozen=True, slots=True)
class Element:
    """A submodule, a parameter iterator or one parameter of the model `of`; `what` says which."""

    of: int
    what: str  # "module", "parameters", "parameter", "data", "grad", "state"


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a heap object or a part of one, to be called."""

    owner: "Ref | Element"
    name: str


@dataclass(frozen=True, slots=True)
class Seq:
    """A list or tuple with known items; `open` when there may be more."""

    items: tuple["Value", ...]
    open: bool = False
    weight: int = field(init=False, compare=False, repr=False)
    depth: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        _measure(self, self.items)


@dataclass(frozen=True, slots=True)
class Map:
    """A dict with known keys; `open` when there may be more; `places` is where each entry is written."""

    items: tuple[tuple[Scalar, "Value"], ...]
    open: bool = False
    places: Mapping[Scalar, CodeLocation] = field(default_factory=dict, compare=False)
    weight: int = field(init=False, compare=False, repr=False)
    depth: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        _measure(self, [value for _, value in self.items])

    def get(self, key: Scalar) -> "Value | None":
        """Return the value of a key, None when it does not exist."""
        return next((value for name, value in self.items if name == key and type(name) is type(key)), None)


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of several values, depending on what reading cannot know; equal in any order.

    The order is the script's: a set's differs from run to run, and so would what is reported of the first.
    `held` says of those that rank 0 alone has True, of those that only other ranks have False.
    """

    values: tuple["Value", ...] = field(compare=False)
    held: "Mapping[Value, bool] | None" = field(default=None, compare=False, repr=False)
    _compared: frozenset["Value"] = field(init=False, repr=False)
    weight: int = field(init=False, compare=False, repr=False)
    depth: int = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_compared", frozenset(self.values))
        _measure(self, self.values)


def _measure(whole: "Seq | Map | OneOf", parts: "Sequence[Value]") -> None:
    """Note how much a value holds: one object may be in it many times, and counts each time, as for `==`.

    An entry of a dict is worth four items of a list: changing one copies keys, values and places.
    """
    each = 4 if isinstance(whole, Map) else 1
    weight, depth = 1 + each * len(parts), 0
    for part in () if _WHOLES.isdisjoint(map(type, parts)) else parts:
        if isinstance(part, (Seq, Map, OneOf)):
            weight += part.weight
            depth = max(depth, part.depth)
    object.__setattr__(whole, "weight", weight)
    object.__setattr__(whole, "depth", depth + 1)


_WHOLES = frozenset({Seq, Map, OneOf})

Value: TypeAlias = (
    Unknown
    | Const
    | Dtype
    | RankValue
    | Device
    | ExternalName
    | Module
    | Func
    | Class
    | Ref
    | Element
    | Method
    | Seq
    | Map
    | OneOf
)
