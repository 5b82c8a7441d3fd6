"""Measures what a run uses on its host, for as long as it runs: a child of the supervisor.

    gauge.py RUN_DIR

spec.json there says which GPUs and how often (`usage_every_s`), events.jsonl which processes are ranks. Each
sample is one line of usage.jsonl, in one write:

    {"event": "usage", "t": wall clock, "m": monotonic clock,
     "gpus": {UUID: {"busy": percent, "memory_busy": percent, "memory_mib": n, "power_w": x,
                     "power_limit_w": x}},
     "gpus_missing": why, where GPUs could not be read,
     "ranks": {"0": {"rss_mib": n, "cpu": percent of one core since the last sample}}}

`step` is there where the guard counts a rank's optimizer steps (steps-rank-N, once a second at most).
null is what a GPU does not tell, and the CPU use in a rank's first sample. A rank's numbers are summed over
all that descends from it (DataLoader workers); pages that those share count for each.

It also says in events.jsonl for how long nothing has shown life here, {"event": "quiet", "seconds": n,
"timeout_s": hang_timeout_s or null}: after ten minutes and then more and more seldom, and from
`hang_timeout_s` on every 15 s; then {"event": "active"}. What shows life: see `signs`.

It is a process of its own, because a driver that hangs may take with it whoever asks: NVML is asked in one
thread, which is given up when it stays silent, and the supervisor waits for none of this. It calls NVML
itself, by a few functions of its stable ABI: the training environment needs no pynvml. It ends with stdin.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import sys
import threading
import time
from typing import Any, NamedTuple, Optional

USAGE = "usage.jsonl"
EVENTS = "events.jsonl"
EVERY_S = 5.0
FIRST_LOOK_S = 0.5  # until there is a rank
ANSWER_S = 1.0  # how long a sample waits for NVML
SILENT_S = 30.0  # after this NVML counts as hung
RETRY_S = 60.0  # a driver that refuses may be loaded or repaired later
SCAN_SHARE = 0.002  # of a core, for looking for new processes: a crowded host is looked through more seldom
QUIET_S = 600.0
REPEAT_S = 15.0
IDLE_BUSY = 5  # percent: below, a GPU does nothing of note
SPIN_BUSY = 95  # percent: a kernel that waits for other ranks is there all the time,
SPIN_MEMORY_BUSY = 2  # percent: hardly touches memory,
SPIN_OF_DRAWN = 0.6  # and draws much less power than between optimizer steps,
SPIN_OF_LIMIT = 0.45  # or than the GPU may
CPU_WORKS = 20.0  # percent of a core, of a rank with its workers; who waits in gloo or in a lock uses none
IO_WORKS = 1 << 20  # bytes in one sample
TICKS = os.sysconf("SC_CLK_TCK")
PAGE = os.sysconf("SC_PAGE_SIZE")

LIBRARY = "libnvidia-ml.so.1"
FOLDERS = (
    "/usr/lib/wsl/lib/",
    "/usr/local/nvidia/lib64/",
    "/usr/lib64-nvidia/",
    "/run/opengl-driver/lib/",
)


# --- GPUs -------------------------------------------------------------------------------


class NvmlError(Exception):
    """NVML refused; the text says what and why."""


class Nvml:
    """The calls of NVML that are needed here. Raises NvmlError or OSError where there is none."""

    def __init__(self) -> None:
        import ctypes

        self.c = ctypes
        self.library = self._load()
        self.library.nvmlErrorString.restype = ctypes.c_char_p
        self.call("nvmlInit_v2")

    def _load(self) -> Any:
        refused: Optional[OSError] = None
        for folder in ("", *FOLDERS):
            try:
                return self.c.CDLL(folder + LIBRARY)
            except OSError as error:
                refused = refused or error
        raise NvmlError("NVML cannot be loaded: %s" % refused)

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function; raise NvmlError when it does not answer 0."""
        function = getattr(self.library, name, None)
        if function is None:
            raise NvmlError("%s is not in this driver's library" % name)
        code = function(*arguments)
        if code:
            words = self.library.nvmlErrorString(code) or b"?"
            raise NvmlError("%s: %s" % (name, words.decode("utf-8", "replace")))

    def handle(self, uuid: str) -> Any:
        """Return the handle of a GPU or MIG device."""
        found = self.c.c_void_p()
        self.call("nvmlDeviceGetHandleByUUID", uuid.encode(), self.c.byref(found))
        return found

    def numbers(self, function: str, handle: Any, types: str) -> list[int]:
        """Return what a function puts into a struct of unsigned 32 (I) and 64 bit (Q) fields."""
        kinds = {"I": self.c.c_uint, "Q": self.c.c_ulonglong}
        fields = [("f%d" % at, kinds[letter]) for at, letter in enumerate(types)]
        struct = type("Answer", (self.c.Structure,), {"_fields_": fields})()
        if types[0] == "I" and "Q" in types:  # a versioned struct: its size, and 2
            struct.f0 = self.c.sizeof(struct) | 2 << 24
        self.call(function, handle, self.c.byref(struct))
        return [int(getattr(struct, name)) for name, _ in fields]

    def look(self, handle: Any) -> dict[str, Optional[float]]:
        """Return one GPU's numbers; None for those that it does not tell."""
        used = self._or_none("nvmlDeviceGetMemoryInfo_v2", handle, "IQQQQ")
        if used is None:
            used = self._or_none("nvmlDeviceGetMemoryInfo", handle, "QQQ")
        busy = self._or_none("nvmlDeviceGetUtilizationRates", handle, "II")
        power = self._or_none("nvmlDeviceGetPowerUsage", handle, "I")
        limit = self._or_none("nvmlDeviceGetEnforcedPowerLimit", handle, "I")
        return {
            "busy": busy[0] if busy else None,
            "memory_busy": busy[1] if busy else None,
            "memory_mib": used[-1] >> 20 if used else None,
            "power_w": power[0] / 1000.0 if power else None,
            "power_limit_w": limit[0] / 1000.0 if limit else None,
        }

    def _or_none(self, function: str, handle: Any, types: str) -> Optional[list[int]]:
        try:
            return self.numbers(function, handle, types)
        except NvmlError:
            return None


