"""A run that fails while no client is there: its host restarts it, or it waits for a client that attaches."""

import base64
import json
import os
import signal
import subprocess
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from launcher.onhost.supervisor import client_files, next_start
from launcher.onhost.supervisor.client_files import detach_run, record_heartbeat
from launcher.onhost.supervisor.daemon import restart_keeper
from launcher.onhost.supervisor.node import read_node_location
from launcher.onhost.supervisor.processes import read_start_ticks
from launcher.onhost.supervisor.requests import fetch, restart, stop
from tests.command_server import start_module
from tests.users import User

KILLED = {"launcher_code": -9, "ranks": {"0": -9}, "why": "rank 0 failed with exit code -9"}
# A script that gpulaunch reads before each start, and a program that it does not read.
SCRIPTS = {
    "train.sh": """#!/bin/sh
echo "begins $1"
[ -n "$1" ] && exit 0
mkdir -p out/checkpoint-5 && echo '{}' > out/checkpoint-5/state.json
while [ ! -e go ]; do sleep 0.05; done
kill -9 $$
""",
    "train.py": """
import os, pathlib, sys, time
print("begins", *sys.argv[1:], flush=True)
if sys.argv[1:]:
    sys.exit()
folder = pathlib.Path("out/checkpoint-5")
folder.mkdir(parents=True)
(folder / "state.json").write_text("{}")
while not os.path.exists("go"):
    time.sleep(0.05)
os.kill(os.getpid(), 9)
""",
}


def await_(found: Callable[[], Any]) -> Any:
    """Return what is found once there is something."""
    give_up = time.monotonic() + 240  # four restarts side by side, niced, on two busy cores took 50
    while not (got := found()):
        assert time.monotonic() < give_up, "it never came"
        time.sleep(0.02)
    return got


# the whole of it, with a client that is killed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("hosts", "script"),
    [(("localhost",), "train.py"), (("a", "b"), "train.sh")],
    ids=["one-host", "two-hosts"],
)
def test_a_run_whose_client_was_killed_is_restarted_from_its_checkpoint(
    tmp_path: Path, hosts: tuple[str, ...], script: str
) -> None:
    user = User(tmp_path / "home")
    (user.home / script).write_text(SCRIPTS[script])
    (user.home / script).chmod(0o755)
    user.env["XDG_CONFIG_HOME"] = str(user.home)
    (user.home / "gpulaunch").mkdir()
    vias = {name: {"via": ["env", f"XDG_STATE_HOME={user.home}/{name}"]} for name in ("a", "b")}
    (user.home / "gpulaunch" / "hosts.yaml").write_text(json.dumps({"hosts": vias}))
    sets = (f"workdir={user.home}", "output=out", "send_script=false", 'restart.resume_args=["{checkpoint}"]')
    on_end = 'on_end=[sh, -c, "cat >> ended; echo >> ended"]'
    options = [word for each in (*sets, "restart.backoff_s=0", on_end) for word in ("--set", each)]
    words = ["run", "--hosts", ",".join(hosts), "--gpus", "none", "--restarts", "2", *options]
    words += ["--", f"./{script}"]
    with start_module("launcher.cli", words, user.home, user.env) as client:
        try:
            for _ in hosts:
                assert any("begins" in line for line in client.stdout)
            places = [user.home / (name if len(hosts) > 1 else "state") for name in hosts]
            dirs = [next(place.glob("gpulaunch/runs/*/*/")) for place in places]
            await_(lambda: all((run_dir / "detached").exists() for run_dir in dirs))
        finally:
            client.kill()
    for run_dir in dirs:
        (run_dir / "client").write_text("0")  # as if it had been heard long ago
    (user.home / "go").touch()
    main = dirs[0]
    until = "restarted" if len(hosts) == 1 else "waits"
    told = await_(
        lambda: (found := next_start.read_next(str(main))).get("state") in (until, "waits", "ended") and found
    )
    assert told["state"] == until, (told, (main / "supervisor.log").read_text())
    if len(hosts) > 1:
        listed = user.ask("ps", *hosts)[1]["runs"][0]
        assert (listed["state"], listed["next"]["state"], listed["next"]["pending"]) == (
            "waiting",
            until,
            True,
        )
    ended = user.home / "ended"
    if len(hosts) == 1:  # nobody follows it to its end: the next command that sees the end says so
        await_(lambda: user.gpulaunch("ps") and ended.exists() and ended.read_text().endswith("\n"))
    assert ended.exists() is (len(hosts) == 1)
    done = user.gpulaunch("attach", "--json", main.name, "--hosts", ",".join(hosts))
    outcome = json.loads(done.stdout)
    assert (done.returncode, outcome["verdict"]) == (0, "finished")
    # This client has started it again, and has no terminal to ask at.
    assert ("==> Ctrl-C leaves the run, which continues; " in done.stderr) is (len(hosts) > 1)
    first, *_, second = outcome["restarts"]["starts"]  # on a busy machine one may not have come to its start
    assert (first["run_id"], first["exit_code"], second["exit_code"]) == (main.name, 137, 0)
    assert second["resumed_from"] == "checkpoint-5"
    assert second["run_id"] == outcome["run_id"]
    (notice,) = map(json.loads, ended.read_text().splitlines())
    assert (notice["run_id"], notice["verdict"], notice["exit_code"]) == (outcome["run_id"], "finished", 0)
    assert len(notice["restarts"]["starts"]) == len(outcome["restarts"]["starts"])
    assert next_start.read_next(str(main))["run_id"] in [
        each["run_id"] for each in outcome["restarts"]["starts"]
    ]


