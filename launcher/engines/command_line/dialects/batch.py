"""Batch files of Windows as a POSIX shell writes them. Pure.

A condition is one that the text does not decide; what a variable loses (`%NAME:~0,4%`) has no value.
"""

from preflight import regex as re

_IS_ONE = re.compile(
    r"^[ \t]*(?:@echo[ \t]+off|@?setlocal\b|@?rem[ \t]|::[ \t]*\w|@?pause[ \t]*$|@?call[ \t]+\S"
    r"|@?set[ \t]+\"\w+=)",
    re.MULTILINE | re.IGNORECASE,
)
_NAMED = re.compile(r"^[ \t]*@?set[ \t]+\"?(\w+)=", re.MULTILINE | re.IGNORECASE)
_READ = re.compile(r"%([A-Za-z_]\w*)%")
_NOTHING = re.compile(
    r"[ \t]*(?:@?(?:rem|setlocal|endlocal|pause|title|cls|color|chcp|echo|timeout|set[ \t]+/[ap])\b"
    r"|@?echo\.|:).*",
    re.IGNORECASE,
)
_SET = re.compile(r"[ \t]*@?set[ \t]+(?:\"(?P<quoted>\w+=[^\"]*)\"|(?P<plain>\w+=.*))[ \t]*", re.IGNORECASE)
_ACTIVATE = re.compile(
    r"^(?:\.[\\/])?(?P<path>\S*?)[\\/]Scripts[\\/]activate(?:\.bat)?[ \t]*$", re.IGNORECASE
)
_IF = re.compile(r"[ \t]*if[ \t].*\([ \t]*", re.IGNORECASE)
_ELSE = re.compile(r"[ \t]*\)[ \t]*else(?:[ \t]+if[ \t].*|[ \t]*)\([ \t]*", re.IGNORECASE)
_SIDE = r"(?:\"[^\"\n]*\"|[^\s=\"]+)"
_IF_ONE = re.compile(
    r"[ \t]*@?if[ \t]+(?:/i[ \t]+)?(?:not[ \t]+)?"
    rf"(?:(?:exist|defined|errorlevel)[ \t]+{_SIDE}"
    rf"|{_SIDE}(?:[ \t]*==[ \t]*|[ \t]+(?:equ|neq|lss|leq|gtr|geq)[ \t]+){_SIDE})[ \t]+(?P<command>\S.*)",
    re.IGNORECASE,
)
_MOST_CONDITIONS = 8
_OTHER_IF = re.compile(r"[ \t]*@?if[ \t].*", re.IGNORECASE)
_EXIT = re.compile(r"[ \t]*(?:exit|goto)\b.*", re.IGNORECASE)
_COMMANDS = (
    (re.compile(r"^[ \t]*@(?=\w)"), ""),
    (re.compile(r"^[ \t]*call[ \t]+", re.IGNORECASE), ""),
    (re.compile(r"^[ \t]*start[ \t]+(?:\"[^\"]*\"[ \t]+)?(?:/\w+[ \t]+)*", re.IGNORECASE), ""),
    (re.compile(r"^[ \t]*cd[ \t]+/d[ \t]+", re.IGNORECASE), "cd "),
    (re.compile(r"\bpython\.exe\b", re.IGNORECASE), "python"),
    (re.compile(r"(?<![ \t])[ \t]*\^[ \t]*$"), r" \\"),
)
_PART = "part-of"
_VALUES = (
    (re.compile(r"%~dp0\\?"), "./"),
    (re.compile(r"%cd%", re.IGNORECASE), "$PWD"),
    (re.compile(r"%\*"), "$@"),
    (re.compile(r"%([1-9])"), r"$\1"),
    (re.compile(r"[%!](\w+):[^%!\n]{1,40}[%!]"), rf"$({_PART} \1)"),
    (re.compile(r"%([A-Za-z_]\w*)%"), r"${\1}"),
    (re.compile("%%"), "%"),
)
_UNDECIDED = "condition-of-cmd"


def of_batch(text: str) -> str:
    """Return a text as a POSIX shell writes it."""
    if text.startswith("#!") or not (_IS_ONE.search(text) or _reads_what_it_sets(text)):
        return text
    written = {name.upper(): name for name in reversed(_NAMED.findall(text))}
    text = _READ.sub(lambda found: f"%{written.get(found[1].upper(), found[1])}%", text)
    lines: list[str] = []
    is_continued = False
    for line in text.split("\n"):
        lines.append(_values(line) if is_continued else _line(line))
        is_continued = re.search(r"\^[ \t]*$", line) is not None
    return "\n".join(lines)


def _reads_what_it_sets(text: str) -> bool:
    """Whether a text has `set NAME=` and `%NAME%`, as only cmd.exe writes a variable."""
    named = {name.upper() for name in _NAMED.findall(text)}
    return bool(named) and not named.isdisjoint(name.upper() for name in _READ.findall(text))


def _line(line: str) -> str:
    if _NOTHING.fullmatch(line) or _EXIT.fullmatch(line):
        return ""
    if _ELSE.fullmatch(line):
        return "else"
    if line.strip() == ")":
        return "fi"
    if _IF.fullmatch(line):
        return f"if {_UNDECIDED}; then"
    if _OTHER_IF.fullmatch(line):
        return _in_condition(line)
    found = _SET.fullmatch(line)
    if found is not None:
        name, _, value = (found["quoted"] or found["plain"].rstrip()).partition("=")
        return _assigned(name, _values(value)) if value else f"unset {name}"
    line = _values(line)
    activated = _ACTIVATE.match(line)
    return f"source {activated['path']}/bin/activate" if activated is not None else line


def _in_condition(line: str) -> str:
    """Return the command of conditions on one line; "" for one that starts nothing, or is cut."""
    command = line
    for _ in range(_MOST_CONDITIONS):
        found = _IF_ONE.fullmatch(command)
        command = command if found is None else found["command"]
    command = "" if _OTHER_IF.fullmatch(command) else _line(command)
    return f"if {_UNDECIDED}; then {command}; fi" if command and not command.endswith("\\") else ""


def _assigned(name: str, value: str) -> str:
    """Return an assignment; one of which a part has no value is not handed on."""
    value = value.replace(";", ":") if name.upper().endswith("PATH") else value
    return f'{"" if _PART in value else "export "}{name}="{value}"'


def _values(line: str) -> str:
    for pattern, new in (*_VALUES, *_COMMANDS):
        line = pattern.sub(new, line)
    return line
