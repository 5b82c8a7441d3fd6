"""`preflight --prolog`: one line and exit code 0 or 1, whatever happens, in less than ten seconds."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import FrameType
from typing import Never

from launcher.commands._host_access import open_host_access
from launcher.commands._host_options import HostOptions
from launcher.config.inventory import LOCALHOST, HostEntry
from launcher.config.local_entries import resolve_local_entries
from launcher.errors import BadInput, GpulaunchError
from launcher.exit_codes import ExitCode
from launcher.host_checks.evaluation import evaluate_facts
from launcher.host_checks.preflight import build_agent_request
from launcher.host_checks.preflight_options import PreflightOptions
from launcher.remote.agent import gather_facts
from launcher.remote.connection_pool import OpenConnection
from launcher.terminal.output import echo
from launcher.text import count_noun, one_line
from preflight.checks.finding import Finding, Severity
from preflight.facts.missing import Missing
from preflight.frozen import dataclass
from preflight.job import Job

DEADLINE_S = 6.0  # for the agent; what it has not read by then is not known, so not fit
CODES = (
    *("DRV001", "DRV002", "DRV004", "DRV005", "GPU003", "GPU004", "HEAL001", "HEAL002", "HEAL003", "HEAL004"),
    *("HEAL005", "HEAL006", "PROC002"),
)
"""What makes a node unfit whatever the job is. A job's own matters (Python, ports, leftovers, disks) are left
to `gpulaunch run`, which judges them inside the job."""
_UNFIT_WARNINGS = frozenset({"GPU004", "HEAL002", "HEAL006"})
"""A launch on the other GPUs may run beside these; a scheduler hands out all GPUs of a node."""
_SKIPPED = ("python", "network", "infiniband", "paths", "script", "ports", "claims", "limits", "environ")
_LONGEST = 240


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """Whether a node is fit, and why not in one line."""

    fit: bool
    line: str


def check_node(entry: HostEntry, opener: OpenConnection, ignore: frozenset[str]) -> NodeHealth:
    """Ask this node and judge what concerns every job. Raises the HostError of one that cannot be asked."""
    began = time.monotonic()
    how = PreflightOptions(ignore=ignore, as_one_launch=False, deadline_s=DEADLINE_S, skip=_SKIPPED)
    whole_node = Job(gpus="all")
    gathered = gather_facts((entry,), lambda each: build_agent_request(each, whole_node, how), opener)
    for error in gathered.errors.values():
        raise error
    facts = gathered.facts[entry.name]
    has_gpus = isinstance(facts.pci_gpus, Missing) or facts.pci_gpus or facts.known_gpus
    job = whole_node if has_gpus else replace(whole_node, gpus="none")
    bad = [
        each for each in evaluate_facts((entry,), gathered, job, options=how).findings if _makes_unfit(each)
    ]
    seconds = time.monotonic() - began
    if not bad:
        return NodeHealth(fit=True, line=f"ok: {count_noun(len(facts.known_gpus), 'GPU')}, {seconds:.1f} s")
    first = max(bad, key=lambda each: each.severity is Severity.CRITICAL)
    subject = f" {first.subject}" if first.subject else ""
    more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
    return NodeHealth(fit=False, line=one_line(f"{first.code}{subject}: {first.message}", _LONGEST) + more)


def _makes_unfit(finding: Finding) -> bool:
    if finding.ignored or finding.code not in CODES:
        return False
    warns = finding.severity is Severity.WARNING and finding.code in _UNFIT_WARNINGS
    return warns or finding.severity in (Severity.CRITICAL, Severity.UNKNOWN)


LIMIT_S = 9


class _TooSlow(Exception):
    """The time is over."""


def run_prolog(hosts: tuple[str, ...], options: HostOptions, ignore: frozenset[str]) -> int:
    """Check this node; print its one line, return 0 where it is fit for jobs and 1 where it is not."""
    if hosts not in ((), (LOCALHOST,)):
        raise BadInput("--prolog is about the node that it runs on", "gpulaunch preflight localhost --prolog")
    try:
        with _time_limit():
            access = open_host_access(options)
            entry = resolve_local_entries(access.resolve((LOCALHOST,)), Job())[0]
            health = check_node(entry, access.open, ignore)
    except _TooSlow:
        echo(f"the checks did not end within {LIMIT_S} s: the driver or a disk does not answer")
        return ExitCode.NEGATIVE
    except GpulaunchError as error:
        echo(one_line(error.message, 240))
        return ExitCode.NEGATIVE
    echo(health.line)
    return ExitCode.OK if health.fit else ExitCode.NEGATIVE


@contextmanager
def _time_limit() -> Iterator[None]:
    """Raise _TooSlow in the main thread once the time is over."""

    def on_alarm(_number: int, _frame: FrameType | None) -> Never:
        raise _TooSlow

    before = signal.signal(signal.SIGALRM, on_alarm)
    signal.alarm(LIMIT_S)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