# the keeper, and who has the right to start a run again


@pytest.fixture
def run_dir(tmp_path: Path) -> str:
    path = tmp_path / "r-20260101-000000-abcdef"
    path.mkdir()
    (path / "events.jsonl").touch()
    detach_run(str(path))
    return str(path)


@pytest.fixture
def keep(run_dir: str) -> Iterator[Callable[..., int]]:
    """Start a guardian whose start has failed; it keeps what a restart needs."""
    pids: list[int] = []

    def begin(**spec: Any) -> int:
        pid = os.fork()
        if pid == 0:
            try:
                told = {"restart_order": "{}", "nodes": 1, **spec}
                next_start.hold_order(told)
                next_start.announce_keeper(run_dir, told, KILLED, os.getpid())
                restart_keeper.POLL_S = 0.02
                restart_keeper.keep_restart(run_dir, told)
            finally:
                os._exit(0)
        pids.append(pid)
        await_(lambda: next_start.read_next(run_dir))
        return pid

    yield begin
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(pid, 0)


def state_of(run_dir: str) -> str:
    return str(next_start.read_next(run_dir).get("state"))


def test_a_run_of_several_hosts_waits_until_it_is_stopped(run_dir: str, keep: Callable[..., int]) -> None:
    pid = keep(nodes=2)
    await_(lambda: state_of(run_dir) == "waits")
    told = next_start.read_next(run_dir)
    assert "several hosts" in told["why"]
    fd = next_start.open_order(told)
    assert next_start.read_order(fd) == "{}"
    assert next_start.is_kept(told)
    os.kill(pid, signal.SIGSTOP)  # whoever stopped it
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody reaps it late: `is_kept` looks at the process
    try:
        next_start.stop_keeper(run_dir, "stopped by ada@pc")
    finally:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    told = next_start.read_next(run_dir)
    assert (told["state"], told["why"]) == ("ended", "stopped by ada@pc")
    assert not next_start.is_kept(told)
    next_start.stop_keeper(run_dir, "again")
    assert next_start.read_next(run_dir) == told
    os.close(fd)


def test_a_stop_that_its_guardian_did_not_hear_ends_the_keeper(
    run_dir: str, keep: Callable[..., int]
) -> None:
    keep(nodes=2)
    client_files.write_stop(run_dir, {"why": "stopped by ada@pc"})
    await_(lambda: state_of(run_dir) == "ended")
    assert next_start.read_next(run_dir)["why"] == "stopped by ada@pc"
    assert not next_start.may_follow(run_dir, KILLED)  # it came while a failed start was being ended


def test_while_a_client_has_the_right_neither_host_nor_another_client_gets_it(
    run_dir: str, keep: Callable[..., int]
) -> None:
    record_heartbeat(run_dir)
    keep(client_quiet_s=3600.0, nodes=2)
    told = next_start.read_next(run_dir)
    mine, other = next_start.open_order(told), next_start.open_order(told)
    assert next_start.try_lock(mine)
    assert not next_start.try_lock(other)
    os.close(mine)  # the client is gone
    assert next_start.try_lock(other)
    os.close(other)
    assert state_of(run_dir) == "held"  # its client was heard just now


def test_what_the_host_cannot_do_waits_for_a_client(run_dir: str, keep: Callable[..., int]) -> None:
    Path(run_dir, "client.pack").write_text("no package")
    keep()
    await_(lambda: state_of(run_dir) == "waits")
    assert "the restart on this host failed" in next_start.read_next(run_dir)["why"]
    assert not Path(run_dir, "restart").exists()


