"""What this process and its shards say to each other: frames of a length and a pickle, over pipes.

Both ends are this program, and nothing of a host is unpickled: its answer travels as the bytes that it sent.
"""

import pickle
import struct
import threading
from typing import Any, BinaryIO, TypeAlias

from launcher.config.inventory import HostEntry, Inventory
from launcher.errors import GpulaunchError
from launcher.remote.agent import AgentRequest
from launcher.remote.reachability import ProbeTargets
from preflight.facts.host import Reach
from preflight.frozen import dataclass

_HEADER = struct.Struct(">I")


@dataclass(frozen=True, slots=True)
class ShardRequest:
    """What one shard does: its hosts by their number in the whole list, and how to reach them."""

    hosts: tuple[tuple[int, HostEntry, AgentRequest], ...]
    inventory: Inventory
    width: int
    accept_new_host_keys: bool = False
    can_ask: bool = False  # a person answers questions, at the client's terminal
    targets: ProbeTargets | None = None  # where each host connects to once it has answered


@dataclass(frozen=True, slots=True)
class HostAnswer:
    """What one host answered: its document as sent, when it came, whom it reached, how one logs in to it."""

    number: int
    document: bytes
    answered_unix: float
    reach: tuple[Reach, ...] = ()
    login: str = ""  # as of `find_login`


@dataclass(frozen=True, slots=True)
class HostFailure:
    """Why one host gave no answer."""

    number: int
    error: GpulaunchError


@dataclass(frozen=True, slots=True)
class Question:
    """A passphrase, or a yes to a new host key, that a person is to give."""

    lines: tuple[str, ...]
    question: str
    secret: bool


@dataclass(frozen=True, slots=True)
class QuestionAnswer:
    """What the person typed; None: nothing, the input has ended."""

    text: str | None


@dataclass(frozen=True, slots=True)
class ShardFinished:
    """The last of a shard; `bug` is the traceback of what no class foresees."""

    bug: str = ""


Frame: TypeAlias = ShardRequest | HostAnswer | HostFailure | Question | QuestionAnswer | ShardFinished


class FrameWriter:
    """Writes frames for several threads; a reader that is behind makes them wait."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._lock = threading.Lock()

    def write(self, frame: Frame) -> None:
        """Write one whole. Raises OSError where the other end has gone."""
        data = pickle.dumps(frame, protocol=5)
        with self._lock:
            self._file.write(_HEADER.pack(len(data)))
            self._file.write(data)
            self._file.flush()


def read_frame(file: BinaryIO) -> Any:
    """Return the next frame, None at the end; half a frame is the end too."""
    header = file.read(_HEADER.size)
    if len(header) < _HEADER.size:
        return None
    (length,) = _HEADER.unpack(header)
    data = file.read(length)
    return pickle.loads(data) if len(data) == length else None  # noqa: S301 - written by our own process
