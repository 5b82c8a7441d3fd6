#!/usr/bin/env python3
"""A process that "opens" a simulated GPU: a stand-in for CUDA in tests, in one file of standard library.

It opens the device files as CUDA does, takes memory, and is listed by the simulated NVML under its own pid
until the last process that inherited the opened device is gone. Run it, or import `open_gpu`.
"""

import argparse
import ctypes
import fcntl
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

DEFAULT_STATE = "/run/gpulaunch-silicon"
MIB = 1 << 20
EXCLUSIVE_PROCESS = 3
PROHIBITED = 2


class CudaError(RuntimeError):
    """CUDA's refusal in CUDA's own words. `code` is the cudaError_t."""

    def __init__(self, code: int, words: str) -> None:
        super().__init__("CUDA error: " + words)
        self.code = code


def _busy() -> CudaError:
    return CudaError(46, "CUDA-capable device(s) is/are busy or unavailable")


def _invalid_ordinal() -> CudaError:
    return CudaError(101, "invalid device ordinal")


def _out_of_memory(asked_mib: int, free_mib: int) -> CudaError:
    words = "out of memory. Tried to allocate {}.00 MiB. GPU has {}.00 MiB free"
    return CudaError(2, words.format(asked_mib, free_mib))


def state_directory() -> str:
    """Where the simulated NVML keeps its state on this host."""
    return os.environ.get("SILICON_STATE") or DEFAULT_STATE


def read_state(directory: str) -> dict[str, dict[str, str]]:
    """The state file as sections: "system", "gpu 0", "mig 3 0". Raises OSError where there is no driver."""
    sections: dict[str, dict[str, str]] = {}
    at: dict[str, str] = {}
    for line in (Path(directory) / "state").read_text(encoding="utf-8").split("\n"):
        if line.startswith("["):
            at = sections.setdefault(line.strip("[]"), {})
        elif "=" in line:
            key, _, value = line.partition("=")
            at[key] = value
    return sections


class Registration:
    """One line of the registry: who holds what on which GPU."""

    def __init__(self, gpu: str, pid: int, kind: str, mib: int) -> None:
        self.gpu = gpu
        self.pid = pid
        self.kind = kind
        self.mib = mib

    def line(self) -> bytes:
        """As the library reads it: uuid, pid, kind, MiB, no MIG instances."""
        return f"{self.gpu} {self.pid} {self.kind} {self.mib} - -".encode()


def live_registrations(directory: str) -> list[Registration]:
    """Those whose file is still locked: the kernel drops the lock with the last holder of the device."""
    found = []
    for path in Path(directory, "registry").glob("[!.]*"):
        try:
            with path.open("rb") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    continue  # nobody holds it: the process is gone
                except BlockingIOError:
                    words = file.read().decode().split()
        except OSError:
            continue
        if len(words) == 6:
            found.append(Registration(words[0], int(words[1]), words[2], int(words[3])))
    return sorted(found, key=lambda one: one.pid)


@contextmanager
def _alone(directory: str) -> Iterator[None]:
    """Only one process at a time decides whether a GPU still takes one more."""
    path = Path(directory, "registry", ".lock")
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _listed(gpu: dict[str, str], kind: str) -> list[str]:
    rows = [value.split(" ", 5) for key, value in gpu.items() if key.startswith("process.")]
    return [row[0] for row in rows if kind in row[1] and not row[1].startswith("M")]


def _number(gpu: dict[str, str], key: str, otherwise: int) -> int:
    value = gpu.get(key, "!3")
    return otherwise if value.startswith("!") else int(value, 0)


def free_mib(gpu: dict[str, str], live: list[Registration]) -> int:
    """What the driver still has to give on a GPU."""
    used = _number(gpu, "memory.used_mib", 0) + _number(gpu, "memory.reserved_mib", 0)
    room = _number(gpu, "memory.free_mib", _number(gpu, "memory.total_mib", 0) - used)
    return max(0, room - sum(one.mib for one in live))


def _refuse(gpu: dict[str, str], live: list[Registration], kind: str, mib: int) -> None:
    """Raise CudaError where the driver would not make a context here."""
    mode = _number(gpu, "compute_mode", 0)
    failing = gpu.get("call.*", "") + gpu.get("call.nvmlDeviceGetHandleByIndex", "")
    if mode == PROHIBITED or "return 15" in failing or gpu.get("reset_required") == "1":
        raise _busy()
    others = [one for one in live if "C" in one.kind and one.pid != os.getpid()]
    if kind == "C" and mode == EXCLUSIVE_PROCESS and (others or _listed(gpu, "C")):
        raise _busy()
    room = free_mib(gpu, live)
    if mib > room:
        raise _out_of_memory(mib, room)


def device_files(section: dict[str, str], gpu: dict[str, str], index: int, root: str) -> tuple[str, ...]:
    """The device files that CUDA opens for one GPU; WSL2 has one for all."""
    kind = section.get("device_files", "nvidia")
    if kind == "none":
        return ()
    if kind == "dxg":
        return (root + "/dxg",)
    minor = gpu.get("minor_number", str(index))
    return (root + "/nvidiactl", root + "/nvidia-uvm", root + "/nvidia" + minor)


