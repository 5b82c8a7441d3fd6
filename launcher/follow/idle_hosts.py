"""Which hosts of a run are idle, by what their gauges say; see docs/reliability.md."""

from collections.abc import Sequence

from launcher.follow.events import HostReport

REPORT_TTL_S = 60.0  # a quiet host repeats so every 15 s; older words are read from an old log


class IdleHosts:
    """What hosts said last of their quiet."""

    def __init__(self) -> None:
        self._last: dict[str, HostReport] = {}

    @property
    def is_any_idle(self) -> bool:
        """Whether a host has said that it is quiet, and not that it lives again."""
        return bool(self._last)

    def update(self, report: HostReport) -> str:
        """Take "idle" or "active"; return what a person should hear of it, "" for nothing."""
        if report.event == "active":
            was = self._last.pop(report.host, None)
            return "" if was is None else f"{report.host}: active again"
        first = report.host not in self._last
        self._last[report.host] = report
        if first or not report.fields.get("timeout_s"):
            return f"{report.host}: no output, no step, no use of GPU or CPU for {_seconds(report):.0f} s"
        return ""

    def idle_seconds(self, hosts: Sequence[str], now: float) -> float:
        """Return for how long all these hosts are quiet, 0 unless each has just said that it is too long."""
        reports = [self._last[host] for host in hosts if host in self._last]
        if not reports or len(reports) < len(hosts) or not all(_is_over(each) for each in reports):
            return 0.0
        fresh = all(now - each.at < REPORT_TTL_S for each in reports)
        return min(_seconds(each) for each in reports) if fresh else 0.0


def _seconds(report: HostReport) -> float:
    seconds = report.fields.get("seconds")
    return float(seconds) if isinstance(seconds, int | float) else 0.0


def _is_over(report: HostReport) -> bool:
    limit = report.fields.get("timeout_s")
    return isinstance(limit, int | float) and limit > 0 and _seconds(report) >= limit
