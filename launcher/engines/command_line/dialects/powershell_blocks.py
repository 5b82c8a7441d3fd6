"""Conditions and loops of PowerShell as a POSIX shell writes them. Pure.

A condition that compares a variable with a value is read; any other is one that the text does not decide.
"""

from collections.abc import Iterator

from preflight import regex as re

_IS_ONE = re.compile(
    r"\$env:|\bWrite-(?:Host|Output|Error)\b|\bTest-Path\b"
    r"|^[ \t]*(?:\[CmdletBinding\b|param[ \t]*\(|\$\w+[ \t]+=[ \t]|foreach[ \t]*\([ \t]*\$)",
    re.MULTILINE | re.IGNORECASE,
)
_HEAD = (
    r"(?P<head>[ \t]*(?:\}[ \t]*)?"
    r"(?:(?P<word>(?:else[ \t]*)?if|foreach|for|while|switch)[ \t]*\((?P<inside>[^\n]*?)\)"
    r"|(?P<other>else|try|catch\b[^{}\n]*|finally)|(?P<label>\"[^\"{}\n]*\"|'[^'{}\n]*'|\d+|default)))[ \t]*"
)
"""What is in front of the brace of a block; a label is one of `switch`."""

_BRACE_BELOW = re.compile(rf"^{_HEAD}\n[ \t]*\{{[ \t]*$", re.MULTILINE | re.IGNORECASE)
_IN_LINE = re.compile(
    rf"^{_HEAD}\{{(?P<body>(?:[^{{}}\n]|\$\{{\w+\}})*)\}}[ \t]*", re.MULTILINE | re.IGNORECASE
)
_START = re.compile(rf"{_HEAD}\{{[ \t]*", re.IGNORECASE)
_BETWEEN = re.compile(r";|\"[^\"]*\"|'[^']*'")
_MOST_BLOCKS = 100
_EACH = re.compile(r"[ \t]*\$(?P<name>\w+)[ \t]+in[ \t]+(?P<words>.+)", re.IGNORECASE)
_COUNTED = re.compile(
    r"[ \t]*\$(?P<name>\w+)[ \t]*=[ \t]*(?P<first>\d{1,6})[ \t]*;[ \t]*\$(?P=name)[ \t]+-(?P<how>lt|le)[ \t]+"
    r"(?P<last>\$?\w+)[ \t]*;[ \t]*\$(?P=name)\+\+[ \t]*",
    re.IGNORECASE,
)
_COMPARED = re.compile(
    r"[ \t]*\$(?P<name>\w+)[ \t]+-(?P<how>eq|ne|gt|ge|lt|le)[ \t]+"
    r"(?P<value>\d+|\"[^\"$`]*\"|'[^']*'|\$?(?:true|false))[ \t]*",
    re.IGNORECASE,
)
_IS_TRUE = re.compile(r"[ \t]*(?P<not>!|-not\b)?[ \t]*\$(?P<name>\w+)[ \t]*", re.IGNORECASE)
_QUOTED_FALSE = re.compile(r"=[ \t]*[\"'](?:0|False)[\"']", re.IGNORECASE)
_ASKED = re.compile(r"(?<=\bif)([ \t]*\([^()\n]*\$\w+[ \t]*)\)", re.IGNORECASE)
_FALSE = ('""', "0", "False")
_LIST = re.compile(r"[ \t]*(?:@\()?(?P<words>[\w.\"', \t/-]+?)\)?[ \t]*")
_RANGE = re.compile(r"[ \t]*(?P<first>\d{1,6})\.\.(?P<last>\d{1,6})[ \t]*")
_VARIABLE = re.compile(r"[ \t]*\$(?P<name>\w+)[ \t]*")
_UNDECIDED = "condition-of-powershell"
_ENDS = {"if": "fi", "try": "fi", "switch": "esac", "label": ";;"}
"""What ends a block of a POSIX shell; `done` ends a loop."""


def with_blocks(text: str) -> str:
    """Return a text of PowerShell with its blocks as a POSIX shell writes them."""
    if _QUOTED_FALSE.search(text):  # a text, which is true
        text = _ASKED.sub(r"\1 -is known)", text)
    return "\n".join(_lines(_laid_out(text).split("\n")))


def is_one(text: str) -> bool:
    """Whether a text has what only PowerShell writes."""
    return _IS_ONE.search(text) is not None


