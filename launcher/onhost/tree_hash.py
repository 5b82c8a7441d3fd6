"""Streamed program: which tree the last sync put into a directory. Stdlib, >= 3.9.

stdin: one line of JSON, {"directory": DIR}. Answers (answer.py) with {"content_sha256": TEXT}, "" where no
sync has left it.
"""

import json
import os
import sys

from .answer import print_answer

STATE, NAME = ".gpulaunch-sync", "tree.sha256"
_LENGTH = 64


def main() -> int:
    """Answer the line on stdin."""
    print_answer({"content_sha256": read_tree_hash(json.loads(sys.stdin.readline())["directory"])})
    return 0


def read_tree_hash(directory: str) -> str:
    """Return the hash that the last sync of a directory has left in it, "" where there is none."""
    try:
        with open(os.path.join(os.path.expanduser(directory), STATE, NAME), encoding="ascii") as stream:
            return stream.read(_LENGTH)
    except (OSError, ValueError):
        return ""


if __name__ == "__main__":
    sys.exit(main())
