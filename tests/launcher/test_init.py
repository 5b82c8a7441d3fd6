"""`gpulaunch init`: environments found by asking interpreters, and files that the schema reads back."""

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from launcher.commands.init import command
from launcher.config.inventory import HostEntry
from launcher.config.inventory_reader import load_inventory
from launcher.config.run_config import load_run_config
from launcher.errors import BadInput, ConnectionRefused, HostsUnusable
from launcher.local.home import abbreviate_home
from launcher.onhost import find_interpreters
from launcher.onhost.find_interpreters import shows_gpus
from launcher.scaffold.first_files import name_hosts, render_hosts_yaml, render_run_config
from launcher.scaffold.interpreters import PythonEnvironment, choose_interpreter, parse_environments

CONDA = PythonEnvironment("/opt/conda/bin/python", "3.11.9", "2.5.1+cu124", "1.1.0", "4.46.0")
BARE = PythonEnvironment("/usr/bin/python3", "3.10.12")
HALF = PythonEnvironment("/root/venv/bin/python", "3.12.3", "2.6.0")
OTHER = PythonEnvironment("/root/x y/bin/python", "3.11.9", "2.5.1", "1.1.0")


@pytest.fixture(name="home")
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    return tmp_path


def test_interpreters_are_found_where_environments_lie_and_broken_ones_are_passed_over(home: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", "venvs/lab"], cwd=home, check=True)
    for place, text in (("venv", "#!/bin/sh\nexit 1\n"), ("env", "#!/bin/sh\necho '[1, 2]'\n")):
        path = home / place / "bin/python"
        path.parent.mkdir(parents=True)
        path.write_text(text)
        path.chmod(0o755)
    (home / ".conda").mkdir()
    (home / ".conda/environments.txt").write_text(f"{sys.prefix}\nnot a path\n")
    paths = list(find_interpreters.list_candidates())
    named = find_interpreters.list_candidates(["python3", "~/env/bin/python", "/gone/python"])
    assert [next(named), next(named)] == [str(home / "env/bin/python"), paths[0]]
    own = str(home / "venvs/lab/bin/python")
    assert {own, str(home / "venv/bin/python"), f"{sys.prefix}/bin/python"} <= set(paths)
    answer = find_interpreters.list_found(
        [str(home / "venv/bin/python"), str(home / "env/bin/python"), own, own + "3"]
    )
    version = ".".join(map(str, sys.version_info[:3]))
    assert answer == [{"path": own, "python": version, "torch": "", "accelerate": "", "transformers": ""}]


def test_the_environment_that_trains_is_taken() -> None:
    assert choose_interpreter([BARE, HALF, OTHER, CONDA]) is CONDA
    assert choose_interpreter([BARE, OTHER]) is OTHER
    assert choose_interpreter([BARE, HALF]) is HALF
    assert choose_interpreter([HALF, CONDA]) is CONDA
    assert choose_interpreter([BARE]) is None
    blind = replace(CONDA, torch="2.6.0+cpu", beside_gpus=True)
    assert choose_interpreter([blind, replace(HALF, beside_gpus=True)]) == replace(HALF, beside_gpus=True)
    assert choose_interpreter([blind]) is blind
    assert choose_interpreter([replace(blind, beside_gpus=False), HALF]) == replace(blind, beside_gpus=False)
    old = PythonEnvironment("/opt/conda/bin/python", "3.8.18", "2.4.1", "1.0.1", "4.46.3")
    assert choose_interpreter([old, HALF]) is HALF
    assert choose_interpreter([old]) is None


def test_what_is_written_is_read_back_as_it_was_meant(home: Path) -> None:
    entries = [
        HostEntry(word) for word in ("root@192.0.2.7:41022", "root@192.0.2.7:41023", "titan", "localhost")
    ]
    found = {"root@192.0.2.7:41022": (BARE, CONDA), "root@192.0.2.7:41023": (OTHER,), "titan": (BARE, HALF)}
    rows = name_hosts(entries, found)
    Path("hosts.yaml").write_text(render_hosts_yaml(rows))
    hosts = load_inventory(Path("hosts.yaml")).hosts
    assert [(each.name, each.address, each.port, each.user, each.python) for each in hosts.values()] == [
        ("192.0.2.7-41022", "192.0.2.7", 41022, "root", CONDA.path),
        ("192.0.2.7-41023", "192.0.2.7", 41023, "root", OTHER.path),
        ("titan", "", None, "", HALF.path),
        ("localhost", "", None, "", "python3"),
    ]
    assert f"python: {HALF.path}   # Python 3.12.3, torch 2.6.0" in render_hosts_yaml(rows)
    Path("train it.yaml").write_text(render_run_config("src/no.py", rows, "my project"))
    config = load_run_config("./train it.yaml")
    assert (config.job.script, config.job.workdir, config.hosts) == (
        "src/no.py",
        "~/gpulaunch/my project",
        ("192.0.2.7-41022", "192.0.2.7-41023", "titan", "localhost"),
    )
    assert config.sync is not None
    assert home.name not in render_run_config("a.py", rows, "p")
    listed = name_hosts([HostEntry("titan", workdir="~/project"), HostEntry("localhost")], found)
    assert "\nsync: true" in render_run_config("a.py", listed, "p")
    assert "workdir" not in render_run_config("a.py", listed, "p"), "that of hosts.yaml is meant"
    here = render_run_config("a.py", name_hosts([HostEntry("localhost")], {}), "p")
    assert "sync" not in here


def test_hosts_that_show_gpus_get_a_config_that_demands_them(home: Path) -> None:
    entries = [HostEntry("titan"), HostEntry("login")]
    for beside, gpus in ((True, "all"), (False, "auto")):
        rows = name_hosts(entries, {"titan": (replace(CONDA, beside_gpus=beside),), "login": (HALF,)})
        Path("hosts.yaml").write_text(render_hosts_yaml(rows))
        Path("t.yaml").write_text(render_run_config("t.py", rows, "p"))
        assert load_run_config("./t.yaml").job.gpus == gpus
    assert home


@pytest.mark.parametrize(
    ("files", "shown"),
    [
        ({"dev/nvidia0": ""}, True),
        ({"dev/nvidiactl": "", "dev/nvidia-uvm": ""}, False),  # the driver's own
        ({"proc/driver/nvidia/gpus/0000:65:00.0/information": ""}, True),
        ({"usr/lib/wsl/lib/libcuda.so.1": ""}, True),
        ({"sys/bus/pci/devices/0/vendor": "0x10de\n", "sys/bus/pci/devices/0/class": "0x030200\n"}, True),
        ({"sys/bus/pci/devices/0/vendor": "0x10de\n", "sys/bus/pci/devices/0/class": "0x040300\n"}, False),
        ({"sys/bus/pci/devices/0/vendor": "0x8086\n", "sys/bus/pci/devices/0/class": "0x030000\n"}, False),
        ({}, False),
    ],
)
def test_a_gpu_is_shown_by_its_files_whether_it_works_or_not(
    tmp_path: Path, files: dict[str, str], *, shown: bool
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert shows_gpus(str(tmp_path)) is shown
    row = {"path": "p", "python": "3", "torch": "2", "accelerate": "1", "transformers": "4"}
    (found,) = parse_environments({"found": [row], "gpus": shown}, "a")
    assert found.beside_gpus is shown


def test_the_key_that_reached_the_hosts_is_written_for_all_but_this_machine(home: Path) -> None:
    key = abbreviate_home(str(home / "keys/a b.pem"))
    assert key == "~/keys/a b.pem"
    assert (abbreviate_home("/mnt/key"), abbreviate_home("")) == ("/mnt/key", "")
    rows = name_hosts([HostEntry("ubuntu@192.0.2.9"), HostEntry("localhost")], {}, key)
    Path("hosts.yaml").write_text(render_hosts_yaml(rows))
    hosts = load_inventory(Path("hosts.yaml")).hosts
    assert [each.identity_file for each in hosts.values()] == [str(home / "keys/a b.pem"), ""]


def test_neighbours_that_are_alike_are_written_as_a_range_and_read_back_in_their_order(home: Path) -> None:
    names = [*(f"n{number:02}" for number in range(1, 41)), "titan", "z3", "z2", "z1", "z0"]
    entries = [HostEntry(f"ada@{name}", in_inventory=False) for name in names]
    rows = name_hosts(entries, dict.fromkeys([entry.name for entry in entries[:40]], (CONDA,)))
    text = render_hosts_yaml(rows)
    assert text.count("python: /opt/conda/bin/python") == 1
    Path("hosts.yaml").write_text(text)
    Path("gpulaunch").mkdir()
    Path("gpulaunch/t.yaml").write_text(render_run_config("train.py", rows[:40], "p"))
    Path("train.py").touch()
    hosts = load_inventory(Path("hosts.yaml")).hosts
    assert list(hosts) == names
    assert {hosts[name].python for name in names[:40]} == {CONDA.path}
    assert {hosts[name].user for name in names} == {"ada"}
    assert load_run_config("t").hosts == ("n[01-40]",)
    assert home


def test_init_writes_what_is_not_there_and_leaves_what_is(home: Path) -> None:
    Path("train.py").write_text("print(1)\n")
    (home / ".conda").mkdir()
    (home / ".conda/environments.txt").write_text(f"{sys.prefix}\n")  # the one with torch, wherever it lies
    first = CliRunner().invoke(command, ["train.py"])
    assert first.exit_code == 0, first.output
    assert "hosts.yaml: written\ngpulaunch/train.yaml: written\n" in first.output
    assert first.output.endswith("next: gpulaunch run --config train --dry-run\n")
    python = load_inventory(None).hosts["localhost"].python
    assert Path(python).parent == Path(sys.prefix) / "bin"
    assert load_run_config("train").hosts == ("localhost",)
    Path("hosts.yaml").write_text("hosts: {localhost: {python: /elsewhere/python}}\n")
    again = CliRunner().invoke(command, ["train.py"])
    assert "hosts.yaml: exists, and is left as it is; under hosts:\n  localhost:\n" in again.output
    assert "gpulaunch/train.yaml: exists, and is left as it is\n" in again.output
    assert again.output.endswith(
        "next: write the lines above into hosts.yaml\nthen: gpulaunch run --config train --dry-run\n"
    )
    assert home.joinpath("project/hosts.yaml").read_text().startswith("hosts: {localhost")
    Path("gpulaunch/train.yaml").write_text("script: train.py\nhosts: [titan]  # mine\ngpus: auto\n")
    others = CliRunner().invoke(command, ["train.py"])
    assert (
        "gpulaunch/train.yaml: exists, and is left as it is; this command would write:\nhosts: [localhost]\n"
        in others.output
    )


@pytest.mark.parametrize(
    ("bare", "said"),
    [
        (PythonEnvironment("/usr/bin/python3", "3.11.2"), "1 environment found, none with torch"),
        (
            PythonEnvironment("/opt/conda/bin/python", "3.8.18", "2.4.1"),
            "/opt/conda/bin/python (Python 3.8.18, torch 2.4.1) is too old: gpulaunch needs Python 3.9",
        ),
    ],
)
def test_without_an_environment_no_run_is_recommended(
    home: Path, monkeypatch: pytest.MonkeyPatch, bare: PythonEnvironment, said: str
) -> None:
    monkeypatch.setattr(
        "launcher.commands.init.list_interpreters", lambda entries, *_, **__: [(bare,) for _ in entries]
    )
    Path("train.py").write_text("import torch\n")
    result = CliRunner().invoke(command, ["train.py"])
    assert result.exit_code == 0, result.output
    assert f"localhost: {said}\n" in result.output
    assert "gpulaunch run" not in result.output
    assert result.output.endswith(
        "next: install torch on localhost, or set python: in hosts.yaml\n"
        "then: gpulaunch preflight --config train\n"
    )
    another = CliRunner().invoke(command, ["train.py", "--hosts", "ada@titan"])
    assert "exists, and is left as it is; under hosts:\n  titan:\n    user: ada\n" in another.output


@pytest.mark.parametrize(
    ("torch", "imported", "steps"),
    [
        ("", "jax", "gpulaunch run --config train --dry-run\n"),
        ("", "torch", "install torch on titan, or set python: in hosts.yaml\n"),
        ("2.6.0+cpu", "jax", "gpulaunch run --config train --dry-run\n"),
        (
            "2.6.0+cpu",
            "torch",
            "install a build of torch for CUDA, as preflight says, on titan, or set python: ",
        ),
        ("2.6.0+cu124", "torch", "gpulaunch run --config train --dry-run\n"),
    ],
)
def test_torch_is_to_be_installed_for_scripts_that_use_it(
    home: Path, monkeypatch: pytest.MonkeyPatch, torch: str, imported: str, steps: str
) -> None:
    bare = PythonEnvironment("/usr/bin/python3", "3.11.2", torch, beside_gpus=True)
    monkeypatch.setattr("launcher.commands.init.list_interpreters", lambda *_, **__: [(bare,)])
    Path("train.py").write_text("import layers\n")
    Path("layers.py").write_text(f"import {imported}\n")
    result = CliRunner().invoke(command, ["train.py", "--hosts", "titan"])
    assert result.output.partition("gpulaunch/train.yaml: written\nnext: ")[2].startswith(steps)


def test_a_key_that_hosts_yaml_names_is_not_typed_again(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bare = PythonEnvironment("/usr/bin/python3", "3.11.2")
    monkeypatch.setattr("launcher.commands.init.list_interpreters", lambda *_, **__: [(bare,)])
    (home / "box.pem").touch()
    words = ["--hosts", "ada@titan", "--identity-file", str(home / "box.pem")]
    first, again = (CliRunner().invoke(command, words) for _ in range(2))
    assert first.output.endswith("then: gpulaunch preflight titan\n")
    assert again.output.endswith("then: gpulaunch preflight --identity-file ~/box.pem titan\n")


def test_a_listed_host_without_an_environment_is_to_get_one_before_its_preflight(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = PythonEnvironment("/usr/bin/python3", "3.11.2")
    monkeypatch.setattr("launcher.commands.init.list_interpreters", lambda *_, **__: [(bare,)])
    made = CliRunner().invoke(command, ["-i", "new.yaml", "--hosts", "titan"])
    assert "new.yaml: written\n" in made.output
    Path("lab.yaml").write_text("hosts: {titan: {python: python3.14}}\n")
    result = CliRunner().invoke(command, ["-i", "lab.yaml", "--hosts", "titan"])
    assert result.output.endswith(
        "lab.yaml: exists, and is left as it is\n"
        "next: install torch on titan, or set python: in lab.yaml\n"
        "then: gpulaunch preflight -i lab.yaml titan\n"
    )


def test_all_hosts_that_do_not_answer_are_named_at_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def results(entries: list[HostEntry], *_: object, **__: object) -> list[object]:
        return [(CONDA,) if each.name == "n2" else ConnectionRefused(each.name, "no") for each in entries]

    monkeypatch.setattr("launcher.commands.init.list_interpreters", results)
    with pytest.raises(HostsUnusable) as caught:
        CliRunner().invoke(command, ["--hosts", "n[1-3]"], catch_exceptions=False)
    assert caught.value.message == "n[1,3]: no"
    assert not (home / "project/hosts.yaml").exists()


def test_init_as_a_document_says_what_it_found_and_wrote(home: Path) -> None:
    Path("train.py").write_text("print(1)\n")
    (home / ".conda").mkdir()
    (home / ".conda/environments.txt").write_text(f"{sys.prefix}\n")
    done = CliRunner().invoke(command, ["train.py", "--json"])
    document = json.loads(done.stdout)
    assert document["schema"] == "gpulaunch.init/1"
    (host,) = document["hosts"]
    assert host["name"] == "localhost"
    assert host["chosen"] in [each["path"] for each in host["environments"]]
    assert [(each["path"], each["written"]) for each in document["files"]] == [
        ("hosts.yaml", True),
        ("gpulaunch/train.yaml", True),
    ]
    assert document["next"] == ["gpulaunch run --config train --dry-run"]


def test_a_command_is_written_down_as_a_run_config(home: Path) -> None:
    Path("train.py").write_text("print(1)\n")
    words = ["--", "NCCL_DEBUG=INFO", "torchrun", "--nproc_per_node", "2", "train.py", "--name", "a b: #1"]
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 0, result.output
    assert re.search(r"gpulaunch run --config train --dry-run\n\Z|install torch", result.output)
    config = load_run_config("train")
    assert config.hosts == ("localhost",)
    assert (config.job.script, config.job.args) == ("train.py", ("--name", "a b: #1"))
    assert config.job.env == {"NCCL_DEBUG": "INFO"}
    assert config.command is not None
    assert config.command.request.per_node == 2
    Path("gpulaunch/train.yaml").unlink()
    assert CliRunner().invoke(command, ["--", "torchrun", "train.py", "--mode", "TRAIN_DIR"]).exit_code == 0
    assert load_run_config("train").job.args == ("--mode", "TRAIN_DIR")  # as it is typed
    longer_than_a_name = f"torchrun --nproc_per_node 2 none.py {'x' * 300}"
    for wrong in (["--", "torchrun", "--nproc_per_nod", "2", "none.py"], [longer_than_a_name]):
        assert isinstance(CliRunner().invoke(command, wrong).exception, BadInput)


@pytest.mark.parametrize("name", ["tran.py", "job.sbatch", "start.sh", "root@192.0.2.7:22", "titan"])
def test_a_file_that_does_not_exist_is_no_command(home: Path, name: str) -> None:
    with pytest.raises(BadInput, match="no such script locally") as refused:
        CliRunner().invoke(command, [name], catch_exceptions=False)
    assert refused.value.fix == "name a local file; a host goes after --hosts, a command after --"
    assert list(Path().iterdir()) == []
    beside = Path(name).with_stem(f"{Path(name).stem}s")
    beside.touch()
    with pytest.raises(BadInput, match="no such script locally") as refused:
        CliRunner().invoke(command, [name], catch_exceptions=False)
    assert refused.value.fix.startswith(f"did you mean {beside}? Otherwise name a local file; ")


def test_the_name_of_a_script_may_need_quotes(home: Path) -> None:
    Path("my tr\u00e4in.py").write_text("print(1)\n")
    done = CliRunner().invoke(command, ["my tr\u00e4in.py"])
    assert "--config 'my tr\u00e4in'" in done.output.splitlines()[-1]
    text = Path("gpulaunch/my tr\u00e4in.yaml").read_text()
    assert "# gpulaunch run --config 'my tr\u00e4in'." in text
    assert 'script: "my tr\u00e4in.py"' in text  # readable, not escaped
    assert load_run_config("my tr\u00e4in").job.script == "my tr\u00e4in.py"


def test_a_file_in_the_place_of_the_folder_is_named_before_anything_is_written(home: Path) -> None:
    Path("train.py").write_text("print(1)\n")
    Path("gpulaunch").write_text("#!/bin/sh\n")
    with pytest.raises(BadInput, match="gpulaunch is a file"):
        CliRunner().invoke(command, ["train.py"], catch_exceptions=False)
    assert not Path("hosts.yaml").exists()


def test_a_run_config_of_several_launches_says_which_one(home: Path) -> None:
    Path("train.py").write_text("print(1)\n")
    text = "for L in 1 2; do torchrun train.py --lr $L; done"
    assert CliRunner().invoke(command, ["--launch", "2", "--", text]).exit_code == 0
    assert load_run_config("train").job.args == ("--lr", "2")


@pytest.mark.parametrize("words", [["."], ["src"], ["--", "./src"], ["go.sh"]])
def test_what_python_does_not_run_gets_no_run_config(home: Path, words: list[str]) -> None:
    Path("src").mkdir()
    Path("go.sh").write_text("torchrun train.py\n")
    refused = "is a shell script" if words == ["go.sh"] else "is a directory, expected a script"
    with pytest.raises(BadInput, match=refused):
        CliRunner().invoke(command, words, catch_exceptions=False)
    assert not Path("gpulaunch").exists()
