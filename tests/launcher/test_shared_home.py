"""Hosts and containers that share one home, as on clusters: each has its own runs and judges no others."""

import errno
import json
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from launcher.onhost.answer import MARKER
from launcher.onhost.supervisor.node import (
    make_node_name,
    measure_life,
    name_of,
    parse_host,
    read_node_location,
)
from launcher.onhost.supervisor.protocol import RequestRefused
from launcher.onhost.supervisor.requests.start import make_run_dir
from launcher.remote.program_source import read_program_source
from launcher.runs.request import RequestDenied, send_request
from launcher.transports.base import Endpoint
from launcher.transports.local import LocalConnection
from tests.lab.needs import why_no_namespaces
from tests.launcher.onhost_driver import PYTHON, Driver

pytestmark = pytest.mark.slow

WAIT = "import time; print('up', flush=True); time.sleep(60)\n"
HOST = os.uname().nodename
ACTS = ("stop", "remove", "stacks", "follow", "fetch")

needs_namespaces = pytest.mark.skipif(bool(why_no_namespaces()), reason=why_no_namespaces())


class Node(Driver):
    """A run on one node of a shared home, and what that node answers."""

    def ask(self, mode: str, **fields: object) -> dict[str, Any]:
        """Ask as the client does; each answer is one document."""
        prefix = (*self.prefix, "env", f"XDG_STATE_HOME={self.home}")
        with Prefixed(prefix) as connection:
            return send_request(connection, PYTHON, {"mode": mode, "grace_s": 5.0, **fields})

    def listed(self, **fields: object) -> dict[str, bool]:
        """Return the runs that this node calls its own, and whether each lives."""
        return {run["run_id"]: run["alive"] for run in self.ask("list", **fields)["runs"]}


class Prefixed(LocalConnection):
    """This machine, with something in front of each command."""

    def __init__(self, prefix: tuple[str, ...]) -> None:
        super().__init__(Endpoint("here", "local", ""))
        self._prefix = prefix

    def run(self, argv: Any, **options: Any) -> Any:
        return super().run((*self._prefix, *argv), **options)


@pytest.fixture
def here(tmp_path: Path) -> Iterator[Node]:
    node = Node(tmp_path / "home")
    node.home.mkdir()
    yield node
    node.kill_everything()


@contextmanager
def enclosed(here: Node, *begin: str) -> Iterator[Node]:
    """Give a node with this home and namespaces of its own."""
    argv = ["unshare", "--pid", "--uts", "--fork", "--mount-proc", "--kill-child", "sh", "-c"]
    argv.append("; ".join([*begin, "echo up", "sleep 600"]))
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        init = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0]
        node = Node(here.home)
        node.prefix = ("nsenter", "--pid", "--uts", "--mount", "--target", init)
        yield node
        node.hang_up()
        process.kill()


@pytest.fixture
def other(here: Node) -> Iterator[Node]:
    """Another host with this home: of one image, so the machine id is the same."""
    with enclosed(here, "hostname gpu-02") as node:
        yield node


@pytest.fixture
def container(here: Node) -> Iterator[Node]:
    """A container with this home and this host's name."""
    with enclosed(here) as node:
        yield node


def refusals(node: Node) -> set[str]:
    """Return what a node says to everything that could be done with a run."""
    said = set()
    for mode in ACTS:
        with pytest.raises(RequestDenied) as refused:
            node.ask(mode, run_id="r1")
        said.add(refused.value.message)
    return said


@needs_namespaces
def test_each_host_of_a_shared_home_has_its_node_of_the_run_and_touches_no_other(
    here: Node, other: Node
) -> None:
    for node in (here, other):
        node.start(WAIT, node_rank=0)
        node.until(lambda node=node: node.log() == b"up\n")  # type: ignore[misc]
    assert here.listed() == other.listed() == {"r1": True}
    assert here.ask("list")["other_hosts"] == {"gpu-02": ["r1"]}
    assert other.ask("list")["other_hosts"] == {HOST: ["r1"]}
    assert here.ask("list", prefix="r2")["other_hosts"] == {}
    here.ask("stop", run_id="r1")
    assert here.ended()["phase"] == "ended"
    assert other.listed() == {"r1": True}
    here.ask("remove", run_id="r1")
    assert not here.run_dir.exists()
    assert refusals(here) == {
        "here: r1 is a run of gpu-02, which shares the home of this host: ask that host"
    }
    assert other.listed() == {"r1": True}
    assert other.ask("stop", run_id="r1")["state"]["phase"] == "ended"
    other.ended()


