"""Rule R415: what decides whether DDP exchanges gradients comes too late, or chooses the wrong turns."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.gradient_exchange import reduces_gradients
from preflight.script.rules.graph_syntax import BACKWARDS, LOOPS
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.rules.unsynced_steps import find_unsynced_steps
from preflight.script.syntax_trees import ByKind, unparse

_SWITCHES = re.compile("no_sync|no_backward_sync|require_backward_grad_sync|requires_gradient_sync")
_SWITCH = "require_backward_grad_sync"
_UNSYNCED = "gradients are not exchanged in the turns that are stepped: those of the ranks stay apart"
_OWN_WRAPPER = re.compile(rf"\bself\.{_SWITCH}\b")  # which may read it in backward()


@rule("R415", "backward", "scaled")
def exchange_decided_after_the_forward(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Whether DDP exchanges gradients is decided after the forward that reads it.

    DistributedDataParallel looks at require_backward_grad_sync in forward(). Set between forward and
    backward(), it holds for the next turn: the first of the accumulated batches is exchanged, the gradients
    of the others stay apart, and the ranks train apart without an error. So do they where no_sync() is around
    the very turns whose gradients the optimizer steps, unless the script puts them together itself.
    Source: torch/nn/parallel/distributed.py, no_sync and _pre_forward; reproduced on two gloo ranks with
    torch 2.13.
    """
    if event.call is None or it.target.processes == 1 or not it.loop_depth:
        return
    for owner, node, forward, end in it.sources.parser.find_by_kind(_late, it.scope):
        if node.lineno < event.call.node.lineno <= end and not it.sources.mention(_OWN_WRAPPER):
            said = f"`{owner}` reads this in its forward, which has come before: the ranks train apart"
            fix = f"move it before `{unparse(forward)}`"
            yield RuleHit(it.place(node), said, fix, Level.WARNING, (it.place(forward),))
    found = [
        RuleHit(
            source.place(sync),
            _UNSYNCED,
            "keep them apart in all other turns",
            Level.WARNING,
            (source.place(step),),
        )
        for source in (it.sources.files() if it.sources.mention(_SWITCHES) else ())
        if it.sources.is_in_code(_SWITCHES, source)
        for sync, step in it.sources.parser.find_by_kind(find_unsynced_steps, source.tree)
    ]
    if found and not reduces_gradients(it):
        yield from found


def _late(kinds: ByKind) -> list[tuple[str, ast.Assign, ast.Call, int]]:
    """Return what sets the switch of a model between its forward and backward(), and where the loop ends."""
    found = list[tuple[str, ast.Assign, ast.Call, int]]()
    loops = [(node.lineno, node.end_lineno or 0) for kind in LOOPS for node in kinds.get(kind, ())]
    switches = {
        node.lineno: (unparse(target.value), node)
        for node in kinds.get(ast.Assign, ())
        if isinstance(target := node.targets[0], ast.Attribute) and target.attr == _SWITCH
    }
    for line, (owner, node) in switches.items():
        start, end = max((loop for loop in loops if loop[0] < line <= loop[1]), default=(line, line))
        calls = [call for call in kinds.get(ast.Call, ()) if start < call.lineno <= end]
        backwards = (call.lineno for call in calls if getattr(call.func, "attr", "") in BACKWARDS)
        backward = min((at for at in backwards if at > line), default=start)
        runs = (call for call in calls if owner in map(unparse, (call.func, *call.args)))
        forward = max((c for c in runs if c.lineno < backward), key=lambda c: c.lineno, default=None)
        earlier = any(start < at < line and other == owner for at, (other, _) in switches.items())
        if forward is not None and forward.lineno < line and not earlier:
            found.append((owner, node, forward, end))
    return found
