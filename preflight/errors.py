"""The root of the one error tree; `launcher.errors` grows the branches that need hands."""

from copy import copy
from typing import Any, ClassVar, Self


class GpulaunchError(Exception):
    """A failure that is reported to a person in one or two lines, never as a traceback.

    `message` says what is wrong and why it matters; `fix` is what to type next, or empty when the message
    already says it. `exit_code` is what the process returns (see docs/exit-codes.md); `code` and `hosts` are
    what --json says of it. `document` is what a command had to say before it failed: --json adds the error.
    `summary` is what a terminal shows in place of message and fix, where a report above has both. `detail` is
    the message for a line that names the host already.
    """

    exit_code: ClassVar[int] = 2
    code: ClassVar[str] = "error"
    hosts: tuple[str, ...] = ()
    document: dict[str, Any] | None = None
    summary: str = ""

    def __init_subclass__(cls, *, code: str = "", exit_code: int | None = None) -> None:
        """Set what a class declares beside its base: `class WaitTimedOut(GpulaunchError, code="..."):`."""
        super().__init_subclass__()
        cls.code = code or cls.code
        cls.exit_code = cls.exit_code if exit_code is None else exit_code

    def without_frames(self) -> Self:
        """Return this error for keeping: the frames it came through would keep what they read alive.

        Ten thousand hosts that answer garbage would cost their answers and connections until the end.
        """
        self.__traceback__ = self.__context__ = self.__cause__ = None
        return self

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message = self.detail = message
        self.fix = fix

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel between our own processes, whatever a subclass's __init__ takes."""
        return _restore_error, (type(self), self.args, self.__dict__)

    def with_document(self, document: dict[str, Any]) -> Self:
        """Return this error with what --json prints beside it."""
        changed = copy(self)
        changed.document = document
        return changed

    def with_summary(self, summary: str) -> Self:
        """Return this error as a terminal shows it below a report that holds it; "" is as it is."""
        changed = copy(self)
        changed.summary = summary
        return changed


def _restore_error(kind: type[GpulaunchError], texts: tuple[Any, ...], state: dict[str, Any]) -> object:
    error = kind.__new__(kind, *texts)
    error.__dict__.update(state)
    return error


class MalformedFacts(GpulaunchError, code="malformed-facts"):
    """An answer that should hold facts does not follow the schema; the message names the key."""


class BadInput(GpulaunchError, code="bad-input"):
    """A file or value given by the user cannot be used; the message names file, line or key."""
