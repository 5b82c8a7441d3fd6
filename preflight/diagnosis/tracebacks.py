"""Python tracebacks in a log: which exceptions were raised, in which order, from which user line."""

from collections.abc import Iterable, Iterator, Sequence

from preflight import regex as re
from preflight.diagnosis.lines import Line
from preflight.diagnosis.reported_errors import FAILING_CLASS, parse_reported_error
from preflight.frozen import dataclass

ARROW = re.compile(r"^-{1,}> ?(?P<line>\d{1,9}) ")  # shorter before longer numbers
_LISTED = re.compile(r"^(?:-{1,}> ?|\s{0,8})(?P<line>\d{1,9})(?:\s|$)")
_LEFT_OUT = "(...)"
_LONGEST = 60  # lines of a listing on one side of its arrow: a statement that spans lines is shown whole
_OF_NOTEBOOK = re.compile(r"(?P<type>[A-Z]\w+) {2,}Traceback \(most recent call last\)")  # before the message
HEADER = re.compile(r"Traceback \(most recent call last\)")
_FRAME = re.compile(
    r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d{1,9})(?:, in (?P<name>\S+))?'
    r"|^\s*(?:File )?(?P<short>(?:[~/.\w]|<ipython|<string)[\w./~<> -]*(?:\.py|>)):(?P<shortline>\d{1,9}),? in (?P<shortname>\S+)"
)
_CELL = re.compile(
    r"^(?:Cell (?P<cell>In *\[\d+\]), line (?P<line>\d{1,9})|(?:File )?\[?(?P<file>[~/<][^\s(\]]*)(?:\]\(https?://\S{1,80}\))? in )"
)
_EXCEPTION = re.compile(
    r"^[`*]{0,3}(?P<type>(?:[A-Za-z_]\w*\.)*(?:[A-Z_]\w*)|[a-z_]\w*(?:\.\w+)*(?:Error|Exception)|[a-z_]\w*\.(?:(?:gai|h)?error|timeout)|[a-z_]\w*(?:\.\w+)*\.[a-z]+[A-Z]\w*)(?:\((?P<inner>\w+)\))?(?::(?: |$|(?<=Error:)|(?<=Exception:))(?P<message>.*))?$"
)
_ENDS_LIKE_ERROR = re.compile(
    r"(?:Error|Exception|Exit|Interrupt|Warning|Failed|Timeout|Iteration|Killed|Fault|Failure|Found)$"
)
_NOT_AN_EXCEPTION = re.compile(
    r"^(?:[A-Za-z]:\\|Traceback|File|During|The above|Original|INFO|WARNING|ERROR|DEBUG|CRITICAL|Epoch|Cell|Step|Loss|Note|See|Warning|Error)\b"
)
CAUSE = "The above exception was the direct cause of the following exception"
CONTEXT = "During handling of the above exception, another exception occurred"
# A worker's own traceback, printed inside the message of what was raised again for it.
_INNER = re.compile(
    r"Original Traceback|-- Process \d+ terminated with the following error|RemoteTraceback|^\"\"\"$|ray::\w|failed to import on the worker|ExceptionGroup: .{0,400} \(\d+ sub-exceptions?\)$"
)
_WRAPS = re.compile(
    r"Caught \w+ in |failed in the TorchScript interpreter|ProcessRaisedException|RayTaskError|RemoteTraceback|\bRemoteError|failed to import on the worker|^Exception: (?:-- Process \d+ terminated with|Request failed: 5\d\d\b)|ExceptionGroup: "
)
LIBRARY = re.compile(
    r"(?:site|dist)-packages/|/lib(?:64)?/python3|/[Pp]ython\d*/[Ll]ib/|^[A-Za-z]:.{0,300}/[Ll]ib/(?:runpy|multiprocessing|concurrent|threading|subprocess|asyncio)\b|\.exe/__main__\.py$|^<frozen|^<string>|^<eval_with_key>|importlib|/conda-bld/|^<__array|/torchinductor_|/[a-z2-7]{2}/c[a-z2-7]{51}\.py$|^\w[\w/]*\.pyx$|/bin/(?![\w.-]*\.py$)[\w.-]+$|/(?:envs/[^/]+|\.?v?env\w*|\w*conda\d*|local|usr)/bin/[\w.-]+$"
    r"|^gpulaunch_(?:guard|rank)/|/gpulaunch/runs/(?:[^/]+/){1,2}(?:guard|rank|start_launcher)\.py$"  # between the script and torch
)
_BARE = re.compile(r"^[`*]{0,3}(?a:(?:\w+\.)*(?:\w{2,}Error|\w*Exception|StopIteration(?=: Caught ))(?:\(\w+\))?|(?:\w+\.)+Error|" + FAILING_CLASS + r"): (?![-+\d.naif%\s]+$)\S")  # fmt: skip
# A JVM names the exception that it ends by, then what that came of; Py4J puts it below Python's own.
_OF_JVM = re.compile(
    r'(?:Caused by: |: |Exception in thread "[^"]{1,80}" )(?=(?:[a-z_]\w{0,60}\.){1,8}[A-Z]\w{0,80}(?:Error|Exception)\b)'
)
# What ends a message that continues below its first line.
_NOT_A_MESSAGE = re.compile(
    r"Traceback \(|During handling|The above exception|^[=_*#-]{10,}|^\[?[EWIF]\d{4} |^\[\w|^\d{4}-\d\d-\d\d|\d%\||^(?:PASSED|FAILED)\b|\.py::\w"
)
MOST_BELOW = 6  # lines below the first one of a message that are read
_LONE = re.compile(r"^(?:(?:\w+\.)*\w{2,}(?:Error|Exception)|StopIteration)$")
# No code: where several processes print at once, the blanks before it are another one's.
_NUMBERED_ERROR = re.compile(r"\s+\w*Error: \[(?:Errno|WinError) \d+\]")
IN_THREAD, OF_TASK = "Exception in thread", "future: <"
_IN_WORKER = re.compile(r"Exception in background worker \d+:$")  # its message is below it
_CXX_FRAME, _RICH_SOURCE = (
    re.compile(
        r"^\s*(?:frame )?#\d+:? (?!(?:DONE|CACHED|ERROR|CANCELED|WARN\w*)\b|\[\w[^\]]*\] |sha256:|[a-z]+ing )"
    ),
    re.compile(r"^\s*(?:❱ *)?\d+ │"),
)
_DEEPEST_SOURCE = 10  # lines of source that Python prints below one frame, marks included
# A traceback longer than this is a recursion; what counts is at its end and is found without the rest.
LONGEST_TRACEBACK = 400
_FRAMES_ARE_INDENTED, _SOURCE_BELOW = 2, 2  # blanks; lines of source and marks below most frames


