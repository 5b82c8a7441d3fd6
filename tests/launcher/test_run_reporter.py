"""What a reporter does with the events of a run: phases, what ranks used, notes for the report."""

import io
import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.follow.events import HostReport, HostStarted, Interrupted, LogOutput, RunEvent, Tick
from launcher.follow.outcome import build_outcome
from launcher.follow.phases import QUIET_S, Phase, Phases, Stopwatch, format_phases
from launcher.follow.run_state import RunState
from launcher.follow.usage import UsageTracker
from launcher.launch.reporter import RunReporter
from launcher.report.outcome import encode_outcome, render_outcome
from launcher.report.usage import render_usage
from launcher.rundir.log_store import LogStore
from launcher.terminal.screen import Screen
from launcher.text import spell_duration
from preflight.diagnosis.free_memory import FreeMemory
from tests.launcher.run_events import CPU, GOOD, ended, host_report, introduced, placed, replay
from tests.launcher.run_plans import plan


def sample(host: str, t: float, at: float | None = None, **fields: object) -> HostReport:
    return HostReport(host, "usage", {"event": "usage", "t": t, **fields}, t if at is None else at)


def gpu(busy: float | None, mib: float | None) -> dict[str, float | None]:
    return {"busy": busy, "memory_mib": mib, "power_w": 100.0}


class Followed:
    """A run that is followed into files and a stream, without any host."""

    def __init__(self, folder: Path, *gpus: tuple[str | None, ...]) -> None:
        self.plan = plan(*gpus)
        self.watch = RunState(self.plan)
        self.stream = io.StringIO()
        self.book = LogStore(folder / "r1")
        self.book.directory.mkdir()
        self.now = 0.0
        self.reporter = RunReporter(self.watch, Screen(self.stream), self.book, clock=lambda: self.now)

    def take(self, *history: RunEvent) -> None:
        for event in history:
            if isinstance(event, LogOutput):
                self.reporter.output(event)
            else:
                list(self.reporter.handle(event))

    def notes(self) -> list[str]:
        lines = (self.book.directory / "events.jsonl").read_text().splitlines()
        return [json.loads(line)["text"] for line in lines]


def at(seconds: float, event: HostReport) -> HostReport:
    return HostReport(event.host, event.event, event.fields, seconds)


def test_logs_that_come_long_after_the_end_are_told_once(tmp_path: Path) -> None:
    run = Followed(tmp_path, CPU, CPU)
    logs = [LogOutput(host, "rank-0.log", 2 * number, b"1\n") for number in range(3) for host in ("a", "b")]
    run.take(*logs[:2], at(time.time() - 1.0, host_report("b", "ended")), *logs[2:4])
    assert "still come" not in run.stream.getvalue()
    run.take(at(time.time() - 65.0, host_report("a", "ended")), *logs[4:], *logs[4:])
    (note,) = [text for text in run.notes() if "still come" in text]
    assert note.startswith("a: the run ended 1 min 5 s ago, and its logs still come; Ctrl-C and detach leave")
    assert run.stream.getvalue().count("still come") == 1


def test_a_rank_that_has_ended_is_not_said_to_have_stalled(tmp_path: Path) -> None:
    run = Followed(tmp_path, CPU, CPU)
    for run.now in (0.0, 1.0, 2.0, 3.0):
        line = f"step {run.now:.0f} loss 2.5\n".encode()
        run.take(
            *(LogOutput(host, f"rank-{rank}.log", 16 * int(run.now), line) for rank, host in enumerate("ab"))
        )
    run.take(at(3.0, host_report("a", "rank_exit", rank=0, code=0)))
    run.now = 400.0
    run.take(Tick(400.0))
    assert [text for text in run.notes() if "no step" in text] == [
        "b rank 1: no step for 397 s; before, one came every 1.0 s (gpulaunch explain S24)"
    ]


@pytest.mark.parametrize(("ranks", "then"), [(1, "the run continues"), (2, "its ranks have ended")])
def test_a_run_that_is_left_continues_unless_its_ranks_have_ended(
    tmp_path: Path, ranks: int, then: str
) -> None:
    run = Followed(tmp_path, CPU, CPU)
    run.take(*(host_report("ab"[rank], "rank_exit", rank=rank, code=0) for rank in range(ranks)))
    left = replace(build_outcome(run.watch, tmp_path, 1.0, 1), verdict="detached")
    assert f"detached after 1.0 s; {then}. Come back with:" in list(render_outcome(left))


def test_start_ends_when_every_rank_is_verified() -> None:
    watch = RunState(plan(CPU, CPU))
    phases = Phases(watch)
    phases.update(100.0)
    for seconds, told_then in ((102.0, placed("a", 0, 2)), (103.5, placed("b", 1, 2))):
        assert phases.current == ("start", 100.0)
        replay(watch, [told_then])
        phases.update(seconds)
    assert phases.current == ("run", 103.5)
    phases.update(160.0)
    assert phases.finish() == (Phase("start", 3.5), Phase("run", 56.5))


