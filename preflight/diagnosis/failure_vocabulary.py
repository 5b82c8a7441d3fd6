"""Which lines of a text hold a word that a pattern needs, found in one pass over bytes. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache

from preflight import regex as re
from preflight.diagnosis import reported_errors, run_ends
from preflight.diagnosis.signature_matcher import find_places, zero_numbers
from preflight.diagnosis.signatures.model import AnyOf, Signature
from preflight.diagnosis.signatures.table import NOTICES, SEARCHED

# Of tracebacks, torch's table of failed ranks and logged steps, which are read without a pattern's literal.
_STRUCTURE = (
    "Traceback", 'File "', "During handling", "The above exception", "Original Traceback", "Failures:", "exitcode",
    "Error", "Exception", "Interrupt", "loss", "Loss", "LOSS", "grad_norm", "loss_scale", "OVERFLOW", "Root Cause",
)  # fmt: skip
# Words of every text. A literal of such words alone marks no line; a pattern that has no other finds its
# lines among the first of their shape only.
_EVERYDAY_WORDS = (
    "the with for not and has been have was are is from this that train training model step rank file input data using your"
    " type both could can you will python expected return version node needs require requires failed installed were use only"
    " but out such done time line last than call need get sure after before"
)
_EVERYDAY = frozenset(_EVERYDAY_WORDS.split())
# Found anywhere in a word, such as in CudaError and SIGNALException.
_INSIDE = ("Error", "Exception", "CUDA", "cuda", "NCCL", "nccl", "rrno")
_WORD = re.compile(r"[A-Za-z]{3,}")
_CASED = re.compile(r"\[([A-Za-z]+)\]")
_BLANKS = bytes(
    byte if byte < 128 and (chr(byte).isalnum() or byte == ord("_")) else 32 for byte in range(256)
)
"""Blanks every byte that belongs to no word: a search for one byte in front finds its places at once."""
_CASES = (("a-z", str.islower), ("A-Z", str.isupper))
"""Words of small letters come first, and apart: most words are then tried with half of the branches."""


class FailureVocabulary:
    """The words of many literals as one pattern, and for each word the literals that it stands for."""

    def __init__(self, literals: Iterable[tuple[str, str]]) -> None:
        """Take (literal, pattern that it is of)."""
        self._inside = tuple(word.encode() for word in _INSIDE)
        foreign: list[bytes] = []
        by_word: dict[str, list[bytes]] = defaultdict(list)
        for literal, pattern in literals:
            if any(word in literal for word in _INSIDE):
                continue
            words = _words_of(literal, pattern, by_word)
            if not words and not literal.isascii():
                foreign.append(literal.encode())
            for word in words:
                by_word[word].append(literal.encode())
        # The longest word is what is found: it stands for those that it starts with.
        self._literals = {
            word.encode(): tuple(
                each for end in range(len(word)) for each in by_word.get(word[: end + 1], ())
            )
            for word in by_word
        }
        self._foreign = tuple(foreign)
        cases = ((letters, [word for word in by_word if fits(word[0])]) for letters, fits in _CASES)
        tries = "|".join(f"(?=[{letters}])(?:{_trie(words)})" for letters, words in cases)
        self._pattern = re.compile(f" (?:{tries})".encode())

    def lines_with(self, text: bytes) -> list[int]:
        """Return the places of the lines of a text (see `zero_numbers`) that hold one of the literals."""
        words = self._inside if text.isascii() else self._inside + self._foreign
        found = set[int]().union(*(find_places(word, text) for word in words))
        place, before, end, line, tried = 0, 0, -1, b"", set[bytes]()
        for match in self._pattern.finditer(b" " + text.translate(_BLANKS)):
            at = match.start()  # of the word in `text`, which has no blank in front
            if at >= end:
                place += text.count(b"\n", before, at)
                before, end = at, text.find(b"\n", at)
                end = len(text) if end < 0 else end
                line, tried = text[text.rfind(b"\n", 0, at) + 1 : end], set()
            word = match[0][1:]
            if word in tried or place in found:
                continue
            tried.add(word)
            if any(literal in line for literal in self._literals[word]):
                found.add(place)
        return sorted(found)


@cache
def build_vocabulary() -> FailureVocabulary:
    """Return the vocabulary of the whole diagnosis; made when a long log first needs it."""
    every: list[Signature | AnyOf] = [
        *SEARCHED,
        *(notice.pattern for notice in NOTICES),
        *run_ends.END_PATTERNS,
        reported_errors.WORDINGS,
    ]
    literals = {(each.literal, each.pattern) for row in every for each in row.alternatives}
    literals.update((literal, "") for literal in _STRUCTURE)
    return FailureVocabulary(
        sorted((zero_numbers(literal), pattern) for literal, pattern in literals if literal)
    )


def _words_of(literal: str, pattern: str, known: Iterable[str]) -> list[str]:
    """Return words of which one is where a literal is: one within it, known ones first, else its start."""
    found = [match for match in _WORD.finditer(literal) if match[0].lower() not in _EVERYDAY]
    within = [match[0] for match in found if match.start() and not _is_word(literal[match.start() - 1])]
    if within:
        return [next((word for word in within if word in known), max(within, key=len))]
    if not found:
        return []
    word = found[0][0]
    cased = _CASED.finditer(pattern) if not found[0].start() else iter(())
    firsts = next((each[1] for each in cased if pattern.startswith(literal, each.end())), "")
    return [first + word for first in firsts] or [word]


def _is_word(char: str) -> bool:
    return char.isalnum() or char == "_"


def _trie(words: Iterable[str]) -> str:
    """Return a pattern for any of the words in which those that start alike share their start."""
    by_first: dict[str, list[str]] = defaultdict(list)
    whole = ""
    for word in sorted(words):
        if word:
            by_first[word[0]].append(word[1:])
        else:
            whole = "|"
    parts = [re.escape(first) + _suffix(rest) for first, rest in by_first.items()]
    return "|".join(parts) + whole if parts else "(?!)"


def _suffix(rest: Sequence[str]) -> str:
    return re.escape(rest[0]) if len(rest) == 1 else f"(?:{_trie(rest)})"
