"""GPUs that other runs have claimed on this host."""

from __future__ import annotations

import fcntl
import json
import os
from stat import S_ISREG

from .fact import Json
from .reading import text_or
from .users import user_name

_CLAIMS_DIR = "/tmp"  # noqa: S108 - as launcher/onhost/supervising/claims.py
_CLAIM_PREFIX = "gpulaunch-claim-"


def gpu_claims() -> list[Json]:
    """Return facts.GpuClaim for every live claim: its file is locked by the run, in this boot."""
    boot = text_or("/proc/sys/kernel/random/boot_id")
    found = []
    for name in sorted(os.listdir(_CLAIMS_DIR)):
        if not name.startswith(_CLAIM_PREFIX):
            continue
        claim = _claim(os.path.join(_CLAIMS_DIR, name), boot)
        if claim is not None:
            uuid = name[len(_CLAIM_PREFIX) :].rpartition(".")[0]
            found.append({"gpu_uuid": uuid, **claim})
    return found


def _claim(path: str, boot: str) -> Json | None:
    """Read one claim; None when it is none, or provably its owner's no more."""
    try:
        # Anybody may have put anything there: a link is not followed, a FIFO does not hold us.
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(fd)
        if not S_ISREG(status.st_mode):
            return None
        try:
            said = json.loads(os.read(fd, 4096))
            run_id, pid = str(said["run_id"]), int(said["pid"])
            since, written_in = float(said["since"]), said["boot_id"]
        except (OSError, ValueError, TypeError, KeyError):
            run_id, pid, since, written_in = "", 0, status.st_mtime, boot
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            if written_in != boot:
                return None
        else:
            return None  # nobody holds it
        uid = status.st_uid
        return {"run_id": run_id, "user": user_name(uid), "uid": uid, "pid": pid, "since_unix": since}
    finally:
        os.close(fd)
