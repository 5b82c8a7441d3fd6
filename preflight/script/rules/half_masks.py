"""Rule P148: masks that float16 cannot hold."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import ByKind, unparse, walk
from preflight.script.values import Class, Const, Dtype
from preflight.script.values.constants import TRUE
from preflight.script.values.operations import as_text, list_values

_HALF, _NO_HALF = "autocast to float16 is on", "autocast is off, or to another dtype"
_PRODUCTS = frozenset({"matmul", "bmm", "baddbmm", "einsum", "mm"})
_SHAPES = frozenset(
    {"view", "reshape", "transpose", "permute", "contiguous", "unsqueeze", "squeeze", "clone"}
)
_SCALARS = re.compile(
    r"(?i)(?:self\.)?\w*(?:scal|temp|sqrt|d_?k|dim|factor)\w*|\w*\.?(?:sqrt|float|int|len)\(.*\)"
)
_LARGEST = 65504.0
_OF_FLOAT32 = re.compile(r"-? *torch\.finfo\(torch\.float(?:32)?\)\.m(?:in|ax)")


@rule("P148", "autocast", "accelerator", "arguments", "lightning", "end")
def mask_beyond_float16(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Attention scores of float16 are masked with a number that float16 cannot hold.

    Its largest is 65504: masked_fill(mask, -1e9) within autocast stops with "value cannot be converted to
    type at::Half without overflow". Products of matrices are float16 in autocast, whatever the weights are.
    Source: torch's documentation of autocast; reproduced with torch 2.13.
    """
    if event.name == "autocast":
        on = event.values.get("enabled") == TRUE and event.what == "cuda" and "no_grad" not in it.contexts
        it.note(_HALF if on and event.values.get("dtype") == Dtype("float16") else _NO_HALF, event.place)
    elif event.name == "accelerator":
        words = {as_text(item) for item in list_values(event.values.get("effective") or Const(None))}
        it.note(_HALF if words == {"fp16"} else _NO_HALF, event.place)
    elif event.name != "end":
        thing = it.thing(event.ref)
        half = thing is not None and (
            thing.get("fp16") == TRUE or thing.get("mixed_precision") == Const("fp16")
        )
        it.note(_HALF if half else _NO_HALF, event.place)
    elif it.notes.get(_HALF) and not it.notes.get(_NO_HALF) and it.target.capability is not None:
        yield from _list_masks(it, it.notes[_HALF][0])


def _list_masks(it: Interpreter, at: CodeLocation) -> Iterator[RuleHit]:
    keys = {cls.key for thing in it.state.heap.values() if isinstance(cls := thing.get("__class__"), Class)}
    for info in {id(info.node): info for key in keys for info in it.mro(key)}.values():
        for call in it.sources.parser.find_by_kind(_overflows, info.node):
            line, number = info.source.lines[call.args[1].lineno - 1], call.args[1]
            text = line[number.col_offset : number.end_col_offset]
            message = f"{text} is beyond float16, which these scores are in within autocast"
            owner = unparse(call.func.value) if isinstance(call.func, ast.Attribute) else "scores"
            fix = 'float("-inf"), or torch.finfo(scores.dtype).min where a row may be masked whole'
            yield RuleHit(
                info.source.place(call),
                message,
                fix.replace("scores", owner if owner.isidentifier() else "scores"),
                Level.WARNING,
                (at,),
            )


def _overflows(kinds: ByKind) -> list[ast.Call]:
    """Return the masked_fill() calls of products of matrices in a class, with numbers beyond float16."""
    found = []
    for function in kinds.get(ast.FunctionDef, ()):
        nodes = walk(function)
        calls = [node for node in nodes if isinstance(node, ast.Call) and len(node.args) == 2]
        if not any(_is_fill(call) for call in calls) or "autocast" in unparse(function):
            continue
        given = [
            (target.id, node)
            for node in nodes
            if isinstance(node, ast.Assign) and isinstance(target := node.targets[0], ast.Name)
        ]
        found += [
            call for call in calls if _is_fill(call) and _is_beyond(call.args[1]) and _is_masked(call, given)
        ]
    return found


_Given = list[tuple[str, ast.Assign]]


def _is_fill(call: ast.Call) -> bool:
    return getattr(call.func, "attr", "") in ("masked_fill", "masked_fill_")


def _is_masked(call: ast.Call, given: _Given) -> bool:
    return isinstance(call.func, ast.Attribute) and _is_product(call.func.value, given, call.lineno)


def _is_beyond(node: ast.expr) -> bool:
    text = unparse(node)
    text = text[6:-1].strip("'\"") if text.startswith("float(") else text
    try:
        return _LARGEST < abs(float(text)) < float("inf")
    except ValueError:
        return _OF_FLOAT32.fullmatch(text) is not None


def _is_product(node: ast.expr, given: _Given, line: int) -> bool:
    """Whether an expression is a product of matrices: scaled, given another shape, or masked before."""
    if isinstance(node, ast.Name):
        before = [each for name, each in given if name == node.id and each.lineno < line]
        last = max(before, key=lambda each: each.lineno, default=None)
        return last is not None and _is_product(last.value, given, last.lineno)
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, ast.MatMult):
            return True
        sides = [node.left, node.right] if isinstance(node.op, ast.Mult) else [node.left]
        rest = {id(node.left): node.right, id(node.right): node.left}
        scales = isinstance(node.op, (ast.Mult, ast.Div))
        return scales and any(_is_product(side, given, line) and _is_scalar(rest[id(side)]) for side in sides)
    func = node.func if isinstance(node, ast.Call) else None
    name = getattr(func, "attr", getattr(func, "id", ""))
    if name in _SHAPES or name.startswith("masked_fill"):
        return isinstance(func, ast.Attribute) and _is_product(func.value, given, line)
    return name in _PRODUCTS


def _is_scalar(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow):
        return isinstance(node.right, (ast.Constant, ast.UnaryOp))
    return isinstance(node, ast.Constant) or _SCALARS.fullmatch(unparse(node)) is not None
