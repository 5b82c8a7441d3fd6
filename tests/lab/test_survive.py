"""Faults of a run, for real over SSH: whatever is killed, cut or filled, nothing is lost and nothing left."""

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import FreshLab
from tests.lab import clock, network, sshd
from tests.lab.hosts import Lab
from tests.lab.reliability import Table
from tests.lab.survive import RUNS, Laptop, until

pytestmark = [pytest.mark.lab]

COUNT = """
import os, time
for n in range(100000):
    print("line", n, flush=True)
    time.sleep(0.05)
"""
SOME = COUNT.replace("100000", "120")
EXPECTED = b"".join(b"line %d\n" % n for n in range(120))


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    table = Table()
    yield table
    table.write()


@pytest.fixture
def laptop(lab: Lab, tmp_path: Path) -> Iterator[Laptop]:
    laptop = Laptop(lab, tmp_path / "home")
    yield laptop
    laptop.close()
    for host in lab.hosts:
        shutil.rmtree(host.path(RUNS), ignore_errors=True)
        for claim in host.path("/tmp").glob("gpulaunch-claim-*"):
            claim.unlink()  # a failed test must not make the next one fail


def whole(laptop: Laptop, ranks: int = 2) -> None:
    """Assert that what lies here is every byte that the ranks wrote, once."""
    for rank in range(ranks):
        host = laptop.lab.hosts[rank]
        assert laptop.kept(host, rank) == laptop.written(host, rank)


def test_a_client_killed_with_9_ends_its_attached_run_after_the_grace(laptop: Laptop, table: Table) -> None:
    running = laptop.launch(COUNT, grace_s=3.0)
    running.until(lambda text: text.count("line 3\n") == 2)
    running.kill()
    seconds = laptop.nothing_left(within_s=20)
    why = laptop.state(laptop.lab.hosts[0])["exit"]["why"]
    assert why == "nobody has followed this attached run for 3 s"
    code, output = laptop.run("fetch", laptop.run_id)
    assert code == 0, output
    whole(laptop)
    table.add("client killed with -9, attached, grace 3 s", f"ended on every host: {why}", seconds)


def test_a_detached_run_outlives_its_client_and_another_laptop_finds_it(
    laptop: Laptop, tmp_path: Path, table: Table
) -> None:
    code, output = laptop.launch(SOME.replace("0.05", "0.12"), detach=True).end(60)
    assert code == 0, output
    assert "detached after" in output
    other = Laptop(laptop.lab, tmp_path / "other")
    other.run_id = laptop.run_id
    try:
        code, listed = other.run("ps", laptop.lab.hosts[0].name, laptop.lab.hosts[1].name)
        assert code == 0, listed
        assert re.search(rf"{laptop.run_id} +running .* 2/2 ", listed), listed
        attached = other.start("attach", laptop.run_id[:-2])
        code, output = attached.end(90)
        assert code == 0, output
        assert "no process of the run is left on any host" in output
        for rank in range(2):
            assert other.kept(laptop.lab.hosts[rank], rank) == EXPECTED
        seconds = laptop.nothing_left()
    finally:
        other.close()
    table.add(
        "client gone, detached; another laptop attaches", "run finishes, exit 0, all bytes there", seconds
    )


def test_leaving_an_attached_run_detaches_it_and_two_may_stop_it_at_once(
    laptop: Laptop, table: Table
) -> None:
    script = """
import os, signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(99)"], {})
    os._exit(0)
os.wait()
print("up", flush=True)
while os.environ["RANK"] == "1": os.kill(os.getpid(), signal.SIGSTOP)
time.sleep(99)
"""
    first = laptop.launch(script, grace_s=3.0)
    first.until(lambda text: text.count("] up\n") == 2)
    attached = laptop.start("attach", "last", "--hosts", laptop.lab.hosts[0].name)
    attached.until(lambda text: "] up\n" in text)
    attached.interrupt()
    code, output = attached.end()
    assert (code, "the run goes on" in output) == (0, True), output
    first.kill()
    time.sleep(4.0)
    assert laptop.state(laptop.lab.hosts[0])["phase"] == "running"
    stops = [laptop.start("stop", laptop.run_id, "--grace", "1") for _ in range(2)]
    for stop in stops:
        code, output = stop.end()
        assert code == 0, output
        assert "nothing of it is left" in output
    seconds = laptop.nothing_left()
    for rank in range(2):
        assert laptop.state(laptop.lab.hosts[rank])["exit"]["ranks"] == {str(rank): -9}
    code, listed = laptop.run("ps", "--all", laptop.lab.hosts[0].name)
    assert re.search(rf"{laptop.run_id} +stopped ", listed), listed
    code, output = laptop.run("rm", laptop.run_id, "--yes")
    assert code == 0, output
    assert not laptop.run_dir(laptop.lab.hosts[1]).exists()
    words = "SIGKILL after the grace; daemons and the stopped rank gone; both exit 0"
    table.add("two clients stop a run that ignores SIGTERM, forks daemons, stops itself", words, seconds)


