"""GPUs that other runs have claimed on this host."""

import fcntl
import json
import os
import re
import struct
from stat import S_ISREG

from .fact import Json
from .files import text_or
from .namespaces import own_namespace
from .users import user_name

_CLAIMS_DIR = "/tmp"  # noqa: S108 - as launcher/onhost/supervisor/gpu_claims.py
_CLAIM = re.compile(r"gpulaunch-claim-([A-Za-z0-9_-]{1,100})\.[0-9a-z]{1,64}")
_MOST_BYTES = 4096
_MOST_FILES = 256  # of one owner, so that many of one's hide no other user's

_FLOCK = "hhqqi4x"  # struct flock: type, whence, start, length, pid
_OFD_GETLK = 36  # include/uapi/asm-generic/fcntl.h


def gpu_claims() -> list[Json]:
    """Return facts.GpuClaim for every live claim: its owner's run holds the lock on its file, in this boot.

    launcher/onhost/supervisor/gpu_claims.py says why that lock cannot be held by another user.
    """
    found = []
    for path in _claim_files():
        name = _CLAIM.fullmatch(os.path.basename(path))
        claim = _claim(path, name.group(1)) if name else None
        if claim is not None:
            found.append(claim)
    return found


def _claim_files() -> list[str]:
    """Return files that are named as claims are; of one owner only so many, the newest."""
    found: dict[int, list[tuple[float, str]]] = {}
    with os.scandir(_CLAIMS_DIR) as entries:
        for entry in entries:
            if _CLAIM.fullmatch(entry.name):
                try:
                    status = entry.stat(follow_symlinks=False)
                except OSError:
                    continue
                found.setdefault(status.st_uid, []).append((status.st_mtime, entry.path))
    return sorted(path for files in found.values() for _, path in sorted(files, reverse=True)[:_MOST_FILES])


def _claim(path: str, gpu: str) -> Json | None:
    """Read one claim; None when it is none, or no run holds it.

    Any user may have put anything into it: a link is not followed, a FIFO does not hold us, and what is not a
    claim counts for its owner only while that one holds the lock.
    """
    boot = text_or("/proc/sys/kernel/random/boot_id")
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if not S_ISREG(status.st_mode):
            return None
        content = _parse(os.read(fd, _MOST_BYTES + 1))
        # A hard link to the claim of another GPU, a claim of an earlier boot, or one without a holder.
        if content and (re.sub(r"[^A-Za-z0-9-]", "_", content["gpu"]) != gpu or content["boot_id"] != boot):
            return None
        if not _is_locked(fd):
            return None
        uid = status.st_uid
        known = content or {"run_id": "", "pid": 0, "since": status.st_mtime}
        return {
            "gpu_uuid": gpu,
            "run_id": known["run_id"],
            "user": user_name(uid),
            "uid": uid,
            "pid": known["pid"],
            "since_unix": known["since"],
        }
    except OSError:
        return None
    finally:
        os.close(fd)


def _is_locked(fd: int) -> bool:
    """Return whether a user who may write the file holds its lock; where that cannot be read, it may be."""
    question = struct.pack(_FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
    try:
        answer = fcntl.fcntl(fd, _OFD_GETLK, question)
    except OSError:
        return True
    return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)


def _parse(data: bytes) -> Json:
    """Return what a claim says, a pid only where it is one of ours; empty when it has not our form."""
    try:
        claim = json.loads(data) if len(data) <= _MOST_BYTES else None
    except (ValueError, RecursionError):
        return {}
    if not isinstance(claim, dict):
        return {}
    pid, since = claim.get("pid"), claim.get("since")
    if not all(isinstance(claim.get(name), str) for name in ("gpu", "boot_id", "pid_namespace")):
        return {}
    if type(pid) is not int or not 0 < pid < 1 << 32 or type(since) is not float or not 0 <= since < 1e11:
        return {}
    if not isinstance(claim.get("run_id"), str) or not re.fullmatch(r"[A-Za-z0-9_.-]{1,80}", claim["run_id"]):
        return {}
    return {**claim, "pid": pid if claim["pid_namespace"] == own_namespace("pid") else 0}
