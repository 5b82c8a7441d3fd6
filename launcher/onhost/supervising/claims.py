"""Which GPUs a run has: each is claimed by a file in /tmp that supervisor and guardian keep locked.

The kernel lets go of the lock when both are gone, so a claim is believed exactly as long as its run lives.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import pwd
import re
import stat
import time
from typing import Any

from .processes import boot_id, ticks_of
from .wire import Refused

CLAIMS_DIR = "/tmp"  # noqa: S108 - root's and sticky: nobody deletes another user's claim
CLAIM_PREFIX = "gpulaunch-claim-"
ATTEMPTS = 5
FRESH_S = 60.0  # younger, an unlocked claim may be about to be locked
LOCK_WAIT_S = 1.0


def take_claims(spec: dict[str, Any]) -> tuple[dict[str, int], str]:
    """Claim every GPU of the run; return {path: descriptor} and what did not work. Raises Refused.

    Each first claims and then looks for others, so of two at once never both go on; who finds the other
    steps back for a random while, so mostly one does.
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
        refusal = first_rival(directory, gpus, mine)
        if not refusal:
            return mine, ""
        release_claims(mine)
        time.sleep((0.02 + os.urandom(1)[0] / 1000.0) * (attempt + 1))
    raise Refused(refusal)


def release_claims(claims: dict[str, int]) -> None:
    """Give the GPUs back."""
    for path, fd in claims.items():
        with contextlib.suppress(OSError):
            os.unlink(path)
        with contextlib.suppress(OSError):
            os.close(fd)
    claims.clear()


def make_claim(directory: str, gpu: str, run_id: str) -> tuple[str, int]:
    """Create and lock a claim; return its path and the descriptor that holds the lock. Raises OSError."""
    path = os.path.join(directory, claim_name(gpu) + os.urandom(6).hex())
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    try:
        os.fchmod(fd, 0o644)
        lock(fd)
        me = os.getpid()
        said = {"gpu": gpu, "run_id": run_id, "boot_id": boot_id(), "pid": me, "ticks": ticks_of(me)}
        os.write(fd, json.dumps({**said, "since": time.time()}).encode())
    except BaseException:
        os.close(fd)
        os.unlink(path)
        raise
    return path, fd


def lock(fd: int) -> None:
    """Lock a new claim, which a reader may hold for a moment. Raises OSError when it stays locked."""
    give_up = time.monotonic() + LOCK_WAIT_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > give_up:
                raise
            time.sleep(0.005)
        else:
            return


def first_rival(directory: str, gpus: list[str], mine: dict[str, int]) -> str:
    """Return who else claims one of these GPUs, as a sentence; "" when nobody does."""
    for gpu in gpus:
        rival = rival_of(directory, gpu, mine)
        if rival:
            return "GPU %s is claimed by %s" % (gpu, rival)
    return ""


def rival_of(directory: str, gpu: str, mine: dict[str, int]) -> str:
    """Return who else claims a GPU, "" when nobody does; what is provably over and ours is removed."""
    for path in claim_paths(directory, gpu):
        found = None if path in mine else read_claim(path)
        if found is None:
            continue
        said, uid, live = found
        if live:
            return "run %s of %s (pid %s)" % (said.get("run_id", "?"), user_name(uid), said.get("pid", "?"))
        with contextlib.suppress(OSError):
            if uid == os.geteuid() and time.time() - os.stat(path).st_mtime > FRESH_S:
                os.unlink(path)
    return ""


def claim_name(gpu: str) -> str:
    """Return how the names of all files begin that claim a GPU."""
    return CLAIM_PREFIX + re.sub(r"[^A-Za-z0-9-]", "_", gpu) + "."


def claim_paths(directory: str, gpu: str) -> list[str]:
    """Return the files that claim a GPU, live or not."""
    start = claim_name(gpu)
    with contextlib.suppress(OSError):
        return [os.path.join(directory, name) for name in os.listdir(directory) if name.startswith(start)]
    return []


def read_claim(path: str) -> tuple[dict[str, Any], int, bool] | None:
    """Return (what a claim says, its owner's uid, whether it is live); None: no claim, or gone."""
    try:
        # O_NONBLOCK: somebody may have put a FIFO there.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            return None
        try:
            said = json.loads(os.read(fd, 4096))
        except (OSError, ValueError):
            said = {}
        said = said if isinstance(said, dict) else {}
        return said, found.st_uid, is_live(fd, said)
    finally:
        os.close(fd)


def is_live(fd: int, said: dict[str, Any]) -> bool:
    """Return whether the run behind a claim may still live: its lock is held, and in this boot."""
    if said.get("boot_id", boot_id()) != boot_id():
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno == errno.EWOULDBLOCK
    fcntl.flock(fd, fcntl.LOCK_UN)
    return False


def user_name(uid: int) -> str:
    """Return the name of a user, the number where there is none."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
