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
from tests.lab import bringup, layout
from tests.lab.bringup import REPOSITORY, LabError, _take_octet, down, host_names
from tests.lab.connections import connect_between, ssh
from tests.lab.hosts import Lab

pytestmark = pytest.mark.lab


def interfaces() -> set[str]:
    return {name for _, name in socket.if_nameindex()}


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
    assert host.strays_after() == {}


def test_run_returns_output_and_status_and_raises_with_stderr(lab: Lab, tmp_path: Path) -> None:
    host = lab.hosts[0]
    done = host.run(["sh", "-c", "cat; echo err >&2; exit 3"], input_text="in", check=False)
    assert (done.returncode, done.stdout, done.stderr) == (3, "in", "err\n")
    with pytest.raises(RuntimeError, match="no such thing"):
        host.run(["sh", "-c", "echo no such thing >&2; exit 1"])
    with pytest.raises(RuntimeError, match="No such file"):
        host.run([str(tmp_path / "missing")])
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


def test_up_says_why_and_leaves_nothing_when_it_cannot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cables: list[int] = []  # the kernel gives no two interfaces one number, while labs use names again

    def take_octet(out: Path) -> int:
        octet = _take_octet(out)
        cables.append(socket.if_nametoindex(f"glab{octet}"))
        return octet

    monkeypatch.setattr(bringup, "_take_octet", take_octet)
    with pytest.raises(LabError, match="/missing"):
        Lab.up(1, tmp_path / "x", shares=(tmp_path / "missing",))
    with pytest.raises(LabError, match=r"x{65}"):
        Lab.up(("node-1", "x" * 65), tmp_path / "y")
    assert cables
    assert not {number for number, _ in socket.if_nameindex()} & set(cables)
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


# --- what the tests themselves rely on ---------------------------------------------------------------------


@pytest.mark.parametrize(("required", "outcome"), [("1", "1 error"), ("", "1 skipped")])
def test_where_no_lab_can_be_ci_fails_and_people_skip(lab: Lab, required: str, outcome: str) -> None:
    test = f"{__file__}::test_hosts_reach_each_other_by_name"
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", test]
    done = lab.hosts[0].run(
        argv, user="alice", env={"LAB_REQUIRED": required}, cwd=str(REPOSITORY), check=False
    )
    assert outcome in done.stdout
    assert bool(done.returncode) is bool(required)
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
