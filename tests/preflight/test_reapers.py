"""What a parent proves: that it runs its child, that it adopted it, or neither."""

import random
from dataclasses import replace
from typing import Any

import pytest

from preflight.facts.missing import Missing
from preflight.leftovers.process_tree import ProcessTree
from preflight.leftovers.reapers import Bond, is_init, is_reaper, judge_parentage
from tests.preflight.container_scenes import TORCHRUN
from tests.preflight.scenes import PYTHON, Scene

UNREAD = Missing("denied", "no-permission")


def family(parent: dict[str, Any], child: dict[str, Any] | None = None) -> tuple[Scene, int, int]:
    """Return a scene without an init of its own, a parent and its child."""
    scene = Scene(random.Random(1), machine=False)
    above = scene.add(**{"ppid": 0, **parent})
    return scene, above, scene.add(ppid=above, **(child or {}))


def bond(scene: Scene, pid: int) -> Bond:
    return judge_parentage(ProcessTree(scene.processes), scene.processes[pid]).bond


@pytest.mark.parametrize(("ppid", "expected"), [(0, Bond.RUN), (1, Bond.UNCLEAR), (4242, Bond.RUN)])
def test_of_a_parent_that_cannot_be_seen_only_pid_1_may_have_adopted(ppid: int, expected: Bond) -> None:
    scene = Scene(random.Random(1), machine=False)
    assert bond(scene, scene.add(ppid=ppid)) is expected


SYSTEMD = {"pid": 1, "comm": "systemd", "argv": ("/sbin/init",)}


@pytest.mark.parametrize(
    ("parent", "reaps"),
    [
        (SYSTEMD, True),
        ({"pid": 1, "comm": "systemd", "argv": ("/usr/lib/systemd/systemd", "--system")}, True),
        ({"pid": 1, "comm": "tini", "argv": ("tini", "--", "bash")}, True),
        ({"pid": 1, "comm": "s6-svscan", "argv": ("/usr/bin/s6-svscan", "-t0")}, True),
        ({"pid": 1, "comm": "supervisor-of-x", "argv": ("/opt/supervisor-of-x",)}, False),
        ({"pid": 1, "comm": "systemd", "argv": ("python", "systemd")}, False),
        ({"pid": 1, "comm": "init", "argv": TORCHRUN}, False),
        ({"comm": "systemd", "argv": ("/usr/lib/systemd/systemd", "--user")}, True),
        (
            {"comm": "systemd", "argv": ("/usr/lib/systemd/systemd",)},
            False,
        ),  # of a container, seen from outside
        ({"comm": "other", "argv": ("/usr/bin/other", "--user")}, False),
        ({"comm": "systemd", "argv": ("/usr/lib/systemd/systemd",), "inside": (1,)}, True),
        ({"pid": 1, "comm": "busybox", "argv": ("busybox", "init")}, True),
        ({"pid": 1, "comm": "busybox", "argv": ("busybox",)}, False),
        ({"pid": 1, "comm": "busybox", "argv": ("busybox init",)}, False),  # a title that it gave itself
        ({"pid": 1, "comm": "busybox", "argv": ("busybox", "", "init")}, False),
        ({"pid": 1, "comm": "init", "argv": ("init", "5")}, True),
        ({"pid": 1, "comm": "pause", "argv": ()}, False),  # a command line that cannot be read names nobody
    ],
)
def test_a_reaper_is_an_init_that_is_known_by_both_its_names(parent: dict[str, Any], *, reaps: bool) -> None:
    scene, above, _ = family(parent)
    assert is_reaper(scene.processes[above]) is reaps


@pytest.mark.parametrize(
    ("pids", "init"),
    [((1,), True), ((4000, 1), True), ((4000, 2), False), ((4000,), False), (UNREAD, False), ((), False)],
)
def test_an_init_is_pid_1_of_its_own_namespace(pids: Any, *, init: bool) -> None:
    scene, above, _ = family({})
    scene.set(above, namespace_pids=pids)
    assert is_init(scene.processes[above]) is init
    assert is_init(replace(scene.processes[above], pid=1))


