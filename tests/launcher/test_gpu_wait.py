"""`run --wait`: real tickets of real programs on this machine; only the facts of the GPUs are chosen."""

import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner

from launcher.cli import cli
from launcher.commands import _launch
from launcher.commands._host_access import HostAccess
from launcher.commands._launch_request import LaunchOptions, LaunchSession, RunRequest
from launcher.config.inventory import HostEntry, Inventory
from launcher.config.run_config import load_run_config
from launcher.errors import GpusBusy, HostError, WaitTimedOut
from launcher.exit_codes import ExitCode
from launcher.follow.phases import Stopwatch
from launcher.follow.protocol import FrameReader
from launcher.launch import gpu_wait, wait_queue
from launcher.launch.gpu_wait import GpuWait, check_in_turn, find_busy, has_lost_gpus
from launcher.launch.launch import CheckedLaunch
from launcher.launch.request import LaunchRequest
from launcher.launch.wait_queue import HostTicket, WaitQueue, _queue_in
from launcher.onhost.supervisor import gpu_claims
from launcher.onhost.supervisor import wait_tickets as tickets
from launcher.remote.connection_pool import ConnectionPool
from launcher.transports.base import Connection, Endpoint
from launcher.transports.local import LocalConnection
from preflight.checks.finding import blocks_launch
from preflight.checks.runner import check_host
from preflight.facts.gpu import ComputeProcess, Gpu, GpuClaim
from preflight.facts.host import HostFacts
from preflight.facts.json_codec import decode
from preflight.facts.missing import Missing
from preflight.job import CommandRequest, Expect, Job
from preflight.probes.claim_files import CLAIMS_DIR
from tests.launcher.restart_cases import ended, preflighted

RECORDING = Path(__file__).parents[1] / "preflight" / "recordings" / "2xl40s.json"
JOB = Job(name="mine", script="train.py", gpus="all")
HOLDER = ComputeProcess(4242, "compute", 9000, Missing("", "no-permission"))


def recorded() -> HostFacts:
    facts = decode(HostFacts, json.loads(RECORDING.read_text())["facts"])
    return replace(facts, host="here", claims=())


def gpus_of(facts: HostFacts) -> tuple[Gpu, ...]:
    assert not isinstance(facts.gpus, Missing)
    return facts.gpus


def held(facts: HostFacts, *indices: int) -> HostFacts:
    gpus = tuple(replace(gpu, processes=(HOLDER,)) if gpu.index in indices else gpu for gpu in gpus_of(facts))
    return replace(facts, gpus=gpus)


def own_uuids(facts: HostFacts) -> HostFacts:
    """GPUs that no other test on this machine can wait for."""
    return replace(facts, gpus=tuple(replace(gpu, uuid=f"GPU-{uuid.uuid4()}") for gpu in gpus_of(facts)))


def entry(name: str = "here") -> HostEntry:
    return HostEntry(name, python=sys.executable)


def open_local(entry: HostEntry) -> Connection:
    return LocalConnection(Endpoint(entry.name, "local", ""))


@pytest.fixture
def place(tmp_path: Path) -> str:
    return str(tmp_path)


@pytest.fixture
def held_open() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def take(stack: ExitStack, place: str, name: str, *gpus: str) -> str:
    path, fd = tickets.make_ticket(place, name, list(gpus))
    stack.callback(gpu_claims.release_file, path, fd)
    return path


def names(found: list[tickets.Ticket]) -> list[str]:
    return [each.name for each in found]


def test_first_come_first_served_among_those_who_want_the_same(place: str, held_open: ExitStack) -> None:
    take(held_open, place, "first", "A", "B")
    take(held_open, place, "other", "C")
    second = take(held_open, place, "second", "B")
    third = take(held_open, place, "third", "A", "B", "C")
    assert names(tickets.list_tickets_ahead(place, second)) == ["first"]
    assert names(tickets.list_tickets_ahead(place, third)) == ["first", "other", "second"]


