"""A client that is gone, asleep or back: what it asks of its hosts, what it judges, and by which clock."""

import queue
import signal
from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from pathlib import Path
from typing import Any, Self

import pytest

from launcher.config.config_overrides import Overrides
from launcher.config.disconnect_options import START_TIMEOUT_S, DisconnectOptions, describe_disconnect
from launcher.config.run_config import load_run_config
from launcher.errors import ConfigError, ConnectionLost, HostError, HostKeyChanged, NameNotResolved
from launcher.follow import protocol
from launcher.follow.awake_clock import SLEEP_S, AwakeClock
from launcher.follow.client_deadlines import ClientTimeout
from launcher.follow.detach_policy import ACK_TIMEOUT_S, RETRY_S, DetachPolicy, DetachPromise
from launcher.follow.events import (
    Disconnected,
    HostEnded,
    HostLost,
    HostStarted,
    Interrupted,
    Reconnected,
    RunEvent,
    StartRefused,
)
from launcher.follow.node_client import NodeClient
from launcher.follow.outcome import build_outcome
from launcher.follow.run_state import RunState
from launcher.launch.signals import SignalCounter
from launcher.restart.decision import NoRestart, classify_failure
from tests.launcher.run_events import CPU, ended, host_report, replay, said, stops
from tests.launcher.run_plans import NOWHERE, plan
from tests.launcher.typed_keys import typed

BOTH = [HostStarted("a", "/r"), HostStarted("b", "/r")]


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