def test_ranks_that_never_tell_their_world_have_started_when_all_scripts_had_begun() -> None:
    watch = RunState(plan(CPU, CPU))
    phases = Phases(watch)
    phases.update(0.0)
    replay(watch, [introduced("a", 0), introduced("b", 1)])
    phases.update(2.0)
    assert phases.current[0] == "start"
    phases.update(3.0 + QUIET_S)
    assert phases.current == ("run", 2.0)
    assert phases.finish() == (Phase("start", 2.0), Phase("run", 1.0 + QUIET_S))


def test_a_run_that_is_stopped_before_it_was_verified_has_no_run_phase() -> None:
    watch = RunState(plan(CPU, CPU))
    phases = Phases(watch)
    phases.update(0.0)
    replay(watch, [Interrupted()])
    phases.update(4.0)
    phases.update(5.0)
    assert phases.finish() == (Phase("start", 4.0), Phase("end", 1.0))


def test_a_stopwatch_adds_up_what_is_done_twice() -> None:
    times = iter([0.0, 1.0, 5.0, 7.0])
    watch = Stopwatch(lambda: next(times))
    for _ in range(2):
        with watch.phase("preflight"):
            pass
    assert watch.phases == (Phase("preflight", 3.0),)


@pytest.mark.parametrize(
    "cause", [Interrupted(), host_report("b", "rank_exit", rank=1, code=1)], ids=["by-hand", "failed-rank"]
)
def test_launchers_are_heard_until_the_run_is_stopped_and_files_have_the_rest(
    tmp_path: Path, cause: RunEvent
) -> None:
    followed = Followed(tmp_path, CPU, CPU)
    followed.take(LogOutput("a", "launcher.log", 0, b"no such module\n"), cause)
    followed.take(LogOutput("a", "launcher.log", 15, b"SignalException\n"))
    assert "[a] no such module\n" in followed.stream.getvalue()
    assert "SignalException" not in followed.stream.getvalue()
    assert (
        followed.book.directory / "a" / "launcher.log"
    ).read_bytes() == b"no such module\nSignalException\n"


def test_an_earlier_start_is_told_apart_from_its_duration() -> None:
    assert format_phases([("start 1", 69.0), ("start", 0.4)]) == "start 1: 1 min 9 s, start 0.4 s"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.42, "0.4 s"),
        (59.94, "59.9 s"),
        (59.99, "1 min 0 s"),
        (119.7, "2 min 0 s"),
        (312.0, "5 min 12 s"),
        (7325.0, "2 h 2 min"),
    ],
)
def test_durations_are_told_as_people_do(seconds: float, words: str) -> None:
    assert spell_duration(seconds) == words


def test_peaks_and_means_are_by_rank_and_a_sample_that_comes_twice_counts_once() -> None:
    usages = UsageTracker(plan(("GPU-a", "GPU-b"), (None,)))
    first = {
        "gpus": {"GPU-a": gpu(90.0, 1000.0), "GPU-b": gpu(None, 2000.0)},
        "ranks": {"0": {"rss_mib": 10}},
    }
    for each in (
        sample("a", 1.0, 11.0, **first),
        sample("a", 1.0, 11.0, **first),
        sample("a", 6.0, 16.0, gpus={"GPU-a": gpu(50.0, 500.0)}, ranks={"0": {"rss_mib": 5, "cpu": 80.0}}),
        sample("b", 3.0, ranks={"2": {"rss_mib": 7, "cpu": None}}, gpus_missing="no driver"),
    ):
        usages.feed(each.host, each.fields, each.at)
    over = {used.rank: used for used in usages.totals()}
    assert (over[0].gpu_busy, over[0].gpu_mib, over[0].rss_mib, over[0].cpu) == (70.0, 1000.0, 10.0, 80.0)
    assert (over[1].gpu_busy, over[1].gpu_mib) == (None, 2000.0)
    assert (over[2].rss_mib, over[2].cpu, over[2].gpu_mib) == (7.0, None, None)
    now = {used.rank: used for used in usages.latest()}
    assert (now[0].gpu_busy, now[0].gpu_mib) == (50.0, 500.0)
    assert 1 not in now, "its GPU was not measured this time"
    assert usages.missing == {"b": "no driver"}
    assert usages.clock_offset_s == {"a": 10.0, "b": 0.0}


