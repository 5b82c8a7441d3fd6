"""Which pairs are measured when: rounds of disjoint pairs, as for a tournament, and slow pairs once more."""

Pair = tuple[int, int]
FEWEST_PAIRS, LEVEL = 3, 0.8
MOST_SUSPECTS, MOST_WITNESSES = 12, 6
ALL_ROUNDS_UP_TO = 16
FEW_ROUNDS = 3


def pair_rounds(count: int) -> list[list[tuple[int, int]]]:
    """Return rounds of disjoint pairs (a < b) in which every pair of 0..count-1 meets exactly once.

    Above 16 members only the first three rounds, so that each still meets three different ones. With an odd
    count one member pauses in each round. https://en.wikipedia.org/wiki/Round-robin_tournament#Circle_method
    """
    if count < 2:
        return []
    size = count + count % 2
    ring = list(range(1, size))
    rounds = []
    for _ in range(size - 1):
        order = [0, *ring]
        pairs = [(order[at], order[size - 1 - at]) for at in range(size // 2)]
        rounds.append([(min(pair), max(pair)) for pair in pairs if max(pair) < count])
        ring = ring[-1:] + ring[:-1]
    return rounds if count <= ALL_ROUNDS_UP_TO else rounds[:FEW_ROUNDS]


def find_partner(member: int, pairs: list[tuple[int, int]]) -> int | None:
    """Return whom a member meets in a round, None where it pauses."""
    for one, other in pairs:
        if member in (one, other):
            return other if member == one else one
    return None


def select_slow_pairs(rates: dict[Pair, float], share: float) -> list[Pair]:
    """Return the slowest pairs below `share` of what most reach, and the witnesses they are compared with.

    The witnesses are the fastest pairs of the suspects' nodes with others; without them, the fastest of all.
    """
    ordered = sorted(rates.values())
    if len(ordered) < FEWEST_PAIRS:
        return []
    limit = share * ordered[int(LEVEL * (len(ordered) - 1) + 0.999)]
    slow = sorted((rate, pair) for pair, rate in rates.items() if rate < limit)
    suspects = [pair for _, pair in slow[:MOST_SUSPECTS]]
    fast = sorted((-rate, pair) for pair, rate in rates.items() if rate >= limit)
    witnesses: list[Pair] = []
    for node in (node for pair in suspects for node in pair):
        witnesses += [pair for _, pair in fast if node in pair][:1]
    witnesses = witnesses or [pair for _, pair in fast[:1]]
    return [*suspects, *list(dict.fromkeys(witnesses))[:MOST_WITNESSES]] if suspects else []
