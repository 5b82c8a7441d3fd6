"""What goes to the tasks of a step and what comes back (launcher/onhost/step_relay.py). Pure."""

import base64
import binascii
from collections.abc import Iterator

from preflight.frozen import dataclass

LEAST_KEPT = 4096  # bytes of a text that tasks keep: every task receives what is sent to each
MAX_KEPT = 1 << 20
KEPT = 16  # texts of a task: how far a node may lag before its input travels on its own
_EDGE = 64
_LONGEST_LINE = 1 << 16


@dataclass(frozen=True, slots=True)
class Message:
    """What a task says of a channel, or of itself (channel "-")."""

    node: str
    channel: str
    kind: str
    data: bytes


def encode_message(node: str, channel: str, verb: str, *words: object, body: bytes = b"") -> bytes:
    """Return one message to a task."""
    head = " ".join((node, channel, verb, *map(str, words), str(len(body))))
    return head.encode() + b"\n" + body


class KeptTexts:
    """Texts that every task keeps, so that what differs little from host to host is sent to all only once."""

    def __init__(self) -> None:
        self._texts: dict[int, bytes] = {}
        self._keys: dict[bytes, int] = {}
        self._next = 0

    def input_messages(self, node: str, channel: str, data: bytes) -> bytes:
        """Return the messages that give a program this input."""
        if not LEAST_KEPT <= len(data) <= MAX_KEPT:
            return encode_message(node, channel, "in", body=data)
        key, head, tail = self._nearest(data)
        if head + tail < len(data) // 2:
            key, head, tail = self._keep(data), len(data), 0
            kept = encode_message("*", str(key), "keep", body=data)
        else:
            kept = b""
        body = data[head : len(data) - tail]
        return kept + encode_message(node, channel, "ref", key, head, tail, body=body)

    def _keep(self, data: bytes) -> int:
        """Have a text kept in the place of the oldest one; return its key."""
        key = self._next % KEPT
        self._next += 1
        self._keys.pop(self._texts.get(key, b""), None)
        self._texts[key] = data
        self._keys[data] = key
        return key

    def _nearest(self, data: bytes) -> tuple[int, int, int]:
        """Return the kept text that starts and ends most like this one: its key, and how much of each."""
        if (same := self._keys.get(data)) is not None:
            return same, len(data), 0
        best = (0, 0, 0)
        for key, text in self._texts.items():
            if text[:_EDGE] != data[:_EDGE] and text[-_EDGE:] != data[-_EDGE:]:
                continue
            head = _common_head(text, data)
            tail = min(_common_head(text[::-1], data[::-1]), min(len(text), len(data)) - head)
            if head + tail > best[1] + best[2]:
                best = (key, head, tail)
        return best


def _common_head(one: bytes, other: bytes) -> int:
    """Return how many bytes two texts have in common at their starts; halving compares fast."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


class MessageReader:
    """Turns what srun prints into messages; whatever else it prints, by a prolog say, is noise."""

    def __init__(self, magic: str) -> None:
        self._magic = magic.encode()
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Message]:
        """Yield the messages that are complete."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        self._rest = self._rest[-_LONGEST_LINE:]
        for line in lines:
            found = self._message(line)
            if found is not None:
                yield found

    def _message(self, line: bytes) -> Message | None:
        words = line.split(b" ")
        if len(words) != 5 or words[0] != self._magic:
            return None
        try:
            node, channel, kind = (word.decode() for word in words[1:4])
            return Message(node, channel, kind, base64.b64decode(words[4], validate=True))
        except (UnicodeDecodeError, binascii.Error):
            return None
