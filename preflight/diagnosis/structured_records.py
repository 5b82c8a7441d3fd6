"""Logs whose lines are records of a collector or a logging library, as the lines that were printed. Pure.

Records are JSON (docker's json-file, journald, Cloud Logging, CloudWatch, Loki, loggers that write it), one a
line or over several, `key="value"` pairs, or rows with a header. A record that reports a loss stays as it is.
"""

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from preflight import regex as re
from preflight.diagnosis.timestamps import parse_timestamp

_MESSAGE_KEYS = (
    "textPayload", "message", "msg", "log", "@message", "MESSAGE", "line", "text", "content", "body", "logs", "output", "stderr", "stdout", "data", "event",
)  # fmt: skip
_WITHIN = ("jsonPayload", "_source", "record", "payload", "fields", "data", "attributes")
"""Keys of objects in which the message may be, one level deeper."""
_RAISED_WITHIN = ("error", "err", "exception", "exc", "exc_info")
_LEVEL_KEYS = ("level", "levelname", "severity", "lvl", "log_level", "log.level", "severityText")
_OF_PINO = {10: "DEBUG", 20: "DEBUG", 30: "INFO", 40: "WARN", 50: "ERROR", 60: "FATAL"}
"""Levels of pino and bunyan, whose records name a host and a process."""
_SOFT_LEVELS = frozenset({"DEBUG", "INFO", "WARN", "WARNING", "NOTICE"})
_HARD_LEVELS = frozenset({"ERROR", "CRITICAL", "FATAL", "PANIC"})
_KEY = "|".join(map(re.escape, _MESSAGE_KEYS))
_STRING = r"\"((?:[^\"\\]|\\.)*)\""
# What a forwarder may print before a record, such as a stamp and a tag.
_RECORD = re.compile(r"[^{}\"']{0,160}?(?=\{\s?\")")
_PAIR = re.compile(rf"\s*\"(?P<key>{_KEY})\"\s?:\s?{_STRING},?\s*$")
_OF_SPREAD = re.compile(r"\s*(?:[\[\]{}]{1,2},?|\"[^\"]{1,80}\"\s?:\s.*|\"(?:[^\"\\]|\\.)*\",?)\s*$")
_LOGFMT = re.compile(rf"(?:^|\s)([\w.]+)=(?:{_STRING}|([^\s\"]*))")
_RUBY = re.compile(r"\"(?:log|message|MESSAGE)\"=>\"(.*)\"\}\]?\s*$")
_LOSS = re.compile(
    r"\"[^\"]{0,40}[Ll]oss[^\"]{0,20}\"\s*:\s*(?:-?\d|NaN|null|\"?nan|Infinity)|\s\w*[Ll]oss=[\"']?(?:-?\d|[Nn]a[Nn]|inf)"
)
_TRACEBACK = "Traceback (most recent call last)"
# Fields of a record in which loggers and hooks put an exception's type and its message.
_TYPE = re.compile(r"(?:exc|err|error|exception)[._]?(?:type|class|name|kind)")
_MESSAGE = re.compile(r"(?:exc|err|error|exception)(?:[._]?(?:message|msg|value|info|text|str))?")
_RAISED = re.compile(r"(?:\w+\.)*\w*(?:Error|Exception|Interrupt)\b")
_CONTINUES = re.compile(
    r"(?i)\bre-?tr(?:y|ie)|\bskip|\bignor|\bfall(?:s|ing)? ?back|\bcontinu|\battempt \d|\b(?:sample|example|record|row|item|document|image|batch) (?:[\w/.]*\d[\w/.]* )?(?:(?:is|was) )?(?:dropped|replaced)\b|\b(?:dropped|dropping|replacing) (?:[\w/.]+ )?(?:sample|example|record|row|item|document|image|batch)(?:e?s)?\b"
)
# What a process prints as it ends, and a program that logs at that level does not.
_SHOWS_END = re.compile(
    r"Traceback \(most|\w(?:Error|Exception|Interrupt)\b|(?i:exit(?:ed|s)?\b.{0,30}\b(?:code|status)|core dumped|segmentation|bus error)|\b(?:Killed|Aborted|Terminated|FAILED|FATAL|[Ff]atal)\b|command not found|: error: |NCCL WARN|NVRM|slurmstepd"
)
# A record of a data set: a text and its name, with neither a stamp nor an event.
_DATA = re.compile(
    r"(?!.*\"(?:ts|@?time\w*|date\w*|event|source|stream|host\w*|\w*rank|\w*pid|node\w*|pod\w*|container\w*|worker\w*|logger|service|err\w*|exc\w*)\"\s?:)"
    r"(?=.*\"(?:_?id|u?uid|idx|index|label\w*|score|reward|url|lang\w*|meta\w*|title|split|category)\"\s?:).*\"(?:text|content|prompt|question|instruction)\"\s?:"
)
# One of a model's answers, or of what it learns from.
_EXAMPLE = re.compile(
    rf"{_DATA.pattern}.*\"(?:output|completion|response|answer|prediction)\"\s?:|{_DATA.pattern.partition('(?=')[0]}.*\"(?:prompt|question|instruction)\"\s?:.*\"(?:output|completion|response|answer|chosen)\"\s?:"
)
# A line of a container, and a part of one that is too long for a line.
_CRI = re.compile(r"^\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) std(?:out|err) ([FP]) ?(.*)")
_QUOTED = re.compile(r"(?<!\\)(?:\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*')")  # one at most has no end
_ESCAPE, _ESCAPED = re.compile(r"\\([ntr\"'\\])"), {"n": "\n", "t": "\t", "r": "\r"}
_HEADER = re.compile(r"[\w@ .\"-]+(?:[,\t;][\w@ .\"-]+)+$")
_SAMPLE = 64
_STAMP_KEY = re.compile(rf"\"(?!(?:{_KEY})\")@?\w{{1,40}}\"\s?:\s?\"(?=[^\"]{{6,24}}\d:\d\d:\d\d)")
_MOST_PREFIX = 60
_MOST_AROUND = 5  # lines beside one that holds a whole log, which has more
_SHARE = 0.7  # part of a log's lines that must be records, for it to be a log of records
_FEWEST = 2


