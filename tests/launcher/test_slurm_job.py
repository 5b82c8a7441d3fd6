"""The batch script of a job, its options, and what Slurm's variables become. No Slurm is needed."""

import re
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from launcher.cli import run_command_line
from launcher.commands import _job_hosts
from launcher.commands._job_end import keep_first_start
from launcher.commands._job_hosts import ask_slurm, step_python
from launcher.config.config_overrides import Overrides
from launcher.config.inventory import HostEntry, find_local_python
from launcher.config.run_config import load_run_config
from launcher.config.slurm_options import SlurmSpec
from launcher.errors import BadInput, ConfigError, SlurmError
from launcher.slurm.commands import open_local_commands, run_slurm, step_environment
from launcher.slurm.jobs import Allocation, read_allocation
from launcher.slurm.requeue import read_began, read_resource_options
from launcher.slurm.submit import describe_job, list_output_dirs, read_job_id, render_batch_script, submit_job

FULL = """\
script: train.py
slurm:
  nodes: 2
  spare_nodes: 1
  gpus_per_node: 8
  time: 2-12:00:00
  partition: gpu,long
  account: proj42
  qos: high
  requeue: 3
  warn: 10m
  sbatch: {reservation: maint, exclude: "n[3-4]", comment: "two words", exclusive: true, contiguous: false}
"""


def test_a_batch_script_holds_all_that_is_asked_for_and_becomes_one_command(tmp_path: Path) -> None:
    path = tmp_path / "paper.yaml"
    path.write_text(FULL)
    spec = load_run_config(str(path)).slurm
    assert spec is not None
    run = ("/opt/py thon", "-m", "gpulaunch", "run", "-c", "paper", "--", "$x", "it's")
    assert render_batch_script("paper", spec, run, workdir="/home/ada/my project") == (
        "#!/bin/bash\n"
        "#SBATCH --job-name=paper\n"
        "#SBATCH --nodes=3\n"
        "#SBATCH --ntasks-per-node=1\n"
        "#SBATCH --gpus-per-node=8\n"
        "#SBATCH --time=2-12:00:00\n"
        "#SBATCH --partition=gpu,long\n"
        "#SBATCH --account=proj42\n"
        "#SBATCH --qos=high\n"
        "#SBATCH --requeue\n"
        "#SBATCH --no-kill\n"
        "#SBATCH --signal=B:USR1@600\n"
        "#SBATCH --open-mode=append\n"
        "#SBATCH --output=slurm-%j.out\n"
        '#SBATCH --chdir="/home/ada/my project"\n'
        "#SBATCH --reservation=maint\n"
        "#SBATCH --exclude=n[3-4]\n"
        '#SBATCH --comment="two words"\n'
        "#SBATCH --exclusive\n"
        "\n"
        "exec '/opt/py thon' -m gpulaunch run -c paper -- '$x' 'it'\"'\"'s'\n"
    )


@pytest.mark.parametrize(
    ("limit", "warn_s"),
    [
        ("", 300),
        ("12:00:00", 300),
        ("1-0", 300),
        ("60", 300),
        ("20", 120),
        ("5:00", 30),
        ("0:04:59", 0),
        ("1", 0),
        ("0-00:30", 180),
        ("0", 300),
        ("9" * 400, 300),
    ],
)
def test_the_warning_leaves_a_short_job_most_of_its_time(limit: str, warn_s: int) -> None:
    assert SlurmSpec(time=limit).warn_s == warn_s
    assert SlurmSpec(time=limit, warn=7.0).warn_s == 7


def test_a_warning_that_comes_with_the_start_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "paper.yaml"
    path.write_text('script: train.py\nslurm: {time: "00:05:00", warn: 5m}\n')
    with pytest.raises(ConfigError, match=r"slurm\.warn: expected less than the time limit \(5m\)"):
        load_run_config(str(path))
    assert load_run_config(str(path), Overrides(key_values=("slurm.warn=4m",))).slurm == SlurmSpec(
        time="00:05:00", warn=240.0
    )


def test_a_launch_outside_of_a_job_names_the_command_that_takes_nodes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("print(1)\n")
    Path("job.yaml").write_text("script: train.py\ngpus: none\nslurm: {nodes: 2}\n")
    hint = "this launch takes localhost; gpulaunch submit -c ./job.yaml takes nodes of Slurm\n"
    run_command_line(["run", "-c", "./job.yaml", "--dry-run"])
    assert hint in capsys.readouterr().err
    run_command_line(["run", "-c", "./job.yaml", "--dry-run", "--hosts", "localhost"])
    assert hint not in capsys.readouterr().err