@dataclass(frozen=True, slots=True)
class TracebackFrame:
    """A line of a file, and the function that it is in where the traceback says it."""

    file: str
    line: int
    function: str = ""

    @property
    def path(self) -> str:
        """The file as it is written on Linux."""
        return self.file.replace("\\", "/")


@dataclass(frozen=True, slots=True)
class ParsedException:
    """One exception as printed. `follows` says how the one printed before it is linked to it.

    `chain` numbers the tracebacks that belong together; `handled` is True in a chain's members that were only
    being handled when the next one came.
    """

    type: str
    message: str
    line: Line  # that names it
    frames: tuple[TracebackFrame, ...]
    follows: str = ""  # "" first of its chain, "cause" (raise ... from), "context" (during handling)
    chain: int = 0
    bare: bool = False  # no traceback above it
    reported: bool = False  # its message alone, in a program's own record
    below: str = ""  # the lines below the first line of its message, in one line

    @property
    def name(self) -> str:
        """The type without its module."""
        return self.type.rpartition(".")[2]

    @property
    def text(self) -> str:
        """Type and message as Python prints them, in one line; of a long message its start."""
        return f"{self.type}: {self.message or self.below}".rstrip(": ")

    @property
    def whole(self) -> str:
        """Type and message with the lines below the first one."""
        return f"{self.type}: {self.message} {self.below}".strip()

    @property
    def location(self) -> TracebackFrame | None:
        """The innermost frame in the user's own code."""
        return next((frame for frame in reversed(self.frames) if not LIBRARY.search(frame.path)), None)

    @property
    def place(self) -> str:
        """Where that is, such as `train.py:12`; "" for nowhere in the user's own code."""
        return f"{self.location.file}:{self.location.line}" if self.location else ""


