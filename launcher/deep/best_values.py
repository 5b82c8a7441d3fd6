"""The best that each GPU has reached, and its latest values: kept locally, by UUID."""

import json
import math
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from launcher import safe_json
from launcher.local.home import home
from launcher.local.safe_paths import write_below
from preflight.deep.readings import Reading

SCHEMA = 1
FILE = "best.json"
KEPT = 20
"""Of each value; what is older is forgotten but for the best."""


class BestValues:
    """What is kept. A file that cannot be read counts as empty, and is written anew."""

    def __init__(self, directory: Path, gpus: Mapping[str, Any]) -> None:
        self._directory = directory
        self._gpus: dict[str, Any] = dict(gpus)

    @classmethod
    def load(cls) -> "BestValues":
        """Read the user's own."""
        state = os.environ.get("XDG_STATE_HOME", "")
        base = Path(state) if Path(state).is_absolute() else home() / ".local" / "state"
        directory = base / "gpulaunch" / "deep"
        try:
            document = safe_json.loads((directory / FILE).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            document = {}
        gpus = document.get("gpus") if isinstance(document, dict) else None
        return cls(directory, gpus if isinstance(gpus, dict) else {})

    def bests(self) -> dict[str, dict[str, float]]:
        """Return the best value of each GPU by its UUID and the value's name."""
        found: dict[str, dict[str, float]] = {}
        for uuid, kept in self._gpus.items():
            values = kept.get("values") if isinstance(kept, dict) else None
            for name, series in (values or {}).items() if isinstance(values, dict) else ():
                best = _number(series.get("best")) if isinstance(series, dict) else None
                if best is not None:
                    found.setdefault(str(uuid), {})[str(name)] = best
        return found

    def add(self, readings: Iterable[Reading]) -> None:
        """Take new values and write the file; a directory that cannot be written keeps nothing."""
        now, added = round(time.time(), 1), False
        for reading in readings:
            if not reading.uuid:
                continue
            added = True
            gpu = self._mapping(self._gpus, reading.uuid)
            gpu["model"] = reading.model
            series = self._mapping(self._mapping(gpu, "values"), reading.name)
            best, last = _number(series.get("best")), series.get("last")
            series["best"] = max(reading.value, best or 0.0)
            series["last"] = [*(last if isinstance(last, list) else []), [now, reading.value]][-KEPT:]
        if added:
            text = json.dumps({"version": SCHEMA, "gpus": self._gpus}, indent=1) + "\n"
            with suppress(OSError):
                write_below(self._directory, FILE, text)

    def _mapping(self, parent: dict[str, Any], key: str) -> dict[str, Any]:
        found = parent.get(key)
        if not isinstance(found, dict):
            found = parent[key] = {}
        return found


def _number(value: object) -> float | None:
    """Return a positive number, None for all else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value) if value > 0 else None
