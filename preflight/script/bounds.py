"""How much reading a script may take: of work, and of memory for one value. A script is anybody's text.

The work is counted and not timed, so that one script has one verdict on every machine.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from types import NoneType

from preflight import regex as re
from preflight.frozen import dataclass
from preflight.script.values import Const, ExternalName, Map, OneOf, Seq, Value

MAX_STEPS = 400_000  # pieces of work in one reading: expressions, statements, and what they copy or compare
MAX_WEIGHT = 20_000  # items of one list or dict, those of the lists and dicts in it included
MAX_DEPTH = 60  # lists in lists
MAX_TEXT = 65_536  # characters of one string
MAX_BITS = 4096  # bits of one integer: fewer digits than Python refuses to print
MAX_MODULE = 2 << 20  # characters of one file
MAX_WORDS = 400_000  # words and signs of a script and its modules; a tree has about 300 bytes for each
MAX_CONFIG = 256 << 10  # characters of one configuration file: PyYAML needs seconds for more
_PER_STEP = 16
SMALL = _PER_STEP << 4  # the shortest text whose weight is a step
_WORD = re.compile(r"\w+|[^\w\s]")
_SIGNS = bytes(byte for byte in range(128) if _WORD.fullmatch(chr(byte)) and not re.match(r"\w", chr(byte)))
_PARTED = bytes(byte if re.match(r"\w", chr(byte)) else 32 for byte in range(256))  # only words
OF_ONE_SIZE = frozenset({bool, float, NoneType})


class TooLong(Exception):
    """The script has more paths than will be followed; what was seen so far holds."""


@dataclass(slots=True)
class WorkBudget:
    """The work of one reading."""

    steps: int = 0

    def add(self, amount: int = 1) -> None:
        """Count pieces of work. Raises TooLong."""
        self.steps += amount
        if self.steps > MAX_STEPS:
            raise TooLong

    def copy(self, items: int) -> None:
        """Count that so many items are copied or compared, which is quick. Raises TooLong."""
        if items >= _PER_STEP:
            self.add(items // _PER_STEP)


@contextmanager
def pause_collector() -> Iterator[None]:
    """Keep the garbage collector from looking through trees and values: they hold no circles, and many items.

    As a decorator it outlives the function's own trees, so that the next collection does not meet them.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def is_small(value: Value) -> bool:
    """Whether a value is a short text or holds little, as most do: it costs no work, and exceeds nothing."""
    if type(value) is ExternalName:
        return len(value.name) < SMALL
    if type(value) is Const:
        known = value.value
        if type(known) is str:
            return len(known) < SMALL
        return type(known) in OF_ONE_SIZE or (isinstance(known, int) and -SMALL < known < SMALL)
    return not isinstance(value, (Seq, Map, OneOf)) or value.weight < _PER_STEP


def describe_excess(value: Value) -> str:
    """Return in which way a value is too large to be held, "" when it is not."""
    if isinstance(value, Const):
        known = value.value
        if isinstance(known, (str, bytes)) and len(known) > MAX_TEXT:
            return f"a string of more than {MAX_TEXT} characters"
        if isinstance(known, int) and known.bit_length() > MAX_BITS:
            return f"an integer of more than {MAX_BITS} bits"
    elif isinstance(value, ExternalName):
        return "a name without end" if len(value.name) > MAX_TEXT else ""
    elif isinstance(value, (Seq, Map, OneOf)):
        if value.weight > MAX_WEIGHT:
            return f"more than {MAX_WEIGHT} items"
        if value.depth > MAX_DEPTH:
            return f"more than {MAX_DEPTH} lists in one another"
    return ""


def weigh_value(value: Value) -> int:
    """Return how many items a value has in all, long texts counted by their length."""
    if isinstance(value, (Seq, Map, OneOf)):
        return value.weight
    if isinstance(value, Const) and isinstance(value.value, (str, bytes)):
        return len(value.value) >> 4
    return len(value.name) >> 4 if isinstance(value, ExternalName) else 1


def count_words(text: str) -> int:
    """Return how many words and signs a text has, never more than its characters."""
    lines = () if text.isascii() else [line for line in text.split("\n") if not line.isascii()]
    plain = "\n".join(line for line in text.split("\n") if line.isascii()) if lines else text
    data = plain.encode()  # counted in a tenth of the time
    return (
        sum(len(_WORD.findall(line)) for line in lines)
        + len(data.translate(_PARTED).split())
        + len(data)
        - len(data.translate(None, _SIGNS))
    )
