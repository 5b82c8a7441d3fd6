"""Claims of GPUs as the agent reads them: which files are claims, and which of them count."""

import fcntl
import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest

from preflight.probes import claim_files, host, namespaces
from preflight.probes.files import read_text_or


def claim(**more: Any) -> dict[str, Any]:
    known = {
        "gpu": "GPU-1",
        "run_id": "r-1",
        "boot_id": read_text_or("/proc/sys/kernel/random/boot_id"),
        "pid": 42,
        "pid_namespace": namespaces.read_own_namespace("pid"),
        "since": 5.0,
    }
    return {**known, **more}


def put_claim(folder: Path, text: str, name: str = "gpulaunch-claim-GPU-1.a", *, locked: bool = True) -> int:
    fd = os.open(folder / name, os.O_RDWR | os.O_CREAT, 0o600)
    os.write(fd, text.encode())
    if locked:  # F_OFD_SETLK, as a run takes it
        fcntl.fcntl(fd, 37, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
    return fd


BAD_FIELDS: list[dict[str, Any]] = [
    *({"pid": value} for value in (0, 1 << 32, 4.0, True)),
    *({"since": value} for value in (-0.1, 1e11, 5)),
    *({"run_id": value} for value in ("", "r" * 81, "a b", 7)),
    *({name: None} for name in ("gpu", "boot_id", "pid_namespace")),
]


@pytest.mark.parametrize(
    ("text", "run"),
    [
        (json.dumps(claim()), ("r-1", 42, 5.0)),
        (json.dumps(claim(pid_namespace="1")), ("r-1", 0, 5.0)),
        (json.dumps(claim(pid=1)), ("r-1", 1, 5.0)),
        (json.dumps(claim(pid=(1 << 32) - 1)), ("r-1", (1 << 32) - 1, 5.0)),
        (json.dumps(claim(since=0.0)), ("r-1", 42, 0.0)),
        (json.dumps(claim(run_id="r" * 80)), ("r" * 80, 42, 5.0)),
        (json.dumps(claim(boot_id="another")), None),
        (json.dumps(claim(gpu="GPU-2")), None),
        *((json.dumps(claim(**each)), ("", 0, None)) for each in BAD_FIELDS),
        ("[]", ("", 0, None)),
        ("no json", ("", 0, None)),
        ("", ("", 0, None)),
        (json.dumps(claim()).ljust(4096), ("r-1", 42, 5.0)),
        (json.dumps(claim()).ljust(4097), ("", 0, None)),
    ],
)  # fmt: skip
def test_a_claim_counts_while_its_lock_is_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, run: tuple[str, int, float | None] | None
) -> None:
    monkeypatch.setattr(host, "_CLAIMS_DIR", str(tmp_path))
    fd = put_claim(tmp_path, text)
    try:
        found = host.list_gpu_claims()
        since = os.fstat(fd).st_mtime
    finally:
        os.close(fd)
    if run is None:
        assert found == []
        return
    assert [(each["gpu_uuid"], each["uid"]) for each in found] == [("GPU-1", os.getuid())]
    (row,) = found
    assert (row["run_id"], row["pid"], row["since_unix"]) == (*run[:2], since if run[2] is None else run[2])
    assert host.list_gpu_claims() == []  # closed, and so no longer held


def test_what_is_not_a_file_of_a_claim_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host, "_CLAIMS_DIR", str(tmp_path))
    fds = [
        put_claim(tmp_path, json.dumps(claim()), "gpulaunch-claim-GPU-1.free", locked=False),
        put_claim(tmp_path, json.dumps(claim()), "gpulaunch-claim-GPU-1.UPPER"),
        put_claim(tmp_path, json.dumps(claim()), "another"),
    ]
    (tmp_path / "gpulaunch-claim-GPU-1.link").symlink_to(tmp_path / "another")
    (tmp_path / "gpulaunch-claim-GPU-1.folder").mkdir()
    os.mkfifo(tmp_path / "gpulaunch-claim-GPU-1.fifo")
    try:
        assert host.list_gpu_claims() == []
    finally:
        for fd in fds:
            os.close(fd)


def test_of_one_owner_the_newest_256_claims_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "_CLAIMS_DIR", str(tmp_path))
    for number in range(258):
        path = tmp_path / f"gpulaunch-claim-GPU-{number}.a"
        path.write_text("")
        os.utime(path, (number, number))
    found = {
        Path(each).name for each in claim_files.list_newest_by_owner(str(tmp_path), host._CLAIM.fullmatch)
    }
    assert found == {f"gpulaunch-claim-GPU-{number}.a" for number in range(2, 258)}
