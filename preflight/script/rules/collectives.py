"""Rule R404: what all ranks must do together, and only rank 0 does."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.script.interpreter.branch_conditions import BY_RANK, FINALLY, MAYBE, OTHER_RANKS, RANK_0
from preflight.script.interpreter.branches import OF_RANKS
from preflight.script.interpreter.events import Loop, ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.values import TRUE, Ref, alternatives
from preflight.script.libraries.collectives import FORWARD_OF_ONE
from preflight.script.libraries.pytorch import trained_models
from preflight.script.rules.certainty import doubted
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import walk

_ALONE = "alone in "
_IN = "rank 0 takes part in "
OTHERS = "others take part"  # note of what the other ranks take part in, in a branch without rank 0
_LEFT = "rank 0 left out of "
_PARTED = "by rank in some way"
_GROUPS = "groups of all ranks"
_OF_ALL = {
    "train": "trainer.train()",
    "evaluate": "trainer.evaluate()",
    "buffers": "forward() of a model that DDP wraps, which broadcasts its buffers",
    **dict.fromkeys(("step", "scaler step"), "backward() and step() of a model that DDP or FSDP wraps"),
}
_MET, _LEAVES, _LEAVE = "all take part in ", "rank 0 leaves ", "others leave "
_OF_CALL = " in call "
_ASKED = "rank 0 asks before it leaves "
_GONE = "rank 0 alone leaves this loop, and the others wait for it in the next turn"
_ENDED = "rank 0 alone leaves early, and the others wait for it later"
_TOGETHER = "leave it on every rank: broadcast what rank 0 decides"
_ASKS_SHARDS = re.compile(r"fsdp|FSDP|FullySharded|deepspeed|zero_?3")
_OF_ZERO_3 = frozenset({"load_checkpoint", "save_16bit_model", "save_fp16_model"})
"""Methods of DeepSpeed's engine that wait for all ranks where ZeRO-3 parts the weights, and not before."""