class Gpus(threading.Thread):
    """Asks NVML whenever it is told to; what it never comes back from hangs nothing else."""

    def __init__(self, uuids: list[str]) -> None:
        super().__init__(daemon=True)
        self.uuids = uuids
        self.wanted = threading.Event()
        self.answered = threading.Event()
        self.asked_at = 0.0
        self.said: tuple[dict[str, Any], str] = ({}, "NVML has not answered yet")

    def sample(self) -> tuple[dict[str, Any], str]:
        """Return ({UUID: numbers}, why there are none), after a moment at most."""
        if not self.uuids:
            return {}, ""
        if not self.wanted.is_set():
            self.asked_at = time.monotonic()
            self.answered.clear()
            self.wanted.set()
        if self.answered.wait(ANSWER_S):
            return self.said
        return {}, "NVML has not answered for %.0f s" % self.silent_s()

    def silent_s(self) -> float:
        """Return for how long a question has been open."""
        waiting = self.uuids and not self.answered.is_set() and self.asked_at
        return time.monotonic() - self.asked_at if waiting else 0.0

    def run(self) -> None:
        """Answer for ever."""
        nvml: Optional[Nvml] = None
        again_at = 0.0
        while True:
            self.wanted.wait()
            if nvml is None and time.monotonic() >= again_at:
                try:
                    nvml = Nvml()
                except Exception as error:
                    self.said = ({}, str(error))
                    again_at = time.monotonic() + RETRY_S
            if nvml is not None:
                self.said = self._look(nvml)
            self.wanted.clear()
            self.answered.set()

    def _look(self, nvml: Nvml) -> tuple[dict[str, Any], str]:
        found: dict[str, Any] = {}
        missing = ""
        for uuid in self.uuids:  # by UUID each time: a GPU that was reset has another handle
            try:
                found[uuid] = nvml.look(nvml.handle(uuid))
            except Exception as error:
                missing = missing or "%s: %s" % (uuid, error)
        return found, missing


# --- processes --------------------------------------------------------------------------


class Process(NamedTuple):
    """What /proc/PID/stat says; times in clock ticks."""

    state: str
    ppid: int
    cpu: int
    started: int
    rss: int  # pages


def read_process(pid: int) -> Optional[Process]:
    """Return what the kernel says of a process, None when it is gone."""
    try:
        with open("/proc/%d/stat" % pid, "rb") as file:
            field = file.read().rpartition(b")")[2].split()
        return Process(
            field[0].decode(),
            int(field[1]),
            int(field[11]) + int(field[12]),
            int(field[19]),
            int(field[21]),
        )
    except (OSError, IndexError, ValueError):
        return None


