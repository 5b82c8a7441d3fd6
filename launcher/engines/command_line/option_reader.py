"""Read the options in front of a program as the launcher's own parser would. Pure.

argparse's rules are those of CPython's `argparse` (`_parse_optional`, `_get_option_tuples`): an exact
spelling first, then `--name=value`, then a prefix that only one option has; a word that looks like an option
is not a value.
"""

import posixpath
from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher, get_close_matches

from launcher.engines.command_line.options import OPTIONAL, LauncherOption, Table
from launcher.engines.command_line.parsed_command import OptionUse
from launcher.engines.command_line.shell.missing_values import clear_placeholders
from launcher.engines.command_line.shell.words import Word
from launcher.errors import CommandRefused
from preflight import regex as re
from preflight.frozen import dataclass

_SAME: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (
        ("nodes", "num_nodes", "n_nodes", "nnode", "nnodes", "num_machines", "machines"),
        ("--nnodes", "--num_machines", "--num_nodes", "--num-nodes"),
    ),
    (
        (
            *("gpus", "num_gpus", "n_gpus", "ngpus", "gpus_per_node", "devices"),
            *("nproc", "nprocs", "np", "nproc_per_node", "num_processes"),
        ),
        ("--nproc_per_node", "--num_processes", "--num_gpus", "--devices", "--nproc"),
    ),
    (("rank", "machine_rank", "node_rank"), ("--node_rank", "--machine_rank", "--node-rank")),
    (
        ("port", "master_port", "main_process_port", "main_port"),
        ("--master_port", "--main_process_port", "--main-port"),
    ),
    (
        ("master", "master_addr", "main_process_ip", "master_ip", "main_address"),
        ("--master_addr", "--main_process_ip", "--main-address"),
    ),
)
"""How launchers call one thing: what people write, and the options that some of them have."""

_NEGATIVE = re.compile(r"-\d+$|-\d*\.\d+$")
_CLOSE = 1.0
_LONGEST_OPTION = 100  # longer words are not typing errors, and their comparison takes quadratic time


@dataclass(frozen=True, slots=True)
class FoundOption:
    """One option in the line, and where it ends."""

    option: LauncherOption
    use: OptionUse
    words: tuple[Word, ...]  # its values, as typed


@dataclass(frozen=True, slots=True)
class OptionsResult:
    """The options in front of a program, and where the program starts."""

    found: tuple[FoundOption, ...]
    program: int  # index of the first word that is not an option; len(words) when there is none
    arguments: int  # index of the first word behind the program that the program gets


def read_options(words: Sequence[Word], start: int, table: Table) -> OptionsResult:
    """Read the options of `table` from `words[start:]`, up to the first word that is none.

    Raises CommandRefused for an option that the table does not know or refuses, and for a missing value.
    """
    found: list[FoundOption] = []
    known = table.spellings()
    at = start
    while at < len(words):
        word = words[at].text
        if word == "--":
            return OptionsResult(tuple(found), at + 1, at + 2)
        if not _is_option(word, table, known):
            break
        match = _find(word, table, known)
        one = _read_values(words, at, match, table, known)
        found.append(one)
        at += one.use.width
    behind = at + 1
    if table.style == "argparse" and behind < len(words) and words[behind].text == "--":
        behind += 1  # argparse takes the first `--` off, where it is next to the program too
    return OptionsResult(tuple(found), at, behind)


def read_interspersed(
    words: Sequence[Word], start: int, table: Table
) -> tuple[OptionsResult, tuple[int, ...]]:
    """Read options wherever they are, as click does with ignore_unknown_options.

    The second result has the indices of all other words: the program and its arguments.
    """
    found: list[FoundOption] = []
    others: list[int] = []
    known = table.spellings()
    at = start
    while at < len(words):
        word = words[at].text
        if word == "--":
            others.extend(range(at + 1, len(words)))
            break
        name, _, _ = word.partition("=")
        if name in known:
            match = _find(word, table, known)
            one = _read_values(words, at, match, table, known)
            found.append(one)
            at += one.use.width
        else:
            others.append(at)
            at += 1
    program = others[0] if others else len(words)
    if others and words[program].text.startswith("-"):
        raise _unknown(words[program].text.partition("=")[0], table, known)
    return OptionsResult(tuple(found), program, program + 1), tuple(others)


@dataclass(frozen=True, slots=True)
class _Match:
    option: LauncherOption
    spelling: str
    attached: str | None  # the value in the same word


def _is_option(word: str, table: Table, known: Mapping[str, LauncherOption]) -> bool:
    if not word.startswith("-") or word == "-":
        return False
    if word in known or word.partition("=")[0] in known:
        return True
    if " " not in word:
        return not _NEGATIVE.match(word)
    name = word.partition("=")[0]  # `--mast="a b"`, `-r"a b"`
    is_short = word[:2] in known
    return is_short or (table.abbreviations and any(spelling.startswith(name) for spelling in known))


