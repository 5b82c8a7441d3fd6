"""Containers and pods of every shape, seen from inside and from their host, whose truth is known.

PID 1 of a container is what its image starts, and it gets every orphan; `docker exec` starts processes beside
it, whose parent is outside. In a pod the containers may share one PID namespace, whose PID 1 is `pause`; with
--pid=host a container has none of its own, and the shim that holds it gets its orphans.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from preflight.leftovers.process_tree import is_launcher, is_rank
from tests.preflight import scenes
from tests.preflight.scenes import ME, PYTHON, ROOT, Scene, elastic

INNER = "4026532999"  # the PID namespace of a container, as its host sees it
VIEWS = ("inside", "outside", "shared")
TORCHRUN = ("/opt/venv/bin/python", "/opt/venv/bin/torchrun", "--nproc-per-node", "2", "train.py")
SHELL = ("bash", "-c", "./start.sh; sleep infinity")
# Each runs one command; a service init starts many, as processes of their own.
COMMAND_INITS = {
    "tini": ("/usr/bin/tini", "--"),
    "docker-init": ("/sbin/docker-init", "--"),
    "dumb-init": ("/usr/bin/dumb-init", "--"),
    "catatonit": ("/usr/bin/catatonit", "--"),
}
SERVICE_INITS = {
    "systemd": ("/sbin/init",),
    "init": ("init [3]",),
    "s6-svscan": ("s6-svscan", "-t0", "/run/service"),
    "runit": ("runit",),
}
UNKNOWN_INITS = {
    "bash": SHELL,
    "sleep": ("sleep", "infinity"),
    "tail": ("tail", "-f", "/dev/null"),
    "supervisord": ("/usr/bin/python3", "/usr/bin/supervisord", "-n"),
    "init": ("/bin/sh", "/init"),  # a script of that name
    "python": ("python", "start.py"),
}


@dataclass
class Container:
    """One container of a scene: what is started in it, and who gets its orphans."""

    scene: Scene
    view: str
    uid: int
    init: int = 0
    known: bool = False  # its init proves adoption
    count: int = 0
    entry: int = 0  # the parent of its PID 1 and of what is started beside it
    env: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.view != "inside":
            self.entry = self.scene.add(
                uid=ROOT, comm="containerd-shim", argv=("/usr/bin/containerd-shim-runc-v2",)
            )

    def add(self, ppid: int, **more: Any) -> int:
        """Start a process in it."""
        self.count += 1
        inside = (self.count,) if self.view == "outside" else ()
        pid = 1 if self.view == "inside" and self.count == 1 else 0
        more["env"] = {**self.env, **more.get("env", {})}
        return self.scene.add(pid=pid, ppid=ppid, inside=inside, uid=self.uid, **more)

    def start(self, comm: str, argv: tuple[str, ...], *, known: bool = False, **more: Any) -> int:
        """Start its PID 1."""
        self.init = self.add(self.entry, comm=comm, argv=argv, **more)
        self.known = known and self.view != "shared"
        return self.init

    def execute(self, **more: Any) -> int:
        """docker exec, kubectl exec."""
        return self.add(self.entry, **more)

    def ranks(self, above: int, **more: Any) -> list[int]:
        """Two ranks under a launcher, the first with a DataLoader worker."""
        env = {**elastic(str(self.count), 0), **more.pop("env", {})}
        first = self.add(above, env=env, gpus=(0,), **more)
        return [
            first,
            self.add(first, env=env, comm="pt_data_worker", gpus=(0,), **more),
            self.add(above, env={**env, "LOCAL_RANK": "1", "RANK": "1"}, gpus=(1,), **more),
        ]

    def end(self, pid: int) -> None:
        """The process dies and is collected: its children go to the init, which --pid=host does not give."""
        self.scene.forget(pid, self.entry if self.view == "shared" else self.init)

    def left_over(self, pids: list[int]) -> None:
        """Note leftovers: they must be found where the init proves it, and may be found elsewhere."""
        (self.scene.provable if self.known else self.scene.allowed).update(pids)


def work_as(place: Container, ppid: int, **more: Any) -> int:
    """Start, as one process, what people start in containers: all of it lives."""
    kind = place.scene.rng.choice(["launcher", "rank", "training", "shell"])
    if kind == "launcher":
        pid = place.add(ppid, comm="torchrun", argv=TORCHRUN, **more)
        place.ranks(pid)
    elif kind == "rank":  # an operator's pod, or a script that hands on the environment of its own launcher
        pid = place.add(
            ppid, argv=PYTHON, gpus=(0,), **{**more, "env": {**more.get("env", {}), **elastic("7", 0)}}
        )
        place.add(pid, comm="pt_data_worker", gpus=(0,))
    elif kind == "training":
        pid = place.add(ppid, argv=PYTHON, gpus=(0,), **more)
        place.add(pid, comm="pt_data_worker", gpus=(0,))
    else:
        pid = place.add(ppid, comm="bash", argv=SHELL, **more)
        place.ranks(pid)
    return pid


def launcher_is_init(place: Container) -> None:
    """docker run IMAGE torchrun ...: PID 1 is the parent of live ranks."""
    argv = place.scene.rng.choice([TORCHRUN, ("python", "-m", "accelerate.commands.launch", "train.py")])
    place.start("torchrun", argv)
    place.ranks(place.init)
    if place.scene.rng.random() < 0.3:  # it started this group anew; a worker of the killed rank stayed
        first, worker, _ = place.ranks(place.init)
        place.end(first)
        place.left_over([worker])


def training_is_init(place: Container) -> None:
    """docker run IMAGE python train.py: PID 1 is the parent of live DataLoader workers."""
    env = elastic("5", 0) if place.scene.rng.random() < 0.5 else {}
    place.start("python", PYTHON, env=env, gpus=(0,))
    for _ in range(2):
        place.add(place.init, comm="pt_data_worker", env=env, gpus=(0,))


def shell_is_init(place: Container) -> None:
    """An entry point that starts launchers and ranks by hand, and waits for them."""
    place.start("bash", SHELL)
    place.ranks(place.init)
    work_as(place, place.init)


def command_init(place: Container) -> None:
    """docker run --init IMAGE ...: the init runs one command, and adopts."""
    comm = place.scene.rng.choice(sorted(COMMAND_INITS))
    rest = place.scene.rng.choice(
        [("bash", "start.sh"), TORCHRUN, ("python", "train.py"), ("sleep", "infinity")]
    )
    env = {"RANK": "0", "WORLD_SIZE": "2"} if place.scene.rng.random() < 0.3 else {}  # as an operator sets it
    place.env = env
    place.start(comm, (*COMMAND_INITS[comm], *rest), known=True)
    init = place.scene.processes[place.init]
    place.known = place.known and not is_launcher(init) and not is_rank(init)
    work_as(place, place.init)


def service_init(place: Container) -> None:
    """A whole system in a container: services that run ranks have a supervisor, or are systemd's own."""
    comm = place.scene.rng.choice(sorted(SERVICE_INITS))
    place.start(comm, SERVICE_INITS[comm], known=True)
    if comm == "systemd":
        pid = work_as(place, place.init)
        inner = place.scene.processes[pid].namespace_pids
        assert isinstance(inner, tuple)
        marks = place.scene.processes[pid].environ
        if isinstance(marks, dict):
            place.scene.set(pid, environ={**marks, "SYSTEMD_EXEC_PID": str(inner[-1])})
    else:
        work_as(place, place.add(place.init, comm="s6-supervise", argv=("s6-supervise", "train")))


