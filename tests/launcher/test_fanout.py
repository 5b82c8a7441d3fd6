"""Many hosts side by side."""

import gc
import subprocess
import sys
import threading
import time
import weakref

import pytest

from launcher.errors import HostError
from launcher.local import fanout_places
from launcher.local.fanout_places import release_place
from launcher.remote import fanout as module
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
    assert time.monotonic() - started < 9  # one after the other: 12 s


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
    results: list[tuple[int, object, int]] = []
    fanout(str, [1, 2], on_done=lambda item, result: results.append((item, result, threading.get_ident())))
    assert sorted(results) == [(1, "1", threading.get_ident()), (2, "2", threading.get_ident())]


def test_a_bug_is_raised_and_not_taken_for_a_hosts_answer() -> None:
    with pytest.raises(ZeroDivisionError):
        fanout(lambda item: 1 // item, [0])


def test_no_hosts_is_no_work() -> None:
    assert fanout(str, []) == []


def test_silent_hosts_hold_no_place_of_those_that_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fanout_places, "PATIENCE_S", 0.01)
    over, lock, running, most = threading.Event(), threading.Lock(), [0], [0]
    answered: list[int] = []

    def visit(item: int) -> bool:
        if item < 60:
            with release_place():
                return over.wait(60)
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.001)
        with lock:
            running[0] -= 1
        return True

    def note(item: int, _result: object) -> None:
        if item >= 60:
            answered.append(item)
        if len(answered) == 40:
            over.set()  # the silent ones come first, and end only when all others have answered

    assert fanout(visit, range(100), width=3, on_done=note) == [True] * 100
    assert most[0] <= 3


def test_threads_are_bounded_whatever_the_number_of_silent_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fanout_places, "PATIENCE_S", 0.0)
    monkeypatch.setattr(module, "MOST_WAITS", 8)
    before, seen = threading.active_count(), [0]

    def visit(_item: int) -> None:
        with release_place():
            seen[0] = max(seen[0], threading.active_count() - before)
            time.sleep(0.005)

    fanout(visit, range(200), width=4)
    assert seen[0] <= 12


DESCRIPTORS = """
import os, resource, time
from launcher.remote.fanout import fanout
resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
def visit(item):
    held = []
    try:
        held += os.pipe()
        time.sleep(0.002)
        held += os.pipe()
        return item
    finally:
        for descriptor in held:
            os.close(descriptor)
assert fanout(visit, range(300)) == list(range(300))
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 32))
fanout(lambda item: item, range(20))
print(resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


def test_hosts_wait_their_turn_where_descriptors_run_out() -> None:
    done = subprocess.run([sys.executable, "-c", DESCRIPTORS], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("32\n", "")  # the soft limit was raised to the hard one


def test_one_host_that_finds_no_descriptor_even_alone_is_an_error() -> None:
    with pytest.raises(OSError, match="Too many"):
        fanout(_too_many, [0])


def _too_many(_item: int) -> None:
    raise OSError(24, "Too many open files")


def test_an_error_that_is_kept_keeps_nothing_of_what_was_read() -> None:
    class Answer:
        pass

    answers: list[weakref.ref[Answer]] = []

    def visit(_item: int) -> None:
        answer = Answer()
        answers.append(weakref.ref(answer))
        try:
            raise ValueError(answer)  # noqa: TRY301 - as a parser would
        except ValueError:
            raise HostError("h1", "its answer is garbage") from None

    results = fanout(visit, range(3))
    gc.collect()
    assert [str(each) for each in results] == ["h1: its answer is garbage"] * 3
    assert [answer() for answer in answers] == [None] * 3


def test_no_more_hosts_are_asked_at_once_where_all_are_slow_alike() -> None:
    place = fanout_places.Places(4)
    kind = fanout_places.Awaited("an answer", 6.0)
    assert place.patience_s(kind) == 6 * fanout_places.PATIENCE_S
    place.note_answer(kind, 0.001)
    assert place.patience_s(kind) == fanout_places.PATIENCE_S
    for _ in range(400):
        place.note_answer(kind, 8.0)
    assert place.patience_s(kind) > 15
    assert (
        place.patience_s(fanout_places.KEYS) == fanout_places.PATIENCE_S
    )  # what other answers take is not known yet


def test_items_that_are_slow_are_named_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SLOW_S", 0.1)
    slow, named = threading.Event(), list[list[str]]()

    def visit(item: str) -> str:
        if item == "slow":
            assert slow.wait(20)
        return item

    def name(items: list[str]) -> None:
        named.append(items)
        slow.set()

    assert fanout(visit, ["a", "slow", "b"], on_slow=name) == ["a", "slow", "b"]
    assert named == [["slow"]]
    fanout(visit, ["a", "b"], on_slow=name)
    assert len(named) == 1
