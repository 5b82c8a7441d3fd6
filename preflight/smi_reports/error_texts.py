"""The errors that nvidia-smi prints in place of GPUs, in a session or in a short note. Pure."""

from itertools import dropwhile, takewhile
from typing import Any

from preflight import regex as re
from preflight.probes.nvidia_smi.values import parse_smi_error
from preflight.smi_reports.surroundings import ERRORS

Facts = dict[str, Any]

_LONGEST_ERROR = 4000  # a page that merely quotes an error message is not a recording of one
_LONGEST_NOTE = 1000
_NOTED = re.compile(  # not "No devices were found", as other programs say of phones and printers
    rf"^([^\n]*?)((?!No d){ERRORS}[^\n\"`*|\u201d]*?)(?:\\n|[^\w,\n])*$", re.MULTILINE
)
_TAG = re.compile(
    r"(?:\d{1,2}[.)] )?[^\w#]*|(?:\|[^|]{1,60}){1,4}\| *"
    r"|(?!.*\b(?:[Ii]f|[Ww]hen)\b|.*(?:[A-Za-z']+,? ){4}[a-z])"
    r".*(?:nvidia-smi|NVIDIA-SMI|Error|ERROR|FATAL|std(?:out|err)|[Oo]utput|returned)\b.{0,80}(?:[:>=]\W*|\bb[\"'])"
)
"""Marks, a row's first cells, or a program's words in front of an error; an author writes others."""
_ABOUT_ERRORS = re.compile(
    r"\A(?:.*\n)?usage: |^#+ (?:FAQ\b|.*\bmeans?\b)|^q(?:uestion)?: "
    r"|^if\b.{0,60}\bnvidia-smi\b.{0,20}\b(?:fail|print|report|return|say|show)s?\b"
    r"|\b(?:status|state) *: *(?:closed|resolved|fixed|solved)\b",
    re.MULTILINE | re.IGNORECASE,
)
"""In front of one: of the help of a program, of questions and advice, and of a ticket that is closed."""
_REPAIRED = re.compile(
    r"^(?:resolution|fixed by) *: *(?!un|none|pending|open)\w", re.MULTILINE | re.IGNORECASE
)
_ERROR_LINES = 4
OF_CONTAINER = r"nvidia-container-cli[^\n]{0,40} error: nvml error"
ERROR_LINE = rf"^[^\S\n]*({ERRORS})"
AT_PROMPT = re.compile(r"(?:\([\w.-]{1,64}\) )?[\w.-]{0,64}[@:~\]][^\n]{0,100}?[$#%>] |[$#%>] ")
END_OF_ERROR = re.compile(r"\n(?:\n|```)")


def parse_error(text: str) -> Facts | None:
    """Return the error that nvidia-smi printed, without the prompt and what a session printed before it."""
    found = re.search(rf"{ERROR_LINE}|{OF_CONTAINER}", text, re.MULTILINE | re.IGNORECASE)
    paragraph = END_OF_ERROR.split(text[found.start() :], maxsplit=1)[0] if found else text
    behind = dropwhile(AT_PROMPT.match, paragraph.split("\n"))
    lines = [*takewhile(lambda line: not AT_PROMPT.match(line), behind)][:_ERROR_LINES]
    codes = {error["code"] for error in map(parse_smi_error, lines) if error} - {"gpu-lost"}
    is_of_host = len(text) <= _LONGEST_ERROR and len(codes) < 2 and not _is_about_errors(text)
    excuse = parse_smi_error("\n".join(lines)) if is_of_host else None
    return None if excuse is None else {"driver": excuse, "gpus": excuse}


def _is_about_errors(text: str) -> bool:
    before = re.split(ERRORS, text, maxsplit=1)[0]
    return bool(_ABOUT_ERRORS.search(before) or _REPAIRED.search(text))


def note_facts(text: str) -> Facts | None:
    """Return the error in a short note; a text with several, or with one behind words, is about errors."""
    lines = [line for line in text.split("\n") if line.strip()]
    is_of_host = len(text) <= _LONGEST_NOTE and not _is_about_errors(text)
    is_one = is_of_host and len(set(re.findall(ERRORS, text))) == 1
    for before, words in _NOTED.findall(text) if is_one else ():
        is_of_all = len(lines) > 1 and all(line.startswith(before) for line in lines)
        excuse = parse_smi_error(words) if is_of_all or _TAG.fullmatch(before) else None
        if excuse:
            return {"driver": excuse, "gpus": excuse}
    return None