@needs_namespaces
def test_a_container_with_its_hosts_home_and_name_is_judged_by_itself_alone(
    here: Node, container: Node
) -> None:
    container.start(WAIT)
    container.until(lambda: container.log() == b"up\n")
    assert here.listed() == {}
    assert here.ask("list")["other_hosts"] == {HOST: ["r1"]}
    (said,) = refusals(here)
    assert "r1 runs in a container of this host, or on another host that has its name" in said
    here.start(WAIT)  # its own node of the same run
    assert here.answer["state"]["run_dir"] == str(here.run_dir.parent) + "+2/r1"
    assert here.listed() == container.listed() == {"r1": True}
    here.ask("stop", run_id="r1")
    here.ended()
    assert container.listed() == {"r1": True}
    assert container.ask("stop", run_id="r1")["state"]["phase"] == "ended"
    container.ended()


@needs_namespaces
def test_a_restarted_container_knows_its_runs_of_before_as_lost(here: Node, container: Node) -> None:
    leave_run(here, {**read_node_location(), "pid_ns": "pid:[1]"}, silent_s=100.0)
    assert container.listed() == {"r1": False}
    container.ask("remove", run_id="r1")
    assert not here.run_dir.exists()


def test_a_run_of_an_earlier_boot_is_lost_and_can_be_removed(here: Node) -> None:
    leave_run(here, {**read_node_location(), "boot_id": "before"}, silent_s=measure_life() + 100.0)
    assert here.listed() == {"r1": False}
    assert here.ask("list")["other_hosts"] == {}
    here.ask("remove", run_id="r1")
    assert not here.run_dir.exists()


def test_a_run_that_gave_a_sign_of_life_while_this_host_was_up_is_a_namesakes(here: Node) -> None:
    leave_run(here, {**read_node_location(), "boot_id": "of a clone"}, silent_s=measure_life() - 5.0)
    assert here.listed() == {}
    assert here.ask("list")["other_hosts"] == {HOST: ["r1"]}
    assert len(refusals(here)) == 1
    assert here.run_dir.exists()
    (here.run_dir / "state.json").write_text(json.dumps({"phase": "ended", "ended": 1.0}))
    assert here.listed(ended=True) == {"r1": False}  # it is over, whoever looks


def test_a_run_that_has_no_state_yet_is_judged_by_where_its_directory_was_made(here: Node) -> None:
    leave_run(here, {**read_node_location(), "boot_id": "of a clone"}, silent_s=0.0)
    (here.run_dir / "state.json").unlink()
    assert here.listed() == {}
    assert here.ask("list")["other_hosts"] == {HOST: ["r1"]}


def test_a_host_that_got_another_name_still_knows_what_it_started_in_this_boot(here: Node) -> None:
    leave_run(here, {**read_node_location(), "boot_id": "of gpu-07"}, silent_s=0.0)
    here.run_dir.parent.rename(here.run_dir.parent.with_name("gpu-07-0badf00d"))
    here.start("print(1)")
    here.ended()
    place = here.run_dir.parent
    (mark,) = place.parent.glob(f"{place.name}@*")
    for path in (place, mark):
        path.rename(str(path).replace(place.name, "renamed-0badf00d"))
    here.run_dir = place.with_name("renamed-0badf00d") / "r1"
    (here.run_dir / "state.json").write_text(json.dumps({"phase": "running", **read_node_location()}))
    assert here.listed() == {"r1": False}
    assert here.ask("list")["other_hosts"] == {"gpu-07": ["r1"]}
    here.ask("remove", run_id="r1")
    assert not here.run_dir.exists()
    assert (place.parent / "gpu-07-0badf00d" / "r1").exists()


