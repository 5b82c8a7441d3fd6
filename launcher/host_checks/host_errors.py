"""Failures of several hosts as one message and one fix, folded as a preflight folds its findings. Pure."""

from collections.abc import Sequence

from launcher.config.node_sets import fold_hosts
from launcher.errors import GpulaunchError
from launcher.host_checks.render_text import group_findings
from preflight.checks.finding import Finding, Severity

_SHOWN = 8


def fold_errors(errors: Sequence[GpulaunchError]) -> tuple[str, str]:
    """Return what hosts failed with, a line for what several have alike, and what to do about each."""
    findings = [
        Finding(
            code=error.code,
            severity=Severity.CRITICAL,
            hosts=error.hosts,
            subject="",
            message=error.message.removeprefix(f"{''.join(error.hosts[:1])}: "),
            fix=error.fix,
        )
        for error in errors
    ]
    groups = [
        (f"{fold_hosts(each.hosts)}: " if each.hosts else "", each.message, each.fix)
        for each in group_findings(findings)
    ]
    lines = [host + message for host, message, _ in groups[:_SHOWN]]
    more = [f"{len(groups) - _SHOWN} more reasons"] if len(groups) > _SHOWN else []
    hosts_of_fix = {fix: host for host, _, fix in reversed(groups[:_SHOWN]) if fix}
    one = len(groups) == 1
    fixes = [fix if one else host + fix for fix, host in reversed(hosts_of_fix.items())]
    return "\n".join([*lines, *more]), "\n".join(fixes)
