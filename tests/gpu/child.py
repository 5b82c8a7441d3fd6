"""One case in a process of its own: `python -m tests.gpu.child NAME LEDGER SCRATCH [PROFILE]`.

Exit code: 0 whatever the ledger says, 3 where the machine lacks something, 1 where the case could
not continue. The last line of stderr says why.
"""

import os
import sys
import traceback
from pathlib import Path

from tests.gpu.board import Board, NoGpu
from tests.gpu.case import CANNOT_RUN
from tests.gpu.cases import CASES
from tests.gpu.ledger import CannotRun, Ledger, Stopped


def main(name: str, ledger_path: str, scratch: str, simulated: str = "") -> int:
    """Run a case."""
    case = next(each for each in CASES if each.name == name)
    ledger = Ledger(Path(ledger_path))
    board = Board(Path(scratch), dict(os.environ), simulated)
    try:
        case.run(board, ledger)
    except CannotRun as reason:
        sys.stderr.write(f"{reason}\n")
        return CANNOT_RUN
    except (Stopped, NoGpu) as reason:
        sys.stderr.write(f"{reason}\n")
        return 1
    except Exception as error:  # noqa: BLE001 - a bug of the suite; the report says where
        traceback.print_exc()
        sys.stderr.write(f"{_place(error)}: {type(error).__name__}: {error}\n")
        return 1
    finally:
        ledger.close()
    return 0


def _place(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
