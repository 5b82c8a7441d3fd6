"""What the ranks of a large launch say, by the digests that their hosts send in place of their logs. Pure."""

from collections.abc import Iterator

from launcher.follow.events import DigestReport
from launcher.planning.plan import Plan
from launcher.text import one_line

DIGEST_RANKS = 512  # of more, a client gets digests but for rank 0: all lines would take a core
EVERY_S = 60.0
_MAX_ALARMS = 500
_MAX_SHOWN = 10
_LONGEST = 200
_DIGITS = str.maketrans("", "", "0123456789")


def is_digested(plan: Plan, *, all_ranks: bool) -> bool:
    """Return whether the logs of ranks other than 0 stay on their hosts while this run is followed."""
    return plan.world_size > DIGEST_RANKS and not all_ranks


class RankDigests:
    """Takes the digests of every host."""

    def __init__(self, plan: Plan) -> None:
        self._run_id = plan.run_id
        self._host_of = {rank: node.host for rank, node, _ in plan.slots}
        self._lines: dict[int, int] = {}
        self._latest: tuple[int, str] | None = None
        self._alarms: dict[str, tuple[str, set[int]]] = {}  # without digits: the first such line, who said it
        self._next: float | None = None

    @property
    def notice(self) -> str:
        """What is not shown and why, for the start."""
        others = len(self._host_of) - 1
        return (
            f"of {others:,} ranks other than 0 a digest is shown once a minute, and each kind of warning and"
            " error once; their logs stay on their hosts (--all-ranks: every line)"
        )

    @property
    def incomplete(self) -> str:
        """Why the local logs are not complete."""
        return "of ranks other than 0 they have those that failed"

    def feed(self, report: DigestReport) -> Iterator[tuple[int, str]]:
        """Take digests; yield alarming lines of a kind that no rank has printed before, with the rank."""
        for rank, digest in report.ranks.items():
            if self._host_of.get(rank) != report.host:
                continue
            if digest.lines > self._lines.get(rank, 0):
                self._latest = (rank, digest.last)
            self._lines[rank] = digest.lines
            for line in digest.said:
                key = line.translate(_DIGITS)
                if key not in self._alarms and len(self._alarms) < _MAX_ALARMS:
                    self._alarms[key] = (line, set())
                    yield rank, line
                if key in self._alarms:
                    self._alarms[key][1].add(rank)

    def list_due(self, now: float) -> Iterator[str]:
        """Yield what the ranks have printed so far, once a minute by a growing clock."""
        if self._next is None or self._latest is None:
            self._next = now + EVERY_S
        elif now >= self._next:
            self._next = now + EVERY_S
            yield self._count()
            yield f"latest: rank {self._latest[0]}: {one_line(self._latest[1], _LONGEST)}"

    def summary(self) -> Iterator[str]:
        """Yield what they have printed in all, and how many ranks printed each warning or error."""
        if not self._lines:
            return
        hint = f"gpulaunch fetch {self._run_id} --logs-only"
        yield f"{self._count()}, which their hosts keep: {hint}"
        said = sorted(self._alarms.values(), key=lambda kind: -len(kind[1]))
        for line, ranks in said[:_MAX_SHOWN]:
            count = "1 rank" if len(ranks) == 1 else f"{len(ranks):,} ranks"
            yield f"{count}: {one_line(line, _LONGEST)}"
        if len(said) > _MAX_SHOWN:
            yield f"{len(said) - _MAX_SHOWN} more kinds of warnings and errors"

    def _count(self) -> str:
        return f"{len(self._lines):,} ranks other than 0 have printed {sum(self._lines.values()):,} lines"
