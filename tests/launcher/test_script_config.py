"""`gpulaunch run train.py`: a script without a run config."""

import posixpath
from dataclasses import replace
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from launcher.cli import run_command_line
from launcher.commands import _preflight
from launcher.commands._launch_request import parse_run_request
from launcher.commands.run import command as run_command
from launcher.config.config_overrides import Overrides
from launcher.config.inventory import HostEntry
from launcher.config.run_config import RunConfig
from launcher.config.script_config import (
    build_config_for_command,
    build_config_for_script,
    choose_code_transfer,
)
from launcher.config.sync_options import SyncOptions
from launcher.engines.command_line.option_equivalents import find_own_option
from launcher.errors import BadInput
from launcher.host_checks.preflight import build_agent_request
from launcher.host_checks.preflight_options import PreflightOptions
from launcher.planning.script_file import (
    find_tree,
    read_script_after_sync,
    read_script_to_send,
    start_in_tree,
)
from launcher.sync.pre_launch import list_target_dirs, render_live_runs
from preflight.job import Job
from tests.launcher.test_gpu_wait import run_options
from tests.launcher.typed_keys import typed

HERE = HostEntry("localhost")
BOX = HostEntry("root@192.0.2.7:41022", in_inventory=False)
LISTED = HostEntry("titan", workdir="~/project")


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / "src").mkdir(parents=True)
    (folder / "alone.py").write_text("import torch\nprint(1)\n")
    (folder / "train.py").write_text("import torch\nfrom data import Toy\n")
    (folder / "data.py").write_text("from shapes import Toy\n")
    (folder / "shapes.py").write_text("Toy = 1\n")
    (folder / "src/deep.py").write_text("print(1)\n")
    (folder / "broken.py").write_text("def\n")
    (folder / "job.sh").write_text("torchrun alone.py\n")
    (folder / "job.sbatch").write_text("#!/bin/bash\n#SBATCH -N 2\nsrun torchrun alone.py\n")
    (folder / "go").write_text("#!/usr/bin/env bash\ntorchrun alone.py\n")
    (folder / "python.sh").write_text("#!/usr/bin/env python3\nprint(1)\n")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return folder


def prepared(
    *words: str, entries: tuple[HostEntry, ...] = (BOX,), sync: bool = False, sets: tuple[str, ...] = ()
) -> tuple[RunConfig, tuple[HostEntry, ...]]:
    overrides = Overrides(sync=sync, key_values=sets)
    config = choose_code_transfer(build_config_for_script(words, overrides), entries, overrides)
    return start_in_tree(config, entries)


def test_a_script_needs_no_config_and_the_words_after_it_are_its_own() -> None:
    config = build_config_for_script(
        ["alone.py", "--lr", "1e-4", "a b"], Overrides(hosts=("titan",), keys=typed(precision="fp16"))
    )
    assert (config.name, config.job.script, config.job.args) == ("alone", "alone.py", ("--lr", "1e-4", "a b"))
    assert (config.job.gpus, config.job.precision, config.hosts) == ("auto", "fp16", ("titan",))
    assert build_config_for_script(["src/deep.py"], Overrides(gpus="2")).job.gpus == 2
    assert build_config_for_script(["python.sh"], Overrides()).job.script == "python.sh"


