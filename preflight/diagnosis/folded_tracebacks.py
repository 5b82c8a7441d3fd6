"""Lines that a paste or a record changed: tracebacks in one line, numbered lines, prefixes of unknown collectors. Pure."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

_START = "Traceback (most recent call last):"
# In a string of JSON, or as `repr` shows it.
_ESCAPED = re.compile(r"Traceback \(most recent call last\):(?:\\r)?\\n(?:[^\"\\]|\\.)*")
_FLAT = re.compile(r"Traceback \(most recent call last\):\s+File \"")
# What only warns, or tries again, may show why.
_SOFT = re.compile(r"\b(?:WARN|INFO|DEBUG)|\b[Ww]arn|[Rr]etr(?:y|ied)|[Ii]gnor|[Ss]kipp")
_LINK = r"During handling of the above exception|The above exception was the direct|Traceback \(most recent call last\):"
_RAISED = r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Failed|Timeout)(?::\s|\s*$)"
_PARTS = re.compile(rf"(?<!\s)\s+(?=File \"[^\"]+\", line \d+, in |{_LINK}|{_RAISED})")
_LINKED, _IS_RAISED = re.compile(_LINK), re.compile(_RAISED)

_MOST_PREFIX = 160
_INTERLEAVED = 16
"""Lines below a traceback's head among which its first frame is, where ranks write into one another."""
_FRAME_BELOW = re.compile(r"  File \"|    \S")
_ONES = str.maketrans("023456789", "111111111")

_NUMBERED = re.compile(r"\s{0,7}(\d{1,7})(?:[:|] ?|[ \t]|$)")
_ENOUGH = 6
"""Lines that make a listing."""
_SHARE = 0.9
"""Part of the lines whose number is one more than that of the line before."""


def unfold(text: str) -> Sequence[str]:
    """Return the lines of a traceback that a line holds, the text before it first; the line alone where it holds none."""
    at = text.find(_START)
    if at < 0 or len(text) - at < 2 * len(_START) or _SOFT.search(text[:at]):
        return (text,)
    escaped = _ESCAPED.match(text, at)
    if escaped:
        whole = escaped[0].replace("\\r", "").replace('\\"', '"').replace("\\'", "'")
        lines = [line for line in whole.split("\\n") if line.strip()]
    elif _FLAT.match(text, at):
        lines = list(_flat_lines(text[at:]))
    else:
        return (text,)
    before = text[:at].strip(" \t\"'{:,")
    return [before, *lines] if before and not _IS_RAISED.match(before) else lines  # that only reports it


def _flat_lines(text: str) -> Iterator[str]:
    """Yield the lines of tracebacks whose line ends were lost; the message of an exception stays in its line."""
    raised = ""
    for part in _PARTS.split(text):
        if raised and not _LINKED.match(part):
            raised += f" {part}"
            continue
        if raised:
            yield raised
            raised = ""
        if _IS_RAISED.match(part):
            raised = part
        else:
            yield f"  {part}" if part.startswith("File ") else part
    if raised:
        yield raised


def without_numbers(texts: Sequence[str]) -> Sequence[str]:
    """Return the lines of a listing without the numbers in front (`cat -n`, `grep -n`, an editor); others as they are."""
    if sum(1 for text in texts[:_ENOUGH] if _NUMBERED.match(text)) < _ENOUGH - 1:
        return texts
    found = [_NUMBERED.match(text) for text in texts]
    numbers = [int(each[1]) for each in found if each]
    steps = sum(1 for one, other in pairwise(numbers) if other == one + 1)
    if numbers[0] == 0 or steps < _SHARE * sum(1 for text in texts if text.strip()) - 1:
        return texts  # what counts from 0 are the tasks of srun
    return [text[each.end() :] if each else text for text, each in zip(texts, found, strict=True)]


def prefix_lengths(texts: Sequence[str]) -> Sequence[int]:
    """Return, for each line, the characters that a collector wrote before it, as the tracebacks show: 0 where none did.

    What is before the head of a traceback, and but for its digits also before a frame below it, is a prefix.
    """
    forms: dict[int, set[str]] = {}
    for index, text in enumerate(texts[:-1]):
        at = text.find(_START)
        if 0 < at <= _MOST_PREFIX and text[:at].strip() and not _SOFT.search(text[:at]):
            form = text[:at].translate(_ONES)
            below = texts[index + 1 : index + 1 + _INTERLEAVED]
            if form not in forms.get(at, ()) and any(
                _has(text, form) and _FRAME_BELOW.match(text, at) for text in below
            ):
                forms.setdefault(at, set()).add(form)
    if not forms:
        return [0] * len(texts)
    return [
        next((at for at, known in forms.items() if text[:at].translate(_ONES) in known), 0) for text in texts
    ]


def _has(text: str, form: str) -> bool:
    return text[: len(form)].translate(_ONES) == form
