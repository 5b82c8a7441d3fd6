"""Each tool of the lab does what it says."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from tests.conftest import FreshLab, strays
from tests.lab import actors, clock, layout, network, software, sshd
from tests.lab.bringup import REPOSITORY, LabError, down, host_names
from tests.lab.hosts import Lab, LabHost

pytestmark = pytest.mark.lab

CONNECT_TIMEOUT_S = 0.5


def ssh(lab: Lab, *words: str, **options: str) -> subprocess.CompletedProcess[str]:
    extra = [f"-o{key}={value}" for key, value in {"ConnectTimeout": "5", **options}.items()]
    argv = ["ssh", "-F", str(lab.ssh_config), *extra, *words]
    return subprocess.run(
        argv, capture_output=True, text=True, timeout=30, check=False, stdin=subprocess.DEVNULL
    )


def connect(address: str, port: int = 22, timeout_s: float = CONNECT_TIMEOUT_S) -> None:
    socket.create_connection((address, port), timeout_s).close()


def connect_between(source: LabHost, target: LabHost, port: int, timeout_s: float = CONNECT_TIMEOUT_S) -> str:
    """Return "" or the exception name that a TCP connect from one host to another ends with."""
    script = (
        "import socket, sys\n"
        "try: socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3]))\n"
        "except OSError as error: print(type(error).__name__)"
    )
    argv = [sys.executable, "-c", script, target.address, str(port), str(timeout_s)]
    return source.run(argv).stdout.strip()


def interfaces() -> set[str]:
    return {name for _, name in socket.if_nameindex()}


def unconnected_cables() -> set[str]:
    """Return cables of labs both of whose ends lie here; one end goes into the lab, and ends with it."""
    names = interfaces()
    return {name for name in names if name.startswith("glab") and f"{name}u" in names}


# --- hosts ----------------------------------------------------------------------------------------


def test_every_host_answers_ssh_under_its_own_name(lab: Lab) -> None:
    for host in lab.hosts:
        done = ssh(lab, host.name, "hostname; hostname -i; id -un")
        assert done.stdout.split() == [host.name, host.address, "root"], done.stderr


def test_hosts_yaml_holds_a_mapping_of_hosts_by_name(lab: Lab) -> None:
    hosts = yaml.safe_load(lab.inventory_path.read_text())["hosts"]
    assert list(hosts) == [host.name for host in lab.hosts]
    first = hosts[lab.hosts[0].name]
    assert first["address"] == lab.hosts[0].address
    assert Path(first["identity_file"]).stat().st_mode & 0o777 == 0o600
    assert first["python"] == sys.executable


def test_known_hosts_holds_one_key_per_host_and_they_differ(lab: Lab) -> None:
    lines = [line.split() for line in lab.known_hosts.read_text().splitlines()]
    assert len({line[2] for line in lines}) == len(lab.hosts)
    assert lines[0][0].split(",")[:2] == [lab.hosts[0].name, lab.hosts[0].address]


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this machine has no IPv6")
def test_every_host_answers_ssh_over_ipv6(lab: Lab) -> None:
    host = lab.hosts[2]
    assert ssh(lab, host.name, "hostname", HostName=host.address6).stdout == f"{host.name}\n"


def test_hosts_reach_each_other_by_name(lab: Lab) -> None:
    first, second, _ = lab.hosts
    script = f"import socket; socket.create_connection(('{second.name}', 22), 5); print(socket.gethostname())"
    assert first.run([sys.executable, "-c", script]).stdout.strip() == first.name


def test_a_host_sees_only_its_own_processes(lab: Lab) -> None:
    host = lab.hosts[0]
    seen = host.run(["ps", "-e", "-o", "pid="]).stdout.split()
    assert "1" in seen
    assert len(seen) <= 4, seen
    assert str(os.getpid()) not in host.run(["ls", "/proc"]).stdout.split() or os.getpid() < 100


@pytest.mark.parametrize(
    "place", ["/tmp", "/dev/shm", "/root", "/home/alice", "/usr/local", "/etc", "/run", "/var/log"]
)
def test_what_a_host_writes_is_seen_by_nobody_else(lab: Lab, place: str) -> None:
    first, second, _ = lab.hosts
    first.run(["touch", f"{place}/only-here"])
    assert first.path(f"{place}/only-here").exists()
    assert not second.path(f"{place}/only-here").exists()
    assert not Path(f"{place}/only-here").exists()
    first.path(f"{place}/only-here").unlink()


def test_the_shared_directory_is_the_same_on_all_hosts_and_here(lab: Lab) -> None:
    first, second, _ = lab.hosts
    first.run(["sh", "-c", f"echo hello > {lab.shared}/note"], user="alice")
    assert second.run(["cat", f"{lab.shared}/note"]).stdout == (lab.shared / "note").read_text() == "hello\n"
    (lab.shared / "note").unlink()


@pytest.mark.parametrize("user", ["root", "alice", "bob"])
def test_every_account_logs_in_and_runs_the_tests_interpreter(lab: Lab, user: str) -> None:
    command = (
        f"{sys.executable} -c 'import getpass, pathlib, yaml; print(getpass.getuser(), pathlib.Path.home())'"
    )
    done = ssh(lab, "-l", user, lab.hosts[0].name, command)
    home = "/root" if user == "root" else f"/home/{user}"
    assert done.stdout.split() == [user, home], done.stderr


def test_an_account_cannot_signal_another_ones_process(lab: Lab) -> None:
    host = lab.hosts[0]
    with host.popen(["sleep", "60"], user="bob") as foreign:
        done = host.run(["kill", str(foreign.pid)], user="alice", check=False)
        assert "not permitted" in done.stderr.lower()
        assert foreign.poll() is None


def test_init_reaps_orphans(lab: Lab) -> None:
    host = lab.hosts[0]
    host.run(["sh", "-c", "for i in 1 2 3; do (sleep 0.05 &) ; done"])
    deadline = time.monotonic() + 5
    while host.strays():
        assert time.monotonic() < deadline, host.strays()
        time.sleep(0.01)


def test_run_returns_output_and_status_and_raises_with_stderr(lab: Lab) -> None:
    host = lab.hosts[0]
    done = host.run(["sh", "-c", "cat; echo err >&2; exit 3"], input_text="in", check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "in", "err\n")
    with pytest.raises(RuntimeError, match="no such thing"):
        host.run(["sh", "-c", "echo no such thing >&2; exit 1"])
    with pytest.raises(RuntimeError, match="No such file"):
        host.run(["/nonexistent"])
    long = "x" * 100_000
    assert host.run(["printf", "%s", *[long] * 5]).stdout == long * 5
    with pytest.raises(subprocess.TimeoutExpired):
        host.run(["sleep", "60"], timeout_s=0.05)


def test_popen_reports_the_signal_that_ended_a_process(lab: Lab) -> None:
    with lab.hosts[0].popen(["sleep", "60"], env={"MARK": "here"}, user="alice") as process:
        environ = lab.hosts[0].path(f"/proc/{process.pid}/environ").read_bytes()
        assert b"MARK=here" in environ.split(b"\0")
        process.kill(signal.SIGTERM)
        assert process.wait() == -signal.SIGTERM


def test_strays_name_what_a_test_left_behind(lab: Lab) -> None:
    host = lab.hosts[1]
    with host.popen(["sleep", "61"]):
        left = strays(lab, 0)
        assert list(left) == [host.name]
        assert [text[2:] for text in left[host.name].values()] == ["sleep 61"]  # behind its state
    assert strays(lab, 3) == {}


def test_boot_ids_and_machine_ids_differ_between_hosts(lab: Lab) -> None:
    for path in ("/proc/sys/kernel/random/boot_id", "/etc/machine-id"):
        assert len({host.run(["cat", path]).stdout for host in lab.hosts}) == len(lab.hosts)


# --- up and down ----------------------------------------------------------------------------------


def test_up_and_down_by_hand_leave_nothing(tmp_path: Path) -> None:
    out = tmp_path / "by-hand"
    command = [sys.executable, "-m", "tests.lab"]
    up = [*command, "up", "--names", "l40s-[01-02]", "--out", str(out)]
    done = subprocess.run(up, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["l40s-01", "l40s-02"]
    lab = Lab.attach(out)
    assert lab.host("l40s-02").run(["hostname"]).stdout == "l40s-02\n"
    pids = {lab.spec.root_pid, *(host.init_pid for host in lab.hosts)}
    for _ in range(2):
        subprocess.run([*command, "down", "--out", str(out)], cwd=REPOSITORY, check=True)
    assert not out.exists()
    assert lab.spec.interface not in interfaces()
    assert not {pid for pid in pids if is_alive(pid)}
    assert str(out) not in Path("/proc/self/mountinfo").read_text()


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def test_a_lab_does_not_survive_the_process_that_made_it(tmp_path: Path) -> None:
    out = tmp_path / "orphaned"
    script = (
        "import os, signal, sys; from pathlib import Path; from tests.lab.hosts import Lab\n"
        "lab = Lab.up(1, Path(sys.argv[1])); print(lab.spec.root_pid, lab.spec.interface, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    argv = [sys.executable, "-c", script, str(out)]
    done = subprocess.run(argv, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    pid, interface = done.stdout.split()
    deadline = time.monotonic() + 10
    while is_alive(int(pid)) or interface in interfaces():
        assert time.monotonic() < deadline
        time.sleep(0.01)
    down(out)
    assert not out.exists()


def test_labs_coexist(fresh_lab: FreshLab) -> None:
    one, two = fresh_lab(1), fresh_lab(1)
    assert one.spec.octet != two.spec.octet
    assert one.hosts[0].run(["hostname", "-i"]).stdout != two.hosts[0].run(["hostname", "-i"]).stdout


def test_up_refuses_a_directory_that_holds_a_lab(lab: Lab) -> None:
    with pytest.raises(LabError, match="already holds a lab"):
        Lab.up(1, lab.out)


def test_up_says_why_and_leaves_nothing_when_it_cannot(tmp_path: Path) -> None:
    with pytest.raises(LabError, match="/nonexistent"):
        Lab.up(1, tmp_path / "x", shares=(Path("/nonexistent"),))
    with pytest.raises(LabError, match=r"x{65}"):
        Lab.up(("node-1", "x" * 65), tmp_path / "y")
    deadline = time.monotonic() + 10  # another lab that comes up meanwhile has such a pair for a moment
    while (left := unconnected_cables()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert left == set()
    assert not list(tmp_path.iterdir())


def test_a_halted_host_is_silent_and_boots_with_another_boot_id(fresh_lab: FreshLab) -> None:
    lab = fresh_lab(2)
    first, second = lab.hosts
    before = first.run(["cat", "/proc/sys/kernel/random/boot_id"]).stdout
    first.put("/tmp/x", "gone with the power")
    first.halt()
    assert connect_between(second, first, 22, 0.3) in ("TimeoutError", "OSError")
    first.boot()
    assert ssh(lab, first.name, "cat /proc/sys/kernel/random/boot_id").stdout not in ("", before)
    assert not first.path("/tmp/x").exists()


# --- network --------------------------------------------------------------------------------------


def test_nobody_is_at_the_dead_address(lab: Lab) -> None:
    with pytest.raises(OSError, match="No route to host"):
        connect(lab.dead_address(), timeout_s=10)


def test_the_silent_address_swallows_everything(lab: Lab) -> None:
    with pytest.raises(TimeoutError):
        connect(lab.silent_address())


def test_a_cut_host_is_unreachable_until_restored(lab: Lab) -> None:
    first, second, third = lab.hosts
    network.cut(first)
    try:
        with pytest.raises(OSError, match=r"timed out|No route"):
            connect(first.address)
        assert connect_between(second, first, 22)
        assert not connect_between(second, third, 22)
    finally:
        network.restore(first)
    connect(first.address, timeout_s=5)


def test_a_slow_cable_delays_both_ways(lab: Lab) -> None:
    host = lab.hosts[0]
    connect(host.address)
    with network.bad_cable(host, delay_s=0.1):
        began = time.monotonic()
        connect(host.address, timeout_s=5)
        assert 0.2 <= time.monotonic() - began < 1.0
    began = time.monotonic()
    connect(host.address, timeout_s=5)
    assert time.monotonic() - began < 0.1


def test_a_lossy_cable_loses_packets_and_tcp_survives_it(lab: Lab) -> None:
    host = lab.hosts[0]
    with network.bad_cable(host, loss=0.1, seed=1):
        done = ssh(lab, host.name, "head -c 300000 /dev/zero | tr '\\0' x", ConnectTimeout="20")
        assert done.stdout == "x" * 300000, done.stderr
        retransmitted = host.run(["nstat", "-asz", "TcpRetransSegs"]).stdout.split()
    assert int(retransmitted[retransmitted.index("TcpRetransSegs") + 1]) > 0


def test_large_transfers_cross_a_slow_cable_intact(lab: Lab) -> None:
    host = lab.hosts[1]
    with network.bad_cable(host, delay_s=0.002):
        done = ssh(lab, host.name, "head -c 4000000 /dev/zero | tr '\\0' y")
    assert done.stdout == "y" * 4000000, done.stderr


@pytest.mark.parametrize(("reject", "outcome"), [(True, "ConnectionRefusedError"), (False, "TimeoutError")])
def test_a_blocked_port_is_closed_to_one_host_only(lab: Lab, *, reject: bool, outcome: str) -> None:
    first, second, third = lab.hosts
    network.block(first, port=22, source=second, reject=reject)
    try:
        assert connect_between(second, first, 22) == outcome
        assert connect_between(third, first, 22) == ""
    finally:
        network.unblock(first)
    assert connect_between(second, first, 22) == ""


def test_a_host_behind_two_others_is_reached_through_both(lab: Lab) -> None:
    first, second, third = lab.hosts
    network.put_behind(second, first)
    network.put_behind(third, second)
    try:
        with pytest.raises(TimeoutError):
            connect(third.address)
        assert connect_between(first, third, 22) == "TimeoutError"
        assert ssh(lab, third.name, "hostname").stdout == f"{third.name}\n"
        assert yaml.safe_load(lab.inventory_path.read_text())["hosts"][third.name]["jump"] == [
            first.name,
            second.name,
        ]
    finally:
        network.take_out(lab)
    connect(third.address)


# --- sshd -----------------------------------------------------------------------------------------


def test_a_killed_sshd_refuses_and_a_started_one_answers(lab: Lab) -> None:
    host = lab.hosts[0]
    sshd.kill(host)
    with pytest.raises(ConnectionRefusedError):
        connect(host.address)
    sshd.start(host)
    connect(host.address)


def test_a_frozen_sshd_accepts_and_says_nothing(lab: Lab) -> None:
    host = lab.hosts[0]
    sshd.freeze(host)
    try:
        with socket.create_connection((host.address, 22), 1) as connection:
            connection.settimeout(0.2)
            with pytest.raises(TimeoutError):
                connection.recv(1)
    finally:
        sshd.thaw(host)
    with socket.create_connection((host.address, 22), 1) as connection:
        assert connection.recv(4) == b"SSH-"


def test_killing_sessions_ends_open_connections(lab: Lab) -> None:
    host = lab.hosts[0]
    argv = ["ssh", "-F", str(lab.ssh_config), host.name, "echo here; sleep 60"]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == "here\n"
        sshd.kill(host, sessions=True)
        assert client.wait(10) == 255
    sshd.start(host)
    host.run(["pkill", "sleep"], check=False)


def test_a_changed_host_key_is_noticed(lab: Lab) -> None:
    host = lab.hosts[0]
    public = sshd.change_host_key(host)
    try:
        assert public not in lab.known_hosts.read_text()
        done = ssh(lab, host.name, "true")
        assert (done.returncode, "REMOTE HOST IDENTIFICATION HAS CHANGED" in done.stderr) == (255, True)
    finally:
        sshd.restore_host_key(host)
    assert ssh(lab, host.name, "true").returncode == 0


def test_settings_of_sshd_win_over_its_own(lab: Lab) -> None:
    host = lab.hosts[0]
    sshd.configure(host, "DenyUsers alice")
    try:
        assert "Permission denied" in ssh(lab, "-l", "alice", host.name, "true").stderr
    finally:
        sshd.configure(host)
    assert ssh(lab, "-l", "alice", host.name, "true").returncode == 0


def test_an_account_can_have_a_password(fresh_lab: FreshLab) -> None:
    host = fresh_lab(1).hosts[0]
    sshd.set_password(host, "alice", "correct horse")
    host.lab.ssh_config.write_text(host.lab.ssh_config.read_text().replace("BatchMode yes", "BatchMode no"))
    done = ssh(
        host.lab, "-l", "alice", host.name, "true", PubkeyAuthentication="no", NumberOfPasswordPrompts="0"
    )
    assert "(publickey,password)" in done.stderr


# --- processes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["listen", "bind", "inherit"])
def test_a_held_port_cannot_be_bound(lab: Lab, how: actors.Holding) -> None:
    host = lab.hosts[0]
    bind = [sys.executable, "-c", "import socket; socket.create_server(('', 29500)); print('bound')"]
    with actors.hold_port(host, 29500, how=how, user="alice") as holder:
        assert host.state(holder.pid) == "S"
        assert "Address already in use" in host.run(bind, check=False).stderr
        assert (connect_between(lab.hosts[1], host, 29500) == "") is (how != "bind")
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
        thread = host.path(f"/proc/{actor.pid}/task/{actor.cast['thread']}/stat").read_text()
        assert thread.rpartition(")")[2].split()[0] == "S"


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


def test_orphan_ranks_carry_the_launch_in_their_environment(lab: Lab) -> None:
    host = lab.hosts[0]
    with actors.orphan_ranks(host, 2, main_port=29511, user="alice", env={"GPULAUNCH_RUN_ID": "r1"}) as actor:
        for number in range(2):
            rank = actor.cast[f"rank{number}"]
            environ = host.path(f"/proc/{rank}/environ").read_bytes().split(b"\0")
            assert host.parent(rank) == 1
            assert {b"LOCAL_RANK=%d" % number, b"MASTER_PORT=29511", b"GPULAUNCH_RUN_ID=r1"} <= set(environ)
            assert host.path(f"/proc/{rank}").stat().st_uid == 2001


def test_live_ranks_have_their_launcher_above_them(lab: Lab) -> None:
    host = lab.hosts[0]
    with actors.live_ranks(host, 2) as actor:
        assert {host.parent(actor.cast["rank0"]), host.parent(actor.cast["rank1"])} == {
            actor.cast["launcher"]
        }


# --- software -------------------------------------------------------------------------------------


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
        asked = first.path("/tmp/asked").open("w", buffering=1)
        with asked:
            readings = []
            for offset_s in (0, 7200):
                clock.jump(first, offset_s)
                asked.write("now\n")
                readings.append([float(word) for word in running.read_line().split()])
    assert 7200 <= readings[1][0] - readings[0][0] < 7210
    assert readings[1][1] - readings[0][1] < 10
    clock.jump(first, -86400)
    assert abs(int(first.run(["date", "+%s"]).stdout) + 86400 - time.time()) < 5
    assert abs(int(second.run(["date", "+%s"]).stdout) - time.time()) < 5


# --- what the tests themselves rely on ---------------------------------------------------------------------


@pytest.mark.parametrize(("ci", "outcome"), [("true", "1 error"), ("", "1 skipped")])
def test_where_no_lab_can_be_ci_fails_and_people_skip(lab: Lab, ci: str, outcome: str) -> None:
    test = f"{__file__}::test_hosts_reach_each_other_by_name"
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    done = lab.hosts[0].run(argv, user="alice", env={"CI": ci}, cwd=str(REPOSITORY), check=False)
    assert outcome in done.stdout
    assert bool(done.returncode) is bool(ci)
    assert "the lab needs root" in done.stdout


def test_a_test_that_leaves_a_process_fails(tmp_path: Path) -> None:
    careless = "def test_x(lab):\n    lab.hosts[0].popen(['sleep', '60']).close()\n"
    (tmp_path / "test_careless.py").write_text(careless)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "tests.conftest", "--basetemp", str(tmp_path / "t")]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY), "LAB_SETTLE_S": "0.1"}
    done = subprocess.run(
        [*argv, "test_careless.py"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert "1 passed, 1 error" in done.stdout
    assert "the test left processes on {'node-1'" in done.stdout


# --- layout ---------------------------------------------------------------------------------------


def test_names_have_equal_widths() -> None:
    assert host_names(3) == ("node-1", "node-2", "node-3")
    assert host_names(100)[0] == "node-001"
    assert host_names("l40s-[01-03]") == ("l40s-01", "l40s-02", "l40s-03")
    assert layout.MAX_HOSTS + layout.FIRST_HOST <= layout.SILENT