def _laid_out(text: str) -> str:
    """Return a text whose braces are at the ends of the lines that they are of: `if (...) { a }` is three."""
    text = _BRACE_BELOW.sub(r"\g<head> {", text)
    for _ in range(_MOST_BLOCKS):  # of a line
        laid_out = _IN_LINE.sub(lambda one: f"{one['head']} {{\n{_statements(one['body'])}\n}}\n", text)
        if laid_out == text:
            break
        text = laid_out
    return text


def _statements(body: str) -> str:
    """Return the statements of a line, each on its own."""
    return _BETWEEN.sub(lambda one: "\n" if one[0] == ";" else one[0], body)


def _lines(lines: list[str]) -> Iterator[str]:
    open_blocks: list[str] = []  # what ends each
    for at, line in enumerate(lines):
        kind, inside = _start(line)
        is_other = kind.startswith(("else", "catch", "finally"))
        if kind and (open_blocks or not is_other) and (kind != "label" or open_blocks[-1:] == ["esac"]):
            if not is_other:
                open_blocks.append(_ENDS.get(kind, "done"))
            yield _written(kind, inside)
        elif open_blocks and line.strip() == "}":
            following = next((after for after in lines[at + 1 : at + 4] if after.strip()), "")
            goes_on = _start(following)[0].startswith(("else", "catch", "finally"))
            yield "" if open_blocks[-1] == "fi" and goes_on else open_blocks.pop()
        else:
            if open_blocks and line.rstrip().endswith("{"):
                open_blocks.append("}")
            yield line


def _start(line: str) -> tuple[str, str]:
    """Return which kind of block a line starts, "" for none, and what is in its parentheses or quotes."""
    found = _START.fullmatch(line)
    if found is None:
        return "", ""
    kind = (found["word"] or found["other"] or "label").lower()
    return "".join(kind.split()) if found["word"] else kind, found["inside"] or found["label"] or ""


def _written(kind: str, inside: str) -> str:
    """Return the line that starts a block of a kind, or its other branch, in a POSIX shell."""
    if kind in ("if", "elseif"):
        return f"{kind.replace('else', 'el')} {_condition(inside)}; then"
    if kind in ("try", "else"):
        return "if true; then" if kind == "try" else "else"
    if kind == "label":
        return f"{inside.lower()})".replace("default)", "*)")
    if kind == "switch":
        name = _VARIABLE.fullmatch(inside)
        return f'case "${{{name["name"]},,}}" in' if name is not None else f'case "$({_UNDECIDED})" in'
    each, counted = _EACH.fullmatch(inside), _COUNTED.fullmatch(inside)
    if kind == "foreach" and each is not None and (words := _words(each["words"])):
        return f"for {each['name']} in {words}; do"
    if kind == "for" and counted is not None:
        one, mark = counted["name"], "<" if counted["how"].lower() == "lt" else "<="
        return f"for (({one}={counted['first']}; {one}{mark}{counted['last']}; {one}++)); do"
    return f"while {_UNDECIDED}; do" if kind in ("for", "foreach", "while") else "elif false; then"


def _condition(text: str) -> str:
    found, asked = _COMPARED.fullmatch(text), _IS_TRUE.fullmatch(text)
    if asked is not None:
        same, joined = (" == ", " || ") if asked["not"] else (" != ", " && ")
        value = f'"${asked["name"]}"'
        return f"[[ {joined.join(value + same + none for none in _FALSE)} ]]"
    if found is None:
        return _UNDECIDED
    how, value = found["how"].lower(), found["value"]
    if not value.isdecimal():
        how = {"eq": "=", "ne": "!="}.get(how, "")
        return f'[ "${{{found["name"]},,}}" {how} {value.lower().lstrip("$")} ]' if how else _UNDECIDED
    return f'[ "${found["name"]}" -{how} {value} ]'


def _words(text: str) -> str:
    """Return the words of a loop; "" where the text does not have them."""
    counted, variable, listed = _RANGE.fullmatch(text), _VARIABLE.fullmatch(text), _LIST.fullmatch(text)
    if counted is not None:
        return f"{{{counted['first']}..{counted['last']}}}"
    if variable is not None:
        return f'"${{{variable["name"]}[@]}}"'
    return " ".join(listed["words"].replace(",", " ").split()) if listed is not None else ""
