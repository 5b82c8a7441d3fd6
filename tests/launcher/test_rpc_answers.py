"""Answers of programs on hosts, read from a stream in pieces of any size and among words of others."""

import tracemalloc
from collections.abc import Callable
from typing import Any, cast

import pytest

from launcher.errors import AgentProtocolError, CommandTimedOut
from launcher.follow.protocol import MARKER
from launcher.remote.rpc import MAX_OUTPUT, Answers, run_program
from launcher.runs.request import send_request
from launcher.transports.base import CommandResult, Connection, Stream
from launcher.transports.command import explain_timeout
from tests.launcher.odd_hosts import Host


class Pieces:
    """A stream that gives its parts one by one, and then ends with 0."""

    def __init__(self, parts: list[bytes]) -> None:
        self._parts = parts

    def read(self, _timeout_s: float) -> bytes | None:
        return self._parts.pop(0) if self._parts else b""

    def read_stderr(self) -> bytes:
        return b""

    def wait(self, _timeout_s: float) -> int | None:
        return 0


def call_program(host: Connection) -> object:
    return run_program(host, "python3", "find_checkpoints", {}, name="the program", timeout_s=60)


def ask_supervisor(host: Connection) -> object:
    return send_request(host, "python3", {"mode": "list"})


def answers(parts: list[bytes]) -> Answers:
    return Answers(cast("Stream", Pieces(parts)), "titan", "python3", "the program")


@pytest.mark.parametrize("size", [1, 2, 7, 19, 20, 21, 64, 4096])
def test_answers_are_found_in_pieces_of_any_size(size: int) -> None:
    marked = [b"\nGPULAUNCH-ANSWER-1 %s\n" % text for text in (b'{"a": 1}', b'{"b": 2}', b"{}")]
    said = b"motd\nGPULAUNCH-\n" + b"x".join(marked)
    found = answers([said[at : at + size] for at in range(0, len(said), size)])
    assert [found.next(60) for _ in range(3)] == [{"a": 1}, {"b": 2}, {}]


def test_noise_is_bounded_and_not_kept() -> None:
    noise = [b"welcome " * 8192] * (MAX_OUTPUT // 65536 - 1)
    found = answers([*noise, b"\nGPULAUNCH-ANSWER-1 {}\n", *noise, *noise])
    tracemalloc.start()
    assert found.next(60) == {}
    with pytest.raises(AgentProtocolError, match="without an answer: welcome"):
        found.next(60)
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()


class Recorder(Host):
    """A host that keeps how its output is known to be whole."""

    def run(self, argv: Any, **options: Any) -> CommandResult:
        self.is_whole = options["is_whole"]
        return super().run(argv, **options)


@pytest.mark.parametrize(
    ("ask", "said", "answered"),
    [
        (call_program, b"motd\n\nGPULAUNCH-ANSWER-1 {}", b"\n"),
        (ask_supervisor, b"motd\n" + MARKER + b'{"state": {}}', b"\n"),
    ],
    ids=["program", "supervisor"],
)
def test_an_answer_is_whole_at_its_last_byte(
    ask: Callable[[Connection], object], said: bytes, answered: bytes
) -> None:
    """So what holds the output open after it, such as a start-up file's daemon, costs no time."""
    host = Recorder(said + answered)
    ask(host)
    assert not any(host.is_whole(said[:cut]) for cut in range(len(said) + 1))
    assert host.is_whole(said + answered)
    assert host.is_whole(said + answered + b"a daemon speaks")


def test_a_host_that_lets_in_and_answers_nothing_is_reached_by_a_command_that_works() -> None:
    class Hung:
        name = "gpu-4"

        def run(self, _argv: object, **_options: object) -> CommandResult:
            raise explain_timeout(self.name, 20)

        def command_line(self, argv: tuple[str, ...]) -> str:
            return f"ssh -p 2222 ada@192.0.2.4 {argv[0]}"

    with pytest.raises(
        CommandTimedOut, match="gpulaunch could log in, and got no answer within 20 s"
    ) as late:
        send_request(cast("Any", Hung()), "python3", {"mode": "list"}, timeout_s=20)
    assert late.value.fix.endswith("`ssh -p 2222 ada@192.0.2.4 uptime`")
