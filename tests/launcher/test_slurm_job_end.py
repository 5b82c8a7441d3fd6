"""The end of a job that Slurm announces: a signal to the step, what it says of it, what follows."""

import os
import signal
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.commands._job_end import leave_to_slurm, read_announced_end
from launcher.follow.events import Interrupted, JobEnds
from launcher.follow.job_end import PREEMPTED, TIME_LIMIT, JobEnd
from launcher.follow.run_state import RunState, StopHosts
from launcher.remote.program_source import build_bootstrap_argv, compress_program, read_program_source
from launcher.slurm.jobs import Allocation
from launcher.slurm.requeue import exclude_and_requeue, requeue_job
from launcher.slurm.srun_step import JobNotice, describe_end
from launcher.transports.step.step import SlurmStep, StepConnection
from tests.launcher.run_events import CPU, come_to, ended, host_report, replay, said, stops
from tests.launcher.run_plans import plan

SHOWN = """\
JobId=3 JobName=job.sh
   JobState={state} Reason=None Dependency=(null)
   StartTime=2026-11-22T23:44:58 EndTime=2026-11-22T23:45:41 Deadline=N/A
   PreemptEligibleTime=2026-11-22T23:44:58 PreemptTime={preempted}
"""
UNTIL = time.mktime((2026, 11, 22, 23, 45, 41, 0, 0, -1))
AT = "2026-11-22T23:45:01"


@pytest.mark.parametrize(
    ("number", "state", "preempted", "end"),
    [
        (signal.SIGTERM, "RUNNING", AT, JobEnd(PREEMPTED, UNTIL)),
        (signal.SIGUSR1, "RUNNING", AT, JobEnd(PREEMPTED, UNTIL)),
        (signal.SIGTERM, "COMPLETING", AT, JobEnd(PREEMPTED, UNTIL)),
        (signal.SIGUSR1, "RUNNING", "None", JobEnd(TIME_LIMIT, UNTIL)),
        (signal.SIGTERM, "RUNNING", "None", JobEnd("Slurm has sent SIGTERM to the job's step")),
        (signal.SIGTERM, "CANCELLED", "None", JobEnd("Slurm ends this job (CANCELLED)", UNTIL)),
    ],
)
def test_a_signal_to_the_step_means_what_slurm_says_of_the_job(
    number: int, state: str, preempted: str, end: JobEnd
) -> None:
    assert describe_end(number, SHOWN.format(state=state, preempted=preempted)) == end


def test_without_an_answer_of_slurm_only_the_signal_is_known() -> None:
    assert describe_end(signal.SIGTERM, "").why == "Slurm has sent SIGTERM to the job's step"
    assert describe_end(signal.SIGTERM, "EndTime=20261122-234541").until == 0.0


def test_slurm_is_asked_once_however_many_tasks_hear_of_it(tmp_path: Path) -> None:
    answer = SHOWN.format(state="RUNNING", preempted=AT)
    scontrol = tmp_path / "scontrol"
    scontrol.write_text(f"#!/bin/sh\necho $@ >> {tmp_path}/asked\ncat << END\n{answer}\nEND\n")
    scontrol.chmod(0o755)
    notice = JobNotice(Allocation("3", ("n1",), {"PATH": f"{tmp_path}:/usr/bin:/bin"}))
    assert notice.read(0.0) is None
    for _ in range(3):
        notice.hear(signal.SIGTERM)
    found = notice.read(20.0)
    assert found is not None
    assert found.is_preemption
    assert (tmp_path / "asked").read_text() == "show job 3\n"


def test_a_task_reports_what_slurm_sends_and_its_programs_survive_it() -> None:
    heard: list[int] = []
    news = threading.Semaphore(0)

    def hear(number: int) -> None:
        heard.append(number)
        news.release()

    argv = build_bootstrap_argv(sys.executable, "gpulaunch-step")
    env = {**os.environ, "SLURMD_NODENAME": "n1"}
    relay = compress_program(read_program_source("step_relay"), "step_relay.py")
    step = SlurmStep(argv, ("n1",), env, relay, on_signal=hear)
    step.start()
    pid = step.task("n1")["pid"]
    assert isinstance(pid, int)
    for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT, signal.SIGHUP):
        os.kill(pid, number)
    for _ in range(3):
        assert news.acquire(timeout=20)
    command = ("sh", "-c", "kill -TERM $$; kill -USR1 $$; kill -USR2 $$; echo survived")
    done = StepConnection(step, "n1", "n1").run(command)
    step.close()
    assert done.stdout == b"survived\n"
    assert sorted(heard) == [signal.SIGINT, signal.SIGUSR1, signal.SIGTERM]


def test_a_job_that_slurm_preempts_is_stopped_with_all_its_time() -> None:
    watch = RunState(plan(CPU, CPU), grace_s=30.0)
    actions = replay(watch, [JobEnds(PREEMPTED, 100.0)])
    assert stops(actions) == [StopHosts(("a", "b"), 30.0, PREEMPTED)]
    replay(watch, [ended("a"), ended("b")])
    outcome = come_to(watch)
    assert (outcome.verdict, outcome.exit_code, outcome.why) == ("interrupted", 130, PREEMPTED)


