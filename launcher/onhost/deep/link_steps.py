"""Steps of several ranks: all-reduce within the node and over the world, pairs of ranks and of nodes."""

from __future__ import annotations

from typing import Any

from .circle import pair_rounds, partner_of
from .devices import time_once

REDUCTIONS = 20
EXCHANGES = 10
PINGS = 20
FEWEST_PAIRS, LEVEL, SUSPECT = 3, 0.8, 0.85
MOST_AGAIN = 32


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
        taken = time_once(device, lambda: dist.all_reduce(buffer, group=group))
        if at >= 2:
            rates.append(round(factor * count * 4 / taken / 1e9, 4))
    small = torch.zeros(1, dtype=torch.float32, device=device.device)
    waits = [time_once(device, lambda: dist.all_reduce(small, group=group)) for _ in range(PINGS)]
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
        """Exchange with a rank; return the best rate one way in GB/s, the median latency, if the bytes are
        right.
        """
        whole = (self._mine, self._theirs)
        self._theirs.fill_(-1.0)
        self.exchange(other, *whole)
        right = bool((self._theirs == float(other)).all())
        taken = [time_once(self._device, lambda: self.exchange(other, *whole)) for _ in range(EXCHANGES)]
        small = (self._mine[:2], self._theirs[:2])
        waits = sorted(time_once(self._device, lambda: self.exchange(other, *small)) for _ in range(PINGS))
        return {
            "gbs": round(self._mine.numel() * 4 / min(taken) / 1e9, 4),
            "latency_us": round(waits[len(waits) // 2] * 1e6, 1),
            "correct": right,
        }

    def exchange(self, other: int, mine: Any, theirs: Any) -> None:
        """Send and receive at the same time."""
        dist = self._dist
        operations = [dist.P2POp(dist.isend, mine, other), dist.P2POp(dist.irecv, theirs, other)]
        for work in dist.batch_isend_irecv(operations):
            work.wait()


def measure_peers(device: Any, meter: PairMeter, ranks: list[int], mine: int, wait: Any) -> dict[str, Any]:
    """Measure every pair of ranks of this node, round by round."""
    found = []
    for pairs in pair_rounds(len(ranks)):
        other = partner_of(mine, pairs)
        if other is not None:
            access = device.can_access(other)
            found.append({"peer": ranks[other], "access": access, **meter.measure(ranks[other])})
        wait()
    return {"pairs": found}


def measure_node_pairs(
    meter: PairMeter, nodes: list[list[int]], node: int, local_rank: int, world: Any
) -> dict[str, Any]:
    """Measure pairs of nodes, round by round: first their first ranks alone, then all of them, rail by rail.

    `nodes` are the ranks of each node in the order of local ranks; `world` has the barrier of all ranks, and
    gathers a value of each. A pair that seems slow is measured again with nothing else on the network.
    """
    found: list[dict[str, Any]] = []
    rails = min(len(ranks) for ranks in nodes)
    for number, pairs in enumerate(pair_rounds(len(nodes))):
        other = partner_of(node, pairs)
        for width in sorted({1, rails}):
            if other is not None and local_rank < width:
                peer = nodes[other][local_rank]
                found.append({"peer": peer, "round": number, "rails": width, **meter.measure(peer)})
            world.barrier()
    mine = {each["peer"]: each for each in found if each["rails"] == 1}
    for pair in slow_pairs(world.gather({peer: each["gbs"] for peer, each in mine.items()})):
        if meter.rank in pair:
            each = mine[pair[1] if meter.rank == pair[0] else pair[0]]
            again = meter.measure(each["peer"])
            right = each["correct"] and again["correct"]
            if again["gbs"] > each["gbs"]:
                each.update(again)
            each["correct"] = right
        world.barrier()
    return {"pairs": found}


def slow_pairs(reported: list[dict[int, float]]) -> list[tuple[int, int]]:
    """Return the pairs of ranks below what most reach, the same on every rank; `reported` is by rank."""
    rates: dict[tuple[int, int], float] = {}
    for rank, seen in enumerate(reported):
        for peer, rate in seen.items():
            pair = (min(rank, peer), max(rank, peer))
            rates[pair] = min(rate, rates.get(pair, rate))
    ordered = sorted(rates.values())
    if len(ordered) < FEWEST_PAIRS:
        return []
    reference = ordered[int(LEVEL * (len(ordered) - 1))]
    return [pair for pair in sorted(rates) if rates[pair] < SUSPECT * reference][:MOST_AGAIN]
