"""The supervisor for real, on this machine: what it starts and records, and what any kill leaves."""

import json
import os
import signal
import stat
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from launcher.follow.protocol import MARKER, FrameReader
from launcher.onhost.supervisor.client_files import StopRequest, request_stop
from launcher.onhost.supervisor.daemon.launcher import codes_in_its_log
from launcher.onhost.supervisor.requests._logs import LogReader
from launcher.onhost.supervisor.run_dir import CLIENT
from launcher.remote.programs import read_program_source
from launcher.rundir.end_state import condition_after
from tests.launcher.onhost_driver import LAUNCHER, PYTHON, RUNAWAY, WAIT, Driver, pids_of, up

pytestmark = pytest.mark.slow

# A rank with a worker, and a daemon that has left session, group and parent, and cleaned its environment.
FAMILY = f"""
import subprocess, sys
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
{RUNAWAY}
"""


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


# As `mpirun` or `accelerate launch` of one rank: it waits, and reaps a rank the moment it has ended. Then it
# reports as torch does.
REAPER = """
import os, subprocess, sys
ranks = [
    subprocess.Popen([sys.executable, *sys.argv[2:]], env=dict(os.environ, RANK=str(n), LOCAL_RANK=str(n)))
    for n in range(int(sys.argv[1]))
]
codes = [rank.wait() for rank in ranks]
for n, code in enumerate(codes):
    print("  rank      : %d (local_rank: %d)" % (n, n), "  exitcode  : %d (pid: 7)" % code, sep=chr(10))
sys.exit(any(codes))
"""


@pytest.mark.parametrize("launcher", [LAUNCHER, REAPER])
def test_exit_codes_of_ranks_are_seen_whoever_reaps_them(run: Driver, launcher: str) -> None:
    script = "import os, sys; n = int(os.environ['RANK']); sys.exit(7 * n)"
    run.start(script, ranks=2, files=[["launch.py", launcher], ["s/x.py", script]])
    assert run.ended()["exit"]["ranks"]["1"] == 7


# The kernel's count of kills is read between a look at the ranks and one at the launcher: both end meanwhile.
SLOW_COUNT = """
import os
class Cgroup:
    make = classmethod(lambda cls, run_id: (None, ""))
class OomKills:
    def more(self):
        if os.path.exists("{up}"):
            open("{go}", "w").close()
            try:
                os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)  # the launcher, whose rank has ended before
            except ChildProcessError:
                pass  # long ago
        return 0
"""


@pytest.mark.parametrize("launcher", [LAUNCHER, REAPER])
def test_a_rank_that_ends_between_two_looks_with_its_launcher_is_the_cause(
    run: Driver, tmp_path: Path, launcher: str
) -> None:
    up, go = tmp_path / "up", tmp_path / "go"
    script = (
        f"import os, time; open('{up}', 'w')\nwhile not os.path.exists('{go}'): time.sleep(0.01)\nos._exit(7)"
    )
    cgroup = ["cgroup.py", SLOW_COUNT.format(up=up, go=go)]
    run.start(script, files=[["launch.py", launcher], ["s/x.py", script], cgroup])
    end = run.ended()["exit"]
    assert (end["ranks"], end["why"], end["cause"]) == ({"0": 7}, "rank 0 failed with exit code 7", "rank")


ALONE = [PYTHON, "{run_dir}/rank.py", "{run_dir}/s/x.py"]  # as the one rank of a world is started


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("print('done')", 0),
        ("raise SystemExit(7)", 7),
        ("import os; os._exit(7)", 7),
        ("import os; os.kill(os.getpid(), 9)", -9),
        ("raise ValueError", 1),
    ],
)
def test_the_exit_code_of_a_rank_without_a_launcher_is_seen(run: Driver, script: str, code: int) -> None:
    run.start(script, argv=ALONE)
    end = run.ended()["exit"]
    assert (end["ranks"], end["launcher_code"]) == ({"0": code}, code)
    killed, failed = "rank 0 was ended by signal 9 (SIGKILL)", f"rank 0 failed with exit code {code}"
    assert end["why"] == ("" if not code else killed if code < 0 else failed)
    assert end["cause"] == ("rank" if code else "exit")


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


