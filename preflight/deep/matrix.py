"""Rates of pairs as matrices: of the nodes of a run, and of the GPUs of a node. Pure."""

from collections.abc import Mapping

from preflight.deep.margins import PATH
from preflight.deep.pairs import Pair, PairVerdict, judge_pairs
from preflight.deep.records import DeepRun, RankDeep, Transfer
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


def node_matrices(run: DeepRun) -> tuple[PairMatrix, ...]:
    """Return the matrix of the nodes' first ranks, and that of all ranks at once where nodes have several."""
    by_rank = {rank.rank: rank for rank in run.ranks}
    widths = sorted({pair.rails for rank in run.ranks for pair in _pairs(rank)})
    found = []
    for width in widths:
        title = "node pairs" if width == 1 else f"node pairs, {width} ranks of each at once"
        rates: dict[Pair, list[float]] = {}
        latencies: dict[Pair, list[float]] = {}
        wrong: set[Pair] = set()
        for rank in run.ranks:
            for pair in _pairs(rank):
                other = by_rank.get(pair.peer)
                if other is not None and pair.rails == width and other.host != rank.host:
                    key = _key(rank.host, other.host, run.hosts)
                    _note(pair, key, rates, latencies, wrong)
        shares = {key: sum(values) / 2 for key, values in rates.items()}  # each rail is reported by both ends
        found.append(_matrix(title, run.hosts, shares, latencies, wrong, run))
    return tuple(found)


def peer_matrices(run: DeepRun) -> tuple[PairMatrix, ...]:
    """Return a matrix for each host with several ranks."""
    found = []
    by_rank = {rank.rank: rank for rank in run.ranks}
    for host in run.hosts:
        ranks = [rank for rank in run.ranks if rank.host == host]
        if len(ranks) < 2:
            continue
        names = {rank.rank: member_name(rank) for rank in ranks}
        rates: dict[Pair, list[float]] = {}
        latencies: dict[Pair, list[float]] = {}
        wrong: set[Pair] = set()
        for rank in ranks:
            for pair in rank.peer.pairs if rank.peer is not None else ():
                if pair.peer in names and by_rank[pair.peer] is not rank:
                    key = _key(names[rank.rank], names[pair.peer], tuple(names.values()))
                    _note(pair, key, rates, latencies, wrong)
        if rates:
            least = {key: min(values) for key, values in rates.items()}
            found.append(_matrix(f"pairs within {host}", tuple(names.values()), least, latencies, wrong, run))
    return tuple(found)


def member_name(rank: RankDeep) -> str:
    """Return how a rank is called in the matrix of its host."""
    return f"gpu{rank.gpu}" if rank.gpu is not None else f"rank{rank.rank}"


def _pairs(rank: RankDeep) -> tuple[Transfer, ...]:
    return rank.pairs.pairs if rank.pairs is not None else ()


def _key(one: str, other: str, order: tuple[str, ...]) -> Pair:
    first, second = sorted((one, other), key=order.index)
    return first, second


def _note(
    pair: Transfer,
    key: Pair,
    rates: dict[Pair, list[float]],
    latencies: dict[Pair, list[float]],
    wrong: set[Pair],
) -> None:
    rates.setdefault(key, []).append(pair.gbs)
    latencies.setdefault(key, []).append(pair.latency_us)
    if not pair.correct:
        wrong.add(key)


def _matrix(
    title: str,
    members: tuple[str, ...],
    rates: Mapping[Pair, float],
    latencies: Mapping[Pair, list[float]],
    wrong: set[Pair],
    run: DeepRun,
) -> PairMatrix:
    on_gpu = any(rank.on_gpu for rank in run.ranks)
    verdict = judge_pairs(rates, PATH["gpu" if on_gpu else "cpu"].warning)
    slowest = {key: max(values) for key, values in latencies.items()}
    return PairMatrix(title, members, dict(rates), slowest, tuple(sorted(wrong)), verdict)
