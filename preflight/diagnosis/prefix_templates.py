"""Prefixes of collectors that have no pattern of their own: what repeats before the lines of a text. Pure.

A template is what is before the head of a traceback, a frame, a ruled line or a row of torch's box, without
its numbers, days and months. It is a prefix where a traceback's head and a frame below it have it, or nearly
all lines: then its words (a level, a host) are a parent's that copies lines, and say nothing about a line.
Where a log has none of these, what is alone in lines that were printed empty is tried, and then the stamp of
each line with the words behind it that nearly all have.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from preflight import regex as re

START = "Traceback (most recent call last):"
# The errors that torch.compile logs of kernels which it leaves out, and of code that it runs uncompiled.
_TRIED = re.compile(r"\b_(?:inductor/select_algorithm|dynamo/convert_frame)\.py:")
# What only warns, or tries again, may show why.
SOFT = re.compile(r"\b(?:WARN|INFO|DEBUG)|\b[Ww]arn|[Rr]etr(?:y|ied)|[Ii]gnor|[Ss]kipp")
_MOST_PREFIX = 160
_INTERLEAVED = 16  # lines below a traceback's head with its first frame, where ranks interleave
_FRAME_BELOW = re.compile(r" {0,2}File \"|    \S")
_NAMES = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec|Mon|Tue|Wed|Thu|Fri|Sat|Sun|AM|PM"
_NUMBER = rf" *\d+(?:[.,:/+-]+\d+)*|(?<![A-Za-z])(?:{_NAMES})(?![A-Za-z])"
_NUMBERS = re.compile(_NUMBER)
_LONG_RULE = 20
_ANCHORS = (
    START, "  + Exception Group T", '  File "', "  exitcode ", "  rank  ", "frame #", "╭───", *(mark * _LONG_RULE for mark in "=*#_-─━"),
)  # fmt: skip
"""What a program writes at the left margin."""
_RULED = re.compile(r"([=*#_─━-])\1*[ \t]*$", re.MULTILINE)
_SIDES = frozenset(("", "│", "┃", "|"))  # of boxes, which have a side at the end too
_MOST_ANCHORS = 400
_MOST_TEMPLATES = 32
_SHARE, _LEAST = 0.85, 0.5
_FEWEST, _FEW = 6, 3  # lines of which nearly all, and of which all must have a prefix
_SAMPLE = 64
_STAMPS = rf"(?<![A-SU-Za-z_\d-])\d+(?:[.,:/+-]+\d+)+|(?<=\.py:)\d+|(?:{_NAMES}) +\d+"
_COUNTS = re.compile(rf"{_STAMPS}|(?<![A-Za-z_\d-])(?!\d{{1,4}}\t$)\d+")
"""Stamps, and numbers of no name: they differ from line to line; one before a tab is GNU parallel's tag."""
_LINES_PER_LABEL = 3
_STREAMS = re.compile(r"std(?:out|err)|(?<=\0)[OE]\+?(?= )")
_STREAM = re.compile(r"\bstd(?:out|err)\b(?: [FP]\b)?|(?<=Z )(?:\d\d)?[OE]\+?|(?<=\[) +| +(?= )")
"""What differs between lines of one printer: its streams, and the blanks that fill numbers up."""
_STAMPED = re.compile(
    r"(?:\S{1,12}[ \t]+){0,3}?\S{0,12}?(?:\d:\d\d:\d\d|(?<!\d)1\d{9}|@[0-9a-f]{24}|\[ *\d+\.\d{6}(?=\]))\S*[ \t](?:(?:\d{3} )?(?:[AP]M|UTC|[+-]\d{4})\]?[ \t])?"
)
_DELIMITED = re.compile(r"(?!\W*(?i:step|epoch|iter|batch|round)\w*\W*\d+\W*$).*(?:\d:\d\d:\d\d|[]:>|]$)")
"""What ends as prefixes do, or has a time; `step 9:` counts a program's own steps."""
_WORD = re.compile(r"\S*[ \t]")
_EMPTY = re.compile(r"[ \t]*$|[ \t]{2}")
# What no logger prints behind a level of its own: the lines of a program that it copies.
_COPIED = re.compile(
    r"[ \t]*(?:Traceback \(|File \"|\[rank|[IWEF]\d{4} |\d{1,3}%\||[\w./]+:\d+: \w+Warning|\[?\d{4}-\d\d-\d\d)"
)
_LEVEL = re.compile(r"[ \t]*(?:DEBUG|INFO|WARNING|ERROR)(?: *[:|-] | \d\d)")
_MOST_EMPTY = 0.4
_NEARLY_ALL = 0.95


class LinePrefix(NamedTuple):
    """What a collector wrote before a line. `label` names the printer; "" where all lines have one label."""

    text: str = ""
    label: str = ""


_NONE = LinePrefix()


def find_prefixes(texts: Sequence[str]) -> Sequence[LinePrefix]:
    """Return the prefix of each line, empty where it has none."""
    templates = _templates(texts)
    if not templates:
        return [_NONE] * len(texts)
    pattern = re.compile("|".join(map(_pattern, templates)))
    found = [match[0] if (match := pattern.match(text)) else "" for text in texts]
    for numbers, turns in ((re.compile(_STAMPS), 2), (_COUNTS, 0)):
        labels = [_STREAM.sub("", numbers.sub("", each)) for each in found]
        kinds, blocks = set(labels) - {""}, [label for label, _ in groupby(labels) if label]
        counts = len(blocks) == len(kinds) and all(each[:-1].isdigit() for each in kinds)  # of seconds
        among_others = len(blocks) >= turns * len(kinds)  # as ranks have, and no counter has
        if among_others and not counts and 2 <= len(kinds) <= len(texts) / _LINES_PER_LABEL:
            return list(map(LinePrefix, found, labels))
    return [LinePrefix(each) for each in found]


