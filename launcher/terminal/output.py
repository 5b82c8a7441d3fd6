"""The one door through which text goes to standard output and standard error.

What is printed names hosts, files, processes and logs, and so may hold whatever others wrote. This module
makes lines of it that steer no terminal; colours come from us alone. A test forbids every other way out.
"""

import errno
import os
import sys
import termios
from collections.abc import Iterable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any, TextIO

from launcher.terminal.cell_width import Painted, StyledLine, paint_line
from launcher.text import one_line, supports_color

FULL_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT})
_LONGEST_QUESTION = 400
codes_printed: list[int] = []  # of this command's documents: a program reads one, and its exit code
_unanswered: list[tuple[int, list[Any]]] = []  # terminals that hide typing, and how they were


def echo(line: StyledLine = "", *, err: bool = False) -> None:
    """Print one line: a newline in its text becomes visible, so that no name can add a line of its own.

    What a full disk keeps from standard error is lost: result and exit code do not depend on it.
    """
    stream = sys.stderr if err else sys.stdout
    try:
        write(stream, (paint_line(line, colour=supports_color(stream)),))
    except OSError as error:
        if not err or error.errno not in FULL_ERRNOS:
            raise


def echo_lines(lines: Iterable[StyledLine], *, err: bool = False) -> None:
    """Print lines as they come."""
    for line in lines:
        echo(line, err=err)


def echo_text(text: str) -> None:
    """Print a text of several lines; its last newline is the end of its last line."""
    echo_lines(text.removesuffix("\n").split("\n"))


def echo_json(document: Any, *, indent: int | None = 1) -> None:
    """Print a document for programs."""
    import json  # noqa: PLC0415 - --help and explain print none

    echo_json_text(json.dumps(document, indent=indent))
    codes_printed.append(document.get("exit_code", 0))


def echo_json_text(text: str) -> None:
    """Print JSON that was laid out already. JSON escapes all but DEL; the values stay exact."""
    echo_json_pieces((text,))


def echo_json_pieces(pieces: Iterable[str]) -> None:
    """Print JSON in pieces, as `echo_json_text` prints it whole."""
    for text in pieces:
        if not text.isascii():
            raise ValueError("JSON is printed with ASCII alone, or it could steer a terminal")
        sys.stdout.write(text.replace("\x7f", "\\u007f"))
    sys.stdout.write("\n")
    sys.stdout.flush()


def write(stream: TextIO, lines: Iterable[Painted]) -> None:
    """Write whole lines at once."""
    stream.write("".join(f"{line}\n" for line in lines))
    stream.flush()


def write_bytes(data: bytes) -> None:
    """Write a log's bytes as they are, into a pipe or a file; a terminal gets no byte as it is."""
    if sys.stdout.isatty():
        raise ValueError("bytes of a log are not for a terminal")
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def lacks_utf8() -> bool:
    """Return whether standard output takes ASCII alone."""
    return "utf" not in (sys.stdout.encoding or "").lower()


def can_ask() -> bool:
    """Return whether a person at a terminal sees questions and can answer.

    With standard error in a pipe (`2>&1 | tee log`) they are shown at the terminal itself, as ssh does. A job
    in the background would be stopped by its first question.
    """
    try:
        is_watched = os.tcgetpgrp(0) == os.getpgrp()
    except OSError:  # not the terminal of this session
        is_watched = False
    return sys.stdin.isatty() and (sys.stderr.isatty() or is_watched)


def is_asking() -> bool:
    """Return whether a secret is being asked for at the moment."""
    return bool(_unanswered)


def ask_visibly(lines: tuple[str, ...], question: str) -> str:
    """Show lines and ask a question below them, at the terminal. Raises EOFError where no answer comes."""
    shown = "\n".join(one_line(line, _LONGEST_QUESTION) for line in (*lines, question)) + " "
    with nullcontext(sys.stderr) if sys.stderr.isatty() else Path("/dev/tty").open("w") as terminal:
        terminal.write(shown)
        terminal.flush()
    answer = sys.stdin.readline()
    if not answer:
        raise EOFError
    return answer


def ask_secret(question: str) -> str:
    """Ask a person for a secret, shown nowhere; hosts word some of these questions."""
    import atexit  # noqa: PLC0415 - rarely asked
    import getpass  # noqa: PLC0415 - as above

    atexit.register(leave_questions)
    try:
        tty = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)
        _unanswered.append((tty, termios.tcgetattr(tty)))
    except (OSError, termios.error):
        tty = -1  # getpass finds another way to ask
    try:
        return getpass.getpass(one_line(question.rstrip(), _LONGEST_QUESTION) + " ")
    finally:
        _unanswered[:] = [asked for asked in _unanswered if asked[0] != tty]
        if tty >= 0:
            os.close(tty)


def leave_questions() -> None:
    """Give terminals their echo back, and a line of its own to what follows.

    Ctrl-C ends the main thread alone: one that waits for a secret never comes to the end of getpass.
    """
    while _unanswered:
        tty, attributes = _unanswered.pop()
        with suppress(OSError, termios.error):
            termios.tcsetattr(tty, termios.TCSAFLUSH, attributes)
            os.write(tty, b"\n")
