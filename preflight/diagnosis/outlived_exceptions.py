"""Tracebacks by which no process ended: ignored, only shown, or of a thread that the run outlived. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from preflight import regex as re
from preflight.diagnosis.lines import Line
from preflight.diagnosis.replacements import says_instead
from preflight.diagnosis.run_ends import DONE, FAILED
from preflight.diagnosis.run_progress import RunProgress
from preflight.diagnosis.signature_matcher import find_first_match, zero_numbers
from preflight.diagnosis.signatures.table import CausalDepth
from preflight.diagnosis.tracebacks import (
    CAUSE,
    CONTEXT,
    HEADER,
    IN_THREAD,
    LIBRARY,
    LONGEST_TRACEBACK,
    OF_TASK,
    match_exception,
)
from preflight.diagnosis.warning_lines import is_warning_line

_IGNORED, _AT_EXIT, _NOT_LOGGED = "Exception ignored in", "Error in atexit.", "--- Logging error ---"
# What a program says that caught what is shown below it, without a level.
_USES = (" using ", " use ", " used", " fall", " instead", " without ")
_LACKS_AND_USES = re.compile(
    r"(?i).{0,120}\b(?:fail(?:ed)?|missing|unavailable|not (?:available|found|installed|supported)|can(?:no|')t|could ?n[o']t|could not)\b.{0,100}\b(?:using|use|fall(?:ing|s)? back|instead|without)\b"
)
# What one says of it behind it.
_REMARK = re.compile(
    r"(?i)\((?:[^()]{0,40}\b)?(?:ignored|ignoring|caught|handled|harmless|not fatal|non-fatal|fall(?:ing)? ?back)\b[^()]{0,80}\)\W{0,2}$"
)
# What Python says of its start files (.pth, sitecustomize), whose exceptions it ignores.
_AT_START = ("Error processing line ", "Error in sitecustomize; set", "Error in usercustomize; set")
_AT_SHUTDOWN = re.compile(r"RuntimeError: .{1,60} (?:at|after) interpreter shutdown$")
_WARNS = re.compile(
    r".{0,400}\b\w*Warning: .{0,200}\b[Ii]gnor(?:ing|ed)\b|.{0,100}\bWARNING\b.{0,100}message_loop has been closed"
)
# What a trainer of agents prints above what their tools printed, and one of models above what these wrote.
_OF_TOOL = re.compile(
    r"(?i)(?:.{0,60}[\W_])?(?:(?:tool|code|sandbox|interpreter|model|agent)[ _-]?(?:call )?(?:outputs?|results?|std(?:out|err)|response)|observation|expect(?:ing|ed)|completion|generat(?:ion|ed (?:text|code|output)))(?:[ #(\[][\w. =#/()\[\]-]{0,40})?:\W{0,4}$|```(?:output|tool|stdout|observation|ipython)$"
)
# What trackers, shells and torch print when a process has ended.
_OF_ANOTHER = re.compile(r"wandb: |(?:real|user|sys)\s+\d|[$+] |\S+@\S+[$#] |\[W")
_AMID_OTHERS = 8  # lines in which the next one of the same process is looked for
# NumPy 2 shows the stack that imports a module of NumPy 1 under a traceback's heading; nothing ends by it.
_HEADING, _OF_NUMPY = "Traceback (most recent call last):", "modules will need time to support NumPy 2"
_TRACKS = "multiprocessing/resource_tracker.py"  # it prints a name that it does not know, and continues
_QUEUE_ENDED = re.compile(r"(?:EOFError|BrokenPipeError|ConnectionResetError)\b|OSError: handle is closed")
_TURNS, _TURNS_OF_ERRORS = 1, 3
# What keeps a file system from taking a log; a collector that is away or slow ends nothing.
_LOG_UNWRITABLE = re.compile(r"\[Errno (?:5|12|23|24|28|30|107|116|122)\]")
_WARNS_OF = re.compile(
    r"(?i)(?:\bWARN(?:ING)?\b|^\[W ).{0,300}(?:fail|could ?n|cannot|can't|unable|unavailable|not (?:available|found|installed)|skip|ignor|fall(?:ing)? ?back|without|disabl|late\b|retry|error)"
)
# Servers answer a request in whose handler something was raised with 500, and continue to the next one.
_OF_REQUEST = re.compile(
    r"(?:\S+ +)?Exception in ASGI application|Exception occurred during processing of request from|.{0,100}(?:\bException on /\S* \[[A-Z]+\]|\bError handling request\b|\bUncaught exception (?:GET|POST|PUT) /|\bInternal Server Error: /)"
)
_REFUSED = re.compile(r"\bHTTP/\d(?:\.\d)?\" [45]\d\d\b")
ANSWERED = re.compile(r"\bHTTP/\d(?:\.\d)?\" 2\d\d\b|\bApplication shutdown complete\b")


_NO_LAUNCHER = r"^(?!(?:\w+\.)*(?:CalledProcess|ChildFailed)Error)(?:\w+\.)*\w+(?:Error|Exception): .{1,300}"
_OTHER_WAY = r"(?:slow(?:er)?|default|fallback|eager|CPU|cpu|pure|[Pp]ython|PyTorch|torch|native|plain|built-?in|cached|local|previous|naive|reference|sdpa|SDPA)"
# An exception with what a program does instead behind it, in brackets or behind a dash.
_REPLACED = re.compile(
    _NO_LAUNCHER
    + r"\(.{0,40}\b(?:using (?:the |an? |its )?"
    + _OTHER_WAY
    + r"|falling back|skipping (?:it|this|them)|ignor(?:ed|ing it)|continuing)\b[^()]{0,60}\)\.?$|"
    + _NO_LAUNCHER
    + r" -{1,2} (?:using (?:the |an? |its )?"
    + _OTHER_WAY
    + r"|falling back|skipping (?:it|this|them)|ignor(?:ed|ing it)|continuing)\b[^-]{0,60}$"
)


# What a start script says of the run before, and that it starts another.
_MOST_BEFORE = 300
_BEFORE = re.compile(
    r".{0,60}\b(?i:previous|last|prior|earlier) (?:run|attempt|job|try|session|launch)\b.{0,60}\b(?:ended|exited|failed|died|crashed|killed|stopped)\b.{0,80}[;,:] (?:re|now )?(?:start|sum|continu|beginn|try|launch)\w*ing\b"
)


def blank_replaced(lines: Sequence[Line]) -> Sequence[Line]:
    """Return the lines with those empty that say what a program does in place of what was raised.

    It must not be the end of a traceback, and its process must have printed something behind it.
    """
    raised = [
        index for index, line in enumerate(lines) if "Error: " in line.text or "Exception: " in line.text
    ]
    found = [index for index in raised if _REPLACED.match(lines[index].text)]
    found += [
        at for at, line in enumerate(lines) if "ing " in line.text and _BEFORE.match(line.text[:_MOST_BEFORE])
    ]
    if not found:
        return lines
    last = {line.stream: index for index, line in enumerate(lines) if line.text}
    kept = list(lines)
    for index in found:
        stream = lines[index].stream
        near = reversed(lines[max(0, index - _AMID_OTHERS) : index])
        above = next((each.text for each in near if each.stream == stream), "")
        if last[stream] > index and not above.startswith(" "):
            kept[index] = replace(lines[index], text="")
    return kept


def blank_ignored(lines: Sequence[Line]) -> Sequence[Line]:
    """Return the lines with those empty that show exceptions which Python ignored: nothing ends by them.

    Its logging ignores a message that does not fit its arguments, too; a log that it cannot write may matter.
    """
    served = any("HTTP/" in line.text for line in lines)
    imports = any(_NO_IMPORT.match(line.text) for line in lines)
    return _blank(
        lines,
        [
            at
            for at, line in enumerate(lines)
            if _is_ignored(lines, at, line.text, served=served, imports=imports)
        ],
    )


def _is_ignored(lines: Sequence[Line], index: int, text: str, *, served: bool, imports: bool) -> bool:
    """Whether nothing ends by the announced traceback: a warning's, or of a thread whose queue has ended."""
    if text.startswith(_IGNORED) or (text.startswith(_AT_START) and text.endswith(":")):
        return True
    if text.startswith(_HEADING):
        return (
            _shows_stack(lines, index)
            or any(_TRACKS in lines[each].text for each in islice(_of_traceback(lines, index), 2))
            or (served and _is_refused(lines, index) and _is_of_request(lines, index))
            or (imports and _is_optional_import(lines, index))
        )
    if text.startswith(_NOT_LOGGED):
        return not any(_LOG_UNWRITABLE.search(lines[each].text) for each in _of_traceback(lines, index))
    if text.startswith(_AT_EXIT):
        return _is_of_exit([lines[each].text for each in _of_traceback(lines, index)])
    if IN_THREAD in text:
        shown = [lines[each].text for each in _of_traceback(lines, index)]
        return _AT_SHUTDOWN.match(shown[-1]) is not None or (
            _QUEUE_ENDED.match(shown[-1]) is not None
            and any("multiprocessing/connection.py" in each for each in shown)
        )
    if text.endswith((":", "t", "n", "l")) and _OF_TOOL.match(text):
        return _is_above_one(lines, index) and _says_more_behind(lines, index)
    if ("xception" in text or "rror" in text) and _OF_REQUEST.match(text):
        return _is_of_request(lines, index)
    return (
        ("gnor" in text or "message_loop" in text)
        and _WARNS.match(text) is not None
        and _is_above_one(lines, index)
    )


