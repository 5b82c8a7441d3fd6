"""Room on file systems, as the user that asks may use it."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from preflight.probes import paths


def room(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, euid: int, **more: int) -> tuple[int, float]:
    kept = {"f_frsize": 1 << 20, "f_blocks": 1000, "f_files": 1_000_000, "f_bfree": 50, "f_bavail": 0}
    found = SimpleNamespace(**kept, **{"f_ffree": 9, "f_favail": 0, "f_flag": 0} | more)
    monkeypatch.setattr(os, "statvfs", lambda _: found)
    monkeypatch.setattr(os, "geteuid", lambda: euid)
    facts = paths._path_facts("output", str(tmp_path), [])
    assert facts["read_only"] is bool(found.f_flag & os.ST_RDONLY)
    return facts["free_mib"], facts["free_inodes_percent"]


def test_what_a_file_system_keeps_back_is_roots_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert room(monkeypatch, tmp_path, euid=1000) == (0, 0.0)
    assert room(monkeypatch, tmp_path, euid=0) == (50, 0.01), "nine of a million are few, and not none"


def test_no_inode_left_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert room(monkeypatch, tmp_path, euid=0, f_ffree=0, f_flag=os.ST_RDONLY)[1] == 0.0


@pytest.mark.parametrize(
    ("role", "path", "in_way"),
    [
        ("output", "file/below", "file"),
        ("run_dir", "file", "file"),
        ("script", "file", ""),
        ("tmp", "none", ""),
    ],
)
def test_a_file_where_a_directory_is_wanted_is_named(
    tmp_path: Path, role: str, path: str, in_way: str
) -> None:
    (tmp_path / "file").touch()
    facts = paths._path_facts(role, str(tmp_path / path), [])
    assert facts["file_in_way"] == (str(tmp_path / in_way) if in_way else "")
    assert facts["writable"] is not bool(in_way)


def test_a_directory_that_may_not_be_entered_is_none_to_write_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(os, "access", lambda _, mode: not mode & os.X_OK)  # root may enter any
    facts = paths._path_facts("workdir", str(tmp_path), [])
    assert (facts["exists"], facts["enterable"], facts["writable"]) == (True, False, False)
