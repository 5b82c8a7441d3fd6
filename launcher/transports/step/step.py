"""One step of a Slurm job on all of its nodes: srun below us, a relay in each of its tasks."""

import json
import os
import select
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from launcher import safe_json
from launcher.config.host_ranges import expand_or_empty, split_ranges
from launcher.errors import ConnectionLost, HostError, PythonNotFound, StepEnded
from launcher.text import one_line, sanitize, tail_lines
from launcher.transports.command import KillableConnection
from launcher.transports.step.stream import StepStream
from launcher.transports.step.wire import KeptTexts, Message, MessageReader, encode_message
from preflight import regex as re

START_S = 60.0  # for srun to create the step and every task's interpreter to start, on a busy controller too
_STALLED_S = 60.0
_END_S = 10.0
_KEPT = 1 << 14
_TASK = re.compile(r"(?:srun|slurmstepd): error: (?P<nodes>[\w.,\[\]-]+): tasks? [\d,-]+: (?P<how>.+)")
_NOT_STARTED = re.compile(r"slurmstepd-(?P<node>[\w.-]+): error: execve\(\): (?P<program>.+): (?P<why>[^:]+)")
_LATE_S = 0.3
_LAST_WORDS_S = 5.0  # for the end of srun's messages, which a process left behind may hold open
_NODE_FAILED = re.compile(r"error: Node failure on (?P<nodes>[\w.,\[\]-]+)")
_NOTICE = b"cluster configuration lacks support for cpu binding"  # what srun says of --cpu-bind=none
_DENIED = b"Access/permission denied"


