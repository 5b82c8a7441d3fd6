"""One check by its code, without the others: to import them all takes longer than all else of `explain`."""

import os
import sys
from importlib import import_module

from preflight.checks.registry import CHECKS, Check

_FAMILY = __package__ + "."
_FOLDER = os.path.dirname(__file__)  # noqa: PTH120


def find_check(code: str) -> Check | None:
    """Return the check of a code, None where no check has it.

    Where the table is not loaded, only the module is that has the code in its source; the table puts checks
    in its own order whatever was imported before it.
    """
    if _FAMILY + "table" not in sys.modules:
        for name in sorted(os.listdir(_FOLDER)):  # noqa: PTH208 - pathlib is slow to import
            if name.endswith(".py") and f'_check("{code}"' in _text(name):
                import_module(_FAMILY + name.removesuffix(".py"))
                return CHECKS.get(code)
    import_module(_FAMILY + "table")
    return CHECKS.get(code)


def _text(name: str) -> str:
    with open(os.path.join(_FOLDER, name), encoding="utf-8") as file:  # noqa: PTH118, PTH123
        return file.read()
