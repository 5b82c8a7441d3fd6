"""The supervisor for real, on this machine: what it starts and records, and what any kill leaves."""

import json
import os
import signal
import stat
import time
from pathlib import Path
from typing import Any

import pytest

from launcher.follow.protocol import MARKER, FrameReader
from launcher.onhost.supervisor.client_files import StopRequest, is_stopped_by_person, request_stop
from launcher.onhost.supervisor.requests import start
from launcher.onhost.supervisor.requests._logs import LogReader
from launcher.onhost.supervisor.run_dir import CLIENT, is_alive, read_state
from launcher.remote.program_source import read_program_source
from launcher.rundir.end_state import classify_end
from tests.launcher.onhost_driver import ALONE, WAIT, Driver

pytestmark = pytest.mark.slow


def test_a_run_that_ends_well_is_recorded_and_leaves_nothing(run: Driver) -> None:
    run.start("print('hello')", ranks=2)
    end = run.ended()
    assert end["phase"] == "ended"
    assert end["exit"]["launcher_code"] == 0
    assert end["exit"]["ranks"] == {"0": 0, "1": 0}
    assert end["exit"]["remaining_pids"] == []
    assert run.log("rank-0.log") == run.log("rank-1.log") == b"hello\n"
    assert run.gone() == {}


