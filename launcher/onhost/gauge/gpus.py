"""GPU samples of a run, taken in a thread that is abandoned when a driver hangs."""

from __future__ import annotations

import threading
import time
from typing import Any

from ..nvml import Nvml

ANSWER_S = 1.0  # how long a sample waits for NVML
RETRY_S = 60.0  # a driver that refuses may be loaded or repaired later


class GpuSampler(threading.Thread):
    """Thread that queries NVML on request; a call that never returns blocks nothing else."""

    def __init__(self, uuids: list[str]) -> None:
        super().__init__(daemon=True)
        self.uuids = uuids
        self.wanted = threading.Event()
        self.answered = threading.Event()
        self.asked_at = 0.0
        self.said: tuple[dict[str, Any], str] = ({}, "NVML has not answered yet")

    def sample(self) -> tuple[dict[str, Any], str]:
        """Return ({UUID: numbers}, reason for missing ones), after a moment at most."""
        if not self.uuids:
            return {}, ""
        if not self.wanted.is_set():
            self.asked_at = time.monotonic()
            self.answered.clear()
            self.wanted.set()
        if self.answered.wait(ANSWER_S):
            return self.said
        return {}, "NVML has not answered for %.0f s" % self.silent_s()

    def silent_s(self) -> float:
        """Return the age of the unanswered query in seconds, 0 when all are answered."""
        waiting = self.uuids and not self.answered.is_set() and self.asked_at
        return time.monotonic() - self.asked_at if waiting else 0.0

    def run(self) -> None:
        """Answer queries forever."""
        nvml: Nvml | None = None
        again_at = 0.0
        while True:
            self.wanted.wait()
            if nvml is None and time.monotonic() >= again_at:
                try:
                    nvml = Nvml()
                except Exception as error:
                    self.said = ({}, str(error))
                    again_at = time.monotonic() + RETRY_S
            if nvml is not None:
                self.said = self._look(nvml)
            self.wanted.clear()
            self.answered.set()

    def _look(self, nvml: Nvml) -> tuple[dict[str, Any], str]:
        found: dict[str, Any] = {}
        missing = ""
        for uuid in self.uuids:  # by UUID each time: a GPU that was reset has another handle
            try:
                found[uuid] = nvml.look(nvml.handle(uuid))
            except Exception as error:
                missing = missing or "%s: %s" % (uuid, error)
        return found, missing