def test_the_room_of_a_failure_is_of_the_last_sample_before_it_that_is_young() -> None:
    usages = UsageTracker(plan(("GPU-a", "GPU-b"), (None,)))
    for t, free in ((1.0, 900), (6.0, 40), (11.0, 70_000)):
        gpus = {"GPU-a": {"memory_free_mib": free}, "GPU-b": {"memory_free_mib": None}}
        usages.feed("a", {"t": t, "gpus": gpus, "shm_free_mib": free + 1}, t + 100.0)
    assert usages.room_before("a", 0, 108.5) == FreeMemory(2.5, 40.0, 41.0)
    assert usages.room_before("a", 1, 108.5) == FreeMemory(2.5, None, 41.0)
    assert usages.room_before("a", None, 126.0) == FreeMemory(15.0, None, 70_001.0)
    for host, at_s in (("a", 100.5), ("a", 126.5), ("a", float("inf")), ("b", 108.5)):
        assert usages.room_before(host, 0, at_s) is None


def test_what_the_kernel_counted_tells_of_runs_that_are_hardly_sampled() -> None:
    usages = UsageTracker(plan((None,), (None,)))
    usages.feed("a", {"t": 1.0, "ranks": {"0": {"rss_mib": 15, "cpu": None}}}, 1.0)
    usages.end("a", {"rank": 0, "rss_peak_mib": 312.5, "cpu_s": 1.5, "lived_s": 2.0})
    usages.end("a", {"rank": 1, "rss_peak_mib": 9.0})  # not a's rank
    usages.end("b", {"rank": 1, "rss_peak_mib": "x", "cpu_s": float("nan"), "lived_s": 0})
    (used,) = usages.totals()
    assert (used.rss_mib, used.cpu) == (312.5, 75.0)
    assert next(render_usage([used])).startswith("rank 0 on a: peak memory 312 MiB, ")


def test_many_samples_weigh_more_than_the_count_at_the_end() -> None:
    usages = UsageTracker(plan((None,)))
    for second in range(1, 6):
        usages.feed("a", {"t": second, "ranks": {"0": {"rss_mib": 400, "cpu": 50.0}}}, float(second))
    usages.end("a", {"rank": 0, "rss_peak_mib": 100.0, "cpu_s": 100.0, "lived_s": 100.0})
    (used,) = usages.totals()
    assert (used.rss_mib, used.cpu) == (400.0, 50.0)


def test_what_was_not_measured_is_called_that() -> None:
    usages = UsageTracker(plan((None,)))
    usages.feed("a", {"t": 1.0, "ranks": {"0": {"rss_mib": 15, "cpu": None}}}, 1.0)
    (line,) = render_usage(usages.totals())
    assert line == "rank 0 on a: peak memory at least 15 MiB, mean CPU use not measured"


@pytest.mark.parametrize("fields", [{}, {"gpus": 3, "ranks": [1]}, {"gpus": {"GPU-a": {"busy": "x"}}}])
def test_a_damaged_sample_says_nothing(fields: dict[str, object]) -> None:
    usages = UsageTracker(plan(("GPU-a",)))
    usages.feed("a", {"t": 1.0, **fields}, 1.0)
    usages.feed("a", {"t": "late", **fields}, 1.0)
    assert usages.totals() == ()


def test_the_outcome_tells_what_was_used_and_where_the_time_went(tmp_path: Path) -> None:
    followed = Followed(tmp_path, ("GPU-a",), CPU)
    followed.take(
        Tick(100.0),
        HostStarted("a", "/r"),
        at(103.0, placed("a", 0, 2, device="cuda:0", gpu="GPU-a")),
        at(104.0, placed("b", 1, 2)),
        sample("a", 105.0, gpus={"GPU-a": gpu(91.0, 35020.8)}),
        sample("b", 105.0, ranks={"1": {"rss_mib": 512.0, "cpu": 99.6}}),
        at(160.0, host_report("a", "rank_exit", rank=0, code=0)),
        at(160.0, host_report("b", "rank_exit", rank=1, code=0)),
        ended("a"),
        ended("b"),
        Tick(161.0),
    )
    outcome = followed.reporter.with_measurements(build_outcome(followed.watch, tmp_path, 61.0, 1))
    lines = list(render_outcome(outcome))
    assert lines[1:] == [
        "rank 0 on a: peak GPU memory at least 34.2 GiB, mean GPU use 91 % (1 sample)",
        "rank 1 on b: peak memory at least 512 MiB, mean CPU use 100 % of one core",
        "start 4.0 s, run 56.0 s, end 1.0 s",
        f"to copy what the script wrote in ~ on a,b: gpulaunch fetch {outcome.plan.run_id} --path PATH",
        f"finished (exit code 0) after 61.0 s; logs: {tmp_path}",
    ]
    document = json.loads(json.dumps(encode_outcome(outcome)))
    assert document["phases"] == [
        {"name": "start", "seconds": 4.0},
        {"name": "run", "seconds": 56.0},
        {"name": "end", "seconds": 1.0},
    ]
    assert document["usage"][0]["gpu_memory_peak_mib"] == 35020.8
    assert "start took 4.0 s" in followed.stream.getvalue()
    followed.book.close()


