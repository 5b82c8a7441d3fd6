"""Mechanical fixes of lint's findings, with LibCST so that everything else keeps its look."""

import ast
import difflib
from collections.abc import Iterable
from typing import Any

from launcher.errors import BadInput
from preflight.script.lint import LintFinding

_RENAMED = {"tokenizer": "processing_class", "evaluation_strategy": "eval_strategy", "no_cuda": "use_cpu"}
_DTYPE_CODES = frozenset({"P101", "P102", "P103", "P104", "P106"})
_DTYPE_KEYWORDS = frozenset({"dtype", "torch_dtype"})


def fixed(text: str, path: str, findings: Iterable[LintFinding]) -> str:
    """Return the script with what can be fixed mechanically, the same text when nothing can.

    Fixed are: the dtype named at load, a removed keyword that has a new name, device_map of a trained model,
    `loss.backward()` beside the script's one Accelerator, and a GPU named by number below it. Raises BadInput
    without LibCST.
    """
    libcst = _library()
    wanted: dict[tuple[int, int], set[str]] = {}
    for finding in findings:
        if finding.place.path == path:
            wanted.setdefault((finding.place.line, finding.place.column - 1), set()).add(finding.code)
    module = libcst.MetadataWrapper(libcst.parse_module(text))
    name, made = _accelerator_name(module.module), _made_at(text)
    result: str = module.visit(_fixer(wanted, name, made)).code
    return result


def diff(before: str, after: str, path: str) -> str:
    """Return the change as a unified diff, "" when there is none."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), path, f"{path} (fixed)"
    )
    return "".join(lines)


def _library() -> Any:
    try:
        import libcst  # noqa: PLC0415 - only --fix needs it
    except ImportError:
        raise BadInput("--fix needs LibCST", "pip install 'gpulaunch[fix]'") from None
    return libcst


def _accelerator_name(module: Any) -> str:
    """Return the name of the script's Accelerator when it has exactly one, else ""."""
    libcst = _library()
    names: list[str] = []

    class Finder(libcst.CSTVisitor):  # type: ignore[misc,name-defined]
        def visit_Assign(self, node: Any) -> None:  # noqa: N802 - LibCST's name
            func = getattr(node.value, "func", None)
            if isinstance(func, libcst.Name) and func.value == "Accelerator":
                target = node.targets[0].target
                names.append(target.value if isinstance(target, libcst.Name) else "")

    module.visit(Finder())
    return names[0] if len(names) == 1 else ""


def _made_at(text: str) -> float:
    """Return the line on which the module's Accelerator is made; beyond any line when it is elsewhere."""
    for node in ast.parse(text.removeprefix("\ufeff")).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
            func = node.value.func
            if isinstance(func, ast.Name) and func.id == "Accelerator":
                return node.lineno
    return float("inf")


def _fixer(wanted: dict[tuple[int, int], set[str]], accelerator: str, made: float) -> Any:
    libcst = _library()
    position = libcst.metadata.PositionProvider

    class Fixer(libcst.CSTTransformer):  # type: ignore[misc,name-defined]
        METADATA_DEPENDENCIES = (position,)

        def codes(self, node: Any) -> set[str]:
            start = self.get_metadata(position, node).start
            return wanted.get((start.line, start.column), set())

        def line(self, node: Any) -> int:
            return int(self.get_metadata(position, node).start.line)

        def leave_Arg(self, original: Any, updated: Any) -> Any:  # noqa: N802
            keyword = original.keyword.value if original.keyword is not None else ""
            codes = self.codes(original)
            if keyword == "device_map" and "D204" in codes:
                return libcst.RemoveFromParent()
            if keyword in _RENAMED and "V301" in codes:
                return updated.with_changes(keyword=libcst.Name(_RENAMED[keyword]))
            if keyword in _DTYPE_KEYWORDS and codes & _DTYPE_CODES:
                return updated.with_changes(value=_float32(original.value))
            return updated

        def leave_Call(self, original: Any, updated: Any) -> Any:  # noqa: N802
            func = original.func
            below = accelerator and self.line(original) > made
            if below and _names_a_gpu(original) and "D201" in self.codes(original.args[0]):
                device = libcst.Attribute(libcst.Name(accelerator), libcst.Name("device"))
                if func.attr.value == "device":
                    return device
                moved = func.with_changes(attr=libcst.Name("to"), value=updated.func.value)
                return updated.with_changes(func=moved, args=[libcst.Arg(device)])
            is_backward = isinstance(func, libcst.Attribute) and func.attr.value == "backward"
            if not (is_backward and accelerator and not original.args and "P124" in self.codes(original)):
                return updated
            call = libcst.Attribute(libcst.Name(accelerator), libcst.Name("backward"))
            return updated.with_changes(func=call, args=[libcst.Arg(updated.func.value)])

    return Fixer()


def _names_a_gpu(call: Any) -> bool:
    """Whether a call is `x.to("cuda:0")`, `x.cuda(0)` or `torch.device("cuda:0")`, and nothing else."""
    libcst = _library()
    func, args = call.func, call.args
    if not isinstance(func, libcst.Attribute) or len(args) != 1 or args[0].keyword is not None:
        return False
    kind = libcst.Integer if func.attr.value == "cuda" else libcst.SimpleString
    return func.attr.value in ("to", "cuda", "device") and isinstance(args[0].value, kind)


def _float32(value: Any) -> Any:
    """Name float32 as the script names dtypes: a string stays a string, anything else becomes torch's."""
    libcst = _library()
    if isinstance(value, libcst.SimpleString):
        quote = value.value[-1]
        return libcst.SimpleString(f"{quote}float32{quote}")
    return libcst.Attribute(libcst.Name("torch"), libcst.Name("float32"))
