"""A log of any size as the lines that can matter to its diagnosis: read once, in bounded memory. Pure.

Training logs repeat few lines many times. Lines that differ only in their digits have one shape, of which the
first, the last and a sample between them are kept, with how many lines each stands for. Where there are too
many shapes (generated texts, random words) a new one is kept only if it holds a word that a pattern needs.

Functions of the interpreter do most of the work for a block at once: a step of Python for each line would
take longer. A shape is a line without its digits, made in a tenth of the time of `signature_matcher.shape`.
"""

import operator
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import replace
from itertools import accumulate, repeat

from preflight import regex as re
from preflight.diagnosis.failure_vocabulary import build_vocabulary
from preflight.diagnosis.lines import KeptLine, Log
from preflight.diagnosis.signature_matcher import zero_bytes

MOST_WHOLE = 256 << 10  # bytes of a log that is diagnosed as it is
_ALLOTMENTS = ((150, 48), (600, 12))
"""(shapes, lines): of so many repeating shapes, so many lines are kept at their start and at their end."""
_FEW = 4  # lines of each further shape
SAMPLE = 64  # of the lines between them every this many-th is kept
_AROUND = 6  # lines kept around one of a new shape: messages and tracebacks need them
_FREE_SHAPES, _FREE_BYTES = 1000, 250_000  # shapes that are kept without a look at their words
_MOST_EVENTS, _EVENT_BYTES = 1000, 250_000
"""How much of later shapes that hold a failure's word is kept from the log's start, and from its end."""
_LATE_BYTES = 1_000_000  # bytes of new shapes at the log's end that are then still looked at
_MOST_SHAPES = 30_000
_MOST_SAMPLED = 20_000
_BLOCK = 1 << 20
_LONGEST = 16_384  # bytes of a line that are kept
_ANSI = re.compile(rb"\x1b\[[0-?]*[ -/]*[@-~]")
_DIGITS = b"0123456789"
_SAME_NUMBER = b"\x0b"  # starts what stood behind a carriage return: it has the number of the line before it


class _Shape:
    """How often lines of one shape came, and the last of them."""

    __slots__ = ("last", "limit", "sampled", "seen")

    def __init__(self) -> None:
        self.seen = 1
        self.limit = _FEW
        self.sampled = 0
        self.last: list[tuple[int, int, bytes]] = []


