"""Client CPU of `gpulaunch top` over many hosts, and how soon it draws.

    python -m bench.top_hosts                # 100 names of one sshd of our own, 8 busy GPUs each
    python -m bench.top_hosts --hosts 300 --seconds 30

The hosts answer from a recording: an interpreter's stand-in gives the facts of a host with eight H100, each
of them held by a process, and then, as the monitor would, new numbers of every GPU with each sample. So the
machine's cores are the client's, but for 100 small processes that write a line every two seconds. One of the
hosts (`--hung`) accepts the connection and never answers: it must delay no other. The command
itself runs on a pseudo-terminal of 160 x 50. Targets: below 5 % of one core; a key's effect on the screen
within 0.3 s.
"""

import argparse
import json
import os
import pty
import select
import signal
import statistics
import sys
import tempfile
import termios
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import yaml

from bench.common import ROOT, Target, as_installed, tell
from bench.loopback import Loopback
from launcher.remote.agent import MARKER

RECORDING = ROOT / "tests/preflight/recordings/8xh100.json"
STAND_IN = """\
#!{python} -IS
import json, os, random, sys, time
line, read = sys.stdin.buffer.readline, sys.stdin.buffer.read
first = line()
if b"agent.py" in first:
    read(int(line()))
    header = json.loads(line())
    host = json.loads(read(header["request_len"]))["host"]
    read(header["pynvml_len"])
    body = open({answer!r}, "rb").read()
    sys.stdout.buffer.write(b"\\n" + {marker!r} + b"%d\\n" % len(body) + body)
elif b"monitor.py" in first:
    read(int(line()))
    request = json.loads(line())
    while True:
        gpus = {{uuid: [random.randint(80, 99), 70000 + random.randint(0, 99), random.randint(500, 700), 700,
                       random.randint(60, 70), 4] for uuid in request["gpus"]}}
        answer = {{"gpus": gpus, "missing": "", "watch": 1, "request": 1, "runs": {{}}}}
        try:
            sys.stdout.write("\\nGPULAUNCH-ANSWER-1 " + json.dumps(answer) + "\\n")
            sys.stdout.flush()
        except BrokenPipeError:
            os._exit(0)
        time.sleep(request["every_s"])
else:
    sys.exit(1)
"""
_SIZE = (50, 160)
_SETTLE_S = 6.0
_KEYS = 8


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--hosts", type=int, default=100)
    parser.add_argument("--hung", type=int, default=1, help="of them never answer")
    parser.add_argument("--seconds", type=float, default=20.0, help="of the measurement")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        home = Path(folder, "home")
        (home / ".ssh").mkdir(parents=True, mode=0o700)
        # No start-up files of the user's shell: with three sessions for each host they are most of the load.
        options = (f"SetEnv HOME={home}",)
        loopback = stack.enter_context(Loopback.up(Path(folder), arguments.hosts, options=options))
        replay_hosts(loopback, arguments.hung)
        (home / ".ssh" / "config").write_bytes(loopback.ssh_config.read_bytes())
        answering = arguments.hosts - arguments.hung
        share, answers_s, began_s = measure(loopback.inventory, home, answering, arguments.seconds)
    print(f"{answering} hosts with 8 GPUs each: all shown after {began_s:.1f} s; {arguments.hung} more hung")
    worst = max(answers_s)
    print(f"key to screen: median {statistics.median(answers_s):.3f} s, longest {worst:.3f} s")
    return tell([Target("share of one core", share, 0.05), Target("key to screen, s", worst, 0.3)])


