"""The best that each GPU has reached, and its latest values: kept locally, by host and UUID."""

import json
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from launcher.errors import PathRefused
from launcher.local.home import user_state_dir
from launcher.local.safe_paths import write_below
from launcher.safe_json import read_document, read_mapping, read_number
from preflight.deep.comparison import Reading
from preflight.deep.measurements import Former

SCHEMA = 2
FILE = "best.json"
KEPT = 20  # of each value; what is older is forgotten but for the best


class BestValues:
    """What is kept. A file that cannot be read counts as empty, and is written anew.

    A host reports the UUIDs of its GPUs itself, so none can set the best of another's.
    """

    def __init__(self, directory: Path, hosts: Mapping[str, Any]) -> None:
        self._directory = directory
        self._hosts: dict[str, Any] = dict(hosts)

    @classmethod
    def load(cls) -> "BestValues":
        """Read the user's own."""
        directory = user_state_dir() / "deep"
        return cls(directory, read_mapping(read_document(directory / FILE).get("hosts")))

    def history(self, hosts: Iterable[str]) -> tuple[Former, ...]:
        """Return what is kept of the GPUs of these hosts."""
        return tuple(former for host in hosts for former in self._of_host(host))

    def _of_host(self, host: str) -> Iterator[Former]:
        for uuid, kept in read_mapping(self._hosts.get(host)).items():
            for name, series in read_mapping(read_mapping(kept).get("values")).items():
                best = _number(read_mapping(series).get("best"))
                last = read_mapping(series).get("last")
                if best is not None:
                    points = tuple(_points(last if isinstance(last, list) else []))
                    yield Former(host, uuid, name, best, points)

    def add(self, readings: Iterable[Reading]) -> None:
        """Take new values and write the file; a directory that cannot be written keeps nothing."""
        now, added = round(time.time(), 1), False
        for reading in readings:
            if not reading.uuid:
                continue
            added = True
            gpu = self._member(self._member(self._hosts, reading.host), reading.uuid)
            gpu["model"] = reading.model
            series = self._member(self._member(gpu, "values"), reading.name)
            best, last = _number(series.get("best")), series.get("last")
            series["best"] = max(reading.value, best or 0.0)
            series["last"] = [*(last if isinstance(last, list) else []), [now, reading.value]][-KEPT:]
        if added:
            text = json.dumps({"version": SCHEMA, "hosts": self._hosts}, indent=1) + "\n"
            with suppress(OSError, PathRefused):
                write_below(self._directory, FILE, text)

    def _member(self, parent: dict[str, Any], key: str) -> dict[str, Any]:
        found = parent.get(key)
        if not isinstance(found, dict):
            found = parent[key] = {}
        return found


def _points(last: list[Any]) -> Iterator[tuple[float, float]]:
    """Yield time and value of what is a pair of numbers."""
    for each in last[-KEPT:]:
        if isinstance(each, list) and len(each) == 2:
            when, value = _number(each[0]), _number(each[1])
            if when is not None and value is not None:
                yield when, value


def _number(value: object) -> float | None:
    """Return a positive number, None for all else."""
    number = read_number(value)
    return number if number is not None and number > 0 else None
