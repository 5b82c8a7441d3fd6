"""The recipe of a Makefile as a shell would get it. Pure."""

import re

TARGET = re.compile(r"^[\w./%-]+[ \t]*:(?![=:])[^=\n]*\n(?=(?:[ \t]*(?:#[^\n]*)?\n)*\t)", re.MULTILINE)
_SPECIAL = re.compile(r"^\.[A-Z_]+[ \t]*:[^\n]*$", re.MULTILINE)
_VARIABLE = re.compile(
    r"^(?:export[ \t]+)?(?P<name>[A-Za-z_]\w*)[ \t]*(?P<mark>[:?+]{0,2}=)[ \t]*(?P<value>[^\n]*?)[ \t]*$",
    re.MULTILINE | re.ASCII,
)
_SILENT = re.compile(r"^\t[@-]{1,2}[ \t]*", re.MULTILINE)
_NAME = re.compile(r"(?<!\$)\$[({](?P<name>[A-Za-z_]\w*)[)}]", re.ASCII)


def recipe(text: str) -> str:
    """Return the commands of a text with a target, variables as a shell has them; any other text as it is."""
    if not TARGET.search(text):
        return text
    text = _SILENT.sub("\t", TARGET.sub("", _SPECIAL.sub("", text)))
    text = _VARIABLE.sub(_assignment, text)
    return _NAME.sub(r"${\g<name>}", text).replace("$$", "$")


def _assignment(found: re.Match[str]) -> str:
    value = found["value"].split(" #")[0].rstrip()
    if found["mark"] == "=" and found[0].startswith(f"{found['name']}={value}") and " " not in value:
        return found[0]
    name = found["name"]
    quoted = '"' + value.replace('"', r"\"") + '"'
    if found["mark"] == "?=":
        return f"{name}={quoted}" if '"' in value else f'{name}="${{{name}:-{value}}}"'
    return f'{name}="${name} {value}"' if found["mark"] == "+=" else f"{name}={quoted}"
