"""Faults of what is installed and configured on a host: names, logins, interpreters, disks."""

import sys

from tests.lab.hosts import LabHost


def resolve_own_name_to(host: LabHost, address: str = "127.0.1.1") -> None:
    """Make a host find another address under its own name, as Debian's installer does."""
    lines = host.path("/etc/hosts").read_text().splitlines()
    kept = [line for line in lines if line.split()[1:] != [host.name]]
    host.put("/etc/hosts", "\n".join([f"{address} {host.name}", *kept]) + "\n")


def restore_own_name(host: LabHost) -> None:
    """Undo resolve_own_name_to()."""
    resolve_own_name_to(host, host.address)


def login_noise(host: LabHost, noise: bytes, *, user: str = "root") -> None:
    """Let every shell of a user print something first, the shells of SSH commands too."""
    home = "/root" if user == "root" else f"/home/{user}"
    host.put(f"{home}/.noise", noise, user=user)
    for name in (".bashrc", ".profile"):
        host.put(f"{home}/{name}", 'cat "$HOME/.noise"\n', user=user)


def quiet_login(host: LabHost, *, user: str = "root") -> None:
    """Undo login_noise()."""
    home = "/root" if user == "root" else f"/home/{user}"
    for name in (".noise", ".bashrc", ".profile"):
        host.path(f"{home}/{name}").unlink(missing_ok=True)


def slow_python(host: LabHost, delay_s: float) -> str:
    """Install an interpreter that starts late; return its path."""
    script = f'#!/bin/sh\nsleep {delay_s}\nexec {sys.executable} "$@"\n'
    return host.put("/usr/local/bin/slow-python", script, mode=0o755)


def garbage_python(host: LabHost, output: bytes = b"\x00\xff\x1b[31mSegmentation fault\n") -> str:
    """Install an interpreter that prints bytes whatever it is asked, and succeeds; return its path."""
    data = host.put("/usr/local/share/garbage", output)
    script = f"#!/bin/sh\ncat {data}\n"
    return host.put("/usr/local/bin/garbage-python", script, mode=0o755)


def crashing_python(host: LabHost, status: int = 1) -> str:
    """Install an interpreter that fails at once; return its path."""
    script = f"#!/bin/sh\necho 'cannot load libpython3.so' >&2\nexit {status}\n"
    return host.put("/usr/local/bin/crashing-python", script, mode=0o755)


def remove_python(host: LabHost) -> None:
    """Remove every `python` and `python3` from the host's PATH; only a boot brings them back."""
    for directory in ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"):
        for name in ("python", "python3"):
            host.path(f"{directory}/{name}").unlink(missing_ok=True)


def small_disk(host: LabHost, path: str, size_kib: int, *, user: str = "root") -> None:
    """Mount a disk of its own, size_kib large, on a directory of the host."""
    host.run(["mkdir", "-p", path])
    host.run(["mount", "-t", "tmpfs", "-o", f"size={size_kib}k,mode=755,uid={user}", "lab-disk", path])


def fill_disk(host: LabHost, path: str) -> str:
    """Write until a disk is full; return the file that fills it."""
    full = f"{path}/fill"
    host.run(["dd", "if=/dev/zero", f"of={full}", "bs=4096"], check=False)
    return full


def remove_disk(host: LabHost, path: str) -> None:
    """Undo small_disk()."""
    host.run(["umount", "-l", path])


def cuda_environment(host: LabHost, torch: str = "2.13.0+cu126") -> str:
    """Install an interpreter whose package metadata show a CUDA build of torch; return its path.

    For what reads metadata only (preflight, plans): nothing that imports torch runs in it.
    """
    place, version = "/opt/train", torch.partition("+cu")[2]
    metadata = f"Metadata-Version: 2.1\nName: torch\nVersion: {torch}\n"
    host.put(f"{place}/lib/torch-{torch}.dist-info/METADATA", metadata)
    host.put(f"{place}/lib/torch/__init__.py", "raise ImportError('metadata only')\n")
    cuda = f"{version[:2]}.{version[2:]}"
    host.put(f"{place}/lib/torch/version.py", f"__version__ = {torch!r}\ncuda: str = {cuda!r}\nhip = None\n")
    script = f'#!/bin/sh\nPYTHONPATH={place}/lib${{PYTHONPATH:+:$PYTHONPATH}} exec {sys.executable} "$@"\n'
    return host.put(f"{place}/bin/python", script, mode=0o755)
