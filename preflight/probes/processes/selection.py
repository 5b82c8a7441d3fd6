"""Which processes matter: those of a launch, those that hold something or hang, and those above them."""

import os
import re

from ..files import read_text
from . import COMMAND_INITS
from .proc_pid import ProcessStat
from .walk import ProcessWalk

_RANK_MARKS = frozenset({"GPULAUNCH_RUN_ID", "GPULAUNCH_SUPERVISOR", "TORCHELASTIC_RUN_ID", "LOCAL_RANK"})
_LAUNCHER = re.compile(
    r"(^|/)(torchrun|accelerate|deepspeed|gpulaunch|horovodrun)(\0|$)"
    r"|\0-m\0(torch\.distributed\.(run|launch)|accelerate\.commands\.launch|launcher\.cli|gpulaunch)(\0|$)"
    r"|gpulaunch-supervisor"
)
_WORKER_COMMS = frozenset({"pt_data_worker", "pt_data_pin", "pt_elastic", "nvidia-cuda-mps"})


def select_pids(walk: ProcessWalk) -> set[int]:
    """Return the pids that matter (see facts.Process), without the agent and its own probes."""
    mine = {os.getpid(), os.getppid()}
    mine |= {pid for pid, stat in walk.stats.items() if stat.ppid in mine}
    above = walk.ancestors(os.getppid())  # the client, where this is its host too: no launch of its own
    core = {pid for pids in walk.holders.values() for pid in pids}
    for pid, stat in walk.stats.items():
        if pid in walk.kernel or pid in mine:
            continue
        files = walk.gpu_files.get(pid)
        # unreadable: another user's, no reason to send it.
        holds_gpu = isinstance(files, list) and files != []
        matters = stat.state in "ZTtD" or stat.comm in _WORKER_COMMS or holds_gpu
        if matters or (pid not in above and _is_launch(stat)):
            core.add(pid)
    core -= mine
    chosen = set(core)
    for pid in core:
        chosen.update(walk.ancestors(pid))
    chosen |= {pid for pid, stat in walk.stats.items() if stat.ppid in core}
    chosen |= _commands(walk, chosen)
    return chosen - (mine - core)


def _commands(walk: ProcessWalk, chosen: set[int]) -> set[int]:
    """Return what inits of one command run: their oldest child, since they started it first of all."""
    inits = {pid for pid in chosen if pid in walk.stats and walk.stats[pid].comm in COMMAND_INITS}
    children = [stat for stat in walk.stats.values() if stat.ppid in inits]
    oldest = {init: min((s.start_ticks for s in children if s.ppid == init), default=0) for init in inits}
    return {stat.pid for stat in children if stat.start_ticks == oldest[stat.ppid]}


def _is_launch(stat: ProcessStat) -> bool:
    """Whether a process is a rank or a launcher by its own environment or command line."""
    try:
        if _LAUNCHER.search(read_text("/proc/%d/cmdline" % stat.pid, 1 << 16)):
            return True
        environ = read_text("/proc/%d/environ" % stat.pid)
    except OSError:
        return False
    return any(item.partition("=")[0] in _RANK_MARKS for item in environ.split("\0"))
