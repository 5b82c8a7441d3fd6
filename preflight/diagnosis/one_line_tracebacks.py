"""Tracebacks that a record or a paste put into one line. Pure."""

from collections.abc import Iterator, Sequence

from preflight import regex as re
from preflight.diagnosis.prefix_templates import SOFT, START
from preflight.diagnosis.structured_records import is_example

# In a string of JSON, or as `repr` shows it.
_ESCAPED = re.compile(r"Traceback \(most recent call last\):(?:\\r)?\\n(?:[^\"\\]|\\.)*")
# In the message of an exception that older data loaders raise for one of a worker.
_IN_MESSAGE = re.compile(r"Traceback \(most recent call last\):(?:\\r)?\\n(?:[^'\\]|\\.)*")
_FLAT = re.compile(r"Traceback \(most recent call last\):\s+File \"")
_LINK = r"During handling of the above exception|The above exception was the direct|Traceback \(most recent call last\):"
_RAISED = r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Failed|Timeout)(?::\s|\s*$)"
_PARTS = re.compile(rf"(?<!\s)\s+(?=File \"[^\"]+\", line \d+, in |{_LINK}|{_RAISED})")
_LINKED, _IS_RAISED = re.compile(_LINK), re.compile(_RAISED)


def unfold_traceback(text: str) -> Sequence[str]:
    """Return the lines of a traceback in a line, the text before it first; else the line alone."""
    at = text.find(START)
    if at < 0 or len(text) - at < 2 * len(START) or SOFT.search(text[:at]) or is_example(text):
        return (text,)
    escaped = (_IN_MESSAGE if text[:at].endswith("Error: '") else _ESCAPED).match(text, at)
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
    """Yield the lines of tracebacks whose line ends were lost; an exception's message stays in its line."""
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