def test_a_keeper_that_is_killed_leaves_nothing_outside_the_directory_of_its_run(
    run_dir: str, keep: Callable[..., int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    (tmp_path / "tmp").mkdir()
    waits = "import os, time\ndef main():\n    print(os.getpid(), flush=True)\n    time.sleep(600)\n"
    files = {
        "launcher/restart/on_host.py": waits,
        "launcher/__init__.py": "",
        "launcher/restart/__init__.py": "",
    }
    pack = base64.b64encode(zlib.compress(json.dumps(files).encode()))
    Path(run_dir, "client.pack").write_bytes(pack)
    keeper, log = keep(), Path(run_dir, "supervisor.log")
    restarter = int(await_(lambda: log.exists() and log.read_text().endswith("\n") and log.read_text()))
    code = Path(run_dir, "restart", "code", "launcher", "restart", "on_host.py")
    assert code.read_text() == waits
    for pid in (keeper, restarter):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(keeper, 0)
    left = {str(path.relative_to(tmp_path)).split("/")[0] for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {Path(run_dir).name}
    await_(lambda: not next_start.is_kept(next_start.read_next(run_dir)))
    fetched = [name for name, _ in fetch.list_files_below(run_dir, "")]
    assert "supervisor.log" in fetched
    assert not [name for name in fetched if name.startswith("restart")]


def test_after_a_reboot_nothing_goes_on(run_dir: str, keep: Callable[..., int]) -> None:
    keep(nodes=2)
    told = next_start.read_next(run_dir)
    assert not next_start.is_kept({**told, "boot_id": "another"})
    assert not next_start.is_kept({**told, "keeper": [told["keeper"][0], 1]})


def test_a_client_that_is_lost_after_all_nodes_had_ended_leaves_it_to_another_one(
    run_dir: str, keep: Callable[..., int]
) -> None:
    Path(run_dir, "detached").unlink()
    record_heartbeat(run_dir)
    keep(client_quiet_s=3600.0, nodes=2)
    pid = os.fork()
    if pid == 0:  # the request of a client that is gone at once
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os._exit(restart.serve(run_dir, {"whole": True}))
    assert os.waitpid(pid, 0)[1] == 0
    assert next_start.read_next(run_dir)["state"] == "held"
    Path(run_dir, "client").write_text("0")
    keeper = restart_keeper.RestartKeeper(run_dir, {"order_fd": os.memfd_create("x"), "nodes": 2})
    keeper._look()
    assert state_of(run_dir) == "waits"


def test_a_client_lost_before_all_nodes_had_started_leaves_nothing_to_wait_for(
    run_dir: str, keep: Callable[..., int]
) -> None:
    Path(run_dir, "detached").unlink()
    keep(nodes=2)
    await_(lambda: state_of(run_dir) == "ended")
    assert "before it knew that all nodes had started" in next_start.read_next(run_dir)["why"]


ENDS: dict[str, tuple[dict[str, Any], bool]] = {
    "a rank was killed": (KILLED, True),
    "it ended well": ({"launcher_code": 0, "ranks": {"0": 0}, "why": ""}, False),
    "gpulaunch stop": ({**KILLED, "requested": True, "why": "stopped by ada@pc"}, False),
    "the host ended it": ({**KILLED, "requested": True, "cause": "signal", "why": "any words"}, True),
    "its client was lost before all nodes had started": (
        {**KILLED, "cause": "no_client", "why": "its client was gone for 30 s"},
        False,
    ),
    "its supervisor was killed": ({"launcher_code": None, "ranks": {}, "why": "it was killed"}, True),
}


@pytest.mark.parametrize("name", ENDS)
def test_what_a_person_wanted_is_not_followed_by_a_start(run_dir: str, name: str) -> None:
    end, expected = ENDS[name]
    assert next_start.may_follow(run_dir, end) is expected
    Path(run_dir, "detached").unlink()  # it failed before its client had released it
    assert next_start.may_follow(run_dir, end) is expected


def test_a_client_that_ends_a_host_for_a_failure_elsewhere_rules_no_start_out(run_dir: str) -> None:
    end = {**KILLED, "requested": True, "cause": "request", "why": "b was lost"}
    with subprocess.Popen(["sleep", "60"]) as supervisor:
        state = {**read_node_location(), "supervisor": [supervisor.pid, read_start_ticks(supervisor.pid)]}
        for by_failure, follows in ((True, True), (False, False), (True, False)):  # a person's word stays
            asked = client_files.StopRequest("b was lost", 5.0, failed=by_failure)
            client_files.request_stop(run_dir, asked, state)
            assert next_start.may_follow(run_dir, end) is follows
        supervisor.kill()


def test_a_main_host_that_was_lost_and_answers_again_keeps_its_next_start_open(
    run_dir: str, keep: Callable[..., int]
) -> None:
    record_heartbeat(run_dir)
    keep(client_quiet_s=3600.0, nodes=2)
    state = {**read_node_location(), "phase": "ended", "exit": {"remaining_pids": []}}
    Path(run_dir, "state.json").write_text(json.dumps(state))
    stop.stop_and_wait(run_dir, {"grace_s": 0.0, "why": "it is started again elsewhere", "failed": True})
    told = next_start.read_next(run_dir)
    assert (told["state"], next_start.is_kept(told)) == ("held", True)  # it may be that host that goes on
