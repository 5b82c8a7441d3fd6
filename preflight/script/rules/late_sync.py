"""Rule R415: what decides whether DDP exchanges gradients comes after the forward that reads it."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.frozen import dataclass
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.values import TRUE, Ref, alternatives
from preflight.script.rules.graph_syntax import BACKWARDS, LOOPS, SAME
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import ByKind, walk

_SWITCH = "require_backward_grad_sync"
_QUIET = BACKWARDS | SAME | {"scale", "detach", "item", "append", "update", "print", "range", "len"}
"""Calls that run no forward."""
_SHARDS = re.compile(r"FSDP|FullySharded|fully_shard|deepspeed")


@dataclass(frozen=True, slots=True)
class _Late:
    """A switch or a block of no_sync(), with the model and what makes it late: a forward, or backward()."""

    node: ast.stmt
    owner: ast.expr
    reason: ast.Call
    backwards: tuple[ast.Call, ...]


@rule("R415", "backward", "scaled")
def exchange_decided_after_the_forward(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Whether DDP exchanges gradients is decided after the forward that reads it.

    DistributedDataParallel looks at require_backward_grad_sync in forward(). Set between forward and
    backward(), it holds for the next turn: the first of the accumulated batches is exchanged, the gradients
    of the others stay apart, and the ranks train apart without an error. no_sync() around backward() alone
    changes nothing: each turn exchanges gradients, which costs time.
    Source: torch/nn/parallel/distributed.py, no_sync and _pre_forward; reproduced on two gloo ranks with
    torch 2.13.
    """
    if event.call is None or it.target.processes == 1 or not it.loop_depth:
        return
    for late in it.sources.parser.find_by_kind(_late, it.scope):
        if all(each.lineno != event.call.node.lineno for each in late.backwards):
            continue
        owner = ast.unparse(late.owner)
        if isinstance(late.node, ast.Assign):
            said = f"`{owner}` reads this in its forward, which has come before: the ranks train apart"
            fix = f"move it before `{ast.unparse(late.reason)}`"
            yield RuleHit(it.place(late.node), said, fix, Level.WARNING, (it.place(late.reason),))
        elif _is_of_ddp(it, late.owner):
            said = "no_sync() around backward() alone changes nothing: gradients are exchanged in each turn"
            fix = f"run the forward of `{owner}` in this block too"
            yield RuleHit(it.place(late.node), said, fix, Level.INFO, (it.place(late.reason),))


def _is_of_ddp(it: Interpreter, owner: ast.expr) -> bool:
    """Whether a model is DDP's: FSDP and DeepSpeed look at no_sync() in backward()."""
    things = [
        thing
        for item in alternatives(it.evaluate(owner))
        if isinstance(item, Ref) and (thing := it.thing(item))
    ]
    if any(thing.get("wrapped") == TRUE and thing.get("sharded") != TRUE for thing in things):
        return True
    return not things and it.state.wrapped and not it.sources.mention(_SHARDS)


def _late(kinds: ByKind) -> list[_Late]:
    calls: list[ast.Call] = kinds.get(ast.Call, [])
    backwards = [call for call in calls if getattr(call.func, "attr", "") in BACKWARDS]
    if not backwards:
        return []
    loops = [node for kind in LOOPS for node in kinds.get(kind, ())]
    switches = [node for node in kinds.get(ast.Assign, ()) if getattr(node.targets[0], "attr", "") == _SWITCH]
    found = [late for node in switches if (late := _switched(node, loops, calls, switches))]
    blocks = [node for node in kinds.get(ast.With, ()) if any(map(_unsynced, node.items))]
    return found + [late for node in blocks if (late := _held(node))]


def _switched(
    node: ast.Assign, loops: list[ast.For], calls: list[ast.Call], switches: list[ast.Assign]
) -> _Late | None:
    """Return a switch that is set between the forward and backward() of a turn."""
    around = [loop for loop in loops if loop.lineno < node.lineno <= (loop.end_lineno or 0)]
    if not around:
        return None
    loop = max(around, key=lambda each: each.lineno)
    owner = node.targets[0].value  # type: ignore[attr-defined]
    name = ast.unparse(owner)
    inside = [call for call in calls if loop.lineno < call.lineno <= (loop.end_lineno or 0)]
    after = [call for call in inside if call.lineno > node.lineno]
    backwards = sorted((c for c in after if getattr(c.func, "attr", "") in BACKWARDS), key=lambda c: c.lineno)
    forwards = [call for call in inside if _runs(call, name)]
    before = [call for call in forwards if call.lineno < node.lineno]
    if not backwards or not before:
        return None
    between = any(node.lineno < call.lineno < backwards[0].lineno for call in forwards)
    earlier = any(
        loop.lineno < each.lineno < before[0].lineno and ast.unparse(each.targets[0]) == f"{name}.{_SWITCH}"
        for each in switches
    )
    return None if between or earlier else _Late(node, owner, before[-1], tuple(backwards))


def _runs(call: ast.Call, name: str) -> bool:
    """Whether a call runs a model, or gets it."""
    return any(ast.unparse(each) == name for each in (call.func, *call.args))


def _unsynced(item: ast.withitem) -> ast.expr | None:
    """Return the model of `with model.no_sync():` or `with accelerator.no_sync(model):`."""
    for part in walk(item.context_expr):
        if isinstance(part, ast.Call) and getattr(part.func, "attr", "") == "no_sync":
            return part.args[0] if part.args else part.func.value  # type: ignore[attr-defined]
    return None


def _held(node: ast.With) -> _Late | None:
    """Return a block of no_sync() that runs backward() and no forward."""
    owner = next(filter(None, map(_unsynced, node.items)))
    calls = [part for each in node.body for part in walk(each) if isinstance(part, ast.Call)]
    backwards = [call for call in calls if getattr(call.func, "attr", "") in BACKWARDS]
    quiet = all(getattr(call.func, "attr", getattr(call.func, "id", "")) in _QUIET for call in calls)
    return _Late(node, owner, backwards[0], tuple(backwards)) if backwards and quiet else None
