"""Real CPU ranks of the deep checks on this machine, each a node of its own, some of them with a fault.

`python -m tests.launcher.deep_ranks FAULTS` prints what the ranks reported, one JSON line per report. Ranks
are forks of one process that has imported torch, pinned to one processor, whose time the scheduler shares out
evenly on any machine; the slow one gets a quota by SIGSTOP and SIGCONT. Sockets are on loopback.
"""

import gc
import hashlib
import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from launcher.onhost.deep import context, single_rank_steps
from launcher.onhost.deep.devices import CpuDevice
from launcher.onhost.deep.link_steps import PairMeter
from launcher.onhost.deep.main import DeepScript
from launcher.onhost.event_file import EVENTS

STOPPED_S, RUNS_S = 0.1, 0.01
TIMEOUT_S, DEADLINE_S = 60.0, 1.5
PACED_S = 0.05
"""What the slow link adds to each exchange of whole buffers."""


def run_ranks(count: int, faults: dict[str, Any], seconds: float) -> list[dict[str, Any]]:
    """Run `count` nodes of one rank; return all reports, `rank` in each. Needs torch imported, no threads."""
    with tempfile.TemporaryDirectory() as directory:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        pids = [_fork(rank, count, port, directory, faults, seconds) for rank in range(count)]
        _end(pids, Path(directory, EVENTS), faults)
        return [json.loads(line) for line in Path(directory, EVENTS).read_text().splitlines()]


def _fork(rank: int, count: int, port: int, directory: str, faults: dict[str, Any], seconds: float) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        os.environ.update(
            RANK=str(rank), WORLD_SIZE=str(count), LOCAL_RANK="0", LOCAL_WORLD_SIZE="1", GROUP_RANK=str(rank),
            MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port), GLOO_SOCKET_IFNAME="lo", CUDA_VISIBLE_DEVICES="",
        )  # fmt: skip
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        break_rank(rank, faults)
        DeepScript(directory, seconds, TIMEOUT_S, lambda _step, _limit_s: None).run()
    except BaseException as error:  # noqa: BLE001 - a fork must not run the parent's code
        sys.stderr.write(f"rank {rank}: {error!r}\n")
    os._exit(0)


def _end(pids: list[int], events: Path, faults: dict[str, Any]) -> None:
    """Wait for the ranks; end them as the client does, once one of them has said that they hang."""
    left = set(pids)
    slow = pids[faults["slow"]] if "slow" in faults else 0
    deadline = time.monotonic() + 120
    while left:
        left = {pid for pid in left if os.waitpid(pid, os.WNOHANG) == (0, 0)}
        said = events.read_text() if events.exists() else ""
        for pid in left if '"event": "hung"' in said or time.monotonic() > deadline else ():
            os.kill(pid, signal.SIGKILL)
        if slow in left and _multiplies(said, faults["slow"]):
            os.kill(slow, signal.SIGSTOP)
            time.sleep(STOPPED_S)
            os.kill(slow, signal.SIGCONT)
            time.sleep(RUNS_S)
        else:
            time.sleep(0.01)


def _multiplies(said: str, rank: int) -> bool:
    lines = [line for line in said.splitlines() if f'"rank": {rank},' in line and '"matmul"' in line]
    return len(lines) == 1


def break_rank(rank: int, faults: dict[str, Any]) -> None:
    """Give this rank its fault."""
    if faults.get("wrong") == rank:
        true = single_rank_steps.digest_product

        def wrong(device: Any, seed: int) -> str:
            return hashlib.sha256(true(device, seed).encode()).hexdigest()[:16]

        single_rank_steps.digest_product = wrong
    if rank in faults.get("link", ()):
        _pace(next(other for other in faults["link"] if other != rank))
    if "silent" in faults:
        _silence(faults["step"], stops=faults["silent"] == rank)


def _pace(other: int) -> None:
    exchange = PairMeter.exchange

    def paced(self: PairMeter, peer: int, mine: Any, theirs: Any) -> None:
        exchange(self, peer, mine, theirs)
        if peer == other and mine.numel() > 1000:
            time.sleep(PACED_S)

    PairMeter.exchange = paced  # type: ignore[assignment,method-assign]


def _silence(step: str, *, stops: bool) -> None:
    """Give a step a short deadline, which this rank misses if it `stops`."""
    run = DeepScript.step

    def stopped(self: DeepScript, name: str, seconds: float, measure: Callable[[], dict[str, Any]]) -> None:
        def stop() -> dict[str, Any]:
            if stops:
                os.kill(os.getpid(), signal.SIGSTOP)
            return measure()

        run(
            self, name, DEADLINE_S - TIMEOUT_S if name == step else seconds, stop if name == step else measure
        )

    DeepScript.step = stopped  # type: ignore[method-assign]


def main() -> None:
    """Run what the command line says, as JSON."""
    import torch  # noqa: PLC0415 - once, ahead of the forks
    import torch.distributed  # noqa: PLC0415 - as above

    torch.set_num_threads(1)
    gc.freeze()  # a fork that visits what was imported copies all of it
    context.REPORT_SETTLE_S = 0.5
    for name in ("memory_chunk", "copy_bytes", "host_copy_bytes", "collective_bytes", "pair_bytes"):
        setattr(CpuDevice, name, 1 << 20)
    for words in sys.argv[1:]:
        faults = json.loads(words)
        reports = run_ranks(faults["ranks"], faults, faults.get("seconds", 0.4))
        sys.stdout.write(json.dumps(reports) + "\n")


if __name__ == "__main__":
    main()