class Entry(NamedTuple):
    """One printed line: the place of the line that holds it, and its text. Of a record it is all of these."""

    place: int
    text: str


def extract_lines(texts: Sequence[str]) -> list[Entry] | None:
    """Return the lines that the records of a log hold; None where its lines are something else."""
    records = _records(texts)
    if records is None and not _is_newest_first(texts, each_line=True):
        return None
    records = records or list(map(Entry, range(len(texts)), texts))
    whole = _joined(records[::-1] if _is_newest_first(texts) else records, texts)
    return [Entry(place, line) for place, text in whole for line in text.rstrip("\n").split("\n")]


def _is_newest_first(texts: Sequence[str], *, each_line: bool = False) -> bool:
    """Whether a log's stamps go back, as in what a page exports; with `each_line` all lines have one."""
    texts = texts if len(texts) > 1 else "".join(texts).split("},")
    parts = texts[:_SAMPLE], texts[-_SAMPLE:]
    ends = [[_stamp(text[: _MOST_PREFIX if each_line else None]) for text in part if text] for part in parts]
    keys = Counter(key for end in ends for key, _ in end if key).most_common(1)
    stamps = [[at for key, at in end if not keys or key == keys[0][0]] for end in ends]
    times = [[at for at in end if at is not None] for end in stamps]
    few = not keys and sum(map(len, times)) < (1 if each_line else _SHARE) * sum(map(len, stamps))
    if few or not all(times) or times[0][0] <= times[1][-1]:
        return False
    steps = [(one > other) - (one < other) for end in times for one, other in pairwise(end)]
    return steps.count(1) >= _FEWEST and steps.count(-1) <= (1 - _SHARE) / 2 * len(steps)


def _stamp(text: str) -> tuple[str, float | None]:
    """Return the key of the stamp that a line has in a record, "" where it has none, and the stamp."""
    key = _STAMP_KEY.search(text)
    return (key[0], parse_timestamp(text[key.end() :])) if key else ("", parse_timestamp(text))


def _joined(records: Sequence[Entry], texts: Sequence[str], share: float = _SHARE) -> Sequence[Entry]:
    """Return records with those put together that a collector made of one long line, which has one end."""
    ended = [text[-1:] == "\n" for place, text in records if text != texts[place]]
    if all(ended) or sum(ended) < share * len(ended):
        return records
    found: list[Entry] = []
    is_open = False
    for place, text in records:
        found.append(Entry(found[-1].place, found.pop().text + text) if is_open else Entry(place, text))
        is_open = text[-1:] != "\n" and text != texts[place]
    return found


