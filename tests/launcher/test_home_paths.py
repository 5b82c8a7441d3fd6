"""A `~` that is nobody's home is told in one line, wherever it is written."""

import os
import pwd
from dataclasses import replace
from pathlib import Path

import click
import pytest

from launcher.cli import COMMANDS, cli, run_command_line
from launcher.commands._launch_request import parse_run_request
from launcher.config.inventory import HostEntry, Inventory
from launcher.errors import BadInput
from launcher.local.home import expand_home, find_home, shorten_path
from launcher.local.user import read_user_name
from launcher.transports.base import Endpoint
from launcher.transports.ssh.endpoint import build_endpoint
from launcher.transports.ssh.known_hosts import find_keys
from tests.launcher.test_gpu_wait import run_options

NOBODY = "~nosuchuser-at-all"
ABSENT = "the user 'nosuchuser-at-all' does not exist"


@pytest.mark.parametrize(
    ("words", "hosts_yaml", "said"),
    [
        (["run", "--config", f"{NOBODY}/a.yaml"], "", f"{NOBODY}/a.yaml: {ABSENT}"),
        (["preflight", "--config", f"{NOBODY}/a.yaml"], "", f"{NOBODY}/a.yaml: {ABSENT}"),
        (
            ["preflight", "a"],
            f"hosts:\n  a:\n    identity_file: {NOBODY}/key\n",
            f"hosts.yaml:3: hosts.a.identity_file: {NOBODY}/key: {ABSENT}",
        ),
        (
            ["preflight", "all"],
            f"defaults: {{identity_file: {NOBODY}/key}}\nhosts: {{a: }}\n",
            f"hosts.yaml:1: defaults.identity_file: {NOBODY}/key: {ABSENT}",
        ),
        (["run", "--dry-run", "--config", "sent"], "", f"{NOBODY}/train.py: {ABSENT}"),
        (["run", "--dry-run", "--config", "synced"], "", f"{NOBODY}/tree: {ABSENT}"),
    ],
)
def test_a_home_of_nobody_is_no_bug(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    hosts_yaml: str,
    said: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hosts.yaml").write_text(hosts_yaml)
    Path("gpulaunch").mkdir()
    Path("gpulaunch/sent.yaml").write_text(f"script: {NOBODY}/train.py\nsend_script: true\ngpus: none\n")
    Path("gpulaunch/synced.yaml").write_text(
        f"script: train.py\ngpus: none\nsync: {{from: {NOBODY}/tree}}\nworkdir: {tmp_path}/there\n"
    )
    assert run_command_line(words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    "line", [f"UserKnownHostsFile {NOBODY}/kh", f"Include {NOBODY}/config", f"IdentityAgent {NOBODY}/agent"]
)
def test_a_home_of_nobody_in_ssh_config_is_told(tmp_path: Path, line: str) -> None:
    (tmp_path / "config").write_text(line + "\n")
    with pytest.raises(BadInput, match=ABSENT):
        use(build_endpoint(HostEntry("a"), Inventory(), tmp_path / "config"))


def use(endpoint: Endpoint) -> None:
    expand_home(endpoint.identity_agent)
    find_keys(endpoint.known_hosts_files, "a", 22)


def test_who_has_no_home_is_told_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home(_: Path) -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "expanduser", no_home)
    with pytest.raises(BadInput, match="you have no local home directory") as caught:
        find_home()
    assert caught.value.fix == "set HOME"


@pytest.mark.parametrize(
    ("path", "short"),
    [
        ("HOME/proj/hosts.yaml", "hosts.yaml"),
        ("HOME/proj/sub/h.yaml", "sub/h.yaml"),
        ("HOME/keys/k.pem", "~/keys/k.pem"),
        ("HOME/proj/-k.pem", "./-k.pem"),
        ("HOME/project/k.pem", "~/project/k.pem"),
        ("/etc/k.pem", "/etc/k.pem"),
        ("../k.pem", "../k.pem"),
        ("", ""),
    ],
)
def test_a_path_is_shortened_to_what_this_directory_and_the_home_make_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: str, short: str
) -> None:
    (tmp_path / "proj").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path / "proj")
    assert shorten_path(path.replace("HOME", str(tmp_path))) == short


def test_an_empty_home_is_that_of_the_password_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "")
    theirs = Path(pwd.getpwuid(os.getuid()).pw_dir)
    assert (find_home(), expand_home("~/x/y")) == (theirs, theirs / "x" / "y")


@pytest.mark.parametrize("name", COMMANDS)
def test_an_option_with_a_path_takes_a_home_that_no_shell_has_replaced(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    for option in command.params:
        if isinstance(option, click.Option) and isinstance(option.type, click.Path):
            there = "file" if option.type.file_okay else "folder"
            assert option.type.convert(f"~/{there}", option, None) == tmp_path / there, option.opts


@pytest.mark.parametrize("user", ["somebody-else", read_user_name(), ""])
def test_a_home_that_a_shell_has_put_in_place_of_the_hosts_own_is_named(
    user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "hosts.yaml").write_text(f"hosts: {{a: {{{user and f'user: {user}'}}}}}")
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()
    sets = (f"workdir={find_home()}/small model", "output=/mnt/out")
    given = run_options(sync=True, hosts=("a",), sets=sets)
    options = replace(given, inventory=tmp_path / "hosts.yaml", identity_file=None, wait=None)
    parse_run_request(None, ("train.py",), options)
    said = f"workdir: {find_home()}/small model lies in the local home, which {user} may not have;"
    expected = f"{said} theirs: --set 'workdir=~/small model'\n" if user == "somebody-else" else ""
    assert capsys.readouterr().err == expected


def test_a_home_of_another_user_by_ssh_config_or_of_a_mac_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    home = tmp_path / "home"
    (home / ".ssh").mkdir(parents=True)
    (home / ".ssh/config").write_text("Host box\n  User ubuntu\n")
    monkeypatch.setenv("HOME", str(home))
    (tmp_path / "hosts.yaml").write_text("hosts: {box: {}, other: {}}")
    monkeypatch.chdir(tmp_path)
    Path("train.py").touch()

    def said(host: str, local_home: str) -> str:
        monkeypatch.setenv("HOME", local_home)
        given = run_options(sync=True, hosts=(host,), sets=(f"workdir={local_home}/x",))
        options = replace(given, inventory=tmp_path / "hosts.yaml", identity_file=None, wait=None)
        parse_run_request(None, ("train.py",), options)
        return capsys.readouterr().err

    assert "which ubuntu may not have; theirs: --set 'workdir=~/x'" in said("box", str(home))
    assert said("other", str(home)) == ""
    assert "which other may not have; theirs: --set 'workdir=~/x'" in said("other", "/Users/ana")
