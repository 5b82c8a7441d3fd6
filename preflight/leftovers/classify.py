"""Which processes are leftovers, and the evidence. Pure: facts in, classes out; this module signals nothing.

The rule that keeps this safe: a class that may be ended needs positive proof that what would give the process
a purpose is gone. Whatever could not be read proves nothing. A parent pid of 1 alone proves nothing either: a
launcher under nohup, setsid or systemd has it and lives, and in a container PID 1 may be the launcher itself
(preflight.leftovers.reapers). A pid of another PID namespace proves nothing: in it the pid is another
process's.
"""

from collections.abc import Collection
from enum import Enum

from preflight.facts.host import HostFacts, Process, ProcessTable
from preflight.facts.missing import Missing
from preflight.frozen import dataclass
from preflight.leftovers import process_tree as tree_of
from preflight.leftovers.process_tree import ProcessTree
from preflight.leftovers.reapers import Bond, is_reaper, judge_parentage
from preflight.probes.supervisor_mark import RunMark, parse_mark

DEFAULT_STOPPED_S = 600.0
_SLURM_STEP = "slurmstepd"


class ProcessClass(Enum):
    """What a process is, in the order of how sure it is that it may be ended."""

    DEAD_RUN = "dead-run"  # started by gpulaunch; the supervisor of its run is provably gone
    ORPHAN = "orphan"  # a rank or DataLoader worker whose launcher or rank is gone
    HALF_DEAD = "half-dead"  # zombie leader with live threads that keep files open, or stopped for long
    SUSPECT = "suspect"  # looks left over; not proven
    LIVE = "live"
    FOREIGN = "foreign"  # another user's
    SYSTEM = "system"  # display server, driver daemon, MPS, container or scheduler service
    STUCK = "stuck"  # a leftover in state D: no signal reaches it
    ZOMBIE = "zombie"  # one thread, state Z: holds nothing, only its parent can remove it


ENDED_BY_DEFAULT = frozenset({ProcessClass.DEAD_RUN})
ENDED_AFTER_YES = frozenset({ProcessClass.ORPHAN, ProcessClass.HALF_DEAD})


@dataclass(frozen=True, slots=True)
class HeldResources:
    """What a process keeps from others."""

    gpus: tuple[int, ...]  # GPU indices whose device file it has open
    ports: tuple[int, ...]  # asked-for TCP ports it holds
    listed: tuple[int, ...] = ()  # GPU indices on which the driver names its pid: reported, never acted on

    def __bool__(self) -> bool:
        return bool(self.gpus or self.ports)


@dataclass(frozen=True, slots=True)
class ClassifiedProcess:
    """One process with its class and the evidence for it, each a short clause."""

    process: Process
    kind: ProcessClass
    evidence: tuple[str, ...]
    held: HeldResources


@dataclass(frozen=True, slots=True)
class _Scene:
    """What every rule needs to see."""

    tree: ProcessTree
    boot_id: str
    namespaces: tuple[str, str]  # of pids and of start times; "" where unknown
    unread: frozenset[int]  # processes that exist, and of which nothing more is known
    uid: int
    all_users: bool
    untouchable: frozenset[int]
    frozen: frozenset[tuple[int, int]]  # identities that used no CPU since an earlier look
    idle_gpus: bool
    stopped_s: float


def classify_processes(
    facts: HostFacts,
    *,
    all_users: bool = False,
    stopped_s: float = DEFAULT_STOPPED_S,
    earlier: ProcessTable | None = None,
    named: Collection[int] = (),
) -> tuple[ClassifiedProcess, ...]:
    """Class every process that holds a GPU or an asked-for port, is a rank, a launcher, dead or stopped.

    `named` are the pids of processes that are classed whatever they are.
    `all_users` judges other users' processes by the same rules as the caller's (root only; without root they
    stay FOREIGN). `earlier` is a table read some seconds before: who used no CPU since then may be SUSPECT.
    Returns () when the process table or the identity is Missing: nothing can be proven then.
    """
    if isinstance(facts.processes, Missing) or isinstance(facts.identity, Missing):
        return ()
    table = facts.processes
    scene = _Scene(
        tree=ProcessTree.of(table),
        boot_id=facts.identity.boot_id,
        namespaces=(facts.identity.pid_namespace, facts.identity.time_namespace),
        unread=frozenset(each.pid for each in table.unread),
        uid=facts.identity.uid,
        all_users=all_users and facts.identity.uid == 0,
        untouchable=frozenset({table.agent_pid, *table.ancestors}),
        frozen=_frozen(table, earlier),
        idle_gpus=all(gpu.utilization_percent == 0 for gpu in facts.known_gpus),  # each says so
        stopped_s=stopped_s,
    )
    holdings = {process.pid: find_held_resources(facts, process) for process in table.processes}
    return tuple(
        ClassifiedProcess(process, *_judge(scene, process, holdings[process.pid]), holdings[process.pid])
        for process in table.processes
        if process.pid in named or _matters(process, holdings[process.pid])
    )