def _is_of_exit(shown: Sequence[str]) -> bool:
    """Whether a library failed while a process ended, in words of no row, or of who had ended before."""
    files = [text.split('"')[1] for text in shown if '  File "' in text]
    rows = [row for text in shown if (row := find_first_match(text)) is not None]
    return any(map(LIBRARY.search, files[-1:])) and all(row.depth is CausalDepth.VICTIM for row in rows)


def _is_above_one(lines: Sequence[Line], index: int) -> bool:
    """Whether the next line of the same process that is not this one again heads a traceback."""
    at = lines[index]
    behind = lines[index + 1 : index + 1 + _AMID_OTHERS]
    own = next((each.text for each in behind if each.stream == at.stream and each.text != at.text), "")
    return HEADER.match(own.lstrip()) is not None


def _says_more_behind(lines: Sequence[Line], head: int) -> bool:
    """Whether a process printed more behind a traceback than what comes when it has ended."""
    own = _next_behind(lines, head)
    return bool(own) and not (FAILED.is_in(own) or DONE.is_in(own) or _OF_ANOTHER.match(own))


def _next_behind(lines: Sequence[Line], head: int) -> str:
    """Return the next line of a traceback's process behind it, "" where none is near."""
    *_, end = _of_traceback(lines, head)
    behind = lines[end + 1 : end + 1 + _AMID_OTHERS]
    return next((line.text for line in behind if line.stream == lines[head].stream and line.text), "")


