"""Branches of the language: what a condition says of where its branches run, and which of them are read."""

import ast
from collections.abc import Sequence
from functools import partial

from preflight.script.interpreter import rank_values, switches
from preflight.script.interpreter.assignments import assign_target
from preflight.script.interpreter.branch_conditions import (
    BY_RANK,
    MAYBE,
    ONE_PROCESS,
    OTHER_RANKS,
    RANK_0,
    find_branch_places,
    find_if_places,
    mark_rank_places,
)
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.operators import is_same
from preflight.script.interpreter.rank_names import note_names_of_rank_0
from preflight.script.interpreter.state import Meet, State, merge_states
from preflight.script.syntax_trees import unparse
from preflight.script.values import Const, OneOf, RankValue, Ref, Value
from preflight.script.values.constants import NONE, UNKNOWN
from preflight.script.values.operations import as_bool, join, list_values, may_be_rank

FIRST, FIRST_OF_SOME = "branch of rank 0", "branch of rank 0 that some ranks come to"  # notes
OF_RANKS = frozenset({RANK_0, OTHER_RANKS, BY_RANK})


def read_if(it: Interpreter, node: ast.If) -> None:
    """Carry out the branch that a condition takes; both, each on its own path, where it is not known."""
    parted = len(it.notes.get(rank_values.PARTED, ()))
    value = it.evaluate(node.test)
    rank_values.forget_choice(it, parted, node.body)
    known = as_bool(value)
    if known is not None:
        _known_branch(it, node, known=known)
        return
    if id(node) not in it.branch_places:
        it.branch_places[id(node)] = find_if_places(node, it.source.lines)
    there, elsewhere = _by_value(value, it.branch_places[id(node)])
    other = it.state.fork()
    maybe = "" if it.loop_depth else MAYBE  # what one turn of a loop leaves out is done in another
    left, returned = len(it.ways.continues), len(it.ways.returns)
    outer_open, by_rank = it.ways.open, {there, elsewhere} == {*_BY_FIRST}
    it.ways.open = outer_open or not by_rank
    it.tests.append(node.test)
    enter_branch(it, node.test, holds=True)
    outer_guard = it.guard
    it.guard = it.place(node) if there == RANK_0 else outer_guard
    if there == RANK_0:
        it.of_first.add(id(node))
        it.note(FIRST if OF_RANKS.isdisjoint(it.contexts) else FIRST_OF_SOME, it.place(node))
        note_names_of_rank_0(it, node)
    _execute_in(it, node.body, there, maybe)
    taken, it.state = it.state, other
    enter_branch(it, node.test, holds=False)
    it.guard = it.place(node) if elsewhere == RANK_0 else outer_guard
    _execute_in(it, node.orelse, elsewhere, maybe)
    it.guard = outer_guard
    leave_branches(it, node.test, taken, it.state)
    if not by_rank:
        it.ways.open = outer_open or len(it.ways.returns) > returned
    if len(it.ways.continues) == left:
        it.tests.pop()  # else what follows in this turn depends on it
    for body, state, gone, kept in (
        (node.body, taken, there, elsewhere),
        (node.orelse, it.state, elsewhere, there),
    ):
        leaves = state.dead and isinstance(body[-1] if body else None, _LEAVES)
        if leaves and _says_who_goes_on(node.test, value, gone, kept):
            it.contexts.append(kept)  # to the end of the block around it, or of the function
            it.guard = it.place(node) if kept == RANK_0 else it.guard
            if kept in _BY_FIRST and len(it.ways.returns) == returned + 1:
                it.partings[id(node)] = returned, kept
    if maybe:
        _note_open(it, node, taken)
    it.state = merge_states([taken, it.state], *_meet_of_ranks(there))


def _note_open(it: Interpreter, node: ast.If, taken: State) -> None:
    """Note the lines of each branch that another path goes past, which what follows may not have seen."""
    for body, past in ((node.body, it.state), (node.orelse, taken)):
        if body and not past.dead:
            it.open_branches.add((it.source.path, body[0].lineno, body[-1].end_lineno or 0))


_BY_FIRST = (RANK_0, OTHER_RANKS)
_LEAVES = (ast.Return, ast.Continue, ast.Break, ast.Expr)  # of a call that ends the process


