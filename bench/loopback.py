"""A plain sshd on a loopback port, with its own host key and one user key; no namespaces, no root needed."""

import getpass
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

_START_S = 10.0


@dataclass(frozen=True, slots=True)
class Loopback:
    """A running sshd and the files to reach it by many names."""

    folder: Path
    port: int
    names: list[str]

    @property
    def inventory(self) -> Path:
        """hosts.yaml."""
        return self.folder / "hosts.yaml"

    @property
    def home(self) -> Path:
        """Home of those who log in: this machine's own start-up files may be slow, or wait for a lock."""
        return self.folder / "home"

    @property
    def ssh_config(self) -> Path:
        """For `ssh -F`."""
        return self.folder / "ssh_config"

    @property
    def known_hosts(self) -> Path:
        """Holds the host key under `[127.0.0.1]:PORT`."""
        return self.folder / "known_hosts"

    @property
    def identity(self) -> Path:
        """The user's key."""
        return self.folder / "id_ed25519"

    @classmethod
    @contextmanager
    def up(cls, folder: Path, names: int, *, options: tuple[str, ...] = ()) -> Iterator[Self]:
        """Start sshd, write the files, yield, stop it."""
        loopback = cls(folder, _free_port(), [f"loop{number:03}" for number in range(1, names + 1)])
        for name in ("host_ed25519", "id_ed25519"):
            _keygen(folder / name)
        loopback._write_files(options)
        sshd = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin:/usr/bin") or "sshd"
        Path("/run/sshd").mkdir(exist_ok=True) if Path("/run").stat().st_uid == 0 and _is_root() else None
        log = folder / "sshd.log"
        argv = [sshd, "-D", "-f", str(folder / "sshd_config"), "-E", str(log)]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        try:
            _await_port(loopback.port, process, log)
            yield loopback
        finally:
            process.terminate()
            process.wait()

    def _write_files(self, options: tuple[str, ...]) -> None:
        folder = self.folder
        self.home.mkdir(exist_ok=True)
        (folder / "authorized_keys").write_text(self.identity.with_suffix(".pub").read_text())
        host_key = " ".join((folder / "host_ed25519.pub").read_text().split()[:2])
        self.known_hosts.write_text(f"[127.0.0.1]:{self.port} {host_key}\n")
        settings = (
            f"Port {self.port}",
            "ListenAddress 127.0.0.1",
            f"HostKey {folder / 'host_ed25519'}",
            f"AuthorizedKeysFile {folder / 'authorized_keys'}",
            f"PidFile {folder / 'sshd.pid'}",
            "StrictModes no",
            "UsePAM no",
            "PermitRootLogin yes",
            "PasswordAuthentication no",
            "KbdInteractiveAuthentication no",
            "MaxStartups 1000",
            "UseDNS no",
            f"SetEnv HOME={self.home}",
        )
        given = {option.split()[0].lower() for option in options}
        kept = [line for line in settings if line.split()[0].lower() not in given]
        (folder / "sshd_config").write_text("\n".join((*kept, *options)) + "\n")
        self.ssh_config.write_text(
            f"Host loop*\n  HostName 127.0.0.1\n  Port {self.port}\n  User {getpass.getuser()}\n"
            f"  IdentityFile {self.identity}\n  IdentitiesOnly yes\n  UserKnownHostsFile {self.known_hosts}\n"
            "  BatchMode yes\n"
        )
        self.inventory.write_text("hosts:\n" + "".join(f"  {name}: {{}}\n" for name in self.names))


def _is_root() -> bool:
    return os.geteuid() == 0


def _keygen(path: Path) -> None:
    argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", path.name, "-f", str(path)]
    subprocess.run(argv, check=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _await_port(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"sshd ended with {process.returncode}: {log.read_text()[-1000:]}")
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise RuntimeError(f"sshd did not listen on port {port}: {log.read_text()[-1000:]}")