class Ranks:
    """The ranks that live, and what each uses with all that descends from it."""

    def __init__(self) -> None:
        self.ranks: dict[int, tuple[int, int]] = {}  # by rank: pid, start ticks
        self.family: dict[int, int] = {}  # by pid: rank
        self.before: dict[int, tuple[int, int]] = {}  # by pid: start ticks, CPU ticks
        self.seen: set[int] = set()  # ranks that were in a sample
        self.moved: dict[int, int] = {}  # by pid: bytes read and written
        self.io: dict[str, int] = {}  # by rank: bytes since the last sample
        self.queued: dict[int, int] = {}  # by pid: ns in which it could have run and got no CPU
        self.starved: dict[str, float] = {}  # by rank: percent of the time since the last sample
        self.last = 0.0
        self.next_scan = 0.0

    def add(self, rank: int, pid: int, started: int) -> None:
        """Watch a rank that has introduced itself."""
        self.ranks[rank] = (pid, started)
        self.next_scan = 0.0

    def sample(self) -> dict[str, dict[str, Optional[float]]]:
        """Return {rank: numbers} of every living rank."""
        now = time.monotonic()
        table = self._table(now)
        elapsed, self.last = now - self.last, now
        used = {rank: [0, 0] for rank, who in self.ranks.items() if is_alive(table.get(who[0]), who[1])}
        cpu_before, self.before = self.before, {}
        uptime_ticks = time.clock_gettime(time.CLOCK_BOOTTIME) * TICKS
        for pid, rank in self.family.items():
            process = table.get(pid)
            if process is None or rank not in used:
                continue
            self.before[pid] = (process.started, process.cpu)
            used[rank][0] += process.rss
            known = cpu_before.get(pid)
            if known is not None and known[0] == process.started:
                used[rank][1] += process.cpu - known[1]
            elif process.started > uptime_ticks - elapsed * TICKS:
                used[rank][1] += process.cpu  # born since
        found: dict[str, dict[str, Optional[float]]] = {}
        for rank, (pages, ticks) in sorted(used.items()):
            cpu = round(100.0 * ticks / TICKS / elapsed, 1) if rank in self.seen else None
            found[str(rank)] = {"rss_mib": pages * PAGE >> 20, "cpu": cpu}
        self.seen = set(used)
        self._see_more(used, elapsed)
        return found

    def _see_more(self, used: dict[int, list[int]], elapsed: float) -> None:
        """Look for what else shows that somebody works: files moved, and waiting for a CPU."""
        moved_before, self.moved = self.moved, {}
        queued_before, self.queued = self.queued, {}
        self.io = {str(rank): 0 for rank in used}
        self.starved = {str(rank): 0.0 for rank in used}
        for pid in self.before:
            rank = str(self.family[pid])
            moved, queued = bytes_moved(pid), ns_queued(pid)
            self.moved[pid], self.queued[pid] = moved, queued
            self.io[rank] += max(0, moved - moved_before.get(pid, moved))
            waited = max(0, queued - queued_before.get(pid, queued))
            self.starved[rank] += 100.0 * waited / 1e9 / elapsed

    def _table(self, now: float) -> dict[int, Process]:
        """Return the processes of all ranks; all of /proc is looked through as often as that is cheap."""
        began = time.thread_time()  # the CPU that it takes: beside others it takes much longer
        if now < self.next_scan:
            pids: Any = list(self.family)
        else:
            pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
        read = {pid: read_process(pid) for pid in pids}
        table = {pid: process for pid, process in read.items() if process is not None}
        if now >= self.next_scan:
            self._find_family(table)
            self.next_scan = now + (time.thread_time() - began) / SCAN_SHARE
        return {pid: process for pid, process in table.items() if pid in self.family}

    def _find_family(self, table: dict[int, Process]) -> None:
        children: dict[int, list[int]] = {}
        for pid, process in table.items():
            children.setdefault(process.ppid, []).append(pid)
        self.family = {}
        for rank, (pid, started) in self.ranks.items():
            todo = [pid] if is_alive(table.get(pid), started) else []
            while todo:
                member = todo.pop()
                if member not in self.family:
                    self.family[member] = rank
                    todo.extend(children.get(member, ()))


def is_alive(process: Optional[Process], started: int) -> bool:
    """Return whether it is this very process, and no zombie."""
    return process is not None and process.started == started and process.state not in "ZX"


def bytes_moved(pid: int) -> int:
    """Return how much a process has read and written by now, 0 where that cannot be seen."""
    try:
        with open("/proc/%d/io" % pid, "rb") as file:
            words = file.read().split()
        return int(words[1]) + int(words[3])  # rchar, wchar
    except (OSError, IndexError, ValueError):
        return 0


