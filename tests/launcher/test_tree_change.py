"""A restart on hosts whose tree another sync has changed: said, and recorded with the new start."""

import json
from pathlib import Path

from launcher.config.sync_options import SyncOptions
from launcher.restart.tree_change import note_other_tree
from launcher.sync.pre_launch import SyncHosts, sync_before_launch
from preflight.job import Job
from tests.launcher.sync_tree import ENTRY, opener, write


def send(tmp_path: Path) -> str:
    spec, job = SyncOptions(source=str(tmp_path / "here")), Job(workdir=str(tmp_path / "there"))
    hosts = SyncHosts((ENTRY,), opener, 4)
    return sync_before_launch(spec, job, hosts, lambda _: None, logs=tmp_path / "runs")


def test_a_restart_says_and_records_that_it_runs_another_tree(tmp_path: Path) -> None:
    write(tmp_path / "here", {"train.py": "1\n"})
    files = (("other.txt", "x"), ("source.json", send(tmp_path)))
    assert note_other_tree(files, [ENTRY], opener) == (files, ())
    assert json.loads(send(tmp_path))["content_sha256"] == json.loads(files[1][1])["content_sha256"]
    assert note_other_tree(files, [ENTRY], opener) == (files, ())
    write(tmp_path / "here", {"train.py": "edited\n"})
    edited = json.loads(send(tmp_path))["content_sha256"]
    found, (line,) = note_other_tree(files, [ENTRY], opener)
    assert line.startswith(f"another sync has changed {tmp_path}/there on titan since this run started: ")
    assert edited[:12] in line
    source = json.loads(dict(found)["source.json"])
    assert source["changed_since_start"] == {"titan": edited}
    assert source["content_sha256"] == json.loads(files[1][1])["content_sha256"]
    assert found[0] == files[0]


def test_a_run_without_a_sync_asks_nothing() -> None:
    assert note_other_tree((), [ENTRY], opener) == ((), ())
    assert note_other_tree((("source.json", "{}"),), [ENTRY], opener) == ((("source.json", "{}"),), ())
