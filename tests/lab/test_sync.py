"""`sync:` over real SSH on simulated hosts."""

import hashlib
import json
import random
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.config.inventory import HostEntry
from launcher.config.inventory_reader import load_inventory
from launcher.errors import GpulaunchError
from launcher.sync.host import SyncClient
from launcher.sync.sync import HostSync, SyncJob, send_tree
from launcher.sync.tree import read_tree
from launcher.transports import open_endpoint
from launcher.transports.base import Connection, OpenOptions
from launcher.transports.ssh.endpoint import build_endpoint
from tests.lab.hosts import Lab
from tests.lab.run_cli import Cli
from tests.launcher.sync_tree import git, write

pytestmark = pytest.mark.lab

TARGET = "/root/synced"


class Synced:
    """A tree here, and the lab's hosts to send it to."""

    def __init__(self, lab: Lab, source: Path) -> None:
        self.lab = lab
        self.source = source
        self.inventory = load_inventory(lab.inventory_path)
        self.entries = self.inventory.resolve([host.name for host in lab.hosts])
        write(source, {"train.py": "print(1)\n", "pkg/a.py": "a\n", "pkg/b.py": "b\n"})

    def open(self, entry: HostEntry) -> Connection:
        known = (str(self.lab.known_hosts),)
        endpoint = replace(build_endpoint(entry, self.inventory), known_hosts_files=known)
        return open_endpoint(endpoint, OpenOptions())

    def send(self, target: str = TARGET, *, delete: bool = False) -> dict[str, HostSync]:
        tree = read_tree(self.source, exclude=(), max_mib=64)
        targets = {entry.name: target for entry in self.entries}
        return send_tree(SyncJob(lambda: tree, targets, delete), self.entries, self.open, lambda _: None)

    def there(self, name: str) -> list[str]:
        return [host.path(f"{TARGET}/{name}").read_text() for host in self.lab.hosts]


@pytest.fixture
def synced(lab: Lab, tmp_path: Path) -> Iterator[Synced]:
    yield Synced(lab, tmp_path / "tree")
    for host in lab.hosts:
        host.run(["umount", TARGET], check=False)
        host.run(["rm", "-rf", TARGET])


def test_a_tree_reaches_every_host_and_the_second_time_nothing_is_sent(synced: Synced) -> None:
    first = synced.send()
    assert [host.done.written for host in first.values()] == [3, 3, 3]
    assert synced.there("pkg/a.py") == ["a\n"] * 3
    again = synced.send()
    assert [(host.done.written, host.sent, host.same_as) for host in again.values()] == [(0, 0, "")] * 3


def test_a_changed_file_is_sent_alone(synced: Synced) -> None:
    synced.send()
    write(synced.source, {"pkg/b.py": "B\n"})
    (synced.source / "pkg/a.py").unlink()
    changed = synced.send()
    assert [(host.done.written, host.sent) for host in changed.values()] == [(1, 2)] * 3
    assert [host.done.stale for host in changed.values()] == [("pkg/a.py",)] * 3
    assert synced.there("pkg/a.py") == ["a\n"] * 3, "nothing is deleted unless asked"
    deleted = synced.send(delete=True)
    assert [host.done.deleted for host in deleted.values()] == [("pkg/a.py",)] * 3


@pytest.mark.skipif(shutil.which("rsync") is None, reason="rsync is not installed")
def test_rsync_sends_only_the_changed_part_over_the_connection_that_is_open(synced: Synced) -> None:
    data = random.Random(1).randbytes(2 << 20)
    (synced.source / "vocab.bin").write_bytes(data)
    synced.send()
    (synced.source / "vocab.bin").write_bytes(data[: 1 << 20] + b"a line more\n" + data[1 << 20 :])
    changed = synced.send()
    assert all(host.wire is not None and host.wire < len(data) / 10 for host in changed.values()), changed
    sums = {host.run(["sha256sum", f"{TARGET}/vocab.bin"]).stdout.split()[0] for host in synced.lab.hosts}
    assert sums == {hashlib.sha256((synced.source / "vocab.bin").read_bytes()).hexdigest()}


def test_a_shared_directory_is_written_once(synced: Synced) -> None:
    shared = synced.lab.shared / "project"
    found = synced.send(str(shared))
    names = [entry.name for entry in synced.entries]
    assert [host.same_as for host in found.values()] == ["", names[0], names[0]]
    assert (shared / "pkg/a.py").read_text() == "a\n"


def test_a_large_file_arrives_whole_on_every_host(synced: Synced) -> None:
    data = random.Random(1).randbytes(12 << 20)
    (synced.source / "weights.bin").write_bytes(data)
    synced.send()
    assert all(host.path(f"{TARGET}/weights.bin").read_bytes() == data for host in synced.lab.hosts)


def test_a_path_out_of_the_directory_is_refused_by_the_host(synced: Synced) -> None:
    entry = synced.entries[0]
    with SyncClient(synced.open(entry), entry.python) as host:
        host.begin(TARGET, "b" * 32)
        with pytest.raises(GpulaunchError, match="is not a path inside the directory"):
            host.compare([["../escaped", "f", 0o644, 1, "0" * 64]], delete=False)
    assert not synced.lab.hosts[0].path("/root/escaped").exists()


