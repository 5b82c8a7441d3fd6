"""Many hosts side by side."""

import threading
import time

import pytest

from launcher.errors import HostError
from launcher.remote.fanout import fanout


def test_results_keep_the_order_and_an_error_is_its_own_hosts_matter() -> None:
    def visit(item: int) -> int:
        time.sleep(0.02 * (5 - item))
        if item == 2:
            raise HostError("h2", "down")
        return item * 10

    results = fanout(visit, range(5))
    assert [str(result) for result in results] == ["0", "10", "h2: down", "30", "40"]


def test_a_slow_host_delays_nobody_else() -> None:
    started = time.monotonic()
    fanout(lambda _item: time.sleep(0.3), range(40))
    assert time.monotonic() - started < 3


def test_no_more_than_width_run_at_once() -> None:
    lock, running, most = threading.Lock(), [0], [0]

    def visit(_item: int) -> None:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.01)
        with lock:
            running[0] -= 1

    fanout(visit, range(20), width=3)
    assert most[0] == 3


def test_progress_is_told_in_the_callers_thread() -> None:
    told: list[tuple[int, object, int]] = []
    fanout(str, [1, 2], on_done=lambda item, result: told.append((item, result, threading.get_ident())))
    assert sorted(told) == [(1, "1", threading.get_ident()), (2, "2", threading.get_ident())]


def test_a_bug_is_raised_and_not_taken_for_a_hosts_answer() -> None:
    with pytest.raises(ZeroDivisionError):
        fanout(lambda item: 1 // item, [0])


def test_no_hosts_is_no_work() -> None:
    assert fanout(str, []) == []
