"""Rule R412: when the process group is made."""

import ast
from collections.abc import Iterator
from functools import lru_cache

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import (
    MAYBE,
    OF_SOME,
    SPAWNED,
    UNCALLED,
    UNREACHED,
    WITHOUT,
)
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.own_measures import get_last_name
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import unparse

_DOUBTS = OF_SOME | {MAYBE, UNCALLED, "except"}
_EARLY = "used before the group is made"
_GONE = "the process group is destroyed"
_MADE = "a process group is made"


@rule("R412", "exchange", "asks group", "ddp", "process group", "group ends", "accelerator")
def group_used_early_or_made_twice(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """The process group is used before it is made or behind its end, or made twice.

    get_rank(), barrier() and DistributedDataParallel(model) stop in front of init_process_group(): "Default
    process group has not been initialized"; so do exchanges behind destroy_process_group(). Accelerator()
    makes the group in a launch of several processes; init_process_group() behind it stops: "trying to
    initialize the default process group twice!". `if not dist.is_initialized():` avoids both.
    Source: torch/distributed/distributed_c10d.py; accelerate/state.py; reproduced with torch 2.13.
    """
    uses = event.name in ("exchange", "asks group", "ddp")
    gone = (_GONE, it.stack[0] if it.stack else None)
    if SPAWNED in it.contexts:
        pass  # of another process, which has a group of its own
    elif event.name == "group ends" and _is_certain(it):
        it.note(gone, event.place)
    elif event.name in ("process group", "accelerator"):
        it.notes.pop(gone, None)
    elif event.name in ("exchange", "ddp") and it.notes.get(gone) and _is_certain(it):
        message = "the process group is destroyed before this, which needs it"
        fix = "destroy_process_group() behind it"
        yield RuleHit(event.place, message, fix, Level.WARNING, tuple(it.notes[gone][:1]))
    if (uses and it.state.grouped) or it.target.processes == 1:
        return
    if not _is_certain(it) or _is_tried(it, event):
        return
    outer = it.stack[0] if it.stack else None  # of two entries of a program a launch takes one
    if event.name == "group ends":
        for name in (_EARLY, _MADE):  # what is ended had been made, by others perhaps
            it.notes.pop((name, outer), None)
    elif uses:
        it.note((_EARLY, outer), event.place)
    elif event.name == "accelerator" or (
        event.call and (event.what or get_last_name(event.call.node) == "init_process_group")
    ):
        early, made = (
            [place for each in _entries(it, outer) for place in it.notes.get((name, each), ())]
            for name in (_EARLY, _MADE)
        )
        for place in dict.fromkeys(early if event.name == "process group" else ()):
            message = "the process group is made after this, which needs it"
            yield RuleHit(place, message, "init_process_group() above it", Level.WARNING, (event.place,))
        for place in made[:1] if event.name == "process group" and event.place not in made else ():
            fix = "leave it out, or if not torch.distributed.is_initialized(): before it"
            yield RuleHit(event.place, "the process group is made already", fix, Level.WARNING, (place,))
        it.note((_MADE, outer), event.place)


def _entries(it: Interpreter, outer: int | None) -> tuple[int | None, ...]:
    """Return the entry that is read, and None, the code at the top of files, where some code calls it."""
    info = it.functions.get(outer) if outer is not None else None
    if info is None:
        return (None,)
    is_called = it.sources.mention(_compile_call(getattr(info.node, "name", "")))
    return (outer, None) if is_called else (outer,)


@lru_cache(maxsize=256)  # one pattern a name: files keep what they mention by it
def _compile_call(name: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!def )\b{name}\(")


def _is_certain(it: Interpreter) -> bool:
    """Whether every rank comes to this: under no condition and no handler."""
    if it.tests or it.target.switches or any(loop.caught for loop in it.loops):
        return False
    return not any(place in _DOUBTS or place.startswith((WITHOUT, UNREACHED)) for place in it.contexts)


def _is_tried(it: Interpreter, event: ScriptEvent) -> bool:
    """Whether a handler is around a place, which may expect what is found, or what asks for a group first."""
    text, line = it.source.text, event.place.line
    tries = (node for node in it.list_nodes(ast.Try) if node.handlers) if "try" in text else ()
    asks = it.list_nodes(ast.IfExp, ast.BoolOp) if "is_initialized" in text else []
    asked = any(node.lineno == line and "is_initialized" in unparse(node) for node in asks)
    return asked or any(node.lineno <= line <= (node.end_lineno or 0) for node in tries)
