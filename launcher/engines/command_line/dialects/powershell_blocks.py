"""Conditions and loops of PowerShell as a POSIX shell writes them. Pure.

A condition that compares a variable with a value is read; any other is one that the text does not decide.
"""

import re
from collections.abc import Iterator

_IS_ONE = re.compile(
    r"\$env:|\bWrite-(?:Host|Output|Error)\b|\bTest-Path\b"
    r"|^[ \t]*(?:\[CmdletBinding\b|param[ \t]*\(|\$\w+[ \t]+=[ \t])",
    re.MULTILINE | re.IGNORECASE,
)
_IF = re.compile(r"[ \t]*(?P<other>\}?[ \t]*else)?if[ \t]*\((?P<condition>.*)\)[ \t]*\{[ \t]*", re.IGNORECASE)
_ELSE = re.compile(r"[ \t]*\}?[ \t]*else[ \t]*\{[ \t]*", re.IGNORECASE)
_NEXT = re.compile(r"[ \t]*(?:else(?:if)?|catch|finally)\b.*\{[ \t]*", re.IGNORECASE)
_EACH = re.compile(
    r"[ \t]*foreach[ \t]*\([ \t]*\$(?P<name>\w+)[ \t]+in[ \t]+(?P<words>.+)\)[ \t]*\{[ \t]*", re.IGNORECASE
)
_TRY = re.compile(r"[ \t]*try[ \t]*\{[ \t]*", re.IGNORECASE)
_HANDLED = re.compile(r"[ \t]*\}?[ \t]*(?:catch|finally)\b[^{}]*\{[ \t]*", re.IGNORECASE)
_OTHER_LOOP = re.compile(r"[ \t]*(?:for|while)[ \t]*\(.*\)[ \t]*\{[ \t]*", re.IGNORECASE)
_COMPARED = re.compile(
    r"[ \t]*\$(?P<name>\w+)[ \t]+-(?P<how>eq|ne|gt|ge|lt|le)[ \t]+"
    r"(?P<value>\d+|\"[^\"$`]*\"|'[^']*')[ \t]*",
    re.IGNORECASE,
)
_LIST = re.compile(r"[ \t]*(?:@\()?(?P<words>[\w.\"', \t/-]+?)\)?[ \t]*")
_RANGE = re.compile(r"[ \t]*(?P<first>\d{1,6})\.\.(?P<last>\d{1,6})[ \t]*")
_VARIABLE = re.compile(r"[ \t]*\$(?P<name>\w+)[ \t]*")
_UNDECIDED = "condition-of-powershell"


def with_blocks(text: str) -> str:
    """Return a text of PowerShell with its blocks as a POSIX shell writes them; any other as it is."""
    return "\n".join(_lines(text.split("\n"))) if "{" in text and _IS_ONE.search(text) else text


def _lines(lines: list[str]) -> Iterator[str]:
    open_blocks: list[str] = []  # what ends each
    for at, line in enumerate(lines):
        start = _start(line)
        if start is not None:
            is_other = start.startswith("el") or _HANDLED.fullmatch(line) is not None
            if not is_other:
                open_blocks.append("done" if start.endswith("do") else "fi")
            yield start if open_blocks or not is_other else line
        elif open_blocks and line.strip() == "}":
            following = next((after for after in lines[at + 1 : at + 4] if after.strip()), "")
            yield "" if open_blocks[-1] == "fi" and _NEXT.fullmatch(following) else open_blocks.pop()
        else:
            if open_blocks and line.rstrip().endswith("{"):
                open_blocks.append("}")
            yield line


def _start(line: str) -> str | None:
    """Return the line that starts a block, or its other branch; None for any other."""
    found = _IF.fullmatch(line)
    if found is not None:
        return f"{'elif' if found['other'] else 'if'} {_condition(found['condition'])}; then"
    if _ELSE.fullmatch(line):
        return "else"
    if _TRY.fullmatch(line):
        return "if true; then"
    if _HANDLED.fullmatch(line):
        return "elif false; then"
    each = _EACH.fullmatch(line)
    if each is not None:
        words = _words(each["words"])
        return f"for {each['name']} in {words}; do" if words else f"while {_UNDECIDED}; do"
    return f"while {_UNDECIDED}; do" if _OTHER_LOOP.fullmatch(line) else None


def _condition(text: str) -> str:
    found = _COMPARED.fullmatch(text)
    if found is None:
        return _UNDECIDED
    how, value = found["how"].lower(), found["value"]
    if not value.isdecimal():
        how = {"eq": "=", "ne": "!="}.get(how, "")
        return f'[ "${found["name"]}" {how} {value} ]' if how else _UNDECIDED
    return f'[ "${found["name"]}" -{how} {value} ]'


def _words(text: str) -> str:
    """Return the words of a loop; "" where the text does not have them."""
    counted, variable, listed = _RANGE.fullmatch(text), _VARIABLE.fullmatch(text), _LIST.fullmatch(text)
    if counted is not None:
        return f"{{{counted['first']}..{counted['last']}}}"
    if variable is not None:
        return f'"${{{variable["name"]}[@]}}"'
    return " ".join(listed["words"].replace(",", " ").split()) if listed is not None else ""
