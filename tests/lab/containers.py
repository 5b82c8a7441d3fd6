"""Real containers on the lab's hosts: podman with runc, one small image with this machine's /usr inside."""

import shlex
import shutil
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tests.lab.hosts import Lab, LabHost

TOOLS = ("podman", "runc", "conmon")
CGROUPS = Path("/sys/fs/cgroup")
NAME = "train"
# A host's root is an overlay already, on which podman's own would not mount; its /tmp is a tmpfs.
_STORAGE = (
    '[storage]\ndriver = "overlay"\nrunroot = "/tmp/containers/run"\ngraphroot = "/tmp/containers/store"\n'
)
_RUNTIME = '[engine]\nruntime = "runc"\ncgroup_manager = "cgroupfs"\nevents_logger = "file"\n'
_ROOT_FILES = r"""
set -e
mkdir -p /tmp/containers/root && cd /tmp/containers/root
mkdir -p proc sys dev etc tmp root usr run var/tmp
for name in bin lib lib64 sbin; do ln -s usr/$name $name; done
printf 'root:x:0:0:root:/root:/bin/sh\n' >etc/passwd
printf 'root:x:0:\n' >etc/group
tar -cf - . | podman import - gpulaunch-lab:1
"""


@cache
def missing() -> str:
    """Return why no container can run on this machine, "" where one can; one is tried."""
    absent = [tool for tool in TOOLS if shutil.which(tool) is None]
    if absent:
        return f"containers need: apt-get install --no-install-recommends podman runc ({', '.join(absent)})"
    if not any(CGROUPS.iterdir()):
        return f"containers need control groups, and {CGROUPS} is empty"
    return ""


def start(host: LabHost, shares: Sequence[str], name: str = NAME) -> None:
    """Start a container that does nothing, in the network of its host, with what every host shares.

    Raises RuntimeError with what podman said.
    """
    host.put("/etc/containers/storage.conf", _STORAGE)
    host.put("/etc/containers/containers.conf", _RUNTIME)
    seen = [word for path in ("/usr", *shares) for word in ("-v", f"{path}:{path}")]
    run = ["podman", "run", "-d", "--name", name, "--network", "host", "--ulimit", "nofile=1024:1024"]
    run += ["--ulimit", "nproc=1000:1000", *seen, "gpulaunch-lab:1", "sleep", "infinity"]
    host.run(["sh", "-c", f"{_ROOT_FILES}\n{shlex.join(run)}"])


def podman(host: LabHost, *words: str) -> "subprocess.CompletedProcess[str]":
    """Run podman on a host."""
    return host.run(["podman", *words])


def shares_of(lab: Lab) -> list[str]:
    """Return the directories that the containers of a lab see beside /usr."""
    return [path for path in lab.spec.shares if path != str(CGROUPS)]
