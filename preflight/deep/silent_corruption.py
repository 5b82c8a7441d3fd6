"""Which GPU computes something else than its like: silent corruption. Pure."""

from collections import Counter, defaultdict
from collections.abc import Sequence

from preflight.deep.measurements import RankDeep
from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class DigestVerdict:
    """What the digests of seeded products say."""

    unstable: tuple[RankDeep, ...] = ()  # differ from themselves, which needs no witness
    odd: tuple[RankDeep, ...] = ()  # differ from the majority of their like
    divided: tuple[tuple[RankDeep, ...], ...] = ()  # groups that differ and have no majority


def judge_digests(ranks: Sequence[RankDeep]) -> DigestVerdict:
    """Compare ranks of one model and one torch: their products have the same bits.

    A majority of three or more names who is odd; two that differ do not show which is right.
    """
    groups: dict[object, list[RankDeep]] = defaultdict(list)
    for rank in ranks:
        facts = rank.facts
        if rank.digest is not None and rank.digest.stable and facts is not None:
            groups[facts.device, facts.model, facts.capability, facts.torch, facts.cuda].append(rank)
    odd: list[RankDeep] = []
    divided: list[tuple[RankDeep, ...]] = []
    for group in groups.values():
        said = Counter(rank.digest.digests for rank in group if rank.digest is not None)
        if len(said) < 2:
            continue
        (common, count), *_ = said.most_common(1)
        if count * 2 > len(group) and len(group) >= 3:
            odd += [rank for rank in group if rank.digest is not None and rank.digest.digests != common]
        else:
            divided.append(tuple(group))
    unstable = tuple(rank for rank in ranks if rank.digest is not None and not rank.digest.stable)
    return DigestVerdict(unstable, tuple(odd), tuple(divided))
