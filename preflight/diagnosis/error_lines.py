"""The line that says what failed, where no row knows its words and no exception carries them. Pure."""

from collections.abc import Sequence

from preflight import regex as re
from preflight.diagnosis.candidate import Candidate
from preflight.diagnosis.lines import Line
from preflight.diagnosis.outlived_exceptions import ANSWERED
from preflight.diagnosis.quoted_text import is_shown_text
from preflight.diagnosis.replacements import says_instead
from preflight.diagnosis.result import SAID_CODE, UNKNOWN
from preflight.diagnosis.run_ends import TESTS_PASSED
from preflight.diagnosis.run_progress import RunProgress
from preflight.diagnosis.signature_matcher import find_first_match, is_harmless
from preflight.diagnosis.signatures.table import CausalDepth
from preflight.diagnosis.tracebacks import is_quoted
from preflight.diagnosis.warning_lines import is_warning_line

_STOPPED = "S73"
_END = 60  # lines at a log's end among which the error of a run that failed is looked for
_LAST = 4  # of them those in which an error ends a run that shows no other failure
_MOST_SHOWN = 300
# A program's own word for an error: the level of a logger, or what a tool writes before its message.
_BY_LEVEL = re.compile(
    r"\b(?:ERROR|FATAL|CRITICAL|SEVERE)\b(?![\w.]*=)|\"?level\W{1,4}(?:error|fatal|critical)\b"
    r"|(?:^|[\]:>*] ?)(?:[\w./-]+ )?(?:[Ff]atal )?(?:[Ee]rror|[Ff]atal)(?: \d+)?(?:: |! )(?!\s*[-+\d.]+(?:e[-+]?\d+)?%?\s*(?:\([^()]{0,60}\))?\s*$)|^\W{0,4}(?:An )?[Ee]rror (?:in|while|when|at|occurred)\b|^(?:ERRO|FATA)\[\d{4}\] |(?:^|\s)\[[EFC]\](?=[ :])|^:1:\w+\.cpp +:\d+ *:"
)
# A program that says why it ends, whatever level it gives the line.
_LACKING = r"\b(?:[Uu]nable to|[Ff]ailed|[Cc]annot|[Cc]ould not|[Nn]ot (?:found|available|set|installed|configured|specified|enough (?!time))|[Ii]nvalid|(?<![Nn]othing )[Mm]issing|[Nn]o (?:\w+ )?(?:GPUs?|CUDA|devices?)|does not (?:exist|divide|match|fit)|(?:is|are) (?:unset|undefined)|(?:[Mm]ust|[Ee]xpected|[Nn]eeds?|[Rr]equires?|[Oo]nly \d+)\b.{1,80}?\b(?:got|found|given|available|expected))\b"
_ENDS = re.compile(
    rf"{_LACKING}.{{0,300}}(?:\b(?:[Ee]xiting|[Qq]uitting)\b(?=\W*$|[.,;:!]| ?\(| (?:now|with|immediately|gracefully|because|as|due|(?:the )?(?:program|script|job|run|process|training))\b)|(?<=[.;,:] )[Ee]xit(?=\W*$)|\b(?:[Aa]borting|[Gg]iving up)\b(?! (?:the )?(?:loop|epoch|early)))|\b(?:[Ee]xiting|[Aa]borting)(?::| because\b| as\b).{{0,300}}{_LACKING}"
    r"|\b(?:ERROR|FATAL|CRITICAL|\[error\])(?=\W).{0,300}[,;:.-] ?(?:[Ss]topping|[Aa]borting|[Ee]xiting|[Qq]uitting|[Tt]erminating|[Gg]iving up)(?: (?:the )?(?:training|run|job|now))?\W*$"
)
# What Perl prints as it dies, and where it only warns.
_DIES = re.compile(
    r"(?!Use of uninitialized|.{1,100}(?:isn't numeric|redefined|masks earlier)).{1,300} at \S{1,200}\.p[lm] line \d+(?:, <\w+> line \d+)?\.$"
)
# Verbs and states of what was not done.
_BY_WORDS = re.compile(
    r"\b(?:[Ff]ailed (?:to|with|because|due)|FAILED|[Cc]ould ?n[o']t|[Cc]an(?:no|')t|[Uu]nable to|[Tt]imed out|No such|[Nn]ot found|[Uu]nrecognized|[Rr]efused|[Dd]enied|[Aa]borted|[Aa]borting"
    r"|undefined symbol|unsupported|not supported|not permitted|does not exist|[Mm]ismatch(?:es)?|[Uu]nreachable|[Mm]issing|[Ii]nvalid|[Ee]xceeded|is not defined|failure)\b|\b[Ff]ailed[.:!]|\bfailed$|\b(?:terminated|exited|died|crashed) unexpectedly\b"
)
_LAST_WORDS = re.compile(
    r"(?:^|: |\] )\W{0,20}(?:[Ff]ailed to|[Cc]ould not|Couldn't|[Cc]annot|[Uu]nable to) |: (?:[\w ]+ )?(?:timed out|refused|denied|unreachable|not permitted|No such file or directory)\W*$|: undefined symbol: |: (?:invalid|unrecognized|unknown|illegal|ambiguous) (?:option|argument|choice|command)\b"
)
_NOTHING_TO_READ = re.compile(
    r"\b(?:[Ff]ile|[Dd]irectory|[Ff]older|[Pp]ath|[Cc]onfig|[Dd]ata(?: ?set)?)\b.{0,200} (?:does(?: not|n't) exist|(?:was |is |could )?not (?:be )?found)[.!]*$|(?:^|: |\] )\W{0,4}No (?:valid |usable |matching |training |input )?(?:data|samples?|images?|videos?|files?|examples|records|datasets?|batches)\b.{0,30}\b(?:found|available|loaded|left (?:after|for))\b"
)
# Lines that only lead to a message, or close a traceback.
_EMPTY = re.compile(
    r"Traceback \(most|(?:^|: |\] )\W*If you\b|:\W*$|^\S+ FAILED$|JobState=|: (?:Terminated|Killed)$|no error file defined|^(?:\S*/)?(?:collect2|ld): |^\W*(?:Failures|Root Cause).{0,40}$|^\W*(?:ERROR|Error|FATAL)\W*$|^[-=*#_ ]+$|\b(?:0 (?:errors?|failed|failures?)|(?:errors?|failed|failures?)[=: ]+0)\b"
)
# What scripts and trackers print behind a command that failed, too.
_ECHO = re.compile(r"(?:[Aa]ll )?[Dd]one\.?$|wandb: ")
# Words of a tool that gives up, where nothing comes behind them.
_GIVES_UP = re.compile(
    r"(?:\[?\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[.,\dZ]{0,9}\]?(?: -)? +)?\W{0,3}(?:\[(?:ERROR|Error|error|FATAL)\]:?|(?:ERROR|Error|[Ff]atal error|FATAL):) +(?!(?:nan|inf|[Nn]one)\b)['\"`(]?[A-Za-z]"
    r"|make(?:\[\d+\])?: \*\*\* .{0,200}\bError \d+$|ninja: build stopped|(?:\w+\.pl): .{0,80}\bfailed\b"
)


