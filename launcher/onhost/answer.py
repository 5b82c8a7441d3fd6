"""Answer format of programs streamed to hosts: one line of JSON, found whatever a login shell prints.

launcher/remote/rpc.py reads it. Standard library, Python >= 3.9.
"""

import json
import sys
import time
from typing import Any

MARKER = "GPULAUNCH-ANSWER-1"
BEAT_S = 5.0  # how often a program that works says so, which one that hangs in a dead file server does not
_last_beat = [time.monotonic()]


def report_busy() -> None:
    """Say {"busy": true}, unless it was said just now."""
    if time.monotonic() - _last_beat[0] > BEAT_S:
        _last_beat[0] = time.monotonic()
        print_answer({"busy": True})


def print_answer(answer: dict[str, Any]) -> None:
    """Write one answer line; the leading newline ends any output of a login shell before it."""
    sys.stdout.write("\n%s %s\n" % (MARKER, json.dumps(answer)))
    sys.stdout.flush()
