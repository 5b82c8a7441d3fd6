"""Text for people: what came from hosts, files and logs is untrusted and must not steer the terminal."""

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, TextIO, TypeVar

from preflight import regex as re

if TYPE_CHECKING:
    from rich.console import Console

Key = TypeVar("Key")
Value = TypeVar("Value")
PIPE_WIDTH = 160  # columns of a table that goes into a pipe or a file, where no terminal says how wide it is

# Whole sequences are dropped: colours and cursor moves (CSI), titles and links (OSC), device strings.
# Only terminated strings are: an unterminated one must not hide the text behind it.
_SEQUENCE = re.compile(
    r"\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]"
    r"|\x1b[\]PX^_][^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"
    r"|\x1b[ -/]{1,4}[0-~]"
)
# Shown as escapes: every other control character (C0, DEL, C1), direction overrides, line separators, what
# has no width, the invisible tag characters, lone surrogates.
_STEERING = (
    r"\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff"
    r"\ufff9-\ufffb\U000e0000-\U000e007f\ud800-\udfff"
)
# Joiners and variants belong to scripts and emoji; beside anything else they only hide.
_JOINING = r"\u200c\u200d\ufe00-\ufe0e\U000e0100-\U000e01ef"
HIDDEN = rf"[\x80-\x9f{_STEERING}{_JOINING}]"  # what is not shown as it is, besides tabs and newlines
_BESIDE = rf"[\x00-\x7f{_STEERING}{_JOINING}]"
_CONTROL = re.compile(
    rf"[{_STEERING}]|(?:^|(?<={_BESIDE}))[{_JOINING}]|[\u200c\u200d](?={_BESIDE}|$)", re.MULTILINE
)
TAB = 8  # columns from one tab stop to the next


def sanitize(text: str | bytes, *, keep_lines: bool = True) -> str:
    r"""Return text that is safe to print.

    Terminal sequences are dropped, other control characters become visible (`\x07`, `\u202e`), bytes that are
    not UTF-8 become U+FFFD, and CR LF becomes LF. Tabs and newlines stay unless `keep_lines` is False: then
    newlines become visible too and tabs become spaces, so that the result is one line.
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    if text.isascii() and text.isprintable():
        return text
    if "\x1b" in text:
        text = _SEQUENCE.sub("", text)
    text = _CONTROL.sub(_visible, text.replace("\r\n", "\n"))
    return text if keep_lines else text.replace("\n", "\\n").expandtabs(TAB)


def one_line(text: str | bytes, limit: int = 200) -> str:
    """Return text as one safe line of at most `limit` characters, its middle left out when it is longer."""
    line = sanitize(text, keep_lines=False)
    if len(line) <= limit:
        return line
    head = (limit - 3) // 2
    return f"{line[:head]}...{line[len(line) - (limit - 3 - head) :]}"


def is_line(word: str) -> bool:
    """Return whether one word of a shell holds a whole line, or a document (JSON needs no blank)."""
    return any(letter.isspace() for letter in word.strip()) or (word[:1] in ("{", "[") and '"' in word)


def tail_lines(output: bytes, count: int = 3) -> str:
    """Return the last words of an output, for a message."""
    lines = [line.strip() for line in sanitize(output[-4096:]).splitlines() if line.strip()]
    return one_line(" | ".join(lines[-count:]), 300)


def supports_color(stream: TextIO) -> bool:
    """Whether colours may go to a stream: a terminal that can, and no NO_COLOR."""
    return can_redraw(stream) and not os.environ.get("NO_COLOR")


def can_redraw(stream: TextIO) -> bool:
    """Whether a stream is a terminal that obeys escape sequences: TERM names it, and not as `dumb`."""
    return stream.isatty() and os.environ.get("TERM", "") not in {"", "dumb"}


def open_console(stream: TextIO) -> "Console":
    """Return a rich console on a stream: no markup, no guessing at highlights; plain text in a pipe."""
    from rich.console import Console  # noqa: PLC0415 - 60 ms that only tables need to pay

    return Console(
        file=stream,
        markup=False,
        highlight=False,
        emoji=False,
        no_color=not supports_color(stream),
        width=None if stream.isatty() else PIPE_WIDTH,
    )


def _visible(match: re.Match[str]) -> str:
    return (
        match[0]
        .encode("unicode_escape" if not "\ud800" <= match[0] <= "\udfff" else "ascii", "backslashreplace")
        .decode()
    )


def format_clock(seconds: float) -> str:
    """Return a duration as a clock shows it: 0:05, 12:31, 1:02:03, 2d 03:04:05."""
    whole = max(0, int(seconds))
    days, whole = divmod(whole, 86400)
    hours, whole = divmod(whole, 3600)
    minutes, rest = divmod(whole, 60)
    if days:
        return f"{days}d {hours:02d}:{minutes:02d}:{rest:02d}"
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def format_memory(mib: float | None) -> str:
    """Return memory as a person says it."""
    if mib is None:
        return "?"
    return f"{mib / 1024:.1f} GiB" if mib >= 1024 else f"{mib:.0f} MiB"


def format_size(count: int) -> str:
    """Return bytes as a person says them: 900 B, 1.5 KiB, 20.0 MiB, 3.1 GiB."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count} B"


def spell_duration(seconds: object) -> str:
    """Return seconds as a person says them: 12.3 s, 5 min 3 s, 2 h 5 min, 3 d 4 h; ? for no number."""
    if not isinstance(seconds, int | float) or not math.isfinite(seconds):
        return "?"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


def align_rows(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield a line for each row, with its cells below each other."""
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def name_ranks(ranks: Iterable[int]) -> str:
    """Return `rank 3`, or `ranks 0-6, 9` for several."""
    spans: list[list[int]] = []
    for rank in sorted(set(ranks)):
        if spans and rank == spans[-1][1] + 1:
            spans[-1][1] = rank
        else:
            spans.append([rank, rank])
    words = ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)
    return f"rank{'' if words.isdigit() else 's'} {words}"


def count_noun(number: int, noun: str) -> str:
    """Return a number with its noun: 1 rank, 4 ranks."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def group_alike(pairs: Iterable[tuple[Key, Value]]) -> dict[Key, tuple[Value, ...]]:
    """Return the values by their keys, in order of occurrence: what is alike is reported together."""
    groups: dict[Key, list[Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return {key: tuple(values) for key, values in groups.items()}


def count_alike(names: Sequence[str]) -> str:
    """Return "7x NVIDIA L40S, 1x TITAN RTX" for names."""
    return ", ".join(f"{names.count(name)}x {name}" for name in dict.fromkeys(names))


def name_first(names: Sequence[str], most: int, total: int = 0) -> str:
    """Return the first `most` names and the number of others, of `total`: `a, b and 3 more`."""
    left = max(len(names), total) - len(names[:most])
    return ", ".join(names[:most]) + (f" and {left} more" if left else "")
