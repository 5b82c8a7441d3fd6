"""What a script's parser says of its command line, and what was meant, in argparse's words. Pure."""

from collections.abc import Iterator, Sequence
from itertools import takewhile

from preflight import regex as re
from preflight.decide.script_args import find_nearest_option, find_nearest_word
from preflight.diagnosis.lines import Line

_SAID = re.compile(
    r"(?:(?:\berror|\bERROR|\bError|not used by the HfArgumentParser): |^ *(?=Unknown command line flag |flag --))(\S.{0,300})"
)
_UNKNOWN = re.compile(r"unrecognized arguments: (.{1,2000})")
_CHOICE = re.compile(
    r"argument (?:\S+/)?(\S{1,80}): invalid choice: '?([^'\s]{1,80})'? \((?:choose from|maybe you meant:?) (.{1,2000})\)"
)
_VALUE = re.compile(r"argument (?:\S+/)?(\S{1,80}): invalid (\w{1,40}) value: '(.{0,200})'$")
_PLACEHOLDER = re.compile(r"[{}<>$\[\]]|[A-Z]+_[A-Z_]+$")
_OPTION = re.compile(r"(?<![\w-])--?[A-Za-z][\w-]{0,80}")
_LONGEST_USAGE = 400


def describe_refusal(text: str) -> str:
    """Return what the parser says of the arguments, "" where it says no more than that it refuses them."""
    found = _SAID.search(text)
    return found[1].strip() if found else ""


def correct_argument(line: Line, lines: Sequence[Line]) -> str:
    """Return what to write for a refused option or value, by the usage above the line; "" where unknown."""
    choice, unknown = _CHOICE.search(line.text), _UNKNOWN.search(line.text)
    if choice:
        near = find_nearest_word(choice[2], re.findall(r"[\w.:/+-]+", choice[3]))
        return f"write {choice[1]} {near} instead of {choice[2]}" if near else ""
    if value := _VALUE.search(line.text):
        return _correct_value(*value.groups())
    if unknown is None:
        return ""
    known = _OPTION.findall("\n".join(_usage(line, lines)))
    meant = ((word, find_nearest_option(word, known)) for word in _OPTION.findall(unknown[1]))
    return next((f"write {near} instead of {word}" for word, near in meant if near), "")


def _correct_value(name: str, kind: str, value: str) -> str:
    if not value:
        return f"echo what the start script puts behind {name}: that variable or argument of the script ($1, ${{NAME}}) is empty"
    if _PLACEHOLDER.search(value):
        return f"write a value in place of {value}, which is a placeholder"
    return f"write {name} with a value that {kind}() takes, as {value} is none"


def _usage(line: Line, lines: Sequence[Line]) -> Iterator[str]:
    """Yield the lines of the parser's usage, the last first: they are right above its error."""
    first = max(0, line.order - _LONGEST_USAGE)
    own = (each for each in reversed(lines[first : line.order]) if each.rank == line.rank)
    for each in takewhile(lambda each: each.source == line.source, own):
        yield each.text
        if "usage: " in each.text:
            return