def _records(texts: Sequence[str]) -> Sequence[Entry] | None:
    filled = [text for text in texts if text and not text.isspace()]
    if not filled:
        return None
    head = next((at for at, text in enumerate(filled) if text[:1] == "{"), 0)  # a banner, a configuration
    below = filled[head:] if 2 * head < len(filled) else filled
    step = max(1, len(below) // _SAMPLE)
    sample = below[::step][:_SAMPLE]
    if len(below) > len(sample):
        sample.append(below[-1])  # a crash may be the only record that reports no step
    if any(" P " in text and _CRI.match(text) for text in filled):
        held = [_CRI.sub(lambda part: part[2] + "\n" * (part[1] == "F"), text) for text in texts]
        return _joined(list(map(Entry, range(len(texts)), held)), texts, 0)
    for read in (_of_json, _of_ruby, _of_pairs):
        held = [message for text in sample if (message := read(text)) is not None]
        if len(held) >= max(_FEWEST, _SHARE * len(sample)) and not set(held).issubset(sample):
            leveled = _with_levels(read, sample, texts) if read is not _of_ruby else read
            messages = map(leveled, texts)
            return [Entry(n, texts[n] if each is None else each) for n, each in enumerate(messages)]
    if filled[0].lstrip("\ufeff ")[:1] in ("{", "[") and (found := _of_document(texts)) is not None:
        return found
    if len(filled) <= _MOST_AROUND and (found := _of_one_line(texts)) is not None:
        return found
    return _of_rows(texts, filled[0]) if _HEADER.match(filled[0]) else None


def _loads(text: str) -> object:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _of_json(text: str) -> str | None:
    """Return the message of a JSON object that a line is or ends in, else None; a loss's line as it is."""
    before = _RECORD.match(text) if text.rstrip()[-1:] == "}" else None
    record = _loads(text[before.end() :]) if before else None
    if not isinstance(record, dict):
        return None
    return text if _LOSS.search(text) or is_example(text) else _message(record)


def is_example(text: str) -> bool:
    """Whether a line is a record of a model's answer, or of what it learns from."""
    return text[:1] == "{" and _EXAMPLE.match(text) is not None


def is_data(text: str) -> bool:
    """Whether a line is a record of a data set."""
    return text[:1] == "{" and _DATA.match(text) is not None


def _with_levels(
    read: Callable[[str], str | None], sample: Sequence[str], texts: Sequence[str]
) -> Callable[[str], str | None]:
    """Return a reader that puts a soft level before its message, where a log's records have several levels.

    One level for all is that of a parent that copies what its child prints, and says nothing about a line,
    where any of the lines shows how a process ended. Among records with levels one without is data that a
    program shows, and stays as it is.
    """
    found = [_level(text) for text in sample]
    levels = set(found)
    if len(levels) < _FEWEST and not (levels <= _SOFT_LEVELS and not any(map(_SHOWS_END.search, texts))):
        return read
    all_have = found.count("") < (1 - _SHARE) * len(found)

    def leveled(text: str) -> str | None:
        message = read(text)
        level = _level(text) if message and message != text and "\n" not in message else ""
        if all_have and not level and message and _DATA.match(text):
            return text
        return f"{level} {message}" if level in _SOFT_LEVELS else message

    return leveled


def _level(text: str) -> str:
    before = _RECORD.match(text)
    record = _loads(text[before.end() :]) if before else _pairs(text)
    return _level_of(record) if isinstance(record, dict) else ""


def _level_of(record: Mapping[str, object]) -> str:
    inner = (record, *(each for key in _WITHIN if isinstance(each := record.get(key), dict)))
    found = next((each[key] for each in inner for key in _LEVEL_KEYS if isinstance(each.get(key), str)), "")
    number = record.get("level")
    if isinstance(number, int) and "pid" in record and "hostname" in record:
        return _OF_PINO.get(number, "")
    return str(found).upper()


def _message(record: Mapping[str, object]) -> str | None:
    """Return the message of a record, and below it the traceback that another of its fields holds."""
    inner = [value for key in _WITHIN if isinstance(value := record.get(key), dict)]
    for each in (record, *inner):
        held = [message for key in _MESSAGE_KEYS if (message := _text(each.get(key))) is not None]
        if held:
            message = next((each for each in held if each), "")
            below = _tracebacks(each, message)
            return "\n".join([message.rstrip("\n"), *below]) if below else message
    raised = (text for each in (record, *inner) for text in _tracebacks(each, ""))
    return next(raised, None)  # {"level": "fatal", "error": "..."}


def _text(value: object) -> str | None:
    """Return a text, also one that journald gives as a list of bytes since it holds control characters."""
    if isinstance(value, list) and value and all(isinstance(each, int) and 0 <= each < 256 for each in value):
        return bytes(value).decode("utf-8", "replace")
    text: object = value.get("stringValue") if isinstance(value, dict) else value  # of OpenTelemetry
    return text if isinstance(text, str) else None


def _tracebacks(record: Mapping[str, object], message: str) -> list[str]:
    held = dict(record)
    for key in _RAISED_WITHIN:
        inner = record.get(key)
        held |= {f"{key}.{name}": value for name, value in inner.items()} if isinstance(inner, dict) else {}
    texts = {key: value for key, value in held.items() if isinstance(value, str) and value != message}
    whole = [text.rstrip("\n") for text in texts.values() if _TRACEBACK in text]
    if whole or _level_of(record) in _SOFT_LEVELS or _CONTINUES.search(message):
        return whole
    kind = next((text for key, text in texts.items() if _TYPE.fullmatch(key)), "")
    said = next((text for key, text in texts.items() if _MESSAGE.fullmatch(key)), "")
    named = said if _RAISED.match(said) or not _RAISED.match(kind) else f"{kind}: {said}"
    return (
        [named.rstrip("\n")] if _RAISED.match(named) or (said and _level_of(record) in _HARD_LEVELS) else []
    )


def _of_ruby(text: str) -> str | None:
    """Return the message of a record as Fluent Bit prints it, `{"log"=>"..."}`."""
    found = _RUBY.search(text) if "=>" in text else None
    return found[1] if found else None


def _of_pairs(text: str) -> str | None:
    """Return the message of a line of `key=value` pairs, the line itself where it reports a loss."""
    record = _pairs(text)
    if not any(isinstance(record.get(key), str) for key in ("msg", "message", "log")):
        return None
    message = _message(record)
    became = record.get("new.message")  # of a node whose state has changed, by Argo's controller
    return text if _LOSS.search(text) else f"{message}\n{became}" if became else message


def _pairs(text: str) -> dict[str, object]:
    found = _LOGFMT.findall(text) if '="' in text else []
    return {key: bare or _loads(f'"{quoted}"') for key, quoted, bare in found}


def _of_document(texts: Sequence[str]) -> list[Entry] | None:
    """Return the messages of records that are one JSON document, or the spread lines of a cut one."""
    document = _loads("\n".join(texts))
    if document is not None:
        return [Entry(0, text) for text in _walk(document)] or None
    filled = [text for text in texts if text.strip()]
    pairs = [(place, _PAIR.match(text)) for place, text in enumerate(texts)]
    kept = [(place, pair) for place, pair in pairs if pair]
    if len(kept) < _FEWEST or sum(1 for text in filled if _OF_SPREAD.match(text)) < _SHARE * len(filled):
        return None
    read = ((place, _loads(f'"{pair[2]}"')) for place, pair in kept)
    return [Entry(place, str(text)) for place, text in read]


def _of_one_line(texts: Sequence[str]) -> list[Entry] | None:
    """Return the lines of a short text of which one holds a log: a tool's result, or a string's `repr`."""
    place = max(range(len(texts)), key=lambda at: len(texts[at]))
    text = texts[place]
    if 2 * len(text) < sum(map(len, texts)) or not ("\\n" in text or '", "' in text):
        return None
    before = _RECORD.match(text) if text.rstrip()[-1:] == "}" else None
    held = "\n".join(_walk(_loads(text[before.end() :]))) if before else ""
    if not held:
        quoted = max((each[0] for each in _QUOTED.finditer(text)), key=len, default="")
        held = _ESCAPE.sub(lambda each: _ESCAPED.get(each[1], each[1]), quoted[1:-1])
    if 4 * len(held) < len(text) or held.count("\n") < _MOST_AROUND:
        return None
    return [Entry(at, held if at == place else each) for at, each in enumerate(texts)]


def _walk(value: object) -> Iterator[str]:
    """Yield the messages in a JSON document."""
    if isinstance(value, dict):
        message = _message(value)
        if message is not None:
            yield message
            return
        for each in value.values():
            if isinstance(each, (dict, list)):
                yield from _walk(each)
    elif isinstance(value, list):
        for each in value:
            if isinstance(each, str):
                yield each
            else:
                yield from _walk(each)


def _of_rows(texts: Sequence[str], header: str) -> list[Entry] | None:
    """Return the messages of rows with a header that names them."""
    separator = next(each for each in (",", "\t", ";") if each in header)
    names = [name.strip(' "').lower() for name in header.split(separator)]
    column = next((names.index(key.lower()) for key in _MESSAGE_KEYS if key.lower() in names), None)
    if column is None:
        return None
    try:
        rows = list(csv.reader(texts, delimiter=separator, strict=True))
    except csv.Error:
        return None
    fit = [row for row in rows if len(row) == len(names)]
    if len(fit) < _SHARE * len([row for row in rows if row]):
        return None
    return [Entry(0, row[column]) for row in fit[1:]]