@rule("R404", "collective", "train", "evaluate", "step", "scaler step", "buffers", "break", "end")
def rank_0_alone_in_a_collective(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A barrier, broadcast, reduction or the like is reached by rank 0 only.

    The others never come: rank 0 waits until the time-out of the process group (10 to 30 minutes), or meets
    them in another operation. So do state_dict() and forward of an FSDP model, accelerator.gather(),
    trainer.evaluate(), DeepSpeed's engine.save_checkpoint() and a step of a model that DDP wraps, which all
    ranks must call. So is forward() of a model in DDP with batch normalization, in eval() too: DDP broadcasts
    its buffers. A branch of the other ranks that takes part in one is taken for the counterpart: of those of
    its own function, or, where that has none, of all. Where rank 0 takes part in none, they wait for it.
    So do they where it alone leaves a loop early, as by a decision to stop that it keeps to itself. Beside a
    setting that is not known (`config.mode == "debug"`) it is a warning.
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
        if not any(name.startswith((_ALONE, _IN)) for name in it.notes):
            yield from _without_rank_0(it)
        return
    if event.name in ("step", "scaler step") and not is_shared(it, event):
        return
    if event.what == "new_group" and _is_made_once(it, event.place):
        return
    if _is_never_taken(it):
        return
    # A branch of the others in a function that rank 0 alone calls now: others come to it from elsewhere.
    if OTHER_RANKS in it.contexts or (BY_RANK in it.contexts and RANK_0 not in it.contexts):
        it.note(OTHERS, event.place)
        it.note(f"{OTHERS} {_function(it)}", event.place)
        alone = OTHER_RANKS in it.contexts and event.name == "collective"
        level = doubted(it, RuleHit(event.place, "", "", Level.WARNING), "R404").level
        name = f"{_LEFT}{level.value} {event.what}()" if alone else _PARTED
        it.note(name, event.place)
    elif RANK_0 in it.contexts:
        is_sure = it.target.processes and event.name != "buffers" and event.what not in _OF_ZERO_3
        is_sure = is_sure and not any(map(_asks_setting, it.tests))
        level = Level.ERROR if is_sure else Level.WARNING
        level = Level.INFO if _is_of_another_launch(it) else level
        hit = doubted(it, RuleHit(event.place, "", "", level), "R404")
        what = _OF_ALL.get(event.name) or f"{event.what}()"
        inner = what == "forward()" and it.function and getattr(it.function.node, "name", "") == "forward"
        if inner and any(name.startswith(_ALONE) and name.endswith(f" {what}") for name in it.notes):
            return  # of a layer inside the model whose forward it reports
        it.note(f"{_ALONE}{hit.level.value} {what}", event.place)
        it.note(f"{_IN}{_function(it)}", event.place)
        if it.guard is not None:
            it.note(f"guard of {event.place}", it.guard)
    elif BY_RANK not in it.contexts:
        _note_met(it, event)


def _note_met(it: Interpreter, event: ScriptEvent) -> None:
    """Note what all ranks take part in: in each turn of a loop, and in a call that rank 0 has left."""
    for loop in it.loops:
        has_left = f"{_LEAVES}{_named(loop)}" in it.notes and FINALLY not in it.contexts[loop.depth :]
        if has_left or not loop.number:
            it.note(f"{_MET}{_named(loop)}", event.place)


def _note_left(it: Interpreter, event: ScriptEvent) -> None:
    """Note who leaves a loop or call by a way out of some ranks; what fails on rank 0 ends the others.

    Behind one of rank 0, a way out of all ranks under a condition of it is the others'.
    """
    loop = it.loops[event.ref or 0]
    name, inside, tests = _named(loop), it.contexts[loop.depth :], it.tests[loop.tests :]
    alone = RANK_0 in inside and OTHER_RANKS not in inside
    if RANK_0 in it.contexts[: loop.depth] or (alone and event.what == "fails"):
        return
    if alone:
        for asked in (asked for test in tests for asked in _parts(test)):
            it.note(f"{_ASKED}{name} {asked}", event.place)
    elif OF_RANKS.isdisjoint(inside):
        together = any if isinstance(tests[-1], ast.BoolOp) and isinstance(tests[-1].op, ast.Or) else all
        if not together(f"{_ASKED}{name} {asked}" in it.notes for asked in _parts(tests[-1])):
            return
    it.note(f"{_LEAVES if alone else _LEAVE}{name}", event.place)


def _parts(test: ast.expr) -> list[str]:
    """Return what a condition asks, the parts of an `and` or `or` one by one, each without its `not`."""
    if isinstance(test, ast.BoolOp):
        return [part for value in test.values for part in _parts(value)]
    return [ast.unparse(test).removeprefix("not ")]


def _named(loop: Loop) -> str:
    """Return the name of what may be left: of a call each time, as what comes before is done."""
    return f"{loop.place}{_OF_CALL}{loop.number}" if loop.number else str(loop.place)


def _left_alone(it: Interpreter) -> Iterator[RuleHit]:
    """Yield where rank 0 alone leaves a loop, or a function early, in which all take part in something."""
    told = set[CodeLocation]()
    for name, places in sorted(it.notes.items(), key=lambda item: _OF_CALL in item[0]):  # of loops first
        loop = name.removeprefix(_LEAVES)
        met = it.notes.get(f"{_MET}{loop}", [])[:1]
        if loop != name and met and f"{_LEAVE}{loop}" not in it.notes and places[0] not in told:
            told.add(places[0])
            message = _ENDED if _OF_CALL in loop else _GONE
            yield RuleHit(places[0], message, _TOGETHER, Level.WARNING, tuple(met))


def _without_rank_0(it: Interpreter) -> Iterator[RuleHit]:
    """Yield what the other ranks alone take part in, where no branch of rank 0 takes part in anything.

    A note where code was not read: rank 0 may come to the counterpart in it.
    """
    unread = it.sources.unread()
    for name, places in list(it.notes.items()) if not it.notes.get(_PARTED) else ():
        for place in dict.fromkeys(places) if name.startswith(_LEFT) else ():
            level, what = name.removeprefix(_LEFT).split(" ", 1)
            message = f"rank 0 does not come to this {what}, and the others wait for it"
            fix = f"call {what} on every rank: move it out of the branch of the others"
            yield RuleHit(place, message, fix, Level.INFO if unread else Level(level))


def _is_never_taken(it: Interpreter) -> bool:
    """Whether a branch of rank 0 lies in a call that only the others make."""
    places = [place for place in it.contexts if place in (RANK_0, OTHER_RANKS)]
    return places[:1] == [OTHER_RANKS] and places[-1] == RANK_0


def _is_of_another_launch(it: Interpreter) -> bool:
    """Whether a branch asks for shards, and the script has made none."""
    asks = any(_ASKS_SHARDS.search(ast.unparse(test)) for test in it.tests)
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


def is_shared(it: Interpreter, event: ScriptEvent) -> bool:
    """Whether an optimizer steps a model whose backward() DDP or FSDP completes with all ranks."""
    optimizers = alternatives(event.values.get("optimizer", Ref(event.ref or 0)))
    models = (model for optimizer in optimizers for model in trained_models(it, optimizer))
    things = [thing for model in models if (thing := it.thing(model)) is not None]
    if any(thing.get("forward_of_all") == TRUE for thing in things):
        return True
    around = RANK_0 in it.contexts and it.notes.get(FORWARD_OF_ONE)
    return any(thing.get("wrapped") == TRUE for thing in things) and not around


def _function(it: Interpreter) -> str:
    return str(it.stack[-1]) if it.stack else ""


def _met_in_functions(it: Interpreter) -> tuple[set[CodeLocation], bool]:
    """Return where rank 0 meets others in one function, and whether others may be met elsewhere.

    `if rank != 0: barrier()` and `if rank == 0: barrier()` in one function belong together, and say nothing
    of what rank 0 does in another one.
    """
    met, unmet = set[CodeLocation](), False
    for name in list(it.notes):
        if name.startswith(f"{OTHERS} "):
            others = set(it.notes[name])
            alone = set(it.notes.get(f"{_IN}{name.removeprefix(f'{OTHERS} ')}", []))
            met |= alone if others - alone else alone & others
            unmet = unmet or not alone
    return met, unmet


def _waiting(it: Interpreter, met: set[CodeLocation]) -> Iterator[RuleHit]:
    for name, places in list(it.notes.items()):
        if not name.startswith(_ALONE):
            continue
        level, what = name.removeprefix(_ALONE).split(" ", 1)
        for place in (place for place in dict.fromkeys(places) if place not in met):
            when = " under ZeRO-3" if what.removesuffix("()") in _OF_ZERO_3 else ""
            message = f"only rank 0 comes to this {what}, and waits for the others{when}"
            fix = f"call {what} on every rank: move it out of the branch of rank 0"
            fix = "model.module(batch), which no rank waits for" if what == _OF_ALL["buffers"] else fix
            guards = tuple(dict.fromkeys(it.notes.get(f"guard of {place}", ())))
            yield RuleHit(place, message, fix, Level(level), guards)
