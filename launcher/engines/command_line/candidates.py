"""The commands of a text that could be its launch, and which of them is. Pure.

What installs, downloads or asks settings is none. Of several, the text of one launch has the others for other
nodes or repeats it; else the number that the user gives (`--launch 2`) chooses one.
"""

import posixpath
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise, takewhile

from launcher.engines.command_line import manual_starts, remedies, side_commands
from launcher.engines.command_line.parsed_command import Environment, MissingValue
from launcher.engines.command_line.shell.missing_values import clear_placeholders
from launcher.engines.command_line.shell.variables import Value
from launcher.engines.command_line.shell.words import Word, is_assignment
from launcher.engines.command_line.tables import side_programs, wrappers
from launcher.engines.command_line.tables.mpirun_srun import PREFIXES
from launcher.errors import CommandRefused
from preflight import regex as re
from preflight.checks.message_text import shorten
from preflight.frozen import dataclass

_NODE_RANKS = ("--node_rank", "--node-rank", "--machine_rank", "--machine-rank", "NODE_RANK")
_STEP_NODES = ("-w", "--nodelist", "-r", "--relative")
_OF_SEVERAL_NODES = re.compile(
    r"--(?:nnodes|num[_-](?:machines|nodes))[ =](?!1\b)|--(?:node|machine)[_-]rank\b"
)
_RANK_INSIDE = re.compile(r"(?<= )--(?:node|machine)[_-]rank[= ]\S+")
_OF_NODE = re.compile(r"RANK$|_ADDR$|_IP$|_ID$|(?:^|_)(?:HOST(?:NAME)?|NODE)$|_PORT$")
"""Variables that say which node a launch is for, in place of which the plan counts."""

_CARDS, _COUNT = "CUDA_VISIBLE_DEVICES", "NPROC_PER_NODE"
_COUNTS = ("--nproc_per_node", "--nproc-per-node", "--num_processes", "--num-processes")
_LISTED = 6
_LONGEST = 73
SUBMITS = "gpulaunch starts what the script starts, and gpulaunch submit hands it to Slurm"
_BESIDE = "it runs beside the launch: start it on each host yourself, where the training needs it"
_NO_LAUNCH = (
    "none is a launcher, Python or a script: paste the command that trains"
    " (--launch N starts the Nth of these as it is)"
)


@dataclass(frozen=True, slots=True)
class ShellLine:
    """The one command of a text, and what prepares it."""

    words: tuple[Word, ...]
    directory: str = ""
    exports: tuple[tuple[str, Word], ...] = ()
    unset: tuple[str, ...] = ()
    environment: Environment | None = None
    dropped: tuple[str, ...] = ()
    unknown: tuple[MissingValue, ...] = ()
    exported: Mapping[str, Value] = field(default_factory=dict)  # what a shell inside of it sees
    functions: Mapping[str, str] = field(default_factory=dict)  # of those too
    commands: int = 1  # of the text, which `--launch` chooses from


@dataclass(frozen=True, slots=True)
class FoundCommand:
    """One command of a text, and the operator in front of it."""

    line: ShellLine
    ended: str
    in_background: bool = False  # `&` is behind it
    is_shown: bool = False  # a text in place, on the terminal

    @property
    def words(self) -> tuple[Word, ...]:
        """The command itself."""
        return self.line.words


@dataclass(frozen=True, slots=True)
class Choice:
    """The launch of a text."""

    at: int  # of the commands
    commands: int  # that could have been chosen
    said: tuple[str, ...] = ()  # of those that are left out


def choose_launch(found: Sequence[FoundCommand], number: int | None, *, is_batch: bool = False) -> Choice:
    """Return which command of a text is its launch; `number` is the user's choice, from 1.

    `is_batch`: the text shows a batch script, so that `sbatch FILE` beside it is how that is submitted.

    Raises CommandRefused for a text of several launches without a number, and for one of none.
    """
    if all(side_commands.is_setup(one.words) for one in found):
        side_commands.refuse_setup(found[0].words)
    kept = _without_setup(found)
    if is_batch and any(not submits(found[at].words) for at in kept):
        kept = tuple(at for at in kept if not submits(found[at].words))
    chosen = _choose(found, kept, number)
    left_out = sorted(set(range(len(found))).difference(kept))
    said = tuple(
        _explain_left_out(found[at], is_behind=at > chosen.at) for at in left_out if not found[at].is_shown
    )
    return replace(chosen, said=(*said, *chosen.said))