def replay_hosts(loopback: Loopback, hung: int) -> None:
    """Write hosts.yaml anew: each host with the stand-in as its interpreter, the first `hung` with none."""
    answer, program = loopback.folder / "answer.json", loopback.folder / "python-that-replays"
    answer.write_text(json.dumps(busy_facts()))
    program.write_text(STAND_IN.format(python=sys.executable, answer=str(answer), marker=MARKER))
    silent = loopback.folder / "python-that-hangs"
    silent.write_text("#!/bin/sh\nexec sleep 600\n")
    for path in (program, silent):
        path.chmod(0o755)
    hosts = {
        name: {"python": str(silent if number < hung else program)}
        for number, name in enumerate(loopback.names)
    }
    loopback.inventory.write_text(yaml.safe_dump({"hosts": hosts}))


def busy_facts() -> dict[str, Any]:
    """Return the recorded facts with a process of the login's own user on each GPU."""
    facts: dict[str, Any] = json.loads(RECORDING.read_text())["facts"]
    identity, table = facts["identity"], facts["processes"]
    for gpu in facts["gpus"]:
        pid = 5000 + gpu["index"]
        gpu["processes"] = [{"pid": pid, "kind": "compute", "used_mib": 70000, "name": "python"}]
        table["processes"].append(
            {
                **dict.fromkeys(("cgroup", "wchan"), ""),
                "pid": pid,
                "start_ticks": 100,
                "ppid": 1,
                "pgid": pid,
                "sid": pid,
                "uid": identity["uid"],
                "user": identity["user"],
                "state": "S",
                "comm": "python",
                "age_s": 5000.0,
                "threads": 40,
                "tty": False,
                "cpu_ticks": 5,
                "environ": {},
                "namespace_pids": [pid],
                "argv": ["/opt/venv/bin/python", "train.py", "--rank", str(gpu["index"])],
                "gpu_files": [f"/dev/nvidia{gpu['minor']}"],
            }
        )
    return facts


def measure(inventory: Path, home: Path, hosts: int, seconds: float) -> tuple[float, list[float], float]:
    """Return the share of a core, seconds from keys to the screen, and seconds until all hosts are shown."""
    with tempfile.TemporaryDirectory() as bytecode:
        env = {**as_installed(Path(bytecode)), "HOME": str(home), "TERM": "xterm-256color"}
        argv = [sys.executable, "-m", "launcher.cli", "top", "-i", str(inventory), "--hosts", "all"]
        began = time.monotonic()
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(ROOT)
            os.execve(sys.executable, argv, env)
        termios.tcsetwinsize(terminal, _SIZE)
        try:
            read_until(terminal, f"{8 * hosts} held".encode(), 120.0)
            began_s = time.monotonic() - began
            drain(terminal, _SETTLE_S)
            before, at = cpu_s(pid), time.monotonic()
            drain(terminal, seconds)
            share = (cpu_s(pid) - before) / (time.monotonic() - at)
            return share, [press(terminal, "m") for _ in range(_KEYS)], began_s
        finally:
            os.kill(pid, signal.SIGTERM)
            drain(terminal, 0.5)
            os.waitpid(pid, 0)
            os.close(terminal)


def press(terminal: int, key: str) -> float:
    """Press a key that changes the second line; return the seconds until that line has been written."""
    drain(terminal, 0.7)
    at = time.monotonic()
    os.write(terminal, key.encode())
    read_until(terminal, b"\x1b[2;1H", 10.0)
    return time.monotonic() - at


def read_until(terminal: int, words: bytes, patience_s: float) -> None:
    """Read what is drawn until these words are. Raises TimeoutError."""
    seen, deadline = b"", time.monotonic() + patience_s
    while words not in seen:
        if time.monotonic() > deadline:
            raise TimeoutError(seen[-2000:].decode(errors="replace"))
        if select.select([terminal], [], [], 0.2)[0]:
            seen = seen[-(1 << 16) :] + os.read(terminal, 1 << 16)


def drain(terminal: int, seconds: float) -> None:
    """Read what is drawn for so long."""
    deadline = time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            try:
                os.read(terminal, 1 << 16)
            except OSError:
                return


def cpu_s(pid: int) -> float:
    """Return user and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


if __name__ == "__main__":
    sys.exit(main())
