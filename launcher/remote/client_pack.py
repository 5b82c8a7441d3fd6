"""The client as one text: with it a host restarts a run by the same rules while no client follows it.

It is what a restart imports, and PyYAML in Python, which the packages of a run config need; nothing else is
installed on the host. The keeper of the run unpacks it (launcher/onhost/supervisor/daemon/restart_keeper.py).
"""

import base64
import json
import zlib
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from launcher.remote.program_source import strip_docstrings

PACK_NAME = "client.pack"
_TOP = Path(__file__).parents[2]
_LEFT_OUT = frozenset(
    {
        *("launcher/commands", "launcher/scaffold", "launcher/lint", "launcher/top", "launcher/cleanup"),
        *("launcher/deep", "launcher/rehearsal", "launcher/slurm"),
        *("launcher/sync/host.py", "launcher/sync/nfs_cache.py", "launcher/sync/pre_launch.py"),
        *("launcher/sync/rsync.py", "launcher/sync/sync.py"),
        *("launcher/report/html", "launcher/report/preflight_page"),
        *("launcher/report/outcome_printer.py", "launcher/report/sparkline.py", "launcher/report/summary.py"),
        *("preflight/smi_reports", "launcher/cli.py", "launcher/__main__.py"),
    }
)
"""What no restart imports: a test runs one without. The docstrings of checks are texts of findings."""
_LEVEL = 6


@cache
def pack_client() -> str:
    """Return the files as compressed JSON {path: text}, in ASCII."""
    data = json.dumps(dict(_files())).encode()
    return base64.b64encode(zlib.compress(data, _LEVEL)).decode()


def _files() -> Iterator[tuple[str, str]]:
    for wing in ("launcher", "preflight"):
        for path in sorted((_TOP / wing).rglob("*.py")):
            name = path.relative_to(_TOP).as_posix()
            if not any(name == out or name.startswith(f"{out}/") for out in _LEFT_OUT):
                yield name, strip_docstrings(path) if wing == "launcher" else path.read_text(encoding="utf-8")
    found = find_spec("yaml")
    if found is None or found.origin is None:
        raise AssertionError("PyYAML is a dependency")
    package = Path(found.origin).parent
    for path in sorted(package.glob("*.py")):
        yield f"yaml/{path.name}", path.read_text(encoding="utf-8")