def _choose(found: Sequence[FoundCommand], kept: Sequence[int], number: int | None) -> Choice:
    """Return which of the commands that may be the launch is it, and what is said of the others of them."""
    first = found[kept[0]]
    if len(kept) == 1:
        _refuse_blanks([first] if len(first.words) > 3 else [])
        return Choice(kept[0], 1)
    if found[kept[1]].ended == "|":
        raise _piped(found[kept[1]].words)
    distinct = _distinct(found, kept)
    if len(distinct) == 1:
        is_of_nodes = len(_without(_NODE_RANKS, first.words)) < len(first.words)
        _refuse_unlike_nodes([found[at].line for at in kept])
        times = f"has it for {len(kept)} nodes" if is_of_nodes else f"starts it {len(kept)} times"
        once = "for each host" if is_of_nodes else "once"
        return Choice(kept[0], 1, (f"{_program(first.words)}: the text {times}, and gpulaunch {once}",))
    if number is None:
        _refuse_unlike_nodes([found[at].line for at in distinct])
    if number is None or number > len(distinct):
        raise _several([found[at] for at in distinct], number)
    chosen = distinct[number - 1]
    behind = kept[kept.index(chosen) + 1 :][:1]
    if reader := next((found[at] for at in (chosen, *behind) if found[at].ended == "|"), None):
        raise _piped(reader.words)
    others = f"{number} of the {len(distinct)} commands of the text: the others are left out"
    return Choice(chosen, len(distinct), (others,))


def _explain_left_out(one: FoundCommand, *, is_behind: bool) -> str:
    words = one.words
    if settings := side_commands.explain_settings(words):
        why = settings
    elif submits(words):
        why = SUBMITS
    elif one.in_background and not side_commands.is_setup(words):
        why = _BESIDE
    else:
        why = side_commands.BEHIND if is_behind else side_programs.BEFORE
    shown = " ".join(word.text.strip() for word in side_commands.strip_prefixes(words)[:2])
    return f"{shown[:60]}: {why}"


def submits(words: Sequence[Word]) -> bool:
    """Whether a command hands a script to a scheduler."""
    return posixpath.basename(words[0].text) in ("sbatch", "qsub", "bsub")


def _distinct(found: Sequence[FoundCommand], kept: Sequence[int]) -> tuple[int, ...]:
    """Return commands without those that repeat an earlier one, on another node too."""
    seen: dict[object, int] = {}
    for at in kept:
        line = found[at].line
        words = _without(_NODE_RANKS, line.words)
        is_of_node = len(words) < len(line.words)
        around = () if is_of_node else (line.exports, line.directory, line.environment)
        seen.setdefault((words, around), at)
    return tuple(seen.values())


def _refuse_unlike_nodes(lines: Sequence[ShellLine]) -> None:
    """Raise CommandRefused for one launch whose nodes get unlike counts of ranks, GPUs or variables."""
    if any(len(_without(_NODE_RANKS, line.words)) == len(line.words) for line in lines):
        return
    fronts = [[word.text for word in takewhile(is_assignment, line.words)] for line in lines]
    commands = [line.words[len(front) :] for line, front in zip(lines, fronts, strict=True)]
    given = [
        {name: value.text for name, value in line.exports} | dict(text.split("=", 1) for text in front)
        for line, front in zip(lines, fronts, strict=True)
    ]
    names = [name for name in given[0] if len({one.get(name) for one in given}) > 1]
    unlike = [name for name in names if not _OF_NODE.search(name)]
    without = ""
    if _CARDS in unlike:
        cards = ",".join(
            dict.fromkeys(card for one in given for card in one.get(_CARDS, "").split(",") if card)
        )
        what, without = _CARDS, " and its counts"
        fix = f"on one host --gpus {cards} takes all; on several, gpus: in hosts.yaml names those of each"
    elif _COUNT in names or len({_without(_NODE_RANKS, words) for words in commands}) > 1:
        what, fix = "number of ranks", "each GPU gets a rank, or those that gpus: of a host names"
    elif unlike:
        what, fix = ", ".join(unlike), "env: in hosts.yaml gives each host its own value"
    else:
        return
    if len({_without((*_NODE_RANKS, *_COUNTS), words) for words in commands}) == 1:
        raise CommandRefused(
            f"the text starts one launch on {len(lines)} nodes, each with another {what}",
            f"paste one of them without it{without}: {fix}",
        )


