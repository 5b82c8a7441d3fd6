"""Processes and software of the simulated hosts behave and fail as real ones do."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import FreshLab
from tests.lab import actors, clock, software
from tests.lab.connections import connect_between, ssh
from tests.lab.fault_runs import until
from tests.lab.hosts import Lab, LabHost

pytestmark = pytest.mark.lab


@pytest.mark.parametrize("how", ["listen", "bind", "inherit"])
def test_a_held_port_cannot_be_bound(lab: Lab, how: actors.Holding) -> None:
    host = lab.hosts[0]
    bind = [sys.executable, "-c", "import socket; socket.create_server(('', 29777)); print('bound')"]
    with actors.hold_port(host, 29777, how=how, user="alice") as holder:
        assert host.state(holder.pid) == "S"
        assert "Address already in use" in host.run(bind, check=False).stderr
        assert (connect_between(lab.hosts[1], host, 29777) == "") is (how != "bind")
        assert (host.parent(holder.pid), holder.pid == holder.process.pid) == (1, how != "inherit")
    assert host.run(bind).stdout == "bound\n"


def test_zombies_have_a_living_parent_and_go_with_it(lab: Lab) -> None:
    host = lab.hosts[0]
    with actors.zombies(host, 3, user="bob") as parent:
        pids = [parent.cast[f"zombie{number}"] for number in range(3)]
        assert [host.state(pid) for pid in pids] == ["Z", "Z", "Z"]
        assert {host.parent(pid) for pid in pids} == {parent.cast["parent"]}
        host.kill(pids[0])
        assert host.state(pids[0]) == "Z"
    assert not set(pids) & host.pids()


def test_a_half_dead_process_is_a_zombie_with_a_living_thread(lab: Lab) -> None:
    host = lab.hosts[0]
    with actors.half_dead(host) as actor:
        assert host.state(actor.pid) == "Z"
        thread = host.path(f"/proc/{actor.pid}/task/{actor.cast['thread']}/stat")
        # on a busy machine it may not have come to its sleep yet
        until(lambda: thread.read_text().rpartition(")")[2].split()[0] == "S", 30)


def test_a_stopped_process_ignores_sigterm_until_continued(lab: Lab) -> None:
    host = lab.hosts[0]
    with actors.stopped(host) as actor:
        host.kill(actor.pid, signal.SIGTERM)
        time.sleep(0.05)
        assert host.state(actor.pid) == "T"
        host.kill(actor.pid, signal.SIGCONT)
        assert actor.process.wait() == -signal.SIGTERM


def test_an_uninterruptible_process_hears_no_sigterm(lab: Lab) -> None:
    host = lab.hosts[0]
    with actors.uninterruptible(host, user="alice") as actor:
        host.kill(actor.pid, signal.SIGTERM)
        time.sleep(0.05)
        assert host.state(actor.pid) == "D"
        assert host.parent(actor.cast["child"]) == actor.pid


def test_a_stubborn_process_survives_sigterm(lab: Lab) -> None:
    host = lab.hosts[0]
    with actors.stubborn(host) as actor:
        host.kill(actor.pid, signal.SIGTERM)
        time.sleep(0.05)
        assert host.state(actor.pid) == "S"


def test_daemons_escape_their_session_and_parent(lab: Lab) -> None:
    host = lab.hosts[0]
    with actors.daemons(host, 2) as actor:
        for number in range(2):
            daemon = actor.cast[f"daemon{number}"]
            session = int(host.path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[3])
            assert host.parent(daemon) == 1
            assert session not in (actor.pid, daemon)


def environment_of(host: LabHost, pid: int) -> list[bytes]:
    """Return the variables of a process, once it has some: it has none while it becomes another program."""
    deadline = time.monotonic() + 30
    while not (held := host.path(f"/proc/{pid}/environ").read_bytes()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return held.split(b"\0")


def test_orphan_ranks_carry_the_launch_in_their_environment(lab: Lab) -> None:
    host = lab.hosts[0]
    with actors.orphan_ranks(host, 2, main_port=29511, user="alice", env={"GPULAUNCH_RUN_ID": "r1"}) as actor:
        for number in range(2):
            rank = actor.cast[f"rank{number}"]
            environ = environment_of(host, rank)
            assert host.parent(rank) == 1
            assert {b"LOCAL_RANK=%d" % number, b"MASTER_PORT=29511", b"GPULAUNCH_RUN_ID=r1"} <= set(environ)
            assert host.path(f"/proc/{rank}").stat().st_uid == 2001


def test_live_ranks_have_their_launcher_above_them(lab: Lab) -> None:
    host = lab.hosts[0]
    with actors.live_ranks(host, 2) as actor:
        assert {host.parent(actor.cast["rank0"]), host.parent(actor.cast["rank1"])} == {
            actor.cast["launcher"]
        }


def test_a_host_can_resolve_its_own_name_to_loopback(lab: Lab) -> None:
    host = lab.hosts[0]
    software.resolve_own_name_to(host)
    try:
        assert host.run(["getent", "ahostsv4", host.name]).stdout.split()[0] == "127.0.1.1"
        assert host.run(["getent", "ahostsv4", lab.hosts[1].name]).stdout.split()[0] == lab.hosts[1].address
    finally:
        software.restore_own_name(host)
    assert host.run(["getent", "ahostsv4", host.name]).stdout.split()[0] == host.address


@pytest.mark.parametrize("user", ["root", "alice"])
def test_login_noise_comes_before_the_answer(fresh_lab: FreshLab, user: str) -> None:
    lab = fresh_lab(1)
    software.login_noise(lab.hosts[0], b"*** welcome ***\n\x00\xff\x1b[31m", user=user)
    argv = ["ssh", "-F", str(lab.ssh_config), "-l", user, lab.hosts[0].name, "echo answer"]
    done = subprocess.run(argv, capture_output=True, check=False, timeout=30)
    assert done.stdout == b"*** welcome ***\n\x00\xff\x1b[31manswer\n", done.stderr
    software.quiet_login(lab.hosts[0], user=user)
    assert subprocess.run(argv, capture_output=True, check=False, timeout=30).stdout == b"answer\n"


def test_bad_interpreters_are_bad_in_their_own_way(fresh_lab: FreshLab) -> None:
    host = fresh_lab(1).hosts[0]
    began = time.monotonic()
    assert host.run([software.slow_python(host, 0.3), "-c", "print(1)"]).stdout == "1\n"
    assert time.monotonic() - began > 0.3
    garbage = host.popen([software.garbage_python(host, b"\x00\xff\n"), "-c", "print(1)"])
    assert garbage.stdout is not None
    assert (garbage.wait(), garbage.stdout.read()) == (0, b"\x00\xff\n")
    garbage.close()
    crashed = host.run([software.crashing_python(host, 3)], check=False)
    assert (crashed.returncode, crashed.stderr) == (3, "cannot load libpython3.so\n")


def test_a_host_can_lose_its_python(fresh_lab: FreshLab) -> None:
    host = fresh_lab(1).hosts[0]
    software.remove_python(host)
    assert ssh(host.lab, host.name, "python3 -V").returncode == 127
    own = Path(sys.executable).resolve()  # python3.11: a virtual environment's link may end at python3
    assert host.run([str(own), "-c", "print('still the tests own')"]).returncode == 0


def test_a_full_disk_takes_nothing_more(lab: Lab) -> None:
    host = lab.hosts[0]
    software.small_disk(host, "/root/run", 64)
    try:
        software.fill_disk(host, "/root/run")
        done = host.run(["dd", "if=/dev/zero", "of=/root/run/more", "bs=4096", "count=1"], check=False)
        assert "No space left on device" in done.stderr
    finally:
        software.remove_disk(host, "/root/run")


def test_a_hosts_wall_clock_jumps_for_running_processes_and_nobody_else(fresh_lab: FreshLab) -> None:
    first, second = fresh_lab(2).hosts
    clock.prepare(first)
    script = "import time\nwhile True: input(); print(int(time.time()), time.monotonic(), flush=True)"
    os.mkfifo(first.path("/tmp/asked"))
    with first.popen(["sh", "-c", f'exec "{sys.executable}" -c "{script}" < /tmp/asked']) as running:
        stream = first.path("/tmp/asked").open("w", buffering=1)
        with stream:
            readings = []
            for offset_s in (0, 7200):
                clock.jump(first, offset_s)
                stream.write("now\n")
                readings.append([float(word) for word in running.read_line().split()])
    assert 7200 <= readings[1][0] - readings[0][0] < 7210
    assert readings[1][1] - readings[0][1] < 10
    clock.jump(first, -86400)
    assert abs(int(first.run(["date", "+%s"]).stdout) + 86400 - time.time()) < 5
    assert abs(int(second.run(["date", "+%s"]).stdout) - time.time()) < 5
