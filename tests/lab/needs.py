"""What this machine must have for a lab."""

import ctypes
import functools
import os
import resource
import shutil
import socket
import stat
import subprocess
from pathlib import Path

import pytest

TOOLS = {"/usr/sbin/sshd": "openssh-server", "ip": "iproute2", "nft": "nftables", "ssh": "openssh-client"}
CHECKOUT = Path(__file__).parents[2]
PROBE_TIMEOUT_S = 20.0


def skip_without(reason: str) -> None:
    """Skip the test that runs; with LAB_REQUIRED, as in our CI, fail: it would pass by testing nothing."""
    if os.environ.get("LAB_REQUIRED"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


def require_descriptors(count: int) -> None:
    """Skip the test where a process cannot raise its limit to that many descriptors."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if resource.RLIM_INFINITY != hard < count:
        skip_without(f"needs {count} descriptors, and a process may hold {hard}: ulimit -Hn")


def require_ipv6() -> None:
    """Skip the test where this machine has no ::1. In most containers the kernel has IPv6, switched off."""
    with socket.socket(socket.AF_INET6 if socket.has_ipv6 else socket.AF_INET) as probe:
        try:
            probe.bind(("::1", 0))
        except OSError as error:
            skip_without(f"needs IPv6: {error.strerror or error}")


@functools.cache
def why_no_namespaces() -> str:
    """Return why a test can make no namespaces, as for root in a container, "" when it can."""
    if shutil.which("unshare") is None or shutil.which("nsenter") is None:
        return "needs unshare and nsenter: apt-get install util-linux"
    probe = ["unshare", "--pid", "--uts", "--fork", "--kill-child", "--mount-proc", "true"]
    done = subprocess.run(probe, capture_output=True, text=True, check=False, timeout=PROBE_TIMEOUT_S)
    return f"makes namespaces: {done.stderr.strip()}" if done.returncode else ""


def missing() -> str:
    """Return why no lab can be brought up here, "" when one can."""
    if os.uname().sysname != "Linux" or not hasattr(ctypes.CDLL(None), "unshare"):
        return "the lab needs Linux namespaces"
    if os.geteuid() != 0:
        return "the lab needs root"
    if not all(path.stat().st_mode & stat.S_IROTH for path in (CHECKOUT, CHECKOUT / "tests", Path(__file__))):
        return f"the lab's users cannot read this checkout: chmod -R go+rX {CHECKOUT}"
    absent = sorted({package for tool, package in TOOLS.items() if shutil.which(tool) is None})
    if absent:
        return f"the lab needs: apt-get install {' '.join(absent)}"
    if "overlay" not in Path("/proc/filesystems").read_text():
        return "the lab needs the overlay file system: modprobe overlay"
    probe = [
        "unshare",
        "--net",
        "--mount",
        "--pid",
        "--fork",
        "ip",
        "link",
        "add",
        "glabprobe",
        "type",
        "bridge",
    ]
    done = subprocess.run(probe, capture_output=True, text=True, check=False, timeout=PROBE_TIMEOUT_S)
    return f"the lab needs namespaces and bridges: {done.stderr.strip()}" if done.returncode else ""
