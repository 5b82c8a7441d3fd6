"""What rank.py gives to the guard."""

from __future__ import annotations

from types import ModuleType
from typing import Any, Callable, Dict, NamedTuple

Report = Callable[..., None]
AfterImport = Callable[[Dict[str, Callable[[ModuleType], None]]], None]


class GuardContext(NamedTuple):
    """Which rank this is, and what the plan gave it."""

    rank: int
    local_rank: int
    run_dir: str


class RankServices(NamedTuple):
    """What rank.py lends: its events, its import hook, and how it reads a GPU's UUID."""

    report: Report
    after_import: AfterImport
    gpu_uuid: Callable[[Any], str]
