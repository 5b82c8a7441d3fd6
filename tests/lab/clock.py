"""A fault that the kernel offers no namespace for: the wall clock of one host jumps."""

import shutil
import struct
import subprocess
from pathlib import Path

from tests.lab.hosts import LabHost

SOURCE = Path(__file__).with_name("clock.c")
LIBRARY = "/usr/local/lib/lab-clock.so"
OFFSET = "/run/lab-clock"


def prepare(host: LabHost) -> None:
    """Let every process that starts on the host from now on follow jump(). Raises RuntimeError."""
    compiler = shutil.which("cc")
    if compiler is None:
        raise RuntimeError("the lab's clock needs a C compiler: apt-get install gcc libc6-dev")
    built = host.lab.out / "control" / "clock.so"
    if not built.exists():
        argv = [compiler, "-shared", "-fPIC", "-O2", "-Wall", "-Werror", "-o", str(built), str(SOURCE)]
        subprocess.run(argv, check=True, capture_output=True)
    host.put(OFFSET, struct.pack("=q", 0))
    host.put(LIBRARY, built.read_bytes(), mode=0o755)
    host.put("/etc/ld.so.preload", f"{LIBRARY}\n")


def jump(host: LabHost, offset_s: int) -> None:
    """Set how far the host's wall clock is off; processes that run see it at once."""
    with host.path(OFFSET).open("r+b") as file:
        file.write(struct.pack("=q", offset_s))
