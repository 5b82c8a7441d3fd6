"""Rule P146: a loss that the script divides by the accumulated turns, as accelerator.backward() does."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.own_measures import get_last_name, list_turn_nodes
from preflight.script.rules.own_names import call_at
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import list_targets, unparse, walk
from preflight.script.values import Const, Ref

_STEPS = "gradient_accumulation_steps"


@rule("P146", "backward")
def loss_divided_twice(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """The loss is divided by gradient_accumulation_steps, and accelerator.backward() divides it again.

    Accelerator(gradient_accumulation_steps=n) divides in each backward(), within accumulate() or without.
    With both, gradients are n times smaller than meant: SGD and the clipping of gradients then train
    another run than the learning rate was chosen for. So it is where nothing accumulates, neither
    accelerator.accumulate() nor a condition around step().
    Source: accelerate/accelerator.py, backward(); DeepSpeed's engine divides in its place; reproduced with
    accelerate 1.15.
    """
    made = it.thing(Ref(event.ref)) if event.what == "accelerator" and event.ref else None
    call = call_at(it, made.place) if made is not None and made.kind == "accelerator" else None
    steps = next((word.value for word in call.keywords if word.arg == _STEPS), None) if call else None
    given = event.call.node.args[:1] if event.call is not None else []
    if steps is None or not given:
        return
    if step := _find_step_of_each_turn(it, event, steps):
        message = f"each turn makes this step, of a loss that backward() has divided by {unparse(steps)}"
        fix = "with accelerator.accumulate(model): around backward(), step() and zero_grad()"
        yield RuleHit(it.place(step), message, fix, Level.WARNING, (made.place,) if made is not None else ())
        return
    divided = _find_divisor(it, given[0])
    one = it.evaluate(steps) == Const(1)
    if divided is None or (one and isinstance(steps, ast.Constant)) or not _is_same(it, divided, steps):
        return
    level = Level.INFO if one else Level.WARNING  # an option that is 1 by default
    message = f"the loss is divided by {unparse(divided)}, and accelerator.backward() divides it by that, too"
    fix = "give accelerator.backward() the loss undivided"
    yield RuleHit(it.place(divided), message, fix, level, (event.place,))


_ACCUMULATES = re.compile(r"accumulate\(|sync_gradients|no_sync|GradientAccumulationPlugin")


def _find_step_of_each_turn(it: Interpreter, event: ScriptEvent, steps: ast.expr) -> ast.Call | None:
    """Return a step that each turn makes, where the Accelerator is given a number of turns."""
    number = it.evaluate(steps)
    several = isinstance(number, Const) and type(number.value) is int and number.value > 1
    if not several or event.call is None or it.sources.mention(_ACCUMULATES):
        return None
    turn = list_turn_nodes(it, event.call.node)
    if any(
        type(part) is ast.BinOp and type(part.op) is ast.Mod for node in turn for part in _walk_test(node)
    ):
        return None
    inside = {id(part) for node in turn if isinstance(node, ast.If) for part in walk(node)}
    calls = [node for node in turn if isinstance(node, ast.Call) and get_last_name(node) == "step"]
    return next(
        (
            node
            for node in calls
            if it.kind(it.evaluate(_owner(node))) == "optimizer" and id(node) not in inside
        ),
        None,
    )


def _walk_test(node: ast.AST) -> list[ast.AST]:
    """Return the condition of a branch in pieces."""
    return walk(node.test) if isinstance(node, ast.If) else []


def _owner(call: ast.Call) -> ast.expr:
    return call.func.value if isinstance(call.func, ast.Attribute) else call.func


def _find_divisor(it: Interpreter, loss: ast.expr) -> ast.expr | None:
    """Return by what a loss is divided: in the argument of backward(), or where its name was set last."""
    if isinstance(loss, ast.BinOp):
        return loss.right if isinstance(loss.op, ast.Div) else None
    if not isinstance(loss, ast.Name):
        return None
    before: list[ast.Assign | ast.AugAssign] = [
        node
        for node in it.list_nodes(ast.Assign, ast.AugAssign)
        if isinstance(node, (ast.Assign, ast.AugAssign))
        and node.lineno < loss.lineno
        and loss.id in list_targets(node)
    ]
    last = max(before, key=lambda node: node.lineno, default=None)
    if last is None or _is_conditional(it, last, loss):
        return None
    if isinstance(last, ast.AugAssign):
        return last.value if isinstance(last.op, ast.Div) else None
    value = last.value
    return value.right if isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div) else None


def _is_conditional(it: Interpreter, node: ast.stmt, loss: ast.expr) -> bool:
    """Whether a branch holds a statement that its backward() is not in: of another launch, as a rule."""
    for branch in it.list_nodes(ast.If):
        for body in (branch.body, branch.orelse):
            lines = range(body[0].lineno, (body[-1].end_lineno or 0) + 1) if body else range(0)
            if node.lineno in lines and loss.lineno not in lines and _STEPS not in unparse(branch.test):
                return True
    return False


def _is_same(it: Interpreter, divisor: ast.expr, steps: ast.expr) -> bool:
    """Whether a loss is divided by the number that the Accelerator was made with."""
    if getattr(divisor, "attr", getattr(divisor, "id", "")) == _STEPS or unparse(divisor) == unparse(steps):
        return True
    number = it.evaluate(divisor)
    return isinstance(number, Const) and number == it.evaluate(steps) and number != Const(1)
