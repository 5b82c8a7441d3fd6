"""What the probes make of the files of a kernel, which are given: each condition on both sides."""

import _socket
import errno
import os
import resource
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from preflight.probes import host, ports
from preflight.probes.cgroup_folder import find_own_cgroup
from preflight.probes.fact import missing
from preflight.probes.kernel_log_parser import parse_kernel_log
from preflight.probes.request import read_request


def files(monkeypatch: pytest.MonkeyPatch, module: Any, held: dict[str, str]) -> None:
    """Let a module see these files and no others."""
    monkeypatch.setattr(module, "read_text_or", lambda path, default="": held.get(path, default))


# --- control groups ---


def groups(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, held: dict[str, str]) -> None:
    """Put this process into the group a/b of version 2 and x/y of version 1, with these files."""
    for lowest in ("cgroup2/a/b", "cpu/x/y", "memory/x/y"):
        folder = tmp_path / lowest
        folder.mkdir(parents=True)
        for group in (folder, folder.parent, folder.parent.parent):
            (group / "cgroup.procs").touch()
    for name, text in held.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(
        host, "find_own_cgroup", lambda kind: str(tmp_path / kind / ("a/b" if kind == "cgroup2" else "x/y"))
    )


@pytest.mark.parametrize(
    ("held", "cpus"),
    [
        ({}, 8),
        ({"cgroup2/a/b/cpu.max": "150000 100000"}, 2),
        ({"cgroup2/a/b/cpu.max": "200000 100000"}, 2),
        ({"cgroup2/a/b/cpu.max": "max 100000"}, 8),
        ({"cgroup2/a/b/cpu.max": "400000 100000", "cgroup2/cpu.max": "300000 100000"}, 3),
        ({"cgroup2/a/cpu.max": "700000 100000"}, 7),
        ({"cgroup2/cpu.max": "50000 100000"}, 1),
        ({"cgroup2/cpu.max": "1 100000"}, 1),
        ({"cgroup2/cpu.max": "9900000 100000"}, 8),
        ({"cgroup2/cpu.max": "100000 0"}, 8),
        ({"cpu/x/y/cpu.cfs_quota_us": "500000", "cpu/x/y/cpu.cfs_period_us": "100000"}, 5),
        ({"cpu/x/cpu.cfs_quota_us": "1", "cpu/x/cpu.cfs_period_us": "1"}, 1),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 8),
        ({"memory/x/cpu.cfs_quota_us": "100000", "memory/x/cpu.cfs_period_us": "100000"}, 8),
    ],
)
def test_cpus_are_cut_by_every_quota_above(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, held: dict[str, str], cpus: int
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    groups(monkeypatch, tmp_path, held)
    assert host.count_cpus() == cpus


@pytest.mark.parametrize(
    ("held", "mib"),
    [
        ({"cgroup2/a/memory.max": str(8 << 30), "cgroup2/memory.max": str(4 << 30)}, 4096),
        ({"cgroup2/a/memory.max": str(8 << 20), "cgroup2/memory.max": "max"}, 8),
        ({"cgroup2/a/b/memory.max": "max"}, None),
        ({"memory/x/memory.limit_in_bytes": str(2 << 20)}, 2),
        ({"memory/x/y/memory.limit_in_bytes": str(1 << 60)}, None),
        ({"memory/memory.limit_in_bytes": str((1 << 60) - 1)}, (1 << 40) - 1),
        ({}, None),
    ],
)
def test_the_smallest_limit_of_memory_counts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, held: dict[str, str], mib: int | None
) -> None:
    groups(monkeypatch, tmp_path, held)
    assert host.read_memory_limit() == (
        missing("no cgroup limits memory on this host", "not-found") if mib is None else mib
    )


V2 = "- cgroup2 cgroup2 rw"
V1 = "- cgroup cgroup rw,cpu,memory"


