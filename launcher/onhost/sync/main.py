r"""Streamed program: receive the files of a working tree in one directory. Standard library, >= 3.9.

stdin, one JSON line each, in this order, and the answers:
  {"target": DIR, "nonce": N}    {"root": PATH, "rsync": PATH or ""}; leaves a file named after N
                                 in DIR/.gpulaunch-sync
  {"nonces": [N, ...]}           {"seen": [N, ...]}; hosts that see each other's share one directory
  {"stamps": BYTES}, then that many bytes of zlib: a JSON list of paths
                                 {"stamps": [[size, time in s] or null, ...]}, as this host sees them
  {"entries": BYTES, "delete": BOOL}, then that many bytes of zlib: a JSON list of
      [path, "f", mode, size, sha256] and [path, "l", 0, 0, link target]
                                 {"need": [index, ...]}; entries that the host lacks
  {"adopt": [index, ...]}        {"adopted": [index, ...]}; complete ones that rsync has put in
                                 incoming-N/tree
  {"put": index}, then chunks "<length>\n<zlib bytes>", "0\n" at its end; as often as needed, not answered
  {"staged": true}               {"staged": count}; all complete, none installed yet; how many files the
                                 commit replaces or deletes
  {"live": true}                 {"live": [run id, ...]}; runs that work in the directory
  {"commit": SOURCE}             {"written", "kept", "kept_in", "deleted", "stale", "edited", "former"}; all
                                 installed, and the lock free; only "stamps" may follow. SOURCE says where
                                 the tree is from, "former" where that of the last sync was from, if elsewhere
                                 and none of the last eight was from SOURCE
At the end of stdin all uncommitted files are removed.

Answers by lines (answer.py); {"busy": true} comes before one that takes long; {"error": TEXT, "fix": TEXT}
ends it.
"""

import json
import os
import sys
import zlib
from contextlib import closing
from typing import BinaryIO

from ..answer import print_answer
from .errors import SyncRefused, describe_os_error
from .protocol import read_exactly, read_request
from .session import ReceiveSession, SyncSession, list_live_runs
from .target_state import TreeEntry


def serve(receiver: ReceiveSession, stream: BinaryIO) -> None:
    """Answer until stdin ends."""
    sync: SyncSession | None = None
    while True:
        header = read_request(stream)
        if "nonces" in header:
            print_answer({"seen": receiver.list_seen(header["nonces"])})
        elif "stamps" in header:
            paths = json.loads(zlib.decompress(read_exactly(stream, int(header["stamps"]))))
            print_answer({"stamps": [receiver.stamp(str(path)) for path in paths]})
        elif "entries" in header and sync is None:
            rows = json.loads(zlib.decompress(read_exactly(stream, int(header["entries"]))))
            sync = receiver.begin([TreeEntry(*entry) for entry in rows], delete=bool(header.get("delete")))
            print_answer({"need": sync.need})
        elif "adopt" in header and sync is not None:
            print_answer({"adopted": sync.adopt([int(index) for index in header["adopt"]])})
        elif "put" in header and sync is not None:
            sync.put(int(header["put"]), stream)
        elif "staged" in header and sync is not None:
            print_answer({"staged": sync.count_changes()})
        elif "live" in header:
            print_answer({"live": list_live_runs(receiver.directory.root)})
        elif "commit" in header and sync is not None:
            done = sync.commit(str(header["commit"]))
            receiver.close()  # before the answer: the client then waits for nothing more
            print_answer(done)
        else:
            raise SyncRefused("the request is not understood")


def find_in_path(name: str) -> str:
    """Return a program's path, "" for none; shutil takes 5 ms to import."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    paths = [os.path.join(folder, name) for folder in folders if folder]
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), "")


def main() -> int:
    """Run one sync."""
    stream = sys.stdin.buffer
    target = "the directory"
    try:
        header = read_request(stream)
        target = str(header["target"])
        with closing(ReceiveSession(target, str(header["nonce"]))) as receiver:
            print_answer({"root": receiver.directory.root, "rsync": find_in_path("rsync")})
            serve(receiver, stream)
    except EOFError:
        return 0
    except (SyncRefused, OSError) as error:
        refusal = error if isinstance(error, SyncRefused) else describe_os_error(error, target)
        print_answer({"error": refusal.message, "fix": refusal.fix})
    return 1


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    sys.exit(code)