@pytest.mark.parametrize(
    ("words", "message", "fix"),
    [
        ((), "nothing to run", "name a local script, such as train.py, or a run config: --config NAME"),
        (("", "x"), "nothing to run", "name a local script"),
        (("paper_r64", "x"), "paper_r64 is a run config, not a script", "gpulaunch run --config paper_r64"),
        (
            ("hosts.yaml",),
            "hosts.yaml lists hosts, expected a script",
            "gpulaunch run train.py -i hosts.yaml",
        ),
        (("mine.yaml",), "mine.yaml is a run config, not a script", "gpulaunch run --config mine.yaml"),
        (
            ("tran.py",),
            "tran.py: no such script locally",
            "did you mean train.py? Otherwise name a local file",
        ),
        (("far.py",), "far.py: no such script locally", "--set send_script=false"),
        (("a.**",), "a.**: no such script locally", "name a local file"),
        (("src",), "src is a directory, expected a script", "name a script in it"),
        (("job.sh",), "job.sh is a shell script, expected a Python script", "gpulaunch run -- bash job.sh"),
        (
            ("job.sbatch",),
            "job.sbatch is a batch script of Slurm, expected a Python script",
            "gpulaunch init job.sbatch makes a run config",
        ),
        (("go",), "go is a shell script, expected a Python script", 'gpulaunch run -- "$(cat go)" reads'),
    ],
)
def test_a_word_that_is_no_script_is_told_with_what_it_may_mean(
    words: tuple[str, ...], message: str, fix: str
) -> None:
    with pytest.raises(BadInput) as caught:
        build_config_for_script(words, Overrides())
    assert caught.value.message == message
    assert fix in caught.value.fix


def test_on_this_machine_the_script_runs_where_it_lies() -> None:
    config, _ = prepared("train.py", entries=(HERE,))
    assert (config.job.send_script, read_script_to_send(config)) == (False, None)


@pytest.mark.parametrize("script", ["alone.py", "src/deep.py", "broken.py"])
def test_a_script_without_modules_of_its_own_is_sent_alone(script: str) -> None:
    config, entries = prepared(script, entries=(BOX, HERE))
    sent = read_script_to_send(config)
    assert sent is not None
    assert (sent.name, sent.text) == (Path(script).name, Path(script).read_text())
    assert config.job.send_script
    assert entries == (BOX, HERE)


def test_a_script_that_imports_its_neighbours_is_not_sent_without_them() -> None:
    with pytest.raises(BadInput) as caught:
        prepared("train.py")
    assert (
        "train.py imports data.py, shapes.py, but only train.py itself would be sent" in caught.value.message
    )
    assert "--sync sends this directory (to ~/gpulaunch/project where" in caught.value.fix
    there, _ = prepared("train.py", sets=("send_script=false",))
    assert not there.job.send_script
    sent, _ = prepared("train.py", sets=("send_script=true",))
    assert sent.local_script == Path("train.py")


@pytest.mark.parametrize(
    ("words", "needed"),
    [
        (("torchrun", "alone.py", "--data", "data.py"), "data.py, and only alone.py"),
        (("torchrun", "-m", "src.deep"), "src, and nothing"),
        (("torchrun", "-m", "shapes", "python.sh"), "shapes.py, python.sh, and nothing"),
        (("bash", "python.sh", "/x"), "python.sh, and nothing"),
    ],
)
def test_a_command_whose_files_lie_beside_the_script_is_not_started_without_them(
    words: tuple[str, ...], needed: str
) -> None:
    far = Overrides(hosts=("root@192.0.2.7",))
    config = build_config_for_command(words, far)
    with pytest.raises(BadInput) as caught:
        choose_code_transfer(config, (BOX,), far)
    assert caught.value.message == f"the command needs {needed} would be sent to the hosts"
    assert "--sync sends this directory (to ~/gpulaunch/project where" in caught.value.fix
    assert choose_code_transfer(config, (HERE,), far) == config


def test_a_command_that_needs_nothing_of_this_directory_is_started() -> None:
    far = Overrides(hosts=("root@192.0.2.7",))
    for words in (("torchrun", "-m", "train_of_a_package"), ("torchrun", "alone.py", "--data", "/data.py")):
        config = choose_code_transfer(build_config_for_command(words, far), (BOX,), far)
        assert config.job.send_script == (words[1] == "alone.py"), words


