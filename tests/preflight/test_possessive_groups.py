"""Regular expressions that mean something else on Python 3.11.0 to 3.11.4, as Debian 12 has it."""

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_REPEATS = (re._constants.POSSESSIVE_REPEAT, re._constants.ATOMIC_GROUP)  # type: ignore[attr-defined]
_SIGN = re.compile(r"[*+?}](?:['\"]\s*\w*['\"])?\+|\(\?>")
_CHOICE = re._constants.BRANCH  # type: ignore[attr-defined]


def patterns(source: str) -> Iterator[str]:
    """The string constants of a module that may be patterns with a possessive repeat or an atomic group."""
    for node in ast.walk(ast.parse(source)) if _SIGN.search(source) else ():
        text = node.value if isinstance(node, ast.Constant) else None
        if isinstance(text, str) and _SIGN.search(text):
            yield text


def chooses(parsed: object, *, within: bool = False) -> bool:
    """Whether a possessive repeat or an atomic group has something within that chooses."""
    for operation, argument in parsed:  # type: ignore[attr-defined]
        if within and operation is _CHOICE:
            return True
        inner = within or operation in _REPEATS
        for part in argument if isinstance(argument, tuple | list) else (argument,):
            for each in part if isinstance(part, list) else (part,):
                if isinstance(each, re._parser.SubPattern) and chooses(each, within=inner):  # type: ignore[attr-defined]
                    return True
    return False


def is_unsafe(pattern: str) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return chooses(re._parser.parse(pattern))  # type: ignore[attr-defined]
    except re.error:
        return False


@pytest.mark.parametrize("pattern", [r"(?:[^]\\]++|\\.)*+x", r"(?:a|bc){2}+", r"(?>a|bc)d"])
def test_a_possessive_group_with_alternatives_is_seen(pattern: str) -> None:
    assert is_unsafe(pattern)


def test_no_possessive_group_of_ours_has_alternatives() -> None:
    """Before Python 3.11.5 such a group keeps marks of a branch that it has left: it matches too much."""
    found = [
        f"{path.relative_to(ROOT)}: {pattern}"
        for wing in ("preflight", "launcher")
        for path in sorted((ROOT / wing).rglob("*.py"))
        for pattern in patterns(path.read_text())
        if is_unsafe(pattern)
    ]
    assert not found
