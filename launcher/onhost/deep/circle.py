"""Rounds of disjoint pairs by the circle method, as for a tournament."""

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


def partner_of(member: int, pairs: list[tuple[int, int]]) -> int | None:
    """Return whom a member meets in a round, None where it pauses."""
    for one, other in pairs:
        if member in (one, other):
            return other if member == one else one
    return None