def test_a_synced_tree_goes_to_the_workdir_of_a_host_or_to_a_directory_of_its_name() -> None:
    config, entries = prepared("train.py", entries=(BOX, LISTED, HERE), sync=True)
    assert config.sync is not None
    assert not config.job.send_script
    assert [entry.workdir for entry in entries] == ["~/gpulaunch/project", "~/project", ""]
    _, entries = prepared("train.py", sync=True, sets=("workdir=~/there",))
    assert entries == (BOX,)
    Path("mine").mkdir()
    Path("train.py").write_text("import mine, wandb\n")
    arriving = read_script_after_sync(config)
    assert arriving is not None
    assert arriving.text == Path("train.py").read_text()
    asked = build_agent_request(
        BOX, config.job, PreflightOptions(script_after_sync=arriving, tree=find_tree(config))
    )
    assert (asked.script, asked.modules) == ("train.py", ("wandb",))
    assert build_agent_request(BOX, config.job).modules is None


@pytest.mark.parametrize(
    ("to", "config", "places"),
    [
        ("~/run-2", "", ["~/run-2", "~/run-2"]),  # c's own has the files of an earlier launch
        ("~/old/../run-2/", "", ["~/run-2", "~/run-2"]),  # nothing makes ~/old
        ("~/c", "", ["~/c", "~/c/part"]),  # the ranks of c start in a part of the tree
        ("~/c/", "", ["~/c", "~/c/part"]),
        ("~/run-2", "workdir: ~/w", ["~/w", "~/w"]),
    ],
)
def test_ranks_start_where_their_tree_goes(
    to: str, config: str, places: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hosts.yaml").write_text("hosts: {a: {}, c: {workdir: ~/c/part}}")
    (tmp_path / "x.yaml").write_text(f"script: train.py\nhosts: [a, c]\n{config}\n")
    given = run_options(sync=False, sets=(f"sync.to={to}",))
    options = replace(given, inventory=tmp_path / "hosts.yaml", identity_file=None, wait=None)
    found = parse_run_request(str(tmp_path / "x.yaml"), (), options)
    assert [found.job.directory_in(entry.workdir) for entry in found.entries] == places
    assert found.config.sync is not None
    targets = list_target_dirs(found.config.sync, found.job, found.entries)
    assert set(map(posixpath.normpath, targets.values())) == {posixpath.normpath(to)}

    asked: list[str] = []

    def ask(
        entries: tuple[HostEntry, ...], job: Job, *_: object, options: PreflightOptions, **__: object
    ) -> None:
        asked.extend(job.directory_in(entry.workdir) for entry in entries)
        assert options.makes_workdir == (len({*places}) == 1 and not config)
        raise BadInput("seen", "")

    monkeypatch.setattr(_preflight, "preflight", ask)
    settings = f"script: train.py\nhosts: [a, c]\nsync: {{to: {to}}}\n{config}\n"
    (tmp_path / "x.yaml").write_text(settings)
    assert (
        run_command_line(["preflight", "-c", str(tmp_path / "x.yaml"), "-i", str(tmp_path / "hosts.yaml")])
        == 2
    )
    assert asked == places


def test_a_tree_that_nothing_gives_a_place_has_one_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "hosts.yaml").write_text("hosts: {a: {}, c: {workdir: ~/c}}")
    (tmp_path / "My Project").mkdir()
    monkeypatch.chdir(tmp_path / "My Project")
    Path("x.yaml").write_text("script: train.py\nhosts: [a, c]\nsync: true\n")
    Path("train.py").touch()
    given = replace(run_options(sync=False), inventory=tmp_path / "hosts.yaml", identity_file=None, wait=None)
    for config, extra, options in (
        ("./x.yaml", (), given),
        (None, ("train.py",), replace(given, sync=True, hosts=("a,c",))),
    ):
        found = parse_run_request(config, extra, options)
        assert found.config.sync is not None
        places = {"a": "~/gpulaunch/My Project", "c": "~/c"}
        assert {entry.name: found.job.directory_in(entry.workdir) for entry in found.entries} == places
        assert list_target_dirs(found.config.sync, found.job, found.entries) == places


