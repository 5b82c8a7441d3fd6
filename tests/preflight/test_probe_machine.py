"""The machine as the agent reads it: its names and services, and what a script on it imports."""

import os
from pathlib import Path
from typing import Any

import pytest

from preflight.probes import host, system
from preflight.probes.fact import missing
from preflight.probes.processes.proc_pid import read_stat
from preflight.probes.processes.walk import ProcessWalk
from preflight.probes.script_imports import list_imported_modules, list_imported_names

# --- what a script imports ---


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("import a, b.c\nimport a as d\n", ["a", "b"]),
        ("from a.b import c\nfrom . import d\nfrom .e import f\n", ["a"]),
        ("if x:\n    import a\ntry:\n    import b\nexcept E: pass\ndef f():\n    import c\n", []),
        ("", []),
    ],
)
def test_modules_are_those_that_are_always_imported(text: str, names: list[str]) -> None:
    assert list_imported_names(text) == names


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"import a\n", ["a"]),
        (b"\xef\xbb\xbfimport a\n", ["a"]),
        (b"import a\n#".ljust(512 << 10, b"x"), ["a"]),
        (b"import a\n#".ljust((512 << 10) + 1, b"x"), []),
        (b"import (", []),
        (b"import a\n#\xff\n", ["a"]),
    ],
)
def test_a_script_of_512_kib_is_read_for_its_modules(tmp_path: Path, data: bytes, names: list[str]) -> None:
    path = tmp_path / "train.py"
    path.write_bytes(data)
    assert list_imported_modules(str(path)) == names


# --- the machine ---


def test_the_machine_is_the_one_that_others_see() -> None:
    found = host.read_identity()
    assert (found["hostname"], found["machine"]) == (os.uname().nodename, os.uname().machine)
    assert (found["uid"], found["kernel"]) == (os.getuid(), os.uname().release)
    assert found["initial_pid_namespace"] is (found["pid_namespace"] == "4026531836")
    assert abs(found["uptime_s"] - float(Path("/proc/uptime").read_text().split()[0])) < 600
    assert found["boot_id"] == Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@pytest.mark.parametrize(
    ("units", "comms", "state"),
    [
        ({}, {"nv-fabricmanage"}, "active"),
        ({"nvidia-fabricmanager": "failed"}, {"nv-fabricmanage"}, "active"),
        ({"nvidia-fabricmanager": "failed"}, set(), "failed"),
        ({"other": "active"}, set(), "not-found"),
        (missing("no systemd"), set(), "not-found"),
        (missing("no systemd"), {"nv-fabricmanage"}, "active"),
    ],
)
def test_a_service_is_what_its_process_or_systemd_says(units: Any, comms: set[str], state: str) -> None:
    found = system._service("nvidia-fabricmanager", "nv-fabricmanage", units, comms)
    assert state == (found["code"] if isinstance(found, dict) else found)


def test_what_was_no_longer_waiting_at_the_second_look_does_not_hang() -> None:
    walk = ProcessWalk(frozenset())
    mine = read_stat(os.getpid())
    for state, kernel in (("D", set[int]()), ("S", set[int]()), ("D", {mine.pid})):
        walk.stats, walk.kernel = {mine.pid: mine._replace(state=state)}, kernel
        assert system._hung(walk, 0.0) == []


def test_a_service_belongs_to_the_system_or_to_us() -> None:
    assert system._is_service(os.getpid())
    assert system._is_service(1) is (Path("/proc/1").stat().st_uid in (*range(1000), os.getuid()))
    assert not system._is_service(1 << 23)  # above every pid that Linux gives
