"""Who is a leftover: random hosts whose truth is known, and the cases people get wrong."""

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from preflight.facts.host import ProcessTable
from preflight.facts.missing import Missing
from preflight.leftovers.classify import ClassifiedProcess, ProcessClass, classify_processes
from preflight.leftovers.selection import CleanFilter, CleanSelection, select_to_kill
from tests.preflight import scenes
from tests.preflight.scenes import Scene, random_scene


def chosen(choice: CleanSelection) -> set[int]:
    return {each.process.pid for each in (*choice.automatic, *choice.needs_confirmation)}


def by_pid(scene: Scene) -> dict[int, ClassifiedProcess]:
    return {each.process.pid: each for each in classify_processes(scene.facts())}


@settings(max_examples=1000, deadline=None)
@given(st.integers(min_value=0, max_value=2**32))
def test_only_leftovers_are_chosen_and_every_provable_one_is(seed: int) -> None:
    scene = random_scene(seed)
    picked = chosen(select_to_kill(classify_processes(scene.facts()), CleanFilter()))
    assert picked <= scene.provable | scene.allowed
    assert picked >= scene.provable


@settings(max_examples=200, deadline=None)
@given(st.integers(min_value=0, max_value=2**32))
def test_what_cannot_be_read_is_never_chosen(seed: int) -> None:
    """Make random processes unreadable: the choice may only shrink."""
    scene = random_scene(seed)
    before = chosen(select_to_kill(classify_processes(scene.facts()), CleanFilter()))
    rng = random.Random(seed)
    for pid, process in list(scene.processes.items()):
        if rng.random() < 0.5:
            scene.set(pid, environ=scenes.UNREADABLE, gpu_files=scenes.UNREADABLE)
        assert process.pid == pid
    assert chosen(select_to_kill(classify_processes(scene.facts()), CleanFilter())) <= before


@settings(max_examples=200, deadline=None)
@given(st.integers(min_value=0, max_value=2**32))
def test_naming_pids_never_reaches_foreign_or_system_processes(seed: int) -> None:
    scene = random_scene(seed)
    wish = CleanFilter(pids=tuple(scene.processes), include_suspect=True)
    for each in (
        *(choice := select_to_kill(classify_processes(scene.facts()), wish)).automatic,
        *choice.needs_confirmation,
    ):
        assert each.process.uid == scenes.ME
        assert each.kind not in (
            ProcessClass.FOREIGN,
            ProcessClass.SYSTEM,
            ProcessClass.STUCK,
            ProcessClass.ZOMBIE,
        )


@pytest.mark.parametrize(
    ("story", "kinds"),
    [
        (scenes.live_launch, {ProcessClass.LIVE}),
        (scenes.on_its_own, {ProcessClass.LIVE}),
        (scenes.ranks_started_by_hand, {ProcessClass.SUSPECT}),
        (scenes.own_launcher_script, {ProcessClass.LIVE}),
        (scenes.notebook, {ProcessClass.LIVE}),
        (scenes.foreign, {ProcessClass.FOREIGN}),
        (scenes.machine, {ProcessClass.SYSTEM}),
        (scenes.half_dead, {ProcessClass.HALF_DEAD}),
        (scenes.zombies, {ProcessClass.ZOMBIE}),
        (scenes.stuck, {ProcessClass.STUCK}),
        (scenes.dead_rank_with_workers, {ProcessClass.ORPHAN}),
        (scenes.live_work_in_a_shell_of_a_dead_run, {ProcessClass.SUSPECT}),
    ],
)
def test_each_story_has_its_class(story: object, kinds: set[ProcessClass]) -> None:
    assert callable(story)
    scene = Scene(random.Random(1))
    story(scene)
    found = {
        each.kind
        for each in classify_processes(scene.facts())
        if each.held or each.held.listed or each.kind is ProcessClass.ZOMBIE
    }
    assert found == kinds


@pytest.mark.parametrize("mark", [scenes.GONE, ""], ids=["gone", "none"])
def test_a_rank_that_somebody_has_typed_at_a_prompt_is_left_alone(mark: str) -> None:
    """`python rank.py train.py` with a run's environment, by hand: it may have no supervisor at all."""
    scene = Scene(random.Random(1))
    env = {"GPULAUNCH_RUN_ID": "r0", "GPULAUNCH_SUPERVISOR": mark, "LOCAL_RANK": "0"}
    prompt = scene.add(comm="bash", argv=("bash",), tty=True)
    between = scene.add(ppid=prompt, comm="make", argv=("make", "try"))
    rank = scene.add(ppid=between, argv=("python", "rank.py", "train.py"), env=env, gpus=(0,))
    assert by_pid(scene)[rank].kind is ProcessClass.SUSPECT
    assert not chosen(select_to_kill(classify_processes(scene.facts()), CleanFilter()))