def _without_setup(found: Sequence[FoundCommand]) -> tuple[int, ...]:
    """Return which commands install or ask nothing, and are not what such ones are piped into.

    Raises CommandRefused for a launch that reads the output of such a one.
    """
    kept: list[int] = []
    has_launcher = any(side_commands.has_launcher(one.words) for one in found)
    trains = has_launcher or any(side_commands.starts_training(one.words) for one in found)
    for at, one in enumerate(found):
        is_left_out = (
            (has_launcher and side_commands.is_setup_script(one.words))
            or side_commands.is_setup(one.words)
            or side_commands.explain_settings(one.words)
            or _is_inline(one.words)
            or (trains and one.in_background and not _rank(one.words))
        )
        if one.ended == "|" and at:
            if kept[-1:] == [at - 1]:
                is_left_out = False
            elif not is_left_out:
                if side_commands.starts_training(one.words):
                    raise _piped(one.words)
                is_left_out = True
        if not is_left_out:
            kept.append(at)
    return tuple(kept) or (len(found) - 1,)


def _is_inline(words: Sequence[Word]) -> bool:
    """Whether a command is `python -c TEXT`, behind srun too, which prepares or shows something."""
    pairs = pairwise(words)
    is_text = any(side_commands.is_python(one) and following.text == "-c" for one, following in pairs)
    return is_text and not side_commands.has_launcher([one for one in words if one.text not in PREFIXES])


def _without(names: Sequence[str], words: Sequence[Word]) -> tuple[str, ...]:
    """Return the words of a command without some options: the number of its node, and srun's name of it."""
    kept: list[str] = []
    is_value = is_step = False
    is_of_several = _OF_SEVERAL_NODES.search(" ".join(word.text for word in words)) is not None
    for word in words:
        name, equals, _ = word.text.partition("=")
        starts = name != "srun" and side_commands.find_launcher((word, Word("-m")))
        is_step = is_of_several and not starts and (is_step or name == "srun")
        if is_value:
            is_value = False
        elif name in names or (is_step and name in _STEP_NODES):
            is_value = not equals
        else:
            kept.append(_RANK_INSIDE.sub("", word.text) if is_step else word.text)
    return tuple(kept)


def _program(words: tuple[Word, ...]) -> str:
    """Return the program of a command, without the assignments in front of it."""
    return next((word.text for word in words if "=" not in word.text), words[0].text)


def _piped(reader: tuple[Word, ...]) -> CommandRefused:
    name = posixpath.basename(reader[0].text)
    if name in wrappers.REPEATERS and side_commands.find_launcher(reader):
        return remedies.explain_refused_program(name, reader[1:])
    return CommandRefused(
        f"the line pipes into {reader[0].text}",
        "leave the pipe out, or pipe the output of gpulaunch run itself",
    )


