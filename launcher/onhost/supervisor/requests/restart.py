"""restart: hold the lock on the next start of a run for a client, as long as that client is connected.

After the answer the client says: `beat`; `sure` before it starts anything; then `restarted RUN_ID` or
`ended WHY`. `sure` and the last two are answered by a frame with `noted`, which is false when it is too late.
"""

import contextlib
import os
import select
from typing import Any

from .. import next_start
from ..client_files import record_heartbeat
from ..files import write_all
from ..processes import is_same
from ..protocol import RequestRefused, encode_frame, send_header

SILENT_S = 60.0  # a client speaks every 5 s


def serve(run_dir: str, request: dict[str, Any]) -> int:
    """Hold the lock until the client is gone, or report its owner. Raises RequestRefused after an end."""
    document = next_start.read_next(run_dir)
    if not next_start.is_kept(document):
        send_header({"granted": False, "kept": False, "next": document})
        return 0
    try:
        fd = next_start.open_order(document)
    except OSError as error:
        fd = -1
        if is_same(*document["keeper"]):
            raise RequestRefused("what the restart needs cannot be read: %s" % error.strerror) from None
    if fd < 0 or not (next_start.try_lock(fd) and next_start.is_kept(next_start.read_next(run_dir))):
        if fd >= 0:
            os.close(fd)
        document = next_start.read_next(run_dir)
        send_header({"granted": False, "kept": next_start.is_kept(document), "next": document})
        return 0
    by = str(request.get("by") or "a client")[:200]
    document = next_start.read_next(run_dir)
    document["whole"] = bool(document.get("whole") or request.get("whole"))
    with contextlib.suppress(OSError):  # a full disk: the lock is what counts
        next_start.write_next(run_dir, next_start.RESTARTING, document=document, by=by, restarter=os.getpid())
    order = next_start.read_order(fd) if request.get("order") else ""
    send_header({"granted": True, "next": next_start.read_next(run_dir), "order": order})
    follow_client(run_dir)
    if next_start.read_next(run_dir).get("state") == next_start.RESTARTING:
        with contextlib.suppress(OSError):
            next_start.write_next(run_dir, next_start.HELD)
    os.close(fd)
    return 0


def follow_client(run_dir: str) -> None:
    """Obey the client's words until it is gone."""
    rest = b""
    while select.select([0], [], [], SILENT_S)[0]:
        data = os.read(0, 65536)
        if not data:
            return
        record_heartbeat(run_dir)
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            word, _, words = line.decode("utf-8", "replace").partition(" ")
            if word != "beat":
                noted = obey_word(run_dir, word, words)
                with contextlib.suppress(OSError):
                    write_all(1, encode_frame({"noted": noted, "next": next_start.read_next(run_dir)}))


def obey_word(run_dir: str, word: str, argument: str) -> bool:
    """Note what the client has decided; return False when it was stopped meanwhile."""
    if next_start.read_next(run_dir).get("state") == next_start.RESTARTED and word == next_start.RESTARTED:
        return True  # the new start has said so itself
    if not next_start.is_kept(next_start.read_next(run_dir)):
        return False
    if word == next_start.RESTARTED:
        next_start.write_next(run_dir, next_start.RESTARTED, run_id=argument, by="client")
    elif word == next_start.ENDED:
        next_start.write_next(run_dir, next_start.ENDED, why=argument[:500], by="client")
    return True