def unknown_init(place: Container) -> None:
    """What keeps a container alive: it may have started its children before it became `sleep infinity`."""
    comm = place.scene.rng.choice(sorted(UNKNOWN_INITS))
    place.start(comm, UNKNOWN_INITS[comm])
    for _ in range(place.scene.rng.randint(0, 2)):
        work_as(place, place.init)


def pause_is_init(place: Container) -> None:
    """A pod whose containers share a PID namespace: the main processes of all have their parent outside."""
    place.start("pause", ("/pause",), known=True)
    for _ in range(2):
        work_as(place, place.entry)


SHAPES: tuple[Callable[[Container], None], ...] = (
    launcher_is_init,
    training_is_init,
    shell_is_init,
    command_init,
    service_init,
    unknown_init,
    pause_is_init,
)


def executed(place: Container) -> None:
    """A person's job beside PID 1; its shell may have ended since, and the job lives on."""
    prompt = place.execute(comm="bash", argv=("bash",), tty=True)
    above = place.add(prompt, comm="torchrun", argv=TORCHRUN)
    place.ranks(above)
    if place.scene.rng.random() < 0.5:
        place.end(prompt)


def dead_launch(place: Container) -> None:
    """A launcher beside PID 1 that was killed with -9."""
    above = place.execute(comm="torchrun", argv=TORCHRUN)
    made = place.ranks(above)
    place.end(above)
    place.left_over(made)