@needs_namespaces
def test_a_run_whose_log_is_still_open_somewhere_is_removed_as_nfs_lets_it(here: Node) -> None:
    """NFS keeps an open file under a name of its own, which cannot be deleted; so is a mount point."""
    leave_run(here, read_node_location(), silent_s=0.0)
    (here.run_dir / "state.json").write_text(json.dumps({"phase": "ended"}))
    kept = here.run_dir / ".nfs000000000000abcd00000001"
    kept.touch()
    subprocess.run(["mount", "--bind", "/etc/hostname", str(kept)], check=True)
    place = here.run_dir.parent
    try:
        here.ask("remove", run_id="r1")
        assert here.listed(ended=True) == {}
        (gone,) = place.iterdir()
        assert [path.name for path in gone.iterdir()] == [kept.name]
    finally:
        for path in place.glob("*/.nfs*"):
            subprocess.run(["umount", str(path)], check=True)
    leave_run(here, {**read_node_location(), "boot_id": "before"}, silent_s=measure_life() + 100.0)
    here.ask("remove", run_id="r1")
    assert list(place.iterdir()) == []


def test_a_home_without_fifos_is_refused_with_what_helps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def smb(path: str, mode: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted", path, mode)

    monkeypatch.setattr(os, "mkfifo", smb)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with pytest.raises(RequestRefused, match=r"file system without FIFOs .* set XDG_STATE_HOME"):
        make_run_dir({"run_id": "r1", "rank_source": ""})
    assert list(tmp_path.glob("gpulaunch/runs/*/*")) == []


def test_clones_of_one_image_and_hosts_of_one_name_have_places_of_their_own() -> None:
    names = [name_of(host, machine) for host in ("a", "b") for machine in ("1", "2", "")]
    assert len(set(names)) == 6
    assert [parse_host(name) for name in names] == ["a"] * 3 + ["b"] * 3
    assert parse_host(name_of("gpu-01.lab.example", "1") + "+2") == "gpu-01.lab.example"
    assert "/" not in name_of("../../x", "1")
    assert name_of("..", "1")[0] != "."
    assert make_node_name().startswith(f"{HOST}-")


@needs_namespaces
def test_hosts_that_share_a_home_append_to_audit_logs_of_their_own(tmp_path: Path) -> None:
    request = json.dumps({"victims": [], "term_grace_s": 0, "kill_grace_s": 0})
    logs = []
    for name in ("gpu-01", "gpu/../02"):
        rename = ("unshare", "--uts", "sh", "-c", 'echo "$0" > /proc/sys/kernel/hostname; exec "$@"', name)
        argv = [
            *rename,
            "env",
            f"XDG_STATE_HOME={tmp_path}",
            PYTHON,
            "-c",
            read_program_source("kill_leftovers").decode(),
        ]
        done = subprocess.run(argv, input=request, capture_output=True, text=True, check=True)
        logs.append(json.loads(done.stdout.removeprefix(f"\n{MARKER} "))["audit"])
    assert logs == [f"{tmp_path}/gpulaunch/audit-{name}.jsonl" for name in ("gpu-01", "gpu_.._02")]
    assert all(Path(log).exists() for log in logs)


def leave_run(node: Node, said: dict[str, str], *, silent_s: float) -> None:
    """Leave the directory of a run that has not ended, as its supervisor wrote it."""
    node.run_dir.mkdir(parents=True)
    (node.run_dir / "spec.json").write_text(json.dumps({"run_id": "r1", "made_in": said, "grace_s": None}))
    state = {"run_id": "r1", "phase": "running", "supervisor": [1, 1], **said}
    (node.run_dir / "state.json").write_text(json.dumps(state))
    beat = node.run_dir / "heartbeat"
    beat.touch()
    os.utime(beat, (time.time() - silent_s,) * 2)
