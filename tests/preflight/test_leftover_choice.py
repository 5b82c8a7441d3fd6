"""Which classified processes may be ended under a wish, and what is said of the others."""

import random
from typing import Any

import pytest

from preflight.leftovers.classify import ClassifiedProcess, HeldResources, ProcessClass
from preflight.leftovers.selection import (
    CleanFilter,
    CleanSelection,
    advise_on_leftover,
    advise_on_stranger,
    describe_how_to_end,
    is_asking_session,
    select_to_kill,
)
from tests.preflight.scenes import Scene

NOTHING = HeldResources((), ())
GPU, PORT, BOTH = HeldResources((0,), ()), HeldResources((), (29500,)), HeldResources((0,), (29500,))
LISTED = HeldResources((), (), (0,))  # the driver says so, no open file does
ASKS = ("it is part of the session that asks",)


def one(
    kind: ProcessClass, holds: HeldResources = GPU, evidence: tuple[str, ...] = ("why",), **process: Any
) -> ClassifiedProcess:
    scene = Scene(random.Random(1), machine=False)
    return ClassifiedProcess(scene.processes[scene.add(pid=7, **process)], kind, evidence, holds)


def part(choice: CleanSelection) -> str:
    """Return in which part of a choice its one process is."""
    parts = {"at once": choice.automatic, "after yes": choice.needs_confirmation, "shown": choice.kept}
    found = [name for name, rows in parts.items() if rows]
    assert len(found) <= 1
    return "".join(found)


@pytest.mark.parametrize(
    ("kind", "plain", "named", "suspects"),
    [
        (ProcessClass.DEAD_RUN, "at once", "at once", "at once"),
        (ProcessClass.ORPHAN, "after yes", "after yes", "after yes"),
        (ProcessClass.HALF_DEAD, "after yes", "after yes", "after yes"),
        (ProcessClass.SUSPECT, "shown", "after yes", "after yes"),
        (ProcessClass.LIVE, "shown", "after yes", "shown"),
        (ProcessClass.FOREIGN, "shown", "shown", "shown"),
        (ProcessClass.SYSTEM, "shown", "shown", "shown"),
        (ProcessClass.STUCK, "shown", "shown", "shown"),
        (ProcessClass.ZOMBIE, "shown", "shown", "shown"),
    ],
)
def test_each_class_is_ended_shown_or_asked_for(
    kind: ProcessClass, plain: str, named: str, suspects: str
) -> None:
    each = (one(kind),)
    assert part(select_to_kill(each, CleanFilter())) == plain
    assert part(select_to_kill(each, CleanFilter(pids=(7,)))) == named
    assert part(select_to_kill(each, CleanFilter(include_suspect=True))) == suspects


def test_the_session_that_asks_is_not_ended_by_name() -> None:
    assert part(select_to_kill((one(ProcessClass.LIVE, evidence=ASKS),), CleanFilter(pids=(7,)))) == "shown"


@pytest.mark.parametrize(
    ("holds", "wish", "expected"),
    [
        (GPU, CleanFilter(pids=(8,)), ""),
        (GPU, CleanFilter(gpus=(0,)), "at once"),
        (GPU, CleanFilter(gpus=(0, 3)), "at once"),
        (GPU, CleanFilter(gpus=(1,)), ""),
        (LISTED, CleanFilter(gpus=(0,)), "shown"),  # no proof, so it is shown and never ended
        (LISTED, CleanFilter(gpus=(1,)), ""),
        (PORT, CleanFilter(ports=(29500,)), "at once"),
        (PORT, CleanFilter(ports=(1,)), ""),
        (BOTH, CleanFilter(gpus=(0,), ports=(29500,)), "at once"),
        (BOTH, CleanFilter(gpus=(0,), ports=(1,)), ""),
        (BOTH, CleanFilter(gpus=(1,), ports=(29500,)), ""),
        (BOTH, CleanFilter(gpus=(0,), ports=(29500,), pids=(8,)), ""),
    ],
)
def test_what_was_named_narrows_what_is_ended_and_what_is_shown(
    holds: HeldResources, wish: CleanFilter, expected: str
) -> None:
    assert part(select_to_kill((one(ProcessClass.DEAD_RUN, holds),), wish)) == expected


@pytest.mark.parametrize(
    ("holds", "evidence", "said"),
    [
        (GPU, ("why",), True),
        (PORT, ("why",), True),
        (LISTED, ("why",), True),
        (NOTHING, ("why",), False),
        (GPU, ASKS, False),
    ],
)
def test_a_live_process_that_keeps_something_comes_with_the_command_that_ends_it(
    holds: HeldResources, evidence: tuple[str, ...], *, said: bool
) -> None:
    each = one(ProcessClass.LIVE, holds, evidence)
    assert is_asking_session(each) is (evidence == ASKS)
    assert ("gpulaunch clean-zombies HOST --pid 7" in advise_on_leftover(each)) is said


@pytest.mark.parametrize(
    ("pid", "kind", "evidence", "argv", "advice"),
    [
        (1, ProcessClass.LIVE, (), ("init",), "leave it: the machine or container ends with it"),
        (7, ProcessClass.SYSTEM, (), (), "leave it: it is part of the kernel"),
        (7, ProcessClass.LIVE, ASKS, ("sshd",), "leave it: it is part of the session that asks"),
        (7, ProcessClass.LIVE, (), ("vim",), "if it is yours to end, on h: kill 7"),
        (
            7,
            ProcessClass.STUCK,
            (),
            ("vim",),
            "wait for its kernel call to return; if it never does, the host needs a reboot",
        ),
    ],
)
def test_a_process_that_is_none_of_a_run_is_left_to_its_user(
    pid: int, kind: ProcessClass, evidence: tuple[str, ...], argv: tuple[str, ...], advice: str
) -> None:
    scene = Scene(random.Random(1), machine=False)
    process = scene.processes[scene.add(pid=pid, argv=argv)]
    assert advise_on_stranger(ClassifiedProcess(process, kind, evidence, NOTHING), "h") == advice


@pytest.mark.parametrize(("holds", "port"), [(GPU, ""), (PORT, " --port 29500"), (BOTH, ""), (NOTHING, "")])
def test_a_process_is_ended_by_its_pid_and_by_the_port_for_which_it_matters(
    holds: HeldResources, port: str
) -> None:
    assert (
        describe_how_to_end(one(ProcessClass.LIVE, holds), "h") == f"gpulaunch clean-zombies h --pid 7{port}"
    )


@pytest.mark.parametrize(
    ("run", "command"),
    [
        ("paper-1.a_b", "gpulaunch stop paper-1.a_b"),
        ("r" * 80, f"gpulaunch stop {'r' * 80}"),
        ("r" * 81, "gpulaunch clean-zombies h --pid 7"),
        ("-rf", "gpulaunch clean-zombies h --pid 7"),
        ("a;reboot", "gpulaunch clean-zombies h --pid 7"),
        ("", "gpulaunch clean-zombies h --pid 7"),
    ],
)
def test_a_run_is_stopped_by_its_name_where_that_can_be_one(run: str, command: str) -> None:
    assert describe_how_to_end(one(ProcessClass.LIVE, env={"GPULAUNCH_RUN_ID": run}), "h") == command
