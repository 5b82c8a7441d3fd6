"""Who is a leftover in containers and pods: nothing that lives is ended, from wherever it is looked at."""

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.facts.host import HostFacts, Identity, ProcessTable, UnreadableProcess
from preflight.leftovers.classify import ClassifiedProcess, ProcessClass, classify_processes
from preflight.leftovers.selection import CleanFilter, select_to_kill
from tests.preflight import container_scenes as containers
from tests.preflight import scenes
from tests.preflight.container_scenes import Container, container_scene, own, with_hidden_init
from tests.preflight.scenes import ME, PIDS, ROOT, Scene


def picked(facts: HostFacts, *, all_users: bool = False) -> set[int]:
    choice = select_to_kill(classify_processes(facts, all_users=all_users), CleanFilter())
    return {each.process.pid for each in (*choice.automatic, *choice.needs_confirmation)}


def kinds(scene: Scene) -> dict[int, ProcessClass]:
    return {each.process.pid: each.kind for each in classify_processes(scene.facts())}


def inside(init: str = "", argv: tuple[str, ...] = (), *, known: bool = False) -> Container:
    place = Container(Scene(random.Random(1), caller=ROOT, machine=False), "inside", ROOT)
    if init:
        place.start(init, argv, known=known)
    return place


@settings(max_examples=400, deadline=None)
@given(st.integers(min_value=0, max_value=2**32))
def test_nothing_that_lives_in_a_container_is_chosen_and_what_is_proven_is(seed: int) -> None:
    scene = container_scene(seed)
    chosen = picked(scene.facts())
    assert chosen <= own(scene, scene.provable | scene.allowed)
    assert chosen >= own(scene, scene.provable)
    everybody = picked(scene.facts(), all_users=True)
    assert everybody <= scene.provable | scene.allowed | scene.theirs


@settings(max_examples=150, deadline=None)
@given(st.integers(min_value=0, max_value=2**32))
def test_where_the_init_cannot_be_seen_no_orphan_is_proven(seed: int) -> None:
    scene = with_hidden_init(container_scene(seed))
    found = classify_processes(scene.facts())
    under = {ProcessClass.ORPHAN} & {each.kind for each in found if each.process.ppid == 1}
    assert not under


@pytest.mark.parametrize("view", containers.VIEWS)
@pytest.mark.parametrize("shape", containers.SHAPES, ids=lambda shape: shape.__name__)
def test_every_shape_is_judged_from_every_side(shape: Callable[[Container], None], view: str) -> None:
    """Each shape with a job beside it: nothing but what it left over itself is chosen."""
    for seed in range(8):
        scene = Scene(random.Random(seed), caller=ROOT, machine=view != "inside")
        place = Container(scene, view, ROOT)
        shape(place)
        containers.executed(place)
        assert picked(scene.facts()) <= scene.provable | scene.allowed


