"""Lines that show a text: code, commands, help, differences. What they name has not happened. Pure."""

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import takewhile

from preflight import regex as re
from preflight.diagnosis.lines import Line
from preflight.diagnosis.report_leads import RESULT, is_report
from preflight.diagnosis.run_ends import DONE, FAILED
from preflight.diagnosis.signature_matcher import find_first_match
from preflight.diagnosis.step_counters import get_turn_words, names_step
from preflight.diagnosis.structured_records import is_data, is_example

_OPTION = re.compile(r"\s+--?\w[^ ]*(?: [^ ]+){0,6} {2,}\S")
_ONE_OPTION = re.compile(r"\s{1,8}--?\w")  # its help is below it
# A shell's prompt or trace, Python's, IPython's.
_COMMAND = re.compile(
    r"\++ \w|(?:\([\w.-]+\) ?)?(?:[\w.-]+@[\w.-]+[: ]\S{0,200} ?)?[$%] \w|>>> |\.\.\. \S|In \[\d+\]: "
)
_GUTTER = r"\s*(?:\d{1,6}(?: ?[|│:]|  )\s*)?"
_CODE = re.compile(
    rf"{_GUTTER}(?:(?:if|elif|except|while|with)\b.{{0,300}}:\s*(?:#.*|\w[\w.]*\(.*)?$|raise \w+(?:\.\w+)*\(|assert .{{1,300}}, f?['\"]"
    r"|(?:print|log(?:ger|ging)?\.\w+|warnings?\.warn|sys\.exit)\()"
)
# What a model was given or wrote: by the name of its part, by the marks of a chat, or beside its counterpart.
_REPORTS = r"(?!.{0,40}(?:ERROR|Error: |Exception: |Traceback|[Ff]ailed))"
_PART = re.compile(
    rf"\W{{0,3}}(?:\[[\w ]{{1,20}}\]:? +)?(?:(?i:prompt|question|generated(?: text)?|completion|answer)(?: \d{{1,4}})?|[QA]|Q\d{{1,4}}(?=.{{1,400}}\?\W*$)|(?:Prompt|Question|Completion|Answer)\d{{1,4}}): +{_REPORTS}"
    r"|[STHDP]-\d{1,7}\t|\W{0,4}(?:<\|(?:im_start\|>)?(?:user|assistant|system)\b|\[INST\]|<start_of_turn>|(?:['\"]\w+['\"]: ?)?\[?\{['\"]role['\"]: ?['\"]\w+['\"], ?['\"]content\b)"
)
# What the system says of a path that a script names so.
_OF_SYSTEM = r"(?:(?<=put: )|(?<=puts: ))(?:No space left on device|Disk quota exceeded|Permission denied|No such file or directory|Is a directory|Input/output error|Read-only file system|Stale file handle)\W*$"
_OF_PAIR = re.compile(
    rf"\W{{0,3}}(?![a-z]+\d)(?i:(inputs?|hyp(?:othesis)?|user|human|instruction|prompt|question|q)|(pred(?:iction|icted)?|targets?|ref(?:erence)?|label|assistant|gpt|response|completion|answer|a|outputs?))(?: ?\d{{1,4}})? ?: +(?!{_OF_SYSTEM}|\W?(?:\w+\.)*\w*(?:Error|Exception): |.{0, 40}(?:ERROR|Traceback|[Ff]ailed))"
)
# A text in quotation marks, and not a key or an apostrophe.
_QUOTE = re.compile(r"[\"`]|(?<!\w)'")
_QUOTATION = re.compile(
    r"(?:\"(?:[^\"\\]|\\.)*\"|(?<!\w)'(?:[^'\\]|\\.|(?<=\w)'(?=\w))*'(?!\w)|`[^`]+`)(\s*:)?"
)
_SAYS_OF_RUN = re.compile(
    r"(?i)err|exc|what|event|pipe|stream|trace|\.(?:cpp|cc|cu|h):\d|fail|fatal|critical|reason|status|cause|detail|ms?g\b|message|std(?:err|out)|\blog\b(?=\W{0,2}[:=])|level|severity|panic|result|crash|kill|died|abort|exit|lost|terminat|signal|cannot|could not|unable|\b(?:rank|worker|node|host|pod|gpu|process)\b"
)
_COMMENT = re.compile(r"\s*#")
_HUNK, _OF_DIFFERENCE = re.compile(r"@@ -\d+"), re.compile(r"[-+ \\]|@@ -|diff |index |$")
_LONGEST_HUNK = 60
# An item of a list of changes, as SchedMD, GNU and git write them.
_CHANGE = re.compile(
    r"(?:\s{0,8}(?:--|[*•-]) |(?=(?:Fix|Add|Remove|Improve|Correct|Document|Clarify)(?:e?d|e?s)? (?!.{0,200}(?:\bfail|: ))))(?:\w[\w/.,-]{0,40}: )?(?:[Ff]ixed: `|(?:Fix|Remove|Correct|Prevent|Avoid|Improve|Handle|Document|Clarify|Don't|Do not|Treat|When|If)(?:e?d|e?s)?\b|(?:Add|Change|Allow|Ensure|Update|Make|Log)(?:e?d|e?s)?\b(?!.{0,200}: ))"
)
# One line of `git log --oneline` by the conventions for its words.
_COMMIT_TITLE = re.compile(
    r"(?:\* )?[0-9a-f]{7,40} (?:\([^)]{1,80}\) )?(?:fix|feat|docs|chore|refactor|test|perf|ci|build|style|revert)(?:\([^)]{1,40}\))?!?: "
)
# What a page says of a failure that a reader may meet; a message says so behind its failure.
_TOLD = re.compile(
    r"\b(?:(?:[Ii]f|[Ww]hen(?:ever)?) (?:you|one|users?|we) (?:run into|encounter|see|get|face|hit)\b|\b[Yy]ou (?:may|might|will) (?:run into|encounter|see|get)\b|[Tt]his can happen\b|[Uu]sers? reports?\b)"
)
_SAYS_FAILED = re.compile(
    r"\b(?:ERROR|FATAL|CRITICAL|[Ff]ailed with)\b|^\W*(?:\S+: )?(?:[Uu]nable to|[Cc](?:annot|ould not)|[Ff]ailed to)\b"
)
# What a trainer prints above and below what its model wrote.
_SAMPLE = re.compile(
    r"(?i)[-=*#~<\[]{2,}(?!.{0,10}\bend\b).{0,40}\b(?:samples?|generat\w*|completions?|responses?)\b.{0,100}[-=*#~>\]]{2,}$"
)
_NAMED_END = re.compile(r"(?i)[-=*#~<\[/]{2,}.{0,10}\bend\b")
_END_OF_SAMPLE = re.compile(rf"{_NAMED_END.pattern}|[-=*#~]{{8,}}$")
_COMMIT = re.compile(r"commit [0-9a-f]{7,40}\b")  # its message is indented below it
# What a bar or shares behind a name count, and numbers behind the names of several rows.
_TALLY = re.compile(
    r"\s*\S.{1,80}?\s+(?:[\u2580-\u2595\u25a0]+|#{2,}|\*{2,})\s+\d[\d.,]*%?\W*$|\s*\S.{1,80}?(?:\s{2,}\d+\.\d+%?){2,}\s{2,}\d[\d.]*%?\s*$"
)
_COUNTED = re.compile(r"\s*[^\s[](?:\S|\s(?!\s)){1,80}(?:\s{2,}\d[\d.,]*%?){2,}\s*$")
_TURNS = 4
_LONGEST_SAMPLE = 100
# A part of a chat that spans lines, between its marks.
_CHAT = re.compile(
    r"\W{0,3}(?:<\|(?:im_start|start_header_id|user|assistant|system)\b|<start_of_turn>)|\W{0,3}\[INST\]"
)
_END_OF_CHAT = re.compile(r"(?:<\|?(?:im_end|eot_id|end_of_turn|end|endoftext)\|?>|\[/INST\]|</s>)\W*$")
_ITEM = re.compile(r"\s{0,4}(\d{1,3})[.)] (?!.{0,120}\b(?:rank|worker|node|host|gpu|GPU|pid|process)\b)\S")
_ECHO = re.compile(r"wandb: |real\s|\W*(?:[Aa]bort|[Ee]xit)")
_HEADS_FAILURES = re.compile(r"(?i)\b(?:errors?|exceptions?|causes?)\b|\bfail")
_NONE_OF_IT = re.compile(
    r"(?i)(?!.*(?:error|exception): |.*\b(?:no|not|never|can(?:no|')t|unable|fail\w*|missing|denied|refused|lost)\b.*[:=])(?:\[[^\]]{1,40}\] )?[^:=]{1,80}[a-z)\]] *[:=] +(?:no|none|never|absent|0)\W*$"
)
_RESULT = re.compile(
    r"^\s*(?:\[ *(?:OK|ok|PASS(?:ED)?|passed) *\]|[✓✔]|ok \d+ -|PASS:) |\b(?:PASSED|XFAIL|xfail|SKIPPED|XPASS)\b| \.\.\. (?:ok|skipped\b.*|expected failure|none|absent|not seen)$"
)


