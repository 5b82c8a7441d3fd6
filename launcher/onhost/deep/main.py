"""Script of the deep checks: every rank measures its device and its links, and reports each step.

    python deep.py SECONDS STEP_TIMEOUT_S
    python deep.py --observe RUN_DIR RANK PID      the process beside a rank (observer.py)

A launch like any other starts it: torch's launcher, one rank per GPU, or CPU ranks over gloo with small
sizes. It needs torch and the standard library. A barrier over gloo ends each step, so that all ranks measure
the same thing at the same time; a step that misses its deadline is reported with the stack, and the run then
ends as one that hangs. This is the entry point; the other modules of the script are in this package.
"""

import datetime as dt
import os
import sys
import traceback
from typing import Any, Callable

from . import single_rank_steps
from .context import Announce, GlooGroup, RankPlace, Reporter, StepWatchdog
from .devices import find_device
from .link_steps import PairMeter, Pairs, measure_all_reduce
from .observer import OPTION, Observer, observe_deadlines
from .sensors import Sensors

JOIN_S = 120.0  # torch's import, the rendezvous and the first communicator


class DeepScript:
    """The steps in their order."""

    def __init__(self, run_dir: str, seconds: float, timeout_s: float, announce: Announce) -> None:
        self.place = RankPlace()
        self.seconds = seconds
        self.reporter = Reporter(run_dir, self.place.rank)
        self.watchdog = StepWatchdog(self.reporter, timeout_s, announce)
        self.device: Any = None
        self.dist: Any = None
        self.control: Any = None
        self.nodes: list[list[int]] = []
        self.current = "join"  # the step that runs

    def run(self) -> None:
        """Run all steps."""
        self.reporter.report("begin", "join")
        self.watchdog.begin("join", JOIN_S)
        self.reporter.report("result", "join", **self.join())
        self.wait()
        device = self.device
        self.step("memory", 10.0, lambda: single_rank_steps.verify_memory(device))
        self.step("matmul", self.seconds, lambda: single_rank_steps.measure_products(device, self.seconds))
        self.step("digest", 5.0, lambda: single_rank_steps.digest_products(device))
        self.step("copy", 5.0, lambda: single_rank_steps.measure_copies(device))
        self.step("host", 10.0 + self.place.local_world, self.measure_host)
        self.run_links()
        self.watchdog.end()
        self.reporter.report("result", "end")
        self.dist.destroy_process_group()

    def run_links(self) -> None:
        """Run the steps of more than one rank, as far as there are others."""
        local = self.nodes[self.place.node]
        if self.place.world > 1:
            meter = PairMeter(self.device, self.dist, self.place.rank)
        if max(map(len, self.nodes)) > 1:
            peers = Pairs(meter, [[rank] for rank in local], (self.place.local_rank, 0), self.node_control)
            self.step("peer", 30.0, lambda: self.measure_peers(peers, local))
            self.step("node", 15.0, self.reduce_node)
        if len(self.nodes) > 1:
            self.step(
                "world", 30.0, lambda: measure_all_reduce(self.device, self.dist, None, self.place.world)
            )
            mine = self.place.node, self.place.local_rank
            pairs = Pairs(meter, self.nodes, mine, self.control)
            self.step("pairs", 90.0, lambda: pairs.measure(self.device.suspect))

    def step(self, name: str, seconds: float, measure: Callable[[], dict[str, Any]]) -> None:
        """Run a step, report it, wait for the others. After one that fails the next one runs."""
        self.current = name
        self.reporter.report("begin", name)
        self.watchdog.begin(name, seconds)
        started = self.device.begin_step()
        try:
            found = measure()
        except Exception as error:
            self.reporter.report("failed", name, error=repr(error)[:1000])
        else:
            self.reporter.report("result", name, **{**found, **self.device.clock.measure_waits(started)})
        self.device.release_memory()
        self.wait()

    def wait(self) -> None:
        """Wait until every rank has come as far."""
        self.watchdog.waiting = True
        self.control.barrier()

    def join(self) -> dict[str, Any]:
        """Find the device, join the world, and the groups that the steps need; return who this rank is."""
        import torch
        import torch.distributed as dist

        torch.manual_seed(0)
        self.device = find_device(torch, self.place.local_rank)
        self.dist = dist
        forever = dt.timedelta(hours=1)  # the watchdog has the deadlines
        dist.init_process_group(self.device.backend, timeout=forever)
        world = dist.new_group(backend="gloo", timeout=forever)
        self.control = GlooGroup(dist, world, self.place.world)
        everyone = self.control.gather((self.place.node, self.place.local_rank, self.place.rank))
        for node in sorted({node for node, _, _ in everyone}):
            self.nodes.append([rank for at, _, rank in sorted(everyone) if at == node])
        for node, ranks in enumerate(self.nodes):  # every rank takes part in making every group
            control = dist.new_group(ranks, backend="gloo", timeout=forever)
            group = dist.new_group(ranks, timeout=forever)
            if node == self.place.node:
                self.node_control, self.node_group = GlooGroup(dist, control, len(ranks)), group
        # Before any exchange of two: NCCL makes its communicator with all ranks of the world.
        dist.all_reduce(torch.zeros(1, device=self.device.device))
        limits = Sensors(self.device.uuid).limits() if self.device.kind == "gpu" else {}
        return {**self.device.facts(), **limits, "torch": str(torch.__version__), "node": self.place.node}

    def measure_peers(self, pairs: Pairs, ranks: list[int]) -> dict[str, Any]:
        """Measure every two ranks of this node."""
        found = pairs.measure(self.device.suspect)
        for each in found["pairs"]:
            each["access"] = self.device.can_access(ranks.index(each["peer"]))
        return found

    def measure_host(self) -> dict[str, Any]:
        """Copy between host and device: each rank of the node alone, then all at once."""
        buffers = single_rank_steps.allocate_buffers(self.device)
        alone: Any = ([], [])
        for turn in range(max(map(len, self.nodes))):
            if turn == self.place.local_rank:
                alone = single_rank_steps.measure_host_copies(self.device, buffers, 10)
            self.node_control.barrier()
        together = single_rank_steps.measure_host_copies(self.device, buffers, 10)
        names = ("to_device", "from_device", "to_device_together", "from_device_together")
        return dict(zip(names, (*alone, *together)))  # noqa: B905 - Python 3.9

    def reduce_node(self) -> dict[str, Any]:
        """All-reduce within this node; a node of one rank has nothing to measure."""
        members = len(self.nodes[self.place.node])
        if members == 1:
            return {"busbw": [], "latency_us": [], "correct": True, "members": 1, "bytes": 0}
        return measure_all_reduce(self.device, self.dist, self.node_group, members)


def main() -> int:
    """Measure. A failure is printed from this frame on: the line above it is the whole program."""
    if sys.argv[1] == OPTION:
        observe_deadlines(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
        return 0
    program = os.path.abspath(sys.argv[0])
    run_dir = os.path.dirname(os.path.dirname(program))
    observer = Observer(program, run_dir, RankPlace().rank)
    script = DeepScript(run_dir, float(sys.argv[1]), float(sys.argv[2]), observer.announce)
    try:
        script.run()
    except Exception as error:
        script.reporter.report("failed", script.current, error=repr(error)[:1000])
        traceback.print_exc()
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
