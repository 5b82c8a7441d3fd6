"""Rows of tables of a program's data, a model's answers or a count: what they name has not happened. Pure.

A table of ranks, hosts, processes or jobs reports what became of them, and stays.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from preflight import regex as re
from preflight.diagnosis.lines import Line
from preflight.diagnosis.run_progress import RunProgress

_DASHES = r"[-=─━═:]"
# A rule between a table's rows that shows where its columns meet.
_RULE = re.compile(
    rf"[\s|+│┃├┡┢┝┞╞╟╠╒┏┌╭]*{_DASHES}{{2,}}(?:\s?[|+┼╇╪╋┿╈┳┬╤]\s?{_DASHES}{{2,}})+[\s|+│┃┤┩┪┥╡╢╣╕┓┐╮]*$|\|={{3,}}$"
)
# Above and below the rows, and between them and their head, in reStructuredText.
_PLAIN_RULE = re.compile(r"=+(?: +=+)+$")
_PART_OF_RULE = re.compile(r"[\s+|│┃┌┐└┘├┤┼╭╮╰╯━─═=+:-]*$")
_CELL = re.compile(r"\s[|│┃](?:\s|$)|^[|│┃]")
# Columns of a report: who a row is about, how it ended, or why.
_OF_REPORT = re.compile(
    r"(?i)(?:\b|_)(?:rank|host(?:name)?|node|pod|container|pid|gpus?|device|worker|replica|actor|process|exit(?:[ _]?code)?|job(?:[ _]?\w+)?|task|trial|stage"
    r"|time(?:stamp)?|date|severity|level|logger|event|namespace|status|state|outcome|\w*loss|reason|exception|traceback|command|service|driver)(?:\b|_)|(?:^|[|│┃,\t])\s*(?:error|cause)s?\s*(?:[|│┃,\t]|$)"
)
_COUNT = re.compile(
    r"(?i)(?:^|[|│┃,\t])\s*(?:#|n|no\.?|counts?|total|freq\w*|share|num\w*|%|runs|jobs|times|cases|occurrences)\s*(?:[|│┃,\t]|$)"
)
# Columns of a data set, without which names between commas or tabs head no table.
_OF_DATA = re.compile(
    r"(?i)(?:^|[,\t ])(?:label|score|class|category|text|comment|review|sentence|answer|question|target|prompt|completion|chosen|rejected|title|lang|split|reward|instruction|response)s?(?:[,\t ]|$)"
)
_NAMES, _NAMES_OF_FRAME = re.compile(r"\w+(?:([,\t])\w+)(?:\1\w+)*$"), re.compile(r"\s{2,}\w+(?:\s{2,}\w+)+$")
# A line of a logger whose fields have the same marks between them.
_LOGGED = re.compile(
    r"\d{4}-\d\d-\d\d|\d\d:\d\d:\d\d|.{0,80}?\b(?:ERROR|CRITICAL|FATAL|WARN(?:ING)?|INFO|DEBUG)\s*[|│]|(?i:(?:worker|rank|host|node|pod|pid|process|gpu|trainer)[ _-]?\w{0,12}\s*[|│])"
)
_QUOTED = re.compile(r"\"[^\"]*\"")
_METRIC = re.compile(r"(?i)(?:loss|norm)\w*\s*[|│┃]\s*[-+\dni]")
_OF_A_RUN = 3  # other lines, of which a person writes fewer around a table
_SIDES = ("|", "│", "┃")
_NO_RULE = frozenset("{[('\"<123456789")  # what starts no rule
_RULES = ("--", "──", "━━", "==", "══")
_LONGEST_HEAD, _LONGEST, _FEWEST = 200, 400, 2


def blank_data_tables(lines: Sequence[Line]) -> Sequence[Line]:
    """Return the lines with such rows empty; a table pasted without a run is a report unless it counts."""
    rows = {line.order: counts for line, counts in _rows(lines) if not _METRIC.search(line.text)}
    if not rows:
        return lines
    others = sum(1 for line in lines if line.order not in rows and not _is_of_table(line.text))
    if not all(rows.values()) and others < _OF_A_RUN and not RunProgress(lines).advanced:
        return lines
    return [replace(line, text="") if line.order in rows else line for line in lines]


def _is_of_table(text: str) -> bool:
    return bool(_PART_OF_RULE.match(text) or (_CELL.search(text) and not _LOGGED.match(text)))


def _columns(text: str) -> int:
    row = text.strip()
    return len(_CELL.findall(row[1:-1] if row[:1] in _SIDES and row[-1:] in _SIDES else row))


def _rows(lines: Sequence[Line]) -> Iterator[tuple[Line, bool]]:
    """Yield the rows of each table that is none of a report, and whether the table counts."""
    end = 0
    for at, line in enumerate(lines):
        text = line.text
        first = text[:1]
        if at < end or not (
            first == "0" or ("," in text or "\t" in text if first.isalpha() else first not in _NO_RULE)
        ):
            continue
        head, rows = _table(lines, at, text)
        if not rows:
            continue
        end = at + len(rows)
        counts = _COUNT.search(head) is not None
        if counts or not _OF_REPORT.search(head):
            yield from ((each, counts) for each in rows if each.stream == line.stream)


def _table(lines: Sequence[Line], at: int, text: str) -> tuple[str, Sequence[Line]]:
    """Return a table's head and rows, if a line is the rule or head above or the first row of a frame."""
    near = lines[at + 1 : at + _LONGEST]
    if text.startswith("==") and _PLAIN_RULE.match(text):
        same = [place for place, each in enumerate(near) if each.text == text][:2]
        return near[0].text, near[: same[-1]] if len(same) > 1 and same[0] == 1 else ()
    if any(dash in text for dash in _RULES) and _RULE.match(text):
        above = (each.text for each in reversed(lines[max(0, at - 2) : at]) if _CELL.search(each.text))
        rows = list(takewhile(lambda each: _is_of_table(each.text), near))
        head = next(above, "") or next((each.text for each in rows if _CELL.search(each.text)), "")
        columns = _columns(head)
        alike = takewhile(lambda each: _PART_OF_RULE.match(each.text) or _columns(each.text) == columns, rows)
        return head, list(alike) if head else ()
    if text[:2] == "0 " and at and _NAMES_OF_FRAME.match(lines[at - 1].text):
        counted = enumerate(lines[at : at + _LONGEST])
        rows = [each for _, each in takewhile(lambda each: each[1].text.startswith(f"{each[0]} "), counted)]
        return lines[at - 1].text, rows if len(rows) >= _FEWEST else ()
    if len(text) <= _LONGEST_HEAD and (names := _NAMES.match(text)) and _OF_DATA.search(text):
        mark, columns = names[1], text.count(names[1])
        rows = list(takewhile(lambda each: _QUOTED.sub("", each.text).count(mark) == columns, near))
        return text, rows if len(rows) >= _FEWEST else ()
    return "", ()
