"""Which rows of the signature table a log's lines match, looked for fast. Pure."""

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, lru_cache
from itertools import accumulate, repeat

from preflight import regex as re
from preflight.diagnosis.lines import Line
from preflight.diagnosis.signatures.model import Alternative, AnyOf, select_literals
from preflight.diagnosis.signatures.table import NOTICES, SEARCHED, Signature, find_signature
from preflight.frozen import dataclass

_ERRNO = re.compile(r"\[Errno (\d{1,3})\]|\(os error (\d{1,3})\)|\bOs \{ code: (\d{1,3}), kind")
_STORAGE = frozenset({"S93"})
_PEER = frozenset({"S57", "S59", "S82", "S115", "S81", "S51", "S52", "S49", "S138"})
# Linux numbers, asm-generic/errno-base.h and errno.h.
_BY_ERRNO: dict[int, frozenset[str]] = {
    2: frozenset({"S92", "S113", "S84", "S68", "S37", "S82", "S83", "S27"}),
    5: _STORAGE, 13: frozenset({"S94", "S120"}), 1: frozenset({"S94", "S120"}),
    11: frozenset({"S48", "S93"}), 12: frozenset({"S21", "S60"}), 20: frozenset({"S92"}), 21: frozenset({"S92"}),
    22: _STORAGE, 23: frozenset({"S75"}), 24: frozenset({"S75", "S122"}), 28: frozenset({"S76", "S60", "S122"}), 30: _STORAGE, 32: _PEER,
    98: frozenset({"S50", "S121"}), 99: frozenset({"S51", "S50", "S138"}), 101: _PEER, 104: frozenset({"S93", *_PEER}), 107: frozenset({"S93", *_PEER}), 110: frozenset({"S93", *_PEER}),
    111: frozenset({"S93", *_PEER}), 113: frozenset({"S93", *_PEER}), 116: _STORAGE, 117: _STORAGE, 121: _STORAGE, 122: frozenset({"S76"}),
}  # fmt: skip
_UNSTARTED, _FORKED = "S100", "S42"
_FORK = re.compile(
    r"DataLoader worker|/torch/utils/data/_utils/worker\.py|^Process (?:Fork\w+|Process)-\d|multiprocessing/popen_fork|forked subprocess|os\.fork\(\)"
)
_SPAWN = re.compile(r"multiprocessing/spawn\.py|^Process Spawn\w+-\d")
_NEVER_JOINED, _TOO_MANY = "S52", "S116"
_JOINED = re.compile(r"world_size=(\d{1,7}), (?:worker_count|num_workers_joined)=(\d{1,7})")
_FORK_ABOVE = 60  # lines above a message that are read for signs of a fork: those of one traceback
# What caught the exception of an import has printed it so, and may continue without.
_PRINTED = re.compile(
    r"(?:cannot import name|No module named) ['\"]|(?:/\S{1,300}/)?lib[\w+.-]{1,60}\.so[.\d]*: cannot open shared object"
)
_ZEROS = bytes(ord("0") if chr(byte).isdecimal() else byte for byte in range(128)) + bytes(range(128, 256))


@dataclass(frozen=True, slots=True)
class SignatureHit:
    """A line and the row that it matches."""

    row: Signature
    line: Line


def find_hits(lines: Sequence[Line]) -> list[SignatureHit]:
    """Return the lines that match a row, each with the first row that does; harmless lines are left out.

    Lines that differ only in their numbers are looked at once: of a long log few shapes are left, and only
    those that hold a literal of some row are tried with patterns.
    """
    if not lines:
        return []
    shapes = _shape_of("\n".join(line.text for line in lines)).split(b"\n")
    active = _active(set(shapes))
    found = []
    for line, its_shape in zip(lines, shapes, strict=True):
        rows = active.get(its_shape)
        row = _first(rows, line.text) if rows else None
        if row is not None and row.code == _UNSTARTED and _shows_fork(lines, line):
            row = find_signature(_FORKED)
        elif row is not None and row.code == _NEVER_JOINED and _more_joined(line.text):
            row = find_signature(_TOO_MANY)
        elif row is not None and _PRINTED.match(line.text) and not _is_announced(lines, line):
            row = replace(row, broad=True)
        if row is not None and not is_harmless(line.text):
            found.append(SignatureHit(row, line))
    return found


def _is_announced(lines: Sequence[Line], line: Line) -> bool:
    """Whether the line above says that something ended by what a line says."""
    return any(
        "because of the following error" in each.text for each in lines[max(0, line.order - 1) : line.order]
    )


def _more_joined(text: str) -> bool:
    """Whether a store has more processes than the run has ranks: of another launch, or its file is old."""
    found = _JOINED.search(text)
    return found is not None and int(found[2]) > int(found[1])


def _shows_fork(lines: Sequence[Line], line: Line) -> bool:
    """Whether a message, or its rank's lines above it, say that its process was forked (not spawned)."""
    above = (each for each in lines[max(0, line.order - _FORK_ABOVE) : line.order + 1])
    own = [each.text for each in above if each.stream == line.stream]
    return any(map(_FORK.search, own)) and not any(map(_SPAWN.search, own))


def zero_numbers(text: str) -> str:
    """Return a text with every number replaced by 0; as bytes, which takes a long log a tenth of the time."""
    return _shape_of(text).decode("utf-8", "surrogatepass")


