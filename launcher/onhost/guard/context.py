"""Interface between rank.py and the guard."""

from types import ModuleType
from typing import Any, Callable, Dict, NamedTuple

Report = Callable[..., None]
AfterImport = Callable[[Dict[str, Callable[[ModuleType], None]]], None]


class GuardContext(NamedTuple):
    """Identity of this rank, and its part of the plan."""

    rank: int
    local_rank: int
    run_dir: str


class RankServices(NamedTuple):
    """Services of rank.py: its events, its import hook, and its reader of a GPU's UUID."""

    report: Report
    after_import: AfterImport
    gpu_uuid: Callable[[Any], str]
