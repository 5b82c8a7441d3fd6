"""GPUs that other runs have claimed on this host."""

import os
import re

from .claim_files import CLAIMS_DIR, Place, newest_by_owner, read_claim
from .fact import Json
from .files import text_or
from .namespaces import own_namespace
from .users import user_name

_CLAIMS_DIR = CLAIMS_DIR
_CLAIM = re.compile(r"gpulaunch-claim-([A-Za-z0-9_-]{1,100})\.[0-9a-z]{1,64}")


def gpu_claims() -> list[Json]:
    """Return facts.GpuClaim for every live claim: a run of its owner holds its lock, in this boot."""
    place = Place(text_or("/proc/sys/kernel/random/boot_id"), own_namespace("pid"))
    found = []
    for path in sorted(newest_by_owner(_CLAIMS_DIR, _CLAIM.fullmatch)):
        name, claim = _CLAIM.fullmatch(os.path.basename(path)), read_claim(path, place)
        if name is None or claim is None or not claim[2]:
            continue
        said, uid, _ = claim
        found.append(
            {
                "gpu_uuid": name.group(1),
                "run_id": said["run_id"],
                "user": user_name(uid),
                "uid": uid,
                "pid": said["pid"],
                "since_unix": said["since"],
            }
        )
    return found
