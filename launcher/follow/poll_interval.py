"""How often a client looks for words to send to its hosts."""

_POLL_S = 0.1
_MOST_POLLS_EACH_S = 2000
_LONGEST_POLL_S = 1.0


def poll_interval(nodes: int) -> float:
    """Return how long a client of so many nodes waits for a host before it looks for words to send.

    A thousand threads that wake ten times a second keep half a core busy while nothing happens.
    """
    return min(_LONGEST_POLL_S, max(_POLL_S, nodes / _MOST_POLLS_EACH_S))
