"""A name server that answers late, or never, costs the host that needs it and no other."""

import queue
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from launcher.errors import NameNotResolved
from launcher.local import fanout_places
from launcher.remote.fanout import fanout
from launcher.transports.base import Endpoint, OpenOptions
from launcher.transports.ssh import dial
from launcher.transports.ssh import dns_lookups as lookups_module
from launcher.transports.ssh.connection import SshOpener
from launcher.transports.ssh.dns_lookups import Lookups
from tests.launcher.sshd import Sshd

NEVER, LATE = "never.example", "late.example"


@pytest.fixture(name="answer")
def _answer(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Let two names wait for the name server: one until the event, one until the test is over."""
    real, late, over = socket.getaddrinfo, threading.Event(), threading.Event()

    def ask(host: str, *args: Any, **options: Any) -> Any:
        {NEVER: over, LATE: late}.get(host, _AT_ONCE).wait()
        return real("127.0.0.1", *args, **options)

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    yield late
    over.set()


_AT_ONCE = threading.Event()
_AT_ONCE.set()


def test_a_name_without_an_answer_is_told_and_the_others_are_reached(
    tmp_path: Path, answer: threading.Event
) -> None:
    with Sshd.up(tmp_path / "sshd") as sshd:
        opener = SshOpener(OpenOptions())
        base = sshd.under_alias()
        never = replace(base, name="never", address=NEVER, connect_timeout_s=0.3)

        def one(endpoint: Endpoint) -> bytes:
            with opener(endpoint) as opened:
                if endpoint.name == "quick":
                    answer.set()  # only now, so both were under way at once
                return opened.run(("echo", endpoint.name)).stdout

        late = replace(base, name="late", address=LATE)
        results = fanout(one, (never, late, replace(base, name="quick")))
    assert results[1:] == [b"late\n", b"quick\n"]
    assert isinstance(results[0], NameNotResolved)
    assert results[0].detail == "its address 'never.example' was not resolved within 0.3 s"
    assert results[0].fix == "check the name server, or set `address:` to an IP"


def test_a_silent_name_server_costs_one_time_out_and_few_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    over, lock, lookups = threading.Event(), threading.Lock(), [0]

    def ask(*_args: Any, **_options: Any) -> Any:
        with lock:
            lookups[0] += 1
        over.wait(0.46)  # resolvers give up, and leave their room, shortly before the names do
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    monkeypatch.setattr(fanout_places, "PATIENCE_S", 0.01)
    monkeypatch.setattr(dial, "lookups", Lookups(8))
    names = [Endpoint(f"h{n}", "ssh", f"h{n}.example", connect_timeout_s=0.5) for n in range(60)]
    try:
        results = fanout(SshOpener(OpenOptions()), names, width=16)
    finally:
        over.set()
    assert all(isinstance(result, NameNotResolved) for result in results)
    assert lookups[0] == 8  # the others waited for these, and no longer than they did


def test_a_name_server_that_fails_is_asked_less_at_once_and_one_that_answers_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over, lookups = threading.Event(), Lookups(64)

    def ask(host: str, *_args: Any, **_options: Any) -> Any:
        if host.startswith("fails"):
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        over.wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 22))]

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    monkeypatch.setattr(lookups_module, "_PAUSE_S", 0.0)
    for number in range(5):
        assert "Temporary failure" in str(lookups.resolve(f"fails{number}", 22, 60.0))
    names = [f"waits{number}" for number in range(60)]
    threads = [threading.Thread(target=lookups.resolve, args=(name, 22, 60.0)) for name in names]
    for thread in threads:
        thread.start()
    while len(lookups._open) < 60 or lookups._asked < 16:
        time.sleep(0.001)
    assert lookups._asked == 16
    over.set()
    for thread in threads:
        thread.join()
    assert (lookups._asked, len(lookups._open), lookups._room) == (0, 0, 76)


def test_a_name_server_that_is_too_slow_for_so_many_names_costs_a_bounded_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def ask(*_args: Any, **_options: Any) -> Any:
        time.sleep(0.05)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    monkeypatch.setattr(lookups_module, "_EACH_S", 0.001)
    monkeypatch.setattr(lookups_module, "_MOST", 1)
    monkeypatch.setattr(dial, "lookups", Lookups(1))
    names = [Endpoint(f"h{n}", "ssh", f"h{n}", connect_timeout_s=0.3) for n in range(60)]
    results = fanout(SshOpener(OpenOptions()), names, width=60)
    said = Counter(result.detail for result in results if isinstance(result, NameNotResolved))
    slow = "its name was not resolved in time: the name server answers fewer than 1000 a second"
    assert set(said) == {"its name does not resolve: Name or service not known", slow}
    assert sum(said.values()) == 60  # nobody answers 60 names in 0.36 s, one after the other


def test_names_that_do_not_exist_are_one_kind_of_line_and_few_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lock, running, most = threading.Lock(), [0], [0]

    def ask(*_args: Any, **_options: Any) -> Any:
        with lock:
            running[0] += 1
            most[0] = max(most[0], running[0])
        time.sleep(0.0001)
        with lock:
            running[0] -= 1
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    monkeypatch.setattr(dial, "lookups", Lookups())
    names = [Endpoint(f"h{n}", "ssh", f"h{n}", connect_timeout_s=60.0) for n in range(2000)]
    results = fanout(SshOpener(OpenOptions()), names, width=256)
    assert {getattr(each, "detail", "") for each in results} == {
        "its name does not resolve: Name or service not known"
    }
    assert most[0] <= 256


_FAILED = socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
_BEHIND = "in time: the name server answers fewer than 25 a second"


@pytest.mark.parametrize(
    ("answers_each_s", "answer", "took_s", "said"),
    [
        (0, [], 0, "within 10 s"),
        (1, [], 0, _BEHIND),
        (15, [], 5, _BEHIND),
        (26, [], 5, ""),  # however many names wait
        (26, _FAILED, 1, ""),  # it says so, and is not silent
        (26, _FAILED, 9.9, "within 10 s"),  # the resolver says so
    ],
)
def test_names_that_wait_are_given_up_once_the_name_server_is_a_time_out_behind(
    answers_each_s: int, answer: Any, took_s: float, said: str
) -> None:
    lookups, told = Lookups(0), Counter[str]()  # no room: nobody is asked but by this test
    names = [
        lookups_module._Name(f"h{n}", 22, 10.0, lambda answer: told.update([str(answer)]))
        for n in range(2000)
    ]
    for name in names:
        lookups._add(name, 0.0)
    for second in range(60):
        for name in names[second * answers_each_s :][:answers_each_s]:
            name.asks, name.threads = 3, 1
            name.is_waiting = False
            lookups._take(name, answer, second - took_s, second)
        lookups._look(second)
    assert [reason for reason in told if reason != str(answer)] == [said] * bool(said)
    assert bool(lookups._open) is not bool(said)


def test_a_name_server_that_fails_is_to_be_checked() -> None:
    with pytest.raises(NameNotResolved) as failed:
        dial.require_addresses(Endpoint("h", "ssh", "h"), _FAILED)
    assert failed.value.detail == "its name does not resolve: Temporary failure in name resolution"
    assert failed.value.fix == "check the name server, or set `address:` to an IP"


def _resolve_all(lookups: Lookups, names: list[str], limit_s: float) -> dict[str, object]:
    """Ask about all names at once; return what came of each."""
    answers: queue.SimpleQueue[tuple[str, object]] = queue.SimpleQueue()

    def ask(name: str) -> None:
        lookups.ask(name, 22, limit_s, lambda answer: answers.put((name, answer)))

    for name in names:
        ask(name)
    return dict(answers.get() for _ in names)


def test_a_question_that_fails_for_the_moment_or_is_lost_is_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over, asked = threading.Event(), Counter[str]()

    def ask(host: str, *_args: Any, **_options: Any) -> Any:
        asked[host] += 1
        if host.startswith("fails") and asked[host] == 1:
            raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")
        if host.startswith("lost") and asked[host] == 1:
            over.wait()
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 22))]

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    monkeypatch.setattr(lookups_module, "_PAUSE_S", 0.01)
    monkeypatch.setattr(lookups_module, "_LATE", 0.005)
    names = ["fails", "answers", *(f"lost{number}" for number in range(6))]
    try:
        answers = _resolve_all(Lookups(4), names, 60.0)  # the lost ones would take all the room
    finally:
        over.set()
    assert set(map(str, answers.values())) == {str([(socket.AF_INET, ("127.0.0.1", 22))])}
    assert set(asked) == set(names)
    assert max(asked.values()) <= 3


def test_a_name_server_that_loses_bursts_is_asked_no_faster_than_it_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over, lock, lost = threading.Event(), threading.Lock(), [0]
    spare = [8.0, time.monotonic()]

    def ask(*_args: Any, **_options: Any) -> Any:
        with lock:
            now = time.monotonic()
            spare[:] = [min(8.0, spare[0] + 400 * (now - spare[1])), now]
            spare[0] -= (is_answered := spare[0] >= 1)
            lost[0] += not is_answered
        if not is_answered:
            over.wait()
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", ask)
    monkeypatch.setattr(lookups_module, "_LATE", 0.002)
    names = [f"h{number}" for number in range(400)]
    try:
        answers = _resolve_all(Lookups(), names, 60.0)
    finally:
        over.set()
    assert {getattr(answer, "errno", answer) for answer in answers.values()} == {socket.EAI_NONAME}
    assert lost[0] < len(names)
