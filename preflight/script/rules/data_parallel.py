"""Rule D206: one process that drives all GPUs."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import MAYBE
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.own_names import get_assigned_name
from preflight.script.rules.placement import find_level
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import unparse


@rule("D206", "data parallel")
def data_parallel_in_a_launch(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """torch.nn.DataParallel drives all GPUs from one process.

    In a launch with one rank per GPU every rank would use all of them.
    Source: torch's documentation of DataParallel.
    """
    level = find_level(it)
    if level is not None:
        below = "\n".join(it.source.lines[event.place.line : event.place.line + 12])
        if MAYBE in it.contexts and (_WRAPPED_FOR_RANKS.search(below) or _is_beside_ranks(it, event)):
            level = Level.INFO  # ranks take the branch beside it
        message = "DataParallel uses every GPU from each rank"
        name = get_assigned_name(it, event.place) or "model"
        fix = f"one process alone (--gpus 1), or a process group and {name} = DistributedDataParallel({name})"
        yield RuleHit(event.place, message, fix, level)


def _is_beside_ranks(it: Interpreter, event: ScriptEvent) -> bool:
    """Whether a line is in the `else` of a branch that wraps the model, or behind `not distributed`."""
    line = event.place.line
    for node in it.list_nodes(ast.If):
        if node.orelse and node.orelse[0].lineno <= line <= (node.orelse[-1].end_lineno or 0):
            if any(_OF_DDP.search(unparse(item)) for item in node.body):
                return True
        elif node.lineno < line <= (node.body[-1].end_lineno or 0) and _OF_ONE.search(unparse(node.test)):
            return True
    return False


_OF_DDP = re.compile(r"(?:DistributedDataParallel|\bDDP)\(")
_OF_ONE = re.compile(r"\bnot (?:\w+\.)*(?:is_)?(?:distributed|ddp)\b")
_WRAPPED_FOR_RANKS = re.compile(
    r"\bif [^\n]*rank[^\n]*\n(?:[^\n]*\n){0,4}?[^\n]*(?:DistributedDataParallel|\bDDP)\("
)
