"""What a check says. A Problem is what the check saw; a Finding is that plus code, verdict and host."""

from collections.abc import Iterable
from enum import Enum
from typing import Any

from preflight.frozen import dataclass


class Severity(Enum):
    """The verdict of one check on one subject, in rising order of how much it matters.

    CRITICAL stops a launch. UNKNOWN is what could not be checked: it stops a launch when its check is a gate
    and always makes `gpulaunch preflight` exit non-zero. WARNING and INFO stop nothing.
    """

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    INFO = "info"
    WARNING = "warning"
    UNKNOWN = "unknown"
    CRITICAL = "critical"


@dataclass(frozen=True, slots=True)
class Problem:
    """What a check function yields.

    `message` states what is wrong and why it matters; `fix` is a command to type or whom to ask. `severity`
    None means the check's own. `gpu` is the index of the GPU it is about: what the job can do without is
    demoted to a warning. `hosts` narrows a cluster check's problem to the hosts it is about.
    """

    message: str
    fix: str = ""
    subject: str = ""  # "gpu3", "pid 4242", "port 29500", "" for the host itself
    severity: Severity | None = None
    gpu: int | None = None
    not_collected: bool = False  # unknown only because the source does not hold it (a saved nvidia-smi)
    hosts: tuple[str, ...] = ()
    alike: str = ""  # problems of a check that have this in common are reported as one, with a count


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the verdict. `hosts` has one host, or several for what concerns a launch as a whole."""

    code: str
    severity: Severity
    hosts: tuple[str, ...]
    subject: str
    message: str
    fix: str
    gate: bool = False  # an unknown of this check stops a launch
    ignored: bool = False  # demoted by --ignore; shown, stops nothing
    alike: str = ""  # findings with the same are reported as one; "": only those that say the same are


def name_some(hosts: Iterable[str]) -> str:
    """Return the names of hosts for a message: all of six, else the first four and how many more."""
    names = list(hosts)
    shown = names if len(names) <= 6 else [*names[:4], f"{len(names) - 4} more"]
    return ", ".join(shown)


def blocks_launch(finding: Finding) -> bool:
    """Whether this finding stops `gpulaunch run`."""
    if finding.ignored:
        return False
    return finding.severity is Severity.CRITICAL or (finding.severity is Severity.UNKNOWN and finding.gate)


def exit_code(findings: Iterable[Finding]) -> int:
    """Return 0 when preflight may say "fine", 1 when anything is critical or unknown and not ignored."""
    bad = (Severity.CRITICAL, Severity.UNKNOWN)
    return int(any(finding.severity in bad and not finding.ignored for finding in findings))


def encode_finding(finding: Finding) -> dict[str, Any]:
    """Return one finding."""
    return {
        "code": finding.code,
        "severity": finding.severity.value,
        "hosts": list(finding.hosts),
        "subject": finding.subject,
        "message": finding.message,
        "fix": finding.fix,
        "gate": finding.gate,
        "ignored": finding.ignored,
        "blocks_launch": blocks_launch(finding),
    }
