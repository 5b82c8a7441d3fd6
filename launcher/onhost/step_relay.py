"""Single task of a Slurm step on each of its nodes: runs programs for a client that has no SSH.

srun gives every task the same input and mixes the output of all of them, a line at a time. So each input
message names its node, and each output line names its node and is shorter than the 1024 bytes in which srun
moves output. Standard library, Python >= 3.9.

In: a JSON line, `{"magic": ..., "linger_s": ...}`, then messages: a line, and as many bytes as its last word
says.
    NODE CHANNEL run N      start the program of this JSON array
    NODE CHANNEL in N       input for it
    NODE CHANNEL ref KEY HEAD TAIL N
                            input that starts and ends as a text kept before, with these bytes in between
    * KEY keep N            a text for `ref`
    NODE CHANNEL eof 0      the end of its input
    NODE CHANNEL more B 0   the client has taken B bytes of its output
    NODE CHANNEL drop 0     the client is no longer interested: its output is closed, too
    NODE CHANNEL kill 0     kill its process group
Out: `MAGIC NODE CHANNEL KIND BASE64`. KIND is hello, started, failed, taken (bytes of input that the program
    has read), out, err, closed (no more output), exit, or signal (channel "-": a number that Slurm has sent).
"""

from __future__ import annotations

import base64
import contextlib
import ctypes
import errno
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from typing import Any

RAW = 660  # bytes of output in a line; in base64, with its prefix, less than 1024
CREDIT = 1 << 20  # bytes of output that the client has not taken yet, at most
HELD = 1 << 18  # bytes of lines that wait for srun, at most, before the programs are paused
READ = 1 << 16
PR_SET_CHILD_SUBREAPER = 36
LINGER_S = 3.0
IGNORED = ("SIGTERM", "SIGINT", "SIGHUP", "SIGPIPE", "SIGUSR1", "SIGUSR2")
REPORTED = (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2)  # how Slurm announces an end
NAMES = ("CUDA_VISIBLE_DEVICES", "SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_GPUS")


