"""A real sshd on a loopback port for tests that need no namespaces, and endpoints to reach it."""

import functools
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from getpass import getuser
from pathlib import Path
from typing import Self

from bench.loopback import Loopback
from launcher.transports.base import Connection, Endpoint, OpenOptions
from launcher.transports.ssh.connection import SshOpener
from tests.lab import needs

NOT_ASKED = OpenOptions()


@functools.cache
def why_no_ssh() -> str:
    """Return why ssh's programs do not run for the user who runs the tests, "" when they do."""
    if shutil.which("ssh") is None or shutil.which("ssh-keygen") is None:
        return "needs ssh: apt-get install openssh-client"
    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        return f"ssh and sshd want an account, and uid {os.getuid()} has none"
    return ""


def require_ssh() -> None:
    """Skip the test where ssh's programs do not run."""
    if why_no_ssh():
        needs.skip_without(why_no_ssh())


@functools.cache
def why_no_login() -> str:
    """Return why nobody can log in over SSH as the user who runs the tests, "" when one can."""
    if why_no_ssh():
        return why_no_ssh()
    if shutil.which("sshd") is None:
        return "needs sshd: apt-get install openssh-server"
    account = pwd.getpwuid(os.getuid())
    shell = account.pw_shell or "/bin/sh"
    if not os.access(shell, os.X_OK) or subprocess.run([shell, "-c", "exit 0"], check=False).returncode:
        return f"the login shell of {account.pw_name}, {shell}, runs no command"
    with tempfile.TemporaryDirectory() as folder, Loopback.up(Path(folder), 1) as loopback:
        login = ["ssh", "-F", str(loopback.ssh_config), loopback.names[0], "exit 0"]
        subprocess.run(login, check=False, capture_output=True)
        refused = re.search(r"User .* not allowed because .*", (loopback.folder / "sshd.log").read_text())
        return f"sshd: {refused[0]}" if refused else ""


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
            ssh_words=("titan",),
        )

    def under_alias(self) -> Endpoint:
        """Return its endpoint with a key that is known whatever its address and port are."""
        with self.known_hosts.open("a") as stream:
            stream.write(f"any-address {public(self.folder / 'host_ed25519')}\n")
        return replace(self.endpoint, host_key_alias="any-address")

    def open(self, options: OpenOptions = NOT_ASKED, **changes: object) -> Connection:
        """Open with a fresh opener, so that no test sees another's keys."""
        return SshOpener(options)(replace(self.endpoint, **changes))  # type: ignore[arg-type]

    @classmethod
    @contextmanager
    def up(cls, folder: Path, *options: str) -> Iterator[Self]:
        """Start one. Skips the test where its user cannot log in."""
        if why_no_login():
            needs.skip_without(why_no_login())
        folder.mkdir(exist_ok=True)
        with Loopback.up(folder, 1, options=options) as loopback:
            yield cls(loopback)


ACCEPT_NEW = OpenOptions(accept_new_host_keys=True)
RSA_BITS = "2048"
"""The fewest that every distribution's ssh takes; a key of 3072, the default, takes five times the CPU."""


def keygen(path: Path, kind: str, passphrase: str = "") -> Path:
    """Make a key. Skips the test where ssh-keygen makes none."""
    require_ssh()
    size = ["-b", RSA_BITS] if kind == "rsa" else []
    argv = ["ssh-keygen", "-q", "-t", kind, *size, "-N", passphrase, "-C", path.name, "-f", str(path)]
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
