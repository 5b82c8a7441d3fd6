"""What ranks of the deep checks report, kept until the run is over. Pure."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

_MOST_REPORTS = 64  # of one rank: twice as many as there are steps with their beginnings


class DeepReports:
    """Collects the reports by rank. A host may only report its own ranks."""

    def __init__(self) -> None:
        self._reports: dict[tuple[str, int], list[Mapping[str, Any]]] = defaultdict(list)

    def add(self, host: str, rank: int, fields: Mapping[str, Any]) -> None:
        """Take an event "deep"."""
        reports = self._reports[host, rank]
        if len(reports) < _MOST_REPORTS:
            reports.append(fields)

    def group_by_rank(self, hosts: Mapping[int, str]) -> dict[int, tuple[Mapping[str, Any], ...]]:
        """Return the reports of each rank of the plan, given the host of each."""
        return {
            rank: tuple(self._reports[host, rank])
            for rank, host in hosts.items()
            if (host, rank) in self._reports
        }