@pytest.mark.parametrize(
    ("ours", "mounts", "folder"),
    [
        ("0::/a/b", [f"/ M/v2 rw shared:4 {V2}"], "M/v2/a/b"),
        ("0::/", [f"/ M/v2 rw {V2}"], "M/v2"),
        ("0::/a", [f"/ M/v2 rw {V1}"], ""),  # of version 1 alone
        ("4:cpu,memory:/x/y", [f"/ M/v1 rw {V1}", f"/ M/v2 rw {V2}"], "M/v1/x/y"),
        ("4:cpu,memory:/x/y/z", [f"/x/y M/inner rw {V1}"], "M/inner/z"),  # docker's mount on version 1
        ("4:cpu,memory:/x/y", [f"/x/y M/inner rw {V1}"], "M/inner"),
        ("4:cpu,memory:/x/y/z", [f"/ M/inner rw {V1}", f"/x/y M/inner rw {V1}"], "M/inner/z"),
        ("4:cpu,memory:/x/yz", [f"/x/y M/inner rw {V1}"], ""),  # another group than the mount's
        ("4:cpu,memory:/", [f"/../.. M/v1 rw {V1}"], ""),  # a mount from outside the namespace
        ("4:cpu,memory:/../x", [f"/ M/v1 rw {V1}"], ""),
        ("4:cpu,memory:/../x", [f"/.. M/v1 rw {V1}"], "M/v1/x"),
        ("4:cpu,memory:/gone", [f"/ M/v1 rw {V1}"], ""),
        ("3:cpuset:/x", [f"/ M/v1 rw {V1}"], ""),
    ],
)
def test_the_folder_of_our_own_group_is_where_its_mount_shows_it(
    tmp_path: Path, ours: str, mounts: list[str], folder: str
) -> None:
    for name in ("v2/a/b", "v1/x/y", "v1/x/yz", "inner/z"):
        (tmp_path / name).mkdir(parents=True)
        for group in (tmp_path / name, *(tmp_path / name).parents):
            if tmp_path in group.parents:
                (group / "cgroup.procs").touch()
    lines = [f"31 23 0:28 {mount}".replace("M/", f"{tmp_path}/") for mount in mounts]
    (tmp_path / "cgroup").write_text(f"1:name=systemd:/s\n{ours}\n")
    text = "\n".join(["20 1 0:1 / /M\xfcller rw - ext4 root rw", *lines, ""])
    (tmp_path / "mountinfo").write_text(text, encoding="latin-1")
    kind = "cgroup2" if ours.startswith("0:") else "memory"
    found = find_own_cgroup(kind, str(tmp_path))
    assert found == folder.replace("M/", f"{tmp_path}/")


SHOWN = "MemTotal:  {} kB\nMemFree: {} kB\nMemAvailable: {} kB\nSwapTotal: {} kB\nSwapFree: {} kB\n"
HELD = {"memory_total_mib": 4, "memory_available_mib": 2, "swap_total_mib": 6, "swap_used_mib": 5}


@pytest.mark.parametrize(
    ("text", "held"),
    [
        (SHOWN.format(4096, 3072, 2048, 6144, 1024), HELD),
        (SHOWN.format(4607, 3072, 2500, 6144, 1500), HELD),
        (SHOWN.format(4096, 3072, 2048, 0, 0), {**HELD, "swap_total_mib": 0, "swap_used_mib": 0}),
        (SHOWN.replace("MemAvailable", "Cached").format(4096, 3072, 9, 6144, 1024),
         {**HELD, "memory_available_mib": 3}),
        ("", dict.fromkeys(HELD, 0)),
    ],
)  # fmt: skip
def test_memory_and_swap_are_those_of_the_kernel(
    monkeypatch: pytest.MonkeyPatch, text: str, held: dict[str, int]
) -> None:
    monkeypatch.setattr(host, "read_text", lambda _: text)
    assert held.items() <= host.read_limits().items()


@pytest.mark.parametrize(
    ("soft", "hard", "said"),
    [
        (8192, 9000, {"memlock_kib": 8, "nofile": 8192, "nofile_hard": 9000}),
        (1023, -1, {"memlock_kib": 0, "nofile": 1023, "nofile_hard": -1}),
        (-1, -1, {"memlock_kib": -1, "nofile": -1, "nofile_hard": -1}),
    ],
)
def test_limits_are_those_of_the_session(
    monkeypatch: pytest.MonkeyPatch, soft: int, hard: int, said: dict[str, int]
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, hard))
    room = SimpleNamespace(f_blocks=3 << 10, f_frsize=4096, f_bavail=2 << 10)
    monkeypatch.setattr(os, "statvfs", lambda _: room)
    assert {**said, "shm_total_mib": 12, "shm_free_mib": 8}.items() <= host.read_limits().items()
    room.f_blocks = room.f_bavail = 0  # of a tmpfs that has no limit
    monkeypatch.setattr(host, "read_text", lambda _: "MemTotal: 4096 kB\nMemAvailable: 2048 kB\n")
    assert {"shm_total_mib": 4, "shm_free_mib": 2}.items() <= host.read_limits().items()


# --- ports ---


@pytest.mark.parametrize(
    ("text", "reserved"), [("", set()), ("7", {7}), ("7,9-11", {7, 9, 10, 11}), ("9-9,", {9})]
)
def test_reserved_ports_are_lists_of_ranges(
    monkeypatch: pytest.MonkeyPatch, text: str, reserved: set[int]
) -> None:
    files(monkeypatch, ports, {"/proc/sys/net/ipv4/ip_local_reserved_ports": text})
    assert ports._reserved_ports() == reserved