def test_a_stray_file_where_the_connection_begins_is_not_imported(run: Driver, tmp_path: Path) -> None:
    for name in ("zlib", "json", "signal", "socket"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a stray file')")
    run.prefix = ("env", "-C", str(tmp_path))
    run.start("print('hello')", cwd="/")
    run.ended()
    assert run.log() == b"hello\n"


def test_arguments_arrive_unchanged(run: Driver) -> None:
    words = ["a b", "$HOME", "`id`", "'\"", "*", "{run_dir}", "", "-x", "--", "é\n\t", ";rm", "\\"]
    run.start("import json, sys; print(json.dumps(sys.argv[1:]))", *words)
    run.ended()
    assert json.loads(run.log()) == words


def test_the_run_directory_is_the_users_alone_and_keeps_no_secret(run: Driver) -> None:
    run.start("print('hello')", env={"HF_TOKEN": "hf_secret"})
    run.ended()
    assert stat.S_IMODE(run.run_dir.stat().st_mode) == 0o700
    for path in run.run_dir.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
        assert not path.is_file() or b"hf_secret" not in path.read_bytes(), path


def test_the_environment_is_scrubbed_then_set(run: Driver) -> None:
    script = (
        "import os; print(os.environ.get('XDG_CONFIG_HOME'), os.environ['A'], os.environ['GPULAUNCH_RUN_ID'])"
    )
    run.start(script, env={"A": "$x {run_dir}"}, unset=["XDG_C*"])
    run.ended()
    assert run.log().decode() == f"None $x {run.run_dir} r1\n"


def test_the_launcher_starts_as_from_a_shell_in_a_session_of_its_own(run: Driver) -> None:
    told = (
        "grep SigIgn: /proc/self/status; umask; ls -l /proc/self/fd/0; cut -d' ' -f6 /proc/$$/stat; echo $$"
    )
    before = os.umask(0o027)
    try:
        run.start("", argv=["bash", "-c", told])
    finally:
        os.umask(before)
    run.ended()
    ignored, mask, stdin, session, pid = run.log("launcher.log").decode().splitlines()
    # Real-time signals: the first are the C library's own, and no program can reset them.
    assert int(ignored.split()[1], 16) & ((1 << signal.SIGSYS) - 1) == 0
    assert (int(mask, 8), stdin.split()[-1], session) == (0o027, "/dev/null", pid)


# To the run's own files: events of no part of it, numbers that no pid can be, and logs that are no files.
STRANGE = """
import os, time
os.chdir(os.environ["GPULAUNCH_RUN_DIR"])
with open("events.jsonl", "ab", 0) as events:
    events.write(b"[" * 200_000 + b"\\n[]\\n" + b"x" * 300_000 + b"\\n")
    for pid in ("Infinity", "1e400", "4294967296", "99999999999999999999", "null"):
        events.write(b'{"event": "rank", "rank": 0, "ticks": 1, "pid": %s}\\n' % pid.encode())
    events.write(b'{"event": "script_exit", "rank": Infinity, "code": 1}\\n')
os.mkdir("a.log")
os.mkfifo("b.log")
os.symlink("/dev/zero", "c.log")
print("done")
"""


def test_what_a_script_writes_among_the_files_of_its_run_ends_nothing(run: Driver) -> None:
    gauge = ["gauge.py", read_program_source("gauge").decode()]
    run.start(STRANGE, argv=ALONE, files=[["s/x.py", STRANGE], gauge], usage_every_s=0.1)
    assert run.ended()["exit"]["ranks"] == {"0": 0}
    assert run.log() == b"done\n"
    assert run.event("ended")
    assert not [event for event in run.events if event["event"] == "internal_error"]


@pytest.mark.parametrize(
    ("policy", "why"),
    [
        ("stop", "no client has followed this attached run for 1 s"),
        ("continue", "its client was gone for 1 s before all nodes had started"),
    ],
)
def test_a_run_whose_client_stays_away_ends_until_it_is_told_to_go_on(
    run: Driver, policy: str, why: str
) -> None:
    run.start(WAIT, disconnect_s=1.0, on_disconnect=policy, grace_s=0.0)
    run.hang_up()  # whether its rank is up by then or not
    (run.run_dir / CLIENT).unlink()
    assert run.gone() == {}
    state = json.loads((run.run_dir / "state.json").read_text())
    assert (state["exit"]["why"], state["exit"]["cause"]) == (why, "no_client")
    events = [json.loads(line) for line in (run.run_dir / "events.jsonl").read_text().splitlines()]
    assert [event["grace_s"] for event in events if event["event"] == "stopping"] == [0.0]


def test_a_run_is_told_to_go_on_once_and_says_so_once(run: Driver) -> None:
    wait = f"while not os.path.exists({str(run.home / 'go')!r}): time.sleep(0.05)"
    script = f"import os, time\n{wait}\ntime.sleep(1)\nprint('done')"
    run.start(script, disconnect_s=40.0, on_disconnect="continue")
    run.say("detach")
    run.say("detach")
    run.event("detached")
    run.hang_up()
    (run.run_dir / CLIENT).write_text(f"{time.monotonic() - 60:.3f}")  # as if that were a minute ago
    (run.home / "go").touch()
    assert run.gone() == {}
    assert (run.run_dir / "rank-0.log").read_bytes() == b"done\n"
    assert (run.run_dir / "events.jsonl").read_text().count('"detached"') == 1


def test_a_detached_run_goes_on_without_a_client(run: Driver) -> None:
    run.start("import time; time.sleep(1.5); print('done')", disconnect_s=None)
    run.hang_up()
    assert run.gone() == {}
    assert (run.run_dir / "rank-0.log").read_bytes() == b"done\n"


def test_a_client_that_comes_back_misses_no_byte_and_gets_none_twice(run: Driver) -> None:
    script = "import os, time\nfor n in range(400): os.write(1, bytes([n % 256]) * 997); time.sleep(0.002)"
    run.start(script, disconnect_s=10.0)
    run.until(lambda: len(run.log()) > 5000)
    run.hang_up()
    time.sleep(0.3)
    run.follow({name: len(log) for name, log in run.logs.items()})
    run.ended()
    assert run.log() == b"".join(bytes([n % 256]) * 997 for n in range(400))


@pytest.mark.parametrize("held", [False, True], ids=["sent", "digested"])
def test_a_log_that_is_cut_while_it_is_followed_is_read_from_its_new_start(
    tmp_path: Path, *, held: bool
) -> None:
    log = tmp_path / "rank-1.log"
    log.write_bytes(b"before\n" * 3)
    reader = LogReader(str(tmp_path), {"digest": held})
    seen = bytes(reader.read_new(final=True))
    os.truncate(log, 0)  # as logrotate with copytruncate does; the ranks append
    seen += bytes(reader.read_new(final=True))
    with log.open("ab") as file:
        file.write(b"after\n")
    seen += bytes(reader.read_new(final=True))
    logs = [frame for frame in FrameReader().feed(MARKER + b"{}\n" + seen) if frame.header.get("log")]
    digests = [
        frame.header["digest"]["1"]
        for frame in FrameReader().feed(MARKER + b"{}\n" + seen)
        if "digest" in frame.header
    ]
    if held:
        assert [(said["lines"], said["last"]) for said in digests] == [(3, "before"), (4, "after")]
    else:
        assert [(bytes(frame.data), frame.header["offset"], frame.header.get("cut")) for frame in logs] == [
            (b"before\n" * 3, 0, None),
            (b"after\n", 0, True),
        ]


@pytest.mark.parametrize(
    ("name", "is_known"), [("rank-1.log", True), ("launcher.log", True), ("own.log", False)]
)
@pytest.mark.parametrize("is_live", [True, False])
def test_a_log_that_was_cut_and_has_outgrown_what_was_read_is_read_from_its_new_start(
    tmp_path: Path, name: str, *, is_known: bool, is_live: bool
) -> None:
    log = tmp_path / name
    log.write_bytes(b"before\n")
    reader = LogReader(str(tmp_path), {})
    reader.read_new(final=True)
    if not is_live:
        reader = LogReader(str(tmp_path), {"offsets": {name: 7}, "ends": {name: b"before\n".hex()}})
    log.write_bytes(b"after, and longer\n")
    _, frame = FrameReader().feed(MARKER + b"{}\n" + bytes(reader.read_new(final=True)))
    seen = (bytes(frame.data), frame.header["offset"], frame.header.get("cut"))
    assert seen == ((b"after, and longer\n", 0, True) if is_known else (b"and longer\n", 7, None))
    with log.open("ab") as file:
        file.write(b"more\n")
    _, frame = FrameReader().feed(MARKER + b"{}\n" + bytes(reader.read_new(final=True)))
    assert (bytes(frame.data), frame.header.get("cut")) == (b"more\n", None)


def test_binary_and_endless_lines_arrive_as_they_were_written(run: Driver) -> None:
    run.start("import os\nfor _ in range(64): os.write(1, bytes(range(256)) * 256)")
    run.ended()
    assert run.log() == bytes(range(256)) * 256 * 64


def test_a_stop_that_came_before_its_supervisor_is_obeyed(run: Driver) -> None:
    stop = ["stop.json", '{"why": "stopped by ada@pc", "grace_s": 1}']
    run.start(WAIT, argv=ALONE, files=[["s/x.py", WAIT], stop])
    assert run.ended()["exit"]["why"] == "stopped by ada@pc"


def test_a_start_is_alive_before_its_supervisor_and_a_stop_is_kept_for_that(tmp_path: Path) -> None:
    start.write_first_files(str(tmp_path), {"run_id": "r1", "rank_source": ""})
    state = read_state(str(tmp_path))
    assert (state["phase"], is_alive(state)) == ("starting", True)
    assert not request_stop(str(tmp_path), StopRequest("stopped by ada@pc", 1.0))
    assert is_stopped_by_person(str(tmp_path))


def test_two_runs_of_one_name_are_refused(run: Driver) -> None:
    run.start("print(1)")
    run.ended()
    run.start("print(2)")
    assert "already on this host" in run.answer["refused"]


def test_a_run_directory_that_was_never_filled_is_removed_by_a_later_start(run: Driver) -> None:
    place = run.run_dir.parent
    names = ("stale", "fresh", "theirs", "other")
    stale, fresh, theirs, other = paths = [place / f".{name}-1.0a1b2c3d.77" for name in names]
    for path in (stale, fresh, theirs):
        path.mkdir(parents=True)
        (path / "rank.py").write_text("")
    other.write_text("no directory")
    if os.geteuid() == 0:
        os.chown(theirs, 65534, -1)
    for path in (stale, theirs, other):
        os.utime(path, (0, 0))
    run.start("print(1)", argv=ALONE)
    run.ended()
    assert [path.exists() for path in paths] == [False, True, os.geteuid() == 0, True]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cwd": "/no/such/place"}, "No such file or directory"),
        ({"argv": ["/no/such/python", "x"]}, "the launcher cannot be started (/no/such/python"),
        ({"files": [["../../x", "out"]]}, "does not lie in the run directory"),
    ],
)
def test_what_cannot_start_is_refused_with_its_reason(
    run: Driver, change: dict[str, Any], words: str
) -> None:
    run.start("print(1)", **change)
    assert words in run.answer["refused"]
    assert run.gone() == {}
    if run.run_dir.exists():  # else nothing of it is ever listed
        end = json.loads((run.run_dir / "state.json").read_text())["exit"]
        assert (end["why"], classify_end(end)) == (run.answer["refused"], "failed")


def test_the_main_port_is_seen_to_be_free_at_the_end(run: Driver) -> None:
    import socket  # noqa: PLC0415 - only here

    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        run.start("print(1)", main_port=holder.getsockname()[1])
        assert run.ended()["exit"]["port_free"] is False
