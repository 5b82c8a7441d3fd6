"""A run's own control group and the kernel's out-of-memory kills, for real where this machine allows them."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.onhost.run_cgroup import Cgroup, OomKills, find_reached_limit, read_count, remove_stale
from preflight.probes.cgroup_folder import find_own_cgroup
from tests.launcher.onhost_driver import CGROUP, RUNAWAY, Driver, pids_of

pytestmark = pytest.mark.slow

WAIT = "import time; print('up', flush=True); time.sleep(60)\n"
FORKS = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
end = time.monotonic() + 30
for _ in range(8):
    if os.fork() == 0:
        break
while time.monotonic() < end:
    pid = os.fork()
    if pid:
        time.sleep(0.01)
        os._exit(0)
"""


def may_group() -> str:
    """Return why this machine gives us no group, "" when it does."""
    made, why = Cgroup.make(f"probe-{os.getpid()}")
    if made is None:
        return why
    made.remove()
    return ""


WHY_NOT = may_group()
needs_group = pytest.mark.skipif(WHY_NOT != "", reason=WHY_NOT or "there are groups")


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Driver]:
    driver = Driver(tmp_path, f"g{os.getpid()}")
    yield driver
    driver.kill_everything()


def start(run: Driver, script: str, ranks: int = 1, **spec: Any) -> None:
    run.cgroup = CGROUP
    run.start(script, ranks=ranks, **spec)


def up(run: Driver) -> None:
    run.until(lambda: b"up" in run.log())


@needs_group
def test_launcher_ranks_and_whatever_they_start_are_in_the_runs_group(run: Driver) -> None:
    start(run, RUNAWAY, ranks=2)
    up(run)
    group = Path(run.answer["state"]["cgroup"])
    inside = {int(line) for line in (group / "cgroup.procs").read_text().split()}
    keepers = set(pids_of(run.answer)[:2])
    followers = {pid for pid, command in run.processes().items() if "-c" in command and "follow" in command}
    assert pids_of(run.answer)[2] in inside
    assert run.event("rank", rank=0)["pid"] in inside
    assert len(inside) >= 4
    assert not inside & (keepers | followers)
    run.say("stop 1 enough")
    assert run.ended()["exit"]["remaining_pids"] == []
    assert not group.exists()
    assert run.gone() == {}


@needs_group
def test_what_forks_all_the_time_and_ignores_sigterm_is_ended_at_once(run: Driver) -> None:
    start(run, FORKS)
    up(run)
    run.say("stop 0 enough")
    assert run.ended()["exit"]["remaining_pids"] == []
    assert run.gone() == {}


@needs_group
def test_the_guardian_ends_the_group_of_a_supervisor_that_was_killed(run: Driver) -> None:
    start(run, RUNAWAY)
    up(run)
    os.kill(pids_of(run.answer)[0], signal.SIGKILL)
    assert run.ended()["exit"]["why"] == "the supervisor was killed"
    assert not Path(run.answer["state"]["cgroup"]).exists()
    assert run.gone() == {}


@needs_group
def test_empty_groups_of_runs_that_were_killed_are_swept_and_others_stay() -> None:
    parent = Path(find_own_cgroup("cgroup2"))
    old, young, full = (parent / f"gpulaunch-{name}-{os.getpid()}" for name in ("old", "young", "full"))
    child = subprocess.Popen(["sleep", "60"])
    for group in (old, young, full):
        group.mkdir()
    try:
        (full / "cgroup.procs").write_text(str(child.pid))
        for group in (old, full):
            os.utime(group, (0, 0))
        remove_stale(str(parent))
        assert [group.exists() for group in (old, young, full)] == [False, True, True]
    finally:
        child.kill()
        child.wait()
        for group in (young, full):
            Cgroup(str(group)).remove()


@needs_group
def test_a_launch_that_is_refused_leaves_no_group(run: Driver) -> None:
    start(run, WAIT, argv=["/no/such/python", "x"])
    assert "cannot be started" in run.answer["refused"]
    assert not (Path(find_own_cgroup("cgroup2")) / f"gpulaunch-{run.run_id}").exists()


def test_without_a_group_the_run_is_the_same_and_says_why(run: Driver) -> None:
    run.start(WAIT)
    up(run)
    assert run.answer["state"]["cgroup"] is None
    assert run.answer["state"]["cgroup_missing"]
    run.say("stop 1 enough")
    assert run.ended()["exit"]["ranks"] == {"0": -15}
    assert run.ended()["exit"]["remaining_pids"] == []


