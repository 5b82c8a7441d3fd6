"""Logs here: every byte once, at its place, wherever a host's name would like them to land."""

import io
import json
import os
import resource
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from launcher.cli import cli
from launcher.errors import RunAborted
from launcher.follow.events import LogOutput, Tick
from launcher.follow.log_offsets import LogOffsets, ResumePoint
from launcher.follow.outcome import build_outcome
from launcher.follow.run_state import RunState
from launcher.launch.reporter import RunReporter
from launcher.report.outcome import encode_outcome, render_outcome
from launcher.rundir import log_store
from launcher.rundir.log_store import LogStore, demand_room
from launcher.terminal.screen import Screen
from tests.launcher.run_plans import plan


def test_bytes_that_come_twice_are_there_once(tmp_path: Path) -> None:
    book = LogStore(tmp_path)
    book.write("a", "rank-0.log", 0, b"hello ")
    book.write("a", "rank-0.log", 3, b"lo world")
    book.close()
    assert (tmp_path / "a" / "rank-0.log").read_bytes() == b"hello world"


def test_clients_that_share_a_directory_put_each_byte_of_a_cut_log_in_one_place(tmp_path: Path) -> None:
    log, clients = "rank-0.log", []
    for store in (LogStore(tmp_path), LogStore(tmp_path)):
        offsets = LogOffsets(ResumePoint())
        offsets.add_cut = partial(store.add_cut, "a")
        clients.append((store, offsets))
    for offset, data, is_cut in (
        (0, b"one ", False),
        (0, b"two ", True),
        (4, b"three ", False),
        (0, b"4", True),
    ):
        for store, offsets in clients:
            store.write("a", log, offsets.advance(log, offset, data, is_cut=is_cut), data)
    later = LogStore(tmp_path, again=True)
    assert later.path("a", log).read_bytes() == b"one two three 4"
    assert later.starts("a") == {log: 14}
    assert later.sizes("a", later.starts("a")) == {log: 1}
    assert later.ends("a", {log: 1}, later.starts("a")) == {log: b"4"}
    for store, _ in clients:
        store.close()


def test_a_client_that_lags_overwrites_no_byte_behind_the_cut_that_another_has_seen(tmp_path: Path) -> None:
    ahead, behind, log = LogStore(tmp_path), LogStore(tmp_path), "rank-0.log"
    behind.write("a", log, 0, b"one ")
    assert ahead.add_cut("a", log, 0, 4) == 4
    ahead.write("a", log, 4, b"two")
    behind.write("a", log, 2, b"e of before the cut")
    behind.write("a", log, 21, b"and more")
    assert ahead.path("a", log).read_bytes() == b"one two"
    assert behind.add_cut("a", log, 0, 29) == 4
    behind.write("a", log, 4, b"two, three")
    assert ahead.path("a", log).read_bytes() == b"one two, three"
    ahead.close()
    behind.close()


