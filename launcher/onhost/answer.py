"""Answer format of programs streamed to hosts: one line of JSON, found whatever a login shell prints.

launcher/remote/rpc.py reads it. Standard library, Python >= 3.9.
"""

import json
import sys
from typing import Any

MARKER = "GPULAUNCH-ANSWER-1"


def print_answer(answer: dict[str, Any]) -> None:
    """Write one answer line; the leading newline ends any output of a login shell before it."""
    sys.stdout.write("\n%s %s\n" % (MARKER, json.dumps(answer)))
    sys.stdout.flush()
