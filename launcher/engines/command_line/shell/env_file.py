"""The variables of a file of `NAME=VALUE` lines, which `export $(cat .env | xargs)` reads too. Pure."""

from collections.abc import Iterator

from launcher.engines.command_line.shell.words import Word
from preflight import regex as re

_SETTING = re.compile(
    r"^[ \t]*(?:export[ \t]+)?(?P<name>[A-Za-z_]\w*)[ \t]*=[ \t]*"
    r"(?:\"(?P<double>[^\"\n]*)\"|'(?P<single>[^'\n]*)'|(?P<plain>(?:[^#\n]|(?<=\S)#)*))",
    re.ASCII | re.MULTILINE,
)
"""A line of a file of variables: `NAME=VALUE`, in quotes or plain."""

_VARIABLE = re.compile(r"\$(?:\w+|\{[^{}\n]*\})")
_MARKS = r"(?:\^|\\s\*|\[\[:space:\]\]\*|\[ \]\*| \*|#|\$|\||\(|\)|\\\||\.\*)+"
_FILTER = (
    rf"(?:e?grep(?:[ \t]+-E)?[ \t]+-E?vE?(?:[ \t]+-E)?[ \t]+[\"']?{_MARKS}[\"']?"
    rf"|sed(?:[ \t]+-[eEr])*[ \t]+[\"']?(?:s/{_MARKS}//g?|/{_MARKS}/d)[\"']?)"
)
"""What leaves out comments and empty lines alone."""

_JOIN = (
    r"(?:xargs(?:[ \t]+-(?:0|r|[dLn][ \t]*\S+))*|envsubst"
    r"|tr[ \t]+(?:-d[ \t]+)?[\"']\\[nr][\"'](?:[ \t]+[\"'](?: |\\0)[\"'])?)"
)
_PIPED_FILE = re.compile(
    rf"(?:\$\(|`)[ \t]*(?:(?:cat|{_FILTER})[ \t]+|(?:cat|{_FILTER}|{_JOIN})[ \t]*<[ \t]*)"
    rf"[\"']?(?P<file>[\w./~-]+)[\"']?(?:[ \t]*\|[ \t]*(?:{_FILTER}|{_JOIN}))*[ \t]*[)`]"
)


def read_settings(text: str) -> Iterator[tuple[str, Word]]:
    """Yield the variables of a file; a part that another variable gives has no value."""
    for found in _SETTING.finditer(text):
        value = found["double"] if found["double"] is not None else found["single"]
        value = found["plain"].strip() if value is None else value
        is_plain = found["single"] is None
        lacking = tuple(part[0] for part in _VARIABLE.finditer(value)) if is_plain else ()
        yield found["name"], Word(value, lacking)


def exported_file(word: Word) -> str | None:
    """Return the FILE of `export $(cat FILE | xargs)`, "" for what `$LINE` names, None for any other word."""
    if not word.text.startswith(word.unresolved[:1] or ("=",)):
        return None
    found = _PIPED_FILE.fullmatch(word.text)
    return found["file"] if found is not None else ""
