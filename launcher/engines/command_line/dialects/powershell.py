"""Assignments and calls of PowerShell as a POSIX shell writes them. Pure.

Only forms that no script of a POSIX shell has are taken: `$lr = 1`, `$a = @("x", "y")` with `@a`,
`& python a.py`.
"""

from launcher.engines.command_line.dialects.powershell_blocks import is_one, with_blocks
from launcher.engines.command_line.dialects.word_lists import VALUE, VALUE_END
from preflight import regex as re

_ENVIRONMENT = re.compile(r"\$env:(\w+)[ \t]*=[ \t]*", re.IGNORECASE)
_ASSIGNED = re.compile(  # not within `[[ ... &&`, where it compares
    rf"(?<![&|\[(\\]\n)^[ \t]*(?:\[\w+\][ \t]*)?\$(\w+)[ \t]+=[ \t]+({VALUE}){VALUE_END}", re.MULTILINE
)
_LIST = re.compile(r"^[ \t]*\$(?P<name>\w+)[ \t]*=[ \t]*@\((?P<words>[^()]*)\)[ \t]*$", re.MULTILINE)
_PARAMETERS = re.compile(
    r"^[ \t]*param[ \t]*\((?P<given>(?:[^()]|\([^()]*\)){0,4000})\)", re.MULTILINE | re.IGNORECASE
)
_PARAMETER = re.compile(r"\$(?P<name>\w+)[ \t]*=[ \t]*(?P<value>\"[^\"\n]*\"|'[^'\n]*'|[\w./-]+)")
_OF_SCRIPT = re.compile(r"^[ \t]*\[CmdletBinding\([^()\n]*\)\][ \t]*$", re.MULTILINE | re.IGNORECASE)
_QUOTED = r"(?:\"[^\"\n]*\"|'[^'\n]*')"
_WORD = rf"(?:{_QUOTED}|\$\w+)"
_STARTED = re.compile(
    r"^[ \t]*(?:\$\w+[ \t]*=[ \t]*)?Start-Process[ \t]+(?:-FilePath[ \t]+)?(?P<program>[\w.\\/\"'-]+)"
    rf"[ \t]+-ArgumentList[ \t]+(?:@\()?(?P<words>{_QUOTED}(?:[ \t]*,[ \t]*{_QUOTED})*)\)?"
    r"(?:[ \t]+-(?:NoNewWindow|PassThru|Wait))*[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_COMMA = re.compile(rf",|{_QUOTED}")
_USED = re.compile(rf"{_QUOTED}|(?<=[ \t=])\$(?P<name>\w+)(?=[ \t]|$)", re.MULTILINE)
"""A variable, which is one word whatever it has."""

_FOR = re.compile(r"^[ \t]*for (\w+) in ", re.MULTILINE)
_SHELL = re.compile(r"(?:powershell|pwsh)(?:\.exe)?\Z", re.IGNORECASE)
_NEW_LIST = re.compile(
    r"(?:\[|New-Object[ \t]+['\"]?)System\.Collections\.(?:ArrayList|Generic\.List\[\w+\])"
    r"(?:\]::new\(\)|['\"]?)[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_ADDED = re.compile(
    r"^(?P<indent>[ \t]*)(?:\[void\][ \t]*|\$null[ \t]*=[ \t]*)?\$(?P<name>\w+)"
    r"\.Add(?:Range\((?:@\()?|\()(?P<words>[^()\n]*)\)?\)(?:[ \t]*\|[ \t]*Out-Null)?[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_APPENDED = re.compile(
    r"^(?P<indent>[ \t]*)\$(?P<name>\w+)[ \t]+\+=[ \t]+"
    rf"(?:@\()?(?P<words>{_WORD}(?:[ \t]*,[ \t]*{_WORD})*)\)?[ \t]*$",
    re.MULTILINE,
)
_BOOLEAN = re.compile(r"(?<=[ \t])\$(?:true|false)(?=[ \t]*$)", re.MULTILINE | re.IGNORECASE)
_CLOSE = re.compile(r"^([ \t]*\$\w+)=(?![=\s])", re.MULTILINE)
_JOINED = re.compile(
    rf"^(?P<head>[ \t]*\$\w+[ \t]+\+?=[ \t]+)(?P<terms>{_WORD}(?:[ \t]*\+[ \t]*{_WORD})+)[ \t]*$",
    re.MULTILINE,
)
_CALCULATED = re.compile(r"^[ \t]*(?:\[\w+\][ \t]*)?\$(\w+)[ \t]*\+?=[ \t]*[^=\s].*$", re.MULTILINE)
"""An assignment of what only PowerShell calculates."""

_SPLATTED = re.compile(r"(?<=[ \t])@(\w+)(?=[ \t]|$)", re.MULTILINE)
"""A table or a list that is not known, whose parts become arguments."""

_RANGE = re.compile(
    r"^[ \t]*\$(?P<name>\w+)[ \t]*=[ \t]*(?P<first>\d{1,6})\.\.(?P<last>\d{1,6})[ \t]*$", re.MULTILINE
)
_PROPERTY = re.compile(r"^[ \t]*\$\w+[ \t]*=[ \t]*\$\w+(?:\.\w+)+[ \t]*$", re.MULTILINE)
_OWN_FOLDER = re.compile(r"\$PSScriptRoot(?P<path>(?:[\\/][\w.-]+)*)", re.IGNORECASE)
_PYTHON = re.compile(r"^[ \t]*py(?:[ \t]+-3(?:\.\d+)?)?[ \t]+(?=-[mu]\b|[\w./\\]+\.py\b)", re.MULTILINE)
_ACTIVATED = re.compile(
    r"^[ \t]*(?:[.&][ \t]+)?(?P<path>[\w.\\/-]+)[\\/]Scripts[\\/]activate(?:\.ps1)?[ \t]*$",
    re.MULTILINE | re.IGNORECASE,
)
_COMMENT = re.compile(r"^[ \t]*#.*$|[ \t]#[^\"'\n]*$", re.MULTILINE)
_CALL = re.compile(r"^[ \t]*&[ \t]+(?=[\w.\"'$/\\])", re.MULTILINE)
_DOUBLED = re.compile(r"'((?:[^'\n\"]|'')*)'")
_COMMANDS = (
    (re.compile(r"^[ \t]*(?:Invoke-Expression|iex)[ \t]+(?=[\"'$])", re.MULTILINE | re.IGNORECASE), "eval "),
    (
        re.compile(
            r"^[ \t]*(?:Write-(?:Host|Output|Verbose|Information)|Read-Host|Start-Sleep|Pause)\b.*$",
            re.MULTILINE | re.IGNORECASE,
        ),
        "",
    ),
    (re.compile(r"^[ \t]*New-Item\b.*$", re.MULTILINE | re.IGNORECASE), "mkdir"),
    (
        re.compile(r"^[ \t]*Set-Location[ \t]+(?:-(?:Literal)?Path[ \t]+)?", re.MULTILINE | re.IGNORECASE),
        "cd ",
    ),
    (re.compile(r"(?<![ \t])[ \t]*\|[ \t]*Out-(?:Null|Host)\b", re.IGNORECASE), ""),
    (
        re.compile(r"\|[ \t]*Tee-Object\b(?:[ \t]+-\w+(?=[ \t]+-|$))*(?:[ \t]+-FilePath)?", re.IGNORECASE),
        "| tee",
    ),
)


def _once(found: re.Match[str]) -> str:
    """Return a text in single quotes, in which `''` is one, as a POSIX shell has it."""
    text = re.sub(r"([\\$`])", r"\\\1", found[1].replace("''", "'"))
    return f'"{text}"' if "''" in found[1] else found[0]


def _spaced(words: str) -> str:
    """Return a list with blanks between its words, where it has commas."""
    return " ".join(_COMMA.sub(lambda one: " " if one[0] == "," else one[0], words).split())


def _start(found: re.Match[str]) -> str:
    """Return what `Start-Process` starts: its list of arguments is one text, which blanks divide."""
    program = found["program"]
    words = re.findall(_QUOTED, found["words"])
    if _SHELL.search(program):
        return " ".join((_SHELL.sub("bash -c", program), words[-1]))  # behind `-Command`
    return " ".join((program, *(word[1:-1] for word in words)))


def _as_text(found: re.Match[str]) -> str:
    """Return texts and variables that are joined as one text: `"--rank=" + $rank`."""
    terms = re.findall(_WORD, found["terms"])
    if all(term.startswith("$") for term in terms):
        return found[0]  # numbers
    parts = (term if term.startswith("$") else term[1:-1] for term in terms)
    text = "".join(re.sub(r"\$(\w+)", r"${\1}", part) for part in parts)
    return f'{found["head"]}"{text}"'


def of_powershell(text: str) -> str:
    """Return a text as a POSIX shell writes it."""
    is_own = is_one(text)
    if is_own:
        text = _CLOSE.sub(r"\1 = ", with_blocks(_DOUBLED.sub(_once, text)))
    text = _STARTED.sub(_start, _OF_SCRIPT.sub("", text))
    text = _ADDED.sub(r"\g<indent>$\g<name> += \g<words>", _NEW_LIST.sub("@()", text))
    text = _JOINED.sub(_as_text, _PROPERTY.sub("", text))
    given = _PARAMETERS.search(text)
    if given is not None:
        values = (f"${one['name']} = {one['value']}" for one in _PARAMETER.finditer(given["given"]))
        text = f"{text[: given.start()]}{chr(10).join(values)}\n{text[given.end() :]}"
    text = _BOOLEAN.sub(lambda found: found[0][1:].capitalize(), text)
    text = _CALL.sub("", _ENVIRONMENT.sub(r"export \1=", text))
    lists: list[str] = []

    def written(found: re.Match[str], mark: str = "=") -> str:
        lists.append(found["name"])
        return f"{found['name']}{mark}({_spaced(_COMMENT.sub('', found['words']))})"

    text = _RANGE.sub(r"\g<name>=({\g<first>..\g<last>})", _LIST.sub(written, text))
    if lists:
        text = _APPENDED.sub(
            lambda one: one["indent"] + written(one, "+=") if one["name"] in lists else one[0], text
        )
    for name in dict.fromkeys(lists):
        text = re.sub(
            rf"(?:^|(?<=[ \t(]))[@$]{name}(?![\w.\[])(?![ \t]*[+=])",
            f'"${{{name}[@]}}"',
            text,
            flags=re.MULTILINE,
        )
        text = re.sub(rf"\${name}\[(\$?\w+)\]", rf"${{{name}[\1]}}", text)
    text = _OWN_FOLDER.sub(lambda found: f".{found['path'].replace(chr(92), '/')}", text)
    text = _PYTHON.sub("python ", text)
    text = _ACTIVATED.sub(
        lambda found: f"source {found['path'].replace(chr(92), '/').removeprefix('./')}/bin/activate", text
    )
    for pattern, command in _COMMANDS:
        text = pattern.sub(command, text)
    texts = {name for name, _ in _ASSIGNED.findall(text)} | set(_FOR.findall(text) if is_own else ())
    text = _ASSIGNED.sub(r"\1=\2", text)
    if is_own:
        text = _SPLATTED.sub(r"$\1", _CALCULATED.sub(r"unset \1", text))
    return _USED.sub(lambda one: f'"{one[0]}"' if one["name"] in texts else one[0], text)