def ns_queued(pid: int) -> int:
    """Return for how long the main thread of a process has waited for a CPU, 0 where that cannot be seen."""
    try:
        with open("/proc/%d/schedstat" % pid, "rb") as file:
            return int(file.read().split()[1])
    except (OSError, IndexError, ValueError):
        return 0


# --- life -------------------------------------------------------------------------------


def is_spinning(gpu: dict[str, Any], drawn_w: Optional[float]) -> bool:
    """Return whether a GPU only waits: a collective whose peers do not come keeps it 100 % busy.

    Without its power this cannot be told, and the GPU counts as working.
    """
    busy, memory, power = gpu["busy"], gpu["memory_busy"], gpu["power_w"]
    if busy is None or memory is None or power is None or busy < SPIN_BUSY or memory > SPIN_MEMORY_BUSY:
        return False
    little = max(SPIN_OF_DRAWN * (drawn_w or 0.0), SPIN_OF_LIMIT * (gpu.get("power_limit_w") or 0.0))
    return bool(power < little)


def signs(line: dict[str, Any], ranks: Ranks, gpu_of: dict[str, str], drawn: dict[str, float]) -> str:
    """Return what in a sample shows that somebody works, "" when nothing does.

    A GPU does that is busy and does not spin. A rank does that uses or waits for a CPU or moves bytes, unless
    its GPU spins: the thread that waits for that GPU may spin too.
    """
    spinning = set()
    for uuid, gpu in line["gpus"].items():
        if is_spinning(gpu, drawn.get(uuid)):
            spinning.add(uuid)
        elif (gpu["busy"] or 0) >= IDLE_BUSY:
            return "GPU %s works" % uuid
    for rank, used in line["ranks"].items():
        if gpu_of.get(rank) in spinning:
            continue
        if (used["cpu"] or 0) + ranks.starved.get(rank, 0) >= CPU_WORKS:
            return "rank %s uses the CPU" % rank
        if ranks.io.get(rank, 0) >= IO_WORKS:
            return "rank %s reads or writes" % rank
    return ""


class Quiet:
    """For how long nothing has shown life, and when that is worth an event."""

    def __init__(self, timeout_s: Optional[float], warn_s: float) -> None:
        self.timeout_s = timeout_s
        self.warn_s = warn_s
        self.seconds = 0.0
        self.next_s = self._first()
        self.last: Optional[float] = None

    def _first(self) -> float:
        return min(self.warn_s, self.timeout_s or self.warn_s)

    def see(self, now: float, *, life: bool, longest_s: float) -> Optional[dict[str, Any]]:
        """Take one sample; return the event that it is worth, if any.

        Between two samples at most `longest_s` count: a machine that stood still was not quiet.
        """
        passed = min(now - self.last, longest_s) if self.last is not None else 0.0
        self.last = now
        if life:
            told = self.seconds >= self._first()
            self.seconds, self.next_s = 0.0, self._first()
            return {"event": "active"} if told else None
        self.seconds += passed
        if self.seconds < self.next_s:
            return None
        if self.timeout_s and self.seconds >= self.timeout_s:
            self.next_s = self.seconds + REPEAT_S
        else:
            self.next_s = min(2 * self.seconds, self.timeout_s or 2 * self.seconds)
        return {"event": "quiet", "seconds": round(self.seconds, 1), "timeout_s": self.timeout_s}


# --- the run ----------------------------------------------------------------------------


