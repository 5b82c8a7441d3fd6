"""A command in the directory that it enters, with the files and modules that it needs."""

from dataclasses import replace
from pathlib import Path

import pytest

from launcher.config.command_config import read_command
from launcher.config.config_overrides import Overrides
from launcher.config.inventory import HostEntry
from launcher.config.run_config import load_run_config
from launcher.config.script_config import build_config_for_command
from launcher.errors import BadInput, CommandRefused
from launcher.host_checks.preflight import build_agent_request
from launcher.restart.checkpoints import checkpoint_dir
from preflight.checks.deepspeed import deepspeed_batch_sizes_fit
from preflight.decide.gpu_assignment import map_ranks
from preflight.job import DeepSpeedConfig, Job
from tests.hardware import l40s, titan
from tests.launcher.command_plans import plan, planned, read


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("DS_ENV_FILE", raising=False)
    return tmp_path


def test_modules_of_the_directory_are_found_on_every_host(home: Path) -> None:
    made = plan(f"PYTHONPATH={home}/src:/lib:{home} torchrun scripts/train.py", titan(1), l40s(1))
    assert [node.env["PYTHONPATH"] for node in made.nodes] == ["src:/lib:."] * 2
    assert made.nodes[0].argv[-1] == "scripts/train.py"
    assert plan("deepspeed scripts/train.py", titan(1), l40s(1)).nodes[0].env["PYTHONPATH"] == "."
    assert "PYTHONPATH" not in plan("deepspeed scripts/train.py", titan(1)).nodes[0].env


def test_a_command_runs_in_the_directory_that_it_enters(home: Path) -> None:
    folder = home / "proj" / "sub"
    folder.mkdir(parents=True)
    (folder / "train.py").write_text("import torch\n")
    (folder / "ds.json").write_text("{}")
    (folder / "one.yaml").write_text("mixed_precision: bf16\n")
    line = "cd proj && export PYTHONPATH=$PWD && cd sub && accelerate launch --config_file one.yaml train.py"
    config = build_config_for_command([f"{line} --deepspeed ds.json"], Overrides(hosts=("titan",)))
    job = config.job
    assert (job.subdirectory, job.script, job.script_in_tree) == ("proj/sub", "train.py", "proj/sub/train.py")
    assert job.deepspeed is not None
    assert job.precision == "bf16"
    assert job.env["PYTHONPATH"] == ".."
    (node,) = planned(config, titan(1)).nodes
    assert node.cwd == "~/proj/sub"
    assert node.argv[-3:] == ("train.py", "--deepspeed", "ds.json")
    entry = HostEntry("titan", workdir="/w")
    assert build_agent_request(entry, job).paths["workdir"] == "/w/proj/sub"
    assert checkpoint_dir(entry, job) == "/w/proj/sub"


def test_what_a_page_leaves_open_is_a_value_once_a_file_has_that_name(home: Path) -> None:
    line = (
        "export HF_HOME=path/to/cache; cd proj && torchrun t.py --config your_config.yaml --data /path/to/x"
    )
    assert [one.message for one in read_command([line]).unknown] == [
        "the variable HF_HOME has path/to/cache, which has no value",
        "the line has your_config.yaml, /path/to/x, which have no value",
    ]
    (home / "proj" / "path" / "to" / "cache").mkdir(parents=True)
    (home / "proj" / "your_config.yaml").write_text("")
    assert [one.parts for one in read_command([line]).unknown] == [("your_config.yaml", "/path/to/x")]
    assert not read_command([line.replace("/path/to/x", "path/to")]).unknown


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ('D="your data path (json file)"\ntorchrun a.py --data $D', "your data path (json file)"),
        ("torchrun a.py --data /DATA_PATH/ --lr 1", "/DATA_PATH/"),
    ],
)
def test_values_in_the_words_of_a_page_are_open(home: Path, text: str, part: str) -> None:
    asked = [one.message for one in read_command([text]).unknown]
    assert asked == [f"the line has {part}, which has no value"]
    assert not (home / part).exists()


