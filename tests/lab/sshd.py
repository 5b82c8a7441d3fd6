"""Faults of a host's sshd, and its settings."""

import signal
import time
from collections.abc import Callable

from tests.lab import files
from tests.lab.hosts import LabHost
from tests.lab.rootfs import SSHD_CONFIG

CONFIG = "/etc/ssh/sshd_config"
KEY = "/etc/ssh/ssh_host_ed25519_key"
START_TIMEOUT_S = 10.0
GONE = ("", "Z", "X")  # by then its sockets are closed; its command line is gone earlier


def is_well(host: LabHost) -> bool:
    """Tell whether sshd runs and is not stopped."""
    pid = host.sshd_pid()
    return pid != 0 and host.state(pid) != "T"


def kill(host: LabHost, *, sessions: bool = False) -> None:
    """Kill the listening sshd with -9; its port is refused then. `sessions` kills open connections too."""
    listener = host.sshd_pid()
    found = {pid for pid in host.pids() if host.command(pid).startswith("sshd:")} if sessions else set()
    found |= {listener} if listener else set()
    for pid in found:
        host.kill(pid)
    _await(lambda: all(host.state(pid) in GONE for pid in found), "sshd survives SIGKILL")


def start(host: LabHost) -> None:
    """Start sshd; it listens when this returns. Raises RuntimeError with what sshd said."""
    host.run(
        ["sh", "-c", "/usr/sbin/sshd; exit $?"]
    )  # a session leader below PID 1 would not go to the background
    _await(lambda: bool(host.sshd_pid()), "sshd does not start")


def restart(host: LabHost) -> None:
    """End and start the listening sshd; open connections live on."""
    kill(host)
    start(host)


def freeze(host: LabHost) -> None:
    """Stop the listening sshd: connections are accepted by the kernel, and then nobody says a word."""
    host.kill(_running(host), signal.SIGSTOP)
    _await(lambda: host.state(host.sshd_pid()) == "T", "sshd does not stop")


def thaw(host: LabHost) -> None:
    """Undo freeze()."""
    host.kill(_running(host), signal.SIGCONT)


def configure(host: LabHost, *settings: str) -> None:
    """Put settings in front of sshd's own (the first one counts there) and restart it; none restores it."""
    host.put(CONFIG, "".join(f"{line}\n" for line in settings) + SSHD_CONFIG)
    restart(host)


def set_password(host: LabHost, user: str, password: str) -> None:
    """Give an account a password and let sshd accept passwords."""
    host.run(["chpasswd", "-c", "SHA512"], input_text=f"{user}:{password}\n")
    configure(host, "PasswordAuthentication yes")


def change_host_key(host: LabHost, private: str = "") -> str:
    """Give sshd another host key, a fresh one unless given; return its public line."""
    key = private or files.new_key()[0]
    host.put(KEY, key, mode=0o600)
    restart(host)
    return files.public_line(key)


def restore_host_key(host: LabHost) -> None:
    """Undo change_host_key()."""
    change_host_key(host, host.spec.host_key)


def _running(host: LabHost) -> int:
    pid = host.sshd_pid()
    if not pid:
        raise ProcessLookupError(f"no sshd runs on {host.name}")
    return pid


def _await(done: Callable[[], bool], failure: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while not done():
        if time.monotonic() > deadline:
            raise TimeoutError(failure)
        time.sleep(0.005)