# what a run config and the command line say


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("", {}, DisconnectOptions("continue", 600.0, 10.0)),
        ("on_disconnect: stop\n", {}, DisconnectOptions("stop", 600.0, 10.0)),
        (
            "on_disconnect: stop\ndisconnect_timeout: 1m\ngrace: 30s\n",
            {},
            DisconnectOptions("stop", 60.0, 30.0),
        ),
        ("on_disconnect: stop\n", {"on_disconnect": "continue"}, DisconnectOptions("continue", 600.0, 10.0)),
        (
            "",
            {"on_disconnect": "stop", "disconnect_timeout": "5", "grace": "2"},
            DisconnectOptions("stop", 5.0, 2.0),
        ),
    ],
)
def test_run_configs_and_options_say_what_a_gone_client_means(
    tmp_path: Path, text: str, options: dict[str, str], expected: DisconnectOptions
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("script: x.py\n" + text)
    assert load_run_config(str(path), Overrides(keys=typed(**options))).disconnect == expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("on_disconnect: detach\n", "one of continue, stop"),
        ("disconnect_timeout: 1\n", "from 3 s"),
        ("grace: soon\n", "a duration"),
        ("grace: 2d\n", "a duration from 0 s to 86400 s"),
    ],
)
def test_a_wrong_value_is_told_with_what_was_expected(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "c.yaml"
    path.write_text("script: x.py\n" + text)
    with pytest.raises(ConfigError, match=words):
        load_run_config(str(path))


def test_the_first_screen_says_what_ctrl_c_a_closed_terminal_and_a_lost_link_do() -> None:
    still_running = describe_disconnect(
        DisconnectOptions(), "r-1", ctrl_c="asks: stop, detach or stay", remote=True
    )
    assert still_running == (
        "Ctrl-C asks: stop, detach or stay; if this terminal closes or the link is lost, the run continues: "
        "gpulaunch attach r-1"
    )
    ends = describe_disconnect(DisconnectOptions("stop", 60.0), "r-1", ctrl_c="stops the run", remote=True)
    assert ends == (
        "Ctrl-C stops the run; closing this terminal stops it, and so does a link that is lost for 60 s "
        "(on_disconnect: stop)"
    )
    assert "link" not in describe_disconnect(DisconnectOptions(), "r-1", ctrl_c="stops the run", remote=False)


def test_hosts_are_told_for_how_long_half_a_run_may_wait_for_its_client() -> None:
    def spec(disconnect: DisconnectOptions) -> dict[str, Any]:
        return protocol.StartRequests(plan(CPU), disconnect)._spec(plan(CPU).nodes[0])

    still_running, ends = spec(DisconnectOptions()), spec(DisconnectOptions("stop", 60.0, 7.0))
    assert (still_running["on_disconnect"], still_running["disconnect_timeout_s"]) == (
        "continue",
        START_TIMEOUT_S,
    )
    assert (ends["on_disconnect"], ends["disconnect_timeout_s"], ends["grace_s"]) == ("stop", 60.0, 7.0)


@pytest.mark.parametrize(
    ("came", "asks", "heard"),
    [
        ((signal.SIGINT, signal.SIGHUP), True, ("SIGHUP",)),
        ((signal.SIGINT, signal.SIGHUP), False, ("Ctrl-C", "SIGHUP")),
        ((signal.SIGINT, signal.SIGINT, signal.SIGHUP), True, ("SIGHUP",)),  # the two are one press
        ((signal.SIGINT, signal.SIGTERM), True, ("Ctrl-C", "SIGTERM")),
        ((signal.SIGHUP, signal.SIGINT), True, ("SIGHUP", "Ctrl-C")),
    ],
)
def test_a_closed_terminal_takes_the_question_of_ctrl_c_with_it(
    *, came: tuple[signal.Signals, ...], asks: bool, heard: tuple[str, ...]
) -> None:
    counter = SignalCounter()
    for number in came:
        counter.record(number, None)
    assert tuple(iter(lambda: counter.pop(asks=asks), "")) == heard


# the promise that makes a run need no client


def test_hosts_are_asked_to_go_on_once_every_node_has_started_and_again_until_all_promise() -> None:
    watch = RunState(plan(CPU, CPU))
    promise = DetachPromise(watch)
    replay(watch, BOTH[:1])
    assert not promise.is_due(1.0)
    replay(watch, BOTH[1:])
    assert promise.is_due(2.0)
    assert not promise.is_due(2.1)
    replay(watch, [host_report("a", "detached")])
    assert promise.is_due(2.1 + RETRY_S)  # the word to b may have been lost with its link
    replay(watch, [host_report("b", "detached")])
    assert not promise.is_due(9.0 + RETRY_S)


@pytest.mark.parametrize(
    "back", [Reconnected("a"), HostStarted("a", "/r")], ids=["reconnected", "reached-late"]
)
def test_a_host_that_answers_counts_as_disconnected_no_more(back: RunEvent) -> None:
    watch = RunState(plan(CPU, CPU))
    replay(watch, [*BOTH[1:], Disconnected("a", "no route to host")])
    assert watch.nodes.disconnected == {"a"}
    replay(watch, [back])
    assert watch.nodes.disconnected == set()


@pytest.mark.parametrize("event", [StartRefused("b", "no space"), HostLost("b", "gone"), Interrupted()])
def test_half_a_run_and_one_that_is_ending_are_not_told_to_go_on(event: RunEvent) -> None:
    watch = RunState(plan(CPU, CPU))
    replay(watch, [*BOTH, event])
    assert not DetachPromise(watch).is_due(1.0)


def test_who_leaves_at_once_waits_for_nothing_but_the_start_and_the_promise() -> None:
    watch = RunState(plan(CPU, CPU))
    departure = DetachPolicy(watch, 0.0, at_once=True)
    replay(watch, BOTH[:1])
    assert departure.step(1.0) == "wait"
    replay(watch, BOTH[1:])
    assert departure.step(2.0) == "detach"
    replay(watch, [host_report("a", "detached")])
    assert departure.step(3.0) == "wait"
    replay(watch, [host_report("b", "detached")])
    assert departure.step(3.0) == "leave"

    promised = RunState(plan(CPU))
    replay(promised, [HostStarted("a", "/r"), host_report("a", "detached")])
    assert DetachPolicy(promised, 0.0, at_once=True).step(0.1) == "leave"

    cut_off = RunState(plan(CPU, CPU))
    departure = DetachPolicy(cut_off, 0.0, at_once=True)
    replay(cut_off, [*BOTH, Disconnected("b", "silence")])
    assert departure.step(1.0) == "detach"
    assert departure.step(2.0 + ACK_TIMEOUT_S) == "leave"


# silence, by a clock that counts only what was awake


def test_what_passes_while_the_process_sleeps_is_not_counted() -> None:
    clock = Clock()
    awake = AwakeClock(clock)
    clock.at += 3.0
    assert awake.read() == 3.0
    clock.at += 8 * 3600.0
    assert awake.read() == 3.0
    assert awake.pop_sleep() == 8 * 3600.0
    assert awake.pop_sleep() == 0.0
    clock.at += SLEEP_S
    assert awake.read() == 3.0 + SLEEP_S


def test_all_hosts_are_given_up_together_after_awake_silence_and_none_while_one_answers() -> None:
    clock = Clock()
    awake, watch = AwakeClock(clock), RunState(plan(CPU, CPU))
    silence = ClientTimeout(watch, 10.0, awake)

    def later(seconds: int) -> bool:
        silence.is_over()
        for _ in range(seconds):
            clock.at += 1.0
            awake.read()
        return silence.is_over()

    replay(watch, [*BOTH, Disconnected("a", "silence")])
    assert not later(30)
    replay(watch, [Disconnected("b", "silence")])
    assert not later(9)
    clock.at += 3600.0  # asleep
    assert not silence.is_over()
    replay(watch, [Reconnected("a")])
    assert not later(1)
    replay(watch, [Disconnected("a", "silence")])
    assert not later(9)
    assert later(3)


def test_a_lost_host_on_which_the_run_goes_on_stops_no_other_and_starts_nothing_again() -> None:
    watch = RunState(plan(CPU, CPU))
    replay(watch, BOTH)
    lost = [HostLost(host, "not reached again for 600 s", still_running=True) for host in "ab"]
    assert stops(replay(watch, lost)) == []
    outcome = build_outcome(watch, NOWHERE, 1.0, 1)
    assert (outcome.verdict, outcome.exit_code, outcome.cleanup.still_running) == ("aborted", 5, ("a", "b"))
    assert isinstance(classify_failure(outcome), NoRestart)

    dead = RunState(plan(CPU, CPU))
    (stop,) = stops(replay(dead, [*BOTH, HostLost("a", "b gets no answer from it either")]))
    assert stop.hosts == ("b",)


def test_a_run_that_its_host_ended_for_want_of_a_client_says_so_and_ends_elsewhere() -> None:
    watch = RunState(plan(CPU, CPU))
    why = "no client has followed this attached run for 60 s"
    stopping = host_report("a", "stopping", why=why, grace_s=10, requested=False)
    actions = replay(watch, [*BOTH, stopping, host_report("a", "rank_exit", rank=0, code=-15, stopping=True)])
    assert said(actions) == f"a: {why}; stopping every node"
    assert [stop.hosts for stop in stops(actions)] == [("a", "b")]
    replay(watch, [ended("a", why=why), ended("b", why=why)])
    outcome = build_outcome(watch, NOWHERE, 1.0, 1)
    assert (outcome.verdict, outcome.exit_code, outcome.why) == ("aborted", 5, why)


class Way:
    """A connection whose one stream says what it is given; None: nothing for now, b"": the end."""

    name = "a"

    def __init__(self, said: Iterator[bytes | None]) -> None:
        self._said = said
        self.words: list[bytes] = []

    def command_line(self, argv: Iterable[str]) -> str:
        return f"ssh a {' '.join(argv)}".rstrip()

    def start(self, argv: object) -> "Way":
        del argv
        return self

    def read(self, seconds: float) -> bytes | None:
        del seconds
        return next(self._said)

    def write(self, data: bytes) -> None:
        self.words.append(data)

    def wait(self, seconds: float) -> None:
        del seconds

    def read_stderr(self) -> bytes:
        return b""

    def close(self) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def answer(text: str) -> bytes:
    return protocol.MARKER + text.encode() + b"\n"


def followed(clock: Clock, ways: Sequence[Way | HostError | None], patience_s: float) -> list[RunEvent]:
    """Return what happens while one host is followed over these ways; None: it cannot be reached."""
    events: queue.Queue[RunEvent] = queue.Queue()
    left = iter(ways)

    def open_connection() -> Any:
        way = next(left)
        if way is None:
            clock.at += 4.0
            raise ConnectionLost("a", "no route to host")
        if isinstance(way, HostError):
            raise way
        return way

    follower = NodeClient(
        "r1",
        plan(CPU).nodes[0],
        open_connection,
        lambda: b"start",
        patience_s=patience_s,
        events=events,
        awake=AwakeClock(clock),
    )
    follower.run()
    return [events.get_nowait() for _ in range(events.qsize())]


def sleeper(clock: Clock) -> Way:
    """Return a way that is dead after the sleep of a night."""

    def said() -> Iterator[bytes | None]:
        yield answer('{"state": {"run_dir": "/r"}}')
        clock.at += 8 * 3600.0
        yield None
        yield b""

    return Way(said())


def test_a_client_that_wakes_connects_again_before_it_judges() -> None:
    clock = Clock()
    back = Way(iter([answer('{"state": {}}'), b'{"end": {"phase": "ended"}}\n']))
    came = followed(clock, [sleeper(clock), back], patience_s=5.0)
    assert [type(each) for each in came] == [HostStarted, Disconnected, Reconnected, HostEnded]


def test_a_key_that_has_changed_is_not_waited_for_without_a_word() -> None:
    clock = Clock()
    back = Way(iter([answer('{"state": {}}'), b'{"end": {"phase": "ended"}}\n']))
    ways: list[Way | HostError | None] = [
        sleeper(clock),
        HostKeyChanged("a", "IT HAS CHANGED", "ask"),
        NameNotResolved("a", "offline"),
        back,
    ]
    came = [each for each in followed(clock, ways, patience_s=5.0) if isinstance(each, Disconnected)]
    assert [(each.why, each.is_final) for each in came[1:]] == [("IT HAS CHANGED", True), ("offline", False)]


@pytest.mark.slow
def test_a_host_that_stays_away_while_the_client_is_awake_is_lost_in_time() -> None:
    clock = Clock()
    came = followed(clock, [sleeper(clock), *repeat(None, 3)], patience_s=10.0)
    assert [type(each) for each in came] == [HostStarted, *repeat(Disconnected, 4), HostLost]
    (lost,) = [each for each in came if isinstance(each, HostLost)]
    assert lost == HostLost("a", "not reached again for 12 s")
