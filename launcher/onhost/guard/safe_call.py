"""Isolation of the script from failures of the guard."""

from __future__ import annotations

import contextlib
import os
from typing import Any, Callable

from .rank_exit import GuardExit
from .training_state import TrainingState


class SafeCaller:
    """Caller that decides when checks may run, and keeps their exceptions from the script."""

    def __init__(self, training: TrainingState, leaving: GuardExit) -> None:
        self.pid = os.getpid()
        self._training = training
        self._leaving = leaving
        self._off: set[str] = set()

    def is_own_process(self) -> bool:
        """Return whether this process is the rank itself, not one of its forked children."""
        return os.getpid() == self.pid

    def is_active(self) -> bool:
        """Return whether this call is the rank's own and may be checked: not in a worker, not in a graph."""
        torch = self._training.torch
        if torch is None or os.getpid() != self.pid:
            return False
        if self._leaving.code is not None:
            self._leaving.force_exit()
        compiler = getattr(torch, "compiler", None)
        if compiler is not None and hasattr(compiler, "is_compiling") and compiler.is_compiling():
            return False
        cuda = torch.cuda
        return not (cuda.is_initialized() and cuda.is_current_stream_capturing())

    def call(self, what: str, look: Callable[..., None], *args: Any) -> None:
        """Run a check.

        An exception in it is reported once, disables the check, and never reaches the script.
        """
        if what in self._off:
            return
        try:
            with self._training.torch.no_grad():
                look(*args)
        except Exception as error:
            self._off.add(what)
            with contextlib.suppress(Exception):
                self._training.tools.report(
                    "internal_error", what="the guard's attempt to " + what, error=repr(error)[:2000]
                )
