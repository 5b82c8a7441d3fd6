"""Isolation of the script from failures of the guard."""

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
        self._torch: Any = None  # the one that the two below were taken from
        self._is_compiling: Callable[[], bool] = _no
        self._is_capturing: Callable[[], bool] = _no

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
        if self._torch is not torch:
            self._bind(torch)
        return not (self._is_compiling() or self._is_capturing())

    def _bind(self, torch: Any) -> None:
        """Look up once what every call asks torch; a build for CPUs alone captures no graph."""
        self._torch = torch
        self._is_compiling = getattr(getattr(torch, "compiler", None), "is_compiling", _no)
        cuda = torch.cuda

        def is_capturing() -> bool:
            return bool(cuda.is_initialized() and cuda.is_current_stream_capturing())

        has_cuda = torch.version.cuda or getattr(torch.version, "hip", None)
        self._is_capturing = is_capturing if has_cuda else _no

    def call(self, check: str, look: Callable[..., None], *args: Any) -> None:
        """Run a check; an exception is reported once, disables it, and never reaches the script."""
        if check in self._off:
            return
        torch = self._training.torch
        try:
            with torch.no_grad() if torch.is_grad_enabled() else contextlib.nullcontext():
                look(*args)
        except Exception as error:
            self._off.add(check)
            with contextlib.suppress(Exception):
                self._training.tools.report(
                    "internal_error", what="the guard's attempt to " + check, error=repr(error)[:2000]
                )


def _no() -> bool:
    return False