def _says_who_goes_on(test: ast.expr, value: Value, there: str, elsewhere: str) -> bool:
    """Whether only ranks of some kind pass a condition; after `if done and rank == 0: return` all may.

    What `if distributed and rank != 0: return` asks besides is mostly whether there are ranks.
    """
    some = isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)
    some = some or (isinstance(value, RankValue) and value.sure is not None)
    return elsewhere != "" and not (some and there == RANK_0 and elsewhere == BY_RANK)


def _meet_of_ranks(place: str) -> tuple[Meet, ...]:
    """Return how paths meet of which the first is that of rank 0, or that of the others; () for any two."""
    return (partial(rank_values.split_by_rank, first=place == RANK_0),) if place in _BY_FIRST else ()


def merge_ways_out(it: Interpreter, body: list[ast.stmt], returns: list[tuple[Value, State, Value]]) -> Value:
    """Merge the ways out of a function; return what it gives, which may differ with the rank."""
    ways = [*returns, *([] if it.state.dead else [(NONE, it.state, NONE)])]
    result = join(rank_values.without_contradiction([told for _, _, told in ways]))
    partings = [it.partings.pop(id(item)) for item in body if id(item) in it.partings]
    for number, kept in partings if len(ways) > 1 else ():
        gone, rest = ways[number], [*ways[:number], *ways[number + 1 :]]
        meet = partial(rank_values.split_by_rank, first=kept == RANK_0)
        it.state = merge_states([merge_states([state for _, state, _ in rest]), gone[1]], meet)
        return result if type(result) is RankValue else meet(join(value for value, _, _ in rest), gone[0])
    it.state = merge_states([state for _, state, _ in ways])
    return result


def _by_value(value: Value, places: tuple[str, str]) -> tuple[str, str]:
    """Return where the branches of a condition of this value run, else by its text."""
    value = rank_values.answer_by_rank(value)
    if isinstance(value, RankValue) and value.first is not None:
        there, elsewhere = (RANK_0, OTHER_RANKS) if value.first else (OTHER_RANKS, RANK_0)
        return there if value.sure is not False else BY_RANK, elsewhere if value.sure is not True else BY_RANK
    if not all(places) and may_be_rank(value):
        return places[0] or BY_RANK, places[1] or BY_RANK
    return places


def is_of_several(it: Interpreter, op: ast.boolop, part: ast.expr) -> bool:
    """Whether a part of a condition says nothing in a launch of several: `world_size <= 1 or rank == 0`."""
    if it.target.processes == 1:
        return False
    return _places_of(it, part)[isinstance(op, ast.And)] == ONE_PROCESS


def _places_of(it: Interpreter, test: ast.expr) -> tuple[str, str]:
    """Return where the branches of a condition run by its text, which is looked at once."""
    if id(test) not in it.branch_places:
        it.branch_places[id(test)] = find_branch_places(test)
    return it.branch_places[id(test)]


def place_of_turns(it: Interpreter, test: ast.expr, value: Value) -> str:
    """Return which ranks come to the turns of `while rank == 0:`, "" where all may."""
    place = _by_value(value, _places_of(it, test))[0]
    return place if place in (RANK_0, OTHER_RANKS) else ""


def read_assert(it: Interpreter, node: ast.Assert) -> None:
    """Read `assert rank == 0`: the ranks of which it holds continue, to the end of the block or function."""
    value = it.evaluate(node.test)
    place = place_of_turns(it, node.test, value) if as_bool(value) is None else ""
    it.contexts += [place] if place else []


def read_choice(it: Interpreter, node: ast.IfExp, value: Value) -> Value:
    """Return either value of `a if x else b`, where x has a value that is not known."""
    places = _known_places(it, node)
    if it.target.processes and it.target.processes > 1 and ONE_PROCESS in places:
        return it.evaluate(node.orelse if places[0] == ONE_PROCESS else node.body)
    found, depth = [], len(it.contexts)
    placed = _by_value(value, places)
    for part, place in zip((node.body, node.orelse), placed, strict=True):
        it.contexts += [place] if place in OF_RANKS else []
        found.append(it.evaluate(part))
        del it.contexts[depth:]
    return (
        rank_values.split_by_rank(found[0], found[1], first=placed[0] == RANK_0)
        if placed[0] in _BY_FIRST
        else join(found)
    )


