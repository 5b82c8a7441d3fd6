"""Lists of hosts as Slurm, clush and dshbak fold them: `n[01-04,7],m1`. Pure."""

from itertools import product
from math import prod

from preflight import regex as re

_WORD = re.compile(r"(?:[^,\[]|\[[^\[\]]{0,4000}\]?)+")
_RANGES = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


def expand_host_list(names: str, most: int) -> list[str]:
    """Return the hosts that a list names, the list itself where they are more than `most`.

    Brackets that hold no numbers stay as they are.
    """
    found = list[str]()
    for name in _WORD.findall(names):
        parts = [_counted(part, most) if at % 2 else [part] for at, part in enumerate(_RANGES.split(name))]
        if len(found) + prod(map(len, parts)) > most:
            return [names]
        found += map("".join, product(*parts))
    return found


def _counted(ranges: str, most: int) -> list[str]:
    """Return the numbers of `08-10,12` with their zeros, of anything else itself in its brackets."""
    spans = [_RANGE.fullmatch(part) for part in ranges.split(",")]
    counts = [range(int(each[1]), int(each[2] or each[1]) + 1) if each else range(0) for each in spans]
    if not all(counts) or sum(map(len, counts)) > most:
        return [f"[{ranges}]"]
    return [
        str(at).zfill(len(each[1])) for each, count in zip(spans, counts, strict=True) for at in count if each
    ]