_SHOWN = re.compile("|".join(each.pattern for each in (_OPTION, _TALLY, _COMMAND, _CODE, _PART)))


def is_shown_text(lines: Sequence[Line], line: Line) -> bool:
    """Whether a line of a log (`lines[line.order]`) shows a text that names a failure, and reports none."""
    text = line.text
    if (
        _SHOWN.match(text)
        or _NONE_OF_IT.match(text)
        or (_QUOTE.search(text) and _is_only_quoted(lines, line))
    ):
        return True
    if item := _ITEM.match(text):
        others = filter(None, (_ITEM.match(each.text) for each in _beside(lines, line.order)))
        return any(abs(int(other[1]) - int(item[1])) == 1 for other in others) and _is_amid(lines, line.order)
    for form in (_COMMENT, _COMMIT_TITLE, _COUNTED):  # one alone is a heading, a host's name or a report
        if form.match(text):
            return any(form.match(each.text) for each in _beside(lines, line.order))
    if (own := _OF_PAIR.match(text)) and any(
        (other := _OF_PAIR.match(each.text)) and other.lastindex != own.lastindex
        for each in _beside(lines, line.order)
    ):
        return True
    above = lines[line.order - 1].text if line.order else ""
    if text[:4] == "    " and (
        _COMMIT.match(above) or (_ONE_OPTION.match(above) and text[:10].isspace() and ": error: " not in text)
    ):
        return True
    if text[:1] in " \t>`" and _tells(above) and above.endswith(":") and not _SAYS_FAILED.search(above):
        return True
    if _RESULT.search(text) or _tells(text):
        return True
    if _CHANGE.match(text):
        return text.lstrip().startswith("-- ") or any(
            _CHANGE.match(each.text) for each in _beside(lines, line.order)
        )
    return text[:1] in "-+" and _in_hunk(lines, line.order)


