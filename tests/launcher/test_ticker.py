"""Time passes for a run whose hosts never fall silent, and for one whose hosts say nothing."""

import queue
from itertools import count

from launcher.follow.events import Reconnected, RunEvent, Tick
from launcher.launch.followed_run import TickerQueue


def test_a_queue_that_is_never_empty_does_not_stop_the_clock() -> None:
    events: queue.Queue[RunEvent] = queue.Queue()
    for _ in range(100):
        events.put(Reconnected("a"))
    thirtieths = (number / 30 for number in count())
    ticking = TickerQueue(events, clock=lambda: next(thirtieths))
    taken = [ticking.get() for _ in range(60)]
    assert 10 <= sum(isinstance(each, Tick) for each in taken) <= 20
    assert events.qsize() == 100 - sum(isinstance(each, Reconnected) for each in taken)


def test_a_queue_that_stays_empty_ticks() -> None:
    ticking = TickerQueue(queue.Queue())
    assert all(isinstance(ticking.get(), Tick) for _ in range(3))
