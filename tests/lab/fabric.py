"""PID 1 of a lab: holds the bridge, boots the hosts, and takes everything with it when it ends.

Run as `python -m tests.lab.fabric OUT [--keep]` by root. Its PID namespace contains those of all its hosts,
and its network namespace holds one end of every cable, so the kernel removes every process, mount and
interface of the lab when this one process is gone: nothing can leak. Unless --keep is given it ends with its
standard input, so a lab does not survive a test run that is killed with -9.
"""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Never

from tests.lab import kernel, layout, rootfs
from tests.lab.init import PATH, Init, Request
from tests.lab.layout import HostSpec, LabSpec

ISOLATE_LAB = kernel.CLONE_NEWNS | kernel.CLONE_NEWNET | kernel.CLONE_NEWUTS | kernel.CLONE_NEWIPC
ISOLATE_HOST = ISOLATE_LAB | kernel.CLONE_NEWPID
ENVIRONMENT = {"PATH": PATH, "HOME": "/root", "LANG": "C.UTF-8"}


class Fabric:
    """The switch of a lab and the power button of every host."""

    def __init__(self, spec: LabSpec) -> None:
        self.spec = spec
        self.running: dict[str, int] = {}

    def boot(self, hosts: Sequence[HostSpec]) -> None:
        """Start hosts side by side and return when all their sshd listen. Raises RuntimeError."""
        started = [(host, *self._fork(host)) for host in hosts]
        commands = []
        for host, pid, _ in started:
            commands += [
                f"link add name {host.port_name} type veth peer name eth0 address {host.mac} netns {pid}",
                f"link set dev {host.port_name} master br0 up",
            ]
        ip(commands)
        for _, _, channel in started:
            channel.send(b"go")
        failures = [
            f"{host.name}: {answer.decode(errors='replace')}"
            for host, _, channel in started
            if (answer := channel.recv(1 << 16)) != b"ready"
        ]
        if failures:
            raise RuntimeError("\n".join(failures))
        self.running.update({host.name: pid for host, pid, _ in started})

    def _fork(self, host: HostSpec) -> tuple[int, socket.socket]:
        ours, theirs = socket.socketpair()
        middle = os.fork()
        if middle == 0:
            kernel.unshare(ISOLATE_HOST)
            pid = os.fork()
            if pid == 0:
                ours.close()
                live_as_host(self.spec, host, theirs)
            theirs.send(b"%d" % pid)
            os._exit(0)
        theirs_pid = int(ours.recv(32))
        theirs.close()
        os.waitpid(middle, 0)
        return theirs_pid, ours

    def on_boot(self, request: Request) -> dict[str, Any]:
        """Start one host that was halted, or that died."""
        host = next(host for host in self.spec.hosts if host.name == request["host"])
        self.boot([host])
        return {}

    def on_halt(self, request: Request) -> dict[str, Any]:
        """End a host as a power failure does: its cable is dead before its processes are."""
        host = next(host for host in self.spec.hosts if host.name == request["host"])
        pid = self.running.pop(host.name)
        ip([f"link del dev {host.port_name}"])
        with contextlib.suppress(ProcessLookupError, ChildProcessError):  # it may have died by itself
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        return {}


def ip(commands: Sequence[str]) -> None:
    """Run several `ip` commands in one process. Raises RuntimeError with what it printed."""
    done = subprocess.run(
        ["ip", "-batch", "-"], input="\n".join(commands), text=True, capture_output=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"ip: {done.stderr.strip()}")


def live_as_host(spec: LabSpec, host: HostSpec, channel: socket.socket) -> Never:
    """Become PID 1 of a host. Never returns; reports "ready" or what went wrong over channel."""
    try:
        kernel.set_process_name("init")
        kernel.set_command_line("/sbin/init")  # as on a real host, by which it is known that it adopts
        os.setsid()
        listener = listen(Path(spec.out), host.name)
        if channel.recv(2) != b"go":
            os._exit(1)
        rootfs.build(spec, host)
        ip(host_network(spec, host))
        start_sshd()
        channel.send(b"ready")
        channel.close()
        Init(listener).serve()
    except BaseException:  # noqa: BLE001 - told to whoever waits for this host
        channel.send(traceback.format_exc().encode())
    os._exit(1)


def start_sshd() -> None:
    """Start a host's sshd; it listens when this returns. Raises RuntimeError if it does not within 10 s."""
    subprocess.run(["/usr/sbin/sshd"], check=True, capture_output=True)
    deadline = time.monotonic() + 10
    while not Path("/run/sshd.pid").exists():  # sshd goes into the background before it listens
        if time.monotonic() > deadline:
            raise RuntimeError("sshd does not listen")
        time.sleep(0.002)


def host_network(spec: LabSpec, host: HostSpec) -> list[str]:
    """Return the `ip` commands that a host runs for itself."""
    address6 = f"address add {host.address6}/64 dev eth0 nodad"
    return [
        "link set dev lo up",
        "link set dev eth0 up",
        f"address add {host.address}/24 broadcast + dev eth0",
        *([address6] if kernel.allow_ipv6("eth0") else []),
        f"route add default via {spec.address(1)}",
        layout.silent_neighbour(spec, "eth0"),
    ]


def listen(out: Path, name: str) -> socket.socket:
    """Open the control socket OUT/control/NAME.sock, by a relative path: a unix address holds 107 bytes."""
    os.chdir(out / "control")
    Path(f"{name}.sock").unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{name}.sock")
    listener.listen(128)
    os.chdir("/")
    return listener


def live_as_lab(spec: LabSpec, *, keep: bool) -> Never:
    """Become PID 1 of the lab: report on standard output, then serve."""
    try:
        kernel.set_process_name("lab")
        os.setsid()
        kernel.unshare(ISOLATE_LAB)
        kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
        kernel.mount("proc", "/proc", "proc")
        with contextlib.suppress(OSError):  # a switch says nothing of its own
            Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
        listener = listen(Path(spec.out), "control")
        report("cable")
        if sys.stdin.readline() != "plugged\n":
            os._exit(1)
        ip(
            [
                "link set dev lo up",
                "link add name br0 type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
                "link set dev br0 up",
                "link set dev uplink master br0 up",
            ]
        )
        fabric = Fabric(spec)
        fabric.boot(spec.hosts)
        init = Init(listener, {"boot": fabric.on_boot, "halt": fabric.on_halt})
        if not keep:
            init.watch(0, lambda: os._exit(0))
        report("ready")
        init.serve()
    except BaseException:  # noqa: BLE001 - told to whoever brings the lab up
        report(traceback.format_exc())
    os._exit(1)


def report(text: str) -> None:
    """Send one JSON line to whoever brings the lab up."""
    os.write(1, json.dumps(text).encode() + b"\n")


def main(out: str, *, keep: bool) -> int:
    """Start the lab's PID 1 and, unless it is kept, wait for its end."""
    spec = layout.load(Path(out))
    os.environ.clear()
    os.environ.update(ENVIRONMENT)
    os.umask(0o022)
    kernel.unshare(kernel.CLONE_NEWPID)
    pid = os.fork()
    if pid == 0:
        live_as_lab(spec, keep=keep)
    if keep:
        return 0
    os.waitpid(pid, 0)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], keep="--keep" in sys.argv[2:]))