def test_what_slurm_may_have_suspended_is_no_leftover() -> None:
    """`scontrol suspend` and preemption stop every process of a job, for hours."""
    scene = Scene(random.Random(1))
    step = scene.add(uid=scenes.ROOT, comm="slurmstepd", argv=("slurmstepd",))
    above = scenes.launcher(scene, ppid=step, state="T", age_s=7200.0)
    for rank in scenes.ranks(scene, above, state="T", age_s=7200.0):
        found = by_pid(scene)[rank]
        assert (found.kind, "which suspends jobs so" in found.evidence[0]) == (ProcessClass.LIVE, True)


def test_a_dead_run_of_ours_is_ended_by_default() -> None:
    scene = Scene(random.Random(3))
    scenes.our_run(scene, alive=False)
    choice = select_to_kill(classify_processes(scene.facts()), CleanFilter())
    assert {each.process.pid for each in choice.automatic} == scene.provable
    assert all("supervisor" in each.evidence[0] for each in choice.automatic)


def test_a_supervisor_mark_of_another_boot_proves_nothing() -> None:
    scene = Scene(random.Random(1))
    env = {"GPULAUNCH_RUN_ID": "r1", "GPULAUNCH_SUPERVISOR": f"other-boot:{scenes.PIDS}:{scenes.TIMES}:77:5"}
    pid = scene.add(env=env, gpus=(0,))
    assert by_pid(scene)[pid].kind is ProcessClass.SUSPECT


def test_the_asking_session_is_never_a_leftover() -> None:
    scene = Scene(random.Random(1))
    env = {"GPULAUNCH_RUN_ID": "r1", "GPULAUNCH_SUPERVISOR": scenes.GONE}
    pid = scene.add(env=env, gpus=(0,), state="T")
    facts = scene.facts()
    assert isinstance(facts.processes, ProcessTable)
    facts = replace(facts, processes=replace(facts.processes, ancestors=(1, pid)))
    choice = select_to_kill(classify_processes(facts), CleanFilter(pids=(pid,), include_suspect=True))
    assert chosen(choice) == set()


def test_root_sees_other_users_leftovers_only_when_asked_for_all_users() -> None:
    scene = Scene(random.Random(5), caller=scenes.ROOT)
    above = scenes.launcher(scene, uid=scenes.OTHER)
    made = set(scenes.ranks(scene, above, uid=scenes.OTHER))
    scene.forget(above)
    assert chosen(select_to_kill(classify_processes(scene.facts()), CleanFilter())) == set()
    assert chosen(select_to_kill(classify_processes(scene.facts(), all_users=True), CleanFilter())) == made


def test_all_users_without_root_changes_nothing() -> None:
    scene = Scene(random.Random(5))
    scenes.foreign(scene)
    assert chosen(select_to_kill(classify_processes(scene.facts(), all_users=True), CleanFilter())) == set()


def test_a_still_orphan_on_idle_gpus_is_only_suspect() -> None:
    scene = Scene(random.Random(5))
    pid = scene.add(gpus=(0,))
    facts = scene.facts()
    assert isinstance(facts.processes, ProcessTable)
    (each,) = classify_processes(facts, earlier=facts.processes)
    assert each.kind is ProcessClass.SUSPECT
    assert chosen(select_to_kill((each,), CleanFilter())) == set()
    assert chosen(select_to_kill((each,), CleanFilter(include_suspect=True))) == {pid}


def test_gpu_and_port_narrow_the_choice() -> None:
    scene = Scene(random.Random(2))
    scenes.dead_rank_with_workers(scene)
    scenes.port_holder(scene)
    every = classify_processes(scene.facts())
    on_gpu = chosen(select_to_kill(every, CleanFilter(gpus=(0,))))
    on_port = chosen(select_to_kill(every, CleanFilter(ports=(29500,))))
    assert on_gpu
    assert on_port
    assert not on_gpu & on_port
    assert chosen(select_to_kill(every, CleanFilter(gpus=(3,)))) == set()


def test_an_unread_process_table_gives_no_leftovers() -> None:
    scene = Scene(random.Random(2))
    scenes.dead_launch(scene)
    facts = replace(scene.facts(), processes=Missing("timed out", "timeout"))
    assert classify_processes(facts) == ()


def test_an_orphan_that_holds_nothing_is_left_alone() -> None:
    scene = Scene(random.Random(2))
    pid = scene.add(env=scenes.elastic("5", 0))
    assert by_pid(scene)[pid].kind is ProcessClass.LIVE
