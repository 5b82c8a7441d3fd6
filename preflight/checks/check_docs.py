"""What a check is and says, read from its source: `explain` loads neither checks nor the facts they judge."""

import ast
import os
from inspect import cleandoc
from typing import NamedTuple

_FOLDER = os.path.dirname(__file__)  # noqa: PTH120
_QUOTES = '"""'
_SCOPES = {"host_check": "host", "cluster_check": "cluster", "deep_check": "deep"}


class CheckText(NamedTuple):
    """The fields of registry.Check that a person reads; `severity` is the value of a Severity."""

    code: str
    text: str
    severity: str
    gate: bool
    scope: str
    gpu_only: bool


def find_check_text(code: str) -> CheckText | None:
    """Return the text of a check, None where no check has the code.

    Raises ValueError for a registration that is not written as those of this package are.
    """
    for name in sorted(os.listdir(_FOLDER)):  # noqa: PTH208 - pathlib is slow to import
        if name.endswith(".py"):
            with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:  # noqa: PTH118, PTH123
                source = file.read()
            at = source.find(f'_check("{code}"')
            if at >= 0:
                return _read(source, at)
    return None


def _read(source: str, at: int) -> CheckText:
    """Read a decorator and the docstring below it; the rest of the module need not be parsed."""
    start = source.rfind("\n@", 0, at) + 1
    opened = source.index(_QUOTES, at) + len(_QUOTES)
    end = source.index(_QUOTES, opened) + len(_QUOTES)
    (function,) = ast.parse(source[start:end]).body
    if not isinstance(function, ast.FunctionDef):
        raise ValueError(f"no function below: {source[start:at]}")  # noqa: TRY004 - of the text
    decorator = function.decorator_list[0]
    if not isinstance(decorator, ast.Call) or not isinstance(decorator.func, ast.Name):
        raise ValueError(f"no registration of a check: {source[start:at]}")  # noqa: TRY004 - of the text
    code, *severity = (ast.unparse(word).rpartition(".")[2].strip("'") for word in decorator.args)
    named = {word.arg: ast.literal_eval(word.value) for word in decorator.keywords}
    return CheckText(
        code=code,
        text=cleandoc(ast.get_docstring(function, clean=False) or ""),
        severity=(severity or ["CRITICAL"])[0].lower(),
        gate=bool(named.get("gate", False)),
        scope=_SCOPES[decorator.func.id],
        gpu_only=bool(named.get("gpu_only", False)),
    )