def _shape_of(text: str) -> bytes:
    return zero_bytes(text.encode("utf-8", "surrogatepass"))


def zero_bytes(text: bytes) -> bytes:
    """Return what `zero_numbers` does of a text in UTF-8."""
    zeros = text.translate(_ZEROS)
    while b"00" in zeros:
        zeros = zeros.replace(b"00", b"0")
    return zeros


def is_harmless(text: str) -> bool:
    """Whether a line is one that is known to alarm for nothing."""
    return HARMLESS.is_in(text)


HARMLESS = AnyOf("|".join(notice.pattern.pattern for notice in NOTICES if notice.safe))
"""Every branch of the notices that may be ignored."""


_Rows = Sequence[tuple[Signature, Alternative]]


@cache
def _table() -> tuple[tuple[Signature, Alternative], ...]:
    """Return (row, alternative) in the table's order, when first asked: most runs do not fail."""
    return tuple((row, alternative) for row in SEARCHED for alternative in row.alternatives)


def find_first_match(text: str) -> Signature | None:
    """Return the first row of the whole table that matches a text."""
    return _first(_rows_of(_shape_of(text)), text)


@lru_cache(maxsize=2048)
def _rows_of(its_shape: bytes) -> _Rows:
    """Return the rows that a shape may match; a log has many exceptions and few shapes of them."""
    return _rows_with(frozenset(literal for literal in _may_be_in(its_shape) if literal in its_shape))


@lru_cache(maxsize=2048)
def _rows_with(literals: frozenset[bytes]) -> _Rows:
    """Return the rows of some literals, in the order of the table."""
    return tuple(_table()[at] for at in sorted({at for each in literals for at in _places_in_table()[each]}))


@cache
def _places_in_table() -> dict[bytes, list[int]]:
    """Return {shape of a literal: its places in the table}."""
    places: dict[bytes, list[int]] = defaultdict(list)
    for at, (_, alternative) in enumerate(_table()):
        for literal in map(_shape_of, select_literals(alternative.pattern)):
            places[literal].append(at)
    return places


def _active(shapes: set[bytes]) -> dict[bytes, _Rows]:
    """Return {shape: rows it may match}, shapes that can match none left out."""
    each_shape = list(shapes)
    everything = b"\n".join(each_shape)
    held: dict[int, list[bytes]] = defaultdict(list)
    for literal in _may_be_in(everything):
        for place in find_places(literal, everything):
            held[place].append(literal)
    return {each_shape[place]: _rows_with(frozenset(literals)) for place, literals in held.items()}


def _may_be_in(text: bytes) -> Iterator[bytes]:
    """Yield the table's literals whose every four bytes in a row are somewhere in a text: few of them."""
    quartets, by_start = _quartets(text), _literals_by_start()
    for start in (0, *(by_start.keys() & quartets)):
        yield from (each for each in by_start[start] if quartets.issuperset(_quartets_of_literal(each)))


@cache
def _literals_by_start() -> Mapping[int, list[bytes]]:
    """Return {first four bytes as a number: literals of the table}; 0 has the shorter ones."""
    found: dict[int, list[bytes]] = defaultdict(list)
    for literal in _places_in_table():
        found[int.from_bytes(literal[:4], sys.byteorder) if len(literal) >= 4 else 0].append(literal)
    return found


def _quartets(text: bytes) -> frozenset[int]:
    """Return every four bytes in a row, each as a number: a million are gathered in a tenth of a second."""
    view, size = memoryview(text), len(text)
    return frozenset[int]().union(
        *(view[at : size - (size - at) % 4].cast("I") for at in range(min(4, size)))
    )


_quartets_of_literal = cache(_quartets)


def find_places(literal: bytes, text: bytes) -> Iterable[int]:
    """Return which lines of a text hold a literal, in their order; an empty one is in every line."""
    if not literal:
        return range(text.count(b"\n") + 1)
    if literal not in text:
        return ()
    *before, _ = text.split(literal)
    return dict.fromkeys(accumulate(map(bytes.count, before, repeat(b"\n"))))


class JoinedLines:
    """Lines in which a pattern is looked for at once: each of its branches only where its literal is."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = lines
        self._text = "\n".join(lines).encode("utf-8", "surrogatepass")

    def list_matches(self, pattern: AnyOf) -> set[int]:
        """Return the places of the lines that a pattern is found in."""
        found: set[int] = set()
        for each in pattern.alternatives if self._lines else ():
            for at in find_places(each.literal.encode(), self._text):
                if at not in found and each.search(self._lines[at]):
                    found.add(at)
        return found


def _first(rows: _Rows, text: str) -> Signature | None:
    allowed = _of_errno(text)
    return next(
        (
            row
            for row, alternative in rows
            if alternative.search(text) and (not allowed or row.code in allowed)
        ),
        None,
    )


def _of_errno(text: str) -> frozenset[str]:
    """Return the codes that a line's errno leaves possible, none without it: words beside it are a path's."""
    found = _ERRNO.search(text) if "rrno " in text or "os error " in text or "Os { code" in text else None
    return _BY_ERRNO.get(int(found[1] or found[2] or found[3]), frozenset()) if found else frozenset()
