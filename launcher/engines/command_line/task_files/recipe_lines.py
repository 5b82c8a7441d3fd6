"""Lines of a recipe, for each of which make and just start a shell of its own. Pure."""

from collections.abc import Iterator, Sequence

from launcher.engines.command_line.side_commands import say_left_out
from preflight import regex as re

_LOST = re.compile(
    r"(?<!\\\n)^(?P<indent>[ \t]+)[@+-]{0,3}[ \t]*"
    r"(?P<line>(?:(?:cd|pushd|export|unset|source|\.|conda[ \t]+activate)[ \t]+[^\n;&|#]*[^\n;&|#\\ \t]"
    r"|(?<=[\t@+-])[A-Za-z_]\w*=(?:[^\s;&|#\\\"'`$()]|\$+[\w{(]\w+[})]?|\"[^\"\n]*\"|'[^'\n]*')*))[ \t]*$",
    re.MULTILINE,
)
_WHY = "each line of a recipe has a shell of its own, and it has no effect on the next one"


def drop_lost(body: str) -> str:
    """Return the lines of a recipe; those that no other line sees (`cd DIR` alone) are named."""
    return _LOST.sub(lambda one: one["indent"] + say_left_out(f"{one['line']}: {_WHY}"), body)


_SILENT = re.compile(r"[@+\-\s]*")
_FAILING = re.compile(r"\b(?:false|exit|test)\b|\[")
_OF_SHELL = re.compile(
    r"(?:^|[;&|({][ \t]*|\b(?:then|do|else)[ \t]+)"
    r"(?:(?:cd|pushd|export|unset|source|\.|set|exit|exec)\b|[A-Za-z_]\w*=\S*[ \t]*(?:$|;|&&))",
    re.MULTILINE,
)
"""What a line leaves behind in its shell, which is not that of the next line."""


def get_marks(line: str) -> str:
    """Return the signs in front of a command that make and just take themselves: `@`, `-`."""
    found = _SILENT.match(line)
    return "" if found is None else found[0]


def join_continued(text: str) -> Iterator[str]:
    """Yield lines together with those that they continue with."""
    line = ""
    for one in text.split("\n"):
        line = f"{line}\n{one}" if line else one
        if not line.endswith("\\"):
            yield line
            line = ""
    if line:
        yield line


def split_lines(commands: Sequence[tuple[str, bool]]) -> Iterator[str]:
    """Yield the lines of a recipe, each in a shell of its own, of which one that fails ends the recipe."""
    for at, (line, is_ignored) in enumerate(commands, 1):
        kept = drop_lost(f"\t{line}")[1:]
        is_last = at == len(commands)
        yield f"(\n{kept}\n)" if kept == line and not is_last and _OF_SHELL.search(line) else kept
        if kept == line and not is_last and not is_ignored and _FAILING.search(line):
            yield "[ $? -eq 0 ] || exit 1"