def test_a_run_that_inherits_blocked_signals_is_stopped_all_the_same(run: Driver) -> None:
    block = "signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())"
    run.prefix = (PYTHON, "-c", f"import os, signal, sys; {block}; os.execvp(sys.argv[1], sys.argv[1:])")
    run.start(FAMILY, argv=ALONE)
    up(run)
    run.say("stop 5 enough")
    assert run.ended()["exit"]["ranks"] == {"0": -15}


def test_a_run_that_is_still_starting_is_stopped(run: Driver, tmp_path: Path) -> None:
    slow = tmp_path / "slow"
    os.mkfifo(slow)
    held = f"""
class Cgroup:
    make = classmethod(lambda cls, run_id: (None, open({str(slow)!r}).read()))
class OomKills:
    more = lambda self: 0
"""
    script = "import time; time.sleep(60)"
    files = [["s/x.py", script], ["cgroup.py", held]]
    starting = threading.Thread(target=run.start, args=[script], kwargs={"argv": ALONE, "files": files})
    starting.start()
    with slow.open("w"):  # its supervisor waits for this now
        assert request_stop(str(run.run_dir), StopRequest("enough", 5.0))
    starting.join()
    end = run.ended()["exit"]
    assert (end["why"], end["requested"], end["cause"]) == ("enough", True, "request")


def test_a_rank_without_a_launcher_ends_with_all_that_it_started(run: Driver) -> None:
    run.start(FAMILY, argv=ALONE)
    up(run)
    run.say("stop 5 enough")
    end = run.ended()["exit"]
    assert (end["ranks"], end["why"], end["remaining_pids"]) == ({"0": -15}, "enough", [])
    assert run.gone() == {}


def test_a_rank_without_a_launcher_ends_with_its_supervisor(run: Driver) -> None:
    run.start(FAMILY, argv=ALONE)
    up(run)
    os.kill(pids_of(run.answer)[0], signal.SIGKILL)
    end = run.ended()["exit"]
    assert (end["why"], end["cause"]) == ("the supervisor was killed", "supervisor")
    assert run.gone() == {}


def test_one_failing_rank_stops_the_others(run: Driver) -> None:
    run.start("import os, time\nif os.environ['RANK'] == '1': os._exit(3)\ntime.sleep(60)", ranks=3)
    started = time.monotonic()
    end = run.ended()
    assert time.monotonic() - started < 30  # the others would go on for a minute
    assert end["exit"]["ranks"] == {"0": -15, "1": 3, "2": -15}
    assert end["exit"]["why"] == "rank 1 failed with exit code 3"
    assert run.gone() == {}


@pytest.mark.parametrize("grace", ["5", "0"])
def test_stop_ends_every_process_of_a_rank_and_a_daemon_that_has_left_it(run: Driver, grace: str) -> None:
    run.start(FAMILY, ranks=2)
    up(run, 2)
    assert len(run.processes()) > 8
    run.say(f"stop {grace} enough")
    end = run.ended()
    assert end["exit"]["why"] == "enough"
    assert end["exit"]["remaining_pids"] == []
    assert run.gone() == {}


def test_a_run_of_the_same_id_in_another_home_is_not_ended_with_it(run: Driver, tmp_path: Path) -> None:
    other = Driver(tmp_path / "other")
    other.home.mkdir()
    try:
        gauge = ["gauge.py", read_program_source("gauge").decode()]
        for each in (run, other):
            each.start(FAMILY, files=[["launch.py", LAUNCHER], ["s/x.py", FAMILY], gauge])
            up(each, 1)
        lives = set(other.processes())
        run.say("stop 0 enough")
        run.ended()
        assert run.gone() == {}
        assert lives <= set(other.processes())
    finally:
        other.kill_everything()


def test_killing_the_supervisor_ends_everything(run: Driver) -> None:
    run.start(FAMILY, ranks=2)
    up(run, 2)
    os.kill(pids_of(run.answer)[0], signal.SIGKILL)
    end = run.ended()
    assert end["phase"] == "ended"
    assert end["exit"]["why"] == "the supervisor was killed"
    assert run.event("supervisor_died")["code"] == -9
    assert run.gone() == {}