def test_a_small_job_asks_for_no_more_than_it_says() -> None:
    text = render_batch_script("x", SlurmSpec(warn=0.0), ("true",), workdir="")
    assert [line.partition("=")[0] for line in text.splitlines()[1:-2]] == [
        "#SBATCH --job-name",
        "#SBATCH --nodes",
        "#SBATCH --ntasks-per-node",
        "#SBATCH --no-requeue",
        "#SBATCH --open-mode",
        "#SBATCH --output",
    ]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nodes: 0", "a whole number from 1"),
        ("time: soon", "such as 12:00:00"),
        ("time: UNLIMITED", "such as 12:00:00"),
        ("partition: a b", "a partition"),
        ('partition: "gpu\\n#SBATCH --uid=0"', "a partition"),
        ("sbatch: {time: 1:00}", "say it with `time` of slurm:"),
        ("sbatch: {Exclude: n3}", "an option of sbatch without its dashes"),
        ('sbatch: {comment: "a\\nb"}', "without line breaks, quotes and backslashes"),
        ("sbatch: {comment: 'say \"no\"'}", "without line breaks, quotes and backslashes"),
        ("sbatch: {ntasks-per-node: 8}", "a task per node"),
        ("sbatch: {tasks-per-node: 8}", "a task per node"),
        ("gpus: 8", "unknown key"),
    ],
)
def test_what_slurm_would_misread_is_a_mistake_with_its_line(tmp_path: Path, line: str, words: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(f"script: train.py\nslurm:\n  {line}\n")
    with pytest.raises(ConfigError) as caught:
        load_run_config(str(path))
    assert words in caught.value.message
    assert ":3:" in caught.value.message


@pytest.mark.parametrize(
    ("text", "job"), [("17\n", "17"), ("17;cluster\n", "17"), ("warning\n17\n", "17"), ("", ""), ("no", "")]
)
def test_the_job_id_is_read_from_what_sbatch_prints(text: str, job: str) -> None:
    assert read_job_id(text) == job


def test_srun_gets_no_variable_of_an_outer_step() -> None:
    kept = {"PATH": "/bin", "SLURM_JOB_ID": "7", "SLURM_CONF": "/c", "SLURM_ARRAY_TASK_ID": "3", "HOME": "/h"}
    dropped = (
        "SLURM_NNODES",
        "SLURM_CPU_BIND",
        "SLURM_MEM_PER_CPU",
        "SLURM_CPUS_PER_TASK",
        "SRUN_DEBUG",
        "SSH_CONNECTION",
    )
    assert step_environment({**kept, **dict.fromkeys(dropped, "1"), "PMI_RANK": "0"}) == kept


SHOWN = """JobId=17 JobName=job.sh
   Priority=1 Nice=0 Account=(null) QOS=N/A
   RunTime=00:01:02 TimeLimit=12:00:00 TimeMin=N/A
   Partition=main AllocNode:Sid=head:1
   ReqNodeList=(null) ExcNodeList=n1
   NumNodes=2-2 NumCPUs=8 NumTasks=2 CPUs/Task=1
   WorkDir=/home/ada/my project
   TresPerNode={gres}
"""


@pytest.mark.parametrize("gres", ["gres:gpu:2", "gres/gpu:2"])
def test_a_new_job_asks_for_what_the_old_one_had(gres: str) -> None:
    wanted = ["partition=main", "time=12:00:00", "gres=gpu:2", "chdir=/home/ada/my project"]
    assert read_resource_options(SHOWN.format(gres=gres)) == tuple(f"--{each}" for each in wanted)
    assert read_resource_options("") == ()


@pytest.mark.parametrize(
    ("listed", "chosen"),
    [
        (["/bad", ""], "ours"),
        (["", "/bad"], "ours"),
        (["/bad", "/good", "/good"], "/good"),
        (["/one", "/other"], "ours"),
        (["/one", "/one"], "/one"),
    ],
)
def test_a_wrong_interpreter_of_one_node_starts_no_task_of_the_others(listed: list[str], chosen: str) -> None:
    plain = HostEntry("n", in_inventory=False)
    nodes = [replace(plain, python=python, in_inventory=True) if python else plain for python in listed]
    assert step_python(nodes) == (find_local_python() if chosen == "ours" else chosen)


def test_the_first_start_of_a_job_is_kept_once(tmp_path: Path) -> None:
    keep_first_start(Allocation("17", ("n1",), {}, began=100.0), tmp_path / "logs")
    keep_first_start(Allocation("17", ("n1",), {}, began=200.0), tmp_path / "logs")
    assert read_began(tmp_path / "logs" / "slurm-17.json") == 100.0
    (tmp_path / "file").touch()
    keep_first_start(Allocation("17", ("n1",), {}), tmp_path / "file")


@pytest.mark.parametrize(
    ("words", "fix", "code"),
    [
        ("fatal: Could not establish a configuration source", "name the site's slurm.conf in SLURM_CONF", 5),
        ("error: Unable to contact slurm controller (connect failure)", "`scontrol ping`", 3),
        ("error: Munge decode failed: Invalid credential", "`munge -n | unmunge`", 5),
        ("something else", "", 5),
    ],
)
def test_a_command_that_fails_before_it_reaches_slurm_has_a_remedy(words: str, fix: str, code: int) -> None:
    with pytest.raises(SlurmError, match=r"^sh: ") as failed:
        run_slurm(open_local_commands(), ("sh", "-c", 'echo "sinfo: $0" >&2; exit 1', words))
    assert fix in failed.value.fix
    assert bool(fix) == bool(failed.value.fix)
    assert failed.value.exit_code == code


@pytest.mark.parametrize(("slow_s", "said"), [(0.0, ["Slurm has not answered yet"]), (600.0, [])])
def test_a_silent_controller_is_said_while_it_is_waited_for(
    slow_s: float, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    heard, lines = Event(), list[str]()

    def echo(line: str, *, err: bool) -> None:
        assert err
        lines.append(line.partition(",")[0])
        heard.set()

    monkeypatch.setattr(_job_hosts, "_SLOW_S", slow_s)
    monkeypatch.setattr(_job_hosts, "echo", echo)
    assert ask_slurm(lambda: heard.wait(60) if said else False) == bool(said)
    assert lines == said


@pytest.mark.parametrize(
    ("environ", "said"), [({}, "not set"), ({"SLURM_JOB_ID": "abc"}, '"abc", which is not the id of a job')]
)
def test_a_shell_that_belongs_to_no_job_is_described_as_it_is(environ: dict[str, str], said: str) -> None:
    with pytest.raises(BadInput, match=re.escape(f"this is not a job of Slurm: SLURM_JOB_ID is {said}")):
        read_allocation(environ)


def test_a_submitted_array_is_followed_by_its_tasks() -> None:
    spec = SlurmSpec(sbatch={"array": "3-5%2"})
    assert (
        describe_job("17", spec)
        == "job 17, an array; of a task: gpulaunch logs 17_3 -f; gpulaunch attach 17_3; gpulaunch stop 17_3"
    )
    assert (
        describe_job("17", SlurmSpec())
        == "job 17: gpulaunch logs 17 -f; gpulaunch attach 17; gpulaunch stop 17"
    )
    assert "#SBATCH --output=slurm-%A_%a.out\n" in render_batch_script("a", spec, ["true"], workdir="")


@pytest.mark.parametrize(
    ("sbatch", "directories"),
    [
        ({}, ()),
        ({"output": "%j.out"}, ()),
        ({"output": "logs/%j.out", "error": "logs/%j.err"}, ("logs",)),
        ({"output": "logs/%x/%j.out", "error": "/var/x/e"}, ("/var/x",)),
        ({"output": "logs/o", "chdir": "/scratch/me"}, ("/scratch/me/logs",)),
    ],
)
def test_the_directories_of_a_job_s_output_are_those_that_sbatch_means(
    sbatch: dict[str, str], directories: tuple[str, ...]
) -> None:
    assert list_output_dirs(SlurmSpec(sbatch=sbatch)) == directories


def test_the_directory_of_its_output_is_made_before_a_job_is_submitted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tool = tmp_path / "bin" / "sbatch"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\ntest -d 'my logs/a' && echo 17\n")
    tool.chmod(0o755)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path)
    connection = open_local_commands({"PATH": f"{tool.parent}:/usr/bin:/bin"})
    assert submit_job(connection, "#!/bin/sh\n", workdir="~/work", directories=("my logs/a",)) == "17"
    assert (tmp_path / "work/my logs/a").is_dir()
    tool.write_text("#!/bin/sh\necho 18\n")
    (tmp_path / "taken").touch()
    with pytest.raises(SlurmError, match="taken"):
        submit_job(connection, "", directories=("taken/logs",))
    assert submit_job(connection, "", directories=(str(tmp_path / "taken/of_the_nodes"), "b")) == "18"
    assert (tmp_path / "b").is_dir()
