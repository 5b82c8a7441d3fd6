"""A case: a function that looks at the board, and how long it may take."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.gpu.board import Board
from tests.gpu.ledger import Ledger

CANNOT_RUN = 3
"""Exit code of a case whose machine lacks something."""


@dataclass(frozen=True)
class Case:
    """One row of the report. `least_s`: with less time left it is not started."""

    name: str
    title: str
    run: Callable[[Board, Ledger], None]
    limit_s: float = 90.0
    least_s: float = 10.0
