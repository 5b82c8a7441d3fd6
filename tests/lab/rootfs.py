"""The file system and accounts of one simulated host, built by its PID 1 before it serves.

The root is an overlay over this machine's root with its changes in memory, so a host may write, rename and
remove anything (even /usr/bin/python3) and no other host sees it. /tmp, /home, /root, /run, /var/log, /dev
and /dev/shm are its own from the start; only the directories in `shares` are the same files everywhere, and
/root where the lab has one home for all.
"""

import os
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path

from tests.lab import kernel
from tests.lab.layout import HostSpec, LabSpec

OWN_DIRECTORIES = (("/tmp", "1777"), ("/home", "755"), ("/root", "711"), ("/run", "755"), ("/var/log", "755"))
DEVICES = (("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0))


@dataclass(frozen=True, slots=True)
class Account:
    """A login of the simulated hosts."""

    name: str
    uid: int
    home: str


ACCOUNTS = (
    Account("root", 0, "/root"),
    Account("alice", 2001, "/home/alice"),
    Account("bob", 2002, "/home/bob"),
)

SSHD_CONFIG = """\
Port 22
HostKey /etc/ssh/ssh_host_ed25519_key
PidFile /run/sshd.pid
AuthorizedKeysFile .ssh/authorized_keys
PermitRootLogin yes
PasswordAuthentication no
KbdInteractiveAuthentication no
UsePAM no
UseDNS no
PrintMotd no
PrintLastLog no
MaxStartups 500
MaxSessions 100
AcceptEnv LANG LC_*
Subsystem sftp internal-sftp
"""


def build(spec: LabSpec, host: HostSpec) -> None:
    """Give the calling process, alone in new mount and PID namespaces, the host's root. Raises OSError."""
    homes = [(spec.home, "/root")] if spec.home else []  # first: the interpreter may lie in /root
    shared = homes + [(path, path) for path in spec.shares]
    shares = [(inner, os.open(path, os.O_PATH | os.O_DIRECTORY)) for path, inner in shared]
    root = _mount_root(Path(spec.out) / "control" / "stage")
    _mount_own(root)
    for path, descriptor in shares:
        Path(root + path).mkdir(parents=True, exist_ok=True)
        kernel.mount(f"/proc/self/fd/{descriptor}", root + path, flags=kernel.MS_BIND | kernel.MS_REC)
    kernel.enter_root(root)
    for _, descriptor in shares:
        os.close(descriptor)
    write_hosts_file(spec)
    _write_identity(host)
    _write_accounts(spec)
    _write_ssh(host)


def _mount_root(stage: Path) -> str:
    kernel.mount("none", "/", flags=kernel.MS_REC | kernel.MS_PRIVATE)
    kernel.mount("proc", "/proc", "proc", kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC)
    kernel.mount("tmpfs", str(stage), "tmpfs", options="mode=755")
    for name in ("upper", "work", "root"):
        (stage / name).mkdir()
    options = f"lowerdir=/,upperdir={stage}/upper,workdir={stage}/work"
    kernel.mount("overlay", f"{stage}/root", "overlay", options=options)
    return f"{stage}/root"


def _mount_own(root: str) -> None:
    guarded = kernel.MS_NOSUID | kernel.MS_NODEV
    for path, mode in OWN_DIRECTORIES:
        Path(root + path).mkdir(parents=True, exist_ok=True)
        kernel.mount("tmpfs", root + path, "tmpfs", guarded, f"mode={mode}")
    kernel.mount("proc", f"{root}/proc", "proc", guarded | kernel.MS_NOEXEC)
    kernel.mount("sysfs", f"{root}/sys", "sysfs", guarded | kernel.MS_NOEXEC)
    kernel.mount("tmpfs", f"{root}/dev", "tmpfs", kernel.MS_NOSUID, "mode=755")
    for name, major, minor in DEVICES:
        os.mknod(f"{root}/dev/{name}", 0o020666, os.makedev(major, minor))
        Path(f"{root}/dev/{name}").chmod(0o666)
    for name in ("pts", "shm"):
        Path(f"{root}/dev/{name}").mkdir()
    kernel.mount(
        "devpts", f"{root}/dev/pts", "devpts", kernel.MS_NOSUID, "newinstance,ptmxmode=0666,mode=620"
    )
    kernel.mount("tmpfs", f"{root}/dev/shm", "tmpfs", guarded, "mode=1777")
    links = {"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "fd/0", "stdout": "fd/1", "stderr": "fd/2"}
    for name, target in links.items():
        Path(f"{root}/dev/{name}").symlink_to(target)


def write_hosts_file(spec: LabSpec) -> None:
    """Write /etc/hosts so that every host knows every other by its name."""
    lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
    lines += [f"{other.address} {other.name}" for other in spec.hosts]
    _replace("/etc/hosts", "\n".join(lines) + "\n")


def _write_identity(host: HostSpec) -> None:
    kernel.set_hostname(host.name)
    _replace("/etc/hostname", host.name + "\n")
    _replace("/etc/machine-id", host.machine_id + "\n")
    _replace("/etc/resolv.conf", "")  # no name server: an unknown name fails at once
    boot_id = Path("/run/boot_id")
    boot_id.write_text(f"{uuid.uuid4()}\n")
    kernel.mount(str(boot_id), "/proc/sys/kernel/random/boot_id", flags=kernel.MS_BIND)


def _write_accounts(spec: LabSpec) -> None:
    names = {account.name for account in ACCOUNTS}
    for path in ("/etc/passwd", "/etc/group", "/etc/shadow"):
        kept = [line for line in Path(path).read_text().splitlines() if line.partition(":")[0] not in names]
        _replace(path, "\n".join([*(_entry(path, account) for account in ACCOUNTS), *kept]) + "\n")
    Path("/etc/shadow").chmod(0o640)
    for account in ACCOUNTS:
        home = Path(account.home)
        if account.uid:
            shutil.copytree("/etc/skel", home)
        ssh = home / ".ssh"
        ssh.mkdir(mode=0o700, exist_ok=True)  # another host may share the home
        (ssh / "authorized_keys").write_text(spec.authorized_key + "\n")
        for owned in (home, *home.rglob("*")) if account.uid else ():
            os.chown(owned, account.uid, account.uid)


def _entry(path: str, account: Account) -> str:
    if path == "/etc/passwd":
        return f"{account.name}:x:{account.uid}:{account.uid}::{account.home}:/bin/bash"
    if path == "/etc/group":
        return f"{account.name}:x:{account.uid}:"
    return f"{account.name}:*:19000:0:99999:7:::"


def _write_ssh(host: HostSpec) -> None:
    Path("/run/sshd").mkdir(mode=0o755)
    for old in Path("/etc/ssh").glob("ssh_host_*"):
        old.unlink()
    shutil.rmtree("/etc/ssh/sshd_config.d", ignore_errors=True)
    _replace("/etc/ssh/sshd_config", SSHD_CONFIG)
    key = Path("/etc/ssh/ssh_host_ed25519_key")
    key.touch(mode=0o600)
    key.write_text(host.host_key)


def _replace(path: str, text: str) -> None:
    """Write a new file in place of whatever is there, a dangling link included."""
    target = Path(path)
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o644
    target.unlink(missing_ok=True)
    target.write_text(text)
    target.chmod(mode)
