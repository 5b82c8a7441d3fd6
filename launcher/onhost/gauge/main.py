"""Program that measures a run's resource usage on its host while it runs: a child of the supervisor.

    gauge.py RUN_DIR

spec.json in RUN_DIR lists the GPUs and the interval (`usage_every_s`), events.jsonl the ranks' processes.
Each sample is one line of usage.jsonl, in one write:

    {"schema": "gpulaunch.usage/1", "event": "usage", "t": wall clock, "m": monotonic clock,
     "gpus": {UUID: {"busy": percent, "memory_busy": percent, "memory_mib": n, "memory_free_mib": n,
                     "power_w": x, "power_limit_w": x}},
     "shm_free_mib": of /dev/shm, absent where there is none, or no limit,
     "gpus_missing": why, where GPUs could not be read,
     "ranks": {"0": {"rss_mib": n, "cpu": percent of one core since the last sample}}}

`step` is present where the guard counts a rank's optimizer steps (steps-rank-N, once a second at most). null
marks a value that a GPU does not report, and the CPU use in a rank's first sample. A rank's numbers are sums
over all its descendants (DataLoader workers); pages that those share count for each.

The gauge also reports in events.jsonl for how long the run has been idle on this host, {"event": "idle",
"seconds": n, "timeout_s": hang_timeout_s or null}: after ten minutes and then at growing intervals, and from
`hang_timeout_s` on every 15 s; then {"event": "active"}. liveness.py defines activity.

It is a process of its own, because a hung driver may block its callers forever: one thread queries NVML,
which is abandoned when it gets no answer, and the supervisor waits for none of this. It calls NVML
itself, by a few functions of its stable ABI: the training environment needs no pynvml. It exits with stdin.
Standard library, Python >= 3.9.
"""

import contextlib
import json
import os
import select
import sys
import time
from typing import Any

from ..event_file import EVENTS, MALFORMED, EventReader, encode_event, read_step
from ..nvml import GpuSampler
from .liveness import QUIET_S, IdleTimer, explain_activity
from .ranks import RankSampler

USAGE = "usage.jsonl"
SCHEMA = "gpulaunch.usage/1"
EVERY_S = 5.0
FIRST_SAMPLE_S = 0.5  # until there is a rank
NVML_TIMEOUT_S = 30.0  # after this NVML counts as hung


class StepReader:
    """The last step of each rank; `drawn` is by GPU: the mean power while its rank made steps."""

    def __init__(self, run_dir: str, gpu_of: dict[str, str]) -> None:
        self._run_dir = run_dir
        self._gpu_of = gpu_of
        self._steps: dict[str, int] = {}
        self.drawn: dict[str, float] = {}

    def see(self, line: dict[str, Any]) -> bool:
        """Add each rank's step to a sample; return whether any rank made one since the last sample."""
        has_stepped = False
        for rank, used in line["ranks"].items():
            step = read_step(self._run_dir, rank)
            if step is None:
                continue
            used["step"] = step
            if step != self._steps.get(rank):
                self._steps[rank], has_stepped = step, True
                uuid = self._gpu_of.get(rank, "")
                if power := (line["gpus"].get(uuid) or {}).get("power_w"):
                    self.drawn[uuid] = power + 0.9 * (self.drawn.get(uuid, power) - power)
        return has_stepped


