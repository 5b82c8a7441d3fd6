"""A terminal that was closed: how it is noticed, and left."""

import errno
import os
from contextlib import suppress


def drop_terminal() -> None:
    """Point what led to a closed terminal to nowhere: writing to it would fail."""
    with suppress(OSError):
        nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
        for number in (0, 1, 2):
            with suppress(OSError):
                if os.isatty(number) or _hung_up(number):
                    os.dup2(nowhere, number)
        os.close(nowhere)


def is_terminal_closed(error: BaseException) -> bool:
    """Return whether this failed because the terminal is gone; SIGHUP may come later, or never.

    A shell that is killed passes none on. A `termios.error` has the arguments of an OSError.
    """
    return error.args[:1] == (errno.EIO,) and has_hung_up()


def has_hung_up() -> bool:
    """Return whether a standard stream leads to a terminal that was closed."""
    return any(_hung_up(number) for number in (0, 1, 2))


def _hung_up(number: int) -> bool:
    """Return whether this is a terminal that has hung up: a question about its settings fails with EIO."""
    import termios  # noqa: PLC0415 - only at the end of a terminal

    try:
        termios.tcgetattr(number)
    except termios.error as error:
        return bool(error.args) and error.args[0] == errno.EIO
    return False
