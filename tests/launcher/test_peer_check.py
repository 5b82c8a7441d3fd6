"""Whether a silent host has died: only what another host could see before, and sees no more, says so."""

import threading
import time
from collections.abc import Callable

import pytest

from launcher.errors import ConnectionLost
from launcher.follow.peer_check import (
    MAX_FAILED_PROBES,
    PROBE_INTERVAL_S,
    RETRY_PAUSES_S,
    PeerAddress,
    PeerCheck,
)

TARGETS = {"a": ("10.0.0.1", 22), "b": ("10.0.0.2", 22), "c": ("10.0.0.3", 22)}


class World:
    """Hosts that answer or do not, and a clock that is moved by hand."""

    def __init__(self) -> None:
        self.dead: set[str] = set()
        self.deaf: set[str] = set()  # cannot be asked
        self.cut: set[tuple[str, str]] = set()  # (who asks, whom it does not reach)
        self.now = 0.0
        self.probed: list[str] = []

    def probe(self, asker: str, targets: tuple[PeerAddress, ...]) -> tuple[bool, ...]:
        self.probed.append(asker)
        if asker in self.deaf:
            raise ConnectionLost(asker, "gone")
        names = {target: name for name, target in TARGETS.items()}
        hosts = [names[target] for target in targets]
        return tuple(host not in self.dead and (asker, host) not in self.cut for host in hosts)


@pytest.fixture
def world() -> World:
    return World()


def vigil_over(world: World) -> PeerCheck:
    check = PeerCheck(TARGETS, world.probe, clock=lambda: world.now)
    check.start()
    settle()
    assert list(check.step(())) == []
    return check


def settle() -> None:
    """Wait for the threads that ask."""
    deadline = time.monotonic() + 10.0
    while any("_answer" in thread.name for thread in threading.enumerate()):
        assert time.monotonic() < deadline
        time.sleep(0.001)


def verdicts(
    check: PeerCheck, world: World, dropped: Callable[[], set[str]], rounds: int
) -> list[tuple[int, str]]:
    found = []
    for number in range(rounds):
        found += [(number, f"{host}: {why}") for host, why in check.step(dropped())]
        settle()
        world.now += PROBE_INTERVAL_S
    return found


def test_a_host_that_no_other_reaches_any_more_has_died_and_that_is_said_once(world: World) -> None:
    check = vigil_over(world)
    world.dead = {"b"}
    found = verdicts(check, world, lambda: {"b"}, 3 * MAX_FAILED_PROBES)
    assert found == [
        (MAX_FAILED_PROBES, "b: a, which could connect to it before, gets no answer from it either")
    ]


def test_the_main_host_is_looked_for_by_the_second(world: World) -> None:
    check = vigil_over(world)
    world.dead = {"a"}
    assert [text[:5] for _, text in verdicts(check, world, lambda: {"a"}, 3 * MAX_FAILED_PROBES)] == ["a: b,"]


def test_a_host_that_answers_another_lives_however_long_we_are_cut_off(world: World) -> None:
    check = vigil_over(world)
    assert verdicts(check, world, lambda: {"b"}, 5 * MAX_FAILED_PROBES) == []


def test_hosts_that_could_never_reach_each_other_prove_nothing(world: World) -> None:
    world.dead = {"b"}  # behind a firewall, as seen from the others
    check = vigil_over(world)
    assert verdicts(check, world, lambda: {"b"}, 5 * MAX_FAILED_PROBES) == []


def test_one_answer_begins_the_count_anew(world: World) -> None:
    check = vigil_over(world)
    world.dead = {"b"}
    assert verdicts(check, world, lambda: {"b"}, MAX_FAILED_PROBES - 1) == []
    world.dead = set()
    assert verdicts(check, world, lambda: {"b"}, 1) == []
    world.dead = {"b"}
    assert verdicts(check, world, lambda: {"b"}, MAX_FAILED_PROBES - 1) == []


def test_a_link_that_comes_back_begins_the_count_anew(world: World) -> None:
    check = vigil_over(world)
    world.dead = {"b"}
    assert verdicts(check, world, lambda: {"b"}, MAX_FAILED_PROBES) == []
    settle()
    assert list(check.step(())) == []
    assert verdicts(check, world, lambda: {"b"}, MAX_FAILED_PROBES) == []


def test_when_all_links_are_broken_nobody_is_asked_and_nobody_is_dead(world: World) -> None:
    check = vigil_over(world)
    world.dead = set(TARGETS)
    world.probed.clear()
    assert verdicts(check, world, lambda: set(TARGETS), 3 * MAX_FAILED_PROBES) == []
    assert world.probed == []


def test_who_cannot_be_asked_says_nothing(world: World) -> None:
    check = vigil_over(world)
    world.dead, world.deaf = {"b"}, {"a", "c"}
    assert verdicts(check, world, lambda: {"b"}, 3 * MAX_FAILED_PROBES) == []


def test_two_hosts_that_die_at_once_are_missed_by_the_third(world: World) -> None:
    check = vigil_over(world)
    world.dead = {"a", "b"}
    assert {text[:5] for _, text in verdicts(check, world, lambda: {"a", "b"}, 3 * MAX_FAILED_PROBES)} == {
        "a: c,",
        "b: c,",
    }


def test_one_host_that_reaches_it_outweighs_another_that_does_not(world: World) -> None:
    check = vigil_over(world)
    world.cut = {("a", "b")}
    assert verdicts(check, world, lambda: {"b"}, 5 * MAX_FAILED_PROBES) == []


def test_the_word_of_a_host_that_has_fallen_silent_itself_counts_no_more(world: World) -> None:
    check = vigil_over(world)
    assert verdicts(check, world, lambda: {"b"}, 1) == []  # "a" and "c" reach it
    world.dead = {"a", "b"}
    found = verdicts(check, world, lambda: {"a", "b"}, 3 * MAX_FAILED_PROBES)
    assert {text[:5] for _, text in found} == {"a: c,", "b: c,"}


@pytest.mark.parametrize("trouble", ["deaf", "dead"])
def test_a_question_of_the_start_that_went_wrong_is_asked_again(world: World, trouble: str) -> None:
    setattr(world, trouble, {"a", "b", "c"})  # busy, all of them, when the run starts
    check = vigil_over(world)
    setattr(world, trouble, set())
    world.now += RETRY_PAUSES_S[0]
    assert verdicts(check, world, set, 2) == []
    world.dead = {"b"}
    assert [text[:5] for _, text in verdicts(check, world, lambda: {"b"}, 3 * MAX_FAILED_PROBES)] == ["b: a,"]


def test_the_questions_of_the_start_end(world: World) -> None:
    world.dead = {"b"}
    check = vigil_over(world)
    for pause in RETRY_PAUSES_S:
        world.now += pause
        assert verdicts(check, world, set, 1) == []
    world.probed.clear()
    assert verdicts(check, world, set, 200) == []
    assert world.probed == []


def test_one_host_alone_has_nobody_to_ask() -> None:
    check = PeerCheck({"a": TARGETS["a"]}, lambda *_: pytest.fail("asked"))
    check.start()
    assert list(check.step({"a"})) == []
