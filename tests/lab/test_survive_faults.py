"""Whatever is killed, filled, deleted or stolen under a run: nothing is lost and nothing left."""

import re
import shutil
import sys
import time
from pathlib import Path

import pytest

from tests.field_notes.ranks import LIGHT, shimmed
from tests.lab.fault_runs import RUNS, Laptop, run_called, until
from tests.lab.fault_scripts import COUNT, LOADER, MUCH
from tests.lab.hosts import LabHost
from tests.lab.reliability import Row, Table
from tests.lab.run_cli import memory_kib

pytestmark = pytest.mark.lab


@pytest.mark.parametrize(
    ("who", "words", "code"),
    [
        ("supervisor", "the supervisor was killed", 5),
        ("rank", "rank 1 on {host} was ended by signal 9 (SIGKILL)", 137),
    ],
)
def test_whatever_is_killed_on_one_host_everything_ends_on_all(
    laptop: Laptop, table: Table, who: str, words: str, code: int
) -> None:
    running = laptop.launch(COUNT)
    laptop.under_way(running)
    host = laptop.hosts[1]
    host.kill(laptop.rank_pid(host, 1) if who == "rank" else laptop.pid(host, who))
    began = time.monotonic()
    seen, output = running.end()
    seconds = time.monotonic() - began
    assert seen == code, output
    said = words.format(host=host.name)
    assert said in output
    table.add(Row(f"{who} killed with -9", f"exit {code}: {said}", laptop.accounted(), seconds))


def test_when_accelerates_launcher_is_killed_everything_ends_on_all(laptop: Laptop, table: Table) -> None:
    laptop.without_torch()  # whatever a launcher has imported, SIGKILL ends it alike
    running = laptop.train(COUNT, processes_per_host=1, engine="accelerate")
    running.until(lambda text: text.count("] line 3\n") == 2)
    laptop.run_id = run_called(running.output.decode())
    host = laptop.hosts[1]
    launcher = laptop.pid(host, "launcher")
    assert "accelerate" in host.command(launcher)
    host.kill(launcher)
    began = time.monotonic()
    code, output = running.end()
    seconds = time.monotonic() - began
    assert code == 5, output
    said = f"the launcher on {host.name} was ended by signal 9 (SIGKILL)"
    assert f"root cause: {said}" in output
    table.add(Row("accelerate's launcher killed with -9", f"exit 5: {said}", laptop.accounted(), seconds))


@pytest.mark.train
def test_a_dead_dataloader_worker_is_named_and_ends_the_run(laptop: Laptop, table: Table) -> None:
    running = laptop.launch(LOADER, hosts=1, env=shimmed(LIGHT))
    laptop.under_way(running, "worker None", ranks=1)
    host = laptop.hosts[0]
    rank = laptop.rank_pid(host, 0)
    (worker,) = [pid for pid in host.pids() if host.parent(pid) == rank]
    host.kill(worker)
    began = time.monotonic()
    code, output = running.end()
    seconds = time.monotonic() - began
    assert code == 1, output
    assert "DataLoader worker (pid" in output
    assert "is killed by signal: Killed" in output
    said = "exit 1: DataLoader worker (pid N) is killed by signal: Killed"
    table.add(Row("DataLoader worker killed with -9", said, laptop.accounted(ranks=1), seconds))


def test_a_full_disk_under_the_run_directory_fails_the_rank_and_is_told(laptop: Laptop, table: Table) -> None:
    host = laptop.hosts[1]
    host.run(["mkdir", "-p", RUNS])
    host.run(["mount", "-t", "tmpfs", "-o", "size=700k", "none", RUNS])
    try:
        running = laptop.launch(
            "import time\nprint('up', flush=True)\nwhile True: print('x' * 4000); time.sleep(0.002)"
        )
        laptop.under_way(running, "] up\n")
        began = time.monotonic()
        code, output = running.end()
        seconds = time.monotonic() - began
        assert code == 120, output[-5000:]  # as python ends when its last flush fails
        assert "No space left on device; stopping every node" in output
        assert "no process of the run is left on any host" in output
        count = laptop.accounted()
        assert laptop.state(host)["exit"]["ranks"] == {"1": 120}
        last = laptop.log(host, 1).read_bytes().splitlines()[-1]
        assert last.startswith(b"gpulaunch: this log lacks what the rank printed last: ")
        assert last.endswith(b": [Errno 28] No space left on device")  # by which diagnose knows it
    finally:
        host.run(["umount", RUNS])
    said = "exit 120: No space left on device"
    table.add(Row("disk full under the run directory", said, count, seconds))


def test_a_deleted_run_directory_does_not_unhinge_a_run(laptop: Laptop, table: Table) -> None:
    running = laptop.launch(COUNT)
    laptop.under_way(running)
    host = laptop.hosts[1]
    with (laptop.run_dir(host) / "rank-1.log").open("rb") as written:  # lives on as an open file only
        shutil.rmtree(laptop.run_dir(host))
        time.sleep(0.5)
        running.interrupt()
        began = time.monotonic()
        code, output = running.end()
        seconds = time.monotonic() - began
        assert code == 130, output
        count = laptop.accounted()
        assert laptop.kept(host, 1) == written.read()
    said = "exit 130: all ended, the directory was restored"
    table.add(Row("run directory deleted, then Ctrl-C", said, count, seconds))


