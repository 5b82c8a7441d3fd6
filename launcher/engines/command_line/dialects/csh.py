"""Assignments, conditions and loops of csh as a POSIX shell writes them. Pure."""

from launcher.engines.command_line.dialects.word_lists import VALUE, VALUE_END, with_blocks, with_lists
from preflight import regex as re

_CALCULATED = re.compile(
    r"^[ \t]*@[ \t]+(\w+[ \t]*(?:[-+*/%]?=[^=;#\n][^;#\n]{0,200}|\+\+|--))(?=[ \t]*(?:$|;|#))", re.MULTILINE
)
_SET = re.compile(
    rf"^[ \t]*set[ \t]+(?P<name>\w+)[ \t]+=[ \t]+(?:(?P<text>{VALUE})|\((?P<words>[^()\n]*)\)){VALUE_END}",
    re.MULTILINE,
)
_BLOCK = re.compile(r"^[ \t]*(?:endif|foreach[ \t]+\w+[ \t]*\(.*\))[ \t]*$", re.MULTILINE)
_IF = re.compile(r"(?P<head>if|else[ \t]+if)[ \t]*\((?P<condition>.*)\)[ \t]*then")
_IF_ONE = re.compile(r"if[ \t]*\((?P<condition>[^()]*)\)[ \t]*(?P<command>(?!then\b)\S.*)")
_FOR = re.compile(r"foreach[ \t]+(?P<name>\w+)[ \t]*\((?P<words>.*)\)")
_WHILE = re.compile(r"while[ \t]*\((?P<condition>.*)\)")
_IS_SET = re.compile(r"(?P<not>!?)[ \t]*\$\?(?P<name>\w+)(?:[ \t]*(?P<mark>==|!=)[ \t]*(?P<value>[01]))?")
_FILE = re.compile(r"(?P<not>!?)[ \t]*(?P<test>-[edfrwxz])[ \t]+(?P<file>\S+)")
_COMPARED = re.compile(r"(?P<left>[^\s=!<>]+)[ \t]*(?P<mark>==|!=|=~|!~|<=|>=|<|>)[ \t]*(?P<right>\S+)")
_UNDECIDED = "condition-of-csh"


def of_csh(text: str) -> str:
    """Return a text as a POSIX shell writes it."""
    if _BLOCK.search(text) or re.match(r"\s*#![^\n]*csh\b", text):
        text = with_blocks(text.split("\n"), _translated) or text
    return with_lists(_CALCULATED.sub(r"((\1))", text), _SET, _assignment)


def _assignment(found: re.Match[str]) -> tuple[str, bool]:
    words = found["words"]
    value = found["text"] if words is None else f"({words.strip()})"
    return f"{found['name']}={value}", words is not None


def _translated(line: str, open_: list[str]) -> str | None:
    if line in ("end", "endif"):
        return {"endif": "fi", "end": "done"}[line] if open_ and open_.pop() == line else None
    if line.startswith(("switch", "goto ")):
        return None
    if (found := _IF.fullmatch(line)) is not None:
        open_ += ["endif"] if found["head"] == "if" else []
        return f"{'if' if found['head'] == 'if' else 'elif'} {_condition(found['condition'])}; then"
    if (found := _IF_ONE.fullmatch(line)) is not None:
        return f"if {_condition(found['condition'])}; then {found['command']}; fi"
    if (found := _FOR.fullmatch(line)) is not None:
        open_.append("end")
        return f"for {found['name']} in {found['words'].strip()}; do"
    if (found := _WHILE.fullmatch(line)) is not None:
        open_.append("end")
        return f"while {_condition(found['condition'])}; do"
    return line


def _condition(text: str) -> str:
    parts = re.split(r"(&&|\|\|)", text)
    return " ".join(part if part in ("&&", "||") else _test(part.strip()) for part in parts)


def _test(text: str) -> str:
    """Return one comparison of a condition."""
    if (found := _IS_SET.fullmatch(text)) is not None:
        is_negated = (found["not"] == "!") != (
            found["value"] is not None and (found["mark"] == "==") != (found["value"] == "1")
        )
        return f'[ -{"z" if is_negated else "n"} "${{{found["name"]}:-}}" ]'
    text = text.replace("$#argv", "$#")
    if (found := _FILE.fullmatch(text)) is not None:
        return f"{'! ' if found['not'] else ''}[ {found['test']} {found['file']} ]"
    found = _COMPARED.fullmatch(text)
    if found is None:
        return _UNDECIDED
    left, mark, right = found["left"], found["mark"], found["right"]
    if mark in ("<", ">", "<=", ">="):
        return f"(( {left} {mark} {right} ))"
    return f"[[ {left} {'!=' if mark.startswith('!') else '=='} {right} ]]"
