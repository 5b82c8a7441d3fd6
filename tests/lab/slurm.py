"""A real Slurm on simulated hosts: a controller, nodes that run `slurmd -N`, munge, devices as GPUs.

The controller lies on the first host, which is the login node too; every other host is a node. A node's GPUs
are devices of /dev that Slurm hands out (gres.conf); nothing of a driver stands behind them.
"""

import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.lab.hosts import Lab, LabHost, LabProcess

TOOLS = {
    "/usr/sbin/slurmctld": "slurmctld",
    "/usr/sbin/slurmd": "slurmd",
    "/usr/bin/srun": "slurm-client",
    "/usr/sbin/munged": "munge",
}
UP_S = 30.0
CPUS = 4
GPUS = 2
GPU_MAJOR = 240  # for local and experimental use (Linux, admin-guide/devices.txt): no driver answers
CONTROLLER = """\
ClusterName=lab
SlurmctldHost={head}({head_address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=/run/munge.sock,cred_expire=5
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/{proctrack}
TaskPlugin=task/{task}
SwitchType=switch/none
ReturnToService=2
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmdSpoolDir=/run/slurmd
StateSaveLocation=/run/slurmctld
SlurmctldLogFile=/run/slurmctld.log
SlurmdLogFile=/run/slurmd.log
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
KillWait=5
UnkillableStepTimeout=20
MinJobAge=300
JobRequeue=1
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
JobAcctGatherType=jobacct_gather/none
PropagateResourceLimits=NONE
"""


FREEZER = "/sys/fs/cgroup/freezer"
DEVICES = "/sys/fs/cgroup/devices"


def without_cgroups() -> str:
    """Return why Slurm cannot track processes by control groups here, "" when it can.

    Slurm's cgroup/v1 plugin needs the freezer hierarchy. Its cgroup/v2 plugin needs systemd, which no host of
    the lab runs (slurm.conf, CgroupPlugin).
    """
    if Path(FREEZER, "cgroup.procs").exists():
        return ""
    return (
        "proctrack/cgroup: this kernel mounts no freezer hierarchy of cgroups v1, and cgroup/v2 needs systemd"
    )


def missing() -> str:
    """Return why Slurm cannot run in a lab here, "" when it can."""
    absent = sorted({package for tool, package in TOOLS.items() if shutil.which(tool) is None})
    return f"Slurm in the lab needs: apt-get install {' '.join(absent)}" if absent else ""


