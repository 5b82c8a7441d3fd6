"""The state of a script being read: frames of names, a heap of things; forked and joined at branches.

A fork shares its frames and heap with what it was forked from until one of the two writes: most branches
change few names of one frame, and scripts with many modules have thousands.
"""

from collections.abc import Callable
from dataclasses import field
from itertools import compress
from operator import is_not
from typing import TypeVar

from preflight.facts.script import CodeLocation
from preflight.frozen import dataclass
from preflight.script.bounds import WorkBudget
from preflight.script.values import Dtype, Value
from preflight.script.values.constants import FALSE, NONE
from preflight.script.values.heap import HeapObject, join_things
from preflight.script.values.operations import as_text, join

_T = TypeVar("_T")


@dataclass(slots=True)
class State:
    """What is known at one point of one path. `dead`: the path has returned, raised, or left its loop."""

    frames: dict[int, dict[str, Value]] = field(default_factory=dict)
    heap: dict[int, HeapObject] = field(default_factory=dict)
    device_set: bool = False  # the rank has chosen its GPU
    dead: bool = False
    scaled: bool = False  # the gradients are those of a loss that a GradScaler scaled
    grouped: bool = False  # a process group was made, on some path
    wrapped: bool = False  # a model exchanges gradients with those of other ranks, on some path
    early_cuda: tuple[CodeLocation, ...] = ()  # where CUDA was used before the rank had chosen its GPU
    # Of the whole reading: copies of the state are work too.
    work: WorkBudget = field(default_factory=WorkBudget)
    _own_frames: set[int] = field(default_factory=set)  # those that no other state shares
    _own_heap: bool = False

    def fork(self) -> "State":
        """Return a copy that can go its own way."""
        self._own_frames = set()
        self._own_heap = False
        self.work.copy(len(self.frames))
        flags = self.device_set, self.dead, self.scaled, self.grouped, self.wrapped, self.early_cuda
        return State(dict(self.frames), self.heap, *flags, self.work)

    def names(self, frame: int) -> dict[str, Value]:
        """Return the names of a frame, to be changed."""
        if frame not in self._own_frames:
            names = dict(self.frames.get(frame, ()))
            self.work.copy(len(names))
            self.frames[frame] = names
            self._own_frames.add(frame)
        return self.frames[frame]

    def drop(self, frame: int) -> dict[str, Value]:
        """Forget a frame; return what it held."""
        self._own_frames.discard(frame)
        return self.frames.pop(frame, {})

    def put(self, identity: int, thing: HeapObject) -> None:
        """Put a thing on the heap, or another in its place."""
        if not self._own_heap:
            self.work.copy(len(self.heap))
            self.heap = dict(self.heap)
            self._own_heap = True
        self.heap[identity] = thing


Meet = Callable[[Value, Value], Value]
"""Returns what a value is where it has one value on one path and another on the other, else one of both."""


@dataclass(slots=True)
class WaysOut:
    """How paths have left the function that is being read, and the turn of its innermost loop."""

    contexts: int = 0  # how many are around the call
    # The last of each: what it says of the rank.
    returns: list[tuple[Value, State, Value]] = field(default_factory=list)
    breaks: list[State] = field(default_factory=list)
    continues: list[State] = field(default_factory=list)
    yields: list[Value] | None = None  # outside of all functions
    open: bool = (
        False  # another condition than which rank it is, and not known, decides whether it comes so far
    )


def merge_states(states: list[State], meet: Meet | None = None) -> State:
    """Return what holds after several paths have met again; dead ones do not arrive."""
    alive = [state for state in states if not state.dead]
    if not alive:
        return states[0]
    result = alive[0]
    for other in alive[1:]:
        _join_into(result, other, meet)
    return result


def _join_into(result: State, other: State, meet: Meet | None) -> None:
    result.device_set = result.device_set and other.device_set
    result.scaled = result.scaled or other.scaled
    result.grouped = result.grouped or other.grouped
    result.wrapped = result.wrapped or other.wrapped
    if other.early_cuda != result.early_cuda:
        result.early_cuda = tuple(dict.fromkeys((*result.early_cuda, *other.early_cuda)))
    result.work.copy(len(other.frames))
    for key in _differing(result.frames, other.frames):
        mine, names = result.frames.get(key), other.frames[key]
        if mine is None:
            result.frames[key] = names
        elif mine is not names:
            _join_names(result, key, mine, names, meet)
    if result.heap is other.heap:
        return
    result.work.copy(len(other.heap))
    for identity in _differing(result.heap, other.heap):
        mine_thing, thing = result.heap.get(identity), other.heap[identity]
        if mine_thing is None:
            result.put(identity, thing)
        elif mine_thing is not thing:
            result.put(identity, join_things(mine_thing, thing, meet))


def _differing(mine: dict[int, _T], theirs: dict[int, _T]) -> list[int]:
    """Return the keys of theirs that are absent from mine or have another value, in their order.

    Two forks hold nearly all keys in one order, and then the values at the same places are compared without a
    step of Python for each. Where the order differs all keys are returned.
    """
    keys = list(theirs)
    if keys[: len(mine)] != list(mine)[: len(keys)]:
        return keys
    return [*compress(keys, map(is_not, theirs.values(), mine.values())), *keys[len(mine) :]]


def _join_names(
    result: State, key: int, mine: dict[str, Value], names: dict[str, Value], meet: Meet | None
) -> None:
    changed: dict[str, Value] = {}
    result.work.copy(len(names))
    for name, there in names.items():
        here = mine.get(name)
        if here is None:
            changed[name] = there  # bound on one path only: a use of it afterwards came that way
        elif here is not there:
            changed[name] = meet(here, there) if meet else join((here, there))
    if changed:
        result.names(key).update(changed)


_FLOAT32 = Dtype("float32")
_UNCHANGED = {"adapters": NONE, "quantized": FALSE, "upcast": FALSE, "mixed": NONE, "rounded": NONE}
_PLAIN = tuple(_UNCHANGED.values())


def is_own_float32(model: HeapObject) -> bool | None:
    """Whether a model is built by the script, in float32; None while its dtype is not known yet.

    torch makes parameters in float32 unless a dtype, a cast or set_default_dtype says otherwise. What was
    loaded from a checkpoint is none of the script's own.
    """
    attrs = model.attrs
    if "__class__" not in attrs and not (as_text(model.get("__name__")) or "").startswith("torch."):
        return False
    if tuple(map(attrs.get, _UNCHANGED, _PLAIN)) != _PLAIN:  # each change of a model asks
        return False
    dtype = attrs.get("dtype", NONE)
    return None if dtype == NONE else dtype == _FLOAT32
