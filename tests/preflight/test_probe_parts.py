"""Parts of the probes that need no host: what they make of answers, each condition on both sides."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from preflight.probes import host, kernel_log, network, paths
from preflight.probes.assembly import assemble_gpus, assemble_paths, list_named_pids, merge_named
from preflight.probes.commands import run_command
from preflight.probes.fact import explain_exception, missing, read_fact, start_thread, truncate, with_timeout
from preflight.probes.files import wait_readable
from preflight.probes.namespaces import link_target
from preflight.probes.nvidia_smi.health import parse_ecc
from preflight.probes.probe_runner import PARTS
from preflight.probes.processes import table as table_module
from preflight.probes.processes.walk import ProcessWalk
from preflight.probes.request import list_paths, read_request
from preflight.probes.request import resolve_path as absolute

GONE = missing("it hangs", "timeout")


# --- parts made whole ---


def test_a_part_of_a_gpu_that_did_not_come_says_why() -> None:
    owed = {"count": 3, "fields": ["name", "uuid"], "fixed": ["uuid"]}
    parts = {
        "owed": owed,
        "0": {"name": "T4", "uuid": "GPU-0"},
        "1": {"name": "T4", "same": True},
        PARTS: GONE,
    }
    assert assemble_gpus(parts) == [
        {"index": 0, "name": "T4", "uuid": "GPU-0"},
        {"index": 1, "name": "T4"},
        {"index": 2, "name": GONE, "uuid": GONE},
    ]
    (_, _, third) = assemble_gpus({**parts, PARTS: None})
    assert third["name"] == missing("the probe ended before this was read")
    assert assemble_gpus(GONE) == GONE
    assert assemble_gpus([]) == []


FACTS = {"role": "output", "path": "/o", "exists": True}
MOUNT = {"resolved": "/o", "filesystem": "ext4", "source": "/dev/sda"}


@pytest.mark.parametrize(
    ("parts", "excuse", "filesystem"),
    [
        ({"output": {"mount": MOUNT, "facts": GONE}}, GONE, "ext4"),
        ({"output": {"mount": MOUNT}, PARTS: GONE}, GONE, "ext4"),
        ({"output": {"mount": MOUNT, PARTS: GONE}}, GONE, "ext4"),
        ({"output": {}}, missing("the paths probe ended early"), None),
        ({"output": None, PARTS: GONE}, GONE, None),
        ({}, missing("the paths probe ended early"), None),
    ],
    ids=["facts are missing", "all", "this", "empty", "none", "nothing"],
)
def test_a_path_that_did_not_answer_has_a_reason_everywhere(
    parts: dict[str, Any], excuse: dict[str, Any], filesystem: str | None
) -> None:
    (found,) = (
        path for path in assemble_paths(parts, read_request({"paths": {"output": "/o"}}, None))
        if path["role"] == "output"
    )  # fmt: skip
    assert found["exists"] == found["free_mib"] == found["free_inodes_percent"] == excuse
    assert found["filesystem"] == (filesystem or excuse)
    assert (found["path"], found["resolved"]) == ("/o", "/o")


def test_paths_that_answered_are_taken_as_they_are() -> None:
    ask = read_request({"paths": {"output": "/o"}}, None)
    assert FACTS in assemble_paths({"output": {"facts": FACTS}, PARTS: GONE}, ask)
    assert assemble_paths(GONE, ask) == GONE
    assert assemble_paths(None, ask) is None


def test_processes_that_only_the_driver_names_are_added_in_order() -> None:
    gpus = [{"processes": [{"pid": 7}, {"pid": 9}]}, {"processes": GONE}]
    answer: dict[str, Any] = {"processes": {"processes": [{"pid": 3}, {"pid": 9}]}, "gpus": gpus}
    assert list_named_pids(answer) == {7}
    for without in ({"processes": GONE}, {"processes": None}, {"gpus": GONE}):
        assert list_named_pids({**answer, **without}) == set()
    merge_named(answer)
    assert [row["pid"] for row in answer["processes"]["processes"]] == [3, 9]
    answer["named"] = [{"pid": 7}]
    merge_named(answer)
    assert [row["pid"] for row in answer["processes"]["processes"]] == [3, 7, 9]
    assert "named" not in answer


# --- the request ---


def asked(**paths: str) -> dict[str, str]:
    found = list_paths(read_request({"paths": paths}, None))
    return {role: absolute(path) for role, path in found.items()}


def test_paths_have_defaults_and_unknown_roles_none(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME", "TMPDIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    blank = {"hf_cache": "", "tmp": "", "run_dir": "", "output": "", "elsewhere": "/e"}
    assert asked(**blank) == {
        "hf_cache": "/home/me/.cache/huggingface",
        "tmp": "/tmp",
        "run_dir": "/home/me/.local/state/gpulaunch/runs",
    }
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    monkeypatch.setenv("XDG_STATE_HOME", "state")  # a relative one counts as none
    monkeypatch.setenv("TMPDIR", "/scratch")
    found = asked(**{**blank, "output": "$HOME/o"})
    assert (found["hf_cache"], found["tmp"], found["output"]) == (
        "/cache/huggingface",
        "/scratch",
        "/home/me/o",
    )
    assert found["run_dir"] == "/home/me/.local/state/gpulaunch/runs"
    monkeypatch.setenv("HF_HOME", "/hf")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    found = asked(**{**blank, "tmp": "/mine"})
    assert (found["hf_cache"], found["run_dir"], found["tmp"]) == ("/hf", "/state/gpulaunch/runs", "/mine")
    own = {"HF_HOME": "/own", "TMPDIR": "/run/tmp"}  # of the launch
    found = list_paths(read_request({"paths": blank, "env": own}, None))
    assert (found["hf_cache"], found["tmp"]) == ("/own", "/run/tmp")


def test_what_a_request_leaves_out_has_its_default() -> None:
    ask = read_request({}, None)
    assert (ask.host, ask.ports, ask.pids, ask.free_ports, ask.seed) == ("", (), (), 0, "")
    ask = read_request({"ports": ["7", 8], "pids": [3], "free_ports": 2, "seed": "s", "host": "h"}, b"x")
    assert (ask.host, ask.ports, ask.pids, ask.free_ports, ask.seed) == ("h", (7, 8), (3,), 2, "s")
    assert ask.pynvml == b"x"


# --- files and paths ---


def test_what_is_readable_is_returned_and_nothing_else(tmp_path: Path) -> None:
    first, second = os.pipe(), os.pipe()
    try:
        assert wait_readable([first[0], second[0]], 0.0) == []
        os.write(second[1], b"x")
        assert wait_readable([first[0], second[0]], 0.0) == [second[0]]
    finally:
        for fd in (*first, *second):
            os.close(fd)
    (tmp_path / "link").symlink_to("target")
    assert link_target(str(tmp_path / "link")) == "target"
    assert link_target(str(tmp_path)) == ""


ROOM = {"f_frsize": 4096, "f_blocks": 1024, "f_bfree": 512, "f_bavail": 256, "f_files": 200}
ROOM |= {"f_ffree": 100, "f_favail": 50, "f_flag": 0}


@pytest.mark.parametrize(
    ("uid", "change", "free_mib", "inodes"),
    [
        (0, {}, 2, 50.0),
        (1000, {}, 1, 25.0),
        (1000, {"f_favail": 0}, 1, 0.0),
        (1000, {"f_favail": 1, "f_files": 10**9}, 1, 0.01),
        (1000, {"f_files": 0}, 1, missing("the file system does not count inodes", "not-supported")),
    ],
    ids=["root", "a user", "no inode left", "one inode left", "no inodes"],
)
def test_room_is_what_the_user_may_take(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    uid: int,
    change: dict[str, int],
    free_mib: int,
    inodes: Any,
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(os, "statvfs", lambda _path: SimpleNamespace(**{**ROOM, **change}))
    found = paths._path_facts("output", str(tmp_path / "a/b"), [])
    assert (found["free_mib"], found["total_mib"], found["free_inodes_percent"]) == (free_mib, 4, inodes)
    assert found["exists"] is False
    assert found["filesystem"] == missing("no mount covers it", "not-found")
    for blocks, total_mib in ((0, 0), (50, 1), (257, 2)):  # 0: without a limit, which 200 KiB are not
        monkeypatch.setattr(os, "statvfs", lambda _, n=blocks: SimpleNamespace(**{**ROOM, "f_blocks": n}))
        assert paths._path_facts("output", str(tmp_path), [])["total_mib"] == total_mib


def test_a_file_in_the_way_is_not_writable_below(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    facts: Callable[..., Any] = paths._path_facts
    below = facts("output", str(file / "below"), [("/", "ext4", "/dev/sda"), (str(tmp_path), "tmpfs", "t")])
    assert (below["exists"], below["writable"], below["filesystem"]) == (False, False, "tmpfs")
    itself = facts("output", str(file), [("/", "ext4", "/dev/sda")])
    assert (itself["exists"], itself["writable"], itself["source"]) == (True, False, "/dev/sda")
    assert facts("output", str(tmp_path / "new"), [])["writable"] is True


# --- facts and their reasons ---


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (PermissionError("p"), missing("p", "no-permission")),
        (FileNotFoundError("f"), missing("f", "not-found")),
        (ValueError("v"), missing("ValueError: v")),
    ],
    ids=["permission", "absence", "another"],
)
def test_an_exception_is_a_reason(error: Exception, told: dict[str, Any]) -> None:
    def fail() -> None:
        raise error

    assert explain_exception(error) == read_fact(fail) == told
    assert read_fact(lambda: 3) == 3


def test_a_reason_has_at_most_400_characters() -> None:
    assert truncate("x" * 400) == "x" * 400
    assert truncate("x" * 401) == "x" * 397 + "..."


# --- the kernel log: the first source that may be read ---


def ran(status: int, text: str) -> SimpleNamespace:
    return SimpleNamespace(status=status, text=text)


@pytest.mark.parametrize(
    ("answers", "source"),
    [
        ({"journalctl": ran(0, "a"), "dmesg": ran(0, "b")}, "journal"),
        ({"journalctl": ran(0, ""), "dmesg": ran(0, "b")}, "dmesg"),
        ({"journalctl": ran(1, "a"), "dmesg": ran(0, "b")}, "dmesg"),
        ({"dmesg": ran(0, "b")}, "dmesg"),
        ({"journalctl": ran(0, ""), "dmesg": ran(1, "b")}, None),
        ({}, None),
    ],
    ids=["journal", "empty journal", "refused journal", "no journal", "nothing", "no program"],
)
def test_the_kernel_log_comes_from_the_first_source_that_has_it(
    monkeypatch: pytest.MonkeyPatch, answers: dict[str, SimpleNamespace], source: str | None
) -> None:
    def refuse() -> str:
        raise PermissionError(1, "Operation not permitted")

    def run_command(argv: list[str], _timeout_s: float) -> SimpleNamespace:
        if argv[0] not in answers:
            raise FileNotFoundError(argv[0])
        return answers[argv[0]]

    monkeypatch.setattr(kernel_log, "_read_kmsg", refuse)
    monkeypatch.setattr(kernel_log, "run_command", run_command)
    emitted: list[Any] = []
    kernel_log.probe(read_request({}, None), lambda *each: emitted.append(each))
    ((name, value),) = emitted
    assert name == "kernel_log"
    assert value.get("source") == source
    assert ("missing" in value) == (source is None)
    monkeypatch.setattr(kernel_log, "_read_kmsg", lambda: "")
    kernel_log.probe(read_request({}, None), lambda *each: emitted.append(each))
    assert emitted[-1][1]["source"] == "kmsg"


def test_the_load_is_that_of_the_last_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (1.5, 5.5, 15.5))
    assert host.read_limits()["load_1min"] == 1.5


@pytest.mark.parametrize(("both", "told"), [((-1, -1), (-1, -1, -1)), ((4096, 8192), (4, 4096, 8192))])
def test_a_limit_that_is_none_is_told_as_minus_one(
    monkeypatch: pytest.MonkeyPatch, both: tuple[int, int], told: tuple[int, ...]
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: both)
    found = host.read_limits()
    assert tuple(found[name] for name in ("memlock_kib", "nofile", "nofile_hard")) == told


def test_the_programs_of_a_user_are_not_the_kernels() -> None:
    walk = ProcessWalk(frozenset())
    assert os.getpid() in walk.stats.keys() - walk.kernel


def test_memory_errors_of_later_drivers_are_summed_over_memories() -> None:
    volatile = {
        "sram_correctable": "1",
        "sram_uncorrectable_parity": "2",
        "sram_uncorrectable_secded": "4",
        "dram_correctable": "8",
        "dram_uncorrectable": "16",
    }
    aggregate = dict.fromkeys(volatile, "32") | {"sram_threshold_exceeded": "No"}
    told = {
        "ecc_mode": {"current_ecc": "Enabled"},
        "ecc_errors": {"volatile": volatile, "aggregate": aggregate},
    }
    assert parse_ecc(told) == {
        "enabled": True,
        "corrected_volatile": 9,
        "uncorrected_volatile": 22,
        "uncorrected_aggregate": 96,
    }


def test_all_that_a_command_prints_is_its_output() -> None:
    output = run_command(
        ["sh", "-c", "echo one; echo two >&2; head -c 200000 /dev/zero | tr '\\0' x; exit 3"], 60
    )
    assert output == (3, "one\ntwo\n" + "x" * 200_000)


def test_a_command_has_nothing_to_read() -> None:
    read_end, write_end = os.pipe()
    own = os.dup(0)
    try:
        os.dup2(read_end, 0)
        assert run_command(["readlink", "/proc/self/fd/0"], 60) == (0, "/dev/null\n")
    finally:
        os.dup2(own, 0)
        for fd in (read_end, write_end, own):
            os.close(fd)


def test_the_default_route_of_ipv6_is_the_one_with_the_lowest_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = "0" * 32
    lines = [
        f"{zeros} 00 {zeros} 00 {zeros} {metric} 00000001 00000000 00000003 {name}"
        for metric, name in (("00000400", "eth1"), ("00000064", "eth2"), ("00000001", "lo"))
    ]
    tables = {"/proc/net/route": "Iface\n", "/proc/net/ipv6_route": "\n".join(lines)}
    monkeypatch.setattr(network, "read_text_or", tables.__getitem__)
    assert network._default_interface() == "eth2"


# --- what a probe does not wait for ---

DEAR = ("threading", "socket", "hashlib", "ast", "sysconfig", "psutil", "subprocess")
"""Each takes longer to import than most probes take to look; a probe that needs one imports it at need."""
OFTEN = ("network", "processes_and_ports", "paths", "host", "python_env", "kernel_log", "script")


@pytest.mark.parametrize("probe", OFTEN)
def test_a_probe_starts_without_what_takes_longer_than_itself(probe: str) -> None:
    lone = f"import sys; sys.path.insert(0, {str(Path(__file__).parents[2])!r}); before = set(sys.modules); "
    code = f"{lone}import preflight.probes.{probe}; print(*sorted(set(sys.modules) - before))"
    ran = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    loaded = ran.stdout.split()
    assert f"preflight.probes.{probe}" in loaded
    assert not set(DEAR).intersection(loaded)


def test_psutil_is_loaded_only_for_processes_that_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(table_module, "import_psutil", lambda: asked.append(1))
    walk = ProcessWalk(frozenset())
    quiet = table_module.process_table(walk, set())
    assert (quiet["source"], quiet["processes"], asked) == ("proc", [], [])
    assert quiet["total"] == len(walk.stats) > 0
    (row,) = table_module.process_table(walk, {os.getpid()})["processes"]
    assert (row["pid"], asked) == (os.getpid(), [1])


def test_a_thread_that_fails_counts_as_ended_and_a_slow_one_is_left() -> None:
    assert start_thread(sys.exit).acquire(timeout=10)
    assert with_timeout(10, lambda: "answer") == "answer"
    assert with_timeout(10, lambda: 1 // 0)["missing"].startswith("ZeroDivisionError")
    never = start_thread(lambda: None)
    assert never.acquire(timeout=10)
    assert with_timeout(0.01, lambda: never.acquire(timeout=5)) == missing(
        "no answer within 0.01 s", "timeout"
    )
    never.release()


def test_the_address_of_a_name_that_idna_refuses_is_absent_and_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    odd = SimpleNamespace(nodename="gpu..invalid")
    monkeypatch.setattr(network, "os", SimpleNamespace(**{**vars(os), "uname": lambda: odd}))
    told: dict[str, Any] = {}
    network.probe(read_request({}, None), lambda name, value: told.update({name: value}))
    assert told["network"]["interfaces"]
    assert set(told["network"]["own_name_addresses"]) == {"missing", "code"}