@pytest.mark.parametrize(
    ("who", "words", "code"),
    [
        ("supervisor", "the supervisor was killed", 5),
        ("launcher", "was ended by signal 9 (SIGKILL)", 5),
        ("rank", "rank 1 on {host} was ended by signal 9 (SIGKILL)", 137),
    ],
)
def test_whatever_is_killed_on_one_host_everything_ends_on_all(
    laptop: Laptop, table: Table, who: str, words: str, code: int
) -> None:
    running = laptop.launch(COUNT)
    running.until(lambda text: text.count("line 3\n") == 2)
    host = laptop.lab.hosts[1]
    host.kill(laptop.rank_pid(host, 1) if who == "rank" else laptop.pid(host, who))
    began = time.monotonic()
    seen, output = running.end()
    seconds = time.monotonic() - began
    assert seen == code, output
    said = words.format(host=host.name)
    assert said in output
    laptop.nothing_left()
    whole(laptop)
    table.add(f"{who} killed with -9", f"exit {code}: {said}", seconds)


def test_a_dead_dataloader_worker_is_named_and_ends_the_run(laptop: Laptop, table: Table) -> None:
    script = """
import os, torch
from torch.utils.data import DataLoader
class Slow(torch.utils.data.Dataset):
    def __len__(self): return 10**6
    def __getitem__(self, n):
        import time; time.sleep(0.05)
        return n
for batch in DataLoader(Slow(), num_workers=1):
    print("worker", torch.utils.data.get_worker_info(), os.getpid(), flush=True)
"""
    running = laptop.launch(script, hosts=1)
    running.until(lambda text: "worker" in text)
    host = laptop.lab.hosts[0]
    rank = laptop.rank_pid(host, 0)
    (worker,) = [pid for pid in host.pids() if host.parent(pid) == rank]
    host.kill(worker)
    began = time.monotonic()
    code, output = running.end()
    assert code == 1, output
    assert "DataLoader worker (pid" in output
    assert "is killed by signal: Killed" in output
    laptop.nothing_left()
    whole(laptop, 1)
    table.add(
        "DataLoader worker killed with -9", "exit 1: DataLoader worker killed", time.monotonic() - began
    )


def test_a_killed_sshd_and_connection_cost_nothing(laptop: Laptop, table: Table) -> None:
    running = laptop.launch(SOME)
    running.until(lambda text: text.count("line 9\n") == 2)
    sshd.kill(laptop.lab.hosts[0], sessions=True)
    time.sleep(0.5)
    sshd.start(laptop.lab.hosts[0])
    began = time.monotonic()
    code, output = running.end()
    assert code == 0, output
    assert "connected again, nothing was lost" in output
    laptop.nothing_left()
    for rank in range(2):
        assert laptop.kept(laptop.lab.hosts[rank], rank) == EXPECTED
    table.add("sshd and the connection killed with -9", "exit 0, connected again", time.monotonic() - began)


def test_a_long_cut_of_the_link_costs_nothing(laptop: Laptop, table: Table) -> None:
    running = laptop.launch(SOME.replace("0.05", "0.15"))
    running.until(lambda text: text.count("line 3\n") == 2)
    network.cut(laptop.lab.hosts[1])
    try:
        running.until(lambda text: "reconnecting, the run goes on there" in text, 30)
    finally:
        network.restore(laptop.lab.hosts[1])
    began = time.monotonic()
    code, output = running.end()
    assert code == 0, output
    laptop.nothing_left()
    for rank in range(2):
        assert laptop.kept(laptop.lab.hosts[rank], rank) == EXPECTED
    table.add(
        "link cut until the client notices (12 s)", "exit 0, resumed at the byte", time.monotonic() - began
    )


def test_a_link_cut_for_good_ends_the_run_on_both_sides(laptop: Laptop, table: Table) -> None:
    running = laptop.launch(COUNT, grace_s=3.0)
    running.until(lambda text: text.count("line 3\n") == 2)
    host = laptop.lab.hosts[0]  # the main one
    network.cut(host)
    began = time.monotonic()
    try:
        code, output = running.end(60)
        seconds = time.monotonic() - began
        assert code == 5, output
        assert f"{host.name} was lost" in output
        until(lambda: laptop.state(host)["phase"] == "ended", 10)
    finally:
        network.restore(host)
    laptop.nothing_left()
    code, output = laptop.run("fetch", laptop.run_id, "--logs-only")
    assert code == 0, output
    whole(laptop)
    table.add(
        "link to the main host cut for good, grace 3 s",
        "exit 5: main host was lost; ended by itself",
        seconds,
    )


@pytest.mark.parametrize(
    ("delay_s", "loss", "fault"), [(0.3, 0.0, "300 ms delay"), (0.0, 0.2, "20% packet loss")]
)
def test_a_bad_link_loses_nothing(
    laptop: Laptop, table: Table, delay_s: float, loss: float, fault: str
) -> None:
    with network.bad_cable(laptop.lab.hosts[0], delay_s=delay_s, loss=loss, seed=7):
        running = laptop.launch(SOME, hosts=1)
        code, output = running.end(120)
    assert code == 0, output
    laptop.nothing_left()
    assert laptop.kept(laptop.lab.hosts[0], 0) == EXPECTED
    table.add(fault, "exit 0, all bytes once", 0.0)


