"""A script's own arguments: what an option is given; precision switches that agree with the launch. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from preflight.facts.script import Option, ScriptAnalysis
from preflight.frozen import dataclass
from preflight.job import PRECISIONS, Job, Precision

_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})
_CLOSE = 0.75  # how alike a misspelt word is to the right one, by difflib


@dataclass(frozen=True, slots=True)
class ArgsEdit:
    """The script's arguments after the edit; `edits` are (old, new, why) with "" for added or dropped."""

    args: tuple[str, ...]
    edits: tuple[tuple[str, str, str], ...]


def read_option_values(args: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield each word with what it is given, were it an option: what follows its `=`, else the next word."""
    for word, following in pairwise((*args, "")):
        name, equals, value = word.partition("=")
        yield name, value if equals else following


def find_nearest_option(name: str, options: Sequence[str]) -> str:
    """Return the option that is spelled most like a name, whatever its dashes and case, "" where none is."""
    plain = {_plain(option): option for option in reversed(options)}
    long = [word for word in plain if len(word) > 1]
    return plain.get(_plain(name)) or plain.get(find_nearest_word(_plain(name), long), "")


def find_nearest_word(word: str, words: Sequence[str]) -> str:
    """Return the one of `words` that a word is a misspelling of, "" where none is."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for a mistake

    return next(iter(get_close_matches(word, words, n=1, cutoff=_CLOSE)), "")


def _plain(option: str) -> str:
    return option.lstrip("-").replace("_", "-").lower()


def get_option(args: tuple[str, ...], option: str) -> int | None:
    """Return the number that an option has in a command line, None when it is absent or no number."""
    given = (value for name, value in read_option_values(args) if name == option)
    return next((int(value) for value in given if value.isascii() and value.isdecimal()), None)


@dataclass(frozen=True, slots=True)
class _Switch:
    """Words in `args[start:end]` that set the precision of the script."""

    start: int
    end: int
    precision: str


def find_precision_in_args(job: Job, script: ScriptAnalysis | None) -> Precision | None:
    """Return the precision that the user's own script arguments ask for, None when none or several."""
    found = {switch.precision for switch in _switches(job.args, job.precision_args, script)}
    return next((item for item in PRECISIONS if {item} == found), None)


def align_args(job: Job, chosen: Precision, script: ScriptAnalysis | None) -> ArgsEdit:
    """Return the script arguments with contrary precision switches dropped and the right ones in place.

    Switches are those of the run config's `precision_args` and the argparse options that reading the script
    found to be one. A switch that the script does not have is never added.
    """
    args = list(job.args)
    switches = sorted(_switches(job.args, job.precision_args, script), key=lambda item: item.start)
    contrary = [switch for switch in switches if switch.precision != chosen]
    for switch in reversed(contrary):
        del args[switch.start : switch.end]
    old = tuple(word for switch in contrary for word in job.args[switch.start : switch.end])
    new: tuple[str, ...] = ()
    if len(contrary) == len(switches):  # nothing left that says the right thing
        new = _wanted(job.precision_args, chosen, script) or _respelled(old, chosen, script)
    if not old and not new:
        return ArgsEdit(job.args, ())
    why = f"the launch's mixed precision is {chosen}, and the script must use the same"
    return ArgsEdit((*args, *new), ((" ".join(old), " ".join(new), why),))


def _respelled(old: tuple[str, ...], chosen: Precision, script: ScriptAnalysis | None) -> tuple[str, ...]:
    """Return a dropped `--mixed_precision bf16` with the right value, where the option takes it."""
    flags = {word.partition("=")[0] for word in old}
    for option in script.options if script else ():
        if option.flag in flags and not option.precision and (not option.choices or chosen in option.choices):
            return (option.flag, chosen)
    return ()


def _wanted(
    table: Mapping[str, tuple[str, ...]], chosen: Precision, script: ScriptAnalysis | None
) -> tuple[str, ...]:
    if table:
        return tuple(table.get(chosen, ()))
    if script is None:
        return ()
    fed = {site.option for site in script.precision if site.option}
    for option in script.options:
        # Only an option that was seen to feed the script's precision: `--fp16` may also mean half weights.
        if option.flag in fed and option.precision == chosen and not option.takes_value:
            return (option.flag,)
        if option.flag in fed and not option.precision and option.default not in ("", chosen):
            return (option.flag, chosen) if not option.choices or chosen in option.choices else ()
    return ()


def _switches(
    args: tuple[str, ...], table: Mapping[str, tuple[str, ...]], script: ScriptAnalysis | None
) -> Iterator[_Switch]:
    taken: set[int] = set()
    for precision, words in table.items():
        for spelled in (words, ("=".join(words),)) if len(words) == 2 else (words,):
            for start in _positions(args, spelled):
                span = set(range(start, start + len(spelled)))
                if not taken & span:
                    taken |= span
                    yield _Switch(start, start + len(spelled), precision)
    options = {option.flag: option for option in (script.options if script else ())}
    for start, word in enumerate(args):
        flag, equals, value = word.partition("=")
        option = options.get(flag)
        if option is None or start in taken:
            continue
        following = args[start + 1] if start + 1 < len(args) else ""
        switch = _read(option, start, value if equals else None, following)
        if switch is not None:
            yield switch


def _read(option: Option, start: int, value: str | None, following: str) -> _Switch | None:
    """Return what one given option says, None when it says nothing about precision."""
    end = start + 1
    takes_next = not option.precision or (option.takes_value and following.lower() in _TRUE | _FALSE)
    if value is None and takes_next:
        value, end = following, start + 2
    if not option.precision:
        return _Switch(start, end, value) if value in PRECISIONS else None
    if value is not None and value.lower() in _FALSE:
        return None  # switched off by hand: says what it is not
    return _Switch(start, end, option.precision)


def _positions(args: tuple[str, ...], words: tuple[str, ...]) -> Iterator[int]:
    if words:
        yield from (i for i in range(len(args)) if args[i : i + len(words)] == words)
