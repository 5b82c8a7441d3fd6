"""GPU claims of a run: one file in /tmp per GPU, which supervisor and guardian keep locked.

The kernel releases the lock when both are gone, so a claim is valid exactly as long as its run lives.
All users may read a claim, and only its owner may write it: the lock is one for writing, of an open file
description (F_OFD_SETLK), which needs a writable descriptor. With flock(2), any user who can read a file
can lock it, and so keep the claim of a dead run alive in its owner's name. A reader queries the lock
without taking it, so it blocks no other process. preflight/probes/claims.py reads claims in the same way.
"""

import contextlib
import fcntl
import json
import os
import pwd
import re
import stat
import struct
import time
from typing import Any, Callable, TypeVar

from .processes import boot_id, own_namespaces, ticks_of
from .protocol import RequestRefused

CLAIMS_DIR = "/tmp"  # noqa: S108 - root's and sticky: a user cannot delete another user's claim
CLAIM_PREFIX = "gpulaunch-claim-"
ATTEMPTS = 5
FRESH_S = 60.0  # an unlocked claim younger than this may be about to be locked
MAX_BYTES = 4096  # of one claim
MAX_FILES = 256  # read per owner, so that one user's files cannot hide another user's

T = TypeVar("T")
FLOCK = "hhqqi4x"  # struct flock: type, whence, start, length, pid
OFD_GETLK, OFD_SETLK = 36, 37  # include/uapi/asm-generic/fcntl.h


def acquire_claims(spec: dict[str, Any]) -> tuple[dict[str, int], str]:
    """Claim every GPU of the run; return {path: descriptor} and a description of failures.

    Raises RequestRefused.

    Each run first claims and then looks for others, so of two simultaneous runs at most one continues. A run
    that finds another one releases its claims for a random while, so usually one of them succeeds.
    """
    gpus = spec.get("gpus") or []
    directory = spec.get("claims_dir") or CLAIMS_DIR
    refusal = ""
    for attempt in range(ATTEMPTS):
        mine: dict[str, int] = {}
        try:
            mine.update(make_claim(directory, gpu, spec["run_id"]) for gpu in gpus)
        except OSError as error:
            release_claims(mine)
            return {}, "the GPUs cannot be claimed in %s: %s" % (directory, error.strerror)
        refusal = find_conflict(directory, gpus, mine)
        if not refusal:
            return mine, ""
        release_claims(mine)
        time.sleep((0.02 + os.urandom(1)[0] / 1000.0) * (attempt + 1))
    raise RequestRefused(refusal)


def release_claims(claims: dict[str, int]) -> None:
    """Release the claims."""
    for path, fd in claims.items():
        release(path, fd)
    claims.clear()


def release(path: str, fd: int) -> None:
    """Remove a file of `make_locked`, and let go of its lock."""
    with contextlib.suppress(OSError):
        os.unlink(path)
    with contextlib.suppress(OSError):
        os.close(fd)


def make_claim(directory: str, gpu: str, run_id: str) -> tuple[str, int]:
    """Create and lock a claim; return its path and the descriptor that holds the lock. Raises OSError.

    The claim becomes readable only once it is locked and complete.
    """
    me = os.getpid()
    said = {"gpu": gpu, "run_id": run_id, "boot_id": boot_id(), "pid": me, "ticks": ticks_of(me)}
    said.update(pid_namespace=own_namespaces()[0], since=time.time())
    return make_locked(os.path.join(directory, claim_name(gpu)), said)


def make_locked(start: str, document: dict[str, Any]) -> tuple[str, int]:
    """Create a file of a random name after `start`, locked and complete before others can read it.

    Returns its path and the descriptor that holds the lock. Raises OSError.
    """
    path = start + os.urandom(6).hex()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        lock(fd)
        os.write(fd, json.dumps(document).encode())
        os.fchmod(fd, 0o644)  # its last change
    except BaseException:
        release(path, fd)
        raise
    return path, fd


def lock(fd: int) -> None:
    """Lock one of the run's own claims while its descriptor, or a copy of that, is open. Raises OSError."""
    fcntl.fcntl(fd, OFD_SETLK, struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))


