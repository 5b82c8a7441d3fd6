"""Which rows of the signature table a log's lines match, looked for fast. Pure."""

from collections.abc import Sequence
from functools import cache

from preflight.diagnosis.lines import Line
from preflight.diagnosis.signatures.model import Alternative
from preflight.diagnosis.signatures.table import NOTICES, SIGNATURES, Signature
from preflight.frozen import dataclass

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
    shapes = shape("\n".join(line.text for line in lines)).split("\n")
    active = _active(set(shapes))
    found = []
    for line, its_shape in zip(lines, shapes, strict=True):
        rows = active.get(its_shape)
        row = _first(rows, line.text) if rows else None
        if row is not None and not is_harmless(line.text):
            found.append(SignatureHit(row, line))
    return found


def shape(text: str) -> str:
    """Return a text with every number replaced by 0. As bytes, for that takes a long log a tenth of the time."""
    zeros = text.encode("utf-8", "surrogatepass").translate(_ZEROS)
    while b"00" in zeros:
        zeros = zeros.replace(b"00", b"0")
    return zeros.decode("utf-8", "surrogatepass")


def is_harmless(text: str) -> bool:
    """Whether a line is one that is known to alarm for nothing."""
    return any(notice.safe and notice.pattern.search(text) for notice in NOTICES)


def first_match(text: str) -> Signature | None:
    """Return the first row of the whole table that matches a text."""
    return next((row for row in SIGNATURES if row.matches(text)), None)


_Rows = tuple[tuple[Signature, Alternative], ...]


@cache
def _table() -> tuple[tuple[str, Signature, Alternative], ...]:
    """Return (shape of its literal, row, alternative) in the order of the table.

    Made when a log is first searched: to compile the patterns takes as long as all imports of `run` together,
    and most runs end without a failure.
    """
    return tuple(
        (shape(alternative.literal), row, alternative)
        for row in SIGNATURES
        for alternative in row.alternatives
    )


def _active(shapes: set[str]) -> dict[str, _Rows]:
    """Return {shape: rows it may match}, shapes that can match none left out."""
    everything = "\n".join(shapes)
    possible: dict[str, bool] = {}
    table = _table()
    for literal, _, _ in table:
        if literal not in possible:
            possible[literal] = literal in everything
    left = [entry for entry in table if possible[entry[0]]]
    literals = list(dict.fromkeys(literal for literal, _, _ in left))
    found: dict[str, _Rows] = {}
    for each in shapes:
        there = {literal for literal in literals if literal in each}
        if there:
            found[each] = tuple((row, alternative) for literal, row, alternative in left if literal in there)
    return found


def _first(rows: _Rows, text: str) -> Signature | None:
    return next((row for row, alternative in rows if alternative.pattern.search(text)), None)