def find_held_resources(facts: HostFacts, process: Process) -> HeldResources:
    """Return what the process itself keeps open: GPU device files and asked-for ports.

    The driver's pid lists are not evidence: they name dead parents of forked workers, and in a container the
    pids of another namespace.
    """
    if tree_of.is_dead(process):
        return HeldResources((), ())
    minors = {gpu.device_file: gpu.index for gpu in facts.known_gpus}
    opened = sorted({minors[path] for path in tree_of.get_gpu_files(process) if path in minors})
    ports: set[int] = set()
    if not isinstance(facts.ports, Missing):
        for socket in facts.ports.sockets:
            if not isinstance(socket.pids, Missing) and process.pid in socket.pids:
                ports.add(socket.port)
    return HeldResources(tuple(opened), tuple(sorted(ports)), _listed(facts, process.pid))


def _listed(facts: HostFacts, pid: int) -> tuple[int, ...]:
    if isinstance(facts.identity, Missing) or not facts.identity.initial_pid_namespace:
        return ()
    return tuple(
        gpu.index
        for gpu in facts.known_gpus
        if not isinstance(gpu.processes, Missing) and any(each.pid == pid for each in gpu.processes)
    )


def _frozen(table: ProcessTable, earlier: ProcessTable | None) -> frozenset[tuple[int, int]]:
    if earlier is None:
        return frozenset()
    before = {(process.pid, process.start_ticks): process.cpu_ticks for process in earlier.processes}
    now = {(process.pid, process.start_ticks): process.cpu_ticks for process in table.processes}
    return frozenset(identity for identity, ticks in now.items() if before.get(identity) == ticks)


def _matters(process: Process, holds: HeldResources) -> bool:
    return bool(
        holds
        or holds.listed
        or tree_of.get_gpu_files(process)
        or process.state in ("Z", "X", "T")
        or tree_of.is_rank(process)
        or tree_of.is_data_worker(process)
        or tree_of.is_launcher(process)
        or "GPULAUNCH_RUN_ID" in tree_of.get_environ(process)
    )


Verdict = tuple[ProcessClass, tuple[str, ...]]


def _judge(scene: _Scene, process: Process, holds: HeldResources) -> Verdict:
    shielded = _shield(scene, process)
    if shielded is not None:
        return shielded
    if tree_of.is_dead(process):
        return _zombie(scene, process)
    kind, evidence = _proof(scene, process, holds)
    if kind in ENDED_BY_DEFAULT | ENDED_AFTER_YES and process.state == "D":
        wchan = "" if isinstance(process.wchan, Missing) else f" in {process.wchan}"
        return ProcessClass.STUCK, (*evidence, f"in uninterruptible sleep{wchan}: no signal reaches it")
    return kind, evidence


def _shield(scene: _Scene, process: Process) -> Verdict | None:
    """Who is never ended, whatever else is true."""
    if process.pid in scene.untouchable:
        return ProcessClass.LIVE, ("it is part of the session that asks",)
    if tree_of.is_system(process):
        return ProcessClass.SYSTEM, (f"{process.comm} belongs to the machine",)
    if process.uid != scene.uid and not scene.all_users:
        return ProcessClass.FOREIGN, (f"belongs to {process.user}",)
    if process.uid == 0 and scene.uid != 0:
        return ProcessClass.SYSTEM, ("belongs to root",)
    return None


