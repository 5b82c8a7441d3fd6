"""Assignments of lists in fish and csh, which name all words at once, as a POSIX shell writes them. Pure."""

import re
from collections.abc import Callable, Iterable

VALUE = r"(?:'[^'\n]*'|\"[^\"\n]*\"|`[^`\n]*`|[^\s'\"`=|&;()-][^\s|&;()]*)"
VALUE_END = r"(?=[ \t]*(?:$|;|#|&&|\|\|))"


def with_lists(
    text: str, pattern: re.Pattern[str], assignment: Callable[[re.Match[str]], tuple[str, bool]]
) -> str:
    """Return a text with the assignments that `pattern` finds as `assignment` writes them.

    It returns an assignment and whether it is one of a list: `$NAME` is then every word of it.
    """
    lists: list[str] = []

    def written(found: re.Match[str]) -> str:
        line, is_list = assignment(found)
        if is_list:
            lists.append(found["name"])
        return line

    text = pattern.sub(written, text)
    if not lists:
        return text
    names = "|".join(dict.fromkeys(lists))
    text = re.sub(
        rf"\$(?P<name>{names})\[(?P<at>\d{{1,3}})\]",
        lambda one: f"${{{one['name']}[{int(one['at']) - 1}]}}",
        text,
    )
    return re.sub(rf"(?P<open>\"?)\$(?P<name>{names})\b(?!\[)(?P<close>\"?)", _all_words, text)


def with_blocks(lines: Iterable[str], translated: Callable[[str, list[str]], str | None]) -> str | None:
    """Return lines as `translated` writes each; None where one has no form or a block stays open."""
    open_: list[str] = []
    written: list[str] = []
    for line in lines:
        one = translated(line.strip(), open_)
        if one is None:
            return None
        written.append(line if one == line.strip() else one)
    return None if open_ else "\n".join(written)


def _all_words(found: re.Match[str]) -> str:
    """Return every word of a list; a quote on one side alone is that of a longer text around it."""
    quote = "" if found["open"] != found["close"] else '"'
    return f"{found['open'] or quote}${{{found['name']}[@]}}{found['close'] or quote}"
