"""The state of a script being read: frames of names, a heap of things; forked and joined at branches."""

from dataclasses import dataclass, field

from preflight.script.values import UNKNOWN, Thing, Value, join, join_things


@dataclass(slots=True)
class State:
    """What is known at one point of one path. `dead`: the path has returned, raised, or left its loop."""

    frames: dict[int, dict[str, Value]] = field(default_factory=dict)
    heap: dict[int, Thing] = field(default_factory=dict)
    device_set: bool = False  # the rank has chosen its GPU
    dead: bool = False
    scaled: bool = False  # the gradients are those of a loss that a GradScaler scaled

    def fork(self) -> "State":
        """Return a copy that can go its own way."""
        frames = {key: dict(names) for key, names in self.frames.items()}
        return State(frames, dict(self.heap), self.device_set, self.dead, self.scaled)


def joined(states: list[State]) -> State:
    """Return what holds after several paths have met again; dead ones do not arrive."""
    alive = [state for state in states if not state.dead]
    if not alive:
        return states[0]
    result = alive[0]
    for other in alive[1:]:
        _join_into(result, other)
    return result


def _join_into(result: State, other: State) -> None:
    result.device_set = result.device_set and other.device_set
    result.scaled = result.scaled or other.scaled
    for key, names in other.frames.items():
        mine = result.frames.setdefault(key, names)
        if mine is names:
            continue
        for name in {**mine, **names}:
            here, there = mine.get(name, UNKNOWN), names.get(name, UNKNOWN)
            if name not in mine or name not in names:
                # Bound on one path only: whoever uses it afterwards came that way.
                mine[name] = names.get(name, here)
            elif here is not there:
                mine[name] = join((here, there))
    for identity, thing in other.heap.items():
        mine_thing = result.heap.get(identity)
        result.heap[identity] = thing if mine_thing is None else join_things(mine_thing, thing)