class Slurm:
    """A cluster in a lab. `head` is its login node, `nodes` run the jobs."""

    def __init__(self, lab: Lab, extra: str = "", proctrack: str = "linuxproc") -> None:
        self.lab = lab
        self.proctrack = proctrack
        self.confines = proctrack == "cgroup" and Path(DEVICES, "cgroup.procs").exists()
        self.head, *self.nodes = lab.hosts
        self.conf = Path(lab.spec.out) / "shared" / "slurm.conf"
        self.env = {"SLURM_CONF": str(self.conf)}
        self._daemons: list[LabProcess] = []
        self._write(extra)
        for host in lab.hosts:
            self._boot(host)
        self._daemons.append(self.head.popen(["slurmctld", "-D", "-i"], env=self.env))
        for node in self.nodes:
            self.boot_node(node)
        self.wait_idle(len(self.nodes))

    def _write(self, extra: str) -> None:
        address = self.head.address
        task = "cgroup" if self.confines else "none"
        text = CONTROLLER.format(
            head=self.head.name, head_address=address, proctrack=self.proctrack, task=task
        )
        text += extra
        for node in self.nodes:
            text += (
                f"NodeName={node.name} NodeAddr={node.address} CPUs={CPUS} RealMemory=2000 Gres=gpu:{GPUS}\n"
            )
        text += "PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n"
        self.conf.write_text(text)
        names = ",".join(node.name for node in self.nodes)
        gres = f"NodeName={names} Name=gpu File=/dev/labgpu[0-{GPUS - 1}]\n"
        self.conf.with_name("gres.conf").write_text(gres)
        # Named, or slurmd looks for a cgroup file system, which a host of the lab does not have.
        devices = "ConstrainDevices=yes\n" if self.confines else ""
        self.conf.with_name("cgroup.conf").write_text(f"CgroupPlugin=cgroup/v1\n{devices}")

    def _boot(self, host: LabHost) -> None:
        host.run(["mkdir", "-p", "/run/slurmd", "/run/slurmctld"])
        host.put("/run/munge.key", b"k" * 64, mode=0o400)
        words = ["--force", "--key-file=/run/munge.key", "--socket=/run/munge.sock", "--num-threads=2"]
        files = ["--pid-file=/run/munged.pid", "--log-file=/run/munged.log", "--seed-file=/run/munged.seed"]
        host.run(["munged", *words, *files])

    def boot_node(self, node: LabHost) -> None:
        """Start a node's daemon."""
        for number in range(GPUS):
            node.run(
                ["mknod", "-m", "666", f"/dev/labgpu{number}", "c", str(GPU_MAJOR), str(number)], check=False
            )
        if self.proctrack == "cgroup":
            node.run(["mount", "-t", "tmpfs", "none", "/sys/fs/cgroup"])
            for place in (FREEZER, DEVICES) if self.confines else (FREEZER,):
                name = Path(place).name
                node.run(["mkdir", place])
                node.run(["mount", "-t", "cgroup", "-o", name, name, place])
        self._daemons.append(node.popen(["slurmd", "-D", "-N", node.name], env=self.env))

    def run(
        self,
        *argv: str,
        host: LabHost | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str = "",
        check: bool = True,
        timeout_s: float = 60.0,
    ) -> "subprocess.CompletedProcess[str]":
        """Run a command on the login node, or on another host, to its end."""
        known = {**self.env, **(env or {})}
        return (host or self.head).run(argv, env=known, cwd=cwd, check=check, timeout_s=timeout_s)

    def popen(
        self, argv: Sequence[str], *, env: Mapping[str, str] | None = None, cwd: str = ""
    ) -> LabProcess:
        """Start a command on the login node."""
        return self.head.popen(argv, env={**self.env, **(env or {})}, cwd=cwd)

    def wait_idle(self, count: int, timeout_s: float = UP_S) -> None:
        """Wait until so many nodes are idle."""
        deadline = time.monotonic() + timeout_s
        while True:
            done = self.run("sinfo", "-h", "-p", "main", "-t", "idle", "-o", "%D", check=False)
            if done.stdout.split() == [str(count)]:
                return
            assert time.monotonic() < deadline, self.run("sinfo", "-R", check=False).stdout + self.log()
            time.sleep(0.2)

    def state(self, job: str) -> str:
        """Return the state of a job, "" when the controller knows it no more."""
        done = self.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T", check=False)
        return done.stdout.strip()

    def wait_state(self, job: str, *states: str, timeout_s: float = 120.0) -> str:
        """Wait until a job is in one of these states."""
        deadline = time.monotonic() + timeout_s
        while (state := self.state(job)) not in states:
            assert time.monotonic() < deadline, f"{job} is {state}, not {states}\n{self.log()}"
            time.sleep(0.3)
        return state

    @contextmanager
    def with_settings(self, *lines: str) -> Iterator[None]:
        """Run for a while with more lines in slurm.conf."""
        before = self.conf.read_text()
        self.conf.write_text(before + "".join(f"{line}\n" for line in lines))
        self.run("scontrol", "reconfigure")
        try:
            yield
        finally:
            self.conf.write_text(before)
            self.run("scontrol", "reconfigure")

    def log(self) -> str:
        """Return the last of what the controller wrote."""
        return self.head.path("/run/slurmctld.log").read_text(errors="replace")[-3000:]

    def down(self) -> None:
        """End every daemon."""
        for daemon in self._daemons:
            daemon.kill()
            daemon.close()
        for node in self.nodes if self.proctrack == "cgroup" else ():  # the hierarchy is the machine's own
            places = [f"{place}/slurm_{node.name}" for place in (FREEZER, DEVICES)]
            node.run(["find", *places, "-depth", "-type", "d", "-delete"], check=False)