@pytest.mark.parametrize(
    ("above", "below", "expected"),
    [
        ((1,), (50,), Bond.ADOPTED),
        ((1,), (50, 7), Bond.UNCLEAR),  # a container without an init of its own
        (UNREAD, (50,), Bond.UNCLEAR),
        ((1,), UNREAD, Bond.UNCLEAR),
        (UNREAD, UNREAD, Bond.UNCLEAR),
    ],
)
def test_an_init_of_another_namespace_proves_nothing(above: Any, below: Any, expected: Bond) -> None:
    scene, parent, child = family(SYSTEMD)
    scene.set(parent, namespace_pids=above)
    scene.set(child, namespace_pids=below)
    assert bond(scene, child) is expected


@pytest.mark.parametrize(
    ("pids", "own", "expected"),
    [
        ((50,), "50", Bond.RUN),
        ((50, 7), "7", Bond.UNCLEAR),
        ((50,), "51", Bond.ADOPTED),
        ((), "", Bond.UNCLEAR),
    ],
)
def test_a_service_of_an_init_is_known_by_its_own_pid(pids: Any, own: str, expected: Bond) -> None:
    scene, parent, child = family(SYSTEMD, {"env": {"SYSTEMD_EXEC_PID": own}})
    scene.set(parent, namespace_pids=(1,))
    scene.processes[50] = replace(scene.processes.pop(child), pid=50, namespace_pids=pids)
    assert bond(scene, 50) is expected


def test_a_service_in_a_container_is_known_by_its_pid_in_there() -> None:
    scene, parent, child = family(SYSTEMD, {"env": {"SYSTEMD_EXEC_PID": "7"}})
    scene.processes[4000] = replace(scene.processes.pop(parent), pid=4000, namespace_pids=(4000, 1))
    scene.set(child, ppid=4000, namespace_pids=(child, 7))
    assert bond(scene, child) is Bond.RUN


def test_the_oldest_child_of_an_init_of_one_command_is_that_command() -> None:
    scene, parent, command = family({"pid": 1, "comm": "tini", "argv": ("tini", "--", "bash")})
    twin, orphan = scene.add(ppid=parent), scene.add(ppid=parent)
    scene.set(twin, start_ticks=scene.processes[command].start_ticks)  # one tick is all that can be seen
    assert [bond(scene, pid) for pid in (command, twin, orphan)] == [Bond.RUN, Bond.RUN, Bond.ADOPTED]


@pytest.mark.parametrize(
    ("parent", "child", "expected"),
    [
        ({"comm": "containerd-shim", "argv": ("/usr/bin/containerd-shim-runc-v2",)}, {}, Bond.UNCLEAR),
        ({"comm": "conmon", "argv": ("/usr/bin/conmon",)}, {}, Bond.UNCLEAR),
        ({"pid": 1, "comm": "bash", "argv": ("bash",)}, {}, Bond.UNCLEAR),
        ({"comm": "bash", "argv": ("bash",)}, {}, Bond.RUN),  # no init: it has started what is below it
        ({"pid": 1, "comm": "python", "argv": PYTHON}, {}, Bond.RUN),
        ({"pid": 1, "comm": "torchrun", "argv": TORCHRUN}, {}, Bond.RUN),
        ({"pid": 1, "comm": "torchrun", "argv": TORCHRUN}, {"comm": "pt_data_worker"}, Bond.UNCLEAR),
        ({"pid": 1, "comm": "python", "argv": PYTHON}, {"comm": "pt_data_worker"}, Bond.RUN),
        ({"comm": "torchrun", "argv": TORCHRUN}, {"comm": "pt_data_worker"}, Bond.RUN),
    ],
)
def test_an_init_of_its_own_namespace_may_have_adopted_what_it_could_start(
    parent: dict[str, Any], child: dict[str, Any], expected: Bond
) -> None:
    scene, _, pid = family(parent, child)
    assert bond(scene, pid) is expected


def test_a_service_whose_namespaces_are_not_told_is_known_by_its_pid() -> None:
    scene, parent, child = family(SYSTEMD)
    scene.set(parent, namespace_pids=())
    scene.set(child, namespace_pids=(), environ={"SYSTEMD_EXEC_PID": str(child)})
    assert bond(scene, child) is Bond.RUN
