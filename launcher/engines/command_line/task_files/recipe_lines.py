"""Lines of a recipe that change a shell of their own alone: make and just start one for each line. Pure."""

from launcher.engines.command_line.side_commands import say_left_out
from preflight import regex as re

_LOST = re.compile(
    r"(?<!\\\n)^(?P<indent>[ \t]+)[@+-]{0,3}[ \t]*"
    r"(?P<line>(?:(?:cd|pushd|export|unset|source|\.|conda[ \t]+activate)[ \t]+[^\n;&|#]*[^\n;&|#\\ \t]"
    r"|(?<=[\t@+-])[A-Za-z_]\w*=(?:[^\s;&|#\\\"'`$()]|\$+[\w{(]\w+[})]?|\"[^\"\n]*\"|'[^'\n]*')*))[ \t]*$",
    re.MULTILINE,
)
_WHY = "each line of a recipe has a shell of its own, and it has no effect on the next one"


def without_lost(body: str) -> str:
    """Return the lines of a recipe; those that no other line sees (`cd DIR` alone) are named."""
    return _LOST.sub(lambda one: one["indent"] + say_left_out(f"{one['line']}: {_WHY}"), body)
