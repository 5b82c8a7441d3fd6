"""Random process tables whose truth is known: each story adds processes and says which are leftovers."""

import random
from dataclasses import dataclass, field, replace
from typing import Any

from preflight.facts.gpu import Gpu
from preflight.facts.host import BindTest, HostFacts, Identity, Ports, Process, ProcessTable, Socket
from preflight.facts.json_codec import decode
from preflight.facts.missing import Fact, Missing

BOOT = "11111111-2222-3333-4444-555555555555"
PIDS, TIMES = "4026531836", "4026531834"  # the initial namespaces
ME, OTHER, ROOT = 1000, 1001, 0
GONE = f"{BOOT}:{PIDS}:{TIMES}:4194304:5"  # the mark of a supervisor that is not there
USERS = {ME: "ada", OTHER: "ben", ROOT: "root"}
PYTHON = ("/opt/venv/bin/python", "train.py")
UNREADABLE = Missing("not yours to read", "no-permission")


@dataclass
class Scene:
    """A host being told: its processes so far, and the truth about them."""

    rng: random.Random
    processes: dict[int, Process] = field(default_factory=dict)
    provable: set[int] = field(default_factory=set)  # leftovers that must be found
    allowed: set[int] = field(default_factory=set)  # may be chosen, need not be
    theirs: set[int] = field(default_factory=set)  # another user's leftovers: for root, if it asks for them
    ports: dict[int, set[int]] = field(default_factory=dict)
    listed: dict[int, list[int]] = field(default_factory=dict)  # GPU index -> pids the driver names
    clock: int = 1000
    caller: int = ME
    machine: bool = True  # it has systemd as its PID 1; a container gets what its image starts

    def __post_init__(self) -> None:
        if self.machine:
            self.add(pid=1, ppid=0, uid=ROOT, comm="systemd", argv=("/sbin/init",))

    def add(
        self,
        *,
        pid: int = 0,
        inside: tuple[int, ...] = (),
        ppid: int = 1,
        uid: int = ME,
        comm: str = "python",
        argv: tuple[str, ...] = PYTHON,
        env: dict[str, str] | None = None,
        gpus: tuple[int, ...] = (),
        state: str = "S",
        threads: int = 8,
        tty: bool = False,
        age_s: float = 7200.0,
    ) -> int:
        """Add a process younger than everything so far; what the caller may not read is Missing.

        `inside`: its pids in the PID namespaces of containers, the innermost last.
        """
        self.clock += self.rng.randint(1, 50)
        pid = pid or self._free_pid()
        readable = self.caller in (ROOT, uid)
        for gpu in () if comm == "pt_data_worker" else gpus:  # the driver does not name forked workers
            self.listed.setdefault(gpu, []).append(pid)
        files: Fact[tuple[str, ...]] = tuple(f"/dev/nvidia{gpu}" for gpu in gpus)
        marks: Fact[dict[str, str]] = dict(env or {})
        self.processes[pid] = Process(
            pid=pid,
            start_ticks=self.clock,
            ppid=ppid,
            uid=uid,
            user=USERS[uid],
            state=state,
            comm=comm[:15],
            argv=argv,
            age_s=age_s,
            threads=threads,
            tty=tty,
            environ=marks if readable else UNREADABLE,
            gpu_files=files if readable else UNREADABLE,
            wchan="",
            cpu_ticks=self.rng.randint(0, 10**6),
            namespace_pids=(pid, *inside),
        )
        return pid

    def mark(self, pid: int, namespace: str = PIDS) -> str:
        """Return what a supervisor gives to what it starts, in its own PID namespace."""
        process = self.processes[pid]
        assert not isinstance(process.namespace_pids, Missing)
        inner = process.namespace_pids[-1]
        return f"{BOOT}:{namespace}:{TIMES}:{inner}:{process.start_ticks}"

    def _free_pid(self) -> int:
        while True:
            pid = self.rng.randint(300, 60000)
            if pid not in self.processes:
                return pid

    def forget(self, pid: int, adopter: int = 1) -> None:
        """The process dies and is collected; its children are adopted."""
        del self.processes[pid]
        for child, process in list(self.processes.items()):
            if process.ppid == pid:
                self.processes[child] = replace(process, ppid=adopter)

    def set(self, pid: int, **values: Any) -> None:
        """Change fields of a process."""
        self.processes[pid] = replace(self.processes[pid], **values)

    def facts(self) -> HostFacts:
        """The scene as the agent would send it."""
        identity = decode(
            Identity,
            {
                "hostname": "h", "boot_id": BOOT, "uid": self.caller, "user": USERS[self.caller],
                "kernel": "6.1", "now_unix": 1.0, "uptime_s": 1e5, "container": "",
                "initial_pid_namespace": self.machine,
                "pid_namespace": PIDS, "time_namespace": TIMES,
            },
        )  # fmt: skip
        gpus = tuple(
            decode(
                Gpu,
                {
                    "index": index,
                    "minor": index,
                    "utilization_percent": 0,
                    "processes": [{"pid": pid, "kind": "compute"} for pid in self.listed.get(index, [])],
                },
            )
            for index in range(4)
        )
        table = ProcessTable("proc", tuple(self.processes.values()), len(self.processes), 2, (1,))
        sockets = tuple(Socket(p, "0.0.0.0", "LISTEN", ME, tuple(pids)) for p, pids in self.ports.items())
        binds = tuple(BindTest(p, False, "in use") for p in self.ports)
        facts = decode(HostFacts, {"host": "h", "agent_version": "1", "probe_ms": {}})
        return replace(
            facts,
            identity=identity,
            gpus=gpus,
            processes=table,
            ports=Ports("proc", sockets, binds, (), (32768, 60999)),
        )


