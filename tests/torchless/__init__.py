"""An interpreter whose `accelerate launch` starts plain processes, without torch.

For runs that are about gpulaunch's own part: signals, logs, restarts, files. The import of torch is most of
what such a run costs, on each host. For all else it is the interpreter itself. tests/lab/test_run.py and
tests/launcher/test_engines_real.py start ranks with the real launchers.
"""

import sys
from pathlib import Path

PACKAGES = Path(__file__).parent / "packages"
NAME = "python-without-torch"
WRAPPER = f"""\
#!/bin/sh
case " $* " in
*" -m accelerate.commands.launch "*) export PYTHONPATH="{PACKAGES}"${{PYTHONPATH:+:$PYTHONPATH}} ;;
esac
exec "{sys.executable}" "$@"
"""


def write_python(folder: Path) -> str:
    """Write the interpreter into a folder; return its path."""
    path = folder / NAME
    path.write_text(WRAPPER)
    path.chmod(0o755)
    return str(path)
