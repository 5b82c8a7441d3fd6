"""An interpreter whose `accelerate launch` starts plain processes, without torch.

For runs that are about gpulaunch's own part: signals, logs, restarts, files. The import of torch is most of
what such a run costs, on each host. A single rank that trains may be started by it too, with the precision
that accelerate would name. tests/lab/test_run.py, tests/launcher/test_engines_real.py and the corrected
scripts of tests/field_notes start ranks with the real launchers.
"""

import sys
from pathlib import Path

PACKAGES = Path(__file__).parent / "packages"
NAME = "python-without-torch"
WRAPPER = f'#!/bin/sh\nPYTHONPATH={PACKAGES}${{PYTHONPATH:+:$PYTHONPATH}} exec {sys.executable} "$@"\n'


def write_python(folder: Path) -> str:
    """Write the interpreter into a folder; return its path."""
    path = folder / NAME
    path.write_text(WRAPPER)
    path.chmod(0o755)
    return str(path)
