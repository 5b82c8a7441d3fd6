"""What ranks do while faults happen to them. No torch, unless torch is the point."""

from pathlib import Path

COUNT = """
import os, time
for n in range(100000):
    print("line", n, flush=True)
    time.sleep(0.2)
"""


def some(pause_s: float = 0.05, lines: int = 120, *, until: Path | None = None) -> str:
    """Return a script that prints so many lines with pauses, the last once a file exists, then ends well."""
    text = COUNT.replace("100000", str(lines)).replace("0.2", str(pause_s))
    if until is None:
        return text
    wait = f"    while n == {lines - 1} and not os.path.exists({str(until)!r}):\n        time.sleep(0.05)\n"
    return text.replace("    print", f"{wait}    print")


STUCK = """
import os, threading, time
for n in range(4 if os.environ["RANK"] == "1" else 50):
    print("line", n, flush=True)
    time.sleep(0.4)
def wait_for_nobody():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()
wait_for_nobody()
"""
"""Prints a little, then waits for ever; rank 0 prints for 20 s more."""

EXPECTED = b"".join(b"line %d\n" % n for n in range(120))

STUBBORN = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(99)"], {})
    os._exit(0)
os.wait()
print("up", flush=True)
while os.environ["RANK"] == "1": os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(99)
"""
"""Ignores SIGTERM and forks a daemon without the run's mark; rank 1 stops itself."""

LOADER = """
import os, torch
from torch.utils.data import DataLoader
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 10**6
    def __getitem__(self, n):
        import time; time.sleep(0.05)
        return n
for batch in DataLoader(Slow(), num_workers=1):
    print("worker", torch.utils.data.get_worker_info(), os.getpid(), flush=True)
"""

MUCH = """
import os
def out(data):
    view = memoryview(data)
    while view: view = view[os.write(1, view):]
for n in range(0, 50_000, 1000):
    lines = (b"line %07d of what a script prints while it does not train" % m for m in range(n, n + 1000))
    out(b"\\n".join(lines) + b"\\n")
out(b"y" * 50_000_000 + b"\\n")
for n in range(4):
    out(bytes(range(256)) * 4096 + b"\\x1b[2J\\x1b]0;title\\x07" + str(n).encode() + b"\\n")
out(b"no newline at the end \\xff\\xfe")
"""
"""57 MB: many lines, one of 50 MB, binary, what clears a screen and renames its window, no last newline."""