def test_a_prompt_that_speaks_of_your_task_is_a_value(home: Path) -> None:
    assert home.exists()
    assert not read_command(['torchrun a.py --prompt "Your task is to add"']).unknown


def test_a_deepspeed_config_in_the_script_is_read(home: Path) -> None:
    text = "import deepspeed\ndeepspeed.initialize(config={'train_batch_size': 7})\n"
    (home / "train.py").write_text(text)
    job = build_config_for_command(["deepspeed", "--num_gpus", "2", "train.py"], Overrides()).job
    ranks = {"titan": map_ranks(titan(2), replace(job, gpus="all"))}
    (problem,) = deepspeed_batch_sizes_fit(job, ranks, None)
    assert "the DeepSpeed config of train.py:2" in problem.subject
    assert "7" in problem.message
    (home / "train.py").write_text(text.replace("{'train_batch_size': 7}", "'ds.json'"))
    (home / "ds.json").write_text('{"train_batch_size": 8}')
    job = build_config_for_command(["deepspeed", "--num_gpus", "2", "train.py"], Overrides()).job
    assert job.deepspeed == DeepSpeedConfig("ds.json", '{"train_batch_size": 8}')


def test_a_directory_that_is_entered_must_be_here_and_may_be_this_one(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(BadInput, match="cd none: no such local directory"):
        build_config_for_command(["cd none && torchrun train.py"], Overrides())
    (home / "clone").mkdir()
    (home / "clone" / "train.py").touch()
    monkeypatch.chdir(home / "clone")
    config = build_config_for_command(["cd clone && torchrun train.py"], Overrides())
    assert (config.job.subdirectory, config.job.script) == ("", "train.py")
    assert config.command is not None
    assert "cd clone: this is the directory" in config.command.dropped


@pytest.mark.parametrize("module", ["horovod.torch as hvd", "mpi4py"])
def test_a_script_whose_ranks_meet_otherwise_is_refused(home: Path, module: str) -> None:
    (home / "train.py").write_text(f"import torch\nimport {module}\n")
    with pytest.raises(CommandRefused, match=r"train.py:2 imports .*ranks meet through"):
        read("mpirun -np 4 python train.py")


def test_a_run_config_holds_the_command(home: Path) -> None:
    (home / "a.yaml").write_text(
        "command: A=1 torchrun --nproc_per_node 2 train.py --lr '1 2'\n"
        "env: {B: 2}\nprecision: fp16\nargs: [--x]\n"
    )
    config = load_run_config("./a.yaml", Overrides(extra_args=("--y",)))
    job = config.job
    assert (job.script, job.args) == ("train.py", ("--lr", "1 2", "--x", "--y"))
    assert (job.env, job.precision, job.name) == ({"A": "1", "B": "2"}, "fp16", "a")
    (home / "b.yaml").write_text("command: [torchrun, train.py]\nscript: other.py\n")
    with pytest.raises(BadInput, match="the command says it; keep one of them"):
        load_run_config("./b.yaml")


def test_a_host_is_asked_what_the_launch_will_find_on_it() -> None:
    entry = HostEntry("titan", env={"LD_LIBRARY_PATH": "/a", "PYTHONPATH": "/p"})
    assert build_agent_request(HostEntry("titan"), Job()).env == {}
    assert build_agent_request(entry, Job()).env["LD_LIBRARY_PATH"] == "/a"
    own = {"LD_LIBRARY_PATH": "", "TMPDIR": "/scratch", "API_KEY": "no business of a probe"}
    asked = build_agent_request(entry, Job(gpus="none", env=own))
    assert asked.env == {"LD_LIBRARY_PATH": "", "PYTHONPATH": "/p", "TMPDIR": "/scratch"}
    assert set(asked.skip) == {"cuda", "gpus", "driver"}  # ranks on the CPU wait for no driver that hangs
