"""How sure a finding is: an error is one on every path that runs by default, under the launch as it is known.

What only some condition, default or caller brings about is one level lower, and its message says which.
"""

import ast
from collections.abc import Iterator
from dataclasses import replace

from preflight.facts.script import CodeLocation
from preflight.script.interpreter.branch_conditions import (
    MAYBE,
    ONE_PROCESS,
    ONE_RANK,
    UNCALLED,
    UNREACHED,
    WITHOUT,
    find_branch_places,
)
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.registry import Level, RuleHit
from preflight.script.syntax_trees import walk
from preflight.script.target import RankTarget

OF_ALL_RANKS = frozenset({"D201", "D202", "D203", "D204", "D205", "D206"})
"""Faults of ranks that do the same; what rank 0 alone does is none of these."""
OF_OLD_GPUS = frozenset({"P109", "P121", "P130", "P131"})
"""What is a fault on GPUs before Ampere and right on all others: a note where the GPUs are not known.

The rules judge as if for such a GPU, and a target with another has none of these: one reading serves both.
"""
OF_NEW_GPUS = frozenset({"P133"})  # what is a fault only where bf16 is native
_OF_ORDER = frozenset({"D202", "D205"})  # of what comes first; who calls a function may precede it
UNREAD = "unread"
SEVERITY = (Level.INFO, Level.WARNING, Level.ERROR)
LOWER = {Level.ERROR: Level.WARNING, Level.WARNING: Level.INFO, Level.INFO: Level.INFO}


def concerns_target(target: RankTarget, code: str) -> bool:
    """Return whether a rule's fault is one on the target's GPU."""
    if code in OF_NEW_GPUS:
        return target.capability is not None and not target.before_ampere
    return target.before_ampere or code not in OF_OLD_GPUS


def list_doubts(it: Interpreter, place: CodeLocation) -> tuple[str, ...]:
    """Return why what is being read, and is written at a place, may not run, or may not be all that runs."""
    written = (
        name
        for (path, first, last), name in it.options.defaults.items()
        if path == place.path and first <= place.line <= last
    )
    return tuple(
        name
        for name in dict.fromkeys((*it.contexts, *written))
        if name in ("except", MAYBE, ONE_RANK, UNCALLED, UNREAD) or name.startswith((WITHOUT, UNREACHED))
    )


def apply_doubts(it: Interpreter, hit: RuleHit, code: str, at: CodeLocation | None = None) -> RuleHit:
    """Return a hit at the level that the doubts of its place leave, or those of where it comes true."""
    doubts = list_doubts(it, at or hit.place)
    named = any(doubt.startswith(UNREACHED) for doubt in doubts)
    for doubt in doubts:
        hit = hit if named and doubt == UNCALLED else _lowered(hit, code, doubt)
    if UNCALLED in doubts and MAYBE in doubts and code in OF_ALL_RANKS:
        return replace(hit, level=Level.INFO)
    return hit


def _lowered(hit: RuleHit, code: str, doubt: str) -> RuleHit:
    """Training is judged by its values, wherever it is; placement is a matter of the branch it is in."""
    if doubt == UNCALLED:
        level = Level.INFO if code in _OF_ORDER else LOWER[hit.level]
        return replace(hit, level=level, message=f"{hit.message}, if it is called")
    if doubt.startswith(UNREACHED):
        level = Level.INFO if code in _OF_ORDER else min(hit.level, Level.WARNING, key=SEVERITY.index)
        used = doubt.removeprefix(UNREACHED)
        return replace(hit, level=level, message=f"{hit.message}, where {used} is used")
    if doubt == ONE_RANK and (code in OF_ALL_RANKS or code == "D207"):
        return replace(hit, level=Level.INFO, message=f"{hit.message}, in a launch of ranks")
    if doubt == "except" and code == "D207":
        return replace(hit, level=Level.INFO, message=f"{hit.message}, where no launcher has set them")
    if doubt == UNREAD:
        return replace(hit, level=Level.INFO, message=f"{hit.message}, as far as the script was read")
    if hit.level is not Level.ERROR or doubt == ONE_RANK or (doubt != "except" and code not in OF_ALL_RANKS):
        return hit
    condition = {"except": "when this exception is handled", MAYBE: "where this branch is taken"}.get(
        doubt, doubt
    )
    return replace(hit, level=Level.WARNING, message=f"{hit.message}, {condition}")


def is_of_one_process(it: Interpreter, place: CodeLocation) -> bool:
    """Whether a line is in the branch of one GPU, where a rank that takes it has no other."""
    return any(find_branch_places(test)[0] == ONE_PROCESS for test in _tests_around(it, place))


def list_flags(it: "Interpreter", place: CodeLocation | None) -> set[str]:
    """Return the last names that conditions around a line ask: `fp16` of `config.fp16`."""
    parts = [part for test in (_tests_around(it, place) if place else ()) for part in walk(test)]
    owners = {id(part.value) for part in parts if isinstance(part, ast.Attribute)}
    return {
        part.attr if isinstance(part, ast.Attribute) else part.id
        for part in parts
        if isinstance(part, (ast.Attribute, ast.Name)) and id(part) not in owners
    }


def _tests_around(it: "Interpreter", place: CodeLocation) -> Iterator[ast.expr]:
    """Yield the conditions in whose own branches a line is, none of an `else`."""
    source = it.sources.get(place.path)
    for node in it.sources.parser.list_nodes(source.tree, ast.If) if source is not None else ():
        if node.body[0].lineno <= place.line <= (node.body[-1].end_lineno or 0):
            yield node.test
