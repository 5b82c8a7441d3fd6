"""The commands of a text as a page, a terminal or a notebook shows them: without what is around. Pure.

Fences, backticks and prompts are left out, and what a terminal printed between prompts. Magics of a
notebook and assignments of PowerShell become what a POSIX shell calls the same.
"""

import re

_PROGRAMS = r"(?:torchrun|accelerate|deepspeed|python[\d.]*|mpirun|srun|composer|colossalai)"
_LAUNCH = rf"(?:[A-Za-z_]\w*=\S*[ \t]+)*{_PROGRAMS}"
_PROMPT = re.compile(
    r"^[ \t]*(?:\([\w.-]+\)[ \t]*)?(?:[\w.-]+@[\w.-]+:[^\s$#%]*[$#%][ \t]+|[$%>][ \t]+|>>>[ \t]+!?"
    r"|PS [^\s>]*>[ \t]+|[A-Z]:\\[^\s>]*>[ \t]*|![ \t]*)",
    re.MULTILINE,
)
_SHELL_PROMPT = re.compile(r"^[ \t]*(?:\([\w.-]+\)[ \t]*)?(?:[\w.-]+@[\w.-]+:[^\s$#%]*[$#%]|\$)[ \t]+")
_ROOT_PROMPT = re.compile(rf"\s*#[ \t]+(?={_LAUNCH}\b)")
_LAUNCH_LINE = re.compile(rf"^[ \t]*{_LAUNCH}\b", re.MULTILINE)
_FUNCTION = re.compile(
    r"^(?:function[ \t]+[\w-]+[ \t]*(?:\(\))?|[\w-]+[ \t]*\(\))\s*\{[ \t]*\n(?P<body>.*?)^\}[ \t]*$",
    re.MULTILINE | re.DOTALL,
)
_FENCE = re.compile(r"^[ \t]*(?:(?:```|~~~)[\w-]*|%%(?:bash|sh|shell|script\b.*))[ \t]*$", re.MULTILINE)
_CODE = re.compile(r"\s*`([^`]+)`\s*")
_CONTINUED = re.compile(r"(?:\\|[ \t][\^`])[ \t]*$")
_MAGICS = (
    (re.compile(r"^[ \t]*%cd[ \t]+", re.MULTILINE), "cd "),
    (re.compile(r"^[ \t]*%(?:set_)?env[ \t]+(\w+)[ \t]*[= \t][ \t]*(?=\S)", re.MULTILINE), r"export \1="),
    (re.compile(r"^[ \t]*%run[ \t]+(?=\S+\.py\b)", re.MULTILINE), "python "),
    (re.compile(r"^[ \t]*%(?:pip|conda|load_ext|matplotlib|autoreload)\b.*$", re.MULTILINE), ""),
    (re.compile(r"\$env:(\w+)[ \t]*=[ \t]*"), r"export \1="),
)
"""Magics of IPython, and the variables of PowerShell."""


def commands_text(text: str) -> str:
    """Return the commands of a text that was copied from a page, a terminal or a notebook.

    Functions of a script that launch nothing are left out: a launch that needs one lacks a value then.
    """
    code = _CODE.fullmatch(text)
    text = _FENCE.sub("", code[1] if code else text)
    text = _FUNCTION.sub(lambda found: found[0] if _LAUNCH_LINE.search(found["body"]) else "", text)
    root = _ROOT_PROMPT.match(text)
    if root is not None and _is_one_command(text[root.end() :]):
        text = text[root.end() :]
    for pattern, shell in _MAGICS:
        text = pattern.sub(shell, text)
    return _PROMPT.sub("", _typed_lines(text))


def _is_one_command(text: str) -> bool:
    """Whether every line continues the one above it, or is a comment."""
    above = ""
    for line in text.rstrip().split("\n"):
        if above and not _CONTINUED.search(above) and not line.lstrip().startswith("#"):
            return False
        above = line
    return True


def _typed_lines(text: str) -> str:
    """Return the lines that were typed, where prompts distinguish them from what the terminal printed."""
    lines = text.strip("\n").split("\n")
    if not _SHELL_PROMPT.match(lines[0]):
        return text
    typed: list[str] = []
    printed: list[str] = []
    is_open = False
    for line in lines:
        is_typed = is_open or _PROMPT.match(line) is not None
        (typed if is_typed else printed).append(line)
        is_open = is_typed and _CONTINUED.search(line) is not None
    is_one_command = not any(_LAUNCH_LINE.match(line) for line in printed)
    closes = "\n".join(typed).count('"') % 2 == 0 == "\n".join(typed).count("'") % 2
    return "\n".join(typed) if is_one_command and closes else text
