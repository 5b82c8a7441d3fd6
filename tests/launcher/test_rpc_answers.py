"""Answers of programs on hosts, read from a stream in pieces of any size and among words of others."""

import tracemalloc
from typing import cast

import pytest

from launcher.errors import AgentProtocolError
from launcher.remote.rpc import MAX_OUTPUT, Answers
from launcher.transports.base import Stream


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