@pytest.mark.parametrize(("at", "verdict"), [(99.0, "interrupted"), (103.0, "interrupted"), (90.0, "failed")])
def test_a_rank_that_ended_of_slurms_signal_is_no_failure(at: float, verdict: str) -> None:
    watch = RunState(plan(CPU))
    report = replace(host_report("a", "rank_exit", rank=0, code=-15), at=at)
    actions = replay(watch, [report, JobEnds(PREEMPTED, 100.0), ended("a")])
    assert PREEMPTED in said(actions)
    assert come_to(watch).verdict == verdict


def test_a_signal_to_the_step_of_a_run_that_is_interrupted_already_changes_nothing() -> None:
    watch = RunState(plan(CPU))
    replay(watch, [Interrupted("SIGTERM")])
    assert replay(watch, [JobEnds("Slurm ends this job (CANCELLED)", 100.0)]) == []
    replay(watch, [ended("a")])
    assert come_to(watch).why == "SIGTERM"


def test_what_fails_while_the_job_is_preempted_starts_elsewhere_and_what_finished_does_not() -> None:
    failed = RunState(plan(CPU))
    replay(failed, [host_report("a", "rank_exit", rank=0, code=3), ended("a")])
    outcome = come_to(failed)
    notice = JobNotice(Allocation("3", ("n1",), {"PATH": "/nowhere"}))
    assert read_announced_end(outcome, notice) is None
    assert read_announced_end(outcome, None) is None
    notice.hear(signal.SIGTERM)
    assert notice.read(20.0) is not None
    assert read_announced_end(outcome, notice) is None  # Slurm did not say that it is a preemption
    warned = read_announced_end(replace(outcome, why=TIME_LIMIT), notice)
    assert warned is not None
    assert not warned.is_preemption


def test_a_job_that_gpulaunch_does_not_requeue_waits_for_slurm_to_end_it() -> None:
    lines: list[str] = []
    handler = signal.getsignal(signal.SIGTERM)

    def end_once_it_waits() -> None:
        while signal.getsignal(signal.SIGTERM) is handler:  # which would end this process
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_once_it_waits, daemon=True).start()
    leave_to_slurm(JobEnd(PREEMPTED, time.time() + 3600), "requeue of slurm: is not set", lines.append)
    assert "(requeue of slurm: is not set), and waits up to" in lines[0]
    assert signal.getsignal(signal.SIGTERM) is handler


def test_a_job_is_started_again_no_more_often_than_allowed(tmp_path: Path) -> None:
    job = Allocation("3", ("n1",), {"PATH": "/nowhere"}, restarts=2)
    record = tmp_path / "slurm-3.json"
    assert requeue_job(job, 2, record) == "started again 2 times already"
    assert exclude_and_requeue(job, {"n1": "gone"}, 2, record).why == "started again 2 times already"
    assert requeue_job(job, 0, record) == "requeue of slurm: is not set"
    assert not record.exists()


def test_a_job_in_place_of_another_counts_all_starts_before_it(tmp_path: Path) -> None:
    said = tmp_path / "said"
    refused = '[ "$1" = requeue ] && exit 1; exit 0'
    submitted = f'echo "$* ${{SLURM_RESTART_COUNT-unset}}" > {said}; cat > {said}.script; echo 4'
    for name, text in (("scontrol", refused), ("sbatch", submitted)):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    environ = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "SLURM_RESTART_COUNT": "2"}
    job = Allocation("3", ("n1",), environ, restarts=6)
    found = exclude_and_requeue(job, {"n1": "gone"}, 7, tmp_path / "slurm-3.json")
    assert (found.action, found.new_job, found.why) == ("resubmitted", "4", "")
    assert said.read_text().startswith("--parsable --nodes=1 ")  # Slurm shows fewer once it has lost one
    assert said.read_text().endswith("--export=ALL,GPULAUNCH_EARLIER_STARTS=7 unset\n")


@pytest.mark.parametrize(
    ("reason", "action"),
    [("Job is pending execution", "requeued"), ("Requested operation is disabled", "none")],
)
def test_a_job_that_slurm_has_requeued_itself_gets_no_second_one(
    reason: str, action: str, tmp_path: Path
) -> None:
    asked = tmp_path / "asked"
    scontrol = f'echo "$*" >> {asked}; [ "$1" = requeue ] || exit 0; echo "{reason} for job 3" >&2; exit 1'
    for name, text in (("scontrol", scontrol), ("sbatch", f'echo "sbatch $*" >> {asked}; exit 1')):
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}\n")
        (tmp_path / name).chmod(0o755)
    job = Allocation("3", ("n1", "n2"), {"PATH": f"{tmp_path}:{os.environ['PATH']}"})
    found = exclude_and_requeue(job, {"n2": "gone"}, 2, tmp_path / "slurm-3.json")
    assert (found.action, found.excluded) == (action, "n2" if action == "requeued" else "")
    lines = asked.read_text().splitlines()
    assert ("update JobId=3 ExcNodeList=n2" in lines) == (action == "requeued")
    assert any(line.startswith("sbatch") for line in lines) == (action == "none")
    assert (requeue_job(job, 2, tmp_path / "slurm-3.json") == "") == (action == "requeued")