@pytest.mark.parametrize(
    ("comm", "argv"),
    [
        ("torchrun", containers.TORCHRUN),
        ("bash", containers.SHELL),
        ("sleep", ("sleep", "infinity")),
        ("supervisord", ("/usr/bin/python3", "/usr/bin/supervisord")),
        ("init", ("/bin/sh", "/init")),
        ("systemd", ("python", "systemd")),
        ("tini", ("tini", "--", *containers.TORCHRUN)),
        ("busybox", ("busybox", "sh")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_rank_under_such_a_pid_1_is_no_orphan_for_sure(comm: str, argv: tuple[str, ...]) -> None:
    place = inside(comm, argv)
    place.add(place.init, comm="bash", argv=("bash",))
    made = place.ranks(place.init)
    assert {kinds(place.scene)[pid] for pid in made} <= {ProcessClass.LIVE, ProcessClass.SUSPECT}


@pytest.mark.parametrize(
    ("comm", "argv"),
    [
        ("systemd", ("/usr/lib/systemd/systemd", "--system")),
        ("init", ("init [2]",)),
        ("busybox", ("busybox", "init")),
        ("openrc-init", ("/sbin/openrc-init",)),
        ("runit", ("runit",)),
        ("s6-svscan", ("/package/admin/s6/command/s6-svscan",)),
        ("pause", ("/pause",)),
        *((comm, (*words, "bash")) for comm, words in containers.COMMAND_INITS.items()),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_known_init_proves_that_an_orphan_is_one(comm: str, argv: tuple[str, ...]) -> None:
    place = inside(comm, argv)
    place.add(place.init, comm="bash", argv=("bash",))
    launcher = place.add(place.init, comm="torchrun", argv=containers.TORCHRUN)
    made = place.ranks(launcher)
    place.end(launcher)
    assert {kinds(place.scene)[pid] for pid in made} == {ProcessClass.ORPHAN}


def test_a_user_manager_proves_it_and_its_own_services_are_none() -> None:
    scene = Scene(random.Random(1))
    manager = scene.add(comm="systemd", argv=("/usr/lib/systemd/systemd", "--user"))
    orphan = scene.add(ppid=manager, env=scenes.elastic("1", 0), gpus=(0,))
    service = scene.add(ppid=manager, env=scenes.elastic("2", 0), gpus=(1,))
    scene.set(service, environ={**scenes.elastic("2", 0), "SYSTEMD_EXEC_PID": str(service)})
    assert (kinds(scene)[orphan], kinds(scene)[service]) == (ProcessClass.ORPHAN, ProcessClass.LIVE)


def test_a_session_leader_that_may_be_a_subreaper_is_taken_for_the_parent() -> None:
    """Nobody can see whether a process has set PR_SET_CHILD_SUBREAPER."""
    scene = Scene(random.Random(1))
    reaper = scene.add(comm="python", argv=("python", "reaper.py"))
    rank = scene.add(ppid=reaper, env=scenes.elastic("1", 0), gpus=(0,))
    assert kinds(scene)[rank] is ProcessClass.LIVE


@pytest.mark.parametrize("alive", [True, False])
def test_a_run_in_a_container_is_no_dead_run_for_its_host(alive: bool) -> None:  # noqa: FBT001
    scene = Scene(random.Random(1), caller=ROOT)
    place = Container(scene, "outside", ROOT)
    place.start("bash", containers.SHELL)
    supervisor = place.execute(comm="python3", argv=("python3", "-"))
    mark = scene.mark(supervisor, containers.INNER)
    rank = place.add(supervisor, env={"GPULAUNCH_RUN_ID": "r1", "GPULAUNCH_SUPERVISOR": mark}, gpus=(0,))
    if not alive:
        place.end(supervisor)
    assert kinds(scene)[rank] is (ProcessClass.LIVE if alive else ProcessClass.SUSPECT)
    assert not picked(scene.facts())


def dead_run(scene: Scene) -> int:
    return scene.add(env={"GPULAUNCH_RUN_ID": "r1", "GPULAUNCH_SUPERVISOR": scenes.GONE}, gpus=(0,))


def judged(facts: HostFacts, pid: int) -> ClassifiedProcess:
    (each,) = [each for each in classify_processes(facts) if each.process.pid == pid]
    return each


@pytest.mark.parametrize("unknown", [{"pid_namespace": ""}, {"time_namespace": ""}, {"time_namespace": "1"}])
def test_a_namespace_that_is_not_known_or_another_one_proves_nothing(unknown: dict[str, Any]) -> None:
    scene = Scene(random.Random(1))
    pid = dead_run(scene)
    facts = scene.facts()
    assert judged(facts, pid).kind is ProcessClass.DEAD_RUN
    assert isinstance(facts.identity, Identity)
    assert (
        judged(replace(facts, identity=replace(facts.identity, **unknown)), pid).kind is ProcessClass.SUSPECT
    )


def test_a_supervisor_that_is_there_and_cannot_be_read_is_not_gone() -> None:
    scene = Scene(random.Random(1))
    pid = dead_run(scene)
    facts = scene.facts()
    assert isinstance(facts.processes, ProcessTable)
    table = replace(facts.processes, unread=(UnreadableProcess(4194304, "ada", "hidden"),))
    assert judged(replace(facts, processes=table), pid).kind is ProcessClass.SUSPECT


def test_what_a_batch_job_inherited_from_a_run_is_not_ended_with_it() -> None:
    scene = Scene(random.Random(1))
    step = scene.add(uid=ROOT, comm="slurmstepd", argv=("slurmstepd",))
    pid = scene.add(ppid=step, env={"GPULAUNCH_RUN_ID": "r1", "GPULAUNCH_SUPERVISOR": scenes.GONE}, gpus=(0,))
    assert kinds(scene)[pid] is ProcessClass.SUSPECT


@pytest.mark.parametrize(
    "mark",
    ["b:²:1", ":::::", "\0", f"{scenes.BOOT}:²:{scenes.TIMES}:7:5",
     f"{scenes.BOOT}:{PIDS}:{scenes.TIMES}:{'9' * 40}:5",
     f"{scenes.BOOT}:{PIDS}:{scenes.TIMES}:-7:5", f"{scenes.BOOT}:{PIDS}:{scenes.TIMES}:7:5\n"],
)  # fmt: skip
def test_a_mark_that_somebody_made_up_proves_nothing(mark: str) -> None:
    scene = Scene(random.Random(1))
    pid = scene.add(uid=ME, env={"GPULAUNCH_RUN_ID": "r1", "GPULAUNCH_SUPERVISOR": mark}, gpus=(0,))
    assert kinds(scene)[pid] is ProcessClass.SUSPECT
