"""Commands about a run on several hosts over SSH: its logs, its files, and hosts that do not answer."""

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab import sshd
from tests.lab.fault_runs import RUNS, Laptop, until
from tests.lab.fault_scripts import EXPECTED, some
from tests.lab.hosts import Lab, LabHost

pytestmark = [pytest.mark.lab]

OUTPUT = """
import os
os.makedirs("out", exist_ok=True)
with open("out/checkpoint.bin", "wb") as file:
    for n in range(60): file.write(os.urandom(1 << 20))
print("saved", flush=True)
"""


@pytest.fixture
def laptop(lab: Lab, tmp_path: Path) -> Iterator[Laptop]:
    laptop = Laptop(lab, tmp_path / "home")
    yield laptop
    laptop.close()
    for host in laptop.hosts:
        shutil.rmtree(host.path(RUNS), ignore_errors=True)
        shutil.rmtree(host.path("/root/out"), ignore_errors=True)


def end_sessions(host: LabHost) -> None:
    """Kill every open SSH connection of a host; its sshd goes on listening."""
    for pid in host.pids() - {host.sshd_pid()}:
        if host.command(pid).startswith("sshd:"):
            host.kill(pid)


def test_the_logs_of_all_nodes_are_read_followed_and_cut_by_time_rank_and_host(laptop: Laptop) -> None:
    first, second = laptop.hosts
    code, output = laptop.launch(some(0.15), detach=True).end()
    assert code == 0, output
    where = ("--hosts", ",".join(laptop.names()))
    follower = laptop.start("logs", "-f", laptop.run_id, *where)
    code, raw = laptop.run("logs", laptop.run_id, "--rank", "1", *where)
    assert code == 0, raw
    assert raw
    assert EXPECTED.startswith(raw.encode())
    code, shown = follower.end()
    assert code == 0, shown
    for rank, host in enumerate(laptop.hosts):
        lines = re.findall(rf"^\[{host.name} r{rank}\] line (\d+)$", shown, re.MULTILINE)
        assert lines == [str(n) for n in range(120)]
    code, last = laptop.run("logs", laptop.run_id, "--since", "40B", *where)
    assert code == 0, last
    for rank, host in enumerate(laptop.hosts):
        assert re.findall(rf"\[{host.name} r{rank}\] line (\d+)", last) == ["116", "117", "118", "119"]
    code, one = laptop.run("logs", laptop.run_id, "--host", second.name, *where)
    assert code == 0, one
    assert one.count("] line ") == 120
    assert one.endswith(f"{laptop.run_id}: finished\n")
    assert first.name not in one

    sshd.kill(second)
    try:
        code, listed = laptop.run("ps", "--all", *laptop.names())
        assert code == 3, listed
        assert re.search(rf"{laptop.run_id} +finished 0 .* {first.name} and 1 more ", listed), listed
        assert f"{second.name}: " in listed
        code, part = laptop.run("logs", laptop.run_id, *where)
        assert code == 3, part
        assert f"[{first.name} r0] line 119" in part
        assert f"{second.name}: not read to the end: " in part
        code, document = laptop.run("logs", laptop.run_id, "--json", *where)
        assert code == 3, document
        assert f'"unreachable_fixes": {{\n  "{second.name}": "' in document
        code, text = laptop.run("stop", laptop.run_id, *where)
        assert code == 3, text
        assert f"{second.name}: not stopped: " in text
    finally:
        sshd.start(second)
    laptop.accounted(followed=False)


def test_a_run_whose_end_is_kept_locally_is_shown_by_it_where_a_host_has_lost_its_record(
    laptop: Laptop,
) -> None:
    second = laptop.hosts[1]
    code, output = laptop.launch(some(0.0)).end()
    assert code == 0, output
    kept = laptop.home / "gpulaunch-runs" / laptop.run_id
    before = [(kept / name).read_text() for name in ("outcome.json", "events.jsonl")]
    laptop.nothing_left()  # a keeper would write the directory again
    shutil.rmtree(second.path(RUNS))
    code, shown = laptop.run("attach", laptop.run_id, "--hosts", ",".join(laptop.names()))
    assert code == 0, shown
    assert f"{second.name}: no record of this run was found on it; its part is as it was kept" in shown
    assert "finished (exit code 0)" in shown
    assert "lost" not in shown
    assert [(kept / name).read_text() for name in ("outcome.json", "events.jsonl")] == before


