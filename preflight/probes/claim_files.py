"""Files in /tmp by which runs claim GPUs and wait for them, as any user of a host may have left them.

The supervisor makes and reads them (launcher/onhost/supervisor/gpu_claims.py says what their lock is worth),
and this module travels with it as with the agent.
"""

import fcntl
import json
import os
import re
import stat
import struct
from typing import Any, Callable, NamedTuple, TypeVar

CLAIMS_DIR = "/tmp"  # noqa: S108 - root's and sticky: a user cannot delete another user's claim
CLAIM_PREFIX = "gpulaunch-claim-"
MAX_BYTES = 4096  # of one claim
MAX_FILES = 256  # read per owner, so that one user's files cannot hide another user's
FLOCK = "hhqqi4x"  # struct flock: type, whence, start, length, pid
OFD_GETLK = 36  # include/uapi/asm-generic/fcntl.h

T = TypeVar("T")


class Place(NamedTuple):
    """Where a claim's pid means something."""

    boot_id: str
    pid_namespace: str


def claim_name(gpu: str) -> str:
    """Return the prefix of all file names that claim a GPU."""
    return CLAIM_PREFIX + re.sub(r"[^A-Za-z0-9-]", "_", gpu) + "."


def list_files_by_owner(
    directory: str, accepts: Callable[[str], object], order: Callable[[os.stat_result], Any]
) -> list[list[str]]:
    """Return files with such names, by owner and in this order. Raises OSError for the directory."""
    found: dict[int, list[tuple[Any, str]]] = {}
    with os.scandir(directory) as entries:
        for entry in entries:
            if accepts(entry.name):
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                found.setdefault(status.st_uid, []).append((order(status), entry.path))
    return [[path for _, path in sorted(files)] for files in found.values()]


def list_newest_by_owner(directory: str, accepts: Callable[[str], object]) -> list[str]:
    """Return the files with such names, of each owner the newest MAX_FILES. Raises OSError."""
    owners = list_files_by_owner(directory, accepts, lambda status: status.st_mtime)
    return [path for files in owners for path in files[: -MAX_FILES - 1 : -1]]


def is_locked(fd: int) -> bool:
    """Return whether a process that may write the file holds its lock; True where that is not known."""
    question = struct.pack(FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
    try:
        answer = fcntl.fcntl(fd, OFD_GETLK, question)
    except OSError:
        return True
    return bool(struct.unpack(FLOCK, answer)[0] != fcntl.F_UNLCK)


def read_claim(path: str, place: Place) -> "tuple[dict[str, Any], int, bool] | None":
    """Return (content, owner's uid, whether it is live) of a claim.

    None when the file is gone or not a claim. Other content counts for its owner while that holds the lock.
    """

    def judge(fd: int, found: os.stat_result) -> "tuple[dict[str, Any], int, bool] | None":
        said = parse_claim(os.read(fd, MAX_BYTES + 1), place.pid_namespace)
        if said and claim_name(said["gpu"]) != os.path.basename(path).rpartition(".")[0] + ".":
            return None  # a hard link to the claim of another GPU
        live = said.get("boot_id", place.boot_id) == place.boot_id and is_locked(fd)
        return said or {"run_id": "", "pid": 0, "since": found.st_mtime}, found.st_uid, live

    return read_foreign(path, judge)


def read_foreign(path: str, judge: "Callable[[int, os.stat_result], T | None]") -> "T | None":
    """Return what `judge` makes of an open file that any user may have created, None where it is none.

    A symlink is not followed, and a FIFO cannot block the read.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        return judge(fd, found) if stat.S_ISREG(found.st_mode) else None
    except OSError:
        return None
    finally:
        os.close(fd)


def read_object(data: bytes, most: int) -> dict[str, Any]:
    """Return the JSON object that a short file of any user holds, empty where it holds none."""
    try:
        said = json.loads(data) if len(data) <= most else None
    except (ValueError, RecursionError):
        return {}
    return said if isinstance(said, dict) else {}


def parse_claim(data: bytes, pid_namespace: str) -> dict[str, Any]:
    """Return the content of a claim, empty if malformed; pid 0: it is of another PID namespace."""
    said = read_object(data, MAX_BYTES)
    pid, since = said.get("pid"), said.get("since")
    if not all(isinstance(said.get(name), str) for name in ("gpu", "boot_id", "pid_namespace")):
        return {}
    if type(pid) is not int or not 0 < pid < 1 << 32 or type(since) is not float or not 0 <= since < 1e11:
        return {}
    if not isinstance(said.get("run_id"), str) or not re.fullmatch(r"[A-Za-z0-9_.-]{1,80}", said["run_id"]):
        return {}
    return {**said, "pid": pid if said["pid_namespace"] == pid_namespace else 0}