class SlurmStep:
    """Starts with the first use. Threads may use it side by side."""

    def __init__(
        self,
        argv: Sequence[str],
        nodes: Iterable[str],
        env: Mapping[str, str],
        relay: bytes,
        *,
        linger_s: float = 3.0,
        on_signal: Callable[[int], None] = lambda _: None,
    ) -> None:
        """`argv` is srun, its options, and the command that reads the program `relay` from its input.

        `linger_s`: how long programs have to end once we are gone. `on_signal` gets each signal that Slurm
        sends to a task, in a thread of ours.
        """
        self._on_signal = on_signal
        self._linger_s = linger_s
        self.nodes = tuple(nodes)
        self._argv = tuple(argv)
        self._env = dict(env)
        self._relay = relay
        self._magic = "GPULAUNCH-STEP-" + os.urandom(8).hex()
        self._process: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()
        self._kept = KeptTexts()
        self._news = threading.Condition()
        self._hello: dict[str, dict[str, object]] = {}
        self._gone: dict[str, str] = {}  # node -> how its task ended
        self._not_started: dict[str, str] = {}  # node -> the program that its task could not become, and why
        self._streams: dict[tuple[str, str], StepStream] = {}
        self._channels = 0
        self._stderr = b""
        self._threads: list[threading.Thread] = []
        self._ended = ""

    @property
    def has_ended(self) -> bool:
        """Whether srun has ended: what ran in the step did so too."""
        return bool(self._ended)

    def start(self) -> None:
        """Start srun, once. Raises OSError where it cannot be started."""
        with self._lock:
            if self._process is not None:
                return
            self._process = subprocess.Popen(
                self._argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env=self._env,
                start_new_session=True,  # Ctrl-C at our terminal is ours: srun would pass it on to all tasks
            )
            assert self._process.stdin is not None  # noqa: S101 - asked for above
            os.set_blocking(self._process.stdin.fileno(), False)
            for work in (self._read_errors, self._read_output):
                self._threads.append(threading.Thread(target=work, args=(self._process,), daemon=True))
                self._threads[-1].start()
        greeting = json.dumps({"magic": self._magic, "linger_s": self._linger_s}).encode() + b"\n"
        self._write(lambda: self._relay + greeting)

    def task(self, node: str, timeout_s: float = START_S) -> Mapping[str, object]:
        """Return what the task of a node says of itself. Raises StepEnded, or HostError without one."""
        deadline = time.monotonic() + timeout_s
        with self._news:
            while node not in self._hello:
                if node in self._gone or self._ended:
                    break
                if not self._news.wait(max(0.0, deadline - time.monotonic())):
                    said = _last(self._stderr)
                    raise HostError(node, f"its task has not started within {timeout_s:g} s{said}")
        self._raise_if_gone(node)
        return self._hello[node]

    def open_stream(self, node: str, argv: Iterable[str]) -> StepStream:
        """Start a program on a node. Raises StepEnded and HostError."""
        self._raise_if_gone(node)
        with self._news:
            self._channels += 1
            channel = str(self._channels)
            ends = (partial(end, node, channel) for end in (self._send, self._send_input, self._forget))
            stream = self._streams[node, channel] = StepStream(node, *ends)
        body = json.dumps(tuple(argv)).encode()  # the words may hold any bytes of a file name
        self._write(lambda: encode_message(node, channel, "run", body=body))
        return stream

    def _send_input(self, node: str, channel: str, data: bytes) -> None:
        """Give a program input. Raises ConnectionLost."""
        self._write(lambda: self._kept.input_messages(node, channel, data))

    def _send(self, node: str, channel: str, verb: str, *words: object) -> None:
        """Say something of a channel; nothing happens once the step has ended."""
        with suppress(HostError):
            self._write(lambda: encode_message(node, channel, verb, *words))

    def _forget(self, node: str, channel: str) -> None:
        """Take no more messages of a channel."""
        with self._news:
            self._streams.pop((node, channel), None)

    def close(self, timeout_s: float = _END_S) -> None:
        """End the input of all tasks, and with it the step; one that does not end is cancelled."""
        process = self._process
        if process is None or process.stdin is None:
            return
        with self._lock, suppress(OSError):
            process.stdin.close()
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.terminate()  # srun then has its tasks ended, and killed
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout_s)
            process.kill()
        for thread in self._threads:
            thread.join(timeout_s)

    def _raise_if_gone(self, node: str) -> None:
        with self._news:  # srun may report the end of a task before slurmstepd's own words arrive
            never_began = node not in self._hello and (node in self._gone or bool(self._ended))
            if never_began and self._news.wait_for(lambda: node in self._not_started, _LATE_S):
                fix = f"set `python:` of {node} in hosts.yaml to an interpreter that the node has"
                raise PythonNotFound(node, f"its task cannot start {self._not_started[node]}", fix)
        if node in self._gone:
            raise StepEnded(node, self._gone[node])
        if self._ended:
            raise StepEnded(node, self._ended)

    def _write(self, make: Callable[[], bytes]) -> None:
        """Make and write messages, whole and in order. Raises ConnectionLost."""
        with self._lock:
            process = self._process
            if process is None or process.stdin is None or process.stdin.closed:
                raise ConnectionLost(self.nodes[0], self._ended or "the step has ended")
            left = memoryview(make())
            fd = process.stdin.fileno()
            while left:
                if not select.select([], [fd], [], _STALLED_S)[1]:
                    why = f"srun has taken no input for {_STALLED_S:g} s"
                    raise ConnectionLost(self.nodes[0], why)
                try:
                    left = left[os.write(fd, left) :]
                except BlockingIOError:
                    continue
                except OSError:
                    with self._news:  # why, the other threads are about to read
                        self._news.wait_for(lambda: bool(self._ended), _END_S)
                    raise ConnectionLost(self.nodes[0], self._ended or "srun takes no more input") from None

    def _read_output(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None  # noqa: S101 - asked for in start()
        reader = MessageReader(self._magic)
        with process.stdout as output:
            while data := output.read(1 << 16):
                for found in reader.feed(data):
                    self._take(found)
        status = process.wait()
        self._threads[0].join(_LAST_WORDS_S)  # it reads what srun has said last
        how = f"ended by signal {-status}" if status < 0 else f"exit status {status}"
        with self._news:
            self._ended = f"the Slurm step has ended ({how}){_last(self._stderr)}"
            streams = tuple(self._streams.values())
            self._news.notify_all()
        for stream in streams:
            stream.lose(self._ended)

    def _take(self, found: Message) -> None:
        if found.node not in self.nodes:
            return
        if found.kind == "hello":
            try:
                hello = safe_json.loads(found.data)
            except ValueError:
                hello = None
            with self._news:
                self._hello[found.node] = hello if isinstance(hello, dict) else {}
                self._news.notify_all()
            return
        if found.kind == "signal" and found.data.isdigit():
            self._on_signal(int(found.data))
            return
        stream = self._streams.get((found.node, found.channel))
        if stream is not None:
            stream.take(found.kind, found.data)

    def _read_errors(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stderr is not None  # noqa: S101 - asked for in start()
        rest = b""
        with process.stderr as errors:
            while data := errors.read(1 << 16):
                self._stderr = (self._stderr + data)[-_KEPT:]
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    self._note_error(sanitize(line, keep_lines=False))

    def _note_error(self, line: str) -> None:
        """Learn from srun that a task or a node is gone."""
        if (begun := _NOT_STARTED.search(line)) is not None:
            with self._news:
                self._not_started[begun["node"]] = one_line(f"{begun['program']}: {begun['why']}", 300)
                self._news.notify_all()
        failed = _NODE_FAILED.search(line)
        found = failed or _TASK.search(line)
        if found is None:
            return
        why = "Slurm reports that the node has failed" if failed else f"its task has ended: {found['how']}"
        why += "" if failed else _last(self._stderr)
        # srun says what several tasks have in common once: n[2-3]: tasks 1-2: Killed
        names = {name for part in split_ranges(found["nodes"]) for name in expand_or_empty(part)}
        for node in names.intersection(self.nodes):
            self._lose(node, one_line(why, 300))

    def _lose(self, node: str, why: str) -> None:
        with self._news:
            self._gone.setdefault(node, why)
            streams = [stream for (name, _), stream in self._streams.items() if name == node]
            self._news.notify_all()
        for stream in streams:
            stream.lose(self._gone[node])


def _last(output: bytes) -> str:
    said = tail_lines(b"\n".join(line for line in output.splitlines() if _NOTICE not in line))
    owner = "; only the job's own user can start steps in it" * (_DENIED in output)
    return f": {said}{owner}" if said else ""


_START_S = 30.0


class StepConnection(KillableConnection):
    """See `base.Connection` for the contract; the step is shared, and outlives it."""

    def __init__(self, step: SlurmStep, node: str, name: str) -> None:
        super().__init__(name)
        self._step = step
        self._node = node

    def command_line(self, argv: Iterable[str]) -> str:
        """Return `srun` on the node, for a shell of the job; see the contract."""
        return f"srun --overlap -N1 -n1 -w {self._node} {super().command_line(argv)}"

    def start(self, argv: Iterable[str]) -> StepStream:
        """Start in a session of its own and stream."""
        words = tuple(argv)
        if any("\0" in word for word in words):
            raise HostError(self.name, "an argument holds a NUL byte, which no program can receive")
        stream = self._step.open_stream(self._node, words)
        try:
            stream.await_start(words[0], _START_S)
        except HostError:
            stream.close()
            raise
        return stream