def read_rest(it: Interpreter, op: ast.boolop, before: list[tuple[ast.expr, Value]], part: ast.expr) -> Value:
    """Return a part of `rank == 0 and verbose and barrier()`, which some ranks come to only.

    `before` are the parts in front of it that leave it open whether a rank comes so far.
    """
    depth = len(it.contexts)
    for test, value in before:
        place = _by_value(value, _places_of(it, test))[isinstance(op, ast.Or)]
        it.contexts += [place] if place in (RANK_0, OTHER_RANKS) else []
    rest = it.evaluate(part)
    del it.contexts[depth:]
    return rest


def _execute_in(it: Interpreter, body: list[ast.stmt], *places: str) -> None:
    """Carry out a branch that runs in some places only; "" for everywhere."""
    depth = len(it.contexts)
    it.contexts += [place for place in places if place]
    it.execute(body)
    del it.contexts[depth:]


def _known_branch(it: Interpreter, node: ast.If, *, known: bool) -> None:
    """Take the one branch; the other when it raises: a real launch passes the arguments that it asks for."""
    body, other = (node.body, node.orelse) if known else (node.orelse, node.body)
    if other:
        switches.note_closed(it, node.test, other)
        switches.note_values(it, node, known=known)
    place = "" if _is_no_rank(it, node.test) else _known_places(it, node)[not known]
    one = ONE_PROCESS if place == ONE_PROCESS else ""
    without = switches.default_of_one_rank(it, node.test, other) or one
    if without and body:
        it.options.defaults[it.source.path, body[0].lineno, body[-1].end_lineno or 0] = without
        switches.note_derived(it, body, without)
    ends = count_ways_out(it)
    before = it.state.fork() if _may_raise(body) else None
    outer_guard = it.guard
    it.guard = it.place(node) if place == RANK_0 else outer_guard
    depth = len(it.contexts)
    it.contexts += filter(None, (without, place if place in OF_RANKS else ""))
    inside = len(it.contexts)
    it.execute(body)
    del it.contexts[depth:inside]  # what holds behind it is kept: all take this branch
    it.guard = outer_guard
    if before is not None and it.state.dead and count_ways_out(it) == ends:
        it.state = before
        _give_asked(it, node.test, known=known)
        it.execute(other)


def _is_no_rank(it: Interpreter, test: ast.expr) -> bool:
    """Whether what a condition asks has a rank's name and is True or False: `listnet(scores, rank=True)`."""
    asked = test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else test
    name = getattr(asked, "attr", getattr(asked, "id", ""))
    value = it.evaluate(asked) if name in rank_values.RANKS else NONE
    return isinstance(value, Const) and isinstance(value.value, bool)


def count_ways_out(it: Interpreter) -> tuple[int, int, int]:
    """Return how often a path has left its function or a turn of its loop: one that raises has not."""
    return len(it.ways.returns), len(it.ways.breaks), len(it.ways.continues)


def _give_asked(it: Interpreter, test: ast.expr, *, known: bool) -> None:
    """Give the switch that a condition asks for the other value: with its default the script does not run."""
    asked = test.operand if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not) else test
    value = it.evaluate(asked) if isinstance(asked, (ast.Name, ast.Attribute)) else NONE
    if isinstance(value, Const) and isinstance(value.value, bool):
        assign_target(it, asked, Const(known is not (asked is test)))


def _known_places(it: Interpreter, node: ast.If | ast.IfExp) -> tuple[str, str]:
    """Return where the branches of a condition run by what it asks, whatever defaults answer."""
    if id(node.test) not in it.branch_places:
        it.branch_places[id(node.test)] = mark_rank_places(node.test, find_branch_places(node.test))
    return it.branch_places[id(node.test)]


def _may_raise(body: list[ast.stmt]) -> bool:
    """Whether a branch ends the path by a raise or a call, seen without following it."""
    last = body[-1] if body else None
    ends = isinstance(last, (ast.Raise, ast.Expr, ast.If, ast.Try, ast.With))
    return ends or any(isinstance(item, ast.Raise) for item in body)


def enter_branch(it: Interpreter, test: ast.expr, *, holds: bool) -> None:
    """Enter a branch in which a condition holds, or does not."""
    if not it.state.scaled:
        return
    inner, given = _subject(test)
    scaled_if = it.scaled_if.get(unparse(inner)) if it.scaled_if else None
    if scaled_if is None and isinstance(inner, (ast.Name, ast.Attribute)):
        values = list_values(it.evaluate(inner))
        if any(isinstance(item, Ref) and it.kind(item) == "scaler" for item in values):
            scaled_if = True
    if scaled_if is not None and scaled_if is not (holds is given):
        it.state.scaled = False


