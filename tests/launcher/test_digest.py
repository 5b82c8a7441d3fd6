"""Digests of ranks other than 0: made on the host, sent in place of their logs, shown once a kind."""

import io
import os
from pathlib import Path
from typing import Any

import pytest

from bench.replayed_supervisors import Story
from bench.run_nodes import replay
from launcher.follow import protocol, rank_digests
from launcher.follow.events import DigestReport, LogOutput, RankDigest, Tick
from launcher.follow.rank_digests import RankDigests, is_digested
from launcher.follow.run_state import RunState
from launcher.launch.reporter import RunReporter
from launcher.onhost.supervisor.files import CHUNK
from launcher.onhost.supervisor.requests._digest import LONGEST, MAX_ALARMS, HeldLogs
from launcher.rundir.log_store import LogStore
from launcher.rundir.state_schema import validate_frame
from launcher.terminal.screen import Screen
from tests.launcher.onhost_driver import Driver
from tests.launcher.run_plans import plan

PLAN = plan((None, None), (None, None))  # ranks 0 and 1 on a, 2 and 3 on b
SCRIPT = """
import os, sys, time
rank = os.environ["RANK"]
for step in range(300):
    print("step", step, "of rank", rank)
if rank == "1":
    print("Warning: disk 1 is slow")
    print("Warning: disk 2 is slow")
print("up", flush=True)
while not os.path.exists(os.path.join(os.environ["GPULAUNCH_RUN_DIR"], "go")):
    time.sleep(0.02)
if rank == "2":
    sys.exit("no more")
time.sleep(60)
"""


