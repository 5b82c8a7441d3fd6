"""Mechanical fixes of lint's findings: what is changed, what is left to people and why."""

import difflib
import sys
from collections.abc import Iterable
from typing import Any

from launcher.errors import BadInput
from launcher.lint.fixable_codes import FIXABLE
from launcher.lint.scopes import Scopes
from preflight.facts.script import CodeLocation
from preflight.frozen import dataclass
from preflight.script.lint import LintFinding
from preflight.script.rules.registry import Level


@dataclass(frozen=True, slots=True)
class UnfixedFinding:
    """A finding that is not fixed, and why."""

    place: CodeLocation
    code: str
    reason: str


@dataclass(frozen=True, slots=True)
class FixResult:
    """A script after its mechanical fixes; the same text when there is nothing to fix."""

    text: str
    unfixed: tuple[UnfixedFinding, ...] = ()


def fix_script(text: str, path: str, findings: Iterable[LintFinding]) -> FixResult:
    """Return the script with what can be fixed mechanically, with LibCST so that all else keeps its look.

    Fixed are: the dtype named at load or by a cast after it, a removed keyword that has a new name,
    device_map of a trained model, `loss.backward()` beside an Accelerator, and a GPU named by number where
    an Accelerator is at hand. A fix that needs a choice is left, with the reason. Raises BadInput without
    LibCST.
    """
    libcst = _library()
    mine = [item for item in findings if item.place.path == path and item.level is not Level.INFO]
    if not any(item.code in FIXABLE for item in mine):
        return FixResult(text)  # and what is not Python is not given to another parser
    try:
        module = libcst.MetadataWrapper(libcst.parse_module(text))
    except (libcst.ParserSyntaxError, ValueError, RecursionError):
        return FixResult(
            text, tuple(UnfixedFinding(item.place, item.code, "not Python") for item in mine[:1])
        )
    from launcher.lint.edits import apply_edits, plan_edits  # noqa: PLC0415 - it imports LibCST, which only --fix needs

    codes: dict[tuple[int, int], set[str]] = {}
    for item in mine:
        if item.code in FIXABLE:
            codes.setdefault(_start(text, item.place), set()).add(item.code)
    plan = plan_edits(module, codes, Scopes(text))
    left = []
    for item in mine:
        reason = plan.reason(_start(text, item.place), item.code)
        if item.code in FIXABLE and reason:
            left.append(UnfixedFinding(item.place, item.code, reason))
    mark = "\ufeff" if text.startswith("\ufeff") else ""  # LibCST reads it as no part of the text
    return FixResult(mark + apply_edits(module, plan).removeprefix("\ufeff"), tuple(left))


def diff(before: str, after: str, path: str) -> str:
    """Return the change as a unified diff, "" when there is none."""
    lines = difflib.unified_diff(
        before.splitlines(keepends=True), after.splitlines(keepends=True), path, f"{path} (fixed)"
    )
    return "".join(lines)


def _start(text: str, place: CodeLocation) -> tuple[int, int]:
    """Return a place as LibCST counts: characters, where Python's own parser counts bytes."""
    lines = text.removeprefix("\ufeff").splitlines()
    line = lines[place.line - 1] if 0 < place.line <= len(lines) else ""
    before = line.encode("utf-8", errors="surrogateescape")[: place.column - 1]
    return place.line, len(before.decode("utf-8", errors="replace"))


def _library() -> Any:
    try:
        import libcst  # noqa: PLC0415 - only --fix needs it
    except ImportError:
        raise BadInput("--fix needs LibCST", f"{sys.executable} -m pip install libcst") from None
    return libcst
