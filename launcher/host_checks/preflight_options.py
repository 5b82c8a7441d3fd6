"""How a preflight asks hosts and judges them."""

from collections.abc import Callable
from pathlib import Path

from launcher.host_checks.fact_cache import FactCache
from launcher.planning.plan import ScriptFile
from launcher.remote.fanout import WIDTH
from launcher.remote.shards.terminal_questions import ShardAccess
from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class PreflightOptions:
    """How to ask and judge."""

    ignore: frozenset[str] = frozenset()
    access_words: tuple[str, ...] = ()  # options that commands of a fix need to reach the hosts
    as_one_launch: bool = True  # the hosts are one launch; False: each is judged for itself
    width: int = WIDTH
    shards: ShardAccess | None = None  # for many hosts: several processes ask them
    deadline_s: float = 20.0
    skip: tuple[str, ...] = ()
    cache: FactCache | None = None  # facts of earlier answers that hosts need not send again
    from_file: bool = False  # leave out checks whose facts a saved nvidia-smi cannot hold
    # The script that travels with the launch: read locally, as it will be on the host.
    sent: ScriptFile | None = None
    while_waiting: Callable[[], object] | None = None  # called once, while a host works on its answer
    # The script in a tree that a sync will bring, working directory and all.
    script_after_sync: ScriptFile | None = None
    # The local directory that a sync makes the one in which the ranks start; None: not known, or none.
    tree: Path | None = None
    makes_workdir: bool = False  # a sync makes the working directory before the launch
