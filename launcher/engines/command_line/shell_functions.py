"""Functions of a shell in a text: what a call of one does to the launch. Pure, and nothing is run.

A function that launches something is put in the place of its call. One that only sets variables is too; of
any other that launches nothing, the variables that it sets have no value behind its call.
"""

import re
from itertools import islice

_FUNCTION = re.compile(
    r"^(?:function[ \t]+(?P<name>[\w-]+)[ \t]*(?:\(\))?|(?P<other>[\w-]+)[ \t]*\(\))\s*"
    r"\{[ \t]*\n(?P<body>.*?)^\}[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_CALL = r"^(?P<indent>[ \t]*){name}(?P<given>(?:[ \t](?:[^\n]*\\\n)*[^\n]*)?)$"
_SET = re.compile(
    r"(?:^|[;&|{]|\b(?:then|do|else))[ \t]*(?P<export>export[ \t]+)?(?P<name>[A-Za-z_]\w*)\+?=(?!=)",
    re.MULTILINE | re.ASCII,
)
_LOCAL = re.compile(r"\b(?:local|declare|typeset)[ \t]+(?:-\w+[ \t]+)*(?P<names>[^\n;]*)")
_NAME = re.compile(r"(?<![\w$.-])([A-Za-z_]\w*)(?==|[ \t]|$)", re.ASCII)
_OWN_CONTROL = re.compile(
    r"\b(?:return|shift|getopts|FUNCNAME)\b|\$#|\$\{[@*#0-9!]|<<|^[ \t]*\}", re.MULTILINE
)
"""Words whose meaning ends with the function."""

_ARGUMENT = re.compile(r'"\$[@*]"|\$[@*]|\$[1-9]')
_PLAIN_SET = re.compile(
    r"[ \t]*(?:(?:export|local|declare|readonly)[ \t]+)?[A-Za-z_]\w*=(?:\"[^\"`]*\"|'[^']*'|[^\s\"'`;&|()]*)"
    r"|[ \t]*(?:echo|printf|#)[^\n]*|[ \t]*",
    re.ASCII,
)
_WORD = re.compile(r"(?:[^\s\"'\\$`;&|<>()]|\"[^\"`\\]*\"|'[^']*'|\$[A-Za-z_{}\d]\w*\}?)+")
_MOST_CALLS = 20
_MOST_FUNCTIONS = 100


def without_functions(text: str, launch: re.Pattern[str]) -> str:
    """Return a text in which the calls of its functions say what they do; `launch` matches a launch.

    A function that launches something and that no line calls stays, and so does one that cannot be read.
    """
    for found in list(islice(_FUNCTION.finditer(text), _MOST_FUNCTIONS)):
        name, body = found["name"] or found["other"], found["body"]
        launches = launch.search(body) is not None
        rest = text.replace(found[0], "", 1)
        called = re.compile(_CALL.format(name=re.escape(name)), re.MULTILINE)
        calls = list(called.finditer(rest))
        can_replace = not _OWN_CONTROL.search(body) and len(calls) <= _MOST_CALLS
        if launches and not (can_replace and calls):
            continue
        if launches or (can_replace and all(map(_PLAIN_SET.fullmatch, body.split("\n")))):
            bodies = [_with_arguments(body, call["given"]) for call in calls]
            if launches and None in bodies:
                continue
        else:
            bodies = []
        unknown = _unknown(name, body)
        text = rest
        for number, call in reversed(list(enumerate(calls))):
            put = bodies[number] if bodies else None
            text = text[: call.start()] + (unknown if put is None else put) + text[call.end() :]
    return text


def _with_arguments(body: str, given: str) -> str | None:
    """Return the text of a function with the words of its call; None where these are not plain words."""
    words = _WORD.findall(given)
    if "".join(words) != "".join(given.split()) and _ARGUMENT.search(body):
        return None

    def word(found: re.Match[str]) -> str:
        if found[0][-1].isdigit():
            number = int(found[0][-1])
            return words[number - 1] if number <= len(words) else '""'
        return " ".join(words)

    if _LOCAL.search(body):
        body = re.sub(r"\blocal[ \t]+(?=[A-Za-z_]\w*=)", "", body)
    return _ARGUMENT.sub(word, body).rstrip("\n")


def _unknown(name: str, body: str) -> str:
    """Return assignments without a value for the variables that a function sets and that outlive it."""
    own = {one for found in _LOCAL.finditer(body) for one in _NAME.findall(found["names"])}
    lines = {
        found["name"]: f"{'export ' if found['export'] else ''}{found['name']}=$({name})"
        for found in _SET.finditer(body)
        if found["name"] not in own
    }
    return "\n".join(lines.values())