def _find(word: str, table: Table, known: dict[str, LauncherOption]) -> _Match:
    if word in known:
        return _Match(known[word], word, None)
    name, equals, value = word.partition("=")
    if equals and name in known:
        return _Match(known[name], name, value)
    if table.abbreviations and word.startswith("--"):
        longer = {spelling: option for spelling, option in known.items() if spelling.startswith(name)}
        if len(set(longer.values())) == 1:
            return _Match(next(iter(longer.values())), name, value if equals else None)
        if longer:
            raise CommandRefused(
                f"{name} of {table.owner} can be {' or '.join(sorted({o.name for o in longer.values()}))}",
                "write the whole name",
            )
    if table.style == "getopt" and _are_flags(word, known):
        return _Match(known[word[:2]], word[:2], None)
    short = known.get(word[:2])
    if short is not None and not word.startswith("--") and short.values in (1, OPTIONAL):
        return _Match(short, word[:2], word[2:])
    raise _unknown(name, table, known)


def _are_flags(word: str, known: Mapping[str, LauncherOption]) -> bool:
    """Whether a word is several flags of one letter, as getopt takes them: `-lu`."""
    flags = [known.get(f"-{letter}") for letter in word[1:]]
    return len(flags) > 1 and all(flag is not None and flag.values == 0 for flag in flags)


def _unknown(name: str, table: Table, known: dict[str, LauncherOption]) -> CommandRefused:
    message = f"{table.owner} has no option {name}, so gpulaunch cannot say what it changes"
    if name in ("-h", "--help"):
        return CommandRefused(f"{name} asks {table.owner} for its help, and starts nothing", "leave it out")
    close = _nearest_meaning(name, known)
    if close:
        return CommandRefused(message, f"did you mean {close}? Options of the script go after the script")
    return CommandRefused(message, "options of the script go after the script; leave out others")


def _nearest_meaning(name: str, known: Mapping[str, LauncherOption]) -> str:
    """Return what an option of another launcher is called in this one, else the spelling most like it."""
    plain = name.strip("-").replace("-", "_")
    options = next((options for names, options in _SAME if plain in names), None)
    if options is None:
        return _nearest(name, known)
    return next((option for option in options if option in known), "")


def _nearest(name: str, known: Iterable[str]) -> str:
    """Return the spelling most like `name`, "" when none is; what starts alike is more alike."""
    if len(name) > _LONGEST_OPTION:
        return ""

    def likeness(other: str) -> float:
        return SequenceMatcher(None, name, other).ratio() + len(posixpath.commonprefix((name, other))) / len(
            name
        )

    nearest = max(known, key=likeness)
    return nearest if likeness(nearest) >= _CLOSE else ""


def _read_values(
    words: Sequence[Word], at: int, match: _Match, table: Table, known: Mapping[str, LauncherOption]
) -> FoundOption:
    option = match.option
    if option.fate == "refused":
        raise CommandRefused(f"{match.spelling} of {table.owner}: {option.why}", option.fix)
    values: tuple[Word, ...]
    if option.values in (0, OPTIONAL):
        if match.attached is not None and option.values == 0:
            raise CommandRefused(
                f"{match.spelling} of {table.owner} takes no value, and got {match.attached!r}",
                f"write {match.spelling} alone",
            )
        values = () if match.attached is None else (Word(match.attached, words[at].unresolved),)
    elif match.attached is not None:
        values = (Word(match.attached, words[at].unresolved), *words[at + 1 : at + option.values])
    else:
        values = tuple(words[at + 1 : at + 1 + option.values])
        _check_values(values, match, table, known)
    values = tuple(clear_placeholders(value, is_setting=True) for value in values)
    width = 1 + len(values) - (match.attached is not None)
    texts = tuple(value.text for value in values)
    _check_choice(values, match, table)
    use = OptionUse(option.name, match.spelling, texts, at, width, table.owner, option.why, option.sets)
    return FoundOption(option, use, values)


def _check_values(
    values: tuple[Word, ...], match: _Match, table: Table, known: Mapping[str, LauncherOption]
) -> None:
    after = f"and has {values[0].text!r} after it" if values else "and the line ends after it"
    is_taken = table.style == "argparse" and any(_is_option(value.text, table, known) for value in values)
    if len(values) < match.option.values or is_taken:
        raise CommandRefused(
            f"{match.spelling} of {table.owner} needs a value, {after}",
            f"write {match.spelling} VALUE, or leave it out",
        )


def _check_choice(values: tuple[Word, ...], match: _Match, table: Table) -> None:
    choices = match.option.choices
    for value in values:
        if choices and value.is_known and value.text not in choices:
            close = get_close_matches(value.text, choices, n=1)
            raise CommandRefused(
                f"{match.spelling} of {table.owner} is {value.text!r}; it takes {', '.join(choices)}",
                f"write {match.spelling} {close[0] if close else choices[0]}",
            )
