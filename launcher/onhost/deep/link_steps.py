"""Steps of several ranks: all-reduce within the node and over the world, pairs of ranks and of nodes."""

from typing import Any

from .clocks import WallClock
from .devices import time_once
from .schedule import Pair, find_partner, pair_rounds, select_slow_pairs

REDUCTIONS = 20
EXCHANGES, FEWEST = 10, 4
PAIR_S = 0.6  # time for the exchanges of one pair, which are fewer over a slow link
PINGS = 20
REPEATS = 3
WALL = WallClock()


def measure_all_reduce(device: Any, dist: Any, group: Any, members: int) -> dict[str, Any]:
    """Sum a buffer over a group; return bus rates in GB/s, latencies in us, and whether the sums are right.

    Bus rate = 2 (n-1) / n x bytes / time, as nccl-tests counts it
    (https://github.com/NVIDIA/nccl-tests/blob/master/doc/PERFORMANCE.md).
    """
    torch = device.torch
    count = device.collective_bytes // 4
    buffer = torch.ones(count, dtype=torch.float32, device=device.device)
    dist.all_reduce(buffer, group=group)
    right = bool((buffer == float(members)).all())
    factor = 2.0 * (members - 1) / members
    rates = []
    for at in range(REDUCTIONS + 2):
        buffer.zero_()  # values must not grow beyond float32
        taken = time_once(device, lambda: dist.all_reduce(buffer, group=group), WALL)
        if at >= 2:
            rates.append(round(factor * count * 4 / taken / 1e9, 4))
    small = torch.zeros(1, dtype=torch.float32, device=device.device)
    waits = [time_once(device, lambda: dist.all_reduce(small, group=group), WALL) for _ in range(PINGS)]
    return {
        "busbw": rates,
        "latency_us": [round(wait * 1e6, 1) for wait in waits],
        "correct": right,
        "members": members,
        "bytes": count * 4,
    }


class PairMeter:
    """Meter of transfers with one other rank at a time, both ways at once."""

    def __init__(self, device: Any, dist: Any, rank: int) -> None:
        self._device, self._dist, self.rank = device, dist, rank
        torch = device.torch
        words = device.pair_bytes // 4
        self._mine = torch.full((words,), float(rank), dtype=torch.float32, device=device.device)
        self._theirs = torch.empty_like(self._mine)

    def measure(self, other: int) -> dict[str, Any]:
        """Exchange with a rank; return the rate one way in GB/s, the median latency, if the bytes are right.

        The rate is that of the later exchanges, since a link that is shaped lets the first bytes through at
        full speed: on a GPU their median, on a CPU the best of them, for others disturb some.
        """
        whole = (self._mine, self._theirs)
        self._theirs.fill_(-1.0)
        self.exchange(other, *whole)
        right = bool((self._theirs == float(other)).all())
        taken = [time_once(self._device, lambda: self.exchange(other, *whole), WALL)]
        taken += [
            time_once(self._device, lambda: self.exchange(other, *whole), WALL)
            for _ in range(self._count_with(other, taken[0]) - 1)
        ]
        late = sorted(taken[len(taken) // 2 :])
        small = (self._mine[:2], self._theirs[:2])
        waits = sorted(
            time_once(self._device, lambda: self.exchange(other, *small), WALL) for _ in range(PINGS)
        )
        typical = late[len(late) // 2] if self._device.kind == "gpu" else late[0]
        return {
            "gbs": round(self._mine.numel() * 4 / typical / 1e9, 4),
            "latency_us": round(waits[len(waits) // 2] * 1e6, 1),
            "correct": right,
        }

    def _count_with(self, other: int, once_s: float) -> int:
        """Return how many exchanges fit into PAIR_S, the same on both sides: by the longer of their times."""
        torch = self._device.torch
        mine = torch.full((1,), once_s, dtype=torch.float32, device=self._device.device)
        theirs = torch.zeros_like(mine)
        self.exchange(other, mine, theirs)
        longest = max(float(mine[0]), float(theirs[0]), 1e-6)
        return max(FEWEST, min(EXCHANGES, int(PAIR_S / longest)))

    def exchange(self, other: int, mine: Any, theirs: Any) -> None:
        """Send and receive at the same time."""
        dist = self._dist
        operations = [dist.P2POp(dist.isend, mine, other), dist.P2POp(dist.irecv, theirs, other)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()


class Pairs:
    """The pairs of members, each with its ranks: of nodes, or of the ranks of one node.

    `mine` is the position of this rank's member and that of the rank in it; `group` is the GlooGroup of
    all ranks of `members`.
    """

    def __init__(self, meter: PairMeter, members: list[list[int]], mine: tuple[int, int], group: Any) -> None:
        self._meter, self._members, self._group = meter, members, group
        self._at, self._rail = mine
        self.found: list[dict[str, Any]] = []

    def measure(self, suspect: float) -> dict[str, Any]:
        """Measure round by round: first one rank of each member, then all of them, rail by rail.

        Pairs below `suspect` of what most reach are then repeated one at a time, in turn with fast pairs of
        the same members: what is slow in every repetition is slow, whatever else the hosts do meanwhile.
        """
        widths = sorted({1, min(len(ranks) for ranks in self._members)})
        for number, pairs in enumerate(pair_rounds(len(self._members))):
            other = find_partner(self._at, pairs)
            for width in widths:
                self._exchange(other, width, round=number)
        for width in widths:
            again = select_slow_pairs(self._rates(width), suspect)
            for repeat in range(1, REPEATS + 1 if again else 1):
                for pair in again:
                    self._exchange(find_partner(self._at, [pair]), width, repeat=repeat)
        return {"pairs": self.found}

    def _exchange(self, other: int | None, width: int, **fields: int) -> None:
        """Exchange with a member, if this rank takes part, and wait for all others."""
        if other is not None and self._rail < width:
            peer = self._members[other][self._rail]
            self.found.append({"peer": peer, "rails": width, **fields, **self._meter.measure(peer)})
        self._group.barrier()

    def _rates(self, width: int) -> dict[Pair, float]:
        """Return the rates of all pairs, the same on every rank of the group."""
        member_of = {rank: at for at, ranks in enumerate(self._members) for rank in ranks}
        mine = [(each["peer"], each["gbs"]) for each in self.found if each["rails"] == width]
        rates: dict[Pair, float] = {}
        for at, seen in self._group.gather((self._at, mine)):
            for peer, rate in seen:
                one, other = sorted((at, member_of[peer]))
                rates[one, other] = rates.get((one, other), 0.0) + rate
        return rates