def test_a_relative_tree_is_below_the_home_as_its_ranks_are() -> None:
    assert list_target_dirs(SyncOptions(to="run-2"), Job(), [HERE]) == {"localhost": "~/run-2"}
    job = Job(workdir="w/x")
    assert list_target_dirs(SyncOptions(), job, [HERE]) == {"localhost": job.directory_in("")}
    assert job.directory_in("") == "~/w/x"


@pytest.mark.parametrize(
    ("to", "workdir", "apart"),
    [
        ("", "", "--set 'workdir=~/w-2'"),
        ("", "~/w", "--set 'workdir=~/w-2'"),  # a tree elsewhere would leave the ranks in ~/w
        ("~/t", "", "--set 'sync.to=~/t-2'"),
        ("~/t", "~/t/part", "--set 'sync.to=~/t-2' --set 'workdir=~/t-2/part'"),
    ],
)
def test_what_keeps_launches_apart_gives_the_ranks_another_directory(
    to: str, workdir: str, apart: str
) -> None:
    (line,) = render_live_runs({"a": ("r1",)}, {"a": to or "~/w"}, SyncOptions(to=to), Job(workdir=workdir))
    assert line.endswith(f"get this tree. {apart} keeps launches apart")


def test_a_spare_gets_the_tree_in_the_directory_that_it_has_on_the_others(tmp_path: Path) -> None:
    (tmp_path / "hosts.yaml").write_text("hosts: {a: {}, b: {}, c: {workdir: ~/c}}")
    given = run_options(sync=True, hosts=("a",), sets=("restart.spares=[b, c, a]",))
    options = replace(given, inventory=tmp_path / "hosts.yaml", identity_file=None, wait=None)
    what = parse_run_request(None, ("train.py",), options)
    assert [(each.name, each.workdir) for each in (*what.entries, *what.spares)] == [
        ("a", "~/gpulaunch/project"),
        ("b", "~/gpulaunch/project"),
        ("c", "~/c"),
    ]


def test_a_sync_makes_the_working_directory_of_a_command_without_a_script_too() -> None:
    words = ["bash", "-c", "llamafactory-cli train x.yaml"]
    config = build_config_for_command(words, Overrides(sync=True, hosts=("root@192.0.2.7",)))
    assert read_script_after_sync(config) is None
    assert find_tree(config) is not None
    assert find_tree(build_config_for_command(words, Overrides(hosts=("root@192.0.2.7",)))) is None
    elsewhere = Overrides(sync=True, key_values=("sync={to: ~/x}",))
    assert find_tree(build_config_for_command(words, elsewhere)) is None


def test_a_script_outside_the_tree_cannot_come_with_it(project: Path) -> None:
    for script in ("../project/train.py", str(project / "train.py")):
        with pytest.raises(BadInput, match="is not in the current directory, which is the tree that --sync"):
            prepared(script, sync=True)


