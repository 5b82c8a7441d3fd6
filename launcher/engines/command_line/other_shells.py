"""Assignments of PowerShell, csh and fish as a POSIX shell writes them. Pure.

Only forms that no script of a POSIX shell has are
taken: `$lr = 1`, `@ n = 2 * 2`, `set lr = 1`, `set -gx A 1`.
"""

import re

_TEXT = r"(?:'[^'\n]*'|\"[^\"\n]*\"|[^\s'\"=|&;()-][^\s|&;()]*)"
_END = r"(?=[ \t]*(?:$|;|#))"
_RULES = (
    (re.compile(r"\$env:(\w+)[ \t]*=[ \t]*"), r"export \1="),
    (
        # not within `[[ ... &&`, where it compares
        re.compile(rf"(?<![&|\[(\\]\n)^[ \t]*\$(\w+)[ \t]+=[ \t]+({_TEXT}){_END}", re.MULTILINE),
        r"\1=\2",
    ),
    (
        re.compile(
            rf"^[ \t]*@[ \t]+(\w+[ \t]*(?:[-+*/%]?=[^=;#\n][^;#\n]{{0,200}}|\+\+|--)){_END}", re.MULTILINE
        ),
        r"((\1))",
    ),
    (re.compile(rf"^[ \t]*set[ \t]+(\w+)[ \t]+=[ \t]+({_TEXT}){_END}", re.MULTILINE), r"\1=\2"),
)
_FISH = re.compile(
    r"^[ \t]*set[ \t]+(?P<flags>(?:-[gxUl]{1,3}[ \t]+|--(?:global|export|local|universal)[ \t]+){0,4})"
    rf"(?P<name>[A-Za-z_]\w*)[ \t]+(?:(?P<text>{_TEXT})|\((?P<command>[^()\n]+)\)){_END}",
    re.MULTILINE,
)


def with_posix_assignments(text: str) -> str:
    """Return a text with the assignments of other shells as a POSIX shell writes them."""
    for pattern, assignment in _RULES:
        text = pattern.sub(assignment, text)
    return _FISH.sub(_of_fish, text)


def _of_fish(found: re.Match[str]) -> str:
    """Return an assignment of fish; `set A B` alone is one of a POSIX shell's arguments."""
    flags, command = found["flags"].split(), found["command"]
    if not flags and command is None:
        return found[0]
    is_exported = any("x" in flag if not flag.startswith("--") else flag == "--export" for flag in flags)
    value = found["text"] if command is None else f"$({command})"
    return f"{'export ' if is_exported else ''}{found['name']}={value}"