class Context:
    """An opened GPU. It is held until `close`, or until every process that inherited it has ended."""

    def __init__(self, registration: Registration, descriptor: int, files: tuple[int, ...]) -> None:
        self.registration = registration
        self._descriptor = descriptor
        self._files = files

    def grow(self, mib: int) -> None:
        """Hold this much memory from now on."""
        self.registration.mib = mib
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, self.registration.line(), 0)

    def close(self) -> None:
        """Give the GPU back (this process's share of it)."""
        for descriptor in (*self._files, self._descriptor):
            os.close(descriptor)


def _register(directory: str, registration: Registration) -> int:
    """A locked file that appears in the registry whole; returns the descriptor that holds the lock."""
    registry = Path(directory, "registry")
    name = f"{registration.pid}-{time.monotonic_ns()}"
    hidden = registry / f".{name}"
    descriptor = os.open(hidden, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.write(descriptor, registration.line())
    hidden.rename(registry / name)
    return descriptor


def open_gpu(
    which: str = "0", mib: int = 0, kind: str = "C", directory: str | None = None, device_root: str = "/dev"
) -> Context:
    """Open a GPU by NVML index or UUID and hold `mib` MiB of it. Raises CudaError as CUDA would refuse.

    Device files that do not exist are skipped, so that it works without root outside a simulated host.
    """
    at = directory or state_directory()
    try:
        state = read_state(at)
    except OSError:
        raise CudaError(100, "no CUDA-capable device is detected") from None
    by_uuid = {section.get("uuid"): name for name, section in state.items() if name != "system"}
    name = by_uuid.get(which, "gpu " + which)
    if name not in state:
        raise _invalid_ordinal()
    gpu = state[name]
    with _alone(at):
        live = [one for one in live_registrations(at) if one.gpu == gpu["uuid"]]
        _refuse(gpu, live, kind, mib)
        registration = Registration(gpu["uuid"], os.getpid(), kind, mib)
        descriptor = _register(at, registration)
    index = int(re.sub(r"\D.*", "", name.split(" ")[1]))
    paths = device_files(state["system"], gpu, index, device_root)
    files = tuple(os.open(path, os.O_RDWR) for path in paths if Path(path).exists())
    return Context(registration, descriptor, files)


def set_name(name: str) -> None:
    """What /proc/self/comm says, as torch's DataLoader workers do it."""
    Path("/proc/self/comm").write_text(name[:15], encoding="utf-8")


def _sleep_for_ever() -> NoReturn:
    while True:
        time.sleep(3600)


def fork_workers(count: int) -> list[int]:
    """Children that inherit the device and outlive their parent, as DataLoader workers can."""
    pids = []
    for _ in range(count):
        pid = os.fork()
        if pid == 0:
            set_name("pt_data_worker")
            _sleep_for_ever()
        pids.append(pid)
    return pids


def end_leader() -> None:
    """End the first thread alone, in the way of pthread_exit: what is left shows as a zombie that lives."""
    threading.Thread(target=_sleep_for_ever, daemon=True).start()
    number = {"x86_64": 60, "aarch64": 93}[os.uname().machine]
    ctypes.CDLL(None).syscall(ctypes.c_long(number), ctypes.c_long(0))


def arguments() -> argparse.ArgumentParser:
    """The command line of a test process."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpu", action="append", default=[], help="NVML index or UUID; repeat for more")
    parser.add_argument("--mib", type=int, default=500, help="memory on each GPU")
    parser.add_argument("--kind", default="C", choices=("C", "G", "C+G", "M+C"))
    parser.add_argument("--name", default="", help="what /proc/PID/comm says")
    parser.add_argument("--workers", type=int, default=0, help="forked children that inherit the device")
    parser.add_argument("--exit-after-fork", action="store_true", help="leave the workers without a parent")
    parser.add_argument("--zombie-leader", action="store_true", help="end the first thread, another lives on")
    parser.add_argument("--stop", action="store_true", help="SIGSTOP itself once it holds the GPU")
    parser.add_argument("--ignore-term", action="store_true", help="do not end on SIGTERM and SIGINT")
    parser.add_argument("--seconds", type=float, default=0.0, help="end by itself after so long; 0: never")
    return parser


def main() -> int:
    """Open, say `ready PID [WORKER...]` on stdout, hold."""
    options = arguments().parse_args()
    if options.ignore_term:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
    try:
        held = [open_gpu(which, options.mib, options.kind) for which in options.gpu or ["0"]]
    except CudaError as error:
        sys.stderr.write(f"RuntimeError: {error}\n")
        return 1
    if options.name:
        set_name(options.name)
    workers = fork_workers(options.workers)
    sys.stdout.write("ready {}\n".format(" ".join(str(pid) for pid in [os.getpid(), *workers])))
    sys.stdout.flush()
    if options.exit_after_fork:
        os._exit(0)  # no farewell to the children
    if options.zombie_leader:
        end_leader()
    if options.stop:
        os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(options.seconds or 1e8)
    for context in held:
        context.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
