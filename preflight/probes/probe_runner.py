"""Probes in forked children, all side by side, each with its deadline.

A child streams the facts it has over a pipe. One that is late is killed and never waited for, because a
process inside a wedged driver call cannot die; its stdin, stdout and stderr are /dev/null, so that it does
not keep the SSH channel open either. What it had sent by then counts, the rest is missing (code "timeout").
"""

import _thread
import contextlib
import json
import os
import signal
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from .fact import Emit, Json, explain_exception, missing
from .files import wait_readable
from .request import ProbeRequest

PARTS = "?"  # marks a fact that comes in parts; its value excuses the parts that did not come


class Probe(NamedTuple):
    """A row of the table: what runs, which facts it owes, and how long it may take."""

    name: str
    run: Callable[[ProbeRequest, Emit], None]
    facts: tuple[str, ...]
    deadline_s: float


def run_probes(probes: list[Probe], ask: ProbeRequest, answer: Json) -> Json:
    """Run `probes` side by side into `answer`; return how long each took in ms."""
    waiting: dict[int, _Running] = {}
    for probe in probes:
        try:
            running = _start(probe, ask)
        except OSError as error:  # no process or descriptor left: a finding of its own, and no reason to stop
            answer.update(dict.fromkeys(probe.facts, explain_exception(error)))
        else:
            waiting[running.fd] = running
    took: Json = {}
    pids = [running.pid for running in waiting.values()]
    while waiting:
        next_deadline = min(running.deadline for running in waiting.values())
        ready = wait_readable(list(waiting), max(0.0, next_deadline - time.monotonic()))
        for fd in ready:
            data = os.read(fd, 1 << 20)
            if data:
                waiting[fd].take(data, answer)
                continue
            running = waiting.pop(fd)
            took[running.probe.name] = running.finish(answer, None)
        now = time.monotonic()
        for fd in [fd for fd, running in waiting.items() if running.deadline <= now]:
            running = waiting.pop(fd)
            limit_s = min(running.probe.deadline_s, ask.deadline_s)
            excuse = missing("no answer within %g s" % limit_s, "timeout")
            took[running.probe.name] = running.finish(answer, excuse)
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)
    return took


def _start(probe: Probe, ask: ProbeRequest) -> "_Running":
    """Fork the probe; the child never returns."""
    read_fd, write_fd = os.pipe()
    limit_s = min(probe.deadline_s, ask.deadline_s)
    pid = os.fork()
    if pid:
        os.close(write_fd)
        return _Running(probe, pid, read_fd, time.monotonic() + limit_s)
    try:
        quiet = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(quiet, fd)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, limit_s + 1)  # should the parent be gone
        emit = _emitter(write_fd)
        try:
            probe.run(ask, emit)
        except BaseException as error:
            emit(explain_exception(error))
    finally:
        os._exit(0)


class _Running:
    """A probe's child as the parent sees it."""

    def __init__(self, probe: Probe, pid: int, fd: int, deadline: float) -> None:
        self.probe = probe
        self.pid = pid
        self.fd = fd
        self.deadline = deadline
        self.started = time.monotonic()
        self.tail = b""
        self.error: Json | None = None

    def take(self, data: bytes, answer: Json) -> None:
        """Put every whole line that came into `answer`."""
        *lines, self.tail = (self.tail + data).split(b"\n")
        for line in lines:
            try:
                path, value = json.loads(line)
            except ValueError:
                continue  # cut by the death of the probe; what it owes is missing in the end
            if path:
                _put(answer, path, value)
            else:
                self.error = value

    def finish(self, answer: Json, excuse: Json | None) -> float:
        """Close up; what the probe still owes is missing because of `excuse` (or its own error)."""
        os.close(self.fd)
        took_ms = (time.monotonic() - self.started) * 1000
        if excuse is not None:
            _kill(self.pid)
        reason = excuse or self.error or missing("the %s probe ended without an answer" % self.probe.name)
        for name in self.probe.facts:
            owed = answer.get(name)
            if owed is None:
                answer[name] = reason
            elif isinstance(owed, dict) and PARTS in owed:
                owed[PARTS] = reason
        return round(took_ms, 1)


def _kill(pid: int) -> None:
    """Kill a probe, and first the commands for which it waits: each leads a group of its own."""
    with contextlib.suppress(OSError):
        for task in os.listdir("/proc/%d/task" % pid):
            with open("/proc/%d/task/%s/children" % (pid, task)) as file:
                for child in file.read().split():
                    os.killpg(int(child), signal.SIGKILL)
    os.kill(pid, signal.SIGKILL)


def _put(tree: Json, path: list[Any], value: Any) -> None:
    """Set `value` at `path`; a path of several steps makes a fact of parts."""
    for step in path[:-1]:
        tree = tree.setdefault(str(step), {PARTS: None})
    tree[str(path[-1])] = value


def _emitter(fd: int) -> Emit:
    lock = _thread.allocate_lock()  # a probe's threads share the pipe

    def emit(*path_and_value: Any) -> None:
        line = json.dumps([path_and_value[:-1], path_and_value[-1]], separators=(",", ":")).encode() + b"\n"
        with lock:
            while line:
                line = line[os.write(fd, line) :]

    return emit
