"""The rules of what a process is, at their limits: one fact more or less decides."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from preflight.facts.gpu import Gpu
from preflight.facts.host import HostFacts, Identity, ProcessTable
from preflight.facts.missing import Missing
from preflight.leftovers.classify import ClassifiedProcess, ProcessClass, classify_processes
from preflight.leftovers.process_tree import ProcessTree, is_dead, is_half_dead, is_interactive, is_launcher
from tests.preflight import scenes
from tests.preflight.scenes import PIDS, ROOT, TIMES, Scene

UNREAD = Missing("denied", "no-permission")


def scene_of(**options: Any) -> Scene:
    return Scene(random.Random(1), **options)


def judged(scene: Scene, pid: int, facts: HostFacts | None = None, **options: Any) -> ClassifiedProcess:
    found = {each.process.pid: each for each in classify_processes(facts or scene.facts(), **options)}
    return found[pid]


def identity(facts: HostFacts, **changes: Any) -> HostFacts:
    assert isinstance(facts.identity, Identity)
    return replace(facts, identity=replace(facts.identity, **changes))


def gpus(facts: HostFacts, change: Callable[[Gpu], Gpu]) -> HostFacts:
    assert not isinstance(facts.gpus, Missing)
    return replace(facts, gpus=tuple(change(each) for each in facts.gpus))


def stopped(scene: Scene, **options: Any) -> int:
    return scene.add(gpus=(0,), state="T", **options)


@pytest.mark.parametrize(
    ("age_s", "options", "kind"),
    [
        (599.9, {}, ProcessClass.LIVE),
        (600.0, {}, ProcessClass.HALF_DEAD),
        (600.5, {}, ProcessClass.HALF_DEAD),
        (59.0, {"stopped_s": 60.0}, ProcessClass.LIVE),
        (60.0, {"stopped_s": 60.0}, ProcessClass.HALF_DEAD),
    ],
)
def test_what_is_stopped_and_ten_minutes_old_may_be_ended(
    age_s: float, options: dict[str, Any], kind: ProcessClass
) -> None:
    scene = scene_of()
    pid = stopped(scene, age_s=age_s)
    assert judged(scene, pid, **options).kind is kind


def test_a_stopped_process_is_live_while_its_launcher_runs_however_far_above() -> None:
    scene = scene_of()
    wrapper = scene.add(ppid=scenes.launcher(scene), argv=("sh", "-c", "python train.py"))
    pid = stopped(scene, ppid=wrapper)
    assert (judged(scene, pid).kind, "its launcher" in judged(scene, pid).evidence[0]) == (
        ProcessClass.LIVE,
        True,
    )
    plain = stopped(scene, ppid=scene.add(argv=("python", "start.py")))
    assert judged(scene, plain).kind is ProcessClass.HALF_DEAD


@pytest.mark.parametrize("state", ["T", "Z"])
@pytest.mark.parametrize(
    ("holds", "kind"),
    [("file", ProcessClass.HALF_DEAD), ("port", ProcessClass.HALF_DEAD), ("", ProcessClass.LIVE)],
)
def test_what_stands_still_is_ended_for_a_gpu_file_or_a_port_alone(
    state: str, holds: str, kind: ProcessClass
) -> None:
    """The file of a GPU that the driver does not list any more counts too."""
    scene = scene_of()
    pid = scene.add(state=state, threads=4)
    if holds == "file":
        scene.set(pid, gpu_files=("/dev/nvidia7",))
    if holds == "port":
        scene.ports[29500] = {pid}
    assert judged(scene, pid).kind is kind


def test_a_half_dead_process_is_judged_without_its_environment() -> None:
    """A leader that has ended has no environment left to read."""
    scene = scene_of()
    dead, live = scene.add(state="Z", threads=3, gpus=(0,)), scene.add(gpus=(0,))
    for pid in (dead, live):
        scene.set(pid, environ=UNREAD)
    assert judged(scene, dead).kind is ProcessClass.HALF_DEAD
    assert "2 of its threads" in judged(scene, dead).evidence[0]
    assert judged(scene, live).kind is ProcessClass.LIVE


@pytest.mark.parametrize(
    ("minor", "path", "index"),
    [(UNREAD, "/dev/nvidia1", 1), (5, "/dev/nvidia5", 1), (5, "/dev/nvidia1", None)],
)
def test_a_gpu_is_held_by_its_device_file_whose_number_is_the_minor(
    minor: Any, path: str, index: int | None
) -> None:
    scene = scene_of()
    pid = scene.add(env=scenes.elastic("1", 0))
    scene.set(pid, gpu_files=(path,))
    facts = gpus(scene.facts(), lambda each: replace(each, minor=minor) if each.index == 1 else each)
    assert judged(scene, pid, facts).held.gpus == (() if index is None else (index,))


@pytest.mark.parametrize(("initial", "listed"), [(True, (0,)), (False, ())])
def test_the_pids_of_the_driver_are_those_of_the_initial_namespace(
    initial: bool,  # noqa: FBT001
    listed: tuple[int, ...],
) -> None:
    scene = scene_of()
    pid = scene.add(gpus=(0,))
    facts = identity(scene.facts(), initial_pid_namespace=initial)
    assert judged(scene, pid, facts).held.listed == listed


@pytest.mark.parametrize(
    ("busy", "kind"),
    [
        ((0, 0, 0, 0), ProcessClass.SUSPECT),
        ((0, 0, 0, 1), ProcessClass.LIVE),
        ((1, 0, 0, 0), ProcessClass.LIVE),
        ((UNREAD,) * 4, ProcessClass.LIVE),
    ],
)
def test_an_orphan_is_suspect_only_where_every_gpu_is_idle(busy: tuple[Any, ...], kind: ProcessClass) -> None:
    scene = scene_of()
    pid = scene.add(gpus=(0,))
    facts = gpus(scene.facts(), lambda each: replace(each, utilization_percent=busy[each.index]))
    assert isinstance(facts.processes, ProcessTable)
    assert judged(scene, pid, facts, earlier=facts.processes).kind is kind


def test_a_launcher_that_lost_its_parent_is_no_suspect() -> None:
    scene = scene_of()
    launcher = scenes.launcher(scene, gpus=(0,))
    facts = scene.facts()
    assert isinstance(facts.processes, ProcessTable)
    found = judged(scene, launcher, facts, earlier=facts.processes)
    assert (found.kind, found.evidence) == (ProcessClass.LIVE, ("a launcher that runs",))


def test_why_a_process_lives_is_what_its_parent_proves() -> None:
    scene = scene_of()
    child = scene.add(ppid=scene.add(argv=("python", "start.py")), gpus=(0,))
    alone = scene.add(gpus=(0,))
    assert "is alive" in judged(scene, child).evidence[0]
    assert "runs on its own" in judged(scene, alone).evidence[0]


@pytest.mark.parametrize(("wchan", "words"), [("nfs_wait", "sleep in nfs_wait: no"), (UNREAD, "sleep: no")])
def test_where_the_kernel_holds_a_stuck_process_is_named_if_it_can_be_read(wchan: Any, words: str) -> None:
    scene = scene_of()
    above = scenes.launcher(scene)
    pid = scene.add(ppid=above, env=scenes.elastic("1", 0), gpus=(0,), state="D")
    scene.set(pid, wchan=wchan)
    scene.forget(above)
    found = judged(scene, pid)
    assert (found.kind, words in found.evidence[-1]) == (ProcessClass.STUCK, True)


def test_roots_process_is_not_touched_by_another_user_and_is_by_root() -> None:
    """A uid of 1 is no root."""
    env = {"GPULAUNCH_RUN_ID": "r1", "GPULAUNCH_SUPERVISOR": scenes.GONE}
    mine = scene_of(caller=ROOT)
    pid = mine.add(uid=ROOT, env=env, gpus=(0,))
    assert judged(mine, pid).kind is ProcessClass.DEAD_RUN
    daemon = scene_of()
    pid = daemon.add(env=env, gpus=(0,))
    facts = identity(daemon.facts(), uid=1)
    daemon.set(pid, uid=1)
    table = ProcessTable("proc", tuple(daemon.processes.values()), 2, 2, (1,))
    assert judged(daemon, pid, replace(facts, processes=table)).kind is ProcessClass.DEAD_RUN


@pytest.mark.parametrize(
    ("parent", "words"),
    [({}, "init will remove it"), ({"comm": "bash", "argv": ("bash",)}, "has not collected it")],
)
def test_a_zombie_is_left_to_its_parent_or_to_init(parent: dict[str, Any], words: str) -> None:
    scene = scene_of()
    above = scene.add(**parent) if parent else 1
    pid = scene.add(ppid=above, state="Z", threads=1, argv=())
    assert words in judged(scene, pid).evidence[1]
    scene.set(pid, ppid=77777)  # whose parent is not in the table
    assert "init will remove it" in judged(scene, pid).evidence[1]


@pytest.mark.parametrize(
    ("pids", "times", "kind"),
    [
        (PIDS, TIMES, ProcessClass.DEAD_RUN),
        (PIDS, "", ProcessClass.SUSPECT),
        ("", TIMES, ProcessClass.SUSPECT),
    ],
)
def test_a_namespace_that_neither_side_knows_is_not_the_same_one(
    pids: str, times: str, kind: ProcessClass
) -> None:
    scene = scene_of()
    mark = f"{scenes.BOOT}:{pids or 0}:{times or 0}:4194304:5"
    pid = scene.add(env={"GPULAUNCH_RUN_ID": "r1", "GPULAUNCH_SUPERVISOR": mark}, gpus=(0,))
    facts = identity(scene.facts(), pid_namespace=pids, time_namespace=times)
    assert judged(scene, pid, facts).kind is kind


def test_a_worker_below_an_orphaned_rank_is_shown_with_the_rank() -> None:
    scene = scene_of()
    above = scenes.launcher(scene)
    env = scenes.elastic("5", 0)
    rank = scene.add(ppid=above, env=env, gpus=(0,))
    worker = scene.add(ppid=rank, comm="pt_data_worker", env=env, gpus=(0,))
    scene.forget(above)
    assert judged(scene, rank).evidence[0] == "a rank of torch elastic run 5 whose launcher is gone"
    assert judged(scene, worker).evidence[0].startswith(f"belongs to pid {rank}, a rank of torch elastic")


def test_a_launcher_between_ranks_ends_the_climb() -> None:
    """A rank that starts a launch of its own: the inner ranks are under a launcher that lives."""
    scene = scene_of()
    outer = scenes.launcher(scene)
    rank = scene.add(ppid=outer, env=scenes.elastic("1", 0), gpus=(0,))
    inner = scenes.launcher(scene, ppid=rank, env=scenes.elastic("1", 0))
    pid = scene.add(ppid=inner, env=scenes.elastic("2", 0), gpus=(0,))
    scene.forget(outer)
    assert (judged(scene, rank).kind, judged(scene, pid).kind) == (ProcessClass.ORPHAN, ProcessClass.LIVE)


@pytest.mark.parametrize("holds", ["gpu", "port"])
def test_a_rank_started_by_hand_is_suspect_for_a_gpu_or_a_port(holds: str) -> None:
    scene = scene_of()
    pid = scene.add(env={"RANK": "0"}, gpus=(0,) if holds == "gpu" else ())
    if holds == "port":
        scene.ports[29500] = {pid}
    assert judged(scene, pid).kind is ProcessClass.SUSPECT


@pytest.mark.parametrize(
    ("ticks", "is_parent"), [(-1, True), (0, True), (1, False)], ids=["older", "of one tick", "younger"]
)
def test_a_parent_is_not_younger_than_its_child(ticks: int, *, is_parent: bool) -> None:
    scene = scene_of()
    above = scene.add()
    child = scene.add(ppid=above)
    scene.set(above, start_ticks=scene.processes[child].start_ticks + ticks)
    tree = ProcessTree(scene.processes)
    assert (tree.parent(scene.processes[child]) is not None) is is_parent


@pytest.mark.parametrize(
    ("state", "threads", "dead", "half"),
    [
        ("Z", 0, True, False),
        ("Z", 1, True, False),
        ("Z", 2, False, True),
        ("X", 1, True, False),
        ("S", 1, False, False),
        ("S", 2, False, False),
    ],
)
def test_a_dead_leader_with_one_thread_more_is_half_dead(
    state: str, threads: int, *, dead: bool, half: bool
) -> None:
    scene = scene_of()
    process = scene.processes[scene.add(state=state, threads=threads)]
    assert (is_dead(process), is_half_dead(process)) == (dead, half)


@pytest.mark.parametrize(
    ("comm", "tty", "interactive"),
    [
        ("bash", True, True),
        ("-zsh", True, True),
        ("bash", False, False),  # a script
        ("python", True, False),  # a training in the foreground
        ("tmux: server", False, True),
        ("screen", True, True),
    ],
)
def test_a_shell_on_a_terminal_or_a_multiplexer_may_be_in_use(
    comm: str, *, tty: bool, interactive: bool
) -> None:
    scene = scene_of()
    assert is_interactive(scene.processes[scene.add(comm=comm, tty=tty)]) is interactive


@pytest.mark.parametrize(("before", "launches"), [(5, True), (6, False)])
def test_a_launcher_is_named_among_the_first_words(before: int, *, launches: bool) -> None:
    """Further back it is an argument of the user's own program."""
    scene = scene_of()
    argv = (*("-x" for _ in range(before)), "torchrun", "train.py")
    assert is_launcher(scene.processes[scene.add(argv=argv)]) is launches