def test_the_count_of_kills_is_read_from_v1_v2_and_the_host(tmp_path: Path) -> None:
    (tmp_path / "v2").write_text("low 0\nhigh 0\nmax 3\noom 2\noom_kill 5\noom_group_kill 1\n")
    (tmp_path / "v1").write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 7\n")
    assert [read_count(str(tmp_path / name)) for name in ("v2", "v1", "none")] == [5, 7, None]
    kills = OomKills()
    kills.path, kills.last = str(tmp_path / "v2"), 3
    assert (kills.count_new(), kills.count_new()) == (2, 0)


@pytest.mark.parametrize(
    ("own", "above", "reached"),
    [
        ({"memory.max": 1000, "memory.peak": 995}, {}, 1000),
        ({"memory.max": 1000, "memory.peak": 900}, {}, 0),
        ({"memory.max": "max", "memory.peak": 900}, {"memory.max": 900, "memory.peak": 900}, 900),
        ({"memory.max": 100, "memory.peak": 100}, {"memory.max": 900, "memory.peak": 900}, 100),
        ({"memory.limit_in_bytes": 50, "memory.max_usage_in_bytes": 50}, {}, 50),
        ({"memory.max": 1000}, {}, 0),  # Linux before 5.19
    ],
)
def test_the_limit_that_was_reached_is_that_of_the_nearest_group(
    tmp_path: Path, own: dict[str, object], above: dict[str, object], reached: int
) -> None:
    group = tmp_path / "job" / "step"
    group.mkdir(parents=True)
    for place, numbers in ((group, own), (group.parent, above)):
        for name, number in {"cgroup.procs": "", **numbers}.items():
            (place / name).write_text(f"{number}\n")
    assert find_reached_limit(str(group)) == reached


class Limited:
    """A group with little memory, made by the test as a site would make it."""

    def __init__(self, mib: int) -> None:
        v2, v1 = find_own_cgroup("cgroup2"), find_own_cgroup("memory")
        names = ("memory.max", "memory.swap.max")
        if v2 and "memory" in (Path(v2) / "cgroup.controllers").read_text().split():
            pytest.skip("the memory controller cannot be turned on in a group that holds this test")
        if not v1:
            pytest.skip("there is no memory controller")
        names = ("memory.limit_in_bytes", "memory.memsw.limit_in_bytes")
        self.path = Path(v1) / f"test-{os.getpid()}"
        try:
            self.path.mkdir()
        except OSError as error:
            pytest.skip(f"no group can be made: {error}")
        for name in names:
            if (self.path / name).exists():
                (self.path / name).write_text(str(mib << 20))

    def remove(self) -> None:
        """End what is still in it and delete it; a process that was killed leaves it a moment later."""
        deadline = time.monotonic() + 20
        while True:
            for pid in (self.path / "cgroup.procs").read_text().split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            try:
                self.path.rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.05)
            else:
                return

    @property
    def prefix(self) -> tuple[str, ...]:
        """A command that enters it and goes on as its arguments."""
        return ("sh", "-c", f'echo $$ > {self.path}/cgroup.procs; exec "$@"', "sh")


@pytest.fixture
def limited() -> Iterator[Limited]:
    made = Limited(200)
    yield made
    made.remove()


EATS = """
import os, time
print("up", flush=True)
if os.environ["RANK"] == "1":
    {0}
    held = []
    while True:
        held.append(os.urandom(1 << 20) * 8)
time.sleep(60)
"""


@pytest.mark.parametrize("died", ["rank", "launcher"])
def test_a_real_kill_for_want_of_memory_is_told_before_what_died(
    run: Driver, limited: Limited, died: str
) -> None:
    run.prefix = limited.prefix
    chosen = {"rank": "", "launcher": 'open(f"/proc/{os.getppid()}/oom_score_adj", "w").write("1000")'}
    start(run, EATS.replace("{0}", chosen[died]), ranks=2)
    end = run.ended()
    assert (end["exit"]["ranks"]["1"] if died == "rank" else end["exit"]["launcher_code"]) == -9
    names = [event["event"] for event in run.events]
    assert names.index("oom") < names.index(f"{died}_exit")
    oom = run.event("oom")
    # the rank eats on when its launcher is gone, and may be the second before the first is reported
    assert oom["count"] in ((1,) if died == "rank" else (1, 2))
    assert (oom["scope"], oom["limit"]) == ("group", 200 << 20)
    assert run.gone() == {}


def test_a_run_without_such_a_kill_tells_none(run: Driver) -> None:
    start(run, WAIT)
    up(run)
    os.kill(run.event("rank", rank=0)["pid"], signal.SIGKILL)
    run.ended()
    assert [event for event in run.events if event["event"] == "oom" and event["scope"] == "group"] == []
    assert run.event("rank_exit", rank=0)["oom_counted"] is (OomKills().last is not None)