def ends_in_error(lines: Sequence[Line], course: RunProgress) -> bool:
    """Whether the last line is a tool's error that no signature knows, in a run that was not done before."""
    last = next((line for line in reversed(lines) if line.text.strip()), None)
    return (
        last is not None
        and _GIVES_UP.match(last.text) is not None
        and all(TESTS_PASSED.match(lines[order].text) for order in course.done)
        and not is_warning_line(last.text)
        and not is_harmless(last.text)
        and not is_shown_text(lines, last)
    )


def find_error_lines(
    lines: Sequence[Line], found: Sequence[Candidate], course: RunProgress, *, failed: bool
) -> list[Candidate]:
    """Return the error that a log's end names, where nothing else says more than that a process ended."""
    if any(each.cause.slug != UNKNOWN and not _is_of_srun(each) for each in found):
        return []
    if not failed and not all(_ECHO.match(lines[order].text) for order in course.done):
        return []
    said = [
        line
        for line in lines[max(course.start, len(lines) - _END) :]
        if (_says_more(lines, line) or (not failed and _lacks_data(line, course)))
        and not course.has_moved(line.order, len(lines))
    ]
    if not failed:
        said = [
            line
            for line in _ending(said, _filled(lines))
            if not (course.has_outlived(line, 1) or says_instead(line.text) or _answers_on(lines, line))
            and not (course.advanced and _NOTHING_TO_READ.search(line.text))
        ]
    if not failed and course.done:  # as a script says, whatever the command before has said
        said = [
            line
            for line in said
            if _ENDS.search(line.text)
            or (_GIVES_UP.match(line.text) and not course.has_made_steps() and not says_instead(line.text))
        ]
    leveled = [line for line in said if _is_leveled(line.text)]
    line = next(iter(leveled or (() if found else said or _find_end(lines, course, failed=failed))), None)
    if line is None:
        return []
    row = find_first_match(line.text)
    if row is not None and row.depth in (CausalDepth.ROOT, CausalDepth.GENERAL) and not row.broad:
        said_by = row.cause, row.fix
        return [Candidate.shown_by([line], CausalDepth.GENERAL, (row.code, row.slug), "possible", said_by)]
    words = (
        f"the first error at the log's end says: {line.text.strip()[:_MOST_SHOWN]}",
        "no row of the table knows these words: read the lines around it, and what that program's manual says of them",
    )
    return [Candidate.shown_by([line], CausalDepth.GENERAL, (SAID_CODE, UNKNOWN), "possible", words)]


