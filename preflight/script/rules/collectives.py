"""Rule R404: what all ranks must do together, and only rank 0 does."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.frozen import dataclass
from preflight.script.interpreter.branch_conditions import BY_RANK, FINALLY, MAYBE, OTHER_RANKS, RANK_0
from preflight.script.interpreter.branches import OF_RANKS
from preflight.script.interpreter.contexts import LOCKED
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.collectives import FORWARD_OF_ONE
from preflight.script.libraries.pytorch import list_trained_models
from preflight.script.rules.certainty import SEVERITY, apply_doubts
from preflight.script.rules.failed_batches import AGREED, find_failed_batches
from preflight.script.rules.own_decisions import EACH, find_decider, has_measured_condition
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.rules.unlike_turns import find_unlike_turns
from preflight.script.syntax_trees import unparse, walk
from preflight.script.values import Ref
from preflight.script.values.constants import TRUE
from preflight.script.values.operations import list_values

OTHERS = "others take part"  # note of what the other ranks take part in, in a branch without rank 0
_PARTED = "by rank in some way"
_GROUPS = "groups of all ranks"
_OF_ALL = {
    "train": "trainer.train()",
    "evaluate": "trainer.evaluate()",
    "buffers": "forward() of a model that DDP wraps, which broadcasts its buffers",
    **dict.fromkeys(("step", "scaler step"), "backward() and step() of a model that DDP or FSDP wraps"),
}
_GONE = "rank 0 alone leaves this loop, and the others wait for it in the next turn"
_ENDED = "rank 0 alone leaves early, and the others wait for it later"
_OWN = {
    "break": "each rank leaves this loop by what its own batch gives, and the others wait for it",
    "turn": "each rank leaves out what follows by what its own batch gives, and the others wait for it in it",
}
_TURNS = "turns that a rank leaves alone"
_OWN_BRANCH = "each rank decides by what its own part of the data gave whether it comes to"
_TOGETHER = "leave it on every rank: broadcast what rank 0 decides"
_ASKS_SHARDS = re.compile(r"fsdp|FSDP|FullySharded|deepspeed|zero_?3")
_OF_ZERO_3 = frozenset({"load_checkpoint", "save_16bit_model", "save_fp16_model"})
"""Methods of DeepSpeed's engine that wait for all ranks where ZeRO-3 parts the weights, and not before."""


@dataclass(frozen=True, slots=True)
class _Alone:
    """Note of what rank 0 (`others`: all but rank 0) alone comes to, and how sure that is."""

    what: str
    level: Level
    others: bool = False


@dataclass(frozen=True, slots=True)
class _Again:
    """Note of what rank 0 comes to in its branch of a function that it calls alone."""

    what: str
    level: Level


@dataclass(frozen=True, slots=True)
class _PartIn:
    """Note of where rank 0 (`others`: all but rank 0) takes part in something, by the function around it."""

    function: int | None
    others: bool = False


@dataclass(frozen=True, slots=True)
class _Exit:
    """Note of where rank 0 (`others`: others) leaves a loop or, by its number, one call of a function."""

    place: CodeLocation
    number: int
    others: bool = False
    own: str = ""  # "break" or "turn": each rank decides alone that it leaves the loop, or a turn of it
    began: int = 0  # when that turn began; behind its place come those of what is met later in it


@dataclass(frozen=True, slots=True)
class _MetIn:
    """Note of what all ranks take part in, in such a loop or call."""

    place: CodeLocation
    number: int


@dataclass(frozen=True, slots=True)
class _AskedFor:
    """Note of a part of the condition under which rank 0 leaves such a loop or call."""

    place: CodeLocation
    number: int
    asked: str


@dataclass(frozen=True, slots=True)
class _GuardOf:
    """Note of the condition around a place that rank 0 alone comes to."""

    place: CodeLocation