def test_what_a_ticket_says_moves_it_nowhere_and_what_cannot_be_read_wants_everything(
    place: str, held_open: ExitStack
) -> None:
    odd = take(held_open, place, "odd", "Z")
    mine = take(held_open, place, "mine", "A")
    late = take(held_open, place, "late", "A")
    os.utime(late, (0, 0))  # a time that anybody can set
    assert names(tickets.list_tickets_ahead(place, mine)) == []
    for said in (b"\xff{", b"[1]", b'{"name": 3, "gpus": ["Z"]}', b"[" * 5000, b" " * 20_000):
        assert tickets.parse_ticket(said) == ("", None)
    assert tickets.parse_ticket(b'{"name": "x", "gpus": [1]}') == ("x", None)
    everything = tickets.Ticket((0, 0), odd, "u", "", None)
    assert tickets.want_the_same(everything, tickets.Ticket((1, 0), mine, "u", "", frozenset({"A"})))


def test_files_that_nobody_holds_links_and_pipes_stand_in_no_queue(place: str, held_open: ExitStack) -> None:
    mine = take(held_open, place, "mine", "A")
    dead = Path(place) / "gpulaunch-wait-000000000000"
    dead.write_text('{"name": "dead", "gpus": ["A"]}')
    os.mkfifo(Path(place) / "gpulaunch-wait-000000000001")
    (Path(place) / "gpulaunch-wait-000000000002").symlink_to(mine)
    (Path(place) / "gpulaunch-wait-3").write_text("{}")
    assert names(tickets.live_tickets(place)) == ["mine"]
    assert dead.exists()  # it is young: its owner may be about to lock it


def test_many_tickets_of_one_user_are_bounded(
    place: str, held_open: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tickets, "TICK_S", 0.0)
    paths = [take(held_open, place, f"n{n}", "A") for n in range(tickets.MAX_TICKETS + 2)]
    assert len(tickets.live_tickets(place)) == tickets.MAX_TICKETS
    assert len(tickets.list_tickets_ahead(place, paths[-1])) == tickets.MAX_TICKETS  # it waits, all the same


def blocked(facts: HostFacts, job: Job) -> bool:
    return any(blocks_launch(each) for each in check_host(facts, job, Expect()) if each.code == "PROC001")


def test_busy_is_what_the_preflight_says_and_no_more() -> None:
    facts = recorded()
    assert find_busy(facts, entry(), JOB, frozenset()) == ()
    one = held(facts, 0)
    assert blocked(one, JOB)
    assert {each.code for each in find_busy(one, entry(), JOB, frozenset())} >= {"PROC001"}
    assert find_busy(one, entry(), replace(JOB, gpus=1), frozenset()) == ()
    assert find_busy(one, entry(), JOB, frozenset({"PROC001"})) == ()
    claim = GpuClaim(str(gpus_of(facts)[1].uuid), "r1", "bob", 1001, 7, 0.0)
    claimed = replace(facts, claims=(claim,))
    assert [each.code for each in find_busy(claimed, entry(), JOB, frozenset())] == ["PROC005"]
    # A command that asks for two ranks would start with one; waiting means waiting for both.
    command = replace(JOB, command=CommandRequest(ranks_per_host=2))
    assert not blocked(one, command)
    assert find_busy(one, entry(), command, frozenset())


