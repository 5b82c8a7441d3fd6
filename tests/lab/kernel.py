"""The few Linux system calls that Python 3.11 does not wrap: namespaces, mounts, host names."""

import ctypes
import os
from pathlib import Path

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_BIND = 0x1000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MNT_DETACH = 0x2

PR_SET_NAME = 15

_libc = ctypes.CDLL(None, use_errno=True)
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}


def _check(result: int, what: str) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def unshare(flags: int) -> None:
    """Move this process into new namespaces. Raises OSError."""
    _check(_libc.unshare(flags), "unshare")


def mount(source: str, target: str, kind: str = "", flags: int = 0, options: str = "") -> None:
    """mount(2). Raises OSError naming the target."""
    result = _libc.mount(
        source.encode(),
        target.encode(),
        kind.encode() or None,
        ctypes.c_ulong(flags),
        options.encode() or None,
    )
    _check(result, f"mount {source} on {target}")


def enter_root(new_root: str) -> None:
    """Make new_root the root of this mount namespace and forget the old one. Raises OSError."""
    os.chdir(new_root)
    number = _SYS_PIVOT_ROOT[os.uname().machine]
    _check(_libc.syscall(number, b".", b"."), f"pivot_root {new_root}")
    _check(_libc.umount2(b".", MNT_DETACH), "umount old root")
    os.chdir("/")


def allow_ipv6(device: str) -> bool:
    """Let a network device of this namespace have IPv6 addresses; False where the kernel has none to give."""
    try:
        Path(f"/proc/sys/net/ipv6/conf/{device}/disable_ipv6").write_text("0")
    except OSError:
        return False
    return True


def set_hostname(name: str) -> None:
    """Set the host name of this UTS namespace. Raises OSError."""
    encoded = name.encode()
    _check(_libc.sethostname(encoded, len(encoded)), "sethostname")


def set_command_line(text: str) -> None:
    """Change what /proc shows as this process's command line; a longer one is cut."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    start, end = int(fields[45]), int(fields[46])  # arg_start and arg_end, fields 48 and 49 of proc(5)
    ctypes.memmove(start, text.encode().ljust(end - start, b"\0")[: end - start], end - start)


def set_process_name(name: str) -> None:
    """Set what `ps -o comm` shows for this process."""
    _check(_libc.prctl(PR_SET_NAME, name.encode(), 0, 0, 0), "prctl")
