"""Names of hosts as people write them: folded into node sets, in time linear in their number. Pure."""

from collections.abc import Iterable
from functools import lru_cache
from itertools import zip_longest
from typing import TypeAlias

from preflight import regex as re

_DIGITS = re.compile(r"([0-9]+)")
_LONGEST_NUMBER = 18  # of digits; a longer one is a part of the name, which ClusterShell would not take
_MOST_NUMBERS = 4
_LONGEST = 120
Row: TypeAlias = "tuple[str, ...]"


def format_host_range(hosts: Iterable[str]) -> str:
    """Return "l40s-[01-07],titan" for host names; names that are not node-set syntax stay as they are.

    ClusterShell reads it. Its own folding takes time that grows with the square of the number of hosts whose
    names have several numbers.
    """
    names = list(dict.fromkeys(hosts))
    patterns: dict[Row, list[Row]] = {}
    other: list[str] = []
    for name in names:
        if not name.replace("-", "").replace("_", "").replace(".", "").isalnum():
            other.append(name)
            continue
        parts = _DIGITS.split(name)
        numbers = parts[1::2]
        if len(numbers) > _MOST_NUMBERS or any(len(each) > _LONGEST_NUMBER for each in numbers):
            parts, numbers = [name], []
        patterns.setdefault(tuple(parts[::2]), []).append(tuple(numbers))
    folded = sorted(
        "".join(part for pair in zip_longest(words, row, fillvalue="") for part in pair)
        for words, rows in patterns.items()
        for row in _fold(list(dict.fromkeys(rows)))
    )
    return ",".join([*folded, *other])


def fold_hosts(hosts: Iterable[str]) -> str:
    """Return `format_host_range`, cut with the number of hosts where it is longer than a line."""
    return _fold_hosts(tuple(hosts))


@lru_cache(maxsize=512)
def _fold_hosts(hosts: tuple[str, ...]) -> str:
    whole = format_host_range(hosts)
    if len(whole) <= _LONGEST:
        return whole
    begin = whole[: max(1, whole.rfind(",", 0, _LONGEST))]
    bracket = ",...]" if begin.rfind("[") > begin.rfind("]") else ""
    return f"{begin}{bracket},... ({len(hosts)} hosts)"


def _fold(rows: list[Row]) -> list[Row]:
    """Fold rows of numbers along one place after the other, that with the most values first, into ranges."""
    for place in sorted(range(len(rows[0])), key=lambda at: -len({row[at] for row in rows})):
        groups: dict[tuple[Row, Row], list[str]] = {}
        for row in rows:
            groups.setdefault((row[:place], row[place + 1 :]), []).append(row[place])
        rows = [
            (*before, text, *after)
            for (before, after), numbers in groups.items()
            for text in _ranges(numbers)
        ]
    return rows


def _ranges(numbers: list[str]) -> list[str]:
    """Return numbers as ranges: one of those without padding, and one for each width of padded ones."""
    padded = {len(each) for each in numbers if each.startswith("0") and len(each) > 1}
    widths: dict[int, list[int]] = {}
    for each in numbers:
        widths.setdefault(len(each) if len(each) in padded else 0, []).append(int(each))
    return [_range(sorted(values), width) for width, values in sorted(widths.items())]


def _range(values: list[int], width: int) -> str:
    """Return ascending numbers as "7" or "[01-07,09]"."""
    runs: list[tuple[int, int]] = []
    for value in values:
        if runs and value == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], value
        else:
            runs.append((value, value))
    texts = [f"{a:0{width}}" if a == b else f"{a:0{width}}-{b:0{width}}" for a, b in runs]
    return texts[0] if len(values) == 1 else f"[{','.join(texts)}]"
