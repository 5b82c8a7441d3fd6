"""A real sshd on a loopback port for tests that need no namespaces, and endpoints to reach it."""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from getpass import getuser
from pathlib import Path
from typing import Self

from bench.loopback import Loopback
from launcher.transports.base import Connection, Endpoint, OpenOptions
from launcher.transports.ssh.connection import SshOpener

NOT_ASKED = OpenOptions()


class Sshd:
    """A running sshd."""

    def __init__(self, loopback: Loopback) -> None:
        self.port = loopback.port
        self.folder = loopback.folder
        self.identity = loopback.identity
        self.known_hosts = loopback.known_hosts
        self.endpoint = Endpoint(
            name="titan",
            transport="ssh",
            address="127.0.0.1",
            port=loopback.port,
            user=getuser(),
            identity_files=(str(loopback.identity),),
            known_hosts_files=(str(loopback.known_hosts),),
            identity_agent="none",
            connect_timeout_s=8.0,
        )

    def open(self, options: OpenOptions = NOT_ASKED, **changes: object) -> Connection:
        """Open with a fresh opener, so that no test sees another's keys."""
        return SshOpener(options)(replace(self.endpoint, **changes))  # type: ignore[arg-type]

    @classmethod
    @contextmanager
    def up(cls, folder: Path, *options: str) -> Iterator[Self]:
        """Start one."""
        folder.mkdir(exist_ok=True)
        with Loopback.up(folder, 1, options=options) as loopback:
            yield cls(loopback)


ACCEPT_NEW = OpenOptions(accept_new_host_keys=True)


def keygen(path: Path, kind: str, passphrase: str = "") -> Path:
    argv = ["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-C", path.name, "-f", str(path)]
    subprocess.run(argv, check=True)
    return path


def authorize(sshd: Sshd, key: Path) -> None:
    with (sshd.folder / "authorized_keys").open("a") as stream:
        stream.write(Path(f"{key}.pub").read_text())


def fingerprint(key: Path) -> str:
    done = subprocess.run(["ssh-keygen", "-lf", str(key)], check=True, capture_output=True, text=True)
    return done.stdout.split()[1]


def public(key: Path) -> str:
    return " ".join(Path(f"{key}.pub").read_text().split()[:2])


def write(path: Path, text: str) -> tuple[str, ...]:
    path.write_text(text)
    return (str(path),)