def _templates(texts: Sequence[str]) -> list[str]:
    """Return the templates of the prefixes that a log has, long ones first."""
    by_traceback = set(_of_tracebacks(texts))
    by_share = [form for form in dict.fromkeys(_anchored("\n".join(texts))) if form not in by_traceback]
    common = [
        form
        for form in by_share[:_MOST_TEMPLATES]
        if not any(form != other and form.startswith(other) for other in (*by_share, *by_traceback))
    ]
    if common and not _are_common([*by_traceback, *common], texts):
        common = []
    kept = [form for form in by_traceback if not SOFT.search(form) or _are_common([form], texts)]
    if not common and not (kept and _are_common(kept, texts)):
        kept += _before_all([text for text in texts if text.strip()])
    wanted = {form for form in (*kept, *common) if not _TRIED.search(form)}
    return sorted(wanted, key=len, reverse=True)[:_MOST_TEMPLATES]


def _of_tracebacks(texts: Sequence[str]) -> Iterator[str]:
    """Yield what is before both the head of a traceback and a frame below it."""
    seen: set[str] = set()
    for index, text in enumerate(texts):
        at = text.find(START)
        if not 0 < at <= _MOST_PREFIX or text[:at].strip() in _SIDES:
            continue
        form = _form(text[:at])
        if form in seen:
            continue
        pattern = re.compile(_pattern(form))
        below = (pattern.match(line) for line in texts[index + 1 : index + 1 + _INTERLEAVED])
        if any(match and _FRAME_BELOW.match(match.string, match.end()) for match in below):
            seen.add(form)
            yield form


def _anchored(whole: str) -> Iterator[str]:
    """Yield what is before lines that start at the left margin, each form that a level does not soften."""
    for anchor in _ANCHORS:
        at = whole.find(anchor)
        for _ in range(_MOST_ANCHORS):
            if at < 0:
                break
            start, end = whole.rfind("\n", 0, at) + 1, whole.find("\n", at)
            prefix = whole[start:at]
            ruled = len(set(anchor)) > 1 or _RULED.match(whole, at)
            firm = anchor[0] in " ╭" or not SOFT.search(prefix)
            if ruled and firm and len(prefix) <= _MOST_PREFIX and prefix.strip() not in _SIDES:
                yield _form(prefix)
            at = whole.find(anchor, end) if end > 0 else -1


def _before_all(filled: Sequence[str]) -> Sequence[str]:
    """Return what is before nearly all lines of a log, where lines behind it show that it is copied."""
    if len(filled) < _FEWEST:
        return ()
    longest = min(map(len, filled)) + _FEWEST
    short = [text.rstrip() for text in _sample([text for text in filled if len(text) <= longest])]
    counts = Counter(_form(text) for text in short if _DELIMITED.match(text))
    alone = [form for form, count in counts.items() if count > 1]
    sample = _sample(filled)
    stamped = [(_form(found[0]), text[found.end() :]) for text in sample if (found := _STAMPED.match(text))]
    for forms in ([f"{form} " for form in alone], alone, _with_words(stamped, _NEARLY_ALL * len(sample))):
        if forms and len(forms) <= _MOST_TEMPLATES and _are_common(forms, filled):
            pattern = re.compile("|".join(map(_pattern, sorted(forms, key=len, reverse=True))))
            behind = [text[found.end() :] for text in filled if (found := pattern.match(text))]
            signs = (_COPIED, _LEVEL if any(map(SOFT.search, forms)) else _EMPTY)
            empty = sum(1 for text in behind if not text.strip())
            if empty < _MOST_EMPTY * len(filled) and any(
                each.match(text) for each in signs for text in behind
            ):
                return forms
    return ()


def _with_words(stamped: Sequence[tuple[str, str]], fewest: float) -> list[str]:
    """Return the form of stamps with the words behind them that nearly all lines have."""
    form, count = Counter(form for form, _ in stamped).most_common(1)[0] if stamped else ("", 0)
    if count < fewest:
        return []
    rests = [rest for each, rest in stamped if each == form]
    while words := Counter(found[0] for rest in rests if (found := _WORD.match(rest))).most_common(1):
        if words[0][1] < fewest:
            break
        word = words[0][0]
        form += _form(word)
        rests = [rest[len(word) :] for rest in rests if rest.startswith(word)]
    return [form]


def _are_common(forms: Sequence[str], texts: Sequence[str]) -> bool:
    """Whether nearly all lines have one of the forms, but for a parent's own above and below these."""
    filled = [text for text in texts if text.strip()]
    pattern = re.compile("|".join(map(_pattern, sorted(forms, key=len, reverse=True))))
    found = [place for place, text in enumerate(_sample(filled)) if pattern.match(text)]
    if len(filled) < _FEWEST:
        return len(found) == len(filled) >= _FEW
    span = found[-1] - found[0] + 1 if found else 0
    return len(found) >= _SHARE * span and span >= _LEAST * len(_sample(filled))


def _sample(texts: Sequence[str]) -> Sequence[str]:
    return texts[:: max(1, len(texts) // _SAMPLE)]


def _form(prefix: str) -> str:
    return _STREAMS.sub("\1", _NUMBERS.sub("\0", prefix))


def _pattern(form: str) -> str:
    """Return the pattern of a form: any other number, day, month or stream fits in the place of one."""
    return re.escape(form).replace("\0", f"(?:{_NUMBER})").replace("\1", r"(?:std(?:out|err)|[OE]\+?)")
