"""The root of the one error tree; `launcher.errors` grows the branches that need hands."""

from typing import ClassVar


class GpulaunchError(Exception):
    """A failure that is told to a person in one or two lines, never as a traceback.

    `message` says what is wrong and why it matters; `fix` is what to type next, or empty when the message
    already says it. `exit_code` is what the process returns (see docs/exit-codes.md).
    """

    exit_code: ClassVar[int] = 2

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix


class MalformedFacts(GpulaunchError):
    """An answer that should hold facts does not follow the schema; the message names the key."""


class BadInput(GpulaunchError):
    """A file or value given by the user cannot be used; the message names file, line or key."""