def test_killing_supervisor_and_guardian_at_once_ends_every_rank(run: Driver) -> None:
    run.start(WAIT, ranks=2)
    up(run, 2)
    supervisor, guardian, _ = pids_of(run.answer)
    os.kill(guardian, signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)
    end = run.ended()
    assert (end["phase"], end["loss"]) == ("running", "killed")  # nobody was left to write another
    assert run.gone() == {}


def test_a_guardian_that_was_stopped_goes_with_its_run(run: Driver) -> None:
    run.start(WAIT)
    up(run)
    os.kill(pids_of(run.answer)[1], signal.SIGSTOP)
    run.say("stop 5 enough")
    assert run.ended()["exit"]["why"] == "enough"
    assert run.gone() == {}


def test_a_run_outlives_its_guardian(run: Driver) -> None:
    run.start("import time; time.sleep(0.5); print('done')")
    os.kill(pids_of(run.answer)[1], signal.SIGKILL)
    end = run.ended()
    assert (end["phase"], end["exit"]["ranks"]) == ("ended", {"0": 0})
    assert run.log() == b"done\n"


def test_killing_the_launcher_ends_its_ranks(run: Driver) -> None:
    run.start(FAMILY, ranks=2)
    up(run, 2)
    os.kill(pids_of(run.answer)[2], signal.SIGKILL)
    end = run.ended()
    assert end["exit"]["launcher_code"] == -9
    assert end["exit"]["ranks"] == {"0": -15, "1": -15}
    assert run.gone() == {}


def test_killing_one_rank_ends_the_run_and_its_signal_is_seen(run: Driver) -> None:
    run.start(FAMILY, ranks=2)
    up(run, 2)
    os.kill(run.event("rank", rank=1)["pid"], signal.SIGKILL)
    end = run.ended()
    assert end["exit"]["ranks"]["1"] == -9
    assert run.gone() == {}


def test_a_rank_that_ignores_sigterm_is_killed_after_the_grace(run: Driver) -> None:
    run.start("import signal, time; signal.signal(15, signal.SIG_IGN)\n" + WAIT)
    up(run)
    started = time.monotonic()
    run.say("stop 1 enough")
    assert run.ended()["exit"]["ranks"] == {"0": -9}
    assert 0.9 < time.monotonic() - started < 30  # it would be there for a minute


def test_a_stopped_rank_is_ended_too(run: Driver) -> None:
    run.start("import os, signal\nprint('up', flush=True)\nos.kill(os.getpid(), signal.SIGSTOP)")
    up(run)
    run.say("stop 5 enough")
    assert run.ended()["exit"]["ranks"] == {"0": -15}


def test_sigterm_leaves_time_for_a_checkpoint_and_its_workers_live_meanwhile(run: Driver) -> None:
    script = """
import signal, subprocess, sys, time
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
def save(*_):
    time.sleep(0.5)
    print("saved", worker.poll())
    sys.exit(0)
signal.signal(signal.SIGTERM, save)
print("up", flush=True)
time.sleep(60)
"""
    run.start(script)
    up(run)
    run.say("stop 10 enough")
    assert run.ended()["exit"]["ranks"] == {"0": 0}
    assert b"saved None\n" in run.log()
    assert run.gone() == {}


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
    run.start(WAIT, disconnect_s=1.0, on_disconnect=policy, grace_s=2.0)
    run.hang_up()  # whether its rank is up by then or not
    assert run.gone() == {}
    state = json.loads((run.run_dir / "state.json").read_text())
    assert (state["exit"]["why"], state["exit"]["cause"]) == (why, "no_client")
    events = [json.loads(line) for line in (run.run_dir / "events.jsonl").read_text().splitlines()]
    assert [event["grace_s"] for event in events if event["event"] == "stopping"] == [2.0]


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