def _is_optional_import(lines: Sequence[Line], head: int) -> bool:
    """Whether a program says right above or below a failed import's traceback what it uses in its place."""
    *_, end = _of_traceback(lines, head)
    if not _NO_IMPORT.match(lines[end].text):
        return False
    stream = lines[head].stream
    upward, behind = (
        reversed(lines[max(0, head - _AMID_OTHERS) : head]),
        lines[end + 1 : end + 1 + _AMID_OTHERS],
    )
    above = next((line.text for line in upward if line.stream == stream), "")
    below = [line.text for line in behind if line.stream == stream and line.text]
    if below and says_instead(below[0]):
        return len(below) > 1  # the program came further
    return bool(below) and (says_instead(above) or _USES_OTHER.search(above) is not None)


_NO_IMPORT = re.compile(r"(?:ModuleNotFound|Import)Error: ")
_USES_OTHER = re.compile(
    r"(?i)\b(?:fail\w*|(?:could|can|did) ?n[o']t|unable|unavailable|not (?:available|installed|found)|missing)\b"
    r".{0,80}[,;:.(-] ?(?:so )?(?:us(?:e|es|ing)|fall(?:s|ing)? ?back|default(?:s|ing)?|run(?:s|ning)? without|disabl(?:e|ing))\b"
)


def _is_refused(lines: Sequence[Line], head: int) -> bool:
    """Whether a server's next line behind a traceback is that of a request that it answered with an error."""
    *_, end = _of_traceback(lines, head)
    behind = lines[end + 1 : end + 1 + _AMID_OTHERS]
    return any(_REFUSED.search(line.text) for line in behind if line.stream == lines[end].stream)


def _is_of_request(lines: Sequence[Line], head: int) -> bool:
    """Whether a server answered others behind a request whose exception says nothing about the server."""
    shown = list(_of_traceback(lines, head))
    return find_first_match(lines[shown[-1]].text) is None and any(
        ANSWERED.search(line.text) for line in lines[shown[-1] + 1 :]
    )