def parse_exceptions(lines: Sequence[Line]) -> tuple[ParsedException, ...]:
    """Return every exception of every traceback, in the order printed, ranks kept apart."""
    by_stream: dict[object, list[Line]] = {}
    for line in lines:
        own = by_stream.setdefault(line.stream, [])
        if not own or own[-1].text != line.text:  # collectors double lines
            own.append(line)
    found: list[ParsedException] = []
    for stream in by_stream.values():
        found += _of_one_stream(stream, len(found))
    return tuple(sorted(found, key=lambda raised: raised.line.order))


def parse_frames(lines: Sequence[Line], order: int) -> tuple[TracebackFrame, ...]:
    """Return the frames right below `lines[order]`: of an exception that another one reports, cut off."""
    found: list[TracebackFrame] = []
    for line in lines[order + 1 : order + LONGEST_TRACEBACK]:
        frame = _FRAME.match(line.text)
        if frame:
            found.append(_frame_of(frame))
        elif not line.text[:1].isspace() and not _INNER.search(line.text):
            break
    return tuple(found)


def find_crash_place(lines: Sequence[Line], crash: Line) -> str:
    """Return the user's line that a crash came from, by the stack that faulthandler writes below it."""
    if not crash.text.startswith("Fatal Python error: "):
        return ""
    below = (
        line
        for line in lines[crash.order + 1 : crash.order + LONGEST_TRACEBACK]
        if line.stream == crash.stream
    )
    thread = next((line for line in below if line.text.startswith("Current thread ")), None)
    frames = parse_frames(lines, thread.order) if thread else ()
    return ParsedException("", "", crash, frames[::-1]).place


def wraps_another(raised: ParsedException) -> bool:
    """Whether it only reports an exception in another process or thread."""
    return _WRAPS.search(raised.text) is not None


def _of_one_stream(lines: Sequence[Line], chain: int) -> Iterator[ParsedException]:
    """Yield the exceptions of one stream; `chain`: the number that those of other streams have reached."""
    follows, index, in_thread = "", 0, False
    while index < len(lines):
        text = lines[index].text
        if HEADER.search(text):
            linked = follows or ("cause" if _is_inner(lines, index) else "")
            chain += 0 if linked else 1
            in_thread = (in_thread and bool(follows)) or (  # the process lives on
                index > 0 and lines[index - 1].text.startswith((IN_THREAD, OF_TASK))
            )
            raised, index = _one(lines, index, linked, chain, bare=in_thread)
            if raised is not None:
                yield raised
                follows = ""
            continue
        if CAUSE in text or CONTEXT in text:
            follows = "cause" if CAUSE in text else "context"
        elif _IN_WORKER.match(text) and lines[index + 1 : index + 2]:
            chain += 1
            yield ParsedException(
                "Exception", lines[index + 1].text.strip(), lines[index], (), chain=chain, bare=True
            )
        elif found := _OF_JVM.match(text):
            follows = "" if text.startswith(IN_THREAD) else "context"
            chain += 0 if follows else 1
            yield _bare(lines, index, follows, chain, found.end())
            follows = ""
        elif (
            _BARE.match(text)
            or (_ends_like_type(text) and _is_below_frame(lines, index))
            or (text.endswith(":") and _LONE.match(text[:-1]) and _below(lines, index))
        ):
            chain += 0 if follows else 1
            yield _bare(lines, index, follows, chain)
            follows = ""
        elif (reported := parse_reported_error(text)) is not None and not text[:1].isspace():
            chain += 1
            below = "" if reported[1] else _below(lines, index)  # as newer Rust prints it
            yield ParsedException(*reported, lines[index], (), "", chain, True, True, below)
        index += 1


