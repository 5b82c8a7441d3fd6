"""rsync carries large changed files where both sides have it; without it nothing else changes."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from launcher.errors import SyncFailed
from launcher.sync import rsync
from tests.environment import first_lines
from tests.launcher.sync_tree import listing, sync, write

MIB = 1 << 20

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("rsync") is None, reason="rsync is not installed"),
]


@pytest.fixture
def here(tmp_path: Path) -> Path:
    root = tmp_path / "my tree's"
    write(root, {"train.py": "1\n", "pkg/deep/b.py": "b\n"})
    (root / "data").mkdir()
    (root / "data/vocab.bin").write_bytes(b"v" + os.urandom(4 * MIB - 1))  # not x: a test writes that over it
    return root


@pytest.fixture
def there(tmp_path: Path) -> Path:
    return tmp_path / "there, with a space and a 'quote'"


@contextmanager
def programs(directory: Path) -> Iterator[None]:
    """Let only the programs of one directory be found, here and on the host, which is this machine."""
    before = os.environ["PATH"]
    os.environ["PATH"] = str(directory)
    try:
        yield
    finally:
        os.environ["PATH"] = before


def test_of_a_large_file_only_the_changed_part_travels(here: Path, there: Path) -> None:
    first = sync(here, there)["titan"]
    assert first.wire is not None
    assert first.wire > 4 * MIB * 0.9
    data = bytearray((here / "data/vocab.bin").read_bytes())
    data[2 * MIB : 2 * MIB] = b"a line more\n"
    (here / "data/vocab.bin").write_bytes(data)
    again = sync(here, there)["titan"]
    assert again.done.written == 1
    assert again.sent == len(data)
    assert again.wire is not None
    assert again.wire < 4 * MIB / 10
    assert (there / "data/vocab.bin").read_bytes() == data


def test_names_modes_and_links_arrive_as_they_are(here: Path, there: Path) -> None:
    write(here, {os.fsdecode(b"caf\xe9 *?\n$(id)"): "c", "-rf": "d", "a:b/c:d": "e"})
    (here / "train.py").chmod(0o755)
    (here / "link").symlink_to("data/vocab.bin")
    found = sync(here, there)["titan"]
    assert found.wire is not None
    assert found.done.written == 7
    (there / "data/vocab.bin").unlink()
    (here / "data/vocab.bin").unlink()
    assert listing(there) == listing(here)
    assert (there / "train.py").stat().st_mode & 0o777 == 0o755


def test_an_old_file_of_equal_size_and_time_is_not_taken_for_the_new_one(here: Path, there: Path) -> None:
    sync(here, there)
    path = here / "data/vocab.bin"
    path.write_bytes(os.urandom(4 * MIB))
    at = path.stat().st_mtime_ns
    os.utime(there / "data/vocab.bin", ns=(at, at))
    assert sync(here, there)["titan"].wire is not None
    assert (there / "data/vocab.bin").read_bytes() == path.read_bytes()


def test_what_was_edited_there_is_kept_with_rsync_too(here: Path, there: Path) -> None:
    sync(here, there)
    (there / "data/vocab.bin").write_bytes(b"an hour's work")
    (here / "data/vocab.bin").write_bytes(os.urandom(MIB))
    done = sync(here, there)["titan"].done
    assert done.kept == ("data/vocab.bin",)
    assert (Path(done.kept_in) / "data/vocab.bin").read_bytes() == b"an hour's work"


def test_little_to_send_is_sent_without_rsync(here: Path, there: Path) -> None:
    (here / "data/vocab.bin").unlink()
    assert sync(here, there)["titan"].wire is None
    assert listing(there) == listing(here)


def test_without_rsync_all_arrives_as_well(here: Path, there: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    with programs(tmp_path / "bin"):
        assert not rsync.has_rsync()
        assert sync(here, there)["titan"].wire is None
    assert (there / "data/vocab.bin").read_bytes() == (here / "data/vocab.bin").read_bytes()


def test_an_rsync_that_fails_costs_nothing_but_time(here: Path, there: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    broken = tmp_path / "bin" / "rsync"
    broken.write_text(f"{first_lines()}import sys\nprint('Welcome to titan!')\nsys.exit(12)\n")
    broken.chmod(0o755)
    with programs(tmp_path / "bin"):
        assert rsync.has_rsync()
        assert sync(here, there)["titan"].wire is None
    assert (there / "data/vocab.bin").read_bytes() == (here / "data/vocab.bin").read_bytes()


def test_a_file_that_changes_under_rsync_stops_the_sync(here: Path, there: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    real = shutil.which("rsync")
    changing = tmp_path / "bin" / "rsync"
    changing.write_text(
        f'#!/bin/sh\n[ "$1" = --server ] || printf x 1<>\'{tmp_path}/victim\'\nexec {real} "$@"\n'
    )
    changing.chmod(0o755)
    (tmp_path / "victim").symlink_to(here / "data/vocab.bin")
    with programs(tmp_path / "bin"), pytest.raises(SyncFailed, match="changed while it was sent"):
        sync(here, there)
    assert listing(there) == {}
