"""Findings of one host that say the same, reported once with their number. Pure."""

from collections.abc import Iterable

from launcher.text import group_alike
from preflight.checks.finding import Finding
from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class MergedFinding:
    """Equal findings: the first of them, and what they are about."""

    finding: Finding
    subjects: tuple[str, ...]
    count: int


def merge_findings(findings: Iterable[Finding]) -> tuple[MergedFinding, ...]:
    """Join what differs in its subject only, and what its check calls alike; order is kept."""

    def kind(each: Finding) -> tuple[object, ...]:
        words = (each.alike,) if each.alike else (each.message, each.fix)
        return (each.code, each.severity, each.hosts, each.ignored, each.gate, words)

    return tuple(
        MergedFinding(
            group[0],
            tuple(dict.fromkeys(finding.subject for finding in group if finding.subject)),
            len(group),
        )
        for group in group_alike((kind(each), each) for each in findings).values()
    )