def _ends_like_type(text: str) -> bool:
    """Whether a line names an exception, which may have no message or a name of its own."""
    if _LONE.match(text):
        return True
    named = match_exception(text) if ": " in text else None
    return named is not None and ("." in named["type"] or _ENDS_LIKE_ERROR.search(named["type"]) is not None)


def _is_below_frame(lines: Sequence[Line], index: int) -> bool:
    above = [line.text for line in lines[max(0, index - _DEEPEST_SOURCE) : index] if line.text]
    return any(map(_FRAME.match, above[-3:]))


def _is_inner(lines: Sequence[Line], index: int) -> bool:
    """Whether a traceback is in the message of the exception above it: it is then the deeper one."""
    above = [line.text for line in lines[max(0, index - 2) : index + 1]]
    return any(_INNER.search(text) for text in above) and index > 0


def _bare(lines: Sequence[Line], index: int, follows: str, chain: int, start: int = 0) -> ParsedException:
    """Return an exception with no traceback above it, or with the frames of one whose start is cut off."""
    kind, _, message = lines[index].text[start:].lstrip("`*").partition(": ")
    frames: list[TracebackFrame] = []
    flush = 0  # lines of source that a paste has moved to the margin, with their frame
    for line in reversed(lines[max(0, index - LONGEST_TRACEBACK) : index]):
        frame = _FRAME.match(line.text)
        if frame and not (flush and line.text[:1].isspace()):
            frames.insert(0, _frame_of(frame))
            flush = 0
        elif not line.text[:1].isspace():
            flush += 1
            if flush > _SOURCE_BELOW or HEADER.search(line.text) or match_exception(line.text):
                break
        elif frame:
            break
    continued = bool(frames) or any(line.text[:1].isspace() for line in lines[index + 1 : index + 2])
    below = _below(lines, index) if continued or not message else ""
    kind = kind.partition("(")[0].rstrip(":")
    return ParsedException(
        kind, message, lines[index], tuple(frames), follows, chain, bare=not frames, below=below
    )


def _frame_of(found: re.Match[str]) -> TracebackFrame:
    return TracebackFrame(
        found["file"] or found["short"],
        int(found["line"] or found["shortline"]),
        found["name"] or found["shortname"] or "",
    )


def _one(
    lines: Sequence[Line], start: int, follows: str, chain: int, *, bare: bool
) -> tuple[ParsedException | None, int]:
    frames: list[TracebackFrame] = []
    file = ""
    indent = lines[start].text[: len(lines[start].text) - len(lines[start].text.lstrip())]
    boxed = "traceback :" in lines[start].text
    for index in range(start + 1, min(len(lines), start + LONGEST_TRACEBACK)):
        text = lines[index].text
        if HEADER.search(text):
            return None, index
        frame = _FRAME.match(text)
        if frame:
            if not (indent or boxed or frames) and frame["file"]:
                indent = " " * (_indent(text) - _FRAMES_ARE_INDENTED)  # a paste that lost its first blanks
            frames.append(_frame_of(frame))
            continue
        file, cell = _notebook(text, file)
        frames += [cell] if cell else []
        if boxed or (indent and text.startswith(indent)):
            text = (
                text.strip()
                if boxed and text.startswith("    ") and not text.startswith("      ")
                else text.removeprefix(indent)
            )
        named = match_exception(text)
        if named and (frames or named["message"]):
            kind, message, end, below = named["type"], named["message"] or "", index, _below(lines, index)
            break
    else:  # a notebook's may be cut before its message
        head = _OF_NOTEBOOK.match(lines[start].text)
        if not (head and frames):
            return None, start + 1
        kind, message, end, below = head["type"], "", start, ""
    raised = ParsedException(kind, message, lines[end], tuple(frames), follows, chain, bare=bare, below=below)
    return raised, end + 1


