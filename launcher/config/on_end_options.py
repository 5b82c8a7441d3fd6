"""`on_end:` of a run config: the command that gets the outcome of a run."""

from launcher.config.value_remedies import as_list
from launcher.config.value_types import Custom, ListOf, Text
from launcher.config.via_options import check_command
from launcher.config.yaml_tree import YamlNode, is_typed
from preflight.frozen import dataclass

_EXPECTED = "a command as a list of words, such as [notify-run, --to, ana]"


@dataclass(frozen=True, slots=True)
class EndCommand:
    """Its words; `is_typed`: the user has typed them (--set), so they need no consent."""

    words: tuple[str, ...]
    is_typed: bool = False


def _read(item: YamlNode) -> EndCommand:
    parts = item.value if isinstance(item.value, tuple) else ()
    words = tuple(each.value for each in parts if isinstance(each.value, str))
    if len(words) != len(parts) or not words:
        raise ValueError(_EXPECTED + as_list(item.value))
    problem = check_command(words)
    if problem:
        raise ValueError(f"{_EXPECTED} ({problem})")
    return EndCommand(words, is_typed=is_typed(item.source))


END_COMMAND = Custom(_EXPECTED, _read, lambda: {**ListOf(Text()).schema(), "minItems": 1})
