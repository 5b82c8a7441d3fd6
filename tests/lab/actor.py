"""A process that misbehaves in one known way. Runs on a simulated host:

    python -I actor.py KIND [ARGUMENTS]

When the misbehaviour is in place it prints one JSON line, the pids of those who play a part, and stays.
"""

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from typing import Never

SYS_EXIT = {"x86_64": 60, "aarch64": 93}
FOREVER_S = 3600


def ready(**pids: int) -> None:
    """Tell the test who is who."""
    os.write(1, json.dumps(pids).encode() + b"\n")


def stay() -> Never:
    """Do nothing until killed."""
    while True:
        time.sleep(FOREVER_S)


def bound(address: str, port: str, *, reuse: bool = True) -> socket.socket:
    """Bind a TCP port, with SO_REUSEADDR as servers do."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    holder = socket.socket(family)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, reuse)
    holder.bind((address, int(port)))
    return holder


def listen(address: str, port: str) -> None:
    """Hold a port by listening on it."""
    holder = bound(address, port)
    holder.listen()
    ready(pid=os.getpid())
    stay()


def bind(address: str, port: str) -> None:
    """Hold a port without listening: it is taken, and no connection shows it."""
    holder = bound(
        address, port, reuse=False
    )  # with it, Linux lets another with it bind too until one listens
    ready(pid=os.getpid(), descriptor=holder.fileno())
    stay()


def inherit(address: str, port: str) -> None:
    """Listen, pass the socket on to a forked child and die: the child holds a port it never asked for."""
    holder = bound(address, port)
    holder.listen()
    parent = os.getpid()
    if os.fork() == 0:
        while os.getppid() == parent:
            time.sleep(0.001)
        ready(pid=os.getpid())
        stay()
    os._exit(0)


def zombie(count: str) -> None:
    """Be a parent that never reaps `count` dead children."""
    children = []
    for _ in range(int(count)):
        child = os.fork()
        if child == 0:
            os._exit(0)
        children.append(child)
    for child in children:
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    ready(pid=children[0], parent=os.getpid(), **{f"zombie{n}": pid for n, pid in enumerate(children)})
    stay()


def half_dead() -> None:
    """End the main thread alone: the process is shown as a zombie while a thread of it lives and works."""
    thread = threading.Thread(target=stay)
    thread.start()
    ready(pid=os.getpid(), thread=thread.native_id or 0)
    ctypes.CDLL(None).syscall(SYS_EXIT[os.uname().machine], 0)


def stopped() -> None:
    """Stop oneself, as a shell's Ctrl-Z or a rank under a debugger does."""
    ready(pid=os.getpid())
    os.kill(os.getpid(), signal.SIGSTOP)
    stay()


def uninterruptible() -> None:
    """Sit in state D: wait, as vfork makes one wait, for a child that waits for a pipe that nobody writes."""
    fifo = f"{tempfile.mkdtemp()}/never-written"
    os.mkfifo(fifo)
    ready(pid=os.getpid())
    os.posix_spawn("/bin/true", ["true"], {}, file_actions=[(os.POSIX_SPAWN_OPEN, 0, fifo, os.O_RDONLY, 0)])


def stubborn() -> None:
    """Ignore what can be ignored."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ready(pid=os.getpid())
    stay()


def daemons(count: str) -> None:
    """Leave `count` grandchildren in sessions of their own behind, adopted by PID 1, and stay."""
    pids = {}
    for number in range(int(count)):
        read_end, write_end = os.pipe()
        middle = os.fork()
        if middle == 0:
            os.setsid()
            if os.fork() == 0:
                os.write(write_end, str(os.getpid()).encode())
                stay()
            os._exit(0)
        os.waitpid(middle, 0)
        pids[f"daemon{number}"] = int(os.read(read_end, 32))
    ready(pid=os.getpid(), **pids)
    stay()


def tree(ranks: str, main_port: str) -> None:
    """Be a launcher with live ranks below, as torchrun and accelerate leave them in the process table."""
    children = [_rank(number, int(ranks), main_port) for number in range(int(ranks))]
    ready(pid=children[0], launcher=os.getpid(), **{f"rank{n}": pid for n, pid in enumerate(children)})
    stay()


def orphans(ranks: str, main_port: str) -> None:
    """Be a launcher that is killed with -9: its ranks stay behind, adopted by PID 1."""
    launcher = os.getpid()
    children = [_rank(number, int(ranks), main_port) for number in range(int(ranks))]
    ready(pid=children[0], **{f"rank{n}": pid for n, pid in enumerate(children)})
    os.kill(launcher, signal.SIGKILL)


def _rank(number: int, world_size: int, main_port: str) -> int:
    marks = {
        "RANK": str(number),
        "LOCAL_RANK": str(number),
        "WORLD_SIZE": str(world_size),
        "LOCAL_WORLD_SIZE": str(world_size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": main_port,
    }
    argv = [sys.executable, "-c", "import time; time.sleep(3600)", "train.py"]
    return subprocess.Popen(argv, env={**os.environ, **marks}, stdin=subprocess.DEVNULL).pid


KINDS: dict[str, Callable[..., None]] = {
    "listen": listen,
    "bind": bind,
    "inherit": inherit,
    "zombie": zombie,
    "half-dead": half_dead,
    "stopped": stopped,
    "uninterruptible": uninterruptible,
    "stubborn": stubborn,
    "daemons": daemons,
    "tree": tree,
    "orphans": orphans,
}

if __name__ == "__main__":
    KINDS[sys.argv[1]](*sys.argv[2:])
