"""What planted faults are made of: the fault itself, and the calls and lines of a script."""

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from preflight.job import Precision


@dataclass(frozen=True, slots=True)
class PlantedFault:
    """A script with one fault: any of `codes` at `line` is right. `launch` is the precision of the launch."""

    kind: str
    text: str
    line: int
    codes: frozenset[str]
    launch: Precision | None = None


Planter = Callable[[str, list[str]], Iterator[PlantedFault]]


def with_line(lines: list[str], index: int, line: str | None) -> str:
    """Return the text with another line, or without it."""
    return "\n".join([*lines[:index], *([] if line is None else [line]), *lines[index + 1 :]])


def calls(text: str) -> Iterator[ast.Call]:
    """Yield the calls of a script, none of what is not Python."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def name_of(call: ast.Call) -> str:
    """Return the last part of what is called."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