class Machine:
    """Hosts with GPUs that the test says are held, and clients that wait for them."""

    def __init__(self, stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stack = stack
        self.facts = own_uuids(recorded())
        self.looks: Callable[[int], HostFacts] = lambda _: self.facts
        self.count = 0
        monkeypatch.setattr(gpu_wait, "POLL_S", 0.2)
        monkeypatch.setattr(gpu_wait, "query_agent", self.look)

    def look(self, *_: object) -> HostFacts:
        self.count += 1
        return self.looks(self.count)

    def client(self, wait_s: float = 30.0) -> tuple[GpuWait, list[str]]:
        pool = ConnectionPool(open_local)
        self.stack.callback(pool.close)
        said: list[str] = []
        waiting = GpuWait(LaunchRequest((entry(),), JOB, pool), JOB, wait_s, said.append)
        self.stack.enter_context(waiting)
        return waiting, said


@pytest.fixture
def machine(held_open: ExitStack, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(held_open, monkeypatch)


@pytest.mark.slow
def test_a_launch_waits_for_a_holder_then_for_its_turn(machine: Machine) -> None:
    first, _ = machine.client()
    assert first.wait_until_free() is False  # free, and nobody was there
    second, said = machine.client()

    def looks(count: int) -> HostFacts:
        if count == 4:
            first.close()  # its run has started, and holds the GPUs from then on
        return held(machine.facts, 1) if 4 <= count < 6 else machine.facts

    machine.looks = looks
    assert second.wait_until_free() is True
    assert machine.count >= 6
    text = "\n".join(said)
    assert said[0].startswith("waiting for GPUs, ")
    assert "here: 1 before this run in the queue: " in text
    assert "(mine)" in text
    assert "here gpu1: 8.8 GiB held by pid 4242" in text
    assert text.count("held by pid 4242") == 1  # no news, no line


@pytest.mark.slow
def test_a_wait_that_runs_out_has_an_exit_code_and_says_who_holds_what(machine: Machine) -> None:
    machine.looks = lambda _: held(machine.facts, 0)
    waiting, _ = machine.client(0.5)
    document = {"schema": "x"}

    def check() -> CheckedLaunch:
        raise GpusBusy("busy").with_document(document)

    with pytest.raises(WaitTimedOut, match=r"not free within 0.5s\nhere gpu0: 8.8 GiB held by pid") as caught:
        check_in_turn(waiting, check, Stopwatch())
    assert caught.value.exit_code == ExitCode(75)
    assert caught.value.document is document


@pytest.mark.slow
def test_a_rehearsal_waits_as_a_run_does(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("import torch\n")
    machine.looks = lambda _: held(machine.facts, 0)
    words = ["rehearse", "train.py", "--gpus", "all", "--wait", "0s"]
    with pytest.raises(WaitTimedOut, match="held by pid 4242"):
        CliRunner().invoke(cli, words, standalone_mode=False, catch_exceptions=False)


@pytest.mark.slow
def test_places_are_kept_until_the_run_has_started(machine: Machine) -> None:
    waiting, _ = machine.client()
    checked = iter([GpusBusy("busy"), None])

    def check() -> CheckedLaunch:
        if (error := next(checked)) is not None:
            raise error
        return CheckedLaunch(waiting._launch, None, None)  # type: ignore[arg-type] # nothing asks for it

    machine.looks = lambda count: held(machine.facts, 0) if count == 1 else machine.facts
    prepared = check_in_turn(waiting, check, Stopwatch())
    rival, _ = machine.client(0.0)
    with pytest.raises(WaitTimedOut, match="1 before this run"):
        rival.wait_until_free()
    rival.close()
    assert prepared.launch.on_started is not None
    prepared.launch.on_started("r")
    again, _ = machine.client()
    assert again.wait_until_free() is False


def step_until(queue: WaitQueue, deadline: float) -> None:
    while time.monotonic() < deadline:
        queue.step()


def test_a_run_that_another_one_forestalls_waits_again(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu = "GPU-11111111-2222-3333-4444-555555555555"
    path, fd = gpu_claims.make_claim(place, gpu, "r9")
    said = gpu_claims.find_conflict(place, [gpu], {})
    gpu_claims.release_claims({path: fd})
    outcomes = [ended("aborted", exit_code=5, why=f"a: {said}"), ended("finished", why="")]
    waits: list[float] = []

    def prepared(
        what: RunRequest, launch: LaunchRequest, session: LaunchSession
    ) -> tuple[CheckedLaunch, LaunchRequest, dict[str, str]]:
        assert session.options.wait is not None
        waits.append(session.options.wait)
        return CheckedLaunch(launch, preflighted(launch.entries, job=JOB), None), launch, {}

    monkeypatch.setattr(_launch, "_prepared_in_turn", prepared)
    monkeypatch.setattr(_launch, "_carried_through", lambda *_, **__: outcomes.pop(0))
    (tmp_path / "job.yaml").write_text("script: train.py")
    config = load_run_config(str(tmp_path / "job.yaml"))
    pool = ConnectionPool(open_local)
    what = RunRequest(replace(config, job=JOB), (entry("a"),), HostAccess(Inventory(), open_local, 1))
    options = run_options(wait=60.0, logs=tmp_path)
    assert _launch.launch_and_report(what, LaunchRequest((entry("a"),), JOB, pool), options) == 0
    assert waits[0] == 60.0
    assert 0 < waits[1] < 60.0
    assert has_lost_gpus(ended("aborted", why="a: the launcher cannot be started")) is False


def run_options(**given: Any) -> LaunchOptions:
    unset: dict[str, Any] = {
        each.name: False if each.type == "bool" else () if each.name in ("hosts", "sets", "ignore") else ""
        for each in fields(LaunchOptions)
    }
    return LaunchOptions(
        **{**unset, "keys": {}, "launch": None, "transport": None, "inventory": None, **given}
    )


@pytest.mark.slow
def test_two_names_of_one_host_are_one_place_and_a_lost_place_is_noticed(
    machine: Machine, held_open: ExitStack
) -> None:
    pool = ConnectionPool(open_local)
    held_open.callback(pool.close)
    gpu = f"GPU-{uuid.uuid4()}"
    queue = held_open.enter_context(
        WaitQueue((entry("a"), entry("b")), {"a": [gpu], "b": [gpu]}, pool, "a b")
    )
    while not queue.step():
        pass
    [mine] = [each for each in tickets.live_tickets(CLAIMS_DIR) if each.gpus == frozenset({gpu})]
    assert mine.name == "a_b"
    Path(mine.path).unlink()
    deadline = time.monotonic() + 20
    with pytest.raises(HostError, match="the place in its queue was lost"):
        step_until(queue, deadline)


def flood(line: bytes) -> Any:
    """Return the stream of a host that sends a line, again and again."""
    return SimpleNamespace(read=lambda _: line, read_stderr=lambda: b"", write=lambda _: None)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"ahead":1,"who":[["ana","r"]]}\n' * 1000, "sends without end"),
        (b'{"ahead":99999999999999999999,"who":[]}\n', "a frame without `ahead`"),
        (b'{"ahead":0,"who":{"a":1}}\n', "a frame without `ahead`"),
    ],
)
def test_what_no_queue_says_is_the_error_of_its_host(line: bytes, why: str) -> None:
    reader = FrameReader()
    list(reader.feed(b"GPULAUNCH-RUN-1 {}\n"))
    ticket = HostTicket("titan", flood(line), "id", reader)
    with pytest.raises(HostError, match=why):
        ticket.poll()


@pytest.mark.parametrize("queue", ["null", '""', "7", '["a"]'])
def test_hosts_that_do_not_say_which_queue_they_have_are_not_one_host(queue: str) -> None:
    with pytest.raises(HostError, match="which queue it is"):
        _queue_in("titan", json.loads(f'{{"queue": {queue}}}'))


class FakeTicket(HostTicket):
    """A place in a list of this process in place of a host's directory."""

    def __init__(self, host: str, line: list[HostTicket]) -> None:
        self.host, self.queue, self.line = host, f"id of {host}", line
        self.ahead, self.who, self.joined = None, (), False

    def join(self) -> None:
        self.joined = True
        self.line.append(self)

    def poll(self) -> None:
        self.ahead = self.line.index(self) if self.joined else None

    def close(self) -> None:
        if self in self.line:
            self.line.remove(self)


def test_no_two_launches_each_hold_a_place_that_the_other_waits_for(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: dict[str, list[HostTicket]] = {"a": [], "b": [], "c": []}
    monkeypatch.setattr(
        wait_queue, "open_ticket", lambda entry, *_: FakeTicket(entry.name, lines[entry.name])
    )
    pool = ConnectionPool(open_local)
    one, two = (
        WaitQueue([entry(name) for name in order], dict.fromkeys("abc", ()), pool, order)
        for order in ("abc", "cba")
    )
    turns = [(one.step(), two.step()) for _ in range(5)]
    assert turns[-1] == (True, False)
    assert [len(lines[name]) for name in "abc"] == [2, 1, 1]  # the second one stands where it cannot block
    one.close()
    assert [two.step() for _ in range(4)][-1]
