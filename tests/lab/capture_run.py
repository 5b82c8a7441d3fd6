"""Picture of docs/screen.md: `gpulaunch run` on a pseudo-terminal, over two hosts of the lab.

    python -m tests.lab.capture_run docs/images/run.svg     # root

The hosts, their sshd, accelerate and the training on the CPU are real.
"""

import os
import pty
import select
import sys
import tempfile
import termios
import time
from contextlib import ExitStack
from pathlib import Path

import pyte

from tests.lab.capture_top import svg
from tests.lab.client import Client
from tests.lab.hosts import Lab

HOSTS = ("l40s-01", "l40s-02")
SIZE = (26, 150)
CONFIG = ("--config", "paper_r64", "--gpus", "none")
WORDS = ("run", *CONFIG, "--hosts", "l40s-[01-02]", "--", "--max-steps", "60")
QUIET = {"PYTHONWARNINGS": "ignore", "TORCH_CPP_LOG_LEVEL": "ERROR", "TRANSFORMERS_VERBOSITY": "error"}
"""Libraries warn of what this machine lacks, and name its directories."""
_PATIENCE_S = 300.0


def main(target: Path) -> int:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        lab = stack.enter_context(Lab.up(list(HOSTS), Path(folder, "lab"), profiles=["2xl40s", "2xl40s"]))
        client = Client(lab, Path(folder, "home"))
        client.write({host: {"env": QUIET} for host in HOSTS})
        client.run("preflight", *CONFIG, *HOSTS)  # what is only information is shown once a day
        screen = watch(client)
        target.write_text(svg(screen, "gpulaunch run"), encoding="utf-8")
    return 0


def watch(client: Client) -> pyte.Screen:
    """Return the screen some steps after the ranks have begun to train; the run is stopped after that."""
    screen = pyte.Screen(SIZE[1], SIZE[0])
    parser = pyte.ByteStream(screen)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(client.home)
        os.execve(sys.executable, client.argv(*WORDS), {**client.env, "TERM": "xterm-256color"})
    termios.tcsetwinsize(terminal, SIZE)
    try:
        deadline = time.monotonic() + _PATIENCE_S
        while not {"CPU", "loss"} <= set(screen.display[-1].split() + screen.display[-2].split()):
            if time.monotonic() > deadline:
                raise TimeoutError("\n".join(screen.display))
            if select.select([terminal], [], [], 0.2)[0]:
                parser.feed(os.read(terminal, 65536))
        return screen
    finally:
        client.run("stop", "last", "--now")
        os.close(terminal)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
