"""Rates of pairs as matrices: of the nodes of a run, and of the GPUs of a node. Pure."""

from collections.abc import Callable, Mapping, Sequence

from preflight.deep.margins import PATH, median
from preflight.deep.measurements import DeepRun, RankDeep, Transfer
from preflight.deep.slow_links import Pair, PairVerdict, judge_pairs
from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class PairMatrix:
    """The rates in GB/s and latencies in us of pairs of members, which are hosts or ranks of one host."""

    title: str
    members: tuple[str, ...]
    rates: Mapping[Pair, float]
    latencies: Mapping[Pair, float]
    wrong: tuple[Pair, ...]  # bytes arrived that were not sent
    verdict: PairVerdict


def build_node_matrices(run: DeepRun) -> tuple[PairMatrix, ...]:
    """Return the matrix of the nodes' first ranks, and that of all ranks at once where nodes have several."""
    by_rank = {rank.rank: rank for rank in run.ranks}
    widths = sorted({pair.rails for rank in run.ranks for pair in _pairs(rank)})
    found = []
    for width in widths:
        title = "node pairs" if width == 1 else f"node pairs, {width} ranks of each at once"
        seen = _Seen(lambda reports: sum(reports) / 2)  # each rail is reported by both ends
        for rank in run.ranks:
            for pair in _pairs(rank):
                other = by_rank.get(pair.peer)
                if other is not None and pair.rails == width and other.host != rank.host:
                    seen.add(pair, _key(rank.host, other.host, run.hosts))
        found.append(_matrix(title, run.hosts, seen, run))
    return tuple(found)


def build_peer_matrices(run: DeepRun) -> tuple[PairMatrix, ...]:
    """Return a matrix for each host with several ranks."""
    found = []
    by_rank = {rank.rank: rank for rank in run.ranks}
    for host in run.hosts:
        ranks = [rank for rank in run.ranks if rank.host == host]
        if len(ranks) < 2:
            continue
        names = {
            each.rank: f"gpu{each.gpu}" if each.gpu is not None else f"rank{each.rank}" for each in ranks
        }
        seen = _Seen(min)  # both ends time one exchange
        for rank in ranks:
            for pair in rank.peer.pairs if rank.peer is not None else ():
                if pair.peer in names and by_rank[pair.peer] is not rank:
                    key = _key(names[rank.rank], names[pair.peer], tuple(names.values()))
                    seen.add(pair, key)
        if seen.rates:
            found.append(_matrix(f"pairs within {host}", tuple(names.values()), seen, run))
    return tuple(found)


def _pairs(rank: RankDeep) -> tuple[Transfer, ...]:
    return rank.pairs.pairs if rank.pairs is not None else ()


def _key(one: str, other: str, order: tuple[str, ...]) -> Pair:
    first, second = sorted((one, other), key=order.index)
    return first, second


class _Seen:
    """The transfers of one matrix, collected by pair. Both ends report each of them."""

    def __init__(self, rate_of: Callable[[Sequence[float]], float]) -> None:
        self._rate_of = rate_of  # what the reports of one repetition come to
        self.rates: dict[Pair, dict[int, list[float]]] = {}  # by pair and repetition
        self.latencies: dict[Pair, list[float]] = {}
        self.wrong: set[Pair] = set()

    def add(self, transfer: Transfer, key: Pair) -> None:
        self.rates.setdefault(key, {}).setdefault(transfer.repeat, []).append(transfer.gbs)
        self.latencies.setdefault(key, []).append(transfer.latency_us)
        if not transfer.correct:
            self.wrong.add(key)

    def rate(self, key: Pair, repeat: int = 0) -> float:
        """Return the rate of a pair in one repetition, 0 where it was not measured."""
        found = self.rates[key].get(repeat)
        return self._rate_of(found) if found else 0.0

    def repeats(self) -> dict[Pair, tuple[float, ...]]:
        """Return the rates of the repetitions of the pairs that were repeated."""
        found = {key: sorted(set(by_repeat) - {0}) for key, by_repeat in self.rates.items()}
        return {key: tuple(self.rate(key, at) for at in numbers) for key, numbers in found.items() if numbers}


def _matrix(title: str, members: tuple[str, ...], seen: _Seen, run: DeepRun) -> PairMatrix:
    on_gpu = any(rank.on_gpu for rank in run.ranks)
    rates = {key: seen.rate(key) for key in seen.rates}
    repeats = seen.repeats()
    verdict = judge_pairs(rates, PATH["gpu" if on_gpu else "cpu"].warning, repeats)
    rates |= {key: median(values) for key, values in repeats.items()}
    slowest = {key: max(values) for key, values in seen.latencies.items()}
    return PairMatrix(title, members, rates, slowest, tuple(sorted(seen.wrong)), verdict)