def _shows_stack(lines: Sequence[Line], head: int) -> bool:
    """Whether what NumPy says of such a module is right above a heading, and no other heading in between."""
    stream = lines[head].stream
    for line in reversed(lines[max(0, head - _AMID_OTHERS) : head]):
        if line.stream == stream and (_OF_NUMPY in line.text or line.text.startswith(_HEADING)):
            return _OF_NUMPY in line.text
    return False


def blank_outlived(lines: Sequence[Line]) -> Sequence[Line]:
    """Return the lines with those empty that show exceptions behind which their process continued.

    They are of warnings, of tasks that nothing waited for, and of threads. Those of threads stay where
    something failed later: one may be the reason.
    """
    heads = [index for index, line in enumerate(lines) if _ends_no_process(lines, index, line.text)]
    if any(line.text[:1] == "(" and _REMARK.match(line.text) for line in lines):
        shown = [index for index, line in enumerate(lines) if line.text.startswith(_HEADING)]
        heads = sorted({*heads, *(at for at in shown if _REMARK.match(_next_behind(lines, at)))})
    course = RunProgress(lines if heads else ())
    kind_of = {at: _report(lines, at) for at in heads}
    again: dict[tuple[object, str], int] = {}
    lived = set[str]()
    for at in reversed(heads):
        place = lines[at].stream, kind_of[at]
        if _outlived(lines, at, course, before=again.get(place, len(lines))):
            lived.add(kind_of[at])
        again[place] = at
    heads = [at for at in heads if kind_of[at] in lived]
    lines = _blank(lines, [at for at in heads if IN_THREAD not in lines[at].text])
    calm = _blank(lines, [at for at in heads if IN_THREAD in lines[at].text])
    return lines if calm is lines or RunProgress(calm).failing else calm


def _outlived(lines: Sequence[Line], head: int, course: RunProgress, *, before: int) -> bool:
    """Whether the process made turns up to the next such traceback: as above it, unless it only warns."""
    line = lines[head]
    warns = _WARNS_OF.search(line.text) is not None
    turns = _TURNS if warns or IN_THREAD in line.text else _TURNS_OF_ERRORS
    shown = [lines[at].text for at in _of_traceback(lines, head)]
    ended = IN_THREAD in line.text and _QUEUE_ENDED.match(shown[-1]) and course.was_done(line)
    return bool(ended) or course.has_turned(line, turns, before, alike=not warns)


def _report(lines: Sequence[Line], head: int) -> str:
    """Return the line above a traceback and its exception, without numbers: who caught one catches all."""
    return zero_numbers(
        "\n".join(
            lines[at].text for at in (head, *_of_traceback(lines, head)) if not lines[at].text[:1].isspace()
        )
    )


def _ends_no_process(lines: Sequence[Line], index: int, text: str) -> bool:
    """Whether the traceback that this line announces ends no process."""
    if IN_THREAD in text or text.startswith(OF_TASK):
        return True
    warns = "W" in text and _WARNS_OF.search(text) is not None and is_warning_line(text)
    uses = any(word in text for word in _USES) and _LACKS_AND_USES.match(text)
    return bool(warns or uses or ("ERROR" in text and says_instead(text))) and _is_above_one(lines, index)


def _blank(lines: Sequence[Line], places: Sequence[int]) -> Sequence[Line]:
    """Return the lines with those of the tracebacks empty that these places announce."""
    if not places:
        return lines
    kept = list(lines)
    for start in places:
        for index in _of_traceback(lines, start):
            kept[index] = replace(lines[index], text="")
    return kept


def _of_traceback(lines: Sequence[Line], start: int) -> Iterator[int]:
    """Yield the places of a traceback's lines, from one above to its exception; collectors double lines."""
    stream, text = lines[start].stream, lines[start].text
    ended, shown_only = False, text.startswith(_HEADING) and _shows_stack(lines, start)
    for index in range(start, min(len(lines), start + LONGEST_TRACEBACK)):
        line = lines[index]
        if line.stream != stream or (not line.text and text.startswith(_AT_START)):
            continue
        if line.text != text:
            own = line.text[:1].isspace() or HEADER.search(line.text)
            linked = CAUSE in line.text or CONTEXT in line.text
            if shown_only and not own:
                return
            if (ended and not linked) or not (own or linked or match_exception(line.text)):
                return
            text, ended = line.text, not (own or linked)
        yield index
