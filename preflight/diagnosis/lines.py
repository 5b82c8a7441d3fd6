"""A log as lines without what launchers, terminals and collectors put around them. Pure."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from preflight import regex as re
from preflight.diagnosis.line_unwrap import unwrap_lines
from preflight.diagnosis.paste_marks import strip_marks
from preflight.diagnosis.prefix_templates import SOFT, START, find_prefixes
from preflight.diagnosis.structured_records import extract_lines, is_example
from preflight.diagnosis.timestamps import parse_timestamp
from preflight.frozen import dataclass

# A progress bar glued to what was printed after it: " 25%|██▌   | 5/20 [00:00<00:00]RuntimeError: ...",
# or behind the blanks that wipe a longer one.
_BAR = re.compile(r"^.{0,120}?\d{1,3}%\|[^|]{0,200}\|[^\[\]]{0,60}\[[^\]]{0,120}\](?:\s{5,}|\s?)")
# The same without a total, "12it [00:03, 3.2it/s, loss=2.1]", and those of Keras and rich.
_OPEN_BAR = re.compile(
    r"^.{0,80}?(?:\d+it \[[^\]]{0,120}\]|\d+/\d+ \[[=>.]{5,60}\][^A-Z\[]{0,160}|[━╸╺╾]{5,80} [\d/.%• :a-z-]{0,60})\s?(?=[\[A-Z]|--- [A-Z])"
)
MAX_LINE = 8192  # characters of a line that are read; a longer one (a dumped tensor) starts with what it is

_ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[()][0-9A-Z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-_]")
# Colours that were pasted without their escape character.
_BARE_COLOUR = re.compile(r"(?<![\w\]])\[(?:\d{1,2};){0,3}\d{1,2}m")
_BACKSPACES = re.compile("\b+")
# How Ray leaves alike lines out.
_OF_MANY = re.compile(r" ?\[repeated \d+x across cluster\](?: \(Ray dedup.{0,400})?$")
_RANK = re.compile(
    r"""
    ^(?:
        \[(?:[\w.-]+\ )?(?:[Rr]ank\ ?|default|r)(?P<torch>\d{1,6})\]:?   # torch, torchrun --tee, gpulaunch
      | \[[\w./-]{1,64}/r(?P<gpulaunch>\d{1,6})\]:?                       # gpulaunch run
      | (?P<srun>\d{1,5}):\                                               # srun --label
      | \[\d+,(?P<mpi>\d{1,6})\]<std(?:err|out)>:?                        # mpirun --tag-output
      | \[rank:\ (?P<lightning>\d{1,6})\]                                 # Lightning
      | (?:\[[\dT:.-]+Z\]\ )?[0-9a-f]{8}\ \[rank=(?P<determined>\d{1,6})\]\ \|\|   # Determined
    )\s?""",
    re.VERBOSE,
)
RAY_WORKER = re.compile(r"\(\w+(?:\([^)]*\))? pid=\d+")
_WRAPPER = re.compile(
    r"""
    ^(?:
        \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)\ (?:std(?:out|err)\ [FP]\ )?     # docker, k8s
      | \((?:raylet|(?:\w+(?:\([^)]*\))?,?\ )?(?:rank=\d+,\ )?pid=\d+(?:,\ ip=[\d.]+)?)\)\ ?                            # Ray, SkyPilot
      | [\w.-]{1,64}\ +\|\                                                                     # docker compose
      | \[pod/[\w.-]+/[\w.-]+\]\                                                                   # kubectl logs --prefix
      | (?:[A-Z][a-z]{2}\ [\d\ ]\d\ [\d:]{8}\ )[\w.-]{1,64}\ [\w./@-]{1,64}(?:\[\d+\])?:\            # journald
      | (?:(?:ERROR|CRITICAL)|(?:DEBUG|INFO|WARNING)(?=.{16,80}?\]\ (?:\[rank\d|Traceback|\ \ |\w+(?:Error|Exception):)))\ \d\d-\d\d\ [\d:]{8}(?:\.\d+)?\ (?:\[)?[\w./]+:\d+\]\ ?  # vLLM
      | [EF]\d{4}\ [\d:.]{8,18}\ +\d+\ (?:site-packages/)?[\w./-]+:\d+\]\ (?=Traceback|\ \ \ ?|\w+(?:Error|Exception)) # glog
      | \[\d{4}-\d\d-\d\d[T,]\ ?[\d:.+]{8,18}(?:\ UTC)?\]\ \{(?:subprocess|pod_\w+|logging_mixin|docker|ssh)\.py:\d+\}\ [A-Z]{4,8}\ -\ (?:\[base\]\ )?  # what Airflow copies
      | [A-Z]{4,8}\t\d{4}-\d\d-\d\d\ [\d:.]{8,15}\ [+-]\d{4}\t[\w-]{1,40}\t                                 # Vertex AI
      | \d\d:\d\d:\d\d\.\d{3}\ \|\ INFO\ +\|\ (?:Flow|Task)\ run\ '[^']{1,80}'\ -\                             # Prefect's of prints
      | std(?:err|out):\ ?                                                                            # accelerate test
      | \[\d{4}-\d\d-\d\d\ [\d:]{8}\]\ \[(?:INFO|ERROR|WARNING)\]\ (?=\[rank\d|Traceback|\ \ |\w+(?:Error|Exception):) # a parent's log
      | \d{4}-\d\d-\d\d\ [\d:]{8}(?:[.,]\d+)?\ -\ [\w.]{1,60}\ -\ [A-Z]{4,8}\ -\ (?=\[rank\d+\]:)   # a parent that logs its ranks
      | (?:kern|user|daemon|syslog)\ *:\ ?(?:emerg|alert|crit|err|warn(?:ing)?|notice|info|debug)\ *:\ \[[\dTZ:. -]{6,40}\]:?\ # dmesg -x, talosctl dmesg
      | \d{6}Z\ (?=[╭╰│])                                                                            # cut stamps
      | \#\d{1,3}\ \d{1,5}\.\d{1,3}\                                                                   # docker build
      | E\ (?:\ {2,6}(?=\ *(?:File\ "|Traceback|--\ Process))|\ {2,80}(?=\w+(?:\.\w+)*(?:Error|Exception)\b))  # pytest
      | >+\ (?=\S)                                                                                   # quoted
      | \*{3}\ (?=(?:\w+\.)*\w+(?:Error|Exception):\ )                                                # pdb
    )""",
    re.VERBOSE,
)
# What gpulaunch's own preflight says of hosts although the run was started, such as a process that the kernel
# had killed before; a finding that stops a launch is CRITICAL.
_PREFLIGHT_REMARK = re.compile(
    r"(?:INFO|WARNING|UNKNOWN|IGNORED) {2,6}[A-Z]{2,6}\d{3} on |  {11}fix(?: of these \d+)?: "
)
# In a prefix that only the tracebacks behind it show.
_NAMED_RANK = re.compile(r"\b(?:mpi)?rank[ =:_-]{0,2}(\d{1,6})\b", re.IGNORECASE)
# First characters a prefix can start with; most lines of a log start with none of them.
_PREFIXED = re.compile(r"[\[\d(>*#\w]")
# Of lines that a tool of an agent printed, whose run is not the trainer's.
_OF_TOOL = re.compile(
    r"(?i)\b(?:tool|sandbox|interpreter)\b.{0,60}\b(?:std(?:out|err)|output|result|observation)\b|\b(?:rollout|episode|turn)\b.{0,60}\b(?:tool|observation)\b"
)
_BOX_EDGE = re.compile(r"^[╭┌+][─━-]+ ?(?P<title>(?:[^─━+-][^─━]*?)?) ?[─━-]+[╮┐+]$|^[╰└][─━]+[╯┘]$")
_BOX_SIDES = "│┃|"
_GROUP = "Exception Group Traceback"
_GROUP_MARGIN = re.compile(r"^ *(?:\+-[+-]*-{4,}(?: \S+ -+)?$|[+|](?: |$))")
"""What Python draws beside the exceptions of a group, and between them."""
_MOST_PREFIXES = 4


@dataclass(frozen=True, slots=True)
class Line:
    """One line. `number` counts the lines of its text from 1; `order` those of all logs read together.

    `rank` is None where nothing says it; `at` is its stamp, or the one before it in the same log.
    `stands_for`: how many lines of its shape it is left of, in a condensed log. `label`: what a collector
    names as its printer, where lines of several are in one log.
    """

    number: int
    text: str
    rank: int | None
    source: str = ""
    host: str = ""
    order: int = 0
    at: float | None = None
    stands_for: int = 1
    label: str = ""

    @property
    def stream(self) -> tuple[str, str, int | None]:
        """What a line has in common with those that the same process printed."""
        return self.source, self.label, self.rank


class KeptLine(NamedTuple):
    """A line of a condensed log. `number` is its place in the whole one; `stands_for`: see `Line`."""

    number: int
    text: str
    stands_for: int = 1


@dataclass(frozen=True, slots=True)
class Log:
    """The text of one log, and what is known about it from outside: a file's name, whose it is.

    A long log has the lines that `condensed_log` `kept` instead, and its `text` is empty.
    """

    text: str
    name: str = ""
    rank: int | None = None
    host: str = ""
    kept: tuple[KeptLine, ...] = ()


def read_logs(logs: "tuple[Log, ...]") -> tuple[Line, ...]:
    """Return the lines of logs, one after the other, without colours, prefixes, boxes and progress bars."""
    found: list[Line] = []
    for log in logs:
        found.extend(_read(log, len(found), stamped=len(logs) > 1))
    return tuple(found)


def _read(log: Log, order: int, *, stamped: bool) -> Iterator[Line]:
    at: float | None = None
    name = log.name if stamped else ""
    grouped = False
    lines = list(_physical(_printed(log)))
    prefixes = find_prefixes([line.text for line in lines])
    kinds = {prefix for prefix, _ in prefixes}
    aside = {prefix for prefix in kinds if prefix and _OF_TOOL.search(prefix)}
    aside = aside if aside < kinds else set[str]()
    for place, raw in unwrap_lines([line.text for line in lines], [bool(prefix) for prefix, _ in prefixes]):
        number, _, count = lines[place]
        prefix, label = prefixes[place]
        if stamped:
            at = parse_timestamp(raw) or at
        if prefix in aside:
            continue
        outer = _rank_in(prefix) if prefix else None
        worker = RAY_WORKER.match(raw)
        label = worker[0] if worker and not label else label
        rank, bar, text = unwrap(raw[len(prefix) :])
        rank = _first_known(rank, outer, log.rank)
        grouped = grouped or _GROUP in text
        text = _GROUP_MARGIN.sub("", text) if grouped else text
        for part in (bar, *unfold_traceback(text)) if bar else unfold_traceback(text):
            yield Line(number, part, rank, name, log.host, order, at, count, label)
            order += 1


def _printed(log: Log) -> Iterable[KeptLine]:
    """Return the lines that programs printed, out of the records and the paste that hold them."""
    lines = log.kept or tuple(map(KeptLine, itertools.count(1), log.text.split("\n")))
    texts = [line.text for line in lines]
    entries = extract_lines(texts)
    if entries is not None:
        lines = tuple(lines[place]._replace(text=text) for place, text in entries)
        texts = [text for _, text in entries]
    bare = strip_marks(texts)
    if bare is texts:
        return lines
    return (KeptLine(number, text, count) for (number, _, count), text in zip(lines, bare, strict=True))


def _rank_in(prefix: str) -> int | None:
    """Return the rank that a prefix names, in a form of its own or by the word."""
    parts = prefix.lstrip(), prefix.rstrip().rpartition(" ")[2] + " "
    rank = _first_known(*(_unprefixed(part)[0] for part in parts))
    named = _NAMED_RANK.search(prefix) if rank is None else None
    return int(named[1]) if named else rank


def _first_known(*ranks: int | None) -> int | None:
    return next((rank for rank in ranks if rank is not None), None)


def _physical(lines: Iterable[KeptLine]) -> Iterator[KeptLine]:
    """Return every line that holds something, colours gone."""
    for number, raw, count in lines:
        raw = _BACKSPACES.sub("\r", raw) if "\b" in raw else raw  # noqa: PLW2901 - Keras goes back by them
        for part in (raw,) if "\r" not in raw else raw.split("\r"):
            if not part or part.isspace() or (part[0] in "IWU " and _PREFLIGHT_REMARK.match(part)):
                continue
            if len(part) > MAX_LINE:  # of a traceback in one line the end says it
                rest = part[-MAX_LINE:] if "Traceback (most recent" in part[:MAX_LINE] else ""
                part = part[:MAX_LINE] + rest  # noqa: PLW2901 - the rest is not read
            if "\x1b" in part or ("m" in part and "[" in part):
                part = _BARE_COLOUR.sub("", _ANSI.sub("", part))  # noqa: PLW2901
            part = _OF_MANY.sub("", part) if "x across cluster]" in part else part  # noqa: PLW2901
            yield KeptLine(number, part, count)


def unwrap(text: str) -> tuple[int | None, str, str]:
    """Return (rank, bar, text) of a line without prefixes; `bar`: one with a loss that text is glued to."""
    rank: int | None = None
    shown = ""
    while True:
        behind, text = _unprefixed(text)
        rank = behind if rank is None else rank
        text = _unbox(text)
        bar = match_bar(text)
        if bar is None or not text[bar.end() :].strip():
            return rank, shown, text.rstrip()
        shown = bar[0] if "loss" in bar[0] else shown
        text = text[bar.end() :]


def _unprefixed(text: str) -> tuple[int | None, str]:
    """Return the rank that the prefixes of a line name, and the text behind them."""
    rank: int | None = None
    if _PREFIXED.match(text):
        for _ in range(_MOST_PREFIXES):  # a torch prefix inside srun's inside docker's
            found = _RANK.match(text)
            if found:
                rank = next(int(value) for value in found.groups() if value)
            elif not (found := _WRAPPER.match(text)):
                break
            text = text[found.end() :]
    return rank, text


def _unbox(text: str) -> str:
    """Undo what rich draws around tracebacks."""
    stripped = text.strip()
    if len(stripped) < 2 or stripped[0] not in "╭┌+╰└│┃|":
        return text
    edge = _BOX_EDGE.match(stripped)
    if edge:
        title = (edge["title"] or "").strip()
        return title + ":" if title.startswith("Traceback") else title
    if stripped[0] in _BOX_SIDES and stripped[-1] in _BOX_SIDES:
        inner = stripped[1:-1].rstrip()
        return inner.removeprefix(" ")
    return text


def match_bar(text: str) -> re.Match[str] | None:
    """Return the progress bar that a line starts with, None where it starts with none."""
    if "%|" in text and (bar := _BAR.match(text)) is not None:
        return bar
    if "it [" in text or "=]" in text or ">." in text or "━━" in text:
        return _OPEN_BAR.match(text)
    return None


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