@rule("R404", "collective", "train", "evaluate", "step", "scaler step", "buffers", "break", "backward", "end")
def rank_0_alone_in_a_collective(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A barrier, broadcast, reduction or the like is reached by rank 0 only.

    The others never come: rank 0 waits until the time-out of the process group (10 to 30 minutes), or meets
    them in another operation. So do state_dict() and forward of an FSDP model, generate() and
    Trainer.save_model() under ZeRO-3, accelerator.gather(), trainer.evaluate(), Lightning's
    log(sync_dist=True), compute() of torchmetrics, DeepSpeed's engine.save_checkpoint() and a step of a model
    that DDP wraps, which all ranks must call. So is forward() of a model in DDP with batch normalization, or
    with positions in buffers as those of transformers, in eval() too: DDP broadcasts its buffers. A branch of
    the other ranks that takes part in one is taken for the counterpart: of those of its own function, or,
    where that has none, of all. Where rank 0 takes part in none, they wait for it.
    So do they where it alone leaves a loop early, as by a decision to stop that it keeps to itself, and where
    each rank leaves one, or a turn of it, by what its own batch or part of the data gave, by its clock, or
    for lack of memory, or comes to a collective so; and the owner of a file lock waits for
    those that wait for the lock. Beside a setting that is not known (`config.mode == "debug"`) it is a
    warning.
    Source: torch.distributed's documentation; reproduced on two gloo ranks with torch 2.13; deepspeed's
    engine.py, where save_checkpoint() starts with a barrier.
    """
    if it.target.processes == 1:
        return
    if event.name == "break":
        _note_left(it, event)
        return
    if event.name == "end":
        yield from _left_alone(it)
        met, unmet = _met_in_functions(it)
        yield from () if unmet else _waiting(it, met)
        yield from _met_before(it, met)
        if not any(isinstance(key, (_Alone, _PartIn)) and not key.others for key in it.notes):
            yield from _without_rank_0(it)
        return
    if event.name in ("step", "scaler step") and not is_shared(it, event):
        if it.loops and OF_RANKS.isdisjoint(it.contexts) and _is_prepared(it, event):
            _note_met(it, event)
        return
    if (event.what == "new_group" and _is_made_once(it, event.place)) or _is_never_taken(it):
        return
    if LOCKED in it.contexts and event.name == "collective":
        message = (
            f"one rank at a time comes to this {event.what}(): it waits for ranks that wait for the lock"
        )
        yield RuleHit(event.place, message, f"leave the block before {event.what}()", Level.WARNING)
    elif event.name == "backward":
        yield from find_failed_batches(it, event)
    else:
        yield from _take_part(it, event)


def _take_part(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Note who takes part in something; yield it where each rank decides that for itself."""
    # A branch of the others in a function that rank 0 alone calls now: others come to it from elsewhere.
    if OTHER_RANKS in it.contexts or (BY_RANK in it.contexts and RANK_0 not in it.contexts):
        it.note(OTHERS, event.place)
        it.note(_PartIn(_function(it), others=True), event.place)
        alone = OTHER_RANKS in it.contexts and event.name == "collective"
        level = apply_doubts(it, RuleHit(event.place, "", "", Level.WARNING), "R404").level
        it.note(_Alone(f"{event.what}()", level, others=True) if alone else _PARTED, event.place)
    elif RANK_0 in it.contexts:
        _note_alone(it, event)
    elif BY_RANK not in it.contexts:
        _note_met(it, event)
        yield from _in_unlike_turns(it, event)
        if event.name == "collective" and has_measured_condition(it):
            yield RuleHit(event.place, f"{_OWN_BRANCH} this {event.what}()", AGREED, Level.WARNING)


def _in_unlike_turns(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Yield the loop over a rank's own items or files in whose turns all take part in something."""
    for loop in it.loops:
        said = "" if loop.number else find_unlike_turns(it, loop)
        if said:
            what = _OF_ALL.get(event.name) or f"{event.what}()"
            fix = "items[: len(items) // world * world][rank::world], or the Join of torch around the loop"
            yield RuleHit(
                loop.place, f"{said}, and wait in it for {what}", fix, Level.WARNING, (event.place,)
            )


def _note_alone(it: Interpreter, event: ScriptEvent) -> None:
    """Note what rank 0 alone takes part in, how sure that is, and the condition around it."""
    is_sure = it.target.processes and event.name != "buffers" and event.what not in _OF_ZERO_3
    is_sure = is_sure and not any(map(_asks_setting, it.tests))
    level = Level.ERROR if is_sure else Level.WARNING
    level = Level.INFO if _is_of_another_launch(it) else level
    hit = apply_doubts(it, RuleHit(event.place, "", "", level), "R404")
    what = _OF_ALL.get(event.name) or f"{event.what}()"
    inner = what == "forward()" and it.function and getattr(it.function.node, "name", "") == "forward"
    if inner and any(_Alone(what, level) in it.notes for level in Level):
        return  # of a layer inside the model whose forward it reports
    it.note(_Alone(what, hit.level), event.place)
    it.note(_PartIn(_function(it)), event.place)
    calls = {loop.calls: loop.depth for loop in reversed(it.loops) if loop.number}  # the first of each
    for number, depth in calls.items():
        if number and RANK_0 in it.contexts[:depth]:  # what the branch calls is a part of it
            it.note(_PartIn(it.stack[number - 2] if number > 1 else None), event.place)
    if it.guard is not None:
        it.note(_GuardOf(event.place), it.guard)
    around, inside = it.contexts[: it.ways.contexts], it.contexts[it.ways.contexts :]
    if event.name == "collective" and RANK_0 in around and RANK_0 in inside:
        it.note(_Again(what, hit.level), event.place)


def _note_met(it: Interpreter, event: ScriptEvent) -> None:
    """Note what all ranks take part in: in each turn of a loop, and in a call that rank 0 has left."""
    turns = _TURNS in it.notes
    for loop in it.loops:
        in_call = loop.number and FINALLY not in it.contexts[loop.depth :]
        if not loop.number or (in_call and _Exit(loop.place, loop.number) in it.notes):
            it.note(_MetIn(loop.place, loop.number), event.place)
        if turns and (turn := _Exit(loop.place, 0, own="turn", began=loop.began)) in it.notes:
            it.note(turn, event.place)


def _note_left(it: Interpreter, event: ScriptEvent) -> None:
    """Note who leaves a loop or call by a way out of some ranks; what fails on rank 0 ends the others.

    Behind one of rank 0, a way out of all ranks under a condition of it is the others'.
    """
    loop = it.loops[event.ref or 0]
    left, inside, tests = (loop.place, loop.number), it.contexts[loop.depth :], it.tests[loop.tests :]
    alone = RANK_0 in inside and OTHER_RANKS not in inside
    if OF_RANKS.isdisjoint(inside) and tests and event.what != "fails":
        by = find_decider(it, tests[-1], loop)
        own = (event.what or "break") if by == EACH else ""
        if by and (own or event.what != "turn"):
            began = loop.began if own == "turn" else 0
            it.note(_TURNS)
            it.notes.setdefault(_Exit(*left, own=own, began=began), [event.place])
            return
    if event.what == "turn":
        return
    if RANK_0 in it.contexts[: loop.depth] or (alone and event.what == "fails"):
        return
    if alone:
        for asked in (asked for test in tests for asked in _parts(test)):
            it.note(_AskedFor(*left, asked), event.place)
    elif OF_RANKS.isdisjoint(inside):
        together = any if isinstance(tests[-1], ast.BoolOp) and isinstance(tests[-1].op, ast.Or) else all
        if not together(_AskedFor(*left, asked) in it.notes for asked in _parts(tests[-1])):
            return
    it.note(_Exit(*left, others=not alone), event.place)


def _parts(test: ast.expr) -> list[str]:
    """Return what a condition asks, the parts of an `and` or `or` one by one, each without its `not`."""
    if isinstance(test, ast.BoolOp):
        return [part for value in test.values for part in _parts(value)]
    return [unparse(test).removeprefix("not ")]


def _left_alone(it: Interpreter) -> Iterator[RuleHit]:
    """Yield where rank 0 alone leaves a loop, or a function early, in which all take part in something."""
    told: set[CodeLocation] = set()
    exits = [(key, places) for key, places in it.notes.items() if isinstance(key, _Exit)]
    for key, (first, *behind) in sorted(exits, key=lambda item: item[0].number > 0):  # of loops first
        met = (behind if key.own == "turn" else it.notes.get(_MetIn(key.place, key.number), []))[:1]
        parted = key.others or _Exit(key.place, key.number, others=True) in it.notes
        if met and not parted and first not in told:
            told.add(first)
            message = _OWN.get(key.own) or (_ENDED if key.number else _GONE)
            yield RuleHit(first, message, AGREED if key.own else _TOGETHER, Level.WARNING, tuple(met))


def _without_rank_0(it: Interpreter) -> Iterator[RuleHit]:
    """Yield what the other ranks alone take part in, where no branch of rank 0 takes part in anything.

    A note where code was not read: rank 0 may come to the counterpart in it.
    """
    unread = it.sources.has_unread()  # which reads the modules that rules of the end look into as well
    for key, places in list(it.notes.items()) if not it.notes.get(_PARTED) else ():
        if isinstance(key, _Alone) and key.others:
            message = f"rank 0 does not come to this {key.what}, and the others wait for it"
            fix = f"call {key.what} on every rank: move it out of the branch of the others"
            for place in dict.fromkeys(places):
                yield RuleHit(place, message, fix, Level.INFO if unread else key.level)


def _is_never_taken(it: Interpreter) -> bool:
    """Whether a branch of rank 0 lies in a call that only the others make."""
    places = [place for place in it.contexts if place in (RANK_0, OTHER_RANKS)]
    return places[:1] == [OTHER_RANKS] and places[-1] == RANK_0


def _is_of_another_launch(it: Interpreter) -> bool:
    """Whether a branch asks for shards, and the script has made none."""
    asks = any(_ASKS_SHARDS.search(unparse(test)) for test in it.tests)
    return asks and not any(thing.get("gathers") == TRUE for thing in it.state.heap.values())


def _asks_setting(test: ast.expr) -> bool:
    """Whether a condition compares an attribute with a word: a setting, `config.mode == "debug"`."""
    compared = (part for part in walk(test) if isinstance(part, ast.Compare))
    pairs = ((part.left, getattr(part.comparators[0], "value", None)) for part in compared)
    words = (asked for asked, value in pairs if isinstance(value, str) and value.isidentifier())
    return any(isinstance(asked, ast.Attribute) for asked in words)


def _is_made_once(it: Interpreter, place: CodeLocation) -> bool:
    """Whether all ranks have made a group at this place before, and only some condition may do it again.

    `if _GROUP is None: _GROUP = new_group(...)`: groups are made once, and rank 0 then has it already.
    """
    if RANK_0 not in it.contexts:
        it.note(_GROUPS, place)
        return False
    inner = it.contexts[len(it.contexts) - it.contexts[::-1].index(RANK_0) :]
    return MAYBE in inner and place in it.notes.get(_GROUPS, ())


def _is_prepared(it: Interpreter, event: ScriptEvent) -> bool:
    """Whether an optimizer steps a model that an Accelerator or Fabric has wrapped."""
    optimizers = list_values(event.values.get("optimizer", Ref(event.ref or 0)))
    models = (model for optimizer in optimizers for model in list_trained_models(it, optimizer))
    return any(isinstance(it.attr(model, "accelerator"), Ref) for model in models)


def is_shared(it: Interpreter, event: ScriptEvent) -> bool:
    """Whether an optimizer steps a model whose backward() DDP or FSDP completes with all ranks."""
    optimizers = list_values(event.values.get("optimizer", Ref(event.ref or 0)))
    models = (model for optimizer in optimizers for model in list_trained_models(it, optimizer))
    things = [thing for model in models if (thing := it.thing(model)) is not None]
    if any(thing.get("forward_of_all") == TRUE for thing in things):
        return True
    around = RANK_0 in it.contexts and it.notes.get(FORWARD_OF_ONE)
    return any(thing.get("wrapped") == TRUE for thing in things) and not around


def _function(it: Interpreter) -> int | None:
    return it.stack[-1] if it.stack else None


def _met_in_functions(it: Interpreter) -> tuple[set[CodeLocation], bool]:
    """Return where rank 0 meets others in one function, and whether others may be met elsewhere.

    `if rank != 0: barrier()` and `if rank == 0: barrier()` in one function belong together, and say nothing
    of what rank 0 does in another one.
    """
    met, unmet = set[CodeLocation](), False
    for key in list(it.notes):
        if isinstance(key, _PartIn) and key.others:
            others = set(it.notes[key])
            alone = set(it.notes.get(_PartIn(key.function), ()))
            met |= alone if others - alone else alone & others
            unmet = unmet or not alone
    return met, unmet


def _met_before(it: Interpreter, met: set[CodeLocation]) -> Iterator[RuleHit]:
    """Yield what rank 0 meets the others in, in a function that it calls alone once more."""
    again = [(key, places) for key, places in it.notes.items() if isinstance(key, _Again)]
    for key, places in again:
        for place in dict.fromkeys(places):
            source = it.sources.get(place.path)
            scopes = it.sources.parser.list_nodes(source.tree, ast.FunctionDef) if source is not None else []
            spans = [(node.lineno, node.end_lineno or 0) for node in scopes]
            own = max((span for span in spans if span[0] <= place.line <= span[1]), default=(0, 0))
            others = it.notes.get(OTHERS, ())
            if place in met and all(at.path == place.path and own[0] <= at.line <= own[1] for at in others):
                message = f"rank 0 comes to this {key.what} once more, alone, and waits for the others"
                fix = "call the function on every rank, or leave its exchanges out where rank 0 is alone"
                guards = tuple(dict.fromkeys(it.notes.get(_GuardOf(place), ())))
                yield RuleHit(place, message, fix, min(key.level, Level.WARNING, key=SEVERITY.index), guards)


def _waiting(it: Interpreter, met: set[CodeLocation]) -> Iterator[RuleHit]:
    for key, places in list(it.notes.items()):
        if not isinstance(key, _Alone) or key.others:
            continue
        for place in (place for place in dict.fromkeys(places) if place not in met):
            when = " under ZeRO-3" if key.what.removesuffix("()") in _OF_ZERO_3 else ""
            message = f"only rank 0 comes to this {key.what}, and waits for the others{when}"
            fix = f"call {key.what} on every rank: move it out of the branch of rank 0"
            fix = "model.module(batch), which no rank waits for" if key.what == _OF_ALL["buffers"] else fix
            guards = tuple(dict.fromkeys(it.notes.get(_GuardOf(place), ())))
            yield RuleHit(place, message, fix, key.level, guards)
