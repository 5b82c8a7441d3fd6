"""Braces of a shell that write several words: `{a,b}`, `{1..4}`, `{01..10..3}`. Pure."""

from collections.abc import Sequence
from itertools import pairwise

from preflight import regex as re

_BRACES = re.compile(r"(?<!\$)\{(?P<inner>[^{}\s'\"\\()]{0,200}(?:,|\.\.)[^{}\s'\"\\()]{0,200})\}")
_QUOTED = re.compile(r"\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\"|\$\((?:[^()]|\([^()]*\))*\)|`[^`]*`", re.DOTALL)
_RANGE = re.compile(r"(?P<first>-?\d{1,9})\.\.(?P<last>-?\d{1,9})(?:\.\.(?P<step>-?\d{1,9}))?")
_LETTERS = re.compile(r"(?P<first>[A-Za-z])\.\.(?P<last>[A-Za-z])")
_MOST = 1000
_LONGEST = 1000


def expand_braces(word: str) -> tuple[str, ...]:
    """Return the words that the braces of one make, as it is written: quotes and variables stay in them.

    A word without such braces, or that makes more than a command can have, is returned as it is.
    """
    if len(word) > _LONGEST:
        return (word,)
    done: list[str] = []
    waiting = [word]
    while waiting:
        one = waiting.pop(0)
        plain = _QUOTED.sub(lambda quoted: "x" * len(quoted[0]), one)
        found = _BRACES.search(plain)
        parts = () if found is None else _parts(one[found.start() + 1 : found.end() - 1], found["inner"])
        if len(done) + len(waiting) + len(parts) > _MOST:
            return (word,)
        if found is None or not parts:
            done.append(one)
        else:
            waiting[:0] = [f"{one[: found.start()]}{part}{one[found.end() :]}" for part in parts]
    return tuple(done)


def _parts(inner: str, plain: str) -> Sequence[str]:
    """Return what a list or range in braces stands for, () for others; in `plain` what is quoted is x."""
    numbers, letters = _RANGE.fullmatch(inner), _LETTERS.fullmatch(inner)
    if numbers is not None:
        first, last, step = int(numbers["first"]), int(numbers["last"]), abs(int(numbers["step"] or 1)) or 1
        ends = numbers["first"], numbers["last"]
        width = max(map(len, ends)) if any(re.match(r"-?0\d", end) for end in ends) else 0
        span = range(first, last + 1, step) if first <= last else range(first, last - 1, -step)
        return [str(number).zfill(width) for number in span[: _MOST + 1]]
    if letters is not None:
        start, end = ord(letters["first"]), ord(letters["last"])
        return [chr(code) for code in (range(start, end + 1) if start <= end else range(start, end - 1, -1))]
    cuts = [-1, *(at for at, char in enumerate(plain) if char == ","), len(inner)]
    return [inner[start + 1 : end] for start, end in pairwise(cuts)] if len(cuts) > 2 else ()
