"""Rule R415: what decides whether DDP exchanges gradients comes too late, or chooses the wrong turns."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.graph_syntax import BACKWARDS, LOOPS
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import ByKind, unparse

_SWITCH = "require_backward_grad_sync"
_OWN_WRAPPER = re.compile(rf"\bself\.{_SWITCH}\b")  # which may read it in backward()


@rule("R415", "backward", "scaled")
def exchange_decided_after_the_forward(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Whether DDP exchanges gradients is decided after the forward that reads it.

    DistributedDataParallel looks at require_backward_grad_sync in forward(). Set between forward and
    backward(), it holds for the next turn: the first of the accumulated batches is exchanged, the gradients
    of the others stay apart, and the ranks train apart without an error. So do they where no_sync() is around
    the very turns whose gradients the optimizer steps.
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
    for sync, step in it.sources.parser.find_by_kind(_own_turns, it.scope):
        message = "no_sync() is around the turns whose gradients are stepped: those of the ranks stay apart"
        yield RuleHit(
            it.place(sync), message, "no_sync() in all other turns", Level.WARNING, (it.place(step),)
        )


def _own_turns(kinds: ByKind) -> list[tuple[ast.expr, ast.Call]]:
    """Return each no_sync() under a condition under which an optimizer steps too, with that step."""
    syncs = [node for node in kinds.get(ast.Attribute, ()) if node.attr == "no_sync"]
    if not syncs:
        return []
    choices = [node for kind in (ast.If, ast.IfExp) for node in kinds.get(kind, ())]
    steps = [node for node in kinds.get(ast.Call, ()) if _is_step(node)]
    stepped = {under: step for step in steps if (under := _innermost(choices, step))}
    found = list[tuple[ast.expr, ast.Call]]()
    for sync in syncs:
        under = _innermost(choices, sync)
        alike = [
            step for turns, step in stepped.items() if under and (turns == under or _are_apart(under, turns))
        ]
        found += [(sync, step) for step in alike[:1]]
    return found


_TURNS = re.compile(r"\(?(\w+)(?: \+ (\d+)\))? % ([\w.]+) (==|!=) 0")
"""A condition that some turns meet: `step % n == 0`, `(step + 1) % n != 0`."""


def _are_apart(sync: tuple[str, bool], step: tuple[str, bool]) -> bool:
    """Whether each n-th turn is exchanged, and another than that makes the step: by `i` and by `i + 1`."""
    parts = [(_TURNS.fullmatch(text), holds) for text, holds in (sync, step)]
    (left, of_sync), (right, of_step) = parts
    if left is None or right is None or left[1] != right[1] or left[3] != right[3]:
        return False
    exchanged = (left[4] == "==") is not of_sync  # in the turns that are not within no_sync()
    return exchanged and (right[4] == "==") is of_step and (left[2] or "0") != (right[2] or "0")


def _is_step(node: ast.Call) -> bool:
    owner = getattr(node.func, "value", None)
    name = getattr(owner, "attr", getattr(owner, "id", ""))
    return getattr(node.func, "attr", "") == "step" and ("optim" in name or name in ("opt", "scaler"))


def _innermost(choices: list[ast.If | ast.IfExp], node: ast.expr) -> tuple[str, bool] | None:
    """Return the condition of the innermost branch around a call, and whether it holds in it."""
    best: tuple[int, str, bool] | None = None
    for choice in choices:
        for part, holds in ((choice.body, True), (choice.orelse, False)):
            inner = part if isinstance(part, list) else [part]
            start = (inner[0].lineno, inner[0].col_offset) if inner else (0, 0)
            end = (inner[-1].end_lineno or 0, inner[-1].end_col_offset or 0) if inner else (0, 0)
            if start <= (node.lineno, node.col_offset) < end and (best is None or start[0] >= best[0]):
                test = choice.test
                denied = isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)
                text = unparse(test.operand if isinstance(test, ast.UnaryOp) and denied else test)
                best = start[0], text, holds is not denied
    return best[1:] if best else None


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