def _zombie(scene: _Scene, process: Process) -> Verdict:
    parent = scene.tree.parent(process)
    if parent is None or is_reaper(parent):
        return ProcessClass.ZOMBIE, ("already dead, holds nothing", "init will remove it")
    return ProcessClass.ZOMBIE, (
        "already dead, holds nothing",
        f"its parent, pid {parent.pid} ({parent.comm}), has not collected it",
    )


def _proof(scene: _Scene, process: Process, holds: HeldResources) -> Verdict:
    if isinstance(process.environ, Missing) and not tree_of.is_half_dead(process):
        return ProcessClass.LIVE, (
            f"its environment cannot be read ({process.environ.reason}), so nothing is proven",
        )
    proven = _of_a_run(scene, process) or _stopped(scene, process, holds) or _orphan(scene, process, holds)
    return proven or _suspicion(scene, process, holds)


def _of_a_run(scene: _Scene, process: Process) -> Verdict | None:
    """Rule for processes that carry a gpulaunch run id."""
    marks = tree_of.get_environ(process)
    run_id = marks.get("GPULAUNCH_RUN_ID", "")
    if not run_id:
        return None
    mark = parse_mark(marks.get("GPULAUNCH_SUPERVISOR", ""))
    if mark is None or mark.boot_id != scene.boot_id:
        return ProcessClass.SUSPECT, (
            f"carries run {run_id}, but not which supervisor started it in this boot",
        )
    supervisor = _supervisor(scene, mark)
    if supervisor is not None:
        return ProcessClass.LIVE, (f"run {run_id} is live: its supervisor is pid {supervisor.pid}",)
    unproven = _unproven(scene, process, mark)
    if unproven:
        return ProcessClass.SUSPECT, (f"carries run {run_id}", unproven)
    gone = f"run {run_id}: its supervisor (pid {mark.pid}) is gone"
    in_use = _may_be_in_use(scene, process)
    # A tmux or shell that a run once started hands its environment to whatever is typed in it later.
    return (ProcessClass.SUSPECT, (gone, in_use)) if in_use else (ProcessClass.DEAD_RUN, (gone,))


def _supervisor(scene: _Scene, mark: RunMark) -> Process | None:
    """Return the live process that a mark names: by its pid, or by the pid in its own container."""
    if _of_here(scene, mark):
        named = scene.tree.by_pid.get(mark.pid)
        return named if named is not None and scene.tree.is_alive((mark.pid, mark.start_ticks)) else None
    for each in scene.tree.by_pid.values():
        inner = () if isinstance(each.namespace_pids, Missing) else each.namespace_pids
        if inner[1:] and inner[-1] == mark.pid and each.start_ticks == mark.start_ticks:
            return None if tree_of.is_dead(each) else each
    return None


def _of_here(scene: _Scene, mark: RunMark) -> bool:
    """Whether pid and start time of a mark mean the same on this host as where it was written."""
    return all(scene.namespaces) and (mark.pid_namespace, mark.time_namespace) == scene.namespaces


def _unproven(scene: _Scene, process: Process, mark: RunMark) -> str:
    """Return why the absence of the supervisor proves nothing, or ""."""
    if not _of_here(scene, mark):
        return "its supervisor belongs to another PID namespace: gpulaunch cannot determine whether it lives"
    if isinstance(process.namespace_pids, Missing) or len(process.namespace_pids) != 1:
        return "it is not in the PID namespace of its supervisor, as far as can be seen"
    if mark.pid in scene.unread:
        return f"its supervisor, pid {mark.pid}, may hold processes: it cannot be read"
    step = _slurm_step(scene, process)
    if step is not None:  # sbatch hands the environment of a run to the job that it submits
        return f"it is in a job step of Slurm (pid {step.pid})"
    return ""


def _slurm_step(scene: _Scene, process: Process) -> Process | None:
    return next((above for above in scene.tree.ancestors(process) if above.comm == _SLURM_STEP), None)


def _may_be_in_use(scene: _Scene, process: Process) -> str:
    """Return which terminal multiplexer or shell the process is, or has above it, "" for none."""
    line = (process, *scene.tree.ancestors(process))
    shell = next((each for each in line if tree_of.is_interactive(each)), None)
    return f"but {shell.comm} (pid {shell.pid}) may be in use" if shell else ""


