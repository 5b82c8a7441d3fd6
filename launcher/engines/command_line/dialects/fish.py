"""Assignments, conditions and loops of fish as a POSIX shell writes them. Pure.

Taken are the forms that no script of a POSIX shell has (`set -gx A 1`), and in a text that has one of them,
or the blocks of fish, those that mean something else in it (`set A 1`).
"""

from itertools import chain

from launcher.engines.command_line.dialects.word_lists import VALUE, VALUE_END, with_blocks, with_lists
from preflight import regex as re

_FLAGS = r"(?:-[agxUl]{1,3}[ \t]+|--(?:global|export|local|universal|append)[ \t]+){0,4}"
_VALUE = rf"(?:{VALUE}|-[^\s|&;()]*)"
_SET = re.compile(
    rf"(?:^|(?<=;))[ \t]*set[ \t]+(?P<flags>{_FLAGS})(?P<name>[A-Za-z_]\w*)[ \t]+"
    rf"(?:(?P<text>{_VALUE}(?:[ \t]+{_VALUE}){{0,99}})|(?P<command>\$\([^()\n]+\))){VALUE_END}",
    re.MULTILINE,
)
_OWN = re.compile(
    r"\A\s*#![^\n]*\bfish\b|^[ \t]*set[ \t]+(?:-[gxUl]{1,3}[ \t]+[A-Za-z_]\w*[ \t]+\S|[A-Za-z_]\w*[ \t]+\()"
    r"|;[ \t]*(?:and|or)[ \t]+\S|^[ \t]*(?:if|while)[ \t]+(?:not[ \t]+)?set[ \t]+-q\b",
    re.MULTILINE,
)
_OF_OTHERS = re.compile(r"(?:^|;)[ \t]*(?:then|do|fi|done|endif)\b|^[ \t]*foreach\b", re.MULTILINE)
_END = re.compile(r"(?:^|;)[ \t]*end[ \t]*(?:;|$)", re.MULTILINE)
_OPENED = re.compile(r"(?P<kind>if|while|for|function|begin|switch)\b[ \t]*(?P<rest>.*)")
_ASKED = re.compile(r"\bset[ \t]+-q[ \t]+([A-Za-z_]\w*)")
_CLOSED = {"if": "fi", "while": "done", "for": "done", "function": "}", "begin": "}", "case": ";;\nesac"}
_CASE = re.compile(r"case[ \t]+(.+)")
_COUNT = re.compile(r"(?<=[ \t])\(count[ \t]+\$(\w+)\)")
_COMMAND = re.compile(r"(?<=[ \t=])(?<!then )\((?P<math>math[ \t]+)?(?P<command>[^()\n]+)\)")
_QUOTED = re.compile(r"(?<=[ \t])'[^'\n]*'")
_ARGUMENT = re.compile(r"\$argv\[(\d)\]")
_JOINED = ((re.compile(r"[;\n][ \t]*and[ \t]+"), " && "), (re.compile(r"[;\n][ \t]*or[ \t]+"), " || "))


def of_fish(text: str) -> str:
    """Return a text as a POSIX shell writes it; one that fish alone does not explain is returned as it is."""
    is_own = _OWN.search(text) is not None
    blocks = _blocks(text) if _END.search(text) and not _OF_OTHERS.search(text) else None
    if blocks is None and not is_own:
        return text
    for pattern, operator in _JOINED:
        text = pattern.sub(operator, text)
    text = _QUOTED.sub(lambda one: one[0].replace("\\\\", "\\"), text) if is_own else text
    text = _ARGUMENT.sub(r"$\1", _blocks(text) or text)
    text = _COUNT.sub(lambda one: "$#" if one[1] == "argv" else f"${{#{one[1]}[@]}}", text)
    text = re.sub(r"\$argv\b", '"$@"', text)
    text = _COMMAND.sub(lambda one: f"$(({one['command']}))" if one["math"] else f"$({one['command']})", text)
    return with_lists(text, _SET, _assignment)


def _assignment(found: re.Match[str]) -> tuple[str, bool]:
    """Return an assignment, and whether it is one of a list."""
    flags, command = found["flags"].split(), found["command"]
    is_exported = any("x" in flag if not flag.startswith("--") else flag == "--export" for flag in flags)
    is_added = any(flag in ("--append", "-a") for flag in flags)
    words = command or found["text"]
    is_list = command is None and (is_added or re.fullmatch(_VALUE, words) is None)
    value = f"({words})" if is_list else words
    return f"{'export ' if is_exported else ''}{found['name']}{'+' if is_added else ''}={value}", is_list


def _blocks(text: str) -> str | None:
    """Return a text with the blocks of a POSIX shell; None where they do not close as those of fish do."""
    lines = text.split("\n")
    starts = [_OPENED.match(line.strip()) and _END.search(line) for line in lines]
    parts = (line.split(";") if start else [line] for line, start in zip(lines, starts, strict=True))
    return with_blocks(chain.from_iterable(parts), _translated)


def _translated(line: str, open_: list[str]) -> str | None:
    opened, case = _OPENED.fullmatch(line), _CASE.fullmatch(line)
    if line == "end":
        return _CLOSED.get(open_.pop()) if open_ else None
    if case is not None and open_[-1:] in (["switch"], ["case"]):
        behind, open_[-1] = ";;\n" * (open_[-1] == "case"), "case"
        patterns = re.sub(r"[\"']", "", case[1]).split()
        return f"{behind}{'|'.join(patterns)})"
    if line == "else" or line.startswith("else if "):
        return "else" if line == "else" else f"elif {_condition(line[8:])}; then"
    if opened is None:
        return line
    kind, rest = opened["kind"], opened["rest"]
    open_.append(kind)
    if kind == "switch":
        return f"case {rest} in"
    if kind == "for":
        return f"for {rest}; do"
    if kind in ("function", "begin"):
        return f"{rest.split()[0]}() {{" if kind == "function" and rest else "{"
    return f"{kind} {_condition(rest)}; {'then' if kind == 'if' else 'do'}"


def _condition(text: str) -> str:
    for pattern, operator in _JOINED:
        text = pattern.sub(operator, text)
    text = re.sub(r"(?:^|(?<=&& )|(?<=\|\| ))not[ \t]+", "! ", text)
    return _ASKED.sub(r'[ -n "${\1:-}" ]', text)