@pytest.mark.parametrize(("text", "both"), [("1024\t65535", (1024, 65535)), ("", (32768, 60999))])
def test_the_ephemeral_range_has_a_default(
    monkeypatch: pytest.MonkeyPatch, text: str, both: tuple[int, int]
) -> None:
    files(monkeypatch, ports, {"/proc/sys/net/ipv4/ip_local_port_range": text})
    assert ports._ephemeral_range() == both


@pytest.mark.parametrize(
    ("code", "reason"),
    [(errno.EAFNOSUPPORT, ""), (errno.EPROTONOSUPPORT, ""), (errno.EMFILE, "Too many open files (::)")],
)
def test_a_family_that_is_switched_off_leaves_the_other_to_be_tried(
    monkeypatch: pytest.MonkeyPatch, code: int, reason: str
) -> None:
    true_socket = _socket.socket

    def make(family: int, kind: int) -> Any:
        if family == socket.AF_INET6:
            raise OSError(code, os.strerror(code))
        return true_socket(family, kind)

    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        monkeypatch.setattr(_socket, "socket", make)
        assert ports.bind_error(port) == (reason or "Address already in use (0.0.0.0)")
        if not reason:
            monkeypatch.setattr(_socket, "socket", true_socket)
    if not reason:
        assert ports.bind_error(port) == ""


@pytest.mark.parametrize(
    ("ephemeral", "count", "wanted"),
    [
        ((32768, 60999), 3, [20000, 20001, 20003]),
        ((20000, 28999), 2, [29000, 29001]),
        ((0, 65535), 2, [20000, 20001]),
        ((20001, 65535), 3, [20000, 10000, 10001]),
        ((32768, 60999), 0, []),
        ((32768, 60999), -1, []),
    ],
)
def test_free_ports_come_from_the_calm_ones_first(
    monkeypatch: pytest.MonkeyPatch, ephemeral: tuple[int, int], count: int, wanted: list[int]
) -> None:
    files(monkeypatch, ports, {"/proc/sys/net/ipv4/ip_local_reserved_ports": "20002"})
    monkeypatch.setattr(ports, "bind_error", lambda _port: "")
    ask = read_request({"free_ports": count, "ports": [10002]}, None)
    assert ports.free_ports(ask, ephemeral) == wanted


# --- kernel lines ---


def test_lines_of_different_kinds_are_all_read() -> None:
    text = (
        "[1.5] NVRM: Xid (PCI:0000:9b:00): 79, pid=1\n[2.5] all is well\n"
        "[3.5] Out of memory: Killed process 7 (python)\n[4.5] x blocked for more than 120 seconds\n"
    )
    found = parse_kernel_log(text)
    assert [(each["code"], each["at_uptime_s"]) for each in found["xids"]] == [(79, 1.5)]
    assert ["7 (python)" in each for each in found["oom_kills"]] == [True]
    assert ["120 seconds" in each for each in found["other"]] == [True]


@pytest.mark.parametrize(
    ("line", "at"),
    [
        ("[   12.5] NVRM: Xid (PCI:0000:9b:00): 79, pid=1", 12.5),
        ("4,900,1500000,-;NVRM: Xid (PCI:0000:9b:00): 79, pid=1", 1.5),
        ("4,900,1500000,-,caller=T7;NVRM: Xid (PCI:0000:9b:00): 79, pid=1", 1.5),
        ("[Sun Nov 22 10:00:00 2026] NVRM: Xid (PCI:0000:9b:00): 79, pid=1", None),
        ("Nov 22 10:00:00 a kernel: NVRM: Xid (PCI:0000:9b:00): 79, pid=1", None),
    ],
)
def test_a_line_of_the_kernel_has_the_time_that_it_says(line: str, at: float | None) -> None:
    (xid,) = parse_kernel_log(line)["xids"]
    assert xid["at_uptime_s"] == (
        missing("the line has no time since boot", "not-found") if at is None else at
    )
    assert (xid["code"], xid["pci_bus_id"]) == (79, "0000:9b:00.0")
    assert xid["text"].startswith("NVRM: Xid (PCI:0000:9b:00): 79")


@pytest.mark.parametrize("kind", ["xids", "oom_kills", "other"])
def test_of_each_kind_the_newest_lines_are_kept(kind: str) -> None:
    lines = {
        "xids": "[{}.5] NVRM: Xid (PCI:0000:9b:00): 79, x",
        "oom_kills": "[{}.5] Killed process {} (python)",
        "other": "[{}.5] GPU {} has fallen off the bus",
    }
    found = parse_kernel_log("\n".join(lines[kind].format(n, n) for n in range(201)))
    assert {name: len(each) for name, each in found.items()} == {
        "xids": 0,
        "oom_kills": 0,
        "other": 0,
        kind: 200,
    }