def test_binary_and_endless_lines_arrive_as_they_were_written(run: Driver) -> None:
    run.start("import os\nfor _ in range(64): os.write(1, bytes(range(256)) * 256)")
    run.ended()
    assert run.log() == bytes(range(256)) * 256 * 64


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


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become another user")
@pytest.mark.parametrize(
    ("end", "said", "parent", "code"),
    [
        ("os._exit(7)", None, 0, None),  # whoever reaps it says how
        ("os._exit(7)", 7, 0, 7),
        ("os.kill(os.getpid(), 11)", None, 0, None),
        ("os._exit(7)", None, 65534, 7),
        ("os.kill(os.getpid(), 11)", 0, 65534, -11),
        ("os._exit(0)", None, 65534, 0),
    ],
)
def test_a_status_that_the_kernel_hides_is_not_taken_for_an_exit_code_0(
    end: str, said: int | None, parent: int, code: int | None
) -> None:
    """One that the observer, of another user, may not trace, as one with file capabilities."""
    script = f"""
import json, os, sys
from launcher.onhost.procfs import read_stat
from launcher.onhost.supervisor.daemon.ranks import exit_code_of
own = bool({parent})
ready, go = os.pipe()
pid = os.fork()
if pid == 0:
    os.setresuid(65534, 65534, 65534)
    {end}
os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
if not own and (observer := os.fork()):
    os.waitpid(observer, 0)
    sys.exit()
os.setresuid(65533, 65533, 65533)
print(json.dumps([read_stat(pid).status, exit_code_of(pid, read_stat(pid).status, {said})]))
sys.stdout.flush()
os._exit(0)
"""
    done = subprocess.run([PYTHON, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(done.stdout) == [0, code]


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
        assert (end["why"], condition_after(end)) == (run.answer["refused"], "failed")


def test_stop_as_a_command_of_its_own_waits_for_the_end(run: Driver) -> None:
    from launcher.follow import protocol  # noqa: PLC0415 - only here

    run.start(WAIT, disconnect_s=None)
    up(run)
    argv = ("env", f"XDG_STATE_HOME={run.home}", *protocol.command(PYTHON, "stop", "r1"))
    done = run.connection.run(argv, stdin=protocol.request({"mode": "stop", "run_id": "r1", "grace_s": 5}))
    (frame,) = protocol.FrameReader().feed(done.stdout)
    assert frame.header["state"]["phase"] == "ended"
    assert frame.header["state"]["exit"]["ranks"] == {"0": -15}


def test_the_main_port_is_seen_to_be_free_at_the_end(run: Driver) -> None:
    import socket  # noqa: PLC0415 - only here

    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        run.start("print(1)", main_port=holder.getsockname()[1])
        assert run.ended()["exit"]["port_free"] is False


SIMPLE_LOG = """\
Traceback (most recent call last):
    raise subprocess.CalledProcessError(returncode=process.returncode, cmd=cmd)
subprocess.CalledProcessError: Command '['python', 'rank.py']' died with <Signals.SIGKILL: 9>.
"""
ELASTIC_LOG = """\
Other Failures:
[1]:
  time      : 2026-11-22_01:18:13
  host      : node-2
  rank      : 3 (local_rank: 1)
  exitcode  : 7 (pid: 77)
  error_file: <N/A>
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-22_01:18:13
  host      : node-2
  rank      : 1 (local_rank: 0)
  exitcode  : -9 (pid: 76)  (SIGKILL)
  error_file: <N/A>
"""


@pytest.mark.parametrize(
    ("log", "unseen", "codes"),
    [
        (SIMPLE_LOG, [0], {0: -9}),
        (SIMPLE_LOG, [0, 1], {}),
        (ELASTIC_LOG, [1, 3], {1: -9, 3: 7}),
        (ELASTIC_LOG, [1, 2], {1: -9}),
        (ELASTIC_LOG, [], {}),
        ("nothing of that kind", [0], {}),
    ],
)
def test_how_a_rank_ended_that_nobody_saw_is_read_from_its_launchers_words(
    tmp_path: Path, log: str, unseen: list[int], codes: dict[int, int]
) -> None:
    (tmp_path / "launcher.log").write_text(log)
    assert codes_in_its_log(str(tmp_path), unseen) == codes