class Gauge:
    """Sampler of the run: reads events, takes samples, writes them to usage.jsonl."""

    def __init__(self, run_dir: str) -> None:
        with open(os.path.join(run_dir, "spec.json"), "rb") as file:
            spec = json.loads(file.read())
        self.every_s = float(spec.get("usage_every_s") or EVERY_S)
        # Held open, so that a deleted run directory changes nothing.
        events = os.path.join(run_dir, EVENTS)
        self.events = EventReader(os.open(events, os.O_RDONLY | os.O_CLOEXEC))
        self.events_out = os.open(events, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self.usage = os.open(os.path.join(run_dir, USAGE), flags, 0o600)
        self.run_dir = run_dir
        self.torn = b""  # rest of a line that a full disk did not take
        self.ranks = RankSampler()
        uuids = [str(uuid) for uuid in spec.get("gpus") or ()]
        self.gpus = GpuSampler(uuids)
        self.gpu_of = {str(int(spec.get("first_rank") or 0) + n): uuid for n, uuid in enumerate(uuids)}
        self.steps = StepReader(run_dir, self.gpu_of)
        self.reported_silence = False
        self.idle = IdleTimer(spec.get("hang_timeout_s"), float(spec.get("quiet_after_s") or QUIET_S))
        self.sizes: dict[str, int] = {}
        self.activity = False  # whether a rank has written output since the last sample

    def run(self) -> None:
        """Sample until stdin ends."""
        self.gpus.start()
        next_at = time.monotonic()
        while not select.select([0], [], [], max(0.0, next_at - time.monotonic()))[0]:
            self._read_events()
            if self.ranks.families:
                self._sample()
            pause = self.every_s if self.ranks.families else min(FIRST_SAMPLE_S, self.every_s)
            next_at = max(next_at + pause, time.monotonic())

    def _read_events(self) -> None:
        for event in self.events.read_new():
            self.activity = self.activity or "rank" in event
            if event.get("event") == "rank":
                with contextlib.suppress(*MALFORMED):
                    self.ranks.families.add(int(event["rank"]), int(event["pid"]), int(event["ticks"]))

    def _sample(self) -> None:
        gpus, missing = self.gpus.sample()
        line: dict[str, Any] = {"schema": SCHEMA, "event": "usage", "t": time.time(), "m": time.monotonic()}
        line["gpus"] = gpus
        with contextlib.suppress(OSError):
            shm = os.statvfs("/dev/shm")  # noqa: S108 - where torch and NCCL put theirs
            if shm.f_blocks:  # a tmpfs without a limit reports zeros
                line["shm_free_mib"] = shm.f_bavail * shm.f_frsize >> 20
        if missing:
            line["gpus_missing"] = missing
        line["ranks"] = self.ranks.sample()
        self._judge(line, life=self.steps.see(line))
        self._write(json.dumps(line).encode() + b"\n")
        if self.gpus.silent_s() > NVML_TIMEOUT_S and not self.reported_silence:
            self.reported_silence = True
            error = "%s; the driver may hang" % missing
            self._report("internal_error", what="the attempt to read the GPUs", error=error)

    def _judge(self, line: dict[str, Any], *, life: bool) -> None:
        """Report how long the run has been idle; a run without a live rank is not judged."""
        life = self._output_grew() or self.activity or life or not line["ranks"]
        self.activity = False
        life = life or bool(explain_activity(line, self.ranks.activity, self.gpu_of, self.steps.drawn))
        if not life:  # the activity may be that of a new worker
            self.ranks.families.look_for_new()
        event = self.idle.update(time.monotonic(), life=life, longest_s=3 * self.every_s)
        if event is not None:
            self._report(event.pop("event"), **event)

    def _output_grew(self) -> bool:
        before, self.sizes = self.sizes, {}
        with contextlib.suppress(OSError), os.scandir(self.run_dir) as entries:
            for entry in entries:
                ours = entry.name.startswith(("supervisor", "stacks-"))
                if entry.name.endswith(".log") and not ours:
                    self.sizes[entry.name] = entry.stat(follow_symlinks=False).st_size
        return self.sizes != before

    def _write(self, data: bytes) -> None:
        """Add a line; on a full disk it is lost, and a partial one is ended before the next one."""
        with contextlib.suppress(OSError):
            if self.torn:
                self.torn = self.torn[os.write(self.usage, self.torn) :]
            written = os.write(self.usage, data)
            self.torn = b"" if written == len(data) else b"\n"

    def _report(self, name: str, **fields: object) -> None:
        with contextlib.suppress(OSError):
            os.write(self.events_out, encode_event(name, fields))


if __name__ == "__main__":
    with contextlib.suppress(OSError):
        os.nice(5)
    Gauge(sys.argv[1]).run()
    os._exit(0)  # do not wait for a thread that hangs in the driver