def test_a_fetch_whose_connection_breaks_goes_on_where_it_ended(laptop: Laptop) -> None:
    host = laptop.hosts[0]
    code, output = laptop.launch(OUTPUT, hosts=1).end()
    assert code == 0, output
    here = laptop.home / "gpulaunch-runs" / laptop.run_id / host.name / "output"
    words = ("fetch", laptop.run_id, "--hosts", host.name)
    broken = laptop.start(*words)
    until(lambda: sum(path.stat().st_size for path in here.glob(".*.part")) > 4 << 20, 60)
    end_sessions(host)
    code, output = broken.end()
    assert code == 3, output
    assert "fetch again: it continues where it ended" in output
    assert not (here / "checkpoint.bin").exists()
    code, output = laptop.run(*words)
    assert code == 0, output
    found = re.search(r"files?, ([\d.]+) MiB", output)
    assert found is not None
    assert float(found[1]) < 60.0 - 4.0  # what was here already did not come again
    assert (here / "checkpoint.bin").read_bytes() == host.path("/root/out/checkpoint.bin").read_bytes()
    assert [path.name for path in here.iterdir()] == ["checkpoint.bin"]


STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for n in range(9000): print("line", n, flush=True); time.sleep(0.1)
"""


@pytest.mark.parametrize(("words", "at_most_s"), [(("--now",), 8.0), (("--grace", "60"), 30.0)])
def test_a_run_whose_directory_cannot_be_written_ends_with_the_shorter_grace(
    laptop: Laptop, words: tuple[str, ...], at_most_s: float
) -> None:
    host = laptop.hosts[0]
    code, output = laptop.launch(STUBBORN, hosts=1, detach=True).end()
    assert code == 0, output
    place = "/" + str(laptop.run_dir(host).relative_to(host.path("/")))
    host.run(["mount", "--bind", place, place])
    host.run(["mount", "-o", "remount,ro,bind", place])
    began = time.monotonic()
    try:
        code, output = laptop.run("stop", laptop.run_id, *words, "--hosts", host.name)
    finally:
        host.run(["umount", place])
    assert code == 0, output
    assert f"{host.name}: ended (exit codes not seen)" in output
    assert time.monotonic() - began < at_most_s  # 10 s are the grace of its launch
    assert ("so SIGKILL came after the grace of the launch (10 s)" in output) is (words != ("--now",))
    laptop.nothing_left()


def test_a_second_launch_names_the_run_that_writes_to_its_directory(laptop: Laptop) -> None:
    words = ("--name", "first", "--detach", "--", "--output_dir", "out")
    code, output = laptop.train("import time; time.sleep(600)", *words, hosts=1).end()
    assert code == 0, output
    run_id = re.findall(r"gpulaunch stop (first-\S+)", output)[0]

    def launch(directory: str) -> str:
        words = ("--dry-run", "--", "--output_dir", directory, "--lr", "1")
        return laptop.train("import time; time.sleep(600)", *words, hosts=1).end()[1]

    same, other = launch("/root/out/"), launch("out2")
    code, output = laptop.run("stop", run_id, "--yes", "--now", "--hosts", laptop.names(1)[0])
    assert code == 0, output
    assert re.search(rf"PROC006 on \S+: run {run_id} .* writes to /root/out, too", same), same
    assert f"gpulaunch stop {run_id} ends it" in same
    assert "PROC006" not in other


def test_a_client_killed_while_it_detaches_leaves_no_half_run(laptop: Laptop) -> None:
    launched = laptop.launch(some(0.1), detach=True, stops_after_s=4.0)
    promised = [laptop.run_dir(host) / "detached" for host in laptop.hosts]
    until(lambda: any(path.exists() for path in promised), 90)
    launched.kill()
    laptop.nothing_left(within_s=60)  # by themselves: at their end, or (not promised yet) after the grace
    whys = [str(laptop.state(host)["exit"]["why"]) for host in laptop.hosts]
    for why, path in zip(whys, promised, strict=True):
        assert why == ("" if path.exists() else "no client has followed this attached run for 4 s")
    laptop.accounted(followed=False)