def test_a_slow_start_is_told_when_it_is_over(tmp_path: Path) -> None:
    followed = Followed(tmp_path, CPU, CPU)
    followed.take(Tick(0.0), at(1.0, introduced("a", 0)), at(2.0, introduced("b", 1)), Tick(3.0 + QUIET_S))
    assert followed.reporter.phases.current == ("run", 2.0)
    followed.take(at(89.0, placed("a", 0, 2)), at(90.0, placed("b", 1, 2)), Tick(91.0))
    assert followed.stream.getvalue().count("start took 1 min 30 s") == 1
    followed.book.close()


def test_a_peak_of_few_samples_is_a_least_and_a_gpu_without_a_context_is_unused() -> None:
    usages = UsageTracker(plan(("GPU-a", "GPU-b")))
    said = []
    for second, mib in ((1.0, 3.0), (6.0, 822.0), (11.0, 800.0)):
        usages.feed("a", {"t": second, "gpus": {"GPU-a": gpu(9.0, mib), "GPU-b": gpu(0.0, 3.0)}}, second)
        said.append(list(render_usage(usages.totals())))
    assert said[0][0] == "ranks 0-1: GPU memory not known: no memory of the GPU in use in 1 sample"
    assert said[1][1] == "rank 0 on a: peak GPU memory at least 822 MiB, mean GPU use 9 % (2 samples)"
    assert said[2][:2] == [
        "rank 1: no memory of the GPU in use in 3 samples",
        "rank 0 on a: peak GPU memory 822 MiB, mean GPU use 9 %",
    ]


def test_of_many_ranks_the_extremes_are_told() -> None:
    usages = UsageTracker(plan(tuple(f"GPU-{rank}" for rank in range(16))))
    gpus = {f"GPU-{rank}": gpu(80.0 + rank, 1024.0 * (rank + 1)) for rank in range(16)}
    usages.feed("a", {"t": 1.0, "gpus": gpus}, 1.0)
    assert list(render_usage(usages.totals())) == [
        "GPU use of 16 ranks: mean 88 %; lowest 80 % (rank 0 on a), highest 95 % (rank 15 on a)",
        (
            "peak GPU memory (at least) of 16 ranks: mean 8.5 GiB;"
            " lowest 1.0 GiB (rank 0 on a), highest 16.0 GiB (rank 15 on a)"
        ),
    ]


def test_of_many_ranks_the_one_that_was_measured_is_no_mean() -> None:
    usages = UsageTracker(plan(tuple(f"GPU-{rank}" for rank in range(16))))
    usages.feed("a", {"t": 1.0, "gpus": {f"GPU-{rank}": gpu(80.0, 1024.0) for rank in range(16)}}, 1.0)
    totals = [used if used.rank == 3 else replace(used, gpu_busy=None) for used in usages.totals()]
    assert next(iter(render_usage(totals))) == "GPU use of rank 3 on a, the only one measured: 80 %"


def test_exits_and_checkpoints_are_noted_for_the_report_and_not_said(tmp_path: Path) -> None:
    followed = Followed(tmp_path, CPU, CPU)
    line = b"Saving model checkpoint to out/checkpoint-500\n"
    followed.take(
        *GOOD[:4],
        LogOutput("a", "rank-0.log", 0, b"step 1\n" + line),
        LogOutput("b", "rank-1.log", 0, line),
        *GOOD[4:],
    )
    assert followed.notes()[-3:] == [
        "a: Saving model checkpoint to out/checkpoint-500",
        "rank 0 on a ended with exit code 0",
        "rank 1 on b ended with exit code 0",
    ]
    assert "exit code 0" not in followed.stream.getvalue()
    followed.book.close()


def test_a_line_without_end_that_names_checkpoints_holds_up_nothing(tmp_path: Path) -> None:
    followed = Followed(tmp_path, CPU)
    line = b"gradient_checkpointing " + b"saved " * (1 << 15) + b"\r\nSaved the state to checkpoint-5\n"
    followed.take(LogOutput("a", "rank-0.log", 0, line))  # minutes, once, when it grew with the line's square
    assert followed.notes()[-1] == "a: Saved the state to checkpoint-5"
    followed.book.close()


def test_gpus_that_cannot_be_measured_are_said_once(tmp_path: Path) -> None:
    followed = Followed(tmp_path, ("GPU-a",))
    for t in range(3):
        followed.take(sample("a", float(t), gpus_missing="NVML: driver hangs"))
    said = "a: the use of its GPUs cannot be measured: NVML: driver hangs"
    assert followed.stream.getvalue().count(said) == 1
    followed.book.close()