def _several(found: Sequence[FoundCommand], number: int | None) -> CommandRefused:
    """Return the error for a text of several commands, with the number of each."""
    alike, texts = _described(found[:_LISTED])
    shown = "; ".join(f"{at}: {text}" for at, text in enumerate(texts, 1))
    more = f"; {len(found) - _LISTED} more" if len(found) > _LISTED else ""
    what = f"{len(found)} commands, {alike}{shown}{more}"
    ranks = [_rank(one.words) for one in found]
    complete = (all(clear_placeholders(word).is_known for word in line.words) for line in found)
    said = list(zip(ranks, complete, strict=True))
    one = 1 + said.index(max(said))
    if number is None and (fix := manual_starts.replace_ssh([line.words for line in found])):
        return CommandRefused(f"the text starts the launch on several hosts by ssh, {shown}{more}", fix)
    if number is None and (by_hand := manual_starts.explain_ranks([line.words for line in found])):
        return by_hand
    _refuse_blanks(found if number is None else ())
    if set(names := [posixpath.basename(line.words[0].text) for line in found]) <= set(wrappers.SCHEDULERS):
        return remedies.explain_refused_program(names[-1], found[-1].words[1:])
    rest = "; do what the others do on each host yourself" if len(list(filter(None, ranks))) == 1 else ""
    return CommandRefused(
        f"the text has {what}" if number is None else f"the text has no launch {number}, but {what}",
        f"choose one: --launch {one} (launch: {one} in a run config){rest}" if max(ranks) else _NO_LAUNCH,
    )


def _refuse_blanks(found: Sequence[FoundCommand]) -> None:
    """Raise CommandRefused for `NAME = VALUE`, which a shell takes for a program and its arguments."""
    for name, equals, *value in ([word.text for word in one.words] for one in found if len(one.words) > 2):
        if equals == "=" and name.isidentifier() and value[0][:1] in ("[", "{", "("):
            raise CommandRefused(
                f"the text gives {name} a list as Python has it, and a shell reads none",
                "paste the words of the list alone, without brackets, quotes and commas",
            )
        if equals == "=" and name.isidentifier():
            raise CommandRefused(
                f"the text has {name} = {value[0]}, and to a shell {name} is a program",
                f"write {name}={shlex.quote(value[0])}, without blanks around =",
            )


def _rank(words: tuple[Word, ...]) -> int:
    """Return how likely a command is the launch: a launcher, a script of Python, one of a shell, others."""
    if words[1:2] == (Word("="),) or (len(words) == 1 and side_commands.has_launcher(words)):
        return 0
    if side_commands.has_launcher(words):
        return 3
    if side_commands.starts_training(words):
        return 2
    parts = [Word(part) for word in words for part in word.text.split()]  # ssh HOST 'torchrun ...'
    names_one = any(map(side_commands.is_python, parts)) or any(
        word.text.endswith((".sh", ".py")) for word in words
    )
    return 1 if names_one or side_commands.has_launcher(parts) else 0


def _described(found: Sequence[FoundCommand]) -> tuple[str, tuple[str, ...]]:
    """Return what commands have in common, and what distinguishes each: its first words, or others."""
    texts = [tuple(word.text for word in one.words) for one in found]
    if len(set(texts)) < len(texts):
        texts = [
            (*(f"{name}={value.text}" for name, value in one.line.exports), *text)
            for one, text in zip(found, texts, strict=True)
        ]
    shortest = min(map(len, texts))
    start = next((at for at in range(shortest) if len({text[at] for text in texts}) > 1), shortest)
    behind = next((at for at in range(shortest - start) if len({text[-1 - at] for text in texts}) > 1), 0)
    if start and texts[0][start - 1].startswith("-"):
        start -= 1
    common = (*texts[0][:start], *texts[0][len(texts[0]) - behind :])
    script = next((word for word in common[1:] if word.endswith((".py", ".sh"))), "")
    if "-m" in common[:-1]:
        script = common[common.index("-m") + 1]
    if start < 2 or not script:
        return "", tuple(shorten(" ".join(" ".join(text).split()), _LONGEST) for text in texts)
    program = next(word for word in common if "=" not in word)
    return f"{' '.join(dict.fromkeys((program, script)))} with ", tuple(
        shorten(" ".join(" ".join(text[start : len(text) - behind]).split()), _LONGEST) or "nothing more"
        for text in texts
    )
