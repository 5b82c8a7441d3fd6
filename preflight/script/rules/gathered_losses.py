"""Rule R421: a loss of what all_gather() gave, which has no gradients."""

import ast
from collections.abc import Iterator, Sequence
from itertools import chain

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import OF_SOME
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.graph_syntax import BACKWARDS, LOSSES
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import ByKind, list_targets, walk

_GATHERS = frozenset({"all_gather", "all_gather_into_tensor", "all_gather_single"})
_GIVES = frozenset({*_GATHERS, "gather", "gather_for_metrics"})
_PRODUCTS = frozenset({"matmul", "mm", "bmm", "einsum", "cosine_similarity", "cdist"})
_OF_LOSS = re.compile(LOSSES + r"|forward|contrast|nce\b|clip|simil|train")
_TEST = re.compile(r"eval|valid|test|metric|infer|predict|accuracy")
_LOSS = re.compile(LOSSES)
_WITH_GRADIENTS = re.compile(
    r"distributed\.nn|diffdist|GatherLayer|autograd\.Function"
    r"|[Gg]ather_with_?[Gg]rad|[Gg]ather_With_?[Gg]rad|[Gg]atherWith_?[Gg]rad|[Gg]atherwith_?[Gg]rad"
)
_KEEPS = frozenset(
    {
        "cat",
        "concat",
        "stack",
        "vstack",
        "normalize",
        "flatten",
        "view",
        "reshape",
        "contiguous",
        "to",
        "float",
    }
    | {"t", "transpose", "permute", "unsqueeze", "squeeze", "cuda", "half", "list", "tuple"}
)
"""Calls that give what they get in another shape."""