def test_much_output_one_long_line_and_binary_arrive_byte_for_byte(laptop: Laptop, table: Table) -> None:
    screen = laptop.home / "screen"
    running = laptop.launch(
        "import time\nprint('up', flush=True)\ntime.sleep(2)\n" + MUCH, hosts=1, screen=screen
    )
    running.until(lambda text: "] up\n" in text)
    before_kib = memory_kib(running.process.pid)
    code, output = running.end(200)
    assert code == 0, output[-2000:]
    count = laptop.accounted(ranks=1)
    assert count > 56_000_000
    assert laptop.kept(laptop.hosts[0], 0).endswith(b"3\nno newline at the end \xff\xfe")
    assert running.peak_kib - before_kib < 48 << 10, (before_kib, running.peak_kib)
    longest, escapes = _lines_of(screen)
    assert longest < 9000  # the line of 50 MB: its beginning, and a note that the file has all of it
    assert not escapes
    said = f"exit 0, byte for byte; the client's memory grew by {(running.peak_kib - before_kib) >> 10} MiB"
    fault = "57 MB: many lines, one of 50 MB, 4 MB of binary, escape sequences, no newline at the end"
    table.add(Row(fault, said, count))


def _lines_of(screen: Path) -> tuple[int, bool]:
    """Return the longest line that was shown, and whether an escape character was; read in pieces."""
    longest, escapes, noted = 0, False, False
    with screen.open("rb") as shown:
        for line in shown:
            longest = max(longest, len(line))
            escapes = escapes or b"\x1b" in line
            noted = noted or b"y [... cut; the file has all of it]" in line
    assert noted
    return longest, escapes


# Where a launcher and its ranks meet.
MEET = """
import os
print("meets on", os.environ["MASTER_PORT"], flush=True)
"""


@pytest.mark.train
def test_a_port_stolen_at_the_last_moment_is_replaced(laptop: Laptop, table: Table) -> None:
    # The thief waits for our launcher to appear, then listens before torch can. accelerate's launchers meet
    # on the main port themselves: the ranks need no torch.
    thief = """
import glob, socket, time
def launched():
    for path in glob.glob("/proc/[0-9]*/cmdline"):
        try:
            if b"accelerate.comm" + b"ands.launch" in open(path, "rb").read(): return True
        except OSError: pass
while not launched(): time.sleep(0.005)
s = socket.socket(); s.setsockopt(1, 2, 1); s.bind(("0.0.0.0", 29500)); s.listen()
print("stolen", flush=True)
time.sleep(60)
"""
    host: LabHost = laptop.hosts[0]
    with host.popen([sys.executable, "-c", thief]) as process:
        code, output = laptop.train(MEET, processes_per_host=1, engine="accelerate").end()
        host.kill(process.pid)
    assert code == 0, output
    said = "port 29500 was taken by another process; starting again on another one"
    assert said in output
    ports = re.findall(r"meets on (\d+)", output)
    assert len(ports) == 2
    assert ports[0] == ports[1] != "29500"
    runs = sorted((laptop.home / "gpulaunch-runs").iterdir(), key=lambda path: path.stat().st_mtime)
    assert len(runs) == 2
    laptop.run_id = runs[1].name
    table.add(Row("main port stolen after the preflight", f"exit 0: {said}", laptop.accounted()))


# As in a collective: a rank waits for the other one in every step, and fails when that is gone.
LOOP = """
import os, socket, time
place = ("{address}", 29500)
if os.environ["RANK"] == "0":
    peer = socket.create_server(place, reuse_port=True).accept()[0]
else:
    while True:
        try:
            peer = socket.create_connection(place)
            break
        except ConnectionRefusedError:
            time.sleep(0.1)
for n in range(100000):
    peer.sendall(b"x")
    if not peer.recv(1): raise ConnectionError("the other rank is gone")
    print("step", n, flush=True)
    time.sleep(0.1)
"""


def test_without_a_client_the_failure_of_a_rank_ends_the_ranks_of_every_host(
    laptop: Laptop, table: Table
) -> None:
    running = laptop.launch(LOOP.format(address=laptop.hosts[0].address))
    running.until(lambda text: text.count("] step 3\n") == 2)
    running.kill()
    running.end()
    first, second = laptop.hosts
    second.kill(laptop.rank_pid(second, 1))
    began = time.monotonic()
    until(lambda: all(laptop.state(host)["phase"] == "ended" for host in laptop.hosts), 60)
    seconds = time.monotonic() - began
    assert laptop.state(second)["exit"]["why"] == "rank 1 was ended by signal 9 (SIGKILL)"
    assert laptop.state(first)["exit"]["why"] == "rank 0 failed with exit code 1"
    _, listed = laptop.run("ps", "--all", *laptop.names())
    assert re.search(rf"{laptop.run_id} +failed: rank 1 was ended by signal 9 \(SIGKILL\)", listed), listed
    said = "each host ends: the other rank fails without its peer; ps names the first failure"
    count = laptop.accounted(followed=False)
    table.add(Row("client killed with -9, then a rank", said, count, seconds))
