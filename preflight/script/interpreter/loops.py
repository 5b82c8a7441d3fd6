"""Loops of the language: a body is read twice, so that what one turn leaves behind meets the next."""

import ast
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from preflight.facts.script import CodeLocation
from preflight.script.interpreter.assignments import assign_target
from preflight.script.interpreter.branch_conditions import RANK_0
from preflight.script.interpreter.branches import OF_RANKS, place_of_turns
from preflight.script.interpreter.events import Draw, Loop, ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.state import merge_states
from preflight.script.syntax_trees import walk
from preflight.script.values import Seq
from preflight.script.values.operations import as_bool, as_iterable, as_text, is_by_rank

_LOOP_PASSES = 2  # what a loop does once may change its next pass; one inside runs once
_MAX_UNROLLED = 6  # turns that are read one by one, those of loops in loops multiplied
_MAX_FILLED = 64  # passes of a loop that only fills an object or a dict, as from a configuration


_FILLING = frozenset({"setattr", "setdefault", "__setitem__", "add_argument"})


def read_for(it: Interpreter, node: ast.For | ast.AsyncFor) -> None:
    """Carry out a loop over items: those that are known one by one, others as one that stands for all."""
    outer_drawn = it.drawn
    iterable = as_iterable(it.evaluate(node.iter))
    if isinstance(node.iter, ast.Subscript) or getattr(getattr(node.iter, "func", None), "attr", "") == "get":
        it.dispatchers.update(it.stack[-1:])  # `for hook in self.hooks[event]:`
    exact = isinstance(iterable, Seq) and not iterable.open
    if isinstance(iterable, Seq) and exact and not iterable.items:
        it.execute(node.orelse)
        return
    outer_turns = it.turns
    most = _MAX_FILLED if all(map(_fills, node.body)) else _MAX_UNROLLED
    if isinstance(iterable, Seq) and exact and it.turns * len(iterable.items) <= most:
        values = list(iterable.items)
        it.turns *= len(values)
    else:
        values = [it.library.element(it, iterable)] * _passes(it)
    same = it.turns == outer_turns
    turns = [partial(assign_target, it, node.target, value) for value in values]
    _loop(it, node, turns, same=same, by_rank=is_by_rank(iterable))
    it.turns, it.drawn = outer_turns, _still_drawn(it.drawn, outer_drawn)


def _fills(statement: ast.stmt) -> bool:
    """Whether a statement gives an attribute or an entry a value, and does nothing else."""
    if isinstance(statement, ast.Assign):
        plain = not any(isinstance(part, ast.Call) for part in walk(statement.value))
        return plain and isinstance(statement.targets[0], (ast.Attribute, ast.Subscript))
    if isinstance(statement, ast.If):
        return all(map(_fills, (*statement.body, *statement.orelse)))
    called = getattr(getattr(statement, "value", None), "func", None)
    return getattr(called, "attr", getattr(called, "id", "")) in _FILLING


def _still_drawn(drawn: tuple[Draw, ...], outer: tuple[Draw, ...]) -> tuple[Draw, ...]:
    """Return what is drawn from after a loop: what `next` took in it may be used after it."""
    if drawn is outer:
        return outer
    return (*outer, *(item for item in drawn if item.by_next and item not in outer))


def read_while(it: Interpreter, node: ast.While) -> None:
    """Carry out a loop with a condition."""
    value = it.evaluate(node.test)
    if as_bool(value) is False:
        it.execute(node.orelse)
        return
    outer_drawn, outer_guard, depth = it.drawn, it.guard, len(it.contexts)
    place = place_of_turns(it, node.test, value)
    it.contexts += [place] if place else []
    it.guard = it.place(node) if place == RANK_0 else outer_guard
    _loop(it, node, _while_turns(it, node.test), same=True)
    del it.contexts[depth:]
    it.guard = outer_guard
    it.drawn = _still_drawn(it.drawn, outer_drawn)


def _while_turns(it: Interpreter, test: ast.expr) -> Iterator[Callable[[], None]]:
    """Yield the turns to read: more while each names another step (`while state: state = STEPS[state]()`)."""
    names: list[str] = []
    for number in range(_MAX_UNROLLED):
        name = as_text(it.evaluate(test)) if isinstance(test, ast.Name) else None
        if number >= _passes(it) and (not name or name in names):
            return
        names += [name] if name else []
        yield lambda: None


def leave_loops(it: Interpreter, place: CodeLocation, left: Sequence[Loop], *, how: str = "") -> None:
    """Report a way out of loops that some ranks or turns take; one that "fails" ends the others as well.

    `how` may be "turn" too: what is left is this turn of the last loop.
    """
    for loop in left:
        if it.tests[loop.tests :] or not OF_RANKS.isdisjoint(it.contexts[loop.depth :]):
            number = it.loops.index(loop)
            it.emit(ScriptEvent("break", place, number, what=how))


def read_caught(it: Interpreter, node: ast.Try | ast.With | ast.AsyncWith, caught: str) -> None:
    """Carry out a block that some exceptions leave, "" for none; around all they end the rank."""
    depth = len(it.loops)
    if caught and (it.stack or it.loops):
        number = it.work.steps + 1  # no other time that the block is read has it
        it.loops.append(
            Loop(it.place(node), len(it.contexts), len(it.stack), number, len(it.tests), caught=caught)
        )
    it.execute(node.body)
    del it.loops[depth:]


def _passes(it: Interpreter) -> int:
    return 1 if it.repeated else _LOOP_PASSES


def _loop(
    it: Interpreter,
    node: ast.For | ast.AsyncFor | ast.While,
    turns: Iterable[Callable[[], None]],
    *,
    same: bool,
    by_rank: bool = False,
) -> None:
    """Carry out the turns of a loop; `same`: all but the first repeat what was read already."""
    ways = it.ways
    outer, ways.breaks = ways.breaks, []
    outer_turns, ways.continues = ways.continues, []
    outer_tests = it.tests
    it.loop_depth += 1
    it.open_loops += same
    broken = False
    outer_repeated = it.repeated
    depth, guard = len(it.contexts), it.guard
    whiles = isinstance(node, ast.While)
    asked = bool(outer_tests)
    loop = partial(Loop, by_condition=whiles, newest=it.newest, by_rank=by_rank, asked=asked)
    outside = len(it.loops)
    for number, begin in enumerate(turns):
        it.loops[outside:] = [loop(it.place(node), depth, len(it.stack), began=it.work.steps)]
        it.repeated = outer_repeated or (same and number > 0)
        it.tests = []
        begin()
        it.execute(node.body)
        del it.contexts[depth:]  # of what a `continue` by rank leaves of a turn
        it.guard = guard
        it.state = merge_states([it.state, *ways.continues])
        ways.continues = []
        broken = it.state.dead and bool(ways.breaks)
        if it.state.dead:
            if not ways.breaks or not same:
                break
            it.state = merge_states(ways.breaks)  # what ends the loop on one path need not end it on another
    del it.loops[outside:]
    it.loop_depth -= 1
    it.open_loops -= same
    it.repeated, it.tests = outer_repeated, outer_tests
    breaks, ways.breaks, ways.continues = ways.breaks, outer, outer_turns
    if not broken:  # else: no path but a break ends it
        it.execute(node.orelse)
    it.state = merge_states([it.state, *breaks])
