"""Which pairs of nodes are to be repeated: the slow ones, and fast ones of the same nodes."""

Pair = tuple[int, int]

FEWEST_PAIRS, LEVEL = 3, 0.8
MOST_SUSPECTS, MOST_WITNESSES = 12, 6


def pairs_to_repeat(rates: dict[Pair, float], share: float) -> list[Pair]:
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
