"""GPU claims of a run: one file in /tmp per GPU, which supervisor and guardian keep locked.

The kernel releases the lock when both are gone, so a claim is valid exactly as long as its run lives.
All users may read a claim, and only its owner may write it: the lock is one for writing, of an open file
description (F_OFD_SETLK), which needs a writable descriptor. With flock(2), any user who can read a file
can lock it, and so keep the claim of a dead run alive in its owner's name. A reader queries the lock
without taking it, so it blocks no other process. preflight/probes/claim_files.py reads them.
"""

import contextlib
import fcntl
import json
import os
import pwd
import struct
import time
from typing import Any

from preflight.probes.claim_files import CLAIMS_DIR, FLOCK, Place, claim_name, list_newest_by_owner
from preflight.probes.claim_files import read_claim as read_claim_file

from .processes import read_boot_id, read_own_namespaces, read_start_ticks
from .protocol import RequestRefused

ATTEMPTS = 5
FRESH_S = 60.0  # an unlocked claim younger than this may be about to be locked
OFD_SETLK = 37  # include/uapi/asm-generic/fcntl.h


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
    raise RequestRefused(refusal, "gpulaunch run --wait 2h waits for it; --gpus or --hosts choose others")


def release_claims(claims: dict[str, int]) -> None:
    """Release the claims."""
    for path, fd in claims.items():
        release_file(path, fd)
    claims.clear()


def release_file(path: str, fd: int) -> None:
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
    said = {"gpu": gpu, "run_id": run_id, "boot_id": read_boot_id(), "pid": me, "ticks": read_start_ticks(me)}
    said.update(pid_namespace=read_own_namespaces()[0], since=time.time())
    return make_locked(os.path.join(directory, claim_name(gpu)), said)


def make_locked(start: str, document: dict[str, Any]) -> tuple[str, int]:
    """Create a file of a random name after `start`, locked and complete before others can read it.

    Returns its path and the descriptor that holds the lock. Raises OSError.
    """
    path = start + os.urandom(6).hex()
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        lock_claim(fd)
        os.write(fd, json.dumps(document).encode())
        os.fchmod(fd, 0o644)  # its last change
    except BaseException:
        release_file(path, fd)
        raise
    return path, fd


def lock_claim(fd: int) -> None:
    """Lock one of the run's own claims while its descriptor, or a copy of that, is open. Raises OSError."""
    fcntl.fcntl(fd, OFD_SETLK, struct.pack(FLOCK, fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))


def find_conflict(directory: str, gpus: list[str], mine: dict[str, int]) -> str:
    """Return the conflicting claim on one of these GPUs, as a sentence; "" when none exists."""
    for gpu in gpus:
        rival = find_gpu_conflict(directory, gpu, mine)
        if rival:
            return "GPU %s is claimed by %s" % (gpu, rival)
    return ""


def find_gpu_conflict(directory: str, gpu: str, mine: dict[str, int]) -> str:
    """Return the conflicting claim on a GPU, "" without one; remove the user's own of dead runs."""
    for path in claim_paths(directory, gpu):
        found = None if path in mine else read_claim(path)
        if found is None:
            continue
        said, uid, live = found
        if live:
            run = "run %s" % said["run_id"] if said["run_id"] else "a run that does not say its name"
            pid = " (pid %d)" % said["pid"] if said["pid"] else ""
            return "%s of %s%s" % (run, read_user_name(uid), pid)
        with contextlib.suppress(OSError):
            if uid == os.geteuid() and time.time() - os.stat(path).st_mtime > FRESH_S:
                os.unlink(path)
    return ""


def claim_paths(directory: str, gpu: str) -> list[str]:
    """Return the files that claim a GPU, live or not; at most MAX_FILES per owner, the newest ones."""
    start = claim_name(gpu)
    try:
        return list_newest_by_owner(directory, lambda name: name.startswith(start))
    except OSError:
        return []


def read_claim(path: str) -> tuple[dict[str, Any], int, bool] | None:
    """Return (content, owner's uid, whether it is live) of a claim, None where it is none."""
    return read_claim_file(path, Place(read_boot_id(), read_own_namespaces()[0]))


def read_user_name(uid: int) -> str:
    """Return the name of a user, the uid if it has none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
