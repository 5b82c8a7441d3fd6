"""Streamed program: the numbers of a host's GPUs and the progress of runs, until stdin ends.

stdin: lines of JSON, each of which replaces the one before:

    {"every_s": seconds between samples, "gpus": [UUID, ...],
     "runs": [{"run_id": id, "run_dir": path, "rank": the rank whose log is wanted, or null}, ...]}

Answers (answer.py), one for each sample in which anything changed and one every HEARTBEAT_S otherwise:

    {"gpus": {UUID: [percent busy, MiB used, W, W allowed, Celsius, bits of the throttle reasons]},
     "missing": reason why GPUs could not be read, "watch": checksum, "request": lines read so far,
     "runs": {id: {"tail": the end of the rank's log, "age_s": since it grew, "step": as the guard counts}}}

`gpus` and `runs` hold what has changed since the answer before. null marks a value that a GPU does not
report, and the step of a run that the guard does not count. `watch` changes when processes come to a GPU or
leave it, are adopted, die or are stopped, and when the state of a run changes: then it is time to inspect the
host anew. Standard library, Python >= 3.9.
"""

import contextlib
import json
import os
import select
import stat
import time
import zlib
from typing import Any

from .answer import print_answer
from .event_file import read_step
from .nvml import GpuSampler, Nvml
from .procfs import read_stat

HEARTBEAT_S = 5.0
TAIL = 4096  # bytes of a log
MAX_RUNS = 64


def read_gpu(nvml: Nvml, handle: Any) -> dict[str, Any]:
    """Return one GPU's numbers, and the processes on it."""
    found: dict[str, Any] = dict(nvml.look(handle))
    found["celsius"] = nvml.celsius(handle)
    found["throttle"] = nvml.throttle_bits(handle)
    found["pids"] = nvml.compute_pids(handle)
    return found


class Monitor:
    """Sampler that answers with what has changed."""

    def __init__(self) -> None:
        self.every_s = 2.0
        self.runs: list[dict[str, Any]] = []
        self.sampler = GpuSampler([], read_gpu)
        self.rest = b""
        self.sent: dict[str, Any] = {}  # GPUs as they were reported
        self.logs: dict[str, tuple[int, float, int | None]] = {}  # runs as they were reported
        self.reported: tuple[str, int, int] = ("", 0, 0)
        self.said_at = 0.0
        self.requests = 0

    def run(self) -> None:
        """Sample until stdin ends."""
        self.sampler.start()
        next_at = time.monotonic()
        while True:
            ready = select.select([0], [], [], max(0.0, next_at - time.monotonic()))[0]
            if ready:
                data = os.read(0, 65536)
                if not data:
                    return
                self.read_requests(data)
                continue
            next_at = max(next_at + self.every_s, time.monotonic())
            self.sample()

    def read_requests(self, data: bytes) -> None:
        """Take what the client wants from now on."""
        *lines, self.rest = (self.rest + data).split(b"\n")
        for line in lines:
            request = json.loads(line)
            self.every_s = max(0.2, float(request["every_s"]))
            self.sampler.uuids = [str(uuid) for uuid in request["gpus"]]
            self.runs = list(request["runs"])[:MAX_RUNS]
            self.sent, self.logs = {}, {}
            self.requests += 1

    def sample(self) -> None:
        """Answer if anything has changed, or the last answer is long ago."""
        gpus, missing = self.sampler.sample()
        rows = {uuid: build_row(gpu) for uuid, gpu in gpus.items()}
        changed = {uuid: row for uuid, row in rows.items() if self.sent.get(uuid) != row}
        grown = {run["run_id"]: grew for run in self.runs if (grew := self.progress(run))}
        watch = calculate_checksum(gpus, self.runs)
        now = time.monotonic()
        state = (missing, watch, self.requests)
        quiet = not changed and not grown and state == self.reported
        if quiet and now - self.said_at < HEARTBEAT_S:
            return
        self.sent.update(changed)
        self.reported, self.said_at = state, now
        answer = {"gpus": changed, "missing": missing, "watch": watch, "request": self.requests}
        print_answer({**answer, "runs": grown})

    def progress(self, run: dict[str, Any]) -> dict[str, Any] | None:
        """Return the end of a run's log and its step, None when they are as they were."""
        if run["rank"] is None:
            return None
        path = os.path.join(run["run_dir"], "rank-%d.log" % run["rank"])
        step = read_step(run["run_dir"], run["rank"])
        try:
            fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return None
        try:
            status = os.fstat(fd)
            state = (status.st_size, status.st_mtime, step)
            if not stat.S_ISREG(status.st_mode) or self.logs.get(run["run_id"]) == state:
                return None
            self.logs[run["run_id"]] = state
            tail = os.pread(fd, TAIL, max(0, status.st_size - TAIL))
        except OSError:
            return None
        finally:
            os.close(fd)
        age_s = max(0.0, time.time() - status.st_mtime)
        return {"tail": tail.decode("utf-8", "replace"), "age_s": round(age_s, 1), "step": step}


def build_row(gpu: dict[str, Any]) -> list[float | None]:
    """Return a GPU's numbers in the order of the answer; watts without fractions, which always change."""
    watts = (None if power is None else round(power) for power in (gpu["power_w"], gpu["power_limit_w"]))
    return [gpu["busy"], gpu["memory_mib"], *watts, gpu["celsius"], gpu["throttle"]]


def calculate_checksum(gpus: dict[str, Any], runs: list[dict[str, Any]]) -> int:
    """Return a number that changes with the processes on the GPUs and the state of the runs."""
    seen: list[object] = []
    for uuid in sorted(gpus):
        pids = gpus[uuid]["pids"]
        seen.append((uuid, None if pids is None else [identify_process(pid) for pid in sorted(pids)]))
    for run in runs:
        try:
            seen.append(os.stat(os.path.join(run["run_dir"], "state.json")).st_mtime_ns)
        except OSError:
            seen.append(None)
    return zlib.crc32(repr(seen).encode())


def identify_process(pid: int) -> tuple[object, ...]:
    """Return who a process is, whose child, and whether it is dead or stopped."""
    process = read_stat(pid)
    if process is None:
        return (pid,)
    return (pid, process.start_ticks, process.ppid, process.state if process.state in "ZXTt" else "")


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        Monitor().run()
    os._exit(0)  # do not wait for a thread that hangs in the driver