def elastic(run: str, rank: int) -> dict[str, str]:
    """The environment of a rank of torch elastic."""
    return {"TORCHELASTIC_RUN_ID": run, "RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_PORT": "29500"}


def launcher(scene: Scene, *, uid: int = ME, ppid: int = 1, **more: Any) -> int:
    """A torchrun or accelerate launcher."""
    argv = scene.rng.choice(
        [
            ("/opt/venv/bin/python", "/opt/venv/bin/torchrun", "--nproc-per-node", "2", "train.py"),
            ("/opt/venv/bin/python", "-m", "accelerate.commands.launch", "train.py"),
            ("/opt/venv/bin/python", "-m", "torch.distributed.run", "train.py"),
        ]
    )
    return scene.add(uid=uid, ppid=ppid, argv=argv, **more)


def ranks(
    scene: Scene, above: int, *, uid: int = ME, env: dict[str, str] | None = None, **more: Any
) -> list[int]:
    """Some ranks with DataLoader workers under a launcher; every process holds GPUs."""
    run = str(scene.rng.randint(1, 10**6))
    made: list[int] = []
    for rank in range(scene.rng.randint(1, 3)):
        marks = {**elastic(run, rank), **(env or {})}
        pid = scene.add(ppid=above, uid=uid, env=marks, gpus=(rank,), **more)
        made.append(pid)
        made += [
            scene.add(ppid=pid, uid=uid, comm="pt_data_worker", env=marks, gpus=(rank,), **more)
            for _ in range(scene.rng.randint(0, 2))
        ]
    return made


def shell(scene: Scene, uid: int = ME) -> int:
    """What a person may stand under: ssh, tmux, nothing (nohup, setsid), systemd --user, a batch system."""
    kind = scene.rng.choice(["ssh", "tmux", "none", "systemd", "slurm"])
    if kind == "ssh":
        session = scene.add(uid=uid, comm="sshd", argv=("sshd: x",))
        return scene.add(ppid=session, uid=uid, comm="bash", argv=("-bash",), tty=True)
    if kind == "tmux":
        server = scene.add(uid=uid, comm="tmux: server", argv=("tmux",))
        return scene.add(ppid=server, uid=uid, comm="bash", argv=("-bash",), tty=True)
    if kind == "systemd":
        return scene.add(uid=uid, comm="systemd", argv=("/lib/systemd/systemd", "--user"))
    if kind == "slurm":
        step = scene.add(uid=ROOT, comm="slurmstepd", argv=("slurmstepd",))
        return scene.add(ppid=step, uid=uid, comm="bash", argv=("bash", "job.sh"))
    return 1


def live_launch(scene: Scene, uid: int = ME) -> None:
    """A run whose launcher lives, under whatever."""
    ranks(scene, launcher(scene, uid=uid, ppid=shell(scene, uid)), uid=uid)


def dead_launch(scene: Scene) -> None:
    """The launcher was killed with -9: ranks and workers stay, adopted by init or a subreaper."""
    adopter = 1
    if scene.rng.random() < 0.4:
        adopter = scene.add(comm="systemd", argv=("/lib/systemd/systemd", "--user"))
    above = launcher(scene)
    made = ranks(scene, above)
    scene.forget(above, adopter)
    scene.provable.update(made)


def dead_rank_with_workers(scene: Scene) -> None:
    """A single-process training was killed; its forked workers hold the GPU that NVML blames on the dead."""
    top = scene.add(gpus=(0,))
    workers = [scene.add(ppid=top, comm="pt_data_worker", gpus=(0,)) for _ in range(3)]
    scene.forget(top)
    scene.provable.update(workers)


def our_run(scene: Scene, *, alive: bool) -> None:
    """A run of gpulaunch, live or with its supervisor gone; sometimes another process has taken its pid."""
    supervisor = scene.add(comm="python3", argv=("python3", "-"))
    env = {"GPULAUNCH_RUN_ID": "r1", "GPULAUNCH_SUPERVISOR": scene.mark(supervisor)}
    above = launcher(scene, ppid=supervisor, env=env)
    made = [above, *ranks(scene, above, env=env)]
    if alive:
        return
    scene.forget(supervisor)
    if scene.rng.random() < 0.5:
        taken = scene.add(comm="bash", argv=("bash",))
        scene.processes[supervisor] = replace(scene.processes.pop(taken), pid=supervisor)
    scene.provable.update(made)