def _stopped(scene: _Scene, process: Process, holds: HeldResources) -> Verdict | None:
    """Rule for half-dead processes: they hold what they hold until they are ended."""
    if tree_of.is_half_dead(process):
        if not holds and not tree_of.get_gpu_files(process):
            return ProcessClass.LIVE, (
                "its leader is dead, its threads live on, and it holds no GPU and no asked-for port",
            )
        return ProcessClass.HALF_DEAD, (
            f"its leader is dead, {process.threads - 1} of its threads keep its files open",
        )
    if process.state != "T":
        return None
    step = _slurm_step(scene, process)
    if step is not None:
        return ProcessClass.LIVE, (
            f"stopped, but in a job step of Slurm (pid {step.pid}), which suspends jobs so",
        )
    runner = next((above for above in scene.tree.ancestors(process) if tree_of.is_launcher(above)), None)
    if runner is not None and runner.state != "T":
        return ProcessClass.LIVE, (f"stopped, but its launcher, pid {runner.pid}, runs",)
    if not holds and not tree_of.get_gpu_files(process):
        return ProcessClass.LIVE, ("stopped, and holds no GPU and no asked-for port",)
    if process.age_s < scene.stopped_s:
        return ProcessClass.LIVE, (f"stopped, and only {process.age_s:.0f} s old",)
    return ProcessClass.HALF_DEAD, ("stopped (state T) while it holds what others need",)


def _orphan(scene: _Scene, process: Process, holds: HeldResources) -> Verdict | None:
    """Rule for ranks and DataLoader workers: they never outlive their launcher on purpose."""
    top = _top_of_its_ranks(scene, process)
    if not (holds or tree_of.get_gpu_files(process)) or top is None:
        return None
    origin = judge_parentage(scene.tree, top)
    if origin.bond is Bond.RUN:
        return None
    if origin.bond is Bond.UNCLEAR:
        return ProcessClass.SUSPECT, (
            "it may be a rank or DataLoader worker without its launcher",
            origin.why,
        )
    if tree_of.is_data_worker(top):
        what = "a DataLoader worker whose training process is gone"
    else:
        run = tree_of.get_environ(top)["TORCHELASTIC_RUN_ID"]
        what = f"a rank of torch elastic run {run} whose launcher is gone"
    in_use = _may_be_in_use(scene, process)
    if in_use:
        return ProcessClass.SUSPECT, (what, in_use)
    if top.pid != process.pid:
        return ProcessClass.ORPHAN, (f"belongs to pid {top.pid}, {what}", origin.why)
    return ProcessClass.ORPHAN, (what, origin.why)


def _top_of_its_ranks(scene: _Scene, process: Process) -> Process | None:
    """Climb through ranks and workers; return the top one, None when it is neither."""
    if not _never_alone(process):
        return None
    top = process
    for above in scene.tree.ancestors(process):
        if not _never_alone(above):
            break
        top = above
    return top


def _never_alone(process: Process) -> bool:
    return tree_of.is_data_worker(process) or tree_of.is_elastic_rank(process)


def _suspicion(scene: _Scene, process: Process, holds: HeldResources) -> Verdict:
    held = holds or bool(tree_of.get_gpu_files(process))
    origin = judge_parentage(scene.tree, process)
    adopted = origin.bond is Bond.ADOPTED
    if held and adopted and not tree_of.is_launcher(process):
        frozen = (process.pid, process.start_ticks) in scene.frozen
        if tree_of.is_rank(process):
            return ProcessClass.SUSPECT, (
                "says it is a rank, its parent is gone, but it may have been started by hand",
            )
        if frozen and scene.idle_gpus:
            return ProcessClass.SUSPECT, (
                "its parent is gone, it used no CPU between two looks, and the GPUs are idle",
            )
    if tree_of.is_launcher(process):
        return ProcessClass.LIVE, ("a launcher that runs",)
    if adopted:
        return ProcessClass.LIVE, (
            "runs on its own (nohup, setsid or a service); nothing shows that it is left over",
        )
    return ProcessClass.LIVE, (origin.why,)
