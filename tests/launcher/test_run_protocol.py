"""The wire to the supervisor: noise before the marker, frames in any pieces, garbage refused."""

import contextlib
import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from launcher.follow.protocol import MARKER, Frame, FrameReader, ProtocolError

WHOLE = (
    b"Welcome to titan!\nGPULAUNCH is great\n"
    + MARKER
    + b'{"state": {}}\n'
    + b'{"log": "a", "offset": 0, "size": 6}\n{"x"}\n'
    + b'{"alive": 1.5}\n'
    + b'{"log": "a", "offset": 6, "size": 0}\n'
)
FRAMES = [
    Frame({"state": {}}, b""),
    Frame({"log": "a", "offset": 0, "size": 6}, b'{"x"}\n'),
    Frame({"alive": 1.5}, b""),
    Frame({"log": "a", "offset": 6, "size": 0}, b""),
]


@given(st.lists(st.integers(0, len(WHOLE)), max_size=20))
def test_frames_are_the_same_however_they_are_cut(cuts: list[int]) -> None:
    reader = FrameReader()
    edges = [0, *sorted(cuts), len(WHOLE)]
    frames = [frame for start, end in pairwise(edges) for frame in reader.feed(WHOLE[start:end])]
    assert frames == FRAMES


def test_what_came_before_the_marker_is_kept_for_a_message() -> None:
    reader = FrameReader()
    assert list(reader.feed(b"bash: python3: command not found\n")) == []
    assert reader.preamble == b"bash: python3: command not found\n"


@pytest.mark.parametrize(
    "bad",
    [
        b"not json\n",
        b"[1]\n",
        b'{"size": -1}\n',
        b'{"size": "x"}\n',
        b'{"size": 999999999999}\n',
        b'{"t": Infinity}\n',
        b'{"t": ' + b"[" * 9999 + b"\n",
    ],
)
def test_garbage_after_the_marker_is_refused(bad: bytes) -> None:
    reader = FrameReader()
    list(reader.feed(MARKER + b"{}\n"))
    with pytest.raises(ProtocolError):
        list(reader.feed(bad))


@given(st.binary(max_size=500))
def test_random_bytes_never_crash_it(data: bytes) -> None:
    reader = FrameReader()
    with contextlib.suppress(ProtocolError):
        assert len(list(reader.feed(MARKER + b"{}\n" + data))) >= 1


def test_binary_of_any_size_survives() -> None:
    data = bytes(range(256)) * 5000
    header = json.dumps({"log": "a", "offset": 0, "size": len(data)}).encode()
    reader = FrameReader()
    stream = MARKER + b"{}\n" + header + b"\n" + data
    frames = [frame for at in range(0, len(stream), 65536) for frame in reader.feed(stream[at : at + 65536])]
    assert frames[-1].data == data