def leave_branches(it: Interpreter, test: ast.expr, taken: State, other: State) -> None:
    """Note of a condition in which of its branches the loss was scaled."""
    if taken.scaled is not other.scaled and not (taken.dead or other.dead):
        inner, given = _subject(test)
        it.scaled_if[unparse(inner)] = taken.scaled is given


def _subject(test: ast.expr) -> tuple[ast.expr, bool]:
    """Return what a condition asks for, and whether it asks that it is given, or that it is not: `not x`."""
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner, given = _subject(test.operand)
        return inner, not given
    if isinstance(test, ast.Compare) and len(test.ops) == 1 and isinstance(test.ops[0], (ast.Is, ast.IsNot)):
        right = test.comparators[0]
        if isinstance(right, ast.Constant) and right.value is None:
            return test.left, isinstance(test.ops[0], ast.IsNot)
    return test, True


def is_scaling(node: ast.Call) -> bool:
    """Whether some scaler scales what a backward() is of: scaler.scale(loss), or its argument."""
    parts = (getattr(node.func, "value", None), *node.args)
    return any(isinstance(part, ast.Call) and getattr(part.func, "attr", "") == "scale" for part in parts)


def scales_loss(node: ast.Call) -> bool:
    """Whether what scales is called a scaler: which kind it is, reading does not know."""
    scale = getattr(getattr(node.func, "value", None), "func", None)
    owner = getattr(scale, "value", None)
    return "scaler" in getattr(owner, "id", getattr(owner, "attr", "")).lower()


def match_case(it: Interpreter, case: ast.match_case, subject: Value) -> bool | None:
    """Return whether a case is the one, None when that is not known; its names are bound either way."""
    fits = _fits(it, case.pattern, subject)
    if fits is False or case.guard is None:
        return fits
    allowed = as_bool(it.evaluate(case.guard))
    return False if allowed is False else (None if allowed is None else fits)


def place_of_case(it: Interpreter, case: ast.match_case, subject: Value, before: Sequence[str]) -> str:
    """Return which ranks come to a case of `match rank:`; `before` are those of the cases before it."""
    guard = it.evaluate(case.guard) if case.guard is not None else UNKNOWN
    if isinstance(guard, RankValue) and guard.first is not None and guard.sure is not False:
        return RANK_0 if guard.first else OTHER_RANKS
    if not isinstance(subject, RankValue):
        return ""
    pattern = case.pattern
    asked = pattern.value if isinstance(pattern, (ast.MatchValue, ast.MatchSingleton)) else None
    value = it.evaluate(asked) if isinstance(asked, ast.expr) else Const(asked)
    if isinstance(pattern, ast.MatchAs) and pattern.pattern is None:  # `case _`: what is left
        ranks = {RANK_0, OTHER_RANKS} - set(before) if before else set[str]()
        return ranks.pop() if len(ranks) == 1 else ""
    if asked is None or not isinstance(value, Const) or not isinstance(value.value, int):
        return ""
    if subject.first is None:
        return RANK_0 if value.value == 0 else OTHER_RANKS
    return RANK_0 if subject.first is bool(value.value) else OTHER_RANKS


def _fits(it: Interpreter, pattern: ast.pattern, subject: Value) -> bool | None:
    match pattern:
        case ast.MatchValue() | ast.MatchSingleton() if isinstance(subject, OneOf):
            return None
        case ast.MatchValue(value=value):
            return is_same(it.evaluate(value), subject)
        case ast.MatchSingleton(value=value):
            return is_same(Const(value), subject)
        case ast.MatchAs(pattern=inner, name=name):
            fits = True if inner is None else _fits(it, inner, subject)
            if name:
                it.bind(name, subject)
            return fits
        case ast.MatchOr(patterns=patterns):
            answers = [_fits(it, item, subject) for item in patterns]
            return True if True in answers else (None if None in answers else False)
        case _:  # whether a sequence, a mapping or an object of a class fits is not asked
            for part in ast.walk(pattern):
                name = getattr(part, "rest" if isinstance(part, ast.MatchMapping) else "name", None)
                if name:
                    it.bind(name, UNKNOWN)
    return None
