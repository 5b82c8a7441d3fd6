"""A lab of simulated hosts on this machine, and one of its hosts, as the tests use them.

with Lab.up(3, out) as lab:
    lab.hosts[0].run(["hostname"])
"""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from tests.lab import files, layout
from tests.lab.bringup import LabError, down, host_names, let_go, new_spec, shared_directories, start
from tests.lab.gpus import silicon
from tests.lab.layout import HostSpec, LabSpec
from tests.lab.processes import Control, LabProcess

__all__ = ["Lab", "LabError", "LabHost", "LabProcess"]


class LabHost:
    """One simulated host. Its processes see pids, names, files and addresses of their own."""

    def __init__(self, lab: "Lab", spec: HostSpec) -> None:
        self.lab = lab
        self.spec = spec
        self.name = spec.name
        self.address = spec.address
        self.address6 = spec.address6
        self.home = "/root"
        self.user = "root"
        self.control = Control(lab.out, spec.name)
        self.profile = ""
        self._init_pid = 0

    @property
    def init_pid(self) -> int:
        """The pid of its PID 1 as this machine numbers it. Raises OSError when the host is off."""
        if not self._init_pid or not layout.start_time(self._init_pid):
            self._init_pid = self.control.peer_pid()
        return self._init_pid

    def run(
        self,
        argv: Sequence[str],
        *,
        user: str = "root",
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        input_text: str = "",
        timeout_s: float = 60.0,
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run argv to its end, not through SSH. Raises RuntimeError on a failure unless check=False."""
        return self.control.run(
            argv, user=user, env=env, cwd=cwd, input_text=input_text, timeout_s=timeout_s, check=check
        )

    def popen(
        self, argv: Sequence[str], *, user: str = "root", env: Mapping[str, str] | None = None, cwd: str = ""
    ) -> LabProcess:
        """Start argv as a child of the host's PID 1, in a session of its own, stdout and stderr in pipes."""
        return self.control.popen(argv, user=user, env=env, cwd=cwd)

    def path(self, inner: str) -> Path:
        """Return where an absolute path of the host lies for this machine; good for reading and writing."""
        return Path(f"/proc/{self.init_pid}/root{inner}")

    def put(self, inner: str, text: str | bytes, *, user: str = "root", mode: int = 0o644) -> str:
        """Write a file on the host, its directories too; return its path there."""
        target = self.path(inner)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(text if isinstance(text, bytes) else text.encode())
        target.chmod(mode)
        if user != "root":
            entry = self.path(f"/home/{user}").stat()
            os.chown(target, entry.st_uid, entry.st_gid)
        return inner

    def pids(self) -> set[int]:
        """Return every process of the host, zombies included, by its own numbers; none when it is off."""
        try:
            entries = os.listdir(self.path("/proc"))  # noqa: PTH208 - procfs, names are all there is
        except OSError:
            return set()
        return {int(entry) for entry in entries if entry.isdigit()}

    def state(self, pid: int) -> str:
        """Return the state letter of a process (R, S, D, T, Z, ...), "" when there is none."""
        return self._stat(pid)[0]

    def parent(self, pid: int) -> int:
        """Return the parent of a process, 0 when there is none."""
        return int(self._stat(pid)[1] or 0)

    def _stat(self, pid: int) -> list[str]:
        try:
            return self.path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return ["", ""]

    def command(self, pid: int) -> str:
        """Return the command line of a process, its name in brackets for a zombie."""
        try:
            line = (
                self.path(f"/proc/{pid}/cmdline")
                .read_bytes()
                .replace(b"\0", b" ")
                .decode(errors="replace")
                .strip()
            )
            return line or f"[{self.path(f'/proc/{pid}/comm').read_text().strip()}]"
        except OSError:
            return ""

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        """Send a signal to a process of the host; nothing happens when it is gone."""
        if pid <= 1:
            raise ValueError(f"{pid} is no process to send a signal to")
        with contextlib.suppress(RuntimeError, OSError):
            self.control.tell({"op": "kill", "pid": pid, "signal": int(number)})

    def sshd_pid(self) -> int:
        """Return the pid of its listening sshd, 0 when it does not run."""
        try:
            pid = int(self.path("/run/sshd.pid").read_text())
        except (OSError, ValueError):
            return 0
        return pid if self.command(pid).startswith(("sshd:", "/usr/sbin/sshd")) else 0

    def strays(self) -> dict[int, str]:
        """Return the processes that an idle host does not have, with their command lines."""
        resting = {1, self.sshd_pid()}
        return {
            pid: f"{self.state(pid)} {self.command(pid)}"
            for pid in sorted(self.pids() - resting)
            if self.state(pid)
        }

    def strays_after(self, within_s: float = 5.0) -> dict[int, str]:
        """Return the strays still there after within_s, in which sshd closes the sessions of clients."""
        deadline = time.monotonic() + within_s
        while (left := self.strays()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left

    def halt(self) -> None:
        """Cut its power: nobody hears a goodbye."""
        self.lab.switch.tell({"op": "halt", "host": self.name})

    def boot(self) -> None:
        """Start it again: same keys and address, another boot id, everything that was written gone."""
        self.lab.switch.tell({"op": "boot", "host": self.name})
        self._init_pid = 0
        if self.profile:
            silicon().install(self, self.profile)


class Lab:
    """Some hosts, a switch between them, and the files that lead to them."""

    def __init__(self, spec: LabSpec, keeper: "subprocess.Popen[str] | None" = None) -> None:
        self.spec = spec
        self.out = Path(spec.out)
        self.keeper = keeper
        self.switch = Control(self.out, "control")
        self.hosts = tuple(LabHost(self, host) for host in spec.hosts)
        self.jumps: dict[str, str] = {}
        self.inventory_path = self.out / "hosts.yaml"
        self.ssh_config = self.out / "ssh_config"
        self.known_hosts = self.out / "known_hosts"
        self.identity_file = self.out / "id_ed25519"
        self.shared = self.out / "shared"

    @classmethod
    def up(
        cls,
        hosts: int | str | Sequence[str],
        out: Path,
        *,
        profiles: Sequence[str] = (),
        shares: Sequence[Path] = (),
        one_home: bool = False,
        keep: bool = False,
    ) -> Self:
        """Bring a lab up; all its sshd listen when this returns. Raises LabError.

        `hosts` is a count, a node set ("l40s-[01-03]") or names. `profiles` are simulated-GPU
        profiles, one for all or one per host. `shares` are directories that every host sees under the same
        path, beside the checkout, this interpreter and `OUT/shared`. With `one_home` all hosts have one
        home for root, as by NFS. Without `keep` the lab ends with this process, however that ends.
        """
        out = out.resolve()
        if layout.spec_path(out).exists():
            raise LabError(f"{out} already holds a lab; `python -m tests.lab down --out {out}` removes it")
        names = host_names(hosts)
        if not 0 < len(names) <= layout.MAX_HOSTS:
            raise LabError(f"a lab has 1 to {layout.MAX_HOSTS} hosts, not {len(names)}")
        shared = shared_directories(out, shares)
        for directory in (out / "control" / "stage", out / "shared"):
            directory.mkdir(parents=True, exist_ok=True)
        (out / "shared").chmod(0o777)
        spec = new_spec(out, names, shared, files.write_identity(out))
        if one_home:
            spec = replace(spec, home=str(out / "control" / "home"))
            Path(spec.home).mkdir(mode=0o711)
        keeper: subprocess.Popen[str] | None = None
        try:
            layout.save(spec)
            files.write_all(spec, {})
            keeper = start(spec, keep=keep)
            lab = cls(layout.load(out), keeper)
            lab._install(profiles)
        except BaseException:
            down(out)
            if keeper is not None:
                let_go(keeper)
            raise
        return lab

    @classmethod
    def attach(cls, out: Path) -> Self:
        """Return the lab that was brought up in `out` by somebody else. Raises FileNotFoundError."""
        return cls(layout.load(out.resolve()))

    def down(self) -> None:
        """End every process of the lab and remove everything it made; idempotent."""
        down(self.out)
        if self.keeper is not None:
            let_go(self.keeper)

    def host(self, name: str) -> LabHost:
        """Return a host by its name. Raises KeyError."""
        return {host.name: host for host in self.hosts}[name]

    def dead_address(self) -> str:
        """Return an address of the lab's subnet that nobody holds: "no route to host" after about 3 s."""
        return self.spec.address(layout.DEAD)

    def silent_address(self) -> str:
        """Return an address that swallows every packet: a connect runs into its own timeout."""
        return self.spec.address(layout.SILENT)

    def write_files(self) -> None:
        """Write hosts.yaml, ssh_config and known_hosts again, after a change of `jumps`."""
        files.write_all(self.spec, self.jumps)

    def _install(self, profiles: Sequence[str]) -> None:
        if not profiles:
            return
        if len(profiles) not in (1, len(self.hosts)):
            raise LabError(f"{len(profiles)} profiles for {len(self.hosts)} hosts; give one, or one for each")
        for position, host in enumerate(self.hosts):
            host.profile = profiles[position % len(profiles)]
            silicon().install(host, host.profile)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()