class Channel:
    """Running program, and the data in transit to and from it."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.input = bytearray()
        self.ends = False  # its input ends after the queued data
        self.untaken = 0  # bytes of output that the client has not taken yet
        self.open = {"out": process.stdout, "err": process.stderr}


class Relay:
    """Single-threaded loop over the client's messages and the pipes of the programs."""

    def __init__(self, node: str, magic: str, linger_s: float) -> None:
        self.node = node.encode()
        self.magic = magic.encode()
        self.linger_s = linger_s
        self.channels: dict[str, Channel] = {}
        self.kept: dict[str, bytes] = {}
        self.incoming = bytearray()
        self.outgoing = bytearray()
        self.until: float | None = None  # when to kill programs that still run after the end of our input
        self.selector = selectors.DefaultSelector()

    def serve(self) -> int:
        """Relay until the client is gone and every program has ended."""
        wake, wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        for number in (signal.SIGCHLD, *REPORTED):
            signal.signal(number, lambda *_: None)  # its number arrives at `wake`
        os.set_blocking(1, False)
        self.selector.register(0, selectors.EVENT_READ, ("client", ""))
        self.selector.register(wake, selectors.EVENT_READ, ("wake", ""))
        hello = {name: os.environ[name] for name in NAMES if name in os.environ}
        self.say("-", "hello", json.dumps({**hello, "pid": os.getpid()}).encode())
        while self.until is None or self.channels:
            self.watch()
            for key, _ in self.selector.select(0.2 if self.until is not None else 5.0):
                what, channel = key.data
                if what == "client":
                    self.hear()
                elif what == "wake":
                    self.report_signals(wake)
                elif what == "output":
                    self.flush()
                elif what == "in":
                    self.feed(channel)
                else:
                    self.carry(channel, what)
            self.see_ends()
            if self.until is not None and time.monotonic() > self.until:
                self.kill_rest()
        os.set_blocking(1, True)
        self.flush()
        return 0

    def report_signals(self, wake: int) -> None:
        """Report which signals have arrived: under proctrack/cgroup Slurm sends them to us alone."""
        with contextlib.suppress(OSError):
            for number in sorted(set(os.read(wake, 4096)).intersection(REPORTED)):
                self.say("-", "signal", b"%d" % number)

    def say(self, channel: str, kind: str, data: bytes = b"") -> None:
        """Queue lines for the client."""
        head = b" ".join((self.magic, self.node, channel.encode(), kind.encode()))
        for start in range(0, len(data) or 1, RAW):
            self.outgoing += head + b" " + base64.b64encode(data[start : start + RAW]) + b"\n"

    def watch(self) -> None:
        """Wait for a descriptor that can proceed: a program whose output has no room is not read."""
        self.select(1, selectors.EVENT_WRITE, ("output", ""), wanted=bool(self.outgoing))
        room = len(self.outgoing) < HELD
        for name, channel in self.channels.items():
            stdin = channel.process.stdin
            if stdin is not None and not stdin.closed:
                self.select(stdin.fileno(), selectors.EVENT_WRITE, ("in", name), wanted=bool(channel.input))
            for kind, pipe in channel.open.items():
                if pipe is not None:
                    wanted = room and channel.untaken < CREDIT
                    self.select(pipe.fileno(), selectors.EVENT_READ, (kind, name), wanted=wanted)

    def select(self, fd: int, event: int, data: tuple[str, str], *, wanted: bool) -> None:
        """Register or unregister a descriptor with the selector."""
        known = fd in self.selector.get_map()
        if wanted and not known:
            self.selector.register(fd, event, data)
        elif known and not wanted:
            self.selector.unregister(fd)

    def forget(self, fd: int) -> None:
        """Unregister a descriptor that is about to be closed."""
        with contextlib.suppress(KeyError, ValueError):
            self.selector.unregister(fd)

    def flush(self) -> None:
        """Write as much as srun takes."""
        try:
            while self.outgoing:
                del self.outgoing[: os.write(1, self.outgoing[:READ])]
        except BlockingIOError:
            pass
        except OSError:
            self.outgoing.clear()  # srun is gone; our input will end soon
            self.close_input()

    def hear(self) -> None:
        """Read the client's messages."""
        try:
            data = os.read(0, READ)
        except OSError:
            data = b""
        if not data:
            self.close_input()
            return
        self.incoming += data
        while self.take_message():
            pass

    def close_input(self) -> None:
        """End the input of every program after the client has gone, and give each time to exit."""
        if self.until is not None:
            return
        self.forget(0)
        self.until = time.monotonic() + self.linger_s
        for channel in self.channels.values():
            channel.ends = True
            channel.untaken = 0
            self.close_if_fed(channel)

    def take_message(self) -> bool:
        """Handle one complete message; return whether there was one."""
        end = self.incoming.find(b"\n")
        if end < 0:
            return False
        words = bytes(self.incoming[:end]).split()
        size = int(words[-1])
        if len(self.incoming) < end + 1 + size:
            return False
        if words[0] in (b"*", self.node):
            body = bytes(self.incoming[end + 1 : end + 1 + size])
            self.obey([word.decode() for word in words[1:-1]], body)
        del self.incoming[: end + 1 + size]
        return True

    def obey(self, words: list[str], body: bytes) -> None:
        """Handle one message for this node."""
        name, verb, *rest = words
        if verb == "keep":
            self.kept[name] = body
        elif verb == "run":
            self.start(name, json.loads(body))
        elif name in self.channels:
            self.steer(self.channels[name], verb, rest, body)

    def steer(self, channel: Channel, verb: str, rest: list[str], body: bytes) -> None:
        """Handle one message for a program that runs."""
        if verb == "in":
            channel.input += body
        elif verb == "ref":
            kept, tail = self.kept[rest[0]], int(rest[2])
            channel.input += kept[: int(rest[1])] + body + (kept[-tail:] if tail else b"")
        elif verb == "more":
            channel.untaken -= int(rest[0])
        elif verb == "kill":
            with contextlib.suppress(OSError):
                os.killpg(channel.process.pid, signal.SIGKILL)
        elif verb in ("eof", "drop"):
            channel.ends = True
            self.close_if_fed(channel)
        if verb == "drop":
            for kind in tuple(channel.open):
                self.close_output(channel, kind)

    def start(self, name: str, argv: list[str]) -> None:
        """Start a program in a session of its own; its end, or a failed start, is reported."""
        program = os.path.expanduser(argv[0]) if argv[0].startswith("~/") else argv[0]
        try:
            process = subprocess.Popen(
                [program, *argv[1:]],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
                preexec_fn=ignore_signals,  # noqa: PLW1509 - there are no threads
                cwd=find_home(),
            )
        except (OSError, ValueError) as error:
            number = error.errno if isinstance(error, OSError) else errno.EINVAL
            why = error.strerror if isinstance(error, OSError) else str(error)
            self.say(name, "failed", json.dumps([number, why]).encode())
            return
        for pipe in filter(None, (process.stdin, process.stdout, process.stderr)):
            os.set_blocking(pipe.fileno(), False)
        self.channels[name] = Channel(process)
        self.say(name, "started")

    def feed(self, name: str) -> None:
        """Write a program's queued input to it."""
        channel = self.channels.get(name)
        stdin = channel.process.stdin if channel is not None else None
        if channel is None or stdin is None or stdin.closed:
            return
        try:
            count = os.write(stdin.fileno(), channel.input[:READ])
        except BlockingIOError:
            return
        except OSError:  # it reads no more: its exit code shows the reason
            count = len(channel.input)
            channel.ends = True
        del channel.input[:count]
        self.say(name, "taken", b"%d" % count)
        self.close_if_fed(channel)

    def close_if_fed(self, channel: Channel) -> None:
        """End a program's input once all of it is written."""
        stdin = channel.process.stdin
        if channel.ends and not channel.input and stdin is not None and not stdin.closed:
            self.forget(stdin.fileno())
            with contextlib.suppress(OSError):
                stdin.close()

    def carry(self, name: str, kind: str) -> None:
        """Forward a program's output, up to the client's credit."""
        channel = self.channels.get(name)
        pipe = channel.open.get(kind) if channel is not None else None
        if channel is None or pipe is None:
            return
        try:
            data = os.read(pipe.fileno(), READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.close_output(channel, kind)
            if kind == "out":
                self.say(name, "closed")
        elif self.until is None:
            channel.untaken += len(data)
            self.say(name, kind, data)

    def close_output(self, channel: Channel, kind: str) -> None:
        """Close one of its outputs."""
        pipe = channel.open.pop(kind, None)
        if pipe is not None:
            self.forget(pipe.fileno())
            with contextlib.suppress(OSError):
                pipe.close()

    def see_ends(self) -> None:
        """Report programs that have ended, once their output is sent; reap their orphans."""
        for name, channel in list(self.channels.items()):
            if channel.process.poll() is None:
                continue
            for kind in tuple(channel.open):
                if self.until is not None:
                    self.close_output(channel, kind)
            if "err" in channel.open:
                self.drain(name, channel)
            if "out" in channel.open:
                continue  # a child of it may still write
            self.say(name, "exit", b"%d" % channel.process.returncode)
            channel.ends, channel.input = True, bytearray()
            self.close_if_fed(channel)
            for kind in tuple(channel.open):
                self.close_output(channel, kind)
            del self.channels[name]
        reap_orphans({channel.process.pid for channel in self.channels.values()})

    def drain(self, name: str, channel: Channel) -> None:
        """Forward the last stderr output of a program that has ended."""
        before = -1
        while "err" in channel.open and before != channel.untaken and channel.untaken < CREDIT:
            before = channel.untaken
            self.carry(name, "err")

    def kill_rest(self) -> None:
        """Kill programs that have not ended in time."""
        for channel in self.channels.values():
            with contextlib.suppress(OSError):
                os.killpg(channel.process.pid, signal.SIGKILL)
        self.until = time.monotonic() + 1.0


def reap_orphans(ours: set[int]) -> None:
    """Reap orphans of programs, but not the programs: those are waited for by pid."""
    while True:
        try:
            found = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if found is None or found.si_pid in ours:
            return
        with contextlib.suppress(ChildProcessError):
            os.waitpid(found.si_pid, os.WNOHANG)


def ignore_signals() -> None:
    """Ignore what Slurm sends to all processes of a step. A supervisor resets SIGTERM for its launcher."""
    for name in IGNORED:
        signal.signal(getattr(signal, name), signal.SIG_IGN)


def find_home() -> str:
    """Return the directory where programs start, as they would after a login."""
    place = os.path.expanduser("~")
    return place if os.path.isdir(place) else "/"


def main() -> int:
    """Relay for the client at the other end of srun."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return 1
        line += byte
    options: dict[str, Any] = json.loads(line)
    # Slurm sends SIGTERM to all processes of a cancelled job: ranks and supervisors end, and we relay their
    # last output.
    ignore_signals()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    node = os.environ.get("SLURMD_NODENAME") or os.uname().nodename
    return Relay(node, options["magic"], float(options.get("linger_s", LINGER_S))).serve()


if __name__ == "__main__":
    sys.exit(main())
