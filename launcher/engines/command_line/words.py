"""The words of a command line, with what a shell would still have to fill in."""

from collections.abc import Sequence

from preflight.frozen import dataclass


@dataclass(frozen=True, slots=True)
class Word:
    """One word, its quotes removed."""

    text: str
    unresolved: tuple[str, ...] = ()  # `$NAME`, `$(...)`, `<placeholder>`: what has no value yet

    @property
    def is_known(self) -> bool:
        """Whether every part of it has a value."""
        return not self.unresolved


def plain(words: Sequence[str]) -> tuple[Word, ...]:
    """Return words that a shell has already split and filled in."""
    return tuple(Word(word) for word in words)
