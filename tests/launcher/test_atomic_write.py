"""Files that are written whole or not at all, wherever the name leads."""

import errno
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from launcher.cli import run_command_line
from launcher.exit_codes import ExitCode
from launcher.local.atomic_write import check_writable, write_atomic
from preflight.errors import BadInput
from tests.launcher.run_plans import run_id

RUN = run_id("r-1")


def test_a_new_file_has_the_usual_permissions(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a", "é")
    (tmp_path / "usual").touch()
    assert (tmp_path / "a").read_text("utf-8") == "é"
    assert (tmp_path / "a").stat().st_mode == (tmp_path / "usual").stat().st_mode
    assert sorted(each.name for each in tmp_path.iterdir()) == ["a", "usual"]


def test_a_link_stays_a_link_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    for name, there in (("link", True), ("dangling", False)):
        target, link = tmp_path / "real" / name, tmp_path / name
        if there:
            target.write_text("old")
        link.symlink_to(Path("real") / name)
        write_atomic(link, "new")
        assert link.is_symlink()
        assert target.read_text() == "new"


def test_a_file_keeps_its_permissions(tmp_path: Path) -> None:
    path = tmp_path / "private"
    path.write_text("old")
    path.chmod(0o600)
    write_atomic(path, "new")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_directory_that_is_not_there_is_told_by_the_name_that_was_given(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="does not exist") as raised:
        write_atomic(tmp_path / "absent" / "a", "x")
    assert raised.value.message == f"{tmp_path}/absent/a: the directory {tmp_path}/absent does not exist"


def test_a_text_with_a_name_of_any_bytes_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="a name that is not UTF-8"):
        write_atomic(tmp_path / "a", "script: tr\udcff.py\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "words",
    [
        ("report", RUN, "--logs", "runs", "--html", "absent/x.html"),
        ("report", RUN, "--logs", "runs", "--html", "/proc/absent/x.html"),
    ],
)
def test_a_place_that_cannot_be_written_is_no_bug(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "runs" / RUN).mkdir(parents=True)
    (tmp_path / "runs" / RUN / "plan.json").write_text(f'{{"run_id": "{RUN}"}}')
    code = run_command_line(words)
    raised = capsys.readouterr().err
    assert (code in (ExitCode.USAGE, ExitCode.ABORTED), "absent" in raised, "bug" in raised) == (
        True,
        True,
        False,
    )


def test_a_read_only_file_system_is_told_by_the_file_that_was_to_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, *_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(self))

    monkeypatch.setattr(Path, "open", refuse)
    monkeypatch.setattr(Path, "unlink", refuse)
    for write in (lambda path: write_atomic(path, "x"), check_writable):
        with pytest.raises(OSError, match="Read-only") as failure:
            write(tmp_path / "x.json")
        assert failure.value.filename == str(tmp_path / "x.json")


WRITE_TO_STDOUT = """
from pathlib import Path
from launcher.local.atomic_write import write_atomic
write_atomic(Path("/dev/stdout"), "x")
"""


def test_standard_output_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    before = os.readlink("/dev/stdout")  # noqa: PTH115 - the very text of the link
    argv = [sys.executable, "-c", WRITE_TO_STDOUT]
    assert subprocess.run(argv, capture_output=True, check=True).stdout == b"x"
    with (tmp_path / "out").open("wb") as out:
        subprocess.run(argv, stdout=out, check=True)
    assert (tmp_path / "out").read_bytes() == b"x"
    assert os.readlink("/dev/stdout") == before  # noqa: PTH115


@pytest.mark.parametrize(
    ("words", "before", "kept"),
    [
        (("report", RUN, "--logs", "runs", "--html"), "import torch\n", True),
        (("preflight", "localhost", "--html"), "hosts: {}\n", True),
        (("top", "localhost", "--prometheus"), "import torch\n", True),
        (("report", RUN, "--logs", "runs", "--html"), "<!DOCTYPE html>\nan older page", False),
        (("report", RUN, "--logs", "runs", "--html"), "", False),
    ],
)
def test_no_file_of_another_kind_is_written_over(
    words: tuple[str, ...],
    before: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *,
    kept: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / RUN).mkdir(parents=True)
    (tmp_path / "runs" / RUN / "plan.json").write_text(f'{{"run_id": "{RUN}"}}')
    target = tmp_path / "train.py"
    target.write_text(before)
    assert run_command_line([*words, "train.py"]) == (ExitCode.USAGE if kept else ExitCode.OK)
    assert (target.read_text() == before) is kept
    if kept:
        assert f"{words[-1]} would write over train.py, which is not" in capsys.readouterr().err
