"""Program that dumps the stack of every rank of a run on this host, while the rank waits in it.

    stacks.py RUN_DIR

For each live rank and its Python children, it writes to stacks-rank-N.log a header line, then the stacks of
all threads: by py-spy, if that is beside the training environment's Python or on the PATH and may trace the
rank; else by the faulthandler that rank.py has registered on STACKS_SIGNAL, which needs no rights and works
in a rank that is stuck in native code. It signals no process that does not handle that signal. Then it adds a
line to events.jsonl:

    {"event": "stacks", "ranks": [0, 1], "how": "py-spy" | "faulthandler", "missing": {"1": why}}

A child of the supervisor or of a follower: a hang of this program blocks no other process, and it exits in
time.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from itertools import islice
from typing import Any

from .event_file import EVENTS, MALFORMED, append_event, parse_event
from .procfs import is_alive, list_descendants, read_every_stat, read_stat, read_text

STACKS_SIGNAL = signal.SIGRTMAX - 4  # as in rank/setup.py
MARK = "==="
PY_SPY_S = 15.0
LIMIT_S = 45.0  # for the whole dump
SETTLE_S = 0.1  # a dump that has not grown for this long is complete
DUMP_S = 2.0
MAX_WORKERS = 16  # of a rank


def handles_signal(pid: int, number: int) -> bool:
    """Return whether a process has a handler for a signal, which would otherwise kill it."""
    for line in read_text("/proc/%d/status" % pid).splitlines():
        name, _, value = line.partition(":")
        if name == "SigCgt":
            return bool(int(value, 16) >> (number - 1) & 1)
    return False


def list_living_ranks(run_dir: str) -> dict[int, int]:
    """Return {rank: pid} of the live ranks."""
    found = {}
    with contextlib.suppress(OSError), open(os.path.join(run_dir, EVENTS), "rb") as file:
        for event in map(parse_event, file):
            if event.get("event") == "rank":
                with contextlib.suppress(*MALFORMED):
                    found[int(event["rank"])] = (int(event["pid"]), int(event["ticks"]))
    return {rank: pid for rank, (pid, ticks) in sorted(found.items()) if is_alive(read_stat(pid), ticks)}


def list_python_tree(pid: int) -> list[int]:
    """Return a rank and the Python processes below it, itself first."""
    living = {child: stat for child, stat in read_every_stat().items() if stat.lives}
    below = (child for child in list_descendants(pid, living) if is_python(child))
    return [pid, *islice(below, MAX_WORKERS)]


def is_python(pid: int) -> bool:
    """Return whether a process runs a Python interpreter."""
    return "python" in os.path.basename(os.path.realpath("/proc/%d/exe" % pid))


class StackFile:
    """Stack log of one rank; rank.py has opened it for appending too."""

    def __init__(self, run_dir: str, rank: int) -> None:
        self.rank = rank
        path = os.path.join(run_dir, "stacks-rank-%d.log" % rank)
        self.fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def head(self, pid: int, main: int, how: str) -> None:
        """Write a header with the process and its state in the kernel."""
        process = read_stat(pid)
        state = process.state if process else "gone"
        who = "rank %d" % self.rank if pid == main else "a child of rank %d" % self.rank
        waits = read_text("/proc/%d/wchan" % pid)
        where = " in %s" % waits if waits not in ("", "0") else ""
        when = time.strftime("%Y-%m-%d %H:%M:%S")
        self.write("%s %s, pid %d, state %s%s, %s, %s\n" % (MARK, who, pid, state, where, how, when))

    def write(self, text: str) -> None:
        """Add text."""
        with contextlib.suppress(OSError):
            os.write(self.fd, text.encode("utf-8", "replace"))

    def size(self) -> int:
        """Return its size in bytes."""
        return os.fstat(self.fd).st_size


def find_py_spy(run_dir: str) -> str:
    """Return py-spy beside the training environment's Python or on the PATH, "" if it is in neither."""
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        with open(os.path.join(run_dir, "spec.json"), "rb") as file:
            python = os.path.expanduser(json.loads(file.read())["argv"][0])
        beside = os.path.join(os.path.dirname(python), "py-spy")
        if os.path.isabs(beside) and os.access(beside, os.X_OK):
            return beside
    return shutil.which("py-spy") or ""


def ask_py_spy(py_spy: str, pid: int) -> Any:
    """Start py-spy on a process."""
    argv = [py_spy, "dump", "--full-filenames", "--pid", str(pid)]
    return subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def dump_with_py_spy(py_spy: str, dumps: list[tuple[StackFile, int, list[int]]], until: float) -> set[int]:
    """Dump all processes that py-spy may trace; return the pids that it has dumped."""
    to_dump = [
        (dump, main, pid, ask_py_spy(py_spy, pid))
        for dump, main, family in dumps
        for pid in family
        if not is_stopped(pid)
    ]
    dumped = set()
    for dump, main, pid, process in to_dump:
        try:
            said = process.communicate(timeout=max(0.1, until - time.monotonic()))[0]
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            continue
        if process.returncode == 0 and b"Thread" in said:
            dump.head(pid, main, "py-spy")
            dump.write(said.decode("utf-8", "replace").rstrip() + "\n\n")
            dumped.add(pid)
    return dumped


def is_stopped(pid: int) -> bool:
    """Return whether a process is stopped: no handler runs in it, and a tracer would wait."""
    process = read_stat(pid)
    return process is None or process.state in "Tt"


def dump_with_faulthandler(dump: StackFile, main: int, pid: int) -> str:
    """Have a process dump its own stacks; return the reason for a failure, "" on success."""
    if is_stopped(pid):
        dump.head(pid, main, "no stacks")
        return "it is stopped (SIGSTOP, or a debugger)"
    if not handles_signal(pid, STACKS_SIGNAL):
        if pid == main:
            dump.head(pid, main, "no stacks")
        return "it has no handler for signal %d" % STACKS_SIGNAL
    dump.head(pid, main, "faulthandler")
    before = size = dump.size()
    give_up = time.monotonic() + DUMP_S
    with contextlib.suppress(OSError):
        os.kill(pid, STACKS_SIGNAL)
    grown_at = time.monotonic()
    while time.monotonic() < give_up:
        time.sleep(0.02)
        now = dump.size()
        if now != size:
            size, grown_at = now, time.monotonic()
        elif size > before and time.monotonic() - grown_at > SETTLE_S:
            break
    dump.write("\n")
    return "" if size > before else "it did not answer signal %d within %.0f s" % (STACKS_SIGNAL, DUMP_S)


def dump_all(run_dir: str) -> None:
    """Dump every live rank, then report it as an event."""
    dumps = [
        (StackFile(run_dir, rank), pid, list_python_tree(pid))
        for rank, pid in list_living_ranks(run_dir).items()
    ]
    py_spy = find_py_spy(run_dir)
    dumped = dump_with_py_spy(py_spy, dumps, time.monotonic() + PY_SPY_S) if py_spy else set()
    how = "py-spy" if dumped else "faulthandler"
    missing = {}
    for dump, main, family in dumps:
        for pid in family:
            why = "" if pid in dumped else dump_with_faulthandler(dump, main, pid)
            if why and pid == main:
                dump.write(why + "\n\n")
                missing[str(dump.rank)] = why
    ranks = [dump.rank for dump, _, _ in dumps if str(dump.rank) not in missing]
    append_event(os.path.join(run_dir, EVENTS), "stacks", ranks=ranks, how=how, missing=missing)


if __name__ == "__main__":
    signal.alarm(int(LIMIT_S))
    dump_all(sys.argv[1])