class Gauge:
    """Reads events, takes samples, writes them down."""

    def __init__(self, run_dir: str) -> None:
        with open(os.path.join(run_dir, "spec.json"), "rb") as file:
            spec = json.loads(file.read())
        self.every_s = float(spec.get("usage_every_s") or EVERY_S)
        # Held open, so that a deleted run directory changes nothing.
        events = os.path.join(run_dir, EVENTS)
        self.events_in = os.open(events, os.O_RDONLY | os.O_CLOEXEC)
        self.events_out = os.open(events, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self.usage = os.open(os.path.join(run_dir, USAGE), flags, 0o600)
        self.run_dir = run_dir
        self.rest = b""
        self.torn = b""  # a line's end that a full disk did not take
        self.ranks = Ranks()
        uuids = [str(uuid) for uuid in spec.get("gpus") or ()]
        self.gpus = Gpus(uuids)
        self.gpu_of = {str(int(spec.get("first_rank") or 0) + n): uuid for n, uuid in enumerate(uuids)}
        self.told_silence = False
        self.quiet = Quiet(spec.get("hang_timeout_s"), float(spec.get("quiet_after_s") or QUIET_S))
        self.sizes: dict[str, int] = {}
        self.steps: dict[str, int] = {}
        self.drawn: dict[str, float] = {}  # by GPU: mean power while its rank made steps
        self.heard = False  # whether a rank has said something since the last sample

    def run(self) -> None:
        """Sample until stdin ends."""
        self.gpus.start()
        next_at = time.monotonic()
        while not select.select([0], [], [], max(0.0, next_at - time.monotonic()))[0]:
            self._read_events()
            if self.ranks.ranks:
                self._sample()
            pause = self.every_s if self.ranks.ranks else min(FIRST_LOOK_S, self.every_s)
            next_at = max(next_at + pause, time.monotonic())

    def _read_events(self) -> None:
        while True:
            data = os.read(self.events_in, 65536)
            if not data:
                return
            *lines, self.rest = (self.rest + data).split(b"\n")
            for line in lines:
                with contextlib.suppress(ValueError, KeyError, TypeError, AttributeError):
                    event = json.loads(line)
                    self.heard = self.heard or "rank" in event
                    if event["event"] == "rank":
                        self.ranks.add(int(event["rank"]), int(event["pid"]), int(event["ticks"]))

    def _sample(self) -> None:
        gpus, missing = self.gpus.sample()
        line: dict[str, Any] = {"event": "usage", "t": time.time(), "m": time.monotonic(), "gpus": gpus}
        if missing:
            line["gpus_missing"] = missing
        line["ranks"] = self.ranks.sample()
        stepped = self._see_steps(line)
        self._judge(line, life=bool(stepped))
        self._write(json.dumps(line).encode() + b"\n")
        if self.gpus.silent_s() > SILENT_S and not self.told_silence:
            self.told_silence = True
            error = "%s; the driver may hang" % missing
            self._tell("guard_failed", what="the attempt to read the GPUs", error=error)

    def _see_steps(self, line: dict[str, Any]) -> list[str]:
        """Put each rank's step into the line; return the ranks that have made one since the last."""
        stepped = []
        for rank, used in line["ranks"].items():
            step = read_number(os.path.join(self.run_dir, "steps-rank-%s" % rank))
            if step is None:
                continue
            used["step"] = step
            if step != self.steps.get(rank):
                stepped.append(rank)
            self.steps[rank] = step
        for uuid in (self.gpu_of.get(rank, "") for rank in stepped):
            power = (line["gpus"].get(uuid) or {}).get("power_w")
            if power:
                self.drawn[uuid] = power + 0.9 * (self.drawn.get(uuid, power) - power)
        return stepped

    def _judge(self, line: dict[str, Any], *, life: bool) -> None:
        """Say for how long nothing has shown life; with no rank alive there is nothing to judge."""
        life = self._output_grew() or self.heard or life or not line["ranks"]
        self.heard = False
        life = life or bool(signs(line, self.ranks, self.gpu_of, self.drawn))
        told = self.quiet.see(time.monotonic(), life=life, longest_s=3 * self.every_s)
        if told is not None:
            self._tell(told.pop("event"), **told)

    def _output_grew(self) -> bool:
        before, self.sizes = self.sizes, {}
        with contextlib.suppress(OSError), os.scandir(self.run_dir) as entries:
            for entry in entries:
                ours = entry.name.startswith(("supervisor", "stacks-"))
                if entry.name.endswith(".log") and not ours:
                    self.sizes[entry.name] = entry.stat(follow_symlinks=False).st_size
        return self.sizes != before

    def _write(self, data: bytes) -> None:
        """Add a line; on a full disk it is lost, and what was torn is ended before the next one."""
        with contextlib.suppress(OSError):
            if self.torn:
                self.torn = self.torn[os.write(self.usage, self.torn) :]
            written = os.write(self.usage, data)
            self.torn = b"" if written == len(data) else b"\n"

    def _tell(self, name: str, **fields: object) -> None:
        line = {"event": name, "t": time.time(), "m": time.monotonic(), **fields}
        with contextlib.suppress(OSError):
            os.write(self.events_out, json.dumps(line).encode() + b"\n")


def read_number(path: str) -> Optional[int]:
    """Return the number in a file, None where there is none."""
    try:
        with open(path, "rb") as file:
            return int(file.read(32))
    except (OSError, ValueError):
        return None


if __name__ == "__main__":
    with contextlib.suppress(OSError):
        os.nice(5)
    Gauge(sys.argv[1]).run()
    os._exit(0)  # a thread that hangs in the driver is not waited for
