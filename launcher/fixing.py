"""Mechanical fixes of lint's findings, with LibCST so that everything else keeps its look."""

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
    and `loss.backward()` beside the script's one Accelerator. Raises BadInput without LibCST.
    """
    libcst = _library()
    wanted: dict[tuple[int, int], set[str]] = {}
    for finding in findings:
        if finding.place.path == path:
            wanted.setdefault((finding.place.line, finding.place.column - 1), set()).add(finding.code)
    module = libcst.MetadataWrapper(libcst.parse_module(text))
    result: str = module.visit(_fixer(wanted, _accelerator_name(module.module))).code
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


def _fixer(wanted: dict[tuple[int, int], set[str]], accelerator: str) -> Any:
    libcst = _library()
    position = libcst.metadata.PositionProvider

    class Fixer(libcst.CSTTransformer):  # type: ignore[misc,name-defined]
        METADATA_DEPENDENCIES = (position,)

        def codes(self, node: Any) -> set[str]:
            start = self.get_metadata(position, node).start
            return wanted.get((start.line, start.column), set())

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
            is_backward = isinstance(func, libcst.Attribute) and func.attr.value == "backward"
            if not (is_backward and accelerator and not original.args and "P124" in self.codes(original)):
                return updated
            call = libcst.Attribute(libcst.Name(accelerator), libcst.Name("backward"))
            return updated.with_changes(func=call, args=[libcst.Arg(updated.func.value)])

    return Fixer()


def _float32(value: Any) -> Any:
    """Name float32 as the script names dtypes: a string stays a string, anything else becomes torch's."""
    libcst = _library()
    if isinstance(value, libcst.SimpleString):
        quote = value.value[-1]
        return libcst.SimpleString(f"{quote}float32{quote}")
    return libcst.Attribute(libcst.Name("torch"), libcst.Name("float32"))