@rule("R421", "collective", "exchange", "backward", "scaled", "end")
def loss_of_gathered_values(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A loss is computed of nothing but what all_gather() gave, which has no gradients.

    torch.distributed.all_gather() fills tensors without a graph: the loss has none ("element 0 of tensors
    does not require grad"), or trains only what else is in it, such as a temperature. The own part has to be
    put back (`parts[rank] = features`), or torch.distributed.nn.functional.all_gather() used, which hands
    gradients back.
    Source: torch.distributed's documentation; reproduced on two gloo ranks with torch 2.13.
    """
    if event.name in ("backward", "scaled"):
        it.note("goes backward", event.place)
    elif event.name == "end":
        if it.notes.get("goes backward") and not it.sources.mention(_WITH_GRADIENTS):
            yield from dict.fromkeys(it.held_back.get("R421", ()))
    elif event.what in _GIVES and "no_grad" not in it.contexts and OF_SOME.isdisjoint(it.contexts):
        scopes = [(it.scope, it.source, set[str]())]
        gives = it.sources.parser.find_by_kind(_gives_gathered, it.scope)
        name = getattr(it.scope, "name", "")
        if it.stack and gives:
            callers = [it.functions[key] for key in it.stack[:-1] if key in it.functions]
            scopes += [(caller.node, caller.source, {name}) for caller in callers]
            scopes.append((it.source.tree, it.source, {name}))
        for scope, source, makers in scopes:
            parser = it.sources.parser
            losses = _losses_of(parser.nodes(scope), makers) if makers else parser.find(_own_losses, scope)
            for node in losses:
                message = "all_gather() gives no gradients, and this loss is of nothing else"
                fix = "torch.distributed.nn.functional.all_gather(), or parts[rank] = the rank's own tensor"
                hit = RuleHit(source.place(node), message, fix, Level.WARNING, (event.place,))
                it.held_back.setdefault("R421", []).append(hit)


def _gives_gathered(kinds: ByKind) -> bool:
    """Whether a function returns what it gathered, and puts nothing of its own into it."""
    nodes = list(chain.from_iterable(kinds.values()))
    gathered = _follow(nodes, set())
    returned = [node.value for node in kinds.get(ast.Return, ()) if node.value is not None]
    return bool(returned) and all(_is_of(value, gathered, set()) for value in returned)


def _own_losses(nodes: list[ast.AST]) -> list[ast.expr]:
    return list(_losses_of(nodes, set()))


def _losses_of(nodes: list[ast.AST], makers: set[str]) -> Iterator[ast.expr]:
    """Yield where a function that trains makes a product or loss of gathered tensors alone."""
    name = getattr(nodes[0], "name", "")
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    ends = [node for node in calls if getattr(node.func, "attr", "") in BACKWARDS]
    if _TEST.search(name) or not (ends or _OF_LOSS.search(name)):
        return
    gathered = _follow(nodes, makers)
    if not gathered:
        return
    trained = _list_led_to(nodes, ends or [node for node in nodes if isinstance(node, ast.Return)])
    for node in trained:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            left, right = node.left, node.right
            if isinstance(left, ast.BinOp) and isinstance(left.op, ast.Mult):
                left = left.right if _is_of(left.right, gathered, makers) else left.left
        elif isinstance(node, ast.Call) and _name(node.func) in _PRODUCTS and node.args:
            owner = getattr(node.func, "value", node.func)
            left, right = node.args[-2:] if len(node.args) > 1 else (owner, node.args[0])
        else:
            continue
        if _is_of(left, gathered, makers) and _is_of(right, gathered, makers):
            yield node
            return
    for node in trained if ends else ():
        if (
            isinstance(node, ast.Call)
            and _LOSS.search(_name(node.func))
            and node.args
            and all(_is_of(part, gathered, makers) for part in node.args)
        ):
            yield node
            return


def _list_led_to(nodes: list[ast.AST], ends: Sequence[ast.AST]) -> list[ast.AST]:
    """Return the parts of what a function computes on its way to some ends: not what it only logs."""
    waiting, names = [part for end in ends for part in walk(end)], set[str]()
    assigned = [node for node in nodes if isinstance(node, (ast.Assign, ast.AugAssign))]
    found = list[ast.AST]()
    while waiting:
        found += waiting
        names |= {part.id for part in waiting if isinstance(part, ast.Name)}
        led = [node for node in assigned if not names.isdisjoint(list_targets(node))]
        assigned = [node for node in assigned if node not in led]
        waiting = [part for node in led for part in walk(node.value)]
    return found


def _name(node: ast.expr) -> str:
    return getattr(node, "attr", getattr(node, "id", ""))


def _follow(nodes: list[ast.AST], makers: set[str]) -> set[str]:
    """Return the names that a function gives gathered tensors alone; none of lists with a part put back."""
    filled = {
        node.args[0].id
        for node in nodes
        if isinstance(node, ast.Call)
        and _name(node.func) in _GATHERS
        and node.args
        and isinstance(node.args[0], ast.Name)
    }
    stored = {
        _root(node.value)
        for node in nodes
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    }
    assigned = [
        node for node in nodes if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    ]
    given = [node for node in nodes if isinstance(node, ast.Call) and _is_of_accelerate(node)]
    if not filled and not given:
        return set()
    found = filled - stored
    for _ in range(3):
        for node in sorted(assigned, key=lambda each: each.lineno):
            if _is_of(node.value, found, makers):
                found.add(node.targets[0].id)  # type: ignore[attr-defined]
    return found - stored


def _is_of_accelerate(node: ast.Call) -> bool:
    """Whether a call is accelerator.gather(), which gives no gradients either."""
    owner = _name(getattr(node.func, "value", node.func))
    return (
        _name(node.func) in ("gather", "gather_for_metrics")
        and "accelerator" in owner.lower()
        and bool(node.args)
    )


def _root(node: ast.expr) -> str:
    return getattr(node, "id", "")


def _is_of(node: ast.expr, gathered: set[str], makers: set[str]) -> bool:
    """Whether an expression is a gathered tensor, in whatever shape."""
    if isinstance(node, ast.Name):
        return node.id in gathered
    if isinstance(node, ast.Attribute):
        return node.attr in ("T", "mT") and _is_of(node.value, gathered, makers)
    if isinstance(node, ast.Call):
        if _name(node.func) in makers or _is_of_accelerate(node):
            return True
        if _name(node.func) not in _KEEPS:
            return False
        owner = getattr(node.func, "value", node.func)
        return any(_is_of(part, gathered, makers) for part in (owner, *node.args[:1]))
    return False
