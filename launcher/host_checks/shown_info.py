"""Information that a user has seen within a day, so that reports show it once for each host and day.

The file is a convenience: where it cannot be read or written, everything is shown.
"""

import hashlib
import json
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from launcher import safe_json
from launcher.errors import GpulaunchError
from launcher.local.home import user_state_dir
from launcher.local.safe_paths import write_below
from preflight.checks.finding import Finding, Severity

DAY_S = 86400.0
MOST_KEPT = 20_000
"""Of those shown last; a thousand hosts have some thousand."""
_FILE = "shown-info.json"
# A load or a temperature is another one each time; another process is other information.
_VALUE = re.compile(r"(?<![\d.])(?<!pid )\d[\d.]*")


def note_shown(
    findings: Iterable[Finding], *, directory: Path | None = None, now: float | None = None
) -> frozenset[Finding]:
    """Return the information that was shown within a day already, and keep that all of it is shown now.

    `directory` is where the file lies, by default the user's state directory; `now` is in seconds since 1970.
    """
    at = time.time() if now is None else now
    infos = [finding for finding in findings if finding.severity is Severity.INFO and not finding.ignored]
    if not infos:
        return frozenset()
    try:
        place = directory or user_state_dir()
    except GpulaunchError:  # no home directory
        return frozenset()
    shown = {key: when for key, when in _read(place / _FILE).items() if 0 <= at - when < DAY_S}
    repeated = frozenset(finding for finding in infos if all(key in shown for key in _keys(finding)))
    fresh = {key: at for finding in infos for key in _keys(finding) if key not in shown}
    if fresh:
        kept = dict(sorted((shown | fresh).items(), key=lambda pair: -pair[1])[:MOST_KEPT])
        with suppress(OSError, GpulaunchError):
            write_below(place, _FILE, json.dumps(kept) + "\n")
    return repeated


def _keys(finding: Finding) -> Iterator[str]:
    """Yield what stands for a finding on each of its hosts, without values that change all the time."""
    words = "\0".join((finding.code, finding.subject, _VALUE.sub("N", finding.message)))
    digest = hashlib.sha256(words.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return (f"{host} {digest}" for host in finding.hosts)


def _read(path: Path) -> dict[str, float]:
    try:
        data = safe_json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    entries = data.items() if isinstance(data, dict) else ()
    return {key: float(at) for key, at in entries if isinstance(at, int | float)}
