"""The interpreters of a host without a Python that can be asked: sh looks for one."""

import shutil
import sys
from functools import partial
from pathlib import Path

import pytest

from launcher.config.inventory import HostEntry
from launcher.errors import PythonNotFound
from launcher.onhost import find_interpreters
from launcher.remote.program_source import EXIT_OLD_PYTHON
from launcher.scaffold.interpreters import list_interpreters
from launcher.transports.base import Connection, Endpoint
from launcher.transports.local import LocalConnection


def _connect_locally(_: HostEntry) -> Connection:
    return LocalConnection(Endpoint("localhost", "local", ""))


def test_a_host_whose_only_pythons_are_old_or_in_an_environment_is_searched_by_sh(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home := tmp_path))
    conda = home / "miniforge3/envs/train/bin/python"
    conda.parent.mkdir(parents=True)
    (home / "bin").mkdir()
    (home / "bin/sh").symlink_to("/bin/sh")
    (home / "bin/cat").symlink_to(shutil.which("cat") or "/bin/cat")
    monkeypatch.setenv("PATH", str(home / "bin"))
    places = [place for place in find_interpreters.SEARCH_PATHS if place.startswith("~")]
    monkeypatch.setattr("launcher.scaffold.interpreters.SEARCH_PATHS", places)  # others may be this machine's
    search = partial(list_interpreters, [HostEntry("localhost")], _connect_locally, width=1)
    absent = search()[0]
    assert isinstance(absent, PythonNotFound)
    assert absent.fix.startswith("install one on localhost, or set `python:`")
    conda.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    conda.chmod(0o755)
    for old in ("", f"#!/bin/sh\nprintf 3.8.10 >&2\nexit {EXIT_OLD_PYTHON}\n"):
        if old:
            (home / "bin/python3").write_text(old)
            (home / "bin/python3").chmod(0o755)
        found = search()[0]
        assert not isinstance(found, Exception), found
        assert [each.path for each in found if Path(each.path).is_relative_to(home)] == [str(conda)]