def _is_only_quoted(lines: Sequence[Line], line: Line) -> bool:
    """Whether a line names a failure in quotation marks alone, and the log shows that a run continued."""
    text = line.text
    texts = (found.span() for found in _QUOTATION.finditer(text) if not found[1])
    quoted = [(start, end) for start, end in texts if text[start - 1 : start] != ","]
    rest = _QUOTATION.sub(lambda found: found[0] if found[1] else "", text) if quoted else text
    if not quoted or _SAYS_OF_RUN.search(rest) or is_report(text, ()):
        return False
    row = find_first_match(text)
    words = [
        found.start()
        for each in (row or FAILED).alternatives
        if each.literal in text and (found := each.search(text))
    ]
    if not words or not all(any(start < at < end for start, end in quoted) for at in words):
        return False
    behind = (*lines[line.order + 1 : line.order + _LONGEST_SAMPLE], *lines[line.order + 1 :][-2:])
    code_or_data = text[:4].isspace() or is_data(text)
    return is_example(text) or any(code_or_data or _goes_on(each.text) for each in behind)


@lru_cache(_LONGEST_SAMPLE)  # a line is behind as many others
def _goes_on(text: str) -> bool:
    return names_step(text) or RESULT.match(text) is not None or DONE.is_in(text)


def _is_amid(lines: Sequence[Line], order: int) -> bool:
    """Whether an item is in a list that has text behind it and no word of a failure above it.

    The last item of a list counts only below one that names something.
    """
    near = slice(max(0, order - _LONGEST_SAMPLE), order)
    above = next((each.text for each in reversed(lines[near]) if not _ITEM.match(each.text)), "")
    behind = lines[order + 1 : order + _LONGEST_SAMPLE]
    if not _ITEM.match(behind[0].text if behind else "") and not find_first_match(lines[order - 1].text):
        return False
    return not _HEADS_FAILURES.search(above) and any(
        not (_ITEM.match(each.text) or _ECHO.match(each.text)) for each in behind
    )


def _tells(text: str) -> bool:
    """Whether a line says when one sees a failure, and reports none before."""
    told = _TOLD.search(text)
    above = text[: told.start()] if told else ""
    reported = told is not None and told[0][0] in "Yy" and _SAYS_FAILED.search(above)
    return told is not None and not (reported or find_first_match(above))


def blank_samples(lines: Sequence[Line]) -> Sequence[Line]:
    """Return the lines with those empty that a model wrote.

    A trainer rules them off, names them above, and says below that they end, or continues as above them.
    """
    kept = list(lines)
    for start in (line.order for line in lines if _SAMPLE.match(line.text)):
        own = [
            each for each in lines[start + 1 : start + _LONGEST_SAMPLE] if each.stream == lines[start].stream
        ]
        written = list(takewhile(lambda each: not _END_OF_SAMPLE.match(each.text), own))
        behind = own[len(written) :]
        near = lines[max(0, start - _TURNS) : start + 1]
        above = {get_turn_words(each.text) for each in near} - {frozenset()}
        if behind and (
            _NAMED_END.match(behind[0].text) or any(get_turn_words(each.text) in above for each in behind[1:])
        ):
            for each in written:
                kept[each.order] = replace(each, text="")
    for line in lines:
        if line.text[:4].lstrip()[:1] in ("<", "[") and _CHAT.match(line.text):
            near = lines[line.order : line.order + _LONGEST_SAMPLE]
            own = [each for each in near if each.stream == line.stream]
            part = [line, *takewhile(lambda each: not _CHAT.match(each.text), own[1:])]
            end = next((at for at, each in enumerate(part) if _END_OF_CHAT.search(each.text)), 0)
            for each in part[: end + 1]:
                kept[each.order] = replace(each, text="")
    return kept


def _beside(lines: Sequence[Line], order: int) -> Sequence[Line]:
    return (*lines[max(0, order - 1) : order], *lines[order + 1 : order + 2])


def _in_hunk(lines: Sequence[Line], order: int) -> bool:
    above = (each.text for each in reversed(lines[max(0, order - _LONGEST_HUNK) : order]))
    return any(map(_HUNK.match, takewhile(_OF_DIFFERENCE.match, above)))
