"""Rules C505 and C506: what a run that continues starts anew, or leaves out in each epoch."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.own_measures import get_last_name
from preflight.script.rules.own_names import get_assigned_name
from preflight.script.rules.partial_resumes import list_unread_states, list_unused_starts
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import ByKind, unparse, walk
from preflight.script.values import Ref
from preflight.script.values.constants import NONE
from preflight.script.values.operations import as_text

_STEPPED = "a scheduler makes a step"
_CONTINUES = re.compile(
    r"(?i)last_epoch|_step_count|(?:sch|lr|warm)\w*(?:\[[^\]\n]*\]|\(\))?\.(?:load_state_dict|step\(\w)"
    r"|load_state\(|load_checkpoint\(\w*(?:sched|engine)"
)
"""What brings a scheduler to where it was: its state, or its step by number."""
_FORGETS = re.compile(r"(?i)^constant|^ExponentialLR$|Plateau|^lambda \w+: [\d.]+$")
_REMAINS = re.compile(r"(?i)start|resum|begin|remain|done|last|init")
"""Names of what a schedule is made with that say where a run continues."""
_SKIPS = re.compile(r"skip_first_batches\(")


@rule("C505", "restored", "schedule", "end")
def schedule_that_starts_anew(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A run that continues reads its optimizer from the checkpoint, and not the scheduler of its rates.

    The scheduler counts from 0 again: it warms up a second time, and falls as many steps later as were made
    before. Nothing raises. Its state has the count, as last_epoch. So it is with the state of an optimizer or
    scaler that is saved and never read, and with the epoch of a checkpoint that no loop starts from.
    Source: torch/optim/lr_scheduler.py; the saving of general checkpoints in torch's tutorials.
    """
    if event.name == "schedule":
        it.note((_STEPPED, event.ref), event.place)
    elif event.name == "restored":
        it.note(("restored", event.ref), event.place)
        return
    if event.name == "end" and it.sources.mention(_READS):
        yield from _list_unread(it)
    if event.name == "end" and any(isinstance(key, tuple) and key[0] == "restored" for key in it.notes):
        for number, thing in it.state.heap.items():
            of = thing.get("optimizer") if thing.kind == "scheduler" else None
            optimizer = it.thing(of) if isinstance(of, Ref) else None
            places = it.notes.get(("restored", of.id), ()) if isinstance(of, Ref) else ()
            kind, given = (as_text(thing.get(name)) or "" for name in ("kind", "given"))
            if optimizer is None or not places or not it.notes.get((_STEPPED, number)):
                continue
            if not kind or any(map(_FORGETS.search, (kind, given))) or _REMAINS.search(given):
                continue
            if thing.get("restored") == NONE and not it.sources.mention(_CONTINUES):
                name = get_assigned_name(it, thing.place) or "scheduler"
                message = "the optimizer continues from the checkpoint, and its scheduler counts from 0 again"
                fix = f"{name}.load_state_dict(...) beside it, of {name}.state_dict() that is saved too"
                yield RuleHit(places[0], message, fix, Level.WARNING, (thing.place,))


_READS = re.compile(r"load_state_dict\(")


def _list_unread(it: Interpreter) -> Iterator[RuleHit]:
    """Yield the states that are saved and never read, and the epoch that is read and never used."""
    for place, saved, kind, owner in list_unread_states(it):
        message = f"a run that continues reads no state of this {kind}, which the checkpoint has"
        fix = f"{owner}.load_state_dict(...) of it where the weights are read"
        yield RuleHit(place, message, fix, Level.WARNING, (saved,))
    for place, name in list_unused_starts(it):
        message = (
            f"{name} says where a run continues, and nothing uses it: the run starts from the first epoch"
        )
        yield RuleHit(place, message, f"range({name}, ...) in the loop over epochs", Level.WARNING)


@rule("C506", "end")
def batches_left_out_in_each_epoch(it: Interpreter, _event: ScriptEvent) -> Iterator[RuleHit]:
    """What skip_first_batches() gives takes the place of the loader, also in the epochs behind the first.

    It leaves the same number of batches out each time that it is gone through: those of later epochs are
    never trained on. Only the epoch that was interrupted takes it.
    Source: accelerate/data_loader.py, SkipBatchSampler; accelerate's example checkpointing.py.
    """
    for source in it.sources.files() if it.sources.mention(_SKIPS) else ():
        for node, name in it.sources.parser.find_by_kind(_list_skips, source.tree):
            message = f"{name} leaves these batches out in each of the epochs that follow, too"
            fix = f"a name of its own for it, which the first epoch takes, and {name} for the others"
            yield RuleHit(source.place(node), message, fix, Level.WARNING)


def _list_skips(kinds: ByKind) -> list[tuple[ast.Assign, str]]:
    """Return the statements that give a loader's name to what skips its first batches, for several epochs."""
    found = []
    for node in kinds.get(ast.Assign, ()):
        name, call = unparse(node.targets[0]), node.value
        skipped = call.args[:1] if isinstance(call, ast.Call) else ()
        if get_last_name(call) != "skip_first_batches" or [*map(unparse, skipped)] != [name]:
            continue
        for epochs in (*kinds.get(ast.For, ()), *kinds.get(ast.While, ())):
            parts = walk(epochs)
            turns = [part for part in parts[1:] if isinstance(part, ast.For) and _goes_over(part.iter, name)]
            given = [
                part for part in parts if isinstance(part, ast.Assign) and unparse(part.targets[0]) == name
            ]
            if any(part.lineno > node.lineno for part in turns) and all(part is node for part in given):
                found.append((node, name))
                break
    return found


def _goes_over(node: ast.expr, name: str) -> bool:
    """Whether a loop goes over a loader, counted or with a bar too."""
    while (
        isinstance(node, ast.Call)
        and node.args
        and get_last_name(node) in ("enumerate", "tqdm", "iter", "islice")
    ):
        node = node.args[0]
    return unparse(node) == name