def our_run(place: Container) -> None:
    """A run of gpulaunch in the container: its marks hold pids of the container's namespace."""
    supervisor = place.execute(comm="python3", argv=("python3", "-"))
    namespace = INNER if place.view == "outside" else scenes.PIDS
    env = {"GPULAUNCH_RUN_ID": "r1", "GPULAUNCH_SUPERVISOR": place.scene.mark(supervisor, namespace)}
    above = place.add(supervisor, comm="accelerate", argv=TORCHRUN, env=env)
    made = [above, *place.ranks(above, env=env)]
    if place.scene.rng.random() < 0.5:
        return  # it lives, and only the container's own pids say so
    place.end(supervisor)
    if place.view == "outside":
        place.scene.allowed.update(made)
    else:
        place.scene.provable.update(made)


def from_the_host(place: Container) -> None:
    """What a run of the host has started in the container carries a mark that means nothing there."""
    namespace = scenes.PIDS if place.view != "inside" else "4026531000"
    mark = f"{scenes.BOOT}:{namespace}:{scenes.TIMES}:4194304:5"
    made = place.execute(env={"GPULAUNCH_RUN_ID": "r2", "GPULAUNCH_SUPERVISOR": mark}, gpus=(2,))
    if place.view == "shared":
        place.scene.provable.add(made)


STORIES = (executed, dead_launch, our_run, from_the_host)


def container_scene(seed: int) -> Scene:
    """A container, from inside or among the other processes of its host, with some of the stories in it."""
    rng = random.Random(seed)
    view = rng.choice(VIEWS)
    caller = rng.choice([ME, ROOT])
    scene = Scene(rng, caller=caller, machine=view != "inside")
    place = Container(scene, view, uid=rng.choice([caller, caller, ME, ROOT]))
    rng.choice(SHAPES)(place)
    for story in rng.choices(STORIES, k=rng.randint(0, 3)):
        story(place)
    if view != "inside":
        for tale in rng.choices((scenes.live_launch, scenes.on_its_own, scenes.foreign), k=rng.randint(0, 2)):
            tale(scene)
    if rng.random() < 0.1:  # an old kernel, or a security module: which namespace it is in cannot be read
        for pid in rng.sample(sorted(scene.processes), k=len(scene.processes) // 3):
            scene.set(pid, namespace_pids=scenes.UNREADABLE)
            scene.allowed |= scene.provable
            scene.provable.clear()
    return scene


def own(scene: Scene, pids: set[int]) -> set[int]:
    """Return those of the pids that are the caller's own to end."""
    return {pid for pid in pids if scene.processes[pid].uid == scene.caller}


def with_hidden_init(scene: Scene) -> Scene:
    """The same host, mounted so that PID 1 is not seen (hidepid=2)."""
    shown = {pid: each for pid, each in scene.processes.items() if pid != 1}
    return replace(scene, processes=shown, machine=False, rng=random.Random(0))