def is_locked(fd: int) -> bool:
    """Return whether a process that may write the file holds its lock.

    True where that cannot be determined.
    """
    question = struct.pack(FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
    try:
        answer = fcntl.fcntl(fd, OFD_GETLK, question)
    except OSError:
        return True
    return bool(struct.unpack(FLOCK, answer)[0] != fcntl.F_UNLCK)


def find_conflict(directory: str, gpus: list[str], mine: dict[str, int]) -> str:
    """Return the conflicting claim on one of these GPUs, as a sentence; "" when none exists."""
    for gpu in gpus:
        rival = conflict_of(directory, gpu, mine)
        if rival:
            return "GPU %s is claimed by %s" % (gpu, rival)
    return ""


def conflict_of(directory: str, gpu: str, mine: dict[str, int]) -> str:
    """Return the conflicting claim on a GPU, "" when none exists.

    The user's own claims of dead runs are removed.
    """
    for path in claim_paths(directory, gpu):
        found = None if path in mine else read_claim(path)
        if found is None:
            continue
        said, uid, live = found
        if live:
            run = "run %s" % said["run_id"] if said["run_id"] else "a run that does not say its name"
            pid = " (pid %d)" % said["pid"] if said["pid"] else ""
            return "%s of %s%s" % (run, user_name(uid), pid)
        with contextlib.suppress(OSError):
            if uid == os.geteuid() and time.time() - os.stat(path).st_mtime > FRESH_S:
                os.unlink(path)
    return ""


def claim_name(gpu: str) -> str:
    """Return the prefix of all file names that claim a GPU."""
    return CLAIM_PREFIX + re.sub(r"[^A-Za-z0-9-]", "_", gpu) + "."


def claim_paths(directory: str, gpu: str) -> list[str]:
    """Return the files that claim a GPU, live or not; at most MAX_FILES per owner, the newest ones."""
    start = claim_name(gpu)
    owners = files_by_owner(directory, lambda name: name.startswith(start), lambda status: status.st_mtime)
    return [path for files in owners for path in files[: -MAX_FILES - 1 : -1]]


def files_by_owner(
    directory: str, accepts: Callable[[str], object], order: Callable[[os.stat_result], Any]
) -> list[list[str]]:
    """Return the files with such names, those of each owner for themselves and in this order."""
    found: dict[int, list[tuple[Any, str]]] = {}
    with contextlib.suppress(OSError), os.scandir(directory) as entries:
        for entry in entries:
            if accepts(entry.name):
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    found.setdefault(status.st_uid, []).append((order(status), entry.path))
    return [[path for _, path in sorted(files)] for files in found.values()]


def read_claim(path: str) -> tuple[dict[str, Any], int, bool] | None:
    """Return (content, owner's uid, whether it is live) of a claim.

    None when the file is gone or not a claim. Other content counts for its owner while that holds the lock.
    """

    def judge(fd: int, found: os.stat_result) -> tuple[dict[str, Any], int, bool] | None:
        said = parse_claim(os.read(fd, MAX_BYTES + 1))
        if said and claim_name(said["gpu"]) != os.path.basename(path).rpartition(".")[0] + ".":
            return None  # a hard link to the claim of another GPU
        live = said.get("boot_id", boot_id()) == boot_id() and is_locked(fd)
        return said or {"run_id": "", "pid": 0}, found.st_uid, live

    return read_foreign(path, judge)


def read_foreign(path: str, judge: Callable[[int, os.stat_result], T | None]) -> T | None:
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


def parse_claim(data: bytes) -> dict[str, Any]:
    """Return the content of a claim, empty if it is malformed.

    The pid is 0 if it belongs to another PID namespace.
    """
    said = read_object(data, MAX_BYTES)
    pid, since = said.get("pid"), said.get("since")
    if not all(isinstance(said.get(name), str) for name in ("gpu", "boot_id", "pid_namespace")):
        return {}
    if type(pid) is not int or not 0 < pid < 1 << 32 or type(since) is not float or not 0 <= since < 1e11:
        return {}
    if not isinstance(said.get("run_id"), str) or not re.fullmatch(r"[A-Za-z0-9_.-]{1,80}", said["run_id"]):
        return {}
    return {**said, "pid": pid if said["pid_namespace"] == own_namespaces()[0] else 0}


def user_name(uid: int) -> str:
    """Return the name of a user, the uid if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
