"""Exceptions whose message alone a program logs, by Python's and torch's own words for them. Pure."""

from preflight import regex as re
from preflight.diagnosis.signatures.model import AnyOf

FAILING_CLASS = (
    r"(?:[a-z_]\w*\.){1,8}[A-Z]\w*(?:NotFound|Invalid|Exhausted|TimedOut|Timeout|Unavailable|Denied|Refused|Exceeded|Failed|Failure|Closed|Aborted|Mismatch"
    r"|Missing|Expired|Forbidden|Unauthorized|Unreachable|Unsupported)(?!: (?:-?[\d.]+(?:%|/| of\b|$)|none\b|no\b|false\b))"
)
"""A package's own class whose name says what failed without the word `Error`; counts have such names, too."""

# Class, words: a message with them anywhere is of that class (CPython's Objects and Python, torch's ATen).
_WORDINGS: tuple[tuple[str, str], ...] = (
    ("AttributeError", r"\b(?:module|object|type object) '[\w.]{1,80}' has no attribute '|'[\w.]{1,80}' object has no attribute '"),
    ("TypeError", (r"\bgot an unexpected keyword argument '|\bmissing \d+ required (?:positional|keyword-only) arguments?: '|\btakes (?:from )?\d+ .{0,20}positional arguments? but \d+ (?:was|were) given"
                  r"|'[\w.]{1,80}' object is not (?:callable|subscriptable|iterable|an iterator)\b|\bunsupported operand type\(s\) for |\bobject of type '[\w.]{1,80}' has no len\(\)|\bexpected str, bytes or os\.PathLike object, not ")),
    ("IndexError", r"\b(?:list|tuple|string|pop) index out of range\b|\bpop from an? empty (?:list|deque)\b|\bis out of bounds for (?:axis|dimension|size) \d"),
    ("NameError", r"\bname '\w{1,80}' is not defined\b"),
    ("UnboundLocalError", r"\blocal variable '\w{1,80}' referenced before assignment|\bcannot access local variable '"),
    ("ValueError", r"\bnot enough values to unpack \(expected|\btoo many values to unpack \(expected|\binvalid literal for int\(\) with base|\bcould not convert string to float:|\bcannot reshape array of size \d"),
    ("ZeroDivisionError", r"\b(?:float |integer )?(?:division|modulo) by zero\b"),
    ("RuntimeError", r"\bshapes cannot be multiplied \(|\bmust match the (?:existing )?size (?:of tensor b )?\(\d|\bshape '\[[\d, -]{1,80}\]' is invalid for input of size \d|\bstack expects each tensor to be equal size"),
)  # fmt: skip
# What a program writes in front of such a message.
_REPORT = re.compile(
    r"(?:\b(?:ERROR|CRITICAL|FATAL)\b|\b(?:[Ee]rror|[Ee]xception|[Ff]ail(?:ed|ure)?|[Cc]rash(?:ed)?)\b[^:]{0,80}: ?).{0,400}$"
)
# How XLA and TensorFlow log a status of absl, which Python gets later as an exception, or never. The end of a
# data set is a status, too, and a cancelled operation is that of another one.
_OF_XLA = r"\b(?:Execution of replica \d+ failed|Non-OK-status: \S{1,120} status): "
_OF_TENSORFLOW = r"\bBaseCollectiveExecutor::StartAbort (?!(?i:out.of.range|cancelled))"
_STATUS = re.compile(
    rf"(?:(?P<xla>{_OF_XLA})|{_OF_TENSORFLOW})(?P<status>[A-Za-z]+(?:[ _][A-Za-z]+){{0,2}}): (?P<message>.*)"
)
WORDINGS = AnyOf(
    "|".join(
        [
            *(pattern for _, pattern in _WORDINGS),
            _OF_XLA,
            _OF_TENSORFLOW,
            r"<class '[\w.]{1,120}(?:Error|Exception)'>",
        ]
    )
)
_BY_TYPE = tuple((name, AnyOf(pattern)) for name, pattern in _WORDINGS)
# An exception as its constructor would be written, as Hydra and loggers of objects show one.
_WRITTEN = re.compile(
    r"(?P<type>(?:\w+\.)*\w+(?:Error|Exception))\((?P<quote>['\"])(?P<message>.+)(?P=quote),?\)$"
)
# An exception as `sys.exc_info()` or the arguments of `sys.excepthook` show it.
_BY_CLASS = re.compile(
    r"<class '(?P<type>(?:\w+\.)*\w+(?:Error|Exception))'>[\s,:>-]{1,8}(?P<message>\S.*?)(?:, <traceback object at \w+>\)?)?$"
)
# What a Rust thread prints before it ends (std/src/panicking.rs); newer ones put the message below the place.
_PANIC = re.compile(
    r"\W?thread '[^']{1,80}' (?:\(\d+\) )?panicked at (?:\S+:\d+:\d+:$)?'?(?P<message>.*?)(?:', \S+:\d+(?::\d+)?)?$"
)
# A test that failed, in pytest's summary.
_OF_TEST = re.compile(
    r"FAILED \S{1,200}::.{1,300}? - (?:(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception))(?:: (?P<message>.*))?|(?P<statement>assert .*))$"
)
# What the toolkit of SageMaker reports of a script, whose own output may be elsewhere.
_OF_TOOLKIT = re.compile(
    r"ErrorMessage \"(?P<type>(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception))(?:: (?P<message>.*?))?\W*$"
)
_FORMS = (
    ("FAILED ", _OF_TEST, ""),
    ("ErrorMessage ", _OF_TOOLKIT, ""),
    ("panicked at ", _PANIC, "PanicException"),
)
_BEHIND_QUOTE = re.compile(r"['\"`]\.? +(?=[A-Z][a-z]*\b[ ',])")
_LONGEST = 600


def parse_reported_error(text: str) -> tuple[str, str] | None:
    """Return (type, message) of an exception that a line reports by its message alone, else None."""
    text = text[:_LONGEST]
    written = _WRITTEN.match(text) if text.endswith(")") else None
    if written is not None:
        return written["type"], written["message"]
    raised = _BY_CLASS.search(text) if "<class '" in text else None
    if raised is not None:
        shown = _WRITTEN.match(raised["message"])
        return raised["type"], shown["message"] if shown else raised["message"]
    for mark, form, kind in _FORMS:
        if mark in text and (said := form.match(text)):
            parts = said.groupdict()
            return kind or said["type"] or "AssertionError", said["message"] or parts.get("statement") or ""
    if not WORDINGS.is_in(text):
        return None
    status = _STATUS.search(text)
    if status is not None:
        return _of_status(status)
    report = _REPORT.search(text)
    if report is None:
        return None
    name = next((name for name, words in _BY_TYPE if words.is_in(text)), None)
    message = _BEHIND_QUOTE.split(report[0].partition(": ")[2] or report[0], maxsplit=1)[0]
    return (name, message.strip(" \"'}")) if name else None


def _of_status(status: re.Match[str]) -> tuple[str, str]:
    """Return (type, message) of the exception that JAX or TensorFlow makes of a status."""
    words = status["status"].replace("_", " ").split()
    if status["xla"]:
        return "XlaRuntimeError", f"{'_'.join(words).upper()}: {status['message']}"
    return "".join(word.capitalize() for word in words) + "Error", status["message"]