class LogCondenser:
    """Takes a log block by block; gives the lines that are left of it."""

    def __init__(self) -> None:
        self._rest = b""
        self._place = 0  # lines so far, those behind carriage returns included
        self._number = 0  # lines so far
        self._shapes: dict[bytes, _Shape | bool | None] = {}  # True: seen once; None: not kept
        self._free = self._free_bytes = 0
        self._events = self._event_bytes = 0
        self._repeating = 0
        self._sampled = 0
        self._behind = 0
        self._kept: dict[int, tuple[int, bytes]] = {}
        self._late: deque[tuple[int, int, bytes]] = deque()  # of new shapes, when there were too many before
        self._late_bytes = 0

    def feed(self, block: bytes) -> None:
        """Read the next block. Lines may be cut anywhere between two blocks."""
        block = self._rest + block
        last = len(block) - 1  # a carriage return at it may be half of a line's end
        end = max(block.rfind(b"\n"), block.rfind(b"\r", 0, last)) + 1
        if not end:
            self._rest = block[:_LONGEST] if len(block) > 2 * _LONGEST else block
            return
        self._rest = block[end:]
        if block[end - 1 : end] == b"\r":
            self._rest = _SAME_NUMBER + self._rest
        self._take(block[:end] if block[end - 1 : end] == b"\n" else block[: end - 1] + b"\n")

    def lines(self) -> tuple[KeptLine, ...]:
        """Return what was kept, in the order of the log, when all blocks were read."""
        if self._rest:
            self._take(self._rest + b"\n")
            self._rest = b""
        kept = {place: (number, text, 1) for place, (number, text) in self._kept.items()}
        kept.update({place: (number, text, 1) for place, number, text in self._last_events()})
        for each in self._shapes.values():
            if isinstance(each, _Shape) and each.last:
                left_out = each.seen - each.limit - len(each.last) - each.sampled
                for index, (place, number, text) in enumerate(each.last):
                    kept[place] = (number, text, 1 + left_out if not index else 1)
        return tuple(
            KeptLine(number, text.decode("utf-8", "replace"), count)
            for _, (number, text, count) in sorted(kept.items())
        )

    def _take(self, block: bytes) -> None:
        """Read whole lines."""
        block = _plain(block)
        lines = block.split(b"\n")
        lines.pop()
        forms = block.translate(None, _DIGITS).split(b"\n")
        forms.pop()
        numbers = self._numbers(lines, behind_returns=_SAME_NUMBER in block)
        keep, fresh = self._repeated(lines, forms, numbers)
        self._behind = 0
        for at in self._chosen(fresh, forms, lines, numbers):
            keep.update(range(max(0, at - _AROUND), min(len(lines), at + _AROUND + 1)))
            self._behind = max(0, at + _AROUND + 1 - len(lines))
        self._keep(keep, lines, numbers)
        self._place += len(lines)

    def _numbers(self, lines: list[bytes], *, behind_returns: bool) -> Sequence[int]:
        start = self._number
        if not behind_returns:
            self._number += len(lines)
            return range(start + 1, start + 1 + len(lines))
        behind = accumulate(map(bytes.startswith, lines, repeat(_SAME_NUMBER)))
        found = list(map(operator.sub, range(start + 1, start + 1 + len(lines)), behind))
        self._number = found[-1] if found else start
        return found

    def _repeated(
        self, lines: list[bytes], forms: list[bytes], numbers: Sequence[int]
    ) -> tuple[set[int], list[int]]:
        """Count the lines of known shapes; return the places of those to keep, and of new shapes' lines."""
        shapes = self._shapes
        keep, fresh = set(range(min(self._behind, len(lines)))), list[int]()
        rest: Sequence[int] = range(len(forms))
        # A list for each of very many shapes would take longer than all else.
        if 2 * len(set(forms)) > len(forms):
            fresh, rest = self._new_and_others(forms)
        for form, places in _by_form(forms, rest).items():
            known = shapes.get(form, self)
            if known is None:
                continue
            if known is self:
                shapes[form] = True
                fresh.append(places.pop(0))
                if not places:
                    continue
            if not isinstance(known, _Shape):
                known = shapes[form] = _Shape()
            self._add(known, places, keep, lines, numbers)
        return keep, fresh

    def _new_and_others(self, forms: list[bytes]) -> tuple[list[int], list[int]]:
        """Return the places of new shapes' first lines, and of further lines of shapes that are counted."""
        shapes = self._shapes
        fresh, rest = list[int](), list[int]()
        for at, form in enumerate(forms):
            known = shapes.get(form, self)
            if known is self:
                shapes[form] = True
                fresh.append(at)
            elif known is not None:
                rest.append(at)
        return fresh, rest

    def _add(
        self, shape: _Shape, places: list[int], keep: set[int], lines: list[bytes], numbers: Sequence[int]
    ) -> None:
        """Count the lines of one shape at these places of a block; add the places of those to keep."""
        before = shape.seen
        shape.seen += len(places)
        if before <= _FEW < shape.seen:
            self._allot(shape)
        start = max(0, shape.limit - before)
        keep.update(places[:start])
        rest = places[start:]
        if not rest:
            return
        last, limit = shape.last, shape.limit
        left = len(last) + len(rest)
        # Counted from the log's start every SAMPLE-th is kept of those that no longer are among the last.
        for at in range(-(shape.seen - left + limit) % SAMPLE, left - limit, SAMPLE):
            if self._sampled >= _MOST_SAMPLED:
                break
            self._sampled += 1
            shape.sampled += 1
            if at < len(last):
                self._kept[last[at][0]] = last[at][1:]
            else:
                keep.add(rest[at - len(last)])
        last += [(self._place + at, numbers[at], lines[at][:_LONGEST]) for at in rest[-limit:]]
        del last[:-limit]

    def _allot(self, shape: _Shape) -> None:
        """Give a shape that repeats its room."""
        self._repeating += 1
        shape.limit = next((lines for shapes, lines in _ALLOTMENTS if self._repeating <= shapes), _FEW)

    def _chosen(
        self, fresh: list[int], forms: list[bytes], lines: list[bytes], numbers: Sequence[int]
    ) -> list[int]:
        """Return which lines of new shapes are kept, and forget the other shapes."""
        free = 0
        while free < len(fresh) and self._free < _FREE_SHAPES and self._free_bytes < _FREE_BYTES:
            self._free += 1
            self._free_bytes += len(forms[fresh[free]])
            free += 1
        rest = fresh[free:]
        if not rest:
            return fresh
        if self._events >= _MOST_EVENTS or self._event_bytes >= _EVENT_BYTES:
            self._postpone(rest, forms, lines, numbers)
            return fresh[:free]
        text = zero_bytes(b"\n".join(map(lines.__getitem__, rest)))
        events = list(map(rest.__getitem__, build_vocabulary().lines_with(text)))
        if len(events) > _MOST_EVENTS:
            end = rest.index(events[_MOST_EVENTS])
            self._postpone(rest[end:], forms, lines, numbers)
            rest, events = rest[:end], events[:_MOST_EVENTS]
        self._events += len(events)
        self._event_bytes += sum(len(forms[at]) for at in events)
        others = map(forms.__getitem__, set(rest).difference(events))
        if len(self._shapes) < _MOST_SHAPES:
            self._shapes.update(dict.fromkeys(others))
        else:
            deque(map(self._shapes.__delitem__, others), maxlen=0)
        return fresh[:free] + events

    def _postpone(
        self, places: list[int], forms: list[bytes], lines: list[bytes], numbers: Sequence[int]
    ) -> None:
        """Put lines aside that are looked at only if the log ends soon."""
        deque(map(self._shapes.__delitem__, map(forms.__getitem__, places)), maxlen=0)
        late = [(self._place + at, numbers[at], lines[at][:_LONGEST]) for at in places]
        self._late += late
        self._late_bytes += sum(len(line) for _, _, line in late)
        while self._late_bytes > _LATE_BYTES:
            self._late_bytes -= len(self._late.popleft()[2])

    def _last_events(self) -> list[tuple[int, int, bytes]]:
        """Return the last lines of those put aside that hold a failure's word."""
        late, kept, size = list(self._late), list[tuple[int, int, bytes]](), 0
        while late and len(kept) < _MOST_EVENTS and size <= _EVENT_BYTES:
            last = late[: -_MOST_EVENTS - 1 : -1]
            del late[-_MOST_EVENTS:]
            text = zero_bytes(b"\n".join(line for _, _, line in last))
            for index in build_vocabulary().lines_with(text)[: _MOST_EVENTS - len(kept)]:
                kept.append(last[index])
                size += len(last[index][2])
                if size > _EVENT_BYTES:
                    break
        return kept

    def _keep(self, places: set[int], lines: list[bytes], numbers: Sequence[int]) -> None:
        for index in places:
            self._kept[self._place + index] = (numbers[index], lines[index][:_LONGEST])


def _by_form(forms: list[bytes], places: Sequence[int]) -> dict[bytes, list[int]]:
    """Return {form: its places}, of these places, in the order of their first lines."""
    found: dict[bytes, list[int]] = defaultdict(list)
    deque(map(list.append, map(found.__getitem__, map(forms.__getitem__, places)), places), maxlen=0)
    return found


def _plain(block: bytes) -> bytes:
    """Return a block without zeros and colours, in which carriage returns end lines too."""
    if b"\x00" in block:
        block = block.replace(b"\x00", b"")
    if b"\x1b" in block:
        block = _ANSI.sub(b"", block)
    if b"\b" in block:
        block = re.sub(rb"\x08+", b"\r", block)
    if b"\r" in block:
        block = block.replace(b"\r\n", b"\n").replace(b"\r", b"\n" + _SAME_NUMBER)
    return block


def condense(log: Log) -> Log:
    """Return a log with a long text condensed, another one as it is."""
    if len(log.text) <= MOST_WHOLE:
        return log
    condenser = LogCondenser()
    for start in range(0, len(log.text), _BLOCK):
        condenser.feed(log.text[start : start + _BLOCK].encode("utf-8", "replace"))
    return replace(log, text="", kept=condenser.lines())
