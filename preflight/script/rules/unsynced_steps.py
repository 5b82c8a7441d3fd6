"""Turns whose gradients an optimizer steps, and that DDP is kept from exchanging, by their conditions."""

import ast

from preflight import regex as re
from preflight.script.rules.turn_conditions import TurnCondition, TurnConditions
from preflight.script.syntax_trees import ByKind, list_targets, unparse, walk

_OF_TURNS = re.compile(r"(?i)%|==|last|final|bound|sync|step|accum|update|ready|micro|end")
"""Words in conditions that say which turn it is, not whether there are several ranks."""
_APART = frozenset({"require_backward_grad_sync"})
_EXCHANGES = frozenset({"set_requires_gradient_sync"})

Sync = tuple[ast.AST, list[TurnCondition]]  # what keeps gradients apart, and what holds where it does


def find_unsynced_steps(kinds: ByKind) -> list[tuple[ast.AST, ast.Call]]:
    """Return what keeps gradients apart in the turns of a file that an optimizer steps, with the step."""
    steps = [node for node in kinds.get(ast.Call, ()) if _is_step(node)]
    conditions = TurnConditions(kinds)
    found = list[tuple[ast.AST, ast.Call]]()
    for sync, apart in _list_syncs(kinds, conditions) if steps else ():
        for step in steps:
            if _is_stepped(conditions, sync, apart, step):
                found.append((sync, step))
                break
    return found


def _list_syncs(kinds: ByKind, conditions: TurnConditions) -> list[Sync]:
    found = list[Sync]()
    for node in kinds.get(ast.Attribute, ()):
        if node.attr == "no_sync" and (around := conditions.list_conditions(node)[:1]):
            found.append((node, _resolve(conditions, around, node)))
    for call in kinds.get(ast.Call, ()):
        name = getattr(call.func, "attr", "")
        given = next((word.value for word in call.keywords if word.arg == "enabled"), None)
        if name == "no_backward_sync" and given is not None:
            found.append((call, _resolve(conditions, [(given, True)], call)))
        elif name in _EXCHANGES and call.args:
            found.append((call, _resolve(conditions, [(call.args[0], False)], call)))
    for node in kinds.get(ast.Assign, ()):
        if getattr(node.targets[0], "attr", "") in _APART and not isinstance(node.value, ast.Constant):
            found.append((node, _resolve(conditions, [(node.value, False)], node)))
    return found


def _resolve(
    conditions: TurnConditions, tests: list[tuple[ast.expr, bool]], node: ast.AST
) -> list[TurnCondition]:
    function = conditions.find_function(node)
    return [form for test, holds in tests for form in conditions.resolve(test, function, holds=holds)]


def _is_stepped(
    conditions: TurnConditions, sync: ast.AST, apart: list[TurnCondition], step: ast.Call
) -> bool:
    around = conditions.list_conditions(step)
    held = _resolve(conditions, around, step)
    if any(form.denied() in held for form in apart):
        return False
    if _is_last_of_inner_loop(conditions, sync, apart, step):
        return True
    function = conditions.find_function(step)
    parts = [
        part
        for test, holds in around[:1]
        if holds and isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or)
        for value in test.values
        for part in conditions.resolve(value, function, holds=True)
    ]
    met = [form for form in apart if form in held or form in parts]
    met += [form for form in apart for other in held if _are_apart(form, other)]
    same = function is conditions.find_function(sync)
    if not any(_OF_TURNS.search(form.text) for form in met):
        return False
    return not (same and _is_counted_between(function, sync, step, met))


_EACH_NTH = re.compile(r"\(?(\w+)(?: \+ (\d+)\))? % ([\w.]+) == 0")
"""A condition that some turns meet: `step % n == 0`."""


def _are_apart(sync: TurnCondition, step: TurnCondition) -> bool:
    """Whether each n-th turn is exchanged, and another than that makes the step: by `i` and by `i + 1`."""
    left, right = _EACH_NTH.fullmatch(sync.text), _EACH_NTH.fullmatch(step.text)
    if left is None or right is None or left[1] != right[1] or left[3] != right[3]:
        return False
    return not sync.holds and step.holds and (left[2] or "0") != (right[2] or "0")


def _is_counted_between(
    function: ast.AST | None, sync: ast.AST, step: ast.AST, met: list[TurnCondition]
) -> bool:
    """Whether a number that the conditions ask is counted up between the two."""
    words = {word for form in met for word in re.compile(r"\w+").findall(form.text)}
    lines = range(getattr(sync, "lineno", 0), getattr(step, "lineno", 0))
    counts = (node for node in walk(function) if isinstance(node, ast.AugAssign)) if function else ()
    names = (
        set(list_targets(node)) | {getattr(node.target, "attr", "")}
        for node in counts
        if node.lineno in lines
    )
    return any(not words.isdisjoint(each) for each in names)


def _is_last_of_inner_loop(
    conditions: TurnConditions, sync: ast.AST, apart: list[TurnCondition], step: ast.Call
) -> bool:
    """Whether gradients are apart in the last turn of a loop, `i == n - 1`, behind which they are stepped."""
    loop = next((each for each, _ in conditions.list_holders(sync) if isinstance(each, ast.For)), None)
    if loop is None or not isinstance(loop.iter, ast.Call) or not loop.iter.args:
        return False
    counter = loop.target.elts[0] if isinstance(loop.target, ast.Tuple) else loop.target
    name, number = getattr(counter, "id", ""), loop.iter.args[-1]
    counted = re.compile(rf"{re.escape(name)} == (.+) - 1").fullmatch
    texts = [match[1] for form in apart if form.holds and (match := counted(form.text))]
    ends = unparse(loop.iter.func) in ("range", "enumerate") and bool(name)
    known = {unparse(number).rpartition(".")[2], f"len({unparse(number).rpartition('.')[2]})"}
    behind = (loop.end_lineno or 0) < step.lineno
    return ends and behind and not known.isdisjoint(texts) and _is_same_block(conditions, loop, step)


def _is_same_block(conditions: TurnConditions, loop: ast.For, step: ast.Call) -> bool:
    return conditions.find_function(loop) is conditions.find_function(step)


def _is_step(node: ast.Call) -> bool:
    owner = getattr(node.func, "value", None)
    name = getattr(owner, "attr", getattr(owner, "id", ""))
    return getattr(node.func, "attr", "") == "step" and ("optim" in name or name in ("opt", "scaler"))