def test_a_thousand_logs_do_not_need_a_thousand_descriptors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_store, "MAX_OPEN", 64)
    book = LogStore(tmp_path)
    for offset, data in ((0, b"one "), (4, b"two")):
        for rank in range(1000):
            book.write("a", f"rank-{rank}.log", offset, data)
    targets = [str(each.readlink()) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    assert len([each for each in targets if each.startswith(f"{tmp_path}/a/")]) == 64
    book.add_event("end")
    book.close()
    assert {path.read_bytes() for path in tmp_path.glob("a/*.log")} == {b"one two"}
    sizes = json.loads((tmp_path / "events.jsonl").read_text())["sizes"]
    assert (len(sizes), set(sizes.values())) == (1000, {7})


WITH_FEW_DESCRIPTORS = """
import os, resource, sys
from pathlib import Path
from launcher.rundir.log_store import LogStore
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = [os.dup(0) for _ in range(40)]  # as connections to hosts are, which leave less than half of the limit
store = LogStore(Path(sys.argv[1]))
for offset in (0, 4):
    for rank in range(50):
        store.write("a", f"rank-{rank}.log", offset, b"log ")
store.close()
print(store.failed)
"""


def test_logs_are_whole_where_connections_hold_most_descriptors(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", WITH_FEW_DESCRIPTORS, str(tmp_path)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("\n", "")
    assert [path.read_bytes() for path in tmp_path.glob("a/*.log")] == [b"log log "] * 50


@given(st.text(max_size=30), st.text(max_size=30))
def test_no_name_leads_out_of_the_directory(host: str, log: str) -> None:
    book = LogStore(Path("/base"))
    path = book.path(host, log)
    assert len(path.parts) == 4
    assert ".." not in path.parts


def test_last_lines_are_safe_and_of_a_bar_the_last_state(tmp_path: Path) -> None:
    book = LogStore(tmp_path)
    book.write("a", "rank-0.log", 0, b"x" * 99999 + b"\n10%\r20%\n\x1b[2Jend\n\n")
    book.close()
    assert book.last_lines("a", "rank-0.log", 2) == ("20%", "end")
    assert book.last_lines("a", "rank-1.log", 2) == ()


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """Let no file of this process become longer, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_disk_that_fills_up_ends_no_run_and_is_said_once(tmp_path: Path) -> None:
    watch = RunState(plan((None,)))
    stream, book = io.StringIO(), LogStore(tmp_path / "run")
    reporter = RunReporter(watch, Screen(stream), book, clock=lambda: 0.0)
    book.begin()
    with files_end_at(1000):
        for number in range(20):
            reporter.output(LogOutput("a", "rank-0.log", number * 100, b"%099d\n" % number))
        list(reporter.handle(Tick(0.0)))
        book.store("outcome.json", "{}")
    assert (tmp_path / "run" / "a" / "rank-0.log").stat().st_size == 1000
    assert not (tmp_path / "run" / "outcome.json").exists()
    assert stream.getvalue().count("local logs are no longer written (File too large: ") == 1
    assert f"gpulaunch fetch {watch.plan.run_id}" in stream.getvalue()
    assert book.last_lines("a", "rank-0.log", 1) == ("0" * 97 + "19",)
    outcome = replace(build_outcome(watch, tmp_path, 1.0, 1), logs_incomplete=book.failed)
    assert "the local logs are not complete (File too large" in "\n".join(render_outcome(outcome))
    assert encode_outcome(outcome)["logs_incomplete"] == book.failed


@pytest.mark.parametrize("change", ["unlink", "rmtree", "none"])
def test_logs_that_were_deleted_locally_are_called_incomplete(tmp_path: Path, change: str) -> None:
    book = LogStore(tmp_path / "run")
    reporter = RunReporter(RunState(plan((None,))), Screen(io.StringIO()), book, clock=lambda: 0.0)
    book.begin()
    reporter.output(LogOutput("a", "rank-0.log", 0, b"1\n2\n"))
    if change == "unlink":
        (tmp_path / "run" / "a" / "rank-0.log").unlink()
    elif change == "rmtree":
        shutil.rmtree(tmp_path / "run")
    reporter.output(LogOutput("a", "rank-0.log", 4, b"3\n"))
    told = "a/rank-0.log was deleted or cut locally"
    assert reporter.logs_incomplete == ("" if change == "none" else told)
    book.close()


def test_output_that_goes_to_a_full_disk_ends_no_run(capsys: pytest.CaptureFixture[str]) -> None:
    with Path("/dev/full").open("w") as full:
        screen = Screen(full)
        screen.notify("one")
        screen.output("a", "rank-0.log", b"two\n", 0.0)
        screen.finish()
        with suppress(OSError):
            full.close()
    assert capsys.readouterr().err.count("cannot be written any more (No space left on device)") == 1


def test_a_directory_that_cannot_be_made_is_refused_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunAborted, match="file/run cannot be made: Not a directory") as caught:
        LogStore(tmp_path / "file" / "run").begin()
    assert caught.value.fix.startswith("--logs DIRECTORY")


@pytest.mark.parametrize("logs", ["/dev/null", "/dev/null/x", "file/x/y"])
def test_what_cannot_be_a_directory_of_logs_is_a_mistake_before_anything_is_read(
    tmp_path: Path, logs: str
) -> None:
    (tmp_path / "file").touch()
    words = ["run", str(tmp_path / "absent.py"), "--logs", str(tmp_path / logs)]
    with pytest.raises(click.BadParameter, match="is not a directory"):
        CliRunner().invoke(cli, words, standalone_mode=False, catch_exceptions=False)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes everywhere")
def test_logs_that_cannot_be_written_stop_a_launch_before_it_asks_a_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import torch\n")
    (tmp_path / "hosts.yaml").write_text("hosts: {a: {address: 127.0.0.1, port: 1}}\n")
    (tmp_path / "locked").mkdir(mode=0o500)
    demand_room(tmp_path / "not" / "yet")
    words = ["run", "train.py", "-i", "hosts.yaml", "--hosts", "a", "--logs", "locked/runs"]
    with pytest.raises(RunAborted, match="locked/runs cannot be made: Permission denied"):
        CliRunner().invoke(cli, words, standalone_mode=False, catch_exceptions=False)


def test_a_refused_directory_of_logs_says_what_the_kernel_says(tmp_path: Path) -> None:
    """A read-only disk is one where even root may not write; a mount of one takes a namespace of its own."""
    (tmp_path / "disk").mkdir()
    words = (
        "from pathlib import Path; from launcher.rundir.log_store import demand_room\n"
        f"demand_room(Path({str(tmp_path / 'disk' / 'runs')!r}))"
    )
    mount = ["mount", "-t", "tmpfs", "-o", "ro", "none", str(tmp_path / "disk")]
    shell = f"{shlex.join(mount)} && exec {shlex.join([sys.executable, '-c', words])}"
    try:
        done = subprocess.run(
            ["unshare", "--map-root-user", "--mount", "sh", "-c", shell],
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError:
        pytest.skip("needs unshare of util-linux")
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip(f"no mount in a namespace of its own: {done.stderr.strip()}")
    assert f"{tmp_path}/disk/runs cannot be made: Read-only file system" in done.stderr