def test_a_read_only_directory_is_told_and_no_host_is_changed(synced: Synced) -> None:
    host = synced.lab.hosts[1]
    host.run(["mkdir", "-p", TARGET])
    host.run(["mount", "-t", "tmpfs", "-o", "ro", "tmpfs", TARGET])
    with pytest.raises(GpulaunchError, match="is on a read-only file system") as failure:
        synced.send()
    assert failure.value.message.startswith(f"{host.name}: ")
    assert "sync.to" in failure.value.fix
    assert not synced.lab.hosts[0].path(f"{TARGET}/train.py").exists()


def test_a_full_disk_is_told_before_anything_is_sent(synced: Synced) -> None:
    host = synced.lab.hosts[1]
    (synced.source / "weights.bin").write_bytes(b"\1" * (3 << 20))
    host.run(["mkdir", "-p", TARGET])
    host.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", TARGET])
    with pytest.raises(GpulaunchError, match=r"4 MiB are to be written to /root/synced, and \d MiB are free"):
        synced.send()
    assert not synced.lab.hosts[0].path(f"{TARGET}/train.py").exists()


def test_a_disk_that_fills_up_while_files_arrive_leaves_every_host_as_it_was(synced: Synced) -> None:
    host = synced.lab.hosts[1]
    host.run(["mkdir", "-p", TARGET])
    host.run(["mount", "-t", "tmpfs", "-o", "size=8m,nr_inodes=8", "tmpfs", TARGET])  # room, but no inodes
    with pytest.raises(GpulaunchError, match="no space left") as failure:
        synced.send()
    assert failure.value.message.startswith(f"{host.name}: ")
    assert [each.path(f"{TARGET}/train.py").exists() for each in synced.lab.hosts] == [False] * 3


def test_a_disk_without_room_for_anything_keeps_nothing_of_a_sync(synced: Synced) -> None:
    host = synced.lab.hosts[1]
    host.run(["mkdir", "-p", TARGET])
    host.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", TARGET])
    host.run(["dd", "if=/dev/zero", f"of={TARGET}/fill", "bs=1k", "count=100"], check=False)
    with pytest.raises(GpulaunchError, match="no space left"):
        synced.send()
    assert list(host.path(f"{TARGET}/.gpulaunch-sync").glob("nonce-*")) == []


def test_a_run_syncs_first_and_keeps_what_ran(synced: Synced, tmp_path: Path) -> None:
    git(synced.source, "init", "-q")
    git(synced.source, "add", ".")
    git(synced.source, "commit", "-qm", "one")
    write(synced.source, {"train.py": "import pkg.a\nprint('ran', __file__)\n", "pkg/a.py": "print('new')\n"})
    cli = Cli(synced.lab, tmp_path / "home")
    cli.without_torch()
    config = {
        "script": "train.py",
        "gpus": "none",
        "precision": "no",
        "workdir": TARGET,
        "sync": {"from": str(synced.source)},
    }
    (cli.home / "job.yaml").write_text(json.dumps(config))
    try:
        code, output = cli.run(",".join(host.name for host in synced.lab.hosts[:2]))
    finally:
        cli.close()
    assert code == 0, output
    assert output.count(f"ran {TARGET}/train.py") == 2
    assert "3 files sent" in output
    kept = Path(cli.home, cli.outcome()["logs"], "source.json").read_text()
    source = json.loads(kept)
    assert source["dirty"] is True
    assert len(source["commit"]) == 40
    assert "+print('new')" in source["diff"]
    host = synced.lab.hosts[0]
    run_dir = cli.outcome()["run_dirs"][host.name]
    assert host.path(f"{run_dir}/source.json").read_text() == kept


def test_without_sync_a_script_that_differs_between_hosts_stops_the_launch(
    synced: Synced, tmp_path: Path
) -> None:
    first, second = synced.lab.hosts[:2]
    first.put(f"{TARGET}/train.py", "print(1)\n")
    second.put(f"{TARGET}/train.py", "print(2)\n")
    cli = Cli(synced.lab, tmp_path / "home")
    config = {"script": "train.py", "gpus": "none", "precision": "no", "workdir": TARGET}
    (cli.home / "job.yaml").write_text(json.dumps(config))
    try:
        code, output = cli.run(f"{first.name},{second.name}")
    finally:
        cli.close()
    assert code == 1, output
    assert "SAME006" in output
    assert "--set sync=true" in output


def test_a_script_runs_on_a_host_with_the_tree_around_it_and_no_run_config(lab: Lab, tmp_path: Path) -> None:
    cli = Cli(lab, tmp_path / "home")
    cli.without_torch()
    project = cli.home / "toy"
    write(
        project, {"train.py": "from words import SAID\nprint(SAID, flush=True)\n", "words.py": "SAID='b'\n"}
    )
    name = lab.hosts[0].name
    words = ["run", "train.py", "--hosts", name, "-i", str(cli.inventory), "--gpus", "none"]
    code, text = cli.invoke(project, *words)
    assert (code, "train.py imports words.py, but only train.py itself would be sent" in text) == (2, True)
    code, text = cli.invoke(project, *words, "--sync", "--dry-run")
    assert (code, "as if train.py were on them already" in text) == (0, True), text
    assert f"{name}: node 0, in ~/gpulaunch/toy" in text
    code, text = cli.invoke(project, *words, "--sync")
    assert (code, f"[{name} r0] b\n" in text) == (0, True), text
    lab.hosts[0].run(["rm", "-rf", "/root/gpulaunch/toy"])
