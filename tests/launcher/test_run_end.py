"""How a run ends, for real on this machine: by its ranks, a stop or any kill, and what it leaves."""

import json
import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from launcher.follow import protocol
from launcher.onhost.supervisor.client_files import StopRequest, kill_supervisor, request_stop, write_stop
from launcher.onhost.supervisor.daemon.launcher import read_logged_codes
from launcher.remote.program_source import read_program_source
from tests.launcher.onhost_driver import ALONE, FAMILY, LAUNCHER, NO_GROUP, PYTHON, WAIT, Driver, pids_of, up

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

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("launcher", [LAUNCHER, REAPER])
def test_exit_codes_of_ranks_are_seen_whoever_reaps_them(run: Driver, launcher: str) -> None:
    script = "import os, sys; n = int(os.environ['RANK']); sys.exit(7 * n)"
    run.start(script, ranks=2, files=[["launch.py", launcher], ["s/x.py", script]])
    assert run.ended()["exit"]["ranks"]["1"] == 7


# The kernel's count of kills is read between a look at the ranks and one at the launcher: both end meanwhile.
SLOW_COUNT = """
class OomKills:
    def count_new(self):
        if os.path.exists("{up}"):
            open("{go}", "w").close()
            try:
                os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)  # the launcher, whose rank has ended before
            except ChildProcessError:
                pass  # long ago
        return 0
    def is_known(self):
        return False
"""


@pytest.mark.parametrize("launcher", [LAUNCHER, REAPER])
def test_a_rank_that_ends_between_two_looks_with_its_launcher_is_the_cause(
    run: Driver, tmp_path: Path, launcher: str
) -> None:
    up, go = tmp_path / "up", tmp_path / "go"
    script = (
        f"import os, time; open('{up}', 'w')\nwhile not os.path.exists('{go}'): time.sleep(0.01)\nos._exit(7)"
    )
    run.cgroup = NO_GROUP + SLOW_COUNT.format(up=up, go=go)
    run.start(script, files=[["launch.py", launcher], ["s/x.py", script]])
    end = run.ended()["exit"]
    assert (end["ranks"], end["why"], end["cause"]) == ({"0": 7}, "rank 0 failed with exit code 7", "rank")


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
    run.cgroup = f"{NO_GROUP}\nCgroup.make = lambda run_id: (None, open({str(slow)!r}).read())\n"
    script = "import time; time.sleep(60)"
    starting = threading.Thread(target=run.start, args=[script], kwargs={"argv": ALONE})
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
    end = run.ended()
    assert end["exit"]["ranks"] == {"0": -15, "1": 3, "2": -15}  # left alone, the others end with 0
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


def test_a_supervisor_that_does_not_end_its_run_in_time_is_killed_and_the_run_counts_as_stopped(
    run: Driver,
) -> None:
    run.start(WAIT, ranks=2)
    up(run, 2)
    os.kill(pids_of(run.answer)[0], signal.SIGSTOP)
    write_stop(str(run.run_dir), {"grace_s": 1.0, "why": "enough", "failed": False})
    kill_supervisor(str(run.run_dir))
    end = run.ended()["exit"]
    assert (end["why"], end["cause"]) == ("enough; the supervisor was killed", "request")
    assert end["requested"]  # so that no start follows, also where no other client hears of it
    said = [each["event"] for each in run.events if each["event"] in ("stopping", "supervisor_died", "ended")]
    assert said == ["stopping", "supervisor_died", "ended"]
    assert run.event("stopping")["requested"]
    assert run.gone() == {}


def test_a_follower_says_that_the_run_lives_however_much_its_ranks_print(run: Driver) -> None:
    run.start("import time\nwhile True: print('up', flush=True); time.sleep(0.002)")
    up(run)
    said = len(run.alive)
    run.until(lambda: len(run.alive) > said + 1)


def test_killing_supervisor_and_guardian_at_once_ends_every_rank(run: Driver) -> None:
    run.start(WAIT, ranks=2)
    up(run, 2)
    supervisor, guardian, _ = pids_of(run.answer)
    os.kill(guardian, signal.SIGKILL)
    os.kill(supervisor, signal.SIGKILL)
    end = run.ended()
    assert (end["phase"], end["loss"]) == ("running", "killed")  # nobody was left to write another
    assert run.gone() == {}
    run.end, seen = None, {name: len(log) for name, log in run.logs.items()}
    run.open("follow", protocol.follow_request(run.run_id, seen, once=True))  # as `logs` looks
    assert run.ended()["loss"] == "killed"


def test_a_guardian_that_was_stopped_goes_with_its_run(run: Driver) -> None:
    run.start(WAIT)
    up(run)
    os.kill(pids_of(run.answer)[1], signal.SIGSTOP)
    run.say("stop 5 enough")
    assert run.ended()["exit"]["why"] == "enough"
    assert run.gone() == {}


def test_a_run_outlives_its_guardian(run: Driver) -> None:
    go = run.home / "go"
    run.start(f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.01)\nprint('done')")
    os.kill(pids_of(run.answer)[1], signal.SIGKILL)
    go.touch()
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
    assert run.ended()["exit"]["ranks"] == {"0": -9}  # left alone, it ends with 0
    assert time.monotonic() - started > 0.9


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


def test_stop_as_a_command_of_its_own_waits_for_the_end(run: Driver) -> None:
    run.start(WAIT, disconnect_s=None)
    up(run)
    argv = ("env", f"XDG_STATE_HOME={run.home}", *protocol.build_supervisor_argv(PYTHON, "stop", "r1"))
    done = run.connection.run(
        argv, stdin=protocol.encode_request({"mode": "stop", "run_id": "r1", "grace_s": 5})
    )
    (frame,) = protocol.FrameReader().feed(done.stdout)
    assert frame.header["state"]["phase"] == "ended"
    assert frame.header["state"]["exit"]["ranks"] == {"0": -15}


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
    assert read_logged_codes(str(tmp_path), unseen) == codes
