"""Tensors that a module holds as plain attributes: `.to(device)` and Lightning leave them on the CPU."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.syntax_trees import walk

# fmt: off
_MAKES = frozenset({
    "zeros", "ones", "arange", "eye", "linspace", "logspace", "full", "rand", "randn", "from_numpy",
    "randperm", "FloatTensor", "LongTensor", "triu", "tril", "tensor", "as_tensor",
})
_KEEPS = frozenset({
    "view", "reshape", "unsqueeze", "squeeze", "repeat", "expand", "permute", "transpose", "flatten", "float",
    "t", "long", "clone", "detach", "contiguous", "expand_as", "bool", "T",
})
"""Methods whose result is on the device of their tensor."""
# fmt: on
_ASKS = frozenset(
    {"size", "shape", "view", "reshape", "device", "dim", "flatten", "permute", "transpose", "unsqueeze"}
)
"""Attributes and methods of tensors alone."""
_MOVES = re.compile(
    r"\bdevice\b|\.(?:cuda|to|type_as)\(|register_buffer|Parameter|def (?:_apply|to|cuda)\b|\bsetattr\("
)


def list_tensors_left(cls: ast.ClassDef, lines: list[str]) -> Iterator[tuple[ast.BinOp, ast.Assign, str]]:
    """Yield where a class computes with its batch and a tensor of its constructor that is never moved.

    Each with where it is made, and the attribute's name. A number alone may be on the CPU.
    """
    methods = {node.name: node for node in cls.body if isinstance(node, ast.FunctionDef)}
    made = methods.get("__init__")
    if made is None or not any("torch." in line for line in lines):
        return
    for node in (each for each in made.body if isinstance(each, ast.Assign)):
        target = node.targets[0]
        if not (isinstance(target, ast.Attribute) and getattr(target.value, "id", "") == "self"):
            continue
        if not _is_made(node.value, made, methods, 3):
            continue
        word = re.compile(rf"\b{target.attr}\b")
        named = [line for line in lines if word.search(line)]
        if any(map(_MOVES.search, named)):
            continue
        if sum(f"self.{target.attr} =" in line or f"self.{target.attr} +=" in line for line in named) != 1:
            continue
        for name in ("forward", "training_step"):
            for used in _list_uses(methods[name], target.attr) if name in methods else ():
                yield used, node, target.attr


def _is_made(node: ast.expr, scope: ast.FunctionDef, methods: dict[str, ast.FunctionDef], depth: int) -> bool:
    """Whether an expression is a tensor with dimensions that torch makes on the CPU."""
    if isinstance(node, ast.Name):
        parts = (part for part in walk(scope) if isinstance(part, ast.Assign))
        given = [part.value for part in parts if getattr(part.targets[0], "id", "") == node.id]
        return depth > 0 and bool(given) and all(_is_made(each, scope, methods, depth - 1) for each in given)
    if isinstance(node, ast.BinOp):
        return _is_made(node.left, scope, methods, depth) or _is_made(node.right, scope, methods, depth)
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    owner, name = node.func.value, node.func.attr
    if any(word.arg == "device" for word in node.keywords):
        return False
    if getattr(owner, "id", "") in ("torch", "th") and name in _MAKES:
        first = node.args[0] if node.args else None
        alone = name in ("tensor", "as_tensor") and not isinstance(first, (ast.List, ast.Tuple, ast.ListComp))
        return first is not None and not alone
    if getattr(owner, "id", "") == "self" and name in methods and depth:
        own = methods[name]
        returned = [part.value for part in walk(own) if isinstance(part, ast.Return)]
        return bool(returned) and all(each and _is_made(each, own, methods, depth - 1) for each in returned)
    return name in _KEEPS and _is_made(owner, scope, methods, depth)


def _list_uses(function: ast.FunctionDef, attribute: str) -> Iterator[ast.BinOp]:
    """Yield where such an attribute meets what layers give, or an argument that is a tensor."""
    nodes = walk(function)
    asked = {
        getattr(node.value, "id", "")
        for node in nodes
        if isinstance(node, ast.Attribute) and node.attr in _ASKS
    }
    given = [
        part.id
        for node in nodes
        if isinstance(node, ast.Call) and _is_of_self(node.func)
        for part in node.args
        if isinstance(part, ast.Name)
    ]
    names = {each.arg for each in function.args.args[1:]} & {*asked, *given}
    for node in nodes:
        if (
            isinstance(node, ast.Assign)
            and isinstance(node.targets[0], ast.Name)
            and _is_of_batch(node.value, names)
        ):
            names.add(node.targets[0].id)
    for node in nodes:
        if isinstance(node, ast.BinOp):
            sides = (node.left, node.right), (node.right, node.left)
            if any(_core(one) == attribute and _is_of_batch(other, names) for one, other in sides):
                yield node


def _is_of_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "self"


def _core(node: ast.expr) -> str:
    """Return the attribute of self of which an expression is a part, or another shape."""
    while not _is_of_self(node):
        if isinstance(node, ast.Subscript):
            node = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _KEEPS:
            node = node.func.value
        else:
            return ""
    return getattr(node, "attr", "")


def _is_of_batch(node: ast.expr, names: set[str]) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_of_batch(node.left, names) or _is_of_batch(node.right, names)
    if isinstance(node, ast.Call):
        func = node.func
        if isinstance(func, ast.Attribute) and func.attr in _KEEPS:
            return _is_of_batch(func.value, names)
        return (_is_of_self(func) or "relu" in getattr(func, "attr", "")) and any(
            _is_of_batch(each, names) for each in node.args
        )
    return isinstance(node, ast.Name) and node.id in names
