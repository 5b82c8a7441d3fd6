"""Picture of docs/top.md: `gpulaunch top` on a pseudo-terminal, over hosts of the lab with simulated GPUs.

    python -m tests.lab.capture_top docs/images/top.svg     # root

The hosts, their sshd, the processes, the run and the leftover are real; NVML and its numbers are simulated.
"""

import json
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import termios
import time
from contextlib import ExitStack
from dataclasses import replace
from io import StringIO
from pathlib import Path

import pyte
from rich.console import Console
from rich.text import Text

from launcher.rundir.run_id import make_run_id
from tests.lab.client import Client
from tests.lab.hosts import Lab
from tests.lab.silicon import Profile, load_profile, update

PROFILES = {"h100": "8xh100", "l40s-01": "2xl40s", "l40s-02": "2xl40s", "l40s-03": "2xl40s", "old": "t4"}
BUSY = {"h100": (0, 1, 2, 3, 5), "l40s-01": (0, 1)}
SIZE = (24, 150)
_PATIENCE_S = 60.0
RUN = """
import importlib.machinery, importlib.util, os, sys, time
loader = importlib.machinery.SourceFileLoader("compute", "/usr/bin/silicon-compute")
spec = importlib.util.spec_from_loader("compute", loader)
compute = importlib.util.module_from_spec(spec)
loader.exec_module(compute)
rank = int(os.environ["RANK"])
held = compute.open_gpu(str(rank), 38000)
for step in range(2000):
    if rank == 0:
        print("step %d/2000 loss: %.3f" % (step + 1, 2.0 + 3.0 / (step + 1)), flush=True)
    time.sleep(0.25)
"""
COMPUTE = (
    ("h100", ("--gpu", "0", "--mib", "61000")),
    ("h100", ("--gpu", "1", "--mib", "61000")),
    ("h100", ("--gpu", "2", "--mib", "72000")),
    ("h100", ("--gpu", "3", "--mib", "9000")),
)


def main(target: Path) -> int:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        lab = stack.enter_context(
            Lab.up(list(PROFILES), Path(folder, "lab"), profiles=list(PROFILES.values()))
        )
        client = Client(lab, Path(folder, "home"))
        for host, gpus in BUSY.items():
            update(lab.host(host), at_work(PROFILES[host], gpus))
        for host, arguments in COMPUTE:
            process = stack.enter_context(lab.host(host).popen(["silicon-compute", *arguments], user="root"))
            process.read_line()
        orphan = ["silicon-compute", "--gpu", "5", "--mib", "44000", "--workers", "1", "--exit-after-fork"]
        stack.enter_context(lab.host("h100").popen(orphan, user="root")).read_line()
        start_run(client)
        screen = watch(client, lab)
        client.run("stop", "last")
    target.write_text(svg(screen), encoding="utf-8")
    return 0


def at_work(name: str, gpus: tuple[int, ...]) -> Profile:
    """Return a profile whose GPUs work hard: busy, hot, the last of them too hot."""
    resting = load_profile(name)
    working = list(resting.gpus)
    for index in gpus:
        values = resting.gpus[index].values
        limit = int(values["power_limit_mw"] or 0)
        hot = index == gpus[-1] and len(gpus) > 2
        more = {
            "utilization.gpu": str(99 - 7 * index if not hot else 100),
            "power_mw": str(limit * (96 - 3 * index) // 100),
            "temperature.gpu_c": str(61 + index if not hot else 88),
            "throttle_reasons": "0x20" if hot else "0x4",
        }
        working[index] = replace(resting.gpus[index], values={**values, **more})
    return replace(resting, gpus=tuple(working))


def start_run(client: Client) -> None:
    """Start a run of two ranks, each on a GPU, that nobody follows."""
    config = client.home / "run.json"
    document = {"inventory": str(client.inventory), "hosts": ["l40s-01"], "ranks": 2, "detach": True}
    document |= {"run_id": make_run_id("lora"), "script": RUN, "claims": False, "quiet_s": 60.0}
    document["disconnect"] = ["continue", 600.0, 2.0]
    config.write_text(json.dumps(document))
    argv = [sys.executable, "-m", "tests.lab.fault_client", str(config)]
    subprocess.run(argv, cwd=client.home, env=client.env, stdout=subprocess.DEVNULL, check=True, timeout=90)


class DimScreen(pyte.Screen):  # type: ignore[misc]  # pyte has no types
    """A screen that shows faint text in grey, as terminals do; pyte has no attribute for it."""

    def select_graphic_rendition(self, *attrs: int) -> None:
        """Set the attributes of what is drawn from now on."""
        super().select_graphic_rendition(*(90 if each == 2 else each for each in attrs))


def watch(client: Client, lab: Lab) -> pyte.Screen:
    """Return the screen once everything is on it; a host is lost meanwhile."""
    screen = DimScreen(SIZE[1], SIZE[0])
    parser = pyte.ByteStream(screen)
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(client.home)
        os.execve(sys.executable, client.argv("top", "all"), {**client.env, "TERM": "xterm-256color"})
    termios.tcsetwinsize(terminal, SIZE)

    def until(words: str) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while words not in "\n".join(screen.display):
            if time.monotonic() > deadline:
                raise TimeoutError("\n".join(screen.display))
            if select.select([terminal], [], [], 0.2)[0]:
                parser.feed(os.read(terminal, 65536))

    try:
        for words in ("Tesla T4", " ETA ", "/2000", "orphan"):
            until(words)
        lab.host("old").halt()
        until("1 lost")
        until(" min ")  # by the pace of its steps
        os.write(terminal, b"\x1b[B" * 5)
        until(">           5")
        return screen
    finally:
        os.write(terminal, b"\x03")
        os.waitpid(pid, 0)


def svg(screen: pyte.Screen, title: str = "gpulaunch top") -> str:
    """Return a screen as a picture that loads nothing from anywhere."""
    text = Text()
    for number in range(screen.lines):
        for column in range(screen.columns):
            cell = screen.buffer[number][column]
            colour = cell.fg if cell.fg != "default" else ""
            style = " ".join(word for word in (colour, "bold" * cell.bold, "reverse" * cell.reverse) if word)
            text.append(cell.data, style=style.replace("brown", "yellow").replace("brightblack", "grey58"))
        text.append("\n")
    out = Console(record=True, width=screen.columns, file=StringIO(), force_terminal=True)
    out.print(text, end="")
    drawn = out.export_svg(title=title, unique_id="top")
    return re.sub(r"@font-face \{.*?\n    \}\n", "", drawn, flags=re.DOTALL)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
