"""Shards as their client sees them: started, asked, their answers merged as they come."""

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, BinaryIO, TypeAlias, cast

from launcher.config.inventory import HostEntry
from launcher.errors import GpulaunchError, ShardEnded
from launcher.remote.agent import AgentRequest, GatherResult, decode_document, merge_results
from launcher.remote.earlier_facts import EarlierOf
from launcher.remote.reachability import ProbeTargets
from launcher.remote.shards import frames
from launcher.remote.shards.count import SHARD_WIDTH
from launcher.remote.shards.terminal_questions import ShardAccess
from launcher.transports.base import Closing
from preflight.facts.host import HostFacts, Reach

_BACKLOG = 64  # answers of each shard that may wait to be decoded before the shard waits too
_END_S = 5.0

# The modules are found where this process found them, whatever the working directory and PYTHONPATH hold:
# -I keeps both out of the first import, too, and `sys` is built in.
_BOOT = (
    "import sys; sys.path[:] = sys.argv[1:]; from launcher.remote.shards.worker import main; sys.exit(main())"
)
_TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))  # noqa: PTH100, PTH120

OnAnswer: TypeAlias = "Callable[[HostEntry, HostFacts | GpulaunchError, float | None], None]"
"""Takes what came of a host, and the Unix time at which its answer had arrived."""


class Shards(Closing):
    """The processes, started at once; closing ends them."""

    def __init__(self, access: ShardAccess, count: int) -> None:
        self._access = access
        self._frames: queue.Queue[tuple[int, Any]] = queue.Queue(_BACKLOG * count)
        self._processes = [_start() for _ in range(count)]
        self._writers = [frames.FrameWriter(cast("BinaryIO", each.stdin)) for each in self._processes]

    def gather(
        self,
        entries: Sequence[HostEntry],
        request_for: Callable[[HostEntry], AgentRequest],
        *,
        targets: ProbeTargets | None,
        on_answer: OnAnswer,
        earlier: EarlierOf | None = None,
    ) -> tuple[GatherResult, tuple[Reach, ...]]:
        """Ask the hosts, once. Return what came of them, and whom they reached, both in their order.

        Hosts that a shard has not answered for when it ends are errors of their own: ShardEnded.
        """
        count, access = len(self._processes), self._access
        width = SHARD_WIDTH if access.width is None else max(1, access.width // count)
        shares = [range(first, len(entries), count) for first in range(count)]
        for index, share in enumerate(shares):
            hosts = tuple((number, entries[number], request_for(entries[number])) for number in share)
            new_keys, can_ask = access.accept_new_host_keys, access.person.can_ask
            self._send(index, frames.ShardRequest(hosts, access.inventory, width, new_keys, can_ask, targets))
            threading.Thread(target=self._read, args=(index,), daemon=True).start()
        merger = _Merger(entries, on_answer, earlier)
        for index, frame in self._all_frames():
            if isinstance(frame, frames.HostAnswer):
                merger.add_answer(frame)
            elif isinstance(frame, frames.HostFailure):
                merger.add_error(frame.number, frame.error)
            elif isinstance(frame, frames.Question):
                text = access.person.ask(index, frame.lines, frame.question, secret=frame.secret)
                self._send(index, frames.QuestionAnswer(text))
            else:
                self._conclude(index, frame, merger, shares[index])
        return merger.result()

    def _conclude(
        self, index: int, last: frames.ShardFinished | None, merger: "_Merger", share: Sequence[int]
    ) -> None:
        """Name the hosts that a shard has left open. Raises RuntimeError for a bug in it."""
        if last is not None and last.bug:
            raise RuntimeError(f"a shard failed:\n{last.bug}")
        reason = "" if last is not None else self._exit_reason(index)
        for number in share:
            if number not in merger.results:
                entry = merger.entries[number]
                merger.add_error(
                    number, ShardEnded(entry.name, f"not known: {reason or 'its shard left it out'}")
                )

    def _all_frames(self) -> Iterator[tuple[int, Any]]:
        """Yield the frames of all shards until each has sent its last."""
        running = len(self._processes)
        while running:
            index, frame = self._frames.get()
            running -= frame is None or isinstance(frame, frames.ShardFinished)
            yield index, frame

    def _read(self, index: int) -> None:
        stdout = cast("BinaryIO", self._processes[index].stdout)
        frame: Any = ()
        while frame is not None and not isinstance(frame, frames.ShardFinished):
            try:
                frame = frames.read_frame(stdout)
            except Exception:  # noqa: BLE001 - half a frame: the shard has ended
                frame = None
            self._frames.put((index, frame))

    def _send(self, index: int, frame: frames.ShardRequest | frames.QuestionAnswer) -> None:
        with suppress(OSError):  # it has ended: its last frame says so
            self._writers[index].write(frame)

    def _exit_reason(self, index: int) -> str:
        try:
            status: int | None = self._processes[index].wait(_END_S)
        except subprocess.TimeoutExpired:
            status = None
        how = "closed its pipe" if status is None else f"ended with exit code {status}"
        if status is not None and status < 0:
            how = f"was killed by signal {-status}"
        return f"the local process that was to ask it {how}"

    def close(self) -> None:
        """End what still runs; idempotent."""
        for process in self._processes:
            process.kill()
        for process in self._processes:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with suppress(OSError):
                    cast("BinaryIO", pipe).close()


class _Merger:
    """What has come of each host so far."""

    def __init__(self, entries: Sequence[HostEntry], on_answer: OnAnswer, earlier: EarlierOf | None) -> None:
        self.entries = entries
        self.results: dict[int, HostFacts | GpulaunchError] = {}
        self._reach: dict[int, tuple[Reach, ...]] = {}
        self._on_answer = on_answer
        self._earlier = earlier
        self._logins: dict[str, str] = {}

    def add_answer(self, answer: frames.HostAnswer) -> None:
        """Take what a host said, or the error that it does not hold facts."""
        entry = self.entries[answer.number]
        known = None if self._earlier is None else self._earlier(entry)
        try:
            facts: HostFacts | GpulaunchError
            facts = decode_document(entry.name, answer.document, entry.name, known)
        except GpulaunchError as error:
            facts = error.without_frames()
        self.results[answer.number] = facts
        self._reach[answer.number] = answer.reach
        if answer.login:
            self._logins[entry.name] = answer.login
        self._on_answer(entry, facts, answer.answered_unix)

    def add_error(self, number: int, error: GpulaunchError) -> None:
        """Take the reason why a host gave no answer."""
        self.results[number] = error
        self._on_answer(self.entries[number], error, None)

    def result(self) -> tuple[GatherResult, tuple[Reach, ...]]:
        """Return all in the hosts' order. Raises an error that belongs to none of the hosts."""
        order = range(len(self.entries))
        results = [self.results[number] for number in order]
        merged = replace(merge_results(self.entries, results), logins=self._logins)
        return merged, tuple(each for number in order for each in self._reach.get(number, ()))


def _start() -> subprocess.Popen[bytes]:
    path = [_TOP, *(each for each in sys.path if each != _TOP)]
    return subprocess.Popen(
        [sys.executable, "-I", "-c", _BOOT, *path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
