"""The DeepSpeed config that a script gives to DeepSpeed itself, found by reading the script. Pure.

A dictionary in the script (`deepspeed.initialize(config={...})`, `TrainingArguments(deepspeed={...})`), or
the name of a file. What the script computes is left out of it, so that no check judges a guess.
"""

import ast
import json
from collections.abc import Iterator, Mapping
from typing import Any

from preflight.frozen import dataclass
from preflight.job import DeepSpeedConfig

_KEYWORDS = ("config", "config_params", "deepspeed", "hf_ds_config", "config_file_or_dict")
_CALLS = (
    "initialize",
    "TrainingArguments",
    "Seq2SeqTrainingArguments",
    "DeepSpeedPlugin",
    "HfDeepSpeedConfig",
)
_BATCH_SIZES = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
_UNKNOWN = object()
_LARGEST = 2_000_000


@dataclass(frozen=True, slots=True)
class ScriptConfig:
    """What a script names as its DeepSpeed config: one of both."""

    file: str = ""
    config: DeepSpeedConfig | None = None


def find_script_config(text: str, path: str) -> ScriptConfig | None:
    """Return the config that a script gives to DeepSpeed, None where reading shows none.

    Keys whose value the script computes are left out; of the three batch sizes all, where one is computed,
    since DeepSpeed derives them from each other (deepspeed/runtime/config.py).
    """
    if "deepspeed" not in text.lower() or len(text) > _LARGEST:
        return None
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    names = _Names(tree)
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call) or _called(call) not in _CALLS:
            continue
        for value in _given(call):
            known = names.value(value)
            if isinstance(known, str) and known.endswith(".json"):
                return ScriptConfig(file=known)
            certain = _certain(known) if isinstance(known, dict) else {}
            if certain:
                source = f"the DeepSpeed config of {path}:{value.lineno}"
                return ScriptConfig(config=DeepSpeedConfig(source, json.dumps(certain)))
    return None


def _called(call: ast.Call) -> str:
    function = call.func
    if isinstance(function, ast.Attribute):
        owner = function.value.id if isinstance(function.value, ast.Name) else ""
        return function.attr if owner in ("deepspeed", "ds") or function.attr != "initialize" else ""
    return function.id if isinstance(function, ast.Name) else ""


def _given(call: ast.Call) -> Iterator[ast.expr]:
    yield from (word.value for word in call.keywords if word.arg in _KEYWORDS)
    if _called(call) == "HfDeepSpeedConfig" and call.args:
        yield call.args[0]


class _Names:
    """The variables of a script that have one value, whatever its flow."""

    def __init__(self, tree: ast.Module) -> None:
        self.assigned: dict[str, list[ast.expr | None]] = {}
        self.keys: dict[str, list[tuple[object, ast.expr]]] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    self._assign(target, node.value)
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                self._assign(node.target, node.value)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr in ("update", "pop", "setdefault") and isinstance(
                    node.func.value, ast.Name
                ):
                    self.assigned.setdefault(node.func.value.id, []).append(None)
            elif isinstance(node, ast.AugAssign | ast.For | ast.NamedExpr) and isinstance(
                node.target, ast.Name
            ):
                self.assigned.setdefault(node.target.id, []).append(None)
            elif isinstance(node, ast.arg):
                self.assigned.setdefault(node.arg, []).append(None)

    def _assign(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self.assigned.setdefault(target.id, []).append(value)
        elif isinstance(target, ast.Subscript):
            path: list[object] = []
            while isinstance(target, ast.Subscript):
                path.insert(0, target.slice.value if isinstance(target.slice, ast.Constant) else None)
                target = target.value
            if isinstance(target, ast.Name):
                self.keys.setdefault(target.id, []).append((path[0] if len(path) == 1 else (path[0],), value))
        elif isinstance(target, ast.Tuple | ast.List):
            for each in target.elts:
                if isinstance(each, ast.Name):
                    self.assigned.setdefault(each.id, []).append(None)

    def value(self, node: ast.expr, depth: int = 0) -> Any:
        """Return the value of an expression; `_UNKNOWN` for one that is computed."""
        if isinstance(node, ast.Constant):
            return node.value
        if isinstance(node, ast.Name) and depth < 20:
            return self._named(node.id, depth)
        if isinstance(node, ast.List | ast.Tuple):
            items = [self.value(each, depth + 1) for each in node.elts]
            return _UNKNOWN if _UNKNOWN in items else items
        if isinstance(node, ast.Dict) and depth < 20:
            return self._dictionary(node, depth)
        if isinstance(node, ast.UnaryOp | ast.BinOp):
            return self._number(node, depth)
        return _UNKNOWN

    def _named(self, name: str, depth: int) -> Any:
        values = self.assigned.get(name, [])
        if len(values) != 1 or values[0] is None:
            return _UNKNOWN
        found = self.value(values[0], depth + 1)
        if isinstance(found, dict):
            for key, value in self.keys.get(name, []):
                if not isinstance(key, str):  # a computed key, or one of a section
                    found.update(dict.fromkeys(key if isinstance(key, tuple) else found, _UNKNOWN))
                else:
                    found[key] = self.value(value, depth + 1)
        return found

    def _dictionary(self, node: ast.Dict, depth: int) -> Any:
        if not all(isinstance(key, ast.Constant) and isinstance(key.value, str) for key in node.keys):
            return _UNKNOWN  # **others, or a computed key
        pairs = zip(node.keys, node.values, strict=True)
        return {
            key.value: self.value(value, depth + 1) for key, value in pairs if isinstance(key, ast.Constant)
        }

    def _number(self, node: ast.UnaryOp | ast.BinOp, depth: int) -> Any:
        if isinstance(node, ast.UnaryOp):
            inner = self.value(node.operand, depth + 1)
            is_number = isinstance(inner, int | float) and isinstance(node.op, ast.USub)
            return -inner if is_number else _UNKNOWN
        left, right = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
        if isinstance(node.op, ast.Mult) and type(left) is type(right) is int:
            return left * right
        return _UNKNOWN


def _certain(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config without what is computed."""
    unsure = any(config.get(name) is _UNKNOWN for name in _BATCH_SIZES)
    return {
        key: _certain(value) if isinstance(value, dict) else value
        for key, value in config.items()
        if value is not _UNKNOWN and not (unsure and key in _BATCH_SIZES)
    }