def _find_end(lines: Sequence[Line], course: RunProgress, *, failed: bool) -> Sequence[Line]:
    """Return the last line that shows that a run failed, where it shows no code and no row knows it."""
    return [
        each
        for each in course.failing[-1:]
        if failed and not (_EMPTY.search(each.text) or is_quoted(lines, each) or find_first_match(each.text))
    ]


def _is_of_srun(found: Candidate) -> bool:
    """Whether all that stopped a run are words of srun, which does not say what made it do so."""
    return found.cause.code == _STOPPED and all(at.text.startswith("srun: ") for at in found.cause.evidence)


def _says_more(lines: Sequence[Line], line: Line) -> bool:
    """Whether a line reports an error, and not only that another process had one."""
    text = line.text[: 4 * _MOST_SHOWN]
    if not (
        _is_leveled(text) or _BY_WORDS.search(text) or _ENDS.search(text) or _DIES.match(text)
    ) or _EMPTY.search(text):
        return False
    if (
        (is_warning_line(text) and not _ENDS.search(text))
        or is_harmless(text)
        or is_quoted(lines, line)
        or is_shown_text(lines, line)
    ):
        return False
    row = find_first_match(text)
    return row is None or row.depth is not CausalDepth.VICTIM


def _is_leveled(text: str) -> bool:
    return _BY_LEVEL.search(text) is not None


def _lacks_data(line: Line, course: RunProgress) -> bool:
    """Whether a line of a run that made no step says that there is nothing to train on."""
    return (
        not course.advanced and _NOTHING_TO_READ.search(line.text) is not None and not is_harmless(line.text)
    )


def _answers_on(lines: Sequence[Line], line: Line) -> bool:
    """Whether a server answered others, or was shut down, behind the line."""
    return any(ANSWERED.search(each.text) for each in lines[line.order + 1 :])


def _filled(lines: Sequence[Line]) -> list[int]:
    """Return the `order` of each of the last lines that are not empty."""
    return [line.order for line in lines[-_END:] if line.text.strip() and not _ECHO.match(line.text)][-_LAST:]


def _ending(said: Sequence[Line], last: Sequence[int]) -> list[Line]:
    """Return the errors of the last lines that end a run of which nothing else shows that it failed."""
    return [
        line
        for line in said
        if line.order in last
        and (
            _BY_LEVEL.search(line.text)
            or _ENDS.search(line.text)
            or (line.order in last[-1:] and _DIES.match(line.text))
            or (
                line.order in last[-2:]
                and (_LAST_WORDS.search(line.text) or _NOTHING_TO_READ.search(line.text))
            )
        )
    ]