def live_work_in_a_shell_of_a_dead_run(scene: Scene) -> None:
    """A tmux server that a run once started gave its environment to what was typed in it later."""
    env = {"GPULAUNCH_RUN_ID": "r0", "GPULAUNCH_SUPERVISOR": GONE, **elastic("9", 0)}
    server = scene.add(comm="tmux: server", argv=("tmux",), env=env)
    prompt = scene.add(ppid=server, comm="bash", argv=("-bash",), env=env, tty=True)
    scene.add(ppid=prompt, env=env, gpus=(0,))


def on_its_own(scene: Scene) -> None:
    """nohup python train.py &, then logged out: parent 1, alive, with live workers."""
    top = scene.add(gpus=(0, 1))
    for _ in range(scene.rng.randint(0, 3)):
        scene.add(ppid=top, comm="pt_data_worker", gpus=(0, 1))


def ranks_started_by_hand(scene: Scene) -> None:
    """RANK=0 LOCAL_RANK=0 nohup python train.py &: parent 1, no launcher ever, alive."""
    for rank in range(2):
        scene.add(env={"RANK": str(rank), "LOCAL_RANK": str(rank), "MASTER_PORT": "29500"}, gpus=(rank,))


def own_launcher_script(scene: Scene) -> None:
    """python start.py uses torch elastic's API: no argv says so, the ranks' parent is alive."""
    ranks(scene, scene.add(ppid=shell(scene), argv=("python", "start.py")))


def notebook(scene: Scene) -> None:
    """A kernel that holds a GPU under a Jupyter server that init adopted."""
    server = scene.add(comm="jupyter-lab", argv=("jupyter-lab",))
    scene.add(ppid=server, argv=("python", "-m", "ipykernel_launcher"), gpus=(0,))


def foreign(scene: Scene) -> None:
    """Another user's leftovers and live runs."""
    live_launch(scene, OTHER)
    above = launcher(scene, uid=OTHER)
    scene.theirs.update(ranks(scene, above, uid=OTHER))
    scene.forget(above)


def machine(scene: Scene) -> None:
    """What a desktop and a GPU node run of their own."""
    for comm in ("Xorg", "nvidia-persistenced", "nv-hostengine", "nvidia-cuda-mps-server", "gnome-shell"):
        scene.add(uid=scene.rng.choice([ROOT, ME]), comm=comm, argv=(comm,), gpus=(0, 1, 2, 3))


def stopped_job(scene: Scene) -> None:
    """Ctrl-Z on a whole job; it keeps its GPUs. Old, it may be ended after a yes, but not under Slurm."""
    old = scene.rng.random() < 0.5
    age = 7200.0 if old else 30.0
    prompt = shell(scene)
    above = launcher(scene, ppid=prompt, state="T", age_s=age)
    made = ranks(scene, above, state="T", age_s=age)
    session = scene.processes.get(scene.processes[prompt].ppid) if prompt in scene.processes else None
    if old and (session is None or session.comm != "slurmstepd"):
        scene.allowed.update(made)


def stopped_rank_of_a_live_run(scene: Scene) -> None:
    """One rank stands still (a debugger did it) while its launcher runs."""
    made = ranks(scene, launcher(scene, ppid=shell(scene)))
    scene.set(made[0], state="T")


def half_dead(scene: Scene) -> None:
    """The leader's thread ended, others live: state Z, and every file stays open."""
    pid = scene.add(ppid=shell(scene), gpus=(2,), state="Z", threads=4)
    scene.provable.add(pid)


def zombies(scene: Scene) -> None:
    """True zombies, under a parent that does not collect, and under init."""
    above = scene.add(comm="bash", argv=("bash",))
    for ppid in (above, 1):
        scene.add(ppid=ppid, state="Z", threads=1, argv=())


def stuck(scene: Scene) -> None:
    """Orphans in uninterruptible sleep: no signal reaches them."""
    above = launcher(scene)
    ranks(scene, above, state="D")
    scene.forget(above)


def port_holder(scene: Scene) -> None:
    """A forked worker of a dead rank still holds the listening socket of the main port."""
    top = scene.add(env=elastic("77", 0))
    worker = scene.add(ppid=top, comm="pt_data_worker", env=elastic("77", 0))
    scene.ports.setdefault(29500, set()).add(worker)
    scene.forget(top)
    scene.provable.add(worker)


STORIES = (
    live_launch,
    dead_launch,
    dead_rank_with_workers,
    lambda scene: our_run(scene, alive=True),
    lambda scene: our_run(scene, alive=False),
    live_work_in_a_shell_of_a_dead_run,
    on_its_own,
    ranks_started_by_hand,
    own_launcher_script,
    notebook,
    foreign,
    machine,
    stopped_job,
    stopped_rank_of_a_live_run,
    half_dead,
    zombies,
    stuck,
    port_holder,
)


def random_scene(seed: int) -> Scene:
    """A host on which some of the stories happened, in random order."""
    rng = random.Random(seed)
    scene = Scene(rng)
    for story in rng.choices(STORIES, k=rng.randint(1, 8)):
        story(scene)
    return scene