class OneLog:
    """A log of rank 7 and its digests."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "rank-7.log"
        self.path.touch()
        self.fd = os.open(self.path, os.O_RDONLY)
        self.digests = HeldLogs()

    def write(self, data: bytes, *, final: bool = False) -> dict[str, Any]:
        with self.path.open("ab") as file:
            file.write(data)
        self.digests.read(self.path.name, self.fd, final=final)
        return dict(self.digests.take(final=True).get("7", {}))


def test_a_digest_has_lines_the_last_and_each_kind_of_alarm(tmp_path: Path) -> None:
    log = OneLog(tmp_path)
    assert log.write(b"step 1\nstep 2\nst") == {"lines": 2, "last": "step 2", "said": {}}
    assert log.write(b"ep 3") == {}
    said = log.write(b"\n 1%|\r 2%| done\nUserWarning: 1 of 8\nstep 4\nUserWarning: 2 of 8\nloss: NaN\n")
    assert said == {"lines": 8, "last": "loss: NaN", "said": {"UserWarning: 1 of 8": 2, "loss: NaN": 1}}
    assert log.write(b"finance\n")["said"] == {"UserWarning: 1 of 8": 2, "loss: NaN": 1}
    assert log.write(b"x" * 1000 + b"\n")["last"] == "x" * LONGEST


def test_what_a_digest_keeps_is_bounded(tmp_path: Path) -> None:
    log = OneLog(tmp_path)
    kinds = [b"error " + bytes([letter]) for letter in range(65, 91)]
    said = log.write(b"\n".join(kinds) + b"\n" + b"e" * (2 * CHUNK) + b"\n", final=True)
    assert len(said["said"]) == MAX_ALARMS
    assert said["lines"] == len(kinds) + 1


def test_digests_are_sent_every_few_seconds_and_at_the_end(tmp_path: Path) -> None:
    log = OneLog(tmp_path)
    log.path.write_text("a\n")
    log.digests.read(log.path.name, log.fd, final=False)
    assert log.digests.take(final=False)
    log.path.write_text("a\nb\n")
    log.digests.read(log.path.name, log.fd, final=False)
    assert not log.digests.take(final=False)
    assert log.digests.take(final=True)
    assert not log.digests.take(final=True)


def test_logs_of_rank_0_of_launchers_and_of_failed_ranks_are_not_held() -> None:
    digests = HeldLogs()
    assert not any(digests.holds(name) for name in ("rank-0.log", "launcher.log", "stacks-rank-1.log"))
    digests.on_events(
        b'{"event": "rank_exit", "rank": 1, "code": 0, "stopping": false}\n'
        b'{"event": "rank_exit", "rank": 2, "code": -15, "stopping": true}\n'
        b'{"event": "rank_exit", "rank": 3, "code": -9, "stopping": false}\n'
        b'{"event": "rank_exit"}\nnot ours: "rank_exit"\n'
    )
    assert [digests.holds(f"rank-{rank}.log") for rank in (1, 2, 3)] == [True, True, False]


@pytest.mark.slow
def test_a_follower_holds_logs_and_sends_that_of_the_rank_that_fails(run: Driver) -> None:
    run.start(SCRIPT, ranks=3, digest=True)
    run.until(lambda: {"1", "2"} <= run.digests.keys() and run.log().endswith(b"up\n"))
    (run.run_dir / "go").touch()
    run.ended()
    assert run.log().count(b"\n") == 301
    assert run.log("rank-2.log") == (run.run_dir / "rank-2.log").read_bytes()
    assert run.log("rank-2.log").endswith(b"no more\n")
    assert run.log("rank-1.log") == b""
    said = {"Warning: disk 1 is slow": 2}
    assert run.digests["1"] == {"lines": 303, "last": "up", "said": said}
    run.digests.clear()  # another client, which has nothing yet, gets the digests of all that was written
    run.open("follow", protocol.follow_request("r1", {}, digest=True))
    run.logs.clear()
    run.end = None
    run.ended()
    assert run.digests["1"]["said"] == said
    assert run.log("rank-1.log") == b""


def report(host: str, **ranks: RankDigest) -> DigestReport:
    return DigestReport(host, {int(rank[1:]): told for rank, told in ranks.items()})


def test_each_kind_of_alarm_is_yielded_once_and_counted_by_rank() -> None:
    digests = RankDigests(PLAN)
    assert not list(digests.summary())
    slow = {"disk 1 error": 3}
    assert list(digests.feed(report("a", r1=RankDigest(5, "step 4", slow)))) == [(1, "disk 1 error")]
    assert not list(digests.feed(report("b", r2=RankDigest(6, "step 5", {"disk 2 error": 1}))))
    assert not list(digests.feed(report("b", r1=RankDigest(999, "not its rank", {"other error": 1}))))
    count = "2 ranks other than 0 have printed 11 lines"
    fetch = f"gpulaunch fetch {PLAN.run_id} --logs-only"
    assert list(digests.summary()) == [f"{count}, which their hosts keep: {fetch}", "2 ranks: disk 1 error"]
    assert not list(digests.list_due(100.0))
    assert not list(digests.list_due(159.0))
    assert list(digests.list_due(160.0)) == [count, "latest: rank 2: step 5"]
    assert not list(digests.list_due(161.0))


def test_a_launch_of_many_ranks_is_digested_unless_all_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not is_digested(PLAN, all_ranks=False)
    monkeypatch.setattr(rank_digests, "DIGEST_RANKS", 3)
    assert is_digested(PLAN, all_ranks=False)
    assert not is_digested(PLAN, all_ranks=True)


def test_digests_are_shown_and_a_failed_ranks_log_is_kept(tmp_path: Path) -> None:
    stream, book, now = io.StringIO(), LogStore(tmp_path), [0.0]
    reporter = RunReporter(RunState(PLAN), Screen(stream), book, clock=lambda: now[0], digest=True)
    list(reporter.handle(report("b", r3=RankDigest(9, "step 8", {"CUDA error: 700": 1}))))
    list(reporter.handle(Tick(0.0)))
    now[0] = 61.0
    list(reporter.handle(Tick(61.0)))
    reporter.output(LogOutput("b", "rank-3.log", 0, b"its whole log\n"))
    reporter.output(LogOutput("a", "rank-0.log", 0, b"the main rank\n"))
    reporter.tell_digests()
    book.close()
    shown = stream.getvalue()
    assert "--all-ranks" in shown.splitlines()[0]
    assert "[b r3] CUDA error: 700\n" in shown
    assert "latest: rank 3: step 8" in shown
    assert "1 rank: CUDA error: 700" in shown
    assert "the main rank" in shown
    assert "its whole log" not in shown
    assert (tmp_path / "b" / "rank-3.log").read_text() == "its whole log\n"
    assert reporter.logs_incomplete


def test_a_digest_of_another_form_is_refused() -> None:
    told = {"lines": 1, "last": "x", "said": {"error": 1}}
    assert not validate_frame({"digest": {"1": told}, "t": 1.0})
    assert validate_frame({"digest": {"../1": told}})
    assert validate_frame({"digest": {"1": {**told, "said": {"error": "1"}}}})
    assert validate_frame({"digest": {"1": {"lines": 1}}})


@pytest.mark.parametrize("all_ranks", [False, True])
def test_many_nodes_are_followed_by_digests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, all_ranks: bool
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(rank_digests, "DIGEST_RANKS", 31)
    done = replay(Story(8, 3, 0.05, failing_rank=31), 4, tmp_path, all_ranks=all_ranks)
    logs = {log.name: log.read_text().count("\n") for log in done.outcome.directory.glob("*/rank-*.log")}
    every = {f"rank-{rank}.log": 3 for rank in range(32)}
    assert logs == (every if all_ranks else {"rank-0.log": 3, "rank-31.log": 3})
    assert bool(done.outcome.logs_incomplete) is not all_ranks
    assert done.outcome.why == "rank 31 on node-0007 failed with exit code 1: ValueError: loss is NaN"
