"""Exit of a rank on the guard's decision."""

import contextlib
import os
import sys
from typing import Callable

from .context import Report

STOP_EXIT = 86


class GuardExit:
    """Exit of the rank from inside the script's own calls; `finish` replaces its exit handlers."""

    def __init__(self, report: Report, finish: Callable[[], None]) -> None:
        self.code: int | None = None  # exit code of the rank, once its end is decided
        self._report = report
        self._finish = finish

    def raise_exit(self, code: int) -> None:
        """End the rank from inside the script's own call, so that its `finally` clauses run."""
        self.code = code
        raise SystemExit(code)

    def force_exit(self) -> None:
        """End the process: the script has caught SystemExit and still trains, or a thread got it."""
        with contextlib.suppress(Exception):
            self._report("script_exit", code=self.code)
            self._finish()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(self.code or 0)

    def clean_exit(self) -> None:
        """Keep torch's own threads from aborting an interpreter that exits in the middle of a training."""
        if self.code is None:
            return
        if self.code:
            import logging
            import multiprocessing.util

            multiprocessing.util._exit_function()  # type: ignore[attr-defined] # noqa: SLF001 - workers end
            logging.shutdown()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.code)
        distributed = sys.modules.get("torch.distributed")  # a rehearsal: every rank is at this same step
        if distributed is None or not distributed.is_available() or not distributed.is_initialized():
            return
        # gloo's group is the rank's: see join_gloo in ../rank/exit.py.
        if "nccl" in str(distributed.get_backend()):
            distributed.destroy_process_group()
