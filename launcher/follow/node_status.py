"""What is known of each host's part of a run."""

from collections.abc import Iterable

from launcher.follow.events import Disconnected, HostEnded, HostReport, Reconnected, StartRefused
from preflight.frozen import dataclass


@dataclass(slots=True)
class NodeStatus:
    """What is known of one host's part of a run."""

    run_dir: str = ""  # "": it has not started yet
    refused: StartRefused | None = None
    ended: HostEnded | None = None
    lost: str | None = None  # why it was given up
    still_running: bool = False  # although it was lost, as far as is known
    answers: bool = False  # although it was given up: its part does not end
    forgotten: bool = False  # it answers, and has nothing of the run any more
    disconnected: bool = False  # its link is broken just now
    locked_out: bool = False  # and waiting does not help
    detached: bool = False  # it has promised to continue without a client
    launcher_ended: bool = False
    oom: HostReport | None = None  # what its kernel said last of memory

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to come from it."""
        return self.refused is not None or self.ended is not None or self.lost is not None

    def note_link(self, event: Disconnected | Reconnected) -> bool:
        """Take that its link has broken or is back; return whether that is news."""
        if isinstance(event, Reconnected):
            self.disconnected = self.locked_out = False
            return True
        is_known = self.locked_out if event.is_final else self.disconnected
        self.disconnected, self.locked_out = True, self.locked_out or event.is_final
        return not is_known


class Nodes:
    """The status of every host of a run, and which of them are over, in the order in which that came."""

    def __init__(self, hosts: Iterable[str]) -> None:
        self._known = {host: NodeStatus() for host in hosts}
        self._over: list[str] = []

    def __getitem__(self, host: str) -> NodeStatus:
        return self._known[host]

    @property
    def are_open(self) -> bool:
        """Whether more is to come from any of them."""
        return len(self._over) < len(self._known)

    @property
    def open_hosts(self) -> tuple[str, ...]:
        """The hosts of which more is to come, in the plan's order."""
        return tuple(host for host, node in self._known.items() if not node.is_over)

    @property
    def refused(self) -> tuple[StartRefused, ...]:
        """What hosts have refused to start, the first one first."""
        return tuple(why for host in self._over if (why := self[host].refused) is not None)

    @property
    def lost(self) -> dict[str, str]:
        """Why hosts were given up, by name, the first one first."""
        return {host: why for host in self._over if (why := self[host].lost) is not None}

    @property
    def ended(self) -> dict[str, HostEnded]:
        """The last states of hosts that have ended their part, the first one first."""
        return {host: state for host in self._over if (state := self[host].ended) is not None}

    @property
    def vanished(self) -> tuple[str, ...]:
        """The hosts whose supervisor is gone without the last state, the first one first."""
        return tuple(host for host, end in self.ended.items() if end.state.get("phase") != "ended")

    @property
    def run_dirs(self) -> dict[str, str]:
        """The run directories on the hosts that have started, by host."""
        return {host: node.run_dir for host, node in self._known.items() if node.run_dir}

    @property
    def disconnected(self) -> set[str]:
        """The hosts whose link is broken just now."""
        return {host for host, node in self._known.items() if node.disconnected}

    @property
    def detached(self) -> set[str]:
        """The hosts that have promised to continue without a client."""
        return {host for host, node in self._known.items() if node.detached}

    @property
    def going_on(self) -> tuple[str, ...]:
        """The lost hosts on which the run continues, as far as is known, by name."""
        return tuple(sorted(host for host, node in self._known.items() if node.still_running))

    @property
    def unending(self) -> frozenset[str]:
        """The hosts that answer, and were given up because their part does not end."""
        return frozenset(host for host, node in self._known.items() if node.answers)

    def give_up(self, host: str, why: str, *, still_running: bool = False, answers: bool = False) -> None:
        """Expect nothing more of a host."""
        node = self.close(host)
        node.lost, node.still_running, node.answers = why, still_running, answers

    def close(self, host: str) -> NodeStatus:
        """Note that nothing more is to come from a host; return what is known of it."""
        if host not in self._over:
            self._over.append(host)
        return self[host]
