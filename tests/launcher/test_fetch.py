"""Fetching, listing, removing and looking at real runs on this machine; and a host that lies about names."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from launcher.commands.fetch import name_place, render_fetched
from launcher.config.inventory import HostEntry
from launcher.errors import HostError
from launcher.follow import protocol
from launcher.onhost.procfs import read_stat
from launcher.onhost.supervisor.requests._fetch_paths import find_chosen, run_places
from launcher.onhost.supervisor.requests._logs import find_offsets
from launcher.onhost.supervisor.requests.fetch import make_key
from launcher.onhost.supervisor.requests.remove import remove_run
from launcher.onhost.supervisor.run_dir import CLIENT
from launcher.planning.run_record import build_run_record, read_record
from launcher.remote.connection_pool import OpenConnection
from launcher.rundir.run_id import make_run_id
from launcher.rundir.state_schema import validate_runs
from launcher.runs.fetch import FetchResult, FileReceiver, fetch_host
from launcher.runs.request import RequestDenied, send_request
from launcher.transports.base import Endpoint, iter_stdout
from launcher.transports.local import LocalConnection
from tests.launcher.onhost_driver import PYTHON, Driver
from tests.launcher.run_plans import plan

pytestmark = pytest.mark.slow

HERE = HostEntry("here", python=PYTHON)
WAIT = "import time; print('up', flush=True); time.sleep(60)\n"


class Elsewhere(LocalConnection):
    """This machine with another home for its runs."""

    def __init__(self, home: Path, _entry: HostEntry) -> None:
        super().__init__(Endpoint("here", "local", ""))
        self._home = home

    def run(self, argv: Any, **options: Any) -> Any:
        return super().run(("env", f"XDG_STATE_HOME={self._home}", *argv), **options)

    def start(self, argv: Any) -> Any:
        return super().start(("env", f"XDG_STATE_HOME={self._home}", *argv))


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Driver]:
    driver = Driver(tmp_path / "there")
    driver.home.mkdir()
    yield driver
    driver.kill_everything()


@pytest.fixture
def there(run: Driver) -> OpenConnection:
    return lambda entry: Elsewhere(run.home, entry)


def start(run: Driver, script: str, **spec: Any) -> None:
    whole = plan((None,))
    record = build_run_record(whole, whole.nodes[0], (HERE,)) | {"output": str(run.home / "out")}
    run.start(script, launch=record, nodes=1, node_rank=0, first_rank=0, world_size=1, job="job", **spec)


def question(run: Driver, mode: str, **fields: object) -> dict[str, Any]:
    with Elsewhere(run.home, HERE) as connection:
        return send_request(connection, PYTHON, {"mode": mode, **fields})


def test_a_run_is_fetched_whole_once_and_then_only_what_is_new(
    run: Driver, there: OpenConnection, tmp_path: Path
) -> None:
    out = run.home / "out"
    (out / "runs").mkdir(parents=True)
    (out / "runs" / "events.out.tfevents.1").write_bytes(os.urandom(300_000))
    (out / "empty").touch()
    (out / "link").symlink_to("/etc/passwd")
    start(run, "print('hello')")
    run.ended()
    here = tmp_path / "here"
    expected, came = list[int](), list[int]()
    receiver = FileReceiver(here, on_bytes=came.append)
    first = fetch_host("r1", HERE, there, receiver, output=True, expect=expected.append)
    assert expected == [sum(came)] == [first.bytes]
    assert (here / "rank-0.log").read_bytes() == b"hello\n"
    copied = here / "output" / "runs" / "events.out.tfevents.1"
    assert copied.read_bytes() == (out / "runs" / "events.out.tfevents.1").read_bytes()
    assert copied.stat().st_mtime_ns == (out / "runs" / "events.out.tfevents.1").stat().st_mtime_ns
    assert (here / "output" / "empty").read_bytes() == b""
    assert not (here / "output" / "link").exists()
    assert not {path.name for path in here.iterdir()} & {"heartbeat", "client", "reserve", "rank.py"}
    assert first.skipped == []
    assert fetch_host("r1", HERE, there, FileReceiver(here), output=True).bytes == 0
    (out / "runs" / "events.out.tfevents.1").write_bytes(b"changed")
    again = fetch_host("r1", HERE, there, FileReceiver(here), output=True, expect=expected.append)
    assert (again.bytes, expected[1:]) == (7, [7])
    assert copied.read_bytes() == b"changed"


def test_a_log_that_was_cut_on_its_host_is_fetched_behind_what_is_local(
    run: Driver, there: OpenConnection, tmp_path: Path
) -> None:
    start(run, "print('before')")
    run.ended()
    here, log = tmp_path / "run" / "h", run.run_dir / "rank-0.log"
    fetched = [fetch_host("r1", HERE, there, FileReceiver(here), output=False).bytes > 0]
    for text, more in ((b"cut\n", b"a longer line\n"), (b"", b"3\n")):
        for change in (text, text + more, text + more):
            log.write_bytes(change)
            fetched.append(fetch_host("r1", HERE, there, FileReceiver(here), output=False).bytes > 0)
    log.write_bytes(b"cut, and longer by now\n")
    fetched.append(fetch_host("r1", HERE, there, FileReceiver(here), output=False).bytes > 0)
    expected = b"before\ncut\na longer line\n3\ncut, and longer by now\n"
    assert (here / "rank-0.log").read_bytes() == expected
    assert fetched == [True, True, True, False, False, True, False, True]


def test_a_broken_fetch_goes_on_where_it_ended(run: Driver, there: OpenConnection, tmp_path: Path) -> None:
    out = run.home / "out"
    out.mkdir()
    data = os.urandom(700_000)
    (out / "model.bin").write_bytes(data)
    start(run, "print('hello')")
    run.ended()
    here = tmp_path / "here"
    mtime = (out / "model.bin").stat().st_mtime_ns
    (here / "output").mkdir(parents=True)
    key = make_key("output/model.bin")
    (here / "output" / f".{key}.{mtime}-{len(data)}.part").write_bytes(data[:500_000])
    (here / "output" / f".{key}.5-17.part").write_bytes(b"of an older one")
    (here / "rank-0.log").write_bytes(b"hel")
    fetched = fetch_host("r1", HERE, there, FileReceiver(here), output=True)
    assert (here / "output" / "model.bin").read_bytes() == data
    assert (here / "rank-0.log").read_bytes() == b"hello\n"
    assert fetched.bytes < 300_000
    assert [path.name for path in (here / "output").iterdir()] == ["model.bin"]


def test_a_record_tells_whether_it_was_said_where_the_script_writes() -> None:
    whole = plan((None,))
    record = build_run_record(whole, whole.nodes[0], (HERE,))
    assert not read_record({**record, "output": ""}).has_output
    assert read_record({**record, "output": "/out"}).has_output
    record.pop("output")  # one of an older gpulaunch does not tell
    assert read_record(record).has_output


@pytest.mark.parametrize(
    ("file_age_s", "text_age_s"),
    [(0.0, 0.0), (100.0, 100.0), (0.0, 100.0), (3600.0, 0.0)],
    ids=["fresh", "old", "a-full-disk-keeps-the-text", "a-clock-was-set-or-the-host-slept"],
)
def test_a_stopped_supervisor_is_listed_as_such_once_its_heartbeat_is_old(
    run: Driver, file_age_s: float, text_age_s: float
) -> None:
    start(run, WAIT)
    heartbeat = run.run_dir / "heartbeat"
    run.until(lambda: bool(heartbeat.read_text()))
    pid = run.answer["state"]["supervisor"][0]
    os.kill(pid, signal.SIGSTOP)
    run.until(lambda: (found := read_stat(pid)) is not None and found.state == "T")
    heartbeat.write_text(f"{time.monotonic() - text_age_s:.3f}")
    at = time.time() - file_age_s
    os.utime(heartbeat, (at, at))
    (listed,) = question(run, "list")["runs"]
    os.kill(pid, signal.SIGCONT)
    stall = listed["stall"]
    is_old = file_age_s and text_age_s
    assert (stall and (stall["pid"], stall["stopped"])) == ((pid, True) if is_old else None)
    assert validate_runs({"runs": [{**listed, "run_id": make_run_id("r")}]})[1] == ""
    run.say("stop 5 enough")
    assert run.ended()["phase"] == "ended"


def test_a_living_run_is_listed_with_its_state_its_tail_and_whether_somebody_follows(run: Driver) -> None:
    start(run, "print('step 1 loss: 0.5', flush=True)\n" + WAIT)
    run.until(lambda: b"up" in run.log())
    (listed,) = question(run, "list")["runs"]
    assert (listed["alive"], listed["detached"], listed["state"]["phase"]) == (True, False, "running")
    assert listed["tail"] == "step 1 loss: 0.5\nup\n"
    assert listed["client_age_s"] < 30
    assert question(run, "list", prefix="x")["runs"] == []
    run.say("detach")
    run.event("detached")
    assert question(run, "list")["runs"][0]["detached"]
    with pytest.raises(RequestDenied, match="still runs") as denied:
        question(run, "remove", run_id="r1")
    assert denied.value.fix == "gpulaunch stop r1"


def test_a_living_run_is_listed_with_what_was_measured_last_unless_that_is_old(run: Driver) -> None:
    start(run, WAIT)
    run.until(lambda: b"up" in run.log())
    ranks = {"0": {"rss_mib": 512, "cpu": 99.0}}
    gpus = {"GPU-a": {"busy": 91.4, "memory_mib": 1024.5}, "GPU-b": {"busy": None, "memory_mib": 1.0}}
    sample = {"event": "usage", "t": time.time(), "gpus": gpus, "ranks": ranks}
    path = run.run_dir / "usage.jsonl"
    path.write_text(json.dumps(sample) + "\n" + "[" * 20_000 + '\n{"event": "usa')
    answer = question(run, "list", gpu_use=True)
    assert answer["runs"][0]["usage"]["ranks"] == ranks
    assert answer["gpu_use"] == {"GPU-a": [91, 1024]}
    path.write_text(json.dumps({**sample, "t": time.time() - 3600}) + "\n")
    answer = question(run, "list", gpu_use=True)
    assert (answer["runs"][0]["usage"], answer["gpu_use"]) == (None, {})


def test_an_ended_run_is_listed_when_asked_for_and_can_be_removed(run: Driver) -> None:
    start(run, "print(1)")
    run.ended()
    assert question(run, "list")["runs"] == []
    assert len(question(run, "list", ended=True)["runs"]) == 1
    assert len(question(run, "list", ended=True, newest=True)["runs"]) == 1
    question(run, "remove", run_id="r1")
    assert list(run.run_dir.parent.iterdir()) == []
    # As a request does that another one has overtaken, in a process without the children of other tests.
    again = f"from {remove_run.__module__} import remove_run; remove_run({str(run.run_dir)!r})"
    subprocess.run([PYTHON, "-c", again], check=True)
    assert question(run, "remove", run_id="r1")["alive"] is False  # nor is it an error of two clients
    with pytest.raises(
        RequestDenied, match="this host has nothing of r1: it was removed, or the disk is new"
    ) as denied:
        question(run, "stop", run_id="r1")
    assert denied.value.fix == "gpulaunch ps --all lists your runs"


@pytest.mark.parametrize("run_id", [".", "..", "../runs", "", "r1/..", "/tmp"])
def test_nothing_but_a_run_can_be_named(run: Driver, run_id: str) -> None:
    start(run, "print(1)")
    run.ended()
    with pytest.raises(RequestDenied, match="no run called"):
        question(run, "remove", run_id=run_id)
    assert run.run_dir.exists()


def test_a_detached_run_needs_no_follower_any_more(run: Driver) -> None:
    wait = f"while not os.path.exists({str(run.home / 'go')!r}): time.sleep(0.05)"
    start(run, f"import os, time\n{wait}\ntime.sleep(1)\nprint('done')", disconnect_s=40.0)
    run.say("detach")
    run.event("detached")
    run.hang_up()
    (run.run_dir / CLIENT).write_text(f"{time.monotonic() - 60:.3f}")  # as if that were a minute ago
    (run.home / "go").touch()
    assert run.gone() == {}
    assert (run.run_dir / "rank-0.log").read_bytes() == b"done\n"


def test_looking_keeps_no_attached_run_alive(run: Driver) -> None:
    start(run, WAIT, disconnect_s=1.5)
    run.until(lambda: b"up" in run.log())
    run.hang_up()
    argv = ("env", f"XDG_STATE_HOME={run.home}", *protocol.build_supervisor_argv(PYTHON, "follow", "r1"))
    viewer = run.connection.start(argv)
    viewer.write(protocol.follow_request("r1", {}, viewer=True))

    def look() -> None:
        deadline = time.monotonic() + 30.0
        while time.monotonic() < deadline:
            viewer.write(b"beat\n")
            time.sleep(0.1)

    with pytest.raises(HostError):  # it ends with the run
        look()
    viewer.close()
    assert run.gone() == {}


def test_once_tells_what_is_there_now_and_since_where_to_begin(run: Driver) -> None:
    start(run, "import time\nfor n in range(100): print('line', n)\nprint('up', flush=True); time.sleep(60)")
    run.until(lambda: b"up" in run.log())
    wishes = {"viewer": True, "once": True, "only": ["rank-0.log"], "since": {"bytes": 20}}
    stream = Elsewhere(run.home, HERE).start(protocol.build_supervisor_argv(PYTHON, "follow", "r1"))
    stream.write(protocol.follow_request("r1", {}, **wishes))
    frames = list(protocol.FrameReader().feed(b"".join(iter_stdout(stream))))
    stream.close()
    assert b"".join(frame.data for frame in frames) == b"line 98\nline 99\nup\n"
    assert "end" in frames[-1].header


def test_a_run_of_the_past_is_found_by_the_time_of_its_output(run: Driver) -> None:
    start(run, "print('a' * 50)")
    run.ended()
    sizes = run.run_dir / "sizes.jsonl"
    noted = [
        {"t": time.time() - 900, "sizes": {"rank-0.log": 7}},
        {"t": time.time(), "sizes": {"rank-0.log": 9}},
    ]
    strange = "[" * 200_000 + '\n{"t": 1, "sizes": {"rank-0.log": Infinity}}\n'
    sizes.write_text(strange + "".join(json.dumps(line) + "\n" for line in noted) + '{"torn')
    assert find_offsets(str(run.run_dir), {"seconds": 600.0}) == {"rank-0.log": 7}
    assert find_offsets(str(run.run_dir), {"seconds": 1800.0}) == {}


def test_a_moment_ago_is_found_by_the_second(run: Driver) -> None:
    start(run, "print('a' * 50)")
    run.ended()
    for name in ("sizes.jsonl", "recent.jsonl"):
        assert json.loads((run.run_dir / name).read_text().splitlines()[-1])["sizes"]["rank-0.log"] == 51
    now = time.time()
    notes = {"sizes.jsonl": (300, 30), "recent.jsonl.1": (20, 18), "recent.jsonl": (16, 3, 1)}
    for name, ages in notes.items():
        lines = (json.dumps({"t": now - age, "sizes": {"rank-0.log": 1000 - age}}) + "\n" for age in ages)
        (run.run_dir / name).write_text("".join(lines))
    for seconds, size in ((2.0, 997), (10.0, 984), (17.0, 982), (25.0, 970), (600.0, None)):
        expected = {} if size is None else {"rank-0.log": size}
        assert find_offsets(str(run.run_dir), {"seconds": seconds}) == expected


@pytest.fixture
def trained(run: Driver) -> Driver:
    """Return a run that has ended, with two checkpoints, a link to the last one, and one that leads out."""
    out = run.home / "out"
    for step in (100, 200):
        (out / f"checkpoint-{step}" / "deep").mkdir(parents=True)
        (out / f"checkpoint-{step}" / "deep" / "model.bin").write_text(f"of {step}")
    (out / "last").symlink_to("checkpoint-200")
    (out / "away").symlink_to("/etc")
    (out / "a[b]").write_text("odd name")
    start(run, "print('hello')", cwd=str(run.home))
    run.ended()
    return run


def test_chosen_paths_of_the_output_come_alone(
    trained: Driver, there: OpenConnection, tmp_path: Path
) -> None:
    def fetched(*paths: str) -> tuple[dict[str, str], list[str]]:
        here = tmp_path / f"here{len(list(tmp_path.iterdir()))}"
        result = fetch_host("r1", HERE, there, FileReceiver(here), output=True, paths=paths)
        found = [path for path in here.rglob("*") if path.is_file()]
        return {path.relative_to(here).as_posix(): path.read_text() for path in found}, result.skipped

    one, two = ({f"output/checkpoint-{n}/deep/model.bin": f"of {n}"} for n in (100, 200))
    assert fetched("checkpoint-100") == (one, [])
    assert fetched("checkpoint-*/") == ({**one, **two}, [])
    assert fetched("checkpoint-200/deep/model.bin", f"{trained.home}/out/checkpoint-100/") == (
        {**one, **two},
        [],
    )
    assert fetched("last") == ({"output/last/deep/model.bin": "of 200"}, [])
    assert fetched("a[[]b]") == ({"output/a[b]": "odd name"}, [])
    assert fetched(f"{trained.home}/out/../out/checkpoint-100") == (one, [])
    whole, skipped = fetched(".")
    assert (set(whole), skipped) == ({*one, *two, "output/a[b]"}, [])
    here = tmp_path / "nowhere"
    result = fetch_host("r1", HERE, there, FileReceiver(here), output=True, paths=("nowhere", "a[[]*"))
    assert (result.absent, result.skipped, result.files) == (("nowhere",), [], 1)
    for path in ("../secret", "/etc/passwd", "away", "away/passwd", "checkpoint-100/../../secret"):
        files, skipped = fetched(path)
        assert files == {}
        assert len(skipped) == 1
        assert skipped[0].startswith(f"{path}: ")


def test_of_a_run_without_an_output_directory_a_path_is_where_its_script_ran(tmp_path: Path) -> None:
    spec = {"launch": {"output": ""}, "cwd": str(tmp_path)}
    (tmp_path / "out").mkdir()
    places = run_places(spec, "/run")
    assert list(find_chosen(places, "out")) == [("workdir/out", str(tmp_path / "out"))]
    assert run_places({"launch": {"output": "{run_dir}/o"}, "cwd": "{run_dir}"}, "/run") == {
        "output/": "/run/o",
        "workdir/": "/run",
    }
    assert list(find_chosen(places, "absent")) == []
    with pytest.raises(OSError, match="not below"):
        list(find_chosen(places, "/etc"))


def test_hosts_with_as_many_files_share_a_line() -> None:
    came = {f"n{number}": FetchResult(13, 1024 * number) for number in (1, 2, 3)}
    refused = HostError("n4", "no answer")
    others: dict[str, FetchResult | HostError] = {
        "n4": refused,
        "n5": FetchResult(1, 512),
        "n6": FetchResult(0, 0),
    }
    assert list(render_fetched({**came, **others})) == [
        "n[1-3]: 13 files each, 6.0 KiB together",
        "n5: 1 file, 512 B",
        "n6: nothing new",
    ]


def test_the_place_of_what_was_fetched_is_that_of_the_files(tmp_path: Path) -> None:
    (tmp_path / "a" / "workdir").mkdir(parents=True)
    assert name_place(tmp_path, ["a"], ()) == tmp_path / "a"
    assert name_place(tmp_path, ["a"], ("out",)) == tmp_path / "a" / "workdir"
    assert name_place(tmp_path, ["a", "b"], ("out",)) == tmp_path / "HOST" / "workdir"
    (tmp_path / "b" / "output").mkdir(parents=True)
    assert name_place(tmp_path, ["a", "b"], ("out",)) == tmp_path / "HOST" / "output or workdir"
    assert name_place(tmp_path, ["c"], ("out",)) == tmp_path / "c"
