"""A launch on many nodes: plan, start, verification, following and stop, with replayed supervisors.

    python -m bench.run_nodes [--nodes 1000] [--gpus 8] [--steps 20] [--step 1.0]

No host exists: `bench.replayed_supervisors` answers in this process, so that its own cost (about a third) is
in every figure. A run is planned, started, verified and followed; at its end the last rank raises, and the
other nodes are stopped. Target: everything grows linearly, which the CPU for each node shows: a quarter of
the nodes costs at least 0.6 as much for each. Threads: one for each node; descriptors: one for
each log (`LogStore` keeps at most half of what the process may have).
"""

import argparse
import contextlib
import io
import os
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from bench.common import Target, tell
from bench.fleet import Recorded
from bench.replayed_supervisors import ReplayedFleet, Story
from launcher.config.inventory import HostEntry
from launcher.follow.outcome import Outcome
from launcher.host_checks.evaluation import evaluate_facts
from launcher.launch.launch import CheckedLaunch, launch_and_follow
from launcher.launch.request import FollowOptions, LaunchRequest
from launcher.remote.agent import GatherResult, decode_document
from launcher.remote.connection_pool import ConnectionPool
from launcher.terminal.screen import Screen
from preflight.job import Job

_LINEAR = 1 / 0.6


@dataclass(frozen=True, slots=True)
class Measured:
    """What a run took of this process."""

    outcome: Outcome
    plan_cpu_s: float
    run_cpu_s: float
    wall_s: float
    story_s: float  # of `wall_s`, what the ranks themselves took
    threads: int
    descriptors: int
    memory_mib: float


def main() -> int:
    """Measure a quarter of the nodes and all of them, and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--gpus", type=int, default=8, help="ranks of each node")
    parser.add_argument("--steps", type=int, default=20, help="lines of each rank's log")
    parser.add_argument("--step", type=float, default=1.0, help="seconds between them")
    parser.add_argument("--all-ranks", action="store_true", help="follow every line, as below 513 ranks")
    asked = parser.parse_args()
    few = max(1, asked.nodes // 4)
    costs: dict[int, float] = {}
    threads = descriptors = 0.0
    for nodes in (few, asked.nodes):
        story = Story(nodes, asked.steps, asked.step, failing_rank=nodes * asked.gpus - 1)
        with tempfile.TemporaryDirectory() as folder, state_in(Path(folder)):
            done = replay(story, asked.gpus, Path(folder), all_ranks=asked.all_ranks)
        costs[nodes] = (done.plan_cpu_s + done.run_cpu_s) / nodes
        threads = done.threads / nodes
        descriptors = done.descriptors / (nodes * (asked.gpus + 1))
        late_s = done.wall_s - done.story_s
        print(
            f"{nodes} nodes, {nodes * asked.gpus} ranks: CPU {done.plan_cpu_s:.1f} s for the plan,"
            f" {done.run_cpu_s:.1f} s for the run ({1000 * costs[nodes]:.1f} ms for each node in all);"
            f" start and stop {late_s:.1f} s; {done.threads} threads, {done.descriptors} descriptors,"
            f" {done.memory_mib:.0f} MiB: {done.outcome.verdict}, {done.outcome.why}"
        )
    return tell(
        [
            Target(
                f"CPU for each node: {asked.nodes} to {few} nodes", costs[asked.nodes] / costs[few], _LINEAR
            ),
            Target("threads for each node", threads, 1.1),
            Target("descriptors for each log", descriptors, 1.2),
        ]
    )


def replay(story: Story, gpus: int, folder: Path, *, all_ranks: bool = False) -> Measured:
    """Carry a launch out on replayed hosts; its logs go to `folder`."""
    launch = checked_launch(story, gpus, folder, all_ranks=all_ranks)
    began = time.process_time()
    launch.plan()
    planned = time.process_time()
    seen = _Peak()
    screen = Screen(io.StringIO())
    started = time.monotonic()
    with seen.watched():
        outcome = launch_and_follow(launch, screen)
    return Measured(
        outcome=outcome,
        plan_cpu_s=planned - began,
        run_cpu_s=time.process_time() - planned,
        wall_s=time.monotonic() - started,
        story_s=(story.steps + 1) * story.step_s,
        threads=seen.threads,
        descriptors=seen.descriptors,
        memory_mib=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


def checked_launch(story: Story, gpus: int, folder: Path, *, all_ranks: bool = False) -> CheckedLaunch:
    """Return a launch on recorded hosts whose preflight is over."""
    recorded = Recorded()
    names = [f"node-{number:04}" for number in range(story.nodes)]
    facts = {
        name: decode_document(name, recorded.of(name, number), name) for number, name in enumerate(names)
    }
    entries = tuple(HostEntry(name, gpus=gpus) for name in names)
    job = Job(script="train.py", engine=None, workdir="/work", gpus=gpus)
    result = evaluate_facts(entries, GatherResult(facts, {}), job)
    fleet = ReplayedFleet(story)
    request = LaunchRequest(
        entries=entries,
        job=result.job,
        connections=ConnectionPool(fleet.open),
        follow=FollowOptions(logs=folder / "logs", all_ranks=all_ranks),
    )
    return CheckedLaunch(request, result, None)


@contextlib.contextmanager
def state_in(folder: Path) -> Iterator[None]:
    """Keep records of launches in `folder` meanwhile, not in the user's state directory."""
    before = os.environ.get("XDG_STATE_HOME")
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    try:
        yield
    finally:
        if before is None:
            del os.environ["XDG_STATE_HOME"]
        else:
            os.environ["XDG_STATE_HOME"] = before


class _Peak:
    """The most threads and descriptors of this process, looked at five times a second."""

    def __init__(self) -> None:
        self.threads = self.descriptors = 0

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        over = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(over.wait,), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()

    def _watch(self, is_over: Callable[[float], bool]) -> None:
        while not is_over(0.2):
            self.threads = max(self.threads, threading.active_count())
            with contextlib.suppress(OSError):
                self.descriptors = max(self.descriptors, sum(1 for _ in Path("/proc/self/fd").iterdir()))


if __name__ == "__main__":
    sys.exit(main())
