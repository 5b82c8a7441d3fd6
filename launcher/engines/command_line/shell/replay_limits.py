"""How much of the loops, functions and files of a text has been read, and where that is too much. Pure."""

from collections.abc import Callable

from launcher.errors import CommandRefused

_DEEPEST = 12
_MOST_ROUNDS = 1000
_MOST_TEXT = 400_000
_MOST_LOOKED = 4_000_000  # of all loops and functions: more than any script that launches something


class Replays:
    """How much of loops, functions and files has been read."""

    def __init__(self, clean: Callable[[str], str]) -> None:
        self.clean = clean
        self.rounds = 0
        self.length = 0
        self.looked = 0
        self.depth = 0

    def count(self, text: str) -> None:
        """Take one more reading. Raises CommandRefused for a text that does not end soon."""
        self.rounds += 1
        self.length += len(text)
        if self.rounds > _MOST_ROUNDS or self.length > _MOST_TEXT or self.depth > _DEEPEST:
            raise _endless()

    def look(self, length: int) -> None:
        """Take a search for the end of a block. Raises CommandRefused as `count`."""
        self.looked += length
        if self.looked > _MOST_LOOKED:
            raise _endless()


def _endless() -> CommandRefused:
    return CommandRefused(
        "the loops and functions of the text do not end soon",
        "paste one launch, or launch the script: gpulaunch run ... -- bash SCRIPT",
    )