def _below(lines: Sequence[Line], index: int) -> str:
    """Return the lines below an exception that belong to its message, in one line.

    An assertion without a message says what its statement says, which a traceback shows above it.
    """
    if lines[index].text.strip() == "AssertionError":
        source = (line.text.strip() for line in reversed(lines[max(0, index - 3) : index]))
        statement = next((text for text in source if text.strip("^~ ")), "")
        if statement.startswith("assert "):
            return statement
    if ":" not in lines[index].text:  # Python writes none where there is no message
        return ""
    found: list[str] = []
    for line in lines[index + 1 : index + 1 + MOST_BELOW]:
        if _NOT_A_MESSAGE.search(line.text) or _FRAME.match(line.text) or match_exception(line.text):
            break
        found.append(line.text.strip())
    return " ".join(found)


def is_quoted(lines: Sequence[Line], line: Line) -> bool:
    """Whether a line (`lines[line.order]`) shows code, not a message: a frame, or the source below it."""
    text = line.text
    if _FRAME.match(text) or _CXX_FRAME.match(text) or _RICH_SOURCE.match(text) or ARROW.match(text):
        return True
    if is_listed(lines, line):
        return True
    depth = _indent(text)
    if not depth or _NUMBERED_ERROR.match(text):
        return False
    for above in reversed(lines[max(0, line.order - _DEEPEST_SOURCE) : line.order]):
        if above.stream != line.stream:
            continue
        if _FRAME.match(above.text):
            return _indent(above.text) < depth
        if _indent(above.text) < depth:
            return False
    return False


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def match_exception(text: str) -> re.Match[str] | None:
    """Return the exception that a line names, None when it names none."""
    if text[:1].isspace() or _NOT_AN_EXCEPTION.match(text):
        return None
    found = _EXCEPTION.match(text)
    if found and (
        found["message"] is not None or _ENDS_LIKE_ERROR.search(found["type"]) or "." in found["type"]
    ):
        return found
    return None


def _notebook(text: str, file: str) -> tuple[str, TracebackFrame | None]:
    """Return the file whose lines follow, and the frame that an arrow points at."""
    head = _CELL.match(text)
    if head:
        if head["cell"]:
            return "", TracebackFrame(f"Cell {head['cell']}", int(head["line"]))
        return head["file"], None
    arrow = ARROW.match(text)
    return file, TracebackFrame(file, int(arrow["line"])) if arrow and file else None


def is_listed(lines: Sequence[Line], line: Line) -> bool:
    """Whether `lines[line.order]` is source around an arrow: its numbers rise, and skip what is empty."""
    if _LISTED.match(line.text) is None:
        return False
    above = reversed(lines[max(0, line.order - _LONGEST) : line.order])
    below = lines[line.order + 1 : line.order + 1 + _LONGEST]
    return _leads_to_arrow(line, above, -1) or _leads_to_arrow(line, below, 1)


def _leads_to_arrow(line: Line, others: Iterable[Line], step: int) -> bool:
    """Whether the numbers of the lines beside it go up (`step` 1) or down (-1) to one with an arrow."""
    number = _number(line.text)
    for other in others:
        if other.stream != line.stream or other.text.strip() == _LEFT_OUT:
            continue
        its_number = _number(other.text)
        if not its_number or (its_number - number) * step <= 0:
            return False
        if ARROW.match(other.text):
            return True
        number = its_number
    return False


def _number(text: str) -> int:
    """Return the number in front of a line of source, 0 where there is none."""
    listed = _LISTED.match(text)
    return int(listed["line"]) if listed else 0
