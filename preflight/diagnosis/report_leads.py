"""Whether a line reports a failure itself, or only mentions one: by what is before the words. Pure.

What a process, a library, the kernel or a launcher reports is at the start of its line, behind an exception's
class, a logger's stamp and level, or the name of a program that says `error:`. Behind anything else, a
quotation mark, a cell, a bullet, a field or other words, they may be data, an answer or a test's name.
"""

from collections.abc import Sequence

from preflight import regex as re
from preflight.diagnosis.signatures.model import Alternative

_STAMP = r"\d\d:\d\d:\d\d"
_PLAIN = r"[^\"'`|=│]"  # what no quotation, cell or field opened
# What a collector writes before each line, unless that was seen and taken away.
_COLLECTOR = rf"(?:{_PLAIN}{{0,60}}?{_STAMP}{_PLAIN}{{0,60}}? |\[[\w.@-]+\] (?:out|err): |\d+\.\d{{3,}} )?"
# An exception's class, or the words by which runtimes announce one.
_RAISED = re.compile(
    rf"{_COLLECTOR}(?:[\w-]*\d: )?(?:(?:[A-Za-z_]\w*\.)*\w*(?:Error|Exception|Exit|Interrupt|Timeout|NotFound|Failed|Failure|Killed|OutOfResources)(?:\(\w+\))?(?::|\()"
    r"|(?:what\(\)|Caused by|Fatal Python error|CUDA (?:driver )?error): |Exception in )"
)
# A program that says `error:`, or what it could not do; a library's warning and a kernel's assertion.
_PROGRAM = re.compile(
    r"(?:[\w.-]+: )?[\w./-]+(?: \w+)?: error: |(?:/[\w./-]+|(?:ba|da|z)?sh): |\S{1,200} ?: ?\S{1,8} \d+(?: \S{1,2})? ?[:\uff1a] +\d+ |.{0,120}(?:NCCL|\.cu:\d+|\.cc:\d+) WARN |\S+:\d+: .{0,300}\bAssertion [`'].+ failed"
)
_MODULES = re.compile(r"(?:[A-Za-z_]\w*\.)+$")
_REPORTER = re.compile(
    rf"(?=.*(?:{_STAMP}|\w\.(?:py|cc|cpp|cu|c|h|go|rs):\d+)).*?(?:\b(?:ERROR|CRITICAL|FATAL|E|F|[Ee]rror)\b|^\[?[EF]\d{{3,4}} )[^\"'`=│]*$"
    rf"|(?:\[{_PLAIN}*\d{_PLAIN}*\] )?(?:=>> )?(?:[\w./-]+(?:\[\d+\])?: ){{0,2}}(?:(?i:fatal )?[Ee]rror|ERROR|FATAL|[Ff]atal|PBS|kernel)\b{_PLAIN}*[:.] $"
    rf"|.{{0,8}}\[{_PLAIN}*(?:{_STAMP}|\d\.\d){_PLAIN}*\] $|(?:\S+ +)?Warning +[A-Z]\w+ |Reason: +$|.*\b(?:error|err|exc|exception)=[\"']$|fatal: \[[\w.-]+\]: [A-Z]+! => .*\"$|\W*(?:ERROR|FATAL|CRITICAL)(?:\W+|:[\w.]+:)$|(?:[\w.-]+: )?[\w.-]+@[\w.-]+: $|\d+\.\ds \d+ $"
)
# What is before a column of a table, of which its head says whether a row reports.
_CELL = re.compile(r"[|│┃\t]\s*$| {2,}$|,[\"']?$|^\d+ $")
# Words before the failure of an end, or of which process ended: it happened, whatever program says so.
_SAYS_ENDED = re.compile(
    r"(?i)\b(?:fail(?:ed|ure)|crash(?:ed)?|died|abort(?:ed|ing)?|killed|fatal|exit(?:ed|ing)|terminated)\b|\b(?:rank|worker|node|host|pod|gpu)[ _-]?\d+(?: (?:said|reports|raised|got|hit))?\W+$|[❌✗✘💥]"
)


# A short sentence of its own, behind which the next one starts as a line does.
_SENTENCE = re.compile(r"\W{0,3}(?:[A-Za-z]{2,} ){0,2}[A-Za-z]{3,}[!.]+ $")


# What an evaluation, a check or a report prints when it has come to its end.
RESULT = re.compile(
    r"(?i)\W*(?:\[[\w ]+\] )?(?:[^\W_]+[ _/-]+)*(?:accuracy|acc|precision|recall|f1|bleu|rouge\w*|wer|cer|mrr|ndcg|auc|perplexity|ppl|score|exact_match|pass|em)(?:@\d+)?\W{1,4}\d[\d./]*\W*$"
    r"|.{0,40}\b(?:reports?|results?|predictions|docs|metrics)\b.{0,40}\b(?:written|saved|built|stored)\b|.{0,40}\ball \d+ .{1,40}\bpassed$|\d+ (?:matches|results|hits)$"
)


def is_report(text: str, alternatives: Sequence[Alternative]) -> bool:
    """Whether words that a pattern finds are where a process or a program reports what happened to it."""
    return _words_before(text, alternatives) is None


def is_only_name(text: str, alternatives: Sequence[Alternative]) -> bool:
    """Whether such words are where none reports its own failure; a table's rows may report it."""
    lead = _words_before(text, alternatives)
    return lead is not None and _CELL.search(lead) is None and _SENTENCE.match(lead) is None


def says_ended(text: str, alternatives: Sequence[Alternative]) -> bool:
    """Whether what is before such words says that something ended by them, or which process it was."""
    return _SAYS_ENDED.search(_words_before(text, alternatives) or "") is not None


def _words_before(text: str, alternatives: Sequence[Alternative]) -> str | None:
    """Return what is before the words, None where it is what is before a report."""
    if _RAISED.match(text) or _PROGRAM.match(text):
        return None
    found = [at.start() for each in alternatives if each.literal in text and (at := each.search(text))]
    lead = text[: min(found, default=0)] if alternatives else text
    return lead if lead.strip(" [") and not (_MODULES.match(lead) or _REPORTER.match(lead)) else None
