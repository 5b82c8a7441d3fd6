"""What a job is, as Slurm's commands say it: its nodes, its state, why it waits. No Slurm is needed."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from launcher.cli import cli
from launcher.commands._job_hosts import select_nodes
from launcher.config.before_stop_options import BeforeStop
from launcher.config.inventory import Inventory
from launcher.config.slurm_options import SlurmSpec
from launcher.errors import BadInput, ConnectionRefused
from launcher.host_checks.evaluation import _from_error
from launcher.rundir.run_id import is_job_id
from launcher.slurm.commands import open_local_commands
from launcher.slurm.jobs import Allocation, await_job, end_without_run, read_allocation, read_job
from launcher.slurm.submit import WAIT_FIXES, describe_short_wait, describe_wait, read_wait_reason


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0"}, "task 0 of the 4"),
        ({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "3"}, "task 3 of the 4"),
        ({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0", "SLURM_PTY_PORT": "33069"}, ""),
        ({"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}, ""),
        ({"SLURM_NTASKS": "8", "SLURM_PROCID": "0"}, ""),  # a batch script
    ],
)
def test_one_of_several_tasks_of_srun_launches_nothing(
    tmp_path: Path, step: dict[str, str], said: str
) -> None:
    environ = {**slurm_commands(tmp_path, "17|17|RUNNING|n1\n"), "SLURM_JOB_ID": "17", **step}
    if not said:
        assert read_allocation(environ).job == "17"
        return
    with pytest.raises(BadInput, match=f"this is {said} that srun has started"):
        read_allocation(environ)


@pytest.mark.parametrize(
    ("squeue", "reason", "said"),
    [
        (
            "echo PartitionNodeLimit",
            "PartitionNodeLimit",
            "set `nodes` of slurm: in the run config; gpulaunch stop 17",
        ),
        ("echo BadConstraints", "BadConstraints", "none has all of it; change slurm: in the run config"),
        ("echo Resources", "Resources", ""),
        ("echo None", "", ""),
        ("", "", ""),
        ("exit 1", "", ""),
        ("exit 127", "", ""),
        ("head -c 70000000 /dev/zero", "", ""),  # as a connection that ends, it says nothing of the job
    ],
)
def test_a_job_that_cannot_start_as_it_is_comes_with_what_to_change(
    tmp_path: Path, squeue: str, reason: str, said: str
) -> None:
    tool = tmp_path / "squeue"
    tool.write_text(f"#!/bin/sh\n{squeue}\n")
    tool.chmod(0o755)
    connection = open_local_commands({"PATH": f"{tmp_path}:/usr/bin:/bin"})
    assert read_wait_reason(connection, "17") == reason
    hint = describe_wait("17", reason)
    assert (said in hint, bool(said)) == (True, bool(hint))


def slurm_commands(folder: Path, squeue: str, scontrol: str = "n1\n") -> dict[str, str]:
    """Write a squeue that prints this text and a scontrol that names one node; return what finds them."""
    for name, text in (("squeue", squeue), ("scontrol", scontrol)):
        (folder / name).write_text(f"#!/bin/sh\ncat <<'EOF'\n{text}EOF\n")
        (folder / name).chmod(0o755)
    return {"PATH": f"{folder}:/usr/bin:/bin"}


ARRAY = "17|17_2|RUNNING|n2\n19|17_1|RUNNING|n1\n18|17_0|RUNNING|n1\n"


def test_the_last_task_of_an_array_is_a_job_of_its_own_though_it_has_the_array_s_id(tmp_path: Path) -> None:
    environ = slurm_commands(tmp_path, ARRAY)
    again = {"SLURM_RESTART_COUNT": "1", "GPULAUNCH_EARLIER_STARTS": "3"}
    last = read_allocation({**environ, **again, "SLURM_JOB_ID": "17"})
    assert last.restarts == 4
    assert (last.job, last.name, last.nodes) == ("17", "17_2", ("n1",))
    assert read_allocation({**environ, "SLURM_JOB_ID": "18"}).name == "17_0"
    with pytest.raises(BadInput, match="Slurm does not know it: it never was, or"):
        read_allocation({**environ, "SLURM_JOB_ID": "20"})


@pytest.mark.parametrize(
    ("reason", "when"),
    [
        ("Resources", "`squeue -j 17 --start` says when it may start"),
        ("Nodes_are_DOWN,_DRAINED", "`sinfo -R` names nodes that are down or drained, and why"),
        (
            "ReqNodeNotAvail,_UnavailableNodes:household1",
            "`sinfo -R` names nodes that are down or drained, and why",
        ),
        ("PartitionDown", f"it does not start as it is: {WAIT_FIXES['PartitionDown']} in the run config"),
        ("DependencyNeverSatisfied", "it never starts, for a job that it waits for has failed"),
        ("JobHeldAdmin", "an administrator holds it: ask for `scontrol release`"),
        *(
            (reason, "`scontrol release 17` lets it start; `sinfo -R` names nodes that failed")
            for reason in ("launch_failed_requeued_held", "JobHeldUser", "JobHoldMaxRequeue")
        ),
    ],
)
def test_a_job_that_waits_comes_with_when_it_starts(tmp_path: Path, reason: str, when: str) -> None:
    environ = slurm_commands(tmp_path, "17|17|PENDING|\n", f"JobState=PENDING Reason={reason} \n")
    with pytest.raises(BadInput, match=rf"it is PENDING \({reason}\)") as refusal:
        read_job("17", environ)
    assert refusal.value.fix == f"{when}; `gpulaunch stop 17` cancels it"


def test_an_array_is_not_one_job_and_its_tasks_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is an array of several tasks") as refusal:
        read_job("17", slurm_commands(tmp_path, "17|17_[3-4]|PENDING|\n" + ARRAY))
    assert refusal.value.fix == "name a task, such as 17_0; `scancel 17` ends all of them"
    task = read_job("17_1", slurm_commands(tmp_path, "19|17_1|RUNNING|n1\n"))
    assert (task.job, task.name) == ("19", "17_1")
    single = read_job("19", slurm_commands(tmp_path, "19|19|RUNNING|n1\n"))
    assert (single.job, single.name) == ("19", "19")
    assert [is_job_id(word) for word in ("17", "17_1", "17_", "a_1", "")] == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("state", "fix"),
    [
        ("SUSPENDED", "an operator's `scontrol resume 17` continues it, `scancel 17` ends it"),
        ("COMPLETING", "try again: `squeue -j 17` says when it has ended"),
        ("COMPLETED", "`squeue -u $USER` lists your jobs; where it was submitted, gpulaunch report 17"),
    ],
)
def test_a_job_that_only_halts_is_not_described_as_over(tmp_path: Path, state: str, fix: str) -> None:
    with pytest.raises(BadInput, match=f"it is {state}") as refusal:
        read_job("17", slurm_commands(tmp_path, f"17|17|{state}|n1\n"))
    assert refusal.value.fix.startswith(fix)
    with pytest.raises(BadInput, match="18 does not run: Slurm does not know it: it never was") as refusal:
        read_job("18", slurm_commands(tmp_path, ""))
    assert "if it has run, where it was submitted, gpulaunch report 18" in refusal.value.fix


def test_a_job_that_is_over_comes_with_what_reads_its_output(tmp_path: Path) -> None:
    environ = slurm_commands(tmp_path, "17|17|FAILED|n1\n", "   StdOut=/w/mein ü/17.out\n")
    with pytest.raises(BadInput, match="17 does not run: it is FAILED") as refusal:
        read_job("17", environ)
    assert refusal.value.fix == (
        "gpulaunch diagnose '/w/mein ü/17.out' reads its output;"
        " where it was submitted, gpulaunch report 17 shows its run, if it came to one"
    )


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("PENDING", "Slurm job 17 had not started; it is cancelled"),
        ("FAILED", "Slurm job 17 has ended: it is FAILED"),
        ("RUNNING", ""),
        ("STAGE_OUT", ""),  # what is not known to be over may live
    ],
)
def test_a_job_without_a_run_to_stop_is_cancelled_or_said_to_be_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, state: str, said: str
) -> None:
    monkeypatch.setenv("PATH", slurm_commands(tmp_path, f"17|17|{state}|\n")["PATH"])
    (tmp_path / "scancel").write_text(f'#!/bin/sh\necho "$*" > {tmp_path}/cancelled\n')
    (tmp_path / "scancel").chmod(0o755)
    assert end_without_run("17") == said
    assert (tmp_path / "cancelled").exists() == (state == "PENDING")


def test_who_follows_a_job_waits_until_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", slurm_commands(tmp_path, "")["PATH"])
    monkeypatch.setattr("launcher.slurm.jobs._ASK_EVERY_S", 0.01)
    states = "PENDING PENDING NO-ANSWER REQUEUED CONFIGURING RUNNING"
    (tmp_path / "squeue").write_text(
        f"#!/bin/sh\ncd {tmp_path}; echo >> asked\nset -- {states}\n"
        "shift $(($(wc -l < asked) - 1)); [ $1 != NO-ANSWER ] || { echo no controller >&2; exit 1; }\n"
        'echo "17|17|$1|n1"\n'
    )
    said: list[str] = []
    assert await_job("17", said.append).nodes == ("n1",)
    assert [words.partition(";")[0] for words in said] == [
        "Slurm job 17 waits: it is PENDING",
        "squeue: no controller",
        "Slurm job 17 waits: it is REQUEUED",
        "Slurm job 17 waits: it is CONFIGURING",
    ]


def test_a_heterogeneous_job_is_not_taken_for_an_array(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="job 17 is heterogeneous"):
        read_job("17", slurm_commands(tmp_path, "17|17+0|RUNNING|n1\n18|17+1|RUNNING|n2\n"))


def test_typed_hosts_are_nodes_of_the_job() -> None:
    inventory = Inventory(groups={"both": ("n1", "n3")})
    job = Allocation("17", ("n1", "n2", "n3"), {})
    for words in (("n3", "n1"), ("all!n2",), ("both",)):
        assert select_nodes(job, words, inventory) == ("n1", "n3")
    with pytest.raises(BadInput, match=r"n\[4-5\]: no node of Slurm job 17, which has n\[1-3\]"):
        select_nodes(job, ("n1", "n[4-5]"), inventory)


def test_a_configuration_that_is_not_there_is_not_waited_for() -> None:
    with pytest.raises(BadInput, match=r"SLURM_CONF is /nowhere/slurm\.conf: no such file"):
        open_local_commands({"SLURM_CONF": "/nowhere/slurm.conf"})


@pytest.mark.parametrize(
    ("wait_s", "warn", "words"),
    [
        (30.0, None, ""),
        (300.0, None, "before_stop waits up to 5m, and Slurm kills the job 30s after scancel"),
        (300.0, 120.0, "kills the job 2m before the time limit (write slurm: {warn: 5m}) and 30s after"),
    ],
)
def test_a_wait_that_slurm_cuts_short_is_told(wait_s: float, warn: float | None, words: str) -> None:
    said = describe_short_wait(SlurmSpec(warn=warn), BeforeStop(wait_s=wait_s))
    assert words in said if words else said == ""


def test_rm_takes_no_job_and_a_host_of_ssh_in_a_job_may_be_a_node_of_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    said = CliRunner().invoke(cli, ["rm", "17", "--yes"])
    assert isinstance(said.exception, BadInput)
    assert said.exception.fix == "gpulaunch ps 17 names its run"
    refused = ConnectionRefused("n1", "n1 port 22 refused the connection")
    assert "srun" not in _from_error(refused, frozenset()).fix
    monkeypatch.setenv("SLURM_JOB_ID", "17")
    assert _from_error(refused, frozenset()).fix.endswith(": --transport srun")
