"""The report of a preflight as `preflight`, `run` and `rehearse` print it."""

import hashlib
import json
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from launcher import safe_json
from launcher.config.node_sets import fold_hosts
from launcher.errors import GpulaunchError
from launcher.host_checks.render_text import render_report
from launcher.host_checks.result import PreflightResult
from launcher.local.home import user_state_dir
from launcher.local.safe_paths import write_below
from launcher.terminal.cell_width import StyledLine
from launcher.terminal.screen import Screen
from preflight import regex as re
from preflight.checks.finding import Finding, Severity

DAY_S = 86400.0
MOST_KEPT = 20_000  # of those shown last; a thousand hosts have some thousand
_FILE = "shown-info.json"
# A load or a temperature is another one each time; another process is other information.
_VALUE = re.compile(r"(?<![\d.])(?<!pid )\d[\d.]*")


def render_todays_report(result: PreflightResult, *, verbose: bool) -> Iterator[StyledLine]:
    """Yield the report, without information that this user has seen of a host within a day."""
    repeated = note_shown(result.findings)
    return render_report(result, verbose=verbose, repeated=repeated)


def print_report(screen: Screen, result: PreflightResult, *, verbose: bool = False) -> None:
    """Print the report above the screen's lowest lines; which hosts are left, the error behind it says."""
    use = result.would_use
    if use is not None and not use.problem:
        result = replace(result, would_use=replace(use, fix=""))
    for line in render_todays_report(result, verbose=verbose):
        screen.print_line(line)


def shorten_error(error: GpulaunchError, result: PreflightResult) -> GpulaunchError:
    """Return the error that ends a launch, in short where the report above it holds the whole."""
    if error.message in {each.message for each in result.errors.values()}:
        codes = ",".join(sorted({each.code for each in result.errors.values()}))
        hosts = fold_hosts(result.errors)
        return error.with_summary(f"nothing was started: {hosts} cannot be used ({codes})")
    if result.would_use is not None and error.message == result.would_use.problem:
        return error.with_summary("nothing was started: these hosts allow no launch")
    return error


def note_shown(
    findings: Iterable[Finding], *, directory: Path | None = None, now: float | None = None
) -> frozenset[Finding]:
    """Return the information that was shown within a day already, and keep that all of it is shown now.

    The file is a convenience: where it cannot be read or written, everything is shown.

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
    document = safe_json.read_document(place / _FILE)
    known = {key: float(when) for key, when in document.items() if isinstance(when, int | float)}
    shown = {key: when for key, when in known.items() if 0 <= at - when < DAY_S}
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