def test_sync_on_the_command_line_keeps_what_a_config_says_of_it() -> None:
    config = build_config_for_script(["train.py"], Overrides(sync=True, key_values=("sync={max_mib: 7}",)))
    assert config.sync is not None
    assert config.sync.max_mib == 7


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            "alone.py --epochs 2",
            "options of the script go last, after --: gpulaunch run alone.py -- --epochs 2\n",
        ),
        ("-c x --epochs 2", "go last, after --: gpulaunch run -c x -- --epochs 2\n"),
        ("--epochs 2", "go last, after --: gpulaunch run ... -- --epochs 2\n"),
        ("--epochs=2 alone.py", "go last, after --: gpulaunch run alone.py -- --epochs=2\n"),
        (
            "alone.py -lr 1",
            "has no option -lr; options of the script go last, after --: gpulaunch run alone.py -- -lr 1\n",
        ),
        (
            "alone.py --lr 1 --hosts titan --wd 0 --dry-run -- 3",
            "go last, after --: gpulaunch run alone.py --hosts titan --dry-run -- --lr 1 --wd 0 3\n",
        ),
        ("--lr 1 alone.py", "go last, after --: gpulaunch run alone.py -- --lr 1\n"),
        ("-np 2 alone.py", "has no option -np; ranks of each host: --gpus N"),
        ("alone.py --bf16", "of all ranks: --precision bf16, fp16 or fp8; options of the script go last"),
        ("alone.py --python /usr/bin/python3", "python: PATH in hosts.yaml; options of the script go last"),
        (
            "alone.py --processes 2",
            "run alone.py -- --processes 2; for the run config: --set processes_per_host=VALUE",
        ),
        ("alone.py --main-port=29501", "for the run config: --set main_port=29501"),
        ("alone.py --main-port 1", "for the run config: --set main_port=29500"),
        ("alone.py --mode fast", "go last, after --: gpulaunch run alone.py -- --mode fast\n"),
        (
            "alone.py --env A=1",
            "a variable of the ranks: --set env.NAME=VALUE; options of the script go last",
        ),
        ("-c x --hosts a b", "b after --hosts a would be an argument of the script"),
        (
            "alone.py --hosts a b",
            "b after --hosts a would be an argument of the script; --hosts a,b names both",
        ),
        (
            "alone.py root@192.0.2.7 --dry-run",
            "root@192.0.2.7 would be an argument of the script; a host: --hosts",
        ),
        ("alone.py 3 -- --lr 1", "an argument of the script goes last, after --: alone.py -- 3 --lr 1\n"),
        (
            "--dry-run /usr/bin/python3 alone.py --lr 1",
            "a command goes after --: gpulaunch run --dry-run -- /usr/bin/python3 alone.py --lr 1\n",
        ),
        (
            "--python /v/bin/python -- torchrun alone.py",
            "python: PATH in hosts.yaml; gpulaunch run --help lists its options\n",
        ),
        ("--nonsense 1 -- alone.py", "no option --nonsense; gpulaunch run --help lists its options\n"),
        ("-c x titan", "titan would be an argument of the script; a host: --hosts titan"),
        (
            "alone.py hosts=titan",
            "of the script; an option: --hosts titan; an argument of the script goes last",
        ),
        ("alone.py gpus: 2", "gpus: would be an argument of the script; an option: --gpus 2; an argument"),
        ("alone.py lr=2", "lr=2 would be an argument of the script; an argument of the script goes last"),
        ("alone.py --host titan", "has no option --host; did you mean --hosts?"),
        (
            "--num_processes 2 alone.py",
            "--num_processes is an option of another launcher; in gpulaunch: --gpus N",
        ),
        ("--nproc-per-node 2 alone.py", "in gpulaunch: --gpus N"),
        ("--include a:0,1 alone.py", "--include is an option of another launcher; in gpulaunch: --hosts A,B"),
        ("--nnodes=2 alone.py", "in gpulaunch: --hosts A,B names the hosts"),
        ("--mixed_precision=bf16 alone.py", "in gpulaunch: --precision"),
    ],
)
def test_an_option_of_the_script_or_of_another_launcher_is_told_where_it_belongs(
    words: str, message: str
) -> None:
    done = CliRunner().invoke(run_command, words.split(), prog_name="gpulaunch run")
    assert done.exit_code == 2
    assert message in done.output


@pytest.mark.parametrize("words", ["-c x alone.py", "alone.py --config x -- --lr 1"])
def test_a_script_beside_a_run_config_is_no_argument_of_the_configs_script(words: str) -> None:
    done = CliRunner().invoke(run_command, words.split(), prog_name="gpulaunch run")
    assert done.exit_code == 2
    assert "a script and a run config: alone.py and x; leave one out" in done.output


def test_no_option_of_ours_is_told_as_another_launchers() -> None:
    ours = {name for each in run_command.params for name in each.opts if isinstance(each, click.Option)}
    assert not any(map(find_own_option, ours))
