"""`sync:` of a run config: what it may say, where the tree goes, what a person is told."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from launcher.cli import cli
from launcher.commands._launch_sync import sync_tree
from launcher.config.config_overrides import Overrides
from launcher.config.inventory import HostEntry
from launcher.config.run_config import RunConfig, load_run_config
from launcher.config.sync_options import SyncOptions
from launcher.errors import ConfigError, HostError, HostsUnusable, LaunchRefused, SyncFailed
from launcher.launch.request import LaunchRequest
from launcher.remote.connection_pool import ConnectionPool
from launcher.sync.host import SyncResult
from launcher.sync.pre_launch import SyncHosts, list_target_dirs, render_sync, sync_before_launch
from launcher.sync.sync import HostSync
from launcher.terminal.live_screen import choose_screen
from launcher.transports.base import Connection
from preflight.job import Job
from tests.launcher.sync_tree import ENTRY, git, listing, opener, write


def load(tmp_path: Path, text: str, *sets: str) -> RunConfig:
    (tmp_path / "c.yaml").write_text(f"script: train.py\n{text}\n")
    return load_run_config(str(tmp_path / "c.yaml"), Overrides(key_values=sets))


@pytest.mark.parametrize(
    ("text", "spec"),
    [
        ("", None),
        ("sync: false", None),
        ("sync: true", SyncOptions()),
        ("sync: {}", SyncOptions()),
        (
            "sync: {from: src, to: ~/p, exclude: ['*.a'], delete: true, max_mib: 9}",
            SyncOptions("src", "~/p", ("*.a",), delete=True, max_mib=9),
        ),
        ("sync: {exclude: data/}", SyncOptions(exclude=("data/",))),
    ],
)
def test_sync_is_a_flag_or_a_mapping(tmp_path: Path, text: str, spec: SyncOptions | None) -> None:
    assert load(tmp_path, text).sync == spec


def test_the_command_line_can_ask_for_a_sync(tmp_path: Path) -> None:
    assert load(tmp_path, "", "sync=true").sync == SyncOptions()
    assert load(tmp_path, "sync: {max_mib: 9}", "sync.delete=true").sync == SyncOptions(
        max_mib=9, delete=True
    )
    assert load(tmp_path, "sync: true", "sync=false").sync is None
    assert load(tmp_path, "sync: Yes", "sync.include=data/").sync == SyncOptions(include=("data/",))
    with pytest.raises(ConfigError, match="no keys of its own"):
        load(tmp_path, "sync: false", "sync.include=data/")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sync: maybe", "true or false, or a mapping"),
        ("sync: [a]", "true or false, or a mapping"),
        ("sync:", "true or false, or a mapping"),
        ("sync: {form: x}", 'did you mean "from"'),
        ("sync: {max_mib: 0}", "a whole number from 1"),
        ("sync: true\nsend_script: true", "sync sends the script with its tree already"),
    ],
)
def test_mistakes_in_sync_are_told(tmp_path: Path, text: str, said: str) -> None:
    write(tmp_path, {"train.py": ""})
    with pytest.raises(ConfigError) as failure:
        load(tmp_path, text)
    assert said.lower() in failure.value.message.lower()


def test_the_tree_goes_to_the_jobs_directory_unless_told_otherwise() -> None:
    entry = replace(ENTRY, workdir="~/theirs")
    assert list_target_dirs(SyncOptions(), Job(), [entry]) == {"titan": "~/theirs"}
    assert list_target_dirs(SyncOptions(), Job(workdir="~/job"), [entry]) == {"titan": "~/job"}
    assert list_target_dirs(SyncOptions(to="~/to"), Job(workdir="~/job"), [entry]) == {"titan": "~/to"}
    for shared in ("/", "//", "~/", "/tmp/.."):
        with pytest.raises(ConfigError, match="holds more than a working tree"):
            list_target_dirs(SyncOptions(to=shared), Job(workdir="~/job"), [entry])


def before(tmp_path: Path, spec: SyncOptions, script: str = "train.py") -> tuple[str, list[str]]:
    said: list[str] = []
    job = Job(script=script, workdir=str(tmp_path / "there"))
    text = sync_before_launch(spec, job, SyncHosts((ENTRY,), opener, 4), said.append, logs=tmp_path / "runs")
    return text, said


def test_what_ran_is_told_and_recorded(tmp_path: Path) -> None:
    here = tmp_path / "here"
    write(here, {"train.py": "1\n"})
    git(here, "init", "-q", "-b", "main")
    git(here, "add", ".")
    git(here, "commit", "-qm", "one")
    write(here, {"train.py": "api_key='x'\n"})
    text, said = before(tmp_path, SyncOptions(source=str(here)))
    source = json.loads(text)
    assert source["schema"] == "gpulaunch.source/1"
    assert (source["branch"], source["dirty"], source["files"], source["bytes"]) == ("main", True, 1, 12)
    assert "-1\n+api_key=***\n" in source["diff"]
    assert source["hosts"]["titan"]["directory"] == str(tmp_path / "there")
    assert source["hosts"]["titan"]["sent_files"] == 1
    assert said[0] == f"sync: {here}: 1 file, 12 B, commit {source['commit'][:12]} with edits"
    assert said[1].startswith(f"sync: titan:{tmp_path}/there 1 file sent, 12 B (")
    again, said = before(tmp_path, SyncOptions(source=str(here)))
    assert "up to date" in said[1]
    assert json.loads(again)["content_sha256"] == source["content_sha256"]


def test_where_some_hosts_fail_the_others_are_named(tmp_path: Path) -> None:
    write(tmp_path / "here", {"train.py": ""})

    def silent(entry: HostEntry) -> Connection:
        if entry.name != ENTRY.name:
            raise HostError(entry.name, "no answer", "is it up?")
        return opener(entry)

    entries = (ENTRY, *(replace(ENTRY, name=name) for name in ("s-1", "s-2")))
    spec, job = SyncOptions(source=str(tmp_path / "here")), Job(script="train.py", workdir=str(tmp_path))
    with pytest.raises(HostsUnusable) as failure:
        sync_before_launch(spec, job, SyncHosts(entries, silent, 4), print, logs=tmp_path / "runs")
    assert failure.value.message == "s-[1-2]: no answer"
    assert failure.value.fix == "is it up?\nwithout s-[1-2]: --hosts titan"
    (tmp_path / "file").write_text("")
    entries = (
        replace(ENTRY, workdir=str(tmp_path / "w")),
        replace(ENTRY, name="b", workdir=f"{tmp_path}/file/d"),
    )
    with pytest.raises(SyncFailed) as refused:
        sync_before_launch(
            spec, Job(script="train.py"), SyncHosts(entries, opener, 4), print, logs=tmp_path / "runs"
        )
    assert refused.value.fix.endswith("without b: --hosts titan")


def test_a_tree_without_the_script_is_not_sent(tmp_path: Path) -> None:
    write(tmp_path / "here", {"other.py": ""})
    with pytest.raises(ConfigError, match=r"train\.py is not among the files") as failure:
        before(tmp_path, SyncOptions(source=str(tmp_path / "here")))
    assert "sync.from" in failure.value.fix
    assert not (tmp_path / "there").exists()


@pytest.mark.parametrize("script", ["./other.py", "/opt/train.py", "~/train.py", "../train.py"])
def test_a_script_that_lies_elsewhere_there_is_no_matter_of_the_tree(tmp_path: Path, script: str) -> None:
    write(tmp_path / "here", {"other.py": ""})
    before(tmp_path, SyncOptions(source=str(tmp_path / "here")), script)
    assert (tmp_path / "there/other.py").exists()


def test_a_directory_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such directory"):
        before(tmp_path, SyncOptions(source=str(tmp_path / "nowhere")))


def test_what_was_kept_edited_or_stale_is_told_by_name() -> None:
    done = SyncResult(
        written=2,
        kept=("a.py",),
        kept_in="/p/.gpulaunch-sync/replaced/1",
        deleted=("old.py",),
        stale=("s1", "s2", "s3", "s4"),
        edited=("e\x1b[31m.py",),
        former="ana@x:/b",
    )
    found = {
        "titan": HostSync("/p", sent=3 << 20, seconds=1.5, done=done),
        "n2": HostSync("/p", seconds=0.5),
        "n1": HostSync("/p", seconds=2.5),
        "n3": HostSync("/p", seconds=0.1, done=SyncResult(former=done.former)),
        "l40s": HostSync("/q", same_as="titan"),
        "localhost": HostSync("/r", same_as="local"),
    }
    mixed = "the directory had the tree of ana@x:/b: its other files and its outputs are still in it"
    assert list(render_sync(found, "--set x=y")) == [
        "sync: titan:/p 2 files sent, 3.0 MiB, 1 file deleted (1.5 s)",
        "sync: n[1-3]:/p up to date (2.5 s)",
        "sync: l40s:/q is the same directory as on titan; nothing to send",
        "sync: localhost:/r is the tree itself; nothing to send",
        f"sync: on n3,titan {mixed}. --set x=y keeps projects apart",
        "sync: titan had its own a.py: kept in /p/.gpulaunch-sync/replaced/1",
        "sync: titan has edits in e.py, which the tree no longer has: left as is",
        "sync: titan still has s1, s2, s3 and 1 more of a former sync; sync.delete removes such",
    ]


@pytest.mark.parametrize("source", ["src", "../elsewhere"])
def test_a_dry_run_says_which_directory_a_launch_sends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], source: str
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    config = load(here, f"sync: {{from: {source}}}")
    launch = LaunchRequest((ENTRY,), config.job, ConnectionPool(opener))
    screen = choose_screen(sys.stdout, plain=True, all_ranks=False)
    with pytest.raises(ConfigError, match="no such directory"):
        sync_tree(config, launch, screen, dry_run=True)
    (here / source).mkdir()
    sync_tree(config, launch, screen, dry_run=True)
    assert f"sync: a launch sends {(here / source).resolve()}\n" in capsys.readouterr().out


@contextmanager
def live_run(directory: Path, run_id: str) -> Iterator[None]:
    """Have a process of a run work in a directory."""
    process = subprocess.Popen(
        [sys.executable, "-c", "input()"],
        cwd=directory,
        env={**os.environ, "GPULAUNCH_RUN_ID": run_id},
        stdin=subprocess.PIPE,
    )
    try:
        yield
    finally:
        process.communicate(b"\n")


def test_a_refused_launch_puts_nothing_in_place_under_a_live_run(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    write(here, {"train.py": "1\n", "src/model.py": "1\n"})
    spec, job, said = SyncOptions(source=str(here)), Job(script="train.py", workdir=str(there)), list[str]()

    def send(approve: Callable[[], object]) -> None:
        said.clear()
        hosts = SyncHosts((ENTRY,), opener, 4)
        sync_before_launch(spec, job, hosts, said.append, logs=tmp_path / "runs", approve=approve)

    def refuse() -> None:
        raise LaunchRefused("the preflight says no")

    send(refuse)  # nobody works in it yet
    with live_run(there / "src", "ft-20261122-104500-0a1b2c"):
        send(refuse)  # nothing changes under the run
        write(here, {"train.py": "edited\n"})
        with pytest.raises(LaunchRefused):
            send(refuse)
        assert listing(there)["train.py"] == "1\n"
        (line,) = (line for line in said if "works in" in line)
        assert line.startswith(f"sync: ft-20261122-104500-0a1b2c on titan works in {there}: ")
        send(lambda: None)
        assert listing(there)["train.py"] == "edited\n"
    write(here, {"train.py": "later\n"})
    send(refuse)
    assert listing(there)["train.py"] == "later\n"


@pytest.mark.parametrize("given", ["data", "./data/", "data/a.bin"])
def test_what_a_link_that_is_sent_leads_to_is_named_where_the_host_lacks_it(
    tmp_path: Path, given: str
) -> None:
    here, there, said = tmp_path / "here", tmp_path / "far/there", list[str]()
    write(here, {"train.py": "1\n", "../pool/a.bin": "1\n"})
    (here / "data").symlink_to("../pool")
    job = Job(script="train.py", workdir=str(there), args=("--data_dir", given))
    for _ in range(2):
        hosts, spec = SyncHosts((ENTRY,), opener, 4), SyncOptions(source=str(here))
        sync_before_launch(spec, job, hosts, said.append, logs=tmp_path / "runs")
        write(tmp_path / "far/pool", {"a.bin": "1\n"})
    (line,) = (each for each in said if "To send" in each)
    name = "../pool" if given != "data/a.bin" else "../pool/a.bin"
    assert line.startswith(f"sync: {name} exists locally and not on titan: data is a link to ../pool.")
    assert line.endswith(f"{tmp_path}/far/pool/")


def test_a_run_is_live_on_each_host_of_a_directory_where_a_sync_would_delete_a_file(tmp_path: Path) -> None:
    here, there, said = tmp_path / "here", tmp_path / "there", list[str]()
    write(here, {"train.py": "1\n", "model.py": "1\n"})
    hosts = SyncHosts((ENTRY, replace(ENTRY, name="l40s")), opener, 4)
    spec, job = SyncOptions(source=str(here), delete=True), Job(script="train.py", workdir=str(there))

    def send(approve: Callable[[], object]) -> None:
        said.clear()
        sync_before_launch(spec, job, hosts, said.append, logs=tmp_path / "runs", approve=approve)

    def refuse() -> None:
        raise LaunchRefused("the preflight says no")

    send(refuse)
    (here / "model.py").unlink()
    with live_run(there, "ft-20261122-104500-0a1b2c"):
        with pytest.raises(LaunchRefused):
            send(refuse)
        assert sorted(listing(there)) == ["model.py", "train.py"]
        named = [line.partition(" works in ")[0] for line in said if " works in " in line]
        assert named == [f"sync: ft-20261122-104500-0a1b2c on {host}" for host in ("titan", "l40s")]
    send(refuse)
    assert sorted(listing(there)) == ["train.py"]


@pytest.mark.parametrize(
    "words", [("run",), ("run", "--wait", "1m"), ("run", "--clean"), ("rehearse", "--wait", "1m")]
)
def test_the_preflight_says_no_before_the_code_of_a_live_run_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    """The launch asks for more GPUs than any host has."""
    here, there = tmp_path / "here", tmp_path / "there"
    there.mkdir()
    write(here, {"train.py": "import torch\n"})
    write(here, {"t.yaml": f"script: train.py\nworkdir: {there}\nsync: true\ngpus: 64\n"})
    monkeypatch.chdir(here)
    with live_run(there, "ft-20261122-104500-0a1b2c"), pytest.raises(LaunchRefused):
        CliRunner().invoke(cli, [*words, "-c", "./t.yaml"], standalone_mode=False, catch_exceptions=False)
    assert listing(there) == {}
    with pytest.raises(LaunchRefused):
        CliRunner().invoke(cli, [*words, "-c", "./t.yaml"], standalone_mode=False, catch_exceptions=False)
    assert sorted(listing(there)) == ["t.yaml", "train.py"]


def test_of_many_files_that_stay_some_are_named_and_the_rest_counted(tmp_path: Path) -> None:
    key = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n"
    write(tmp_path / "here", {"train.py": "", **{f"{name}.pem": key for name in "abcde"}})
    _, said = before(tmp_path, SyncOptions(source=str(tmp_path / "here")))
    kept = [line for line in said if "is not sent" in line or "more like these" in line]
    assert kept == [
        *(f"sync: {name}.pem is a private key: it is not sent" for name in "abc"),
        "sync: and 2 more like these",
    ]