def test_a_main_host_without_power_ends_the_run_elsewhere(
    fresh_lab: FreshLab, tmp_path: Path, table: Table
) -> None:
    lab = fresh_lab(2)
    laptop = Laptop(lab, tmp_path / "home")
    running = laptop.launch(COUNT, grace_s=3.0)
    try:
        running.until(lambda text: text.count("line 3\n") == 2)
        lab.hosts[0].halt()
        began = time.monotonic()
        code, output = running.end(60)
        assert code == 5, output
        assert f"{lab.hosts[0].name} was lost" in output
        until(lambda: not lab.hosts[1].strays(), 10, lambda: str(lab.hosts[1].strays()))
        assert laptop.kept(lab.hosts[1], 1) == laptop.written(lab.hosts[1], 1)
    finally:
        laptop.close()
    table.add("main host loses power, grace 3 s", "exit 5: main host was lost", time.monotonic() - began)


def test_a_full_disk_under_the_run_directory_fails_the_rank_and_is_told(laptop: Laptop, table: Table) -> None:
    host = laptop.lab.hosts[1]
    host.run(["mkdir", "-p", RUNS])
    host.run(["mount", "-t", "tmpfs", "-o", "size=700k", "none", RUNS])
    try:
        running = laptop.launch(
            "import time\nprint('up', flush=True)\nwhile True: print('x' * 4000); time.sleep(0.002)"
        )
        began = time.monotonic()
        code, output = running.end(60)
        seconds = time.monotonic() - began
        assert code == 120, output  # as python ends when its last flush fails
        assert "No space left on device; stopping every node" in output
        assert "no process of the run is left on any host" in output
        laptop.nothing_left()
        assert laptop.state(host)["exit"]["ranks"] == {"1": 120}
        whole(laptop)
    finally:
        host.run(["umount", RUNS])
    table.add("disk full under the run directory", "exit 120: No space left on device", seconds)


def test_a_deleted_run_directory_does_not_unhinge_a_run(laptop: Laptop, table: Table) -> None:
    running = laptop.launch(COUNT)
    running.until(lambda text: text.count("line 3\n") == 2)
    shutil.rmtree(laptop.run_dir(laptop.lab.hosts[1]))
    time.sleep(0.5)
    running.interrupt()
    began = time.monotonic()
    code, output = running.end()
    assert code == 130, output
    laptop.nothing_left()
    table.add("run directory deleted, then Ctrl-C", "exit 130, all ended", time.monotonic() - began)


def test_much_output_one_long_line_and_binary_arrive_byte_for_byte(laptop: Laptop, table: Table) -> None:
    script = """
import os
def out(data):
    while data: data = data[os.write(1, data):]
line = b"y" * (8 << 20)
out(line + b"\\n")
for n in range(8): out(bytes(range(256)) * 4096 + b"\\x1b[2J\\x1b]0;title\\x07" + str(n).encode() + b"\\n")
out(b"no newline at the end \\xff\\xfe")
"""
    running = laptop.launch(script, hosts=1)
    code, output = running.end(120)
    assert code == 0, output[-2000:]
    assert "\x1b" not in output
    laptop.nothing_left()
    log = laptop.kept(laptop.lab.hosts[0], 0)
    assert log == laptop.written(laptop.lab.hosts[0], 0)
    assert len(log) > 16 << 20
    table.add("16 MB, one line of 8 MB, binary, escapes, no newline", "exit 0, byte for byte", 0.0)


def test_a_jump_of_a_hosts_clock_ends_nothing(laptop: Laptop, table: Table) -> None:
    host = laptop.lab.hosts[1]
    clock.prepare(host)
    try:
        running = laptop.launch(SOME, grace_s=5.0)
        running.until(lambda text: text.count("line 3\n") == 2)
        clock.jump(host, 86400)
        time.sleep(1.0)
        clock.jump(host, -86400)
        code, output = running.end()
        assert code == 0, output
    finally:
        clock.jump(host, 0)
        host.path("/etc/ld.so.preload").unlink()
    laptop.nothing_left()
    for rank in range(2):
        assert laptop.kept(laptop.lab.hosts[rank], rank) == EXPECTED
    table.add("a host's clock jumps a day on, two days back", "exit 0, nothing stopped", 0.0)


def test_a_stranger_stop_is_told_to_the_client_that_follows(laptop: Laptop, table: Table) -> None:
    running = laptop.launch(COUNT)
    running.until(lambda text: text.count("line 3\n") == 2)
    began = time.monotonic()
    code, output = laptop.run("stop", laptop.run_id, "--grace", "5")
    assert code == 0, output
    code, output = running.end()
    assert code == 130, output
    assert re.search(r"interrupted: stopped by \w+@", output), output
    laptop.nothing_left()
    whole(laptop)
    table.add(
        "stopped from elsewhere while followed", "exit 130: stopped by USER@MACHINE", time.monotonic() - began
    )
