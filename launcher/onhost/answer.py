"""How a program that travels answers: one line of JSON that the client finds whatever a login shell printed.

launcher/remote/rpc.py reads it. Standard library, Python >= 3.9.
"""

from __future__ import annotations

import json
import sys
from typing import Any

MARKER = "GPULAUNCH-ANSWER-1"


def print_answer(answer: dict[str, Any]) -> None:
    """Write one answer line; the leading newline ends whatever a login shell printed before."""
    sys.stdout.write("\n%s %s\n" % (MARKER, json.dumps(answer)))
    sys.stdout.flush()
