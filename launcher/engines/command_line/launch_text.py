"""One launch in a text as a person copies it from a page or a script. Pure.

Continued lines and comments are understood, and what prepares or follows the command: `cd DIR &&`,
`export NAME=VALUE`, `NAME=VALUE` and arrays in lines before it, `source .../activate`, `&`, `2>&1 | tee log`.
Conditions, loops and functions are read where the text's own values decide them, and left out where they
launch nothing. Several commands are not one launch, but for one that a page prints for each node.
"""

import posixpath
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import dropwhile

from launcher.engines.command_line import batch_script, refusals, side_commands
from launcher.engines.command_line.candidates import SUBMITS, FoundCommand, ShellLine, choose_launch, submits
from launcher.engines.command_line.launch_patterns import LAUNCH_INSIDE, LAUNCH_LINE
from launcher.engines.command_line.options import RANK_LOGS
from launcher.engines.command_line.pages.page import find_commands
from launcher.engines.command_line.shell.aliases import read_aliases, read_removed
from launcher.engines.command_line.shell.blocks import LEAVES
from launcher.engines.command_line.shell.bracket_tests import Answer, Files, ends_unset
from launcher.engines.command_line.shell.command_substitution import make_reader
from launcher.engines.command_line.shell.commands import CommandReader
from launcher.engines.command_line.shell.doubts import SHOWN, define_functions, leave_out
from launcher.engines.command_line.shell.missing_values import explain_no_values
from launcher.engines.command_line.shell.pipelines import predict_output
from launcher.engines.command_line.shell.redirections import list_unwritten, replace_written
from launcher.engines.command_line.shell.replay_limits import Replays
from launcher.engines.command_line.shell.state import READERS, ShellState
from launcher.engines.command_line.shell.subshells import ENDS
from launcher.engines.command_line.shell.variables import ASIDE, NOUNSET, Value, update_error_ends
from launcher.engines.command_line.shell.words import Word, is_assignment
from launcher.engines.command_line.tables import side_programs
from launcher.engines.command_line.wrappers import explain_empty, find_program, strips_program
from launcher.errors import CommandRefused
from preflight import regex as re

_COMMENT_INSIDE = re.compile(r"^(?![ \t]*#)[^\n]*\\[ \t]*\n[ \t]*#[^\n]*\n[ \t]*[^\s#]", re.MULTILINE)
_ARGUMENTS = re.compile(r"\$(?:[@*#]|\{[@*])")
_OWN_FOLDER = re.compile(r"\bdirname[ \t]+(?:--[ \t]+)?[\"']?\$(?:0|\{0\}|\{?BASH_SOURCE)")
_PARENT = re.compile(
    r"[\w})][\"']?/\.\.|\bcd[ \t]+[\"']?\.\.|\bdirname[ \t]+[\"']?\$\{?(?:SCRIPT|SELF|THIS)_?DIR\b"
)
_OF_SCRIPT = "dirname: the script is taken to be in the directory that you are in, and .. is what is above it"
_NO_ARGUMENTS = "$@: the text has no arguments of its own"
_BLOCK = "read where the values of the text decide it, and left out elsewhere"
_AFTER = "it has no effect after the launch"
_IN_CONDITION = "in a condition that the text does not decide: do it on each host first, where it holds"
_OF_TRAINING = re.compile(
    r"(?:CUDA|NCCL|GLOO|TORCH|PYTORCH|HF|WANDB|OMP|MKL|TRANSFORMERS|TOKENIZERS|UCX|HYDRA|RAY|DS|ACCELERATE)_[A-Z0-9_]+"
    r"|PYTHONPATH|LD_LIBRARY_PATH|LD_PRELOAD"
)
_BLANK_BEHIND_SIGN = re.compile(
    r"^(?![ \t]*#)(?:[^\n]*\\[ \t\u00a0]+(?:#[^\n\\]*)?\n[ \t]*[^\s#]"
    r"|[^\n\"']*[ \t]\\[ \t]+(?:--[A-Za-z]|[\w./-]+\.py\b))",
    re.MULTILINE,
)
_BLANK_BEHIND = "\\: a blank behind it would end the command, which is read as if it went on behind it"
_JOINED = "\\: without a blank in front of it a shell joins the words around it, which are read as two"
_ITSELF = re.compile(r"\$(?:0|\{0\}|\{?BASH_SOURCE(?:\[0\])?\}?)")  # `sbatch --nodes=2 $0`
_ERREXIT_OF_FILE = re.compile(r"#![^\n]*sh[ \t]+-[a-zA-Z]*e")
_ASIDE = (":", "echo", "printf", "test", "[", "[[")  # no launch has their words
_MOST_COMMANDS = 1000  # more than any text that launches something; each keeps the variables that it has

_LONGEST_TEXT = 250_000


def split_line(
    text: str,
    environ: Mapping[str, Value],
    files: Files | None = None,
    functions: Mapping[str, str] | None = None,
    number: int | None = None,
) -> ShellLine:
    """Split a text of one command; `environ` fills in `$NAME`, and what it lacks stays unresolved.

    `files` gives the texts of files beside it, which `source` reads; `functions` are those of a shell around
    it; `number` chooses one of several commands. Raises CommandRefused for several commands without one, for
    launches in a loop or a condition that the text does not decide, and for quotes that do not end.
    """
    launches = _Launches(ShellState({**batch_script.list_job_variables(text), **environ}, files))
    launches.shell.functions.update(functions or {})
    launches.read(text)
    return launches.line(text, number)


class _Launches:
    """What a text launches, in its order."""

    def __init__(self, shell: ShellState) -> None:
        self.shell = shell
        self.found: list[FoundCommand] = []
        self.is_behind = False  # a command that may be the launch
        self.behind: list[tuple[int, str, str]] = []  # how many are in front; what is said after, and before
        self.late: list[int] = []  # of the commands that may run, those behind such a one
        self.ended = ""  # what is in front of the next command
        self.is_left_out = False  # the command in front of a pipe
        self.is_submitted = False  # the text itself, to a scheduler
        self.printed = ""  # by `echo`
        self.commands = ""  # the text without what a page or a file of tasks has around them

    def read(self, text: str) -> None:
        """Take every command of a text."""
        shell = self.shell
        if len(text) > _LONGEST_TEXT:
            raise CommandRefused(
                f"the text has {len(text):,} characters, more than a launch script", "paste the launch alone"
            )
        if "\0" in text:
            raise CommandRefused("the text has a NUL character, which no command has", "paste it as text")
        shell.blocks.fatal = frozenset(["set -e"] if _ERREXIT_OF_FILE.match(text) else [])
        shell.values.read_output = make_reader(shell, Replays(find_commands))
        self.commands = find_commands(text, shell.values, shell.blocks.files)
        reader = CommandReader(batch_script.render_setup(text) + self.commands, shell, Replays(find_commands))
        for words, end in reader.commands():
            self.ended = "|" if shell.is_piped else self.ended
            asks = shell.blocks.asks_next
            if shell.blocks.failed and not self.is_behind:
                reasons = ", ".join(sorted(shell.blocks.fatal - ASIDE))
                shell.lack(refusals.explain_early_end((*shell.blocks.failed, Word(f"({reasons})"))))
            shell.blocks.failed = ()
            if shell.blocks.runs:
                self._note_settings(words)
            if shell.blocks.take(words, end, shell.values):
                self._take_asked(words, asks, end)
                self.ended = "|" if end in ("|", "|&") else ";"
                continue
            count = len(self.found)
            is_part = end in ENDS or self.ended == "|" or bool(shell.groups)
            bare = words[words[0].text == "!" :] or words
            self._take(bare, shell.blocks.runs, end)
            is_exec = next(dropwhile(is_assignment, bare), None) == Word("exec")
            if len(self.found) > count and shell.blocks.runs and is_exec and not is_part:
                shell.left = "exit"  # its program takes the place of the shell
            shell.blocks.take_program(end, words)
            shell.blocks.code = shell.blocks.code if len(self.found) == count else None
            self.ended = end.replace("|&", "|")

    def _note_settings(self, words: tuple[Word, ...]) -> None:
        """Take `set -e`, `trap "exit 1" ERR`, `: ${NAME:?...}`: what ends a text on errors; and `alias`."""
        said, blocks = " ".join(word.text for word in words), self.shell.blocks
        if said.startswith("trap ") and Word("ERR") in words[2:]:
            handler = words[1].text + self.shell.functions.get(words[1].text, "")
            ends = {"trap ERR"} if re.search(r"\bexit\b", handler) else set[str]()
            blocks.fatal = blocks.fatal - {"trap ERR"} | ends
        elif words[0].text == "set":
            blocks.fatal = update_error_ends(words, blocks.fatal)
            self.shell.values.is_strict = NOUNSET in blocks.fatal
        elif bodies := read_aliases(words):
            define_functions(self.shell, bodies)
        elif removed := read_removed(self.shell.functions, words):
            self.shell.functions = {
                name: text for name, text in self.shell.functions.items() if name not in removed
            }
        elif said.startswith(("shopt -s", "shopt -u")):
            for name in (f"shopt {word.text}" for word in words[2:]):
                self.shell.values[name] = ""
                if words[1].text == "-u":
                    del self.shell.values[name]
        elif (words[0].text in _ASIDE or all(map(is_assignment, words))) and any(
            ends_unset(part, self.shell.values) for one in words for part in one.unresolved
        ):
            self.shell.lack(explain_no_values(words, "the text"))

    def _take_asked(self, words: tuple[Word, ...], asks: Answer, end: str) -> None:
        """Take what a condition does as it asks: `if torchrun train.py; then`, `if ! cd DIR; then`."""
        words = words[1:] if words[0].text == "!" else words
        if asks is False or not words:
            return
        behind = tuple(dropwhile(is_assignment, words))
        if words[0].text in ("cd", "export", "set", "shift") or not behind:
            if end in ("|", "|&"):
                pass  # in a shell of its own
            elif not asks:
                leave_out(self.shell, words)
            elif not self.shell.take_arguments(words):
                self.shell.prepare(words)
        elif behind[0].text in READERS:
            leave_out(self.shell, behind)
        elif not _starts_launch(words):
            return
        elif asks:
            self._take(words, runs=True)
        else:
            self.shell.doubtful.append((words, refusals.explain_condition(self.shell.blocks.open[-1].kind)))

    def _take(self, words: tuple[Word, ...], runs: Answer, end: str = "") -> None:
        shell = self.shell
        if runs is None and not (shell.blocks.is_probed and _starts_launch(words)):
            count = len(shell.doubtful)
            leave_out(shell, words)
            self.late += range(count, len(shell.doubtful)) if self.is_behind else ()
        elif runs is False:
            shell.skip(words)
        elif self._is_aside(words):
            pass
        elif self.is_behind and self._is_left_behind(words):
            self.is_left_out = True
        elif self.is_behind or not shell.prepare(words):
            self._take_command(replace_written(shell, words), end)

    def _is_aside(self, words: tuple[Word, ...]) -> bool:
        """Take what neither launches nor prepares: logs, submits, the shell's own; return whether it did."""
        shell = self.shell
        if self.ended == "|" and self.is_left_out:
            pass  # ps | grep | sh behind the launch: its first command is said
        elif submits(words) and any(_ITSELF.fullmatch(word.text) for word in words[1:]):
            shell.dropped.append(f"{words[0].text}: {SUBMITS}")
            self.is_submitted = True
        elif words[0].text in LEAVES:
            self._leave(words)
        elif shell.take_arguments(words):
            shell.dropped.append(f"{words[0].text}: {side_programs.OF_SHELL}")
        elif self.ended == "|" and (name := find_program(words)) in side_commands.LOG_FILTERS:
            why = RANK_LOGS if self.is_behind else side_programs.NOTHING
            shell.dropped += [f"| {name}: {why}", *shell.redirected * self.is_behind]
            self.is_left_out = False
        elif sentence := explain_empty(words) or side_commands.explain_drop(words, after=bool(self.found)):
            shell.dropped.append(sentence)
            self.is_left_out = self.is_behind
            self.printed = (predict_output([word.text for word in words]) or self.printed).rstrip("\n")
        else:
            return False
        return True

    def _take_command(self, words: tuple[Word, ...], end: str) -> None:
        """Take a command that may be the launch. Raises CommandRefused for one that cannot be."""
        self.is_left_out = False
        side_commands.refuse_undecided(words, self.found[0].words if self.found else ())
        reader = posixpath.basename(words[0].text)  # `echo "torchrun train.py" | bash`
        if self.ended == "|" and side_commands.reads_commands(reader) and LAUNCH_INSIDE.search(self.printed):
            raise refusals.explain_unstarted(f"prints its launch, and pipes it into {reader}", self.printed)
        if len(self.found) == _MOST_COMMANDS:
            raise CommandRefused(f"the text has more than {_MOST_COMMANDS} commands", "paste one launch")
        line, is_shown = self._line(words), words == SHOWN and end[:1] != "|"
        self.found.append(FoundCommand(line, self.ended, in_background=end == "&", is_shown=is_shown))
        if side_commands.is_launch(words):
            self.is_behind = True
            self.shell.dropped += self.shell.redirected

    def _is_left_behind(self, words: tuple[Word, ...]) -> bool:
        """Take what only a later launch sees of the text; return False for any other command."""
        shell = self.shell
        said = len(shell.dropped)
        name, at = words[0].text, len(self.found)
        if shell.prepare(words) or side_commands.is_of_shell(words):
            del shell.dropped[said:]
            self.behind.append((at, f"{name}: {_AFTER}", ""))
        elif self.ended != "|" and side_commands.is_setup(words):
            self.behind.append((at, f"{name}: {side_commands.BEHIND}", f"{name}: {side_programs.BEFORE}"))
        else:
            return False
        return True

    def _leave(self, words: tuple[Word, ...]) -> None:
        """Take `break`, `continue`, `return` or `exit`, with which the text may end in front of its launch.

        A text that asks for arguments ends because it has none; what the launch lacks says so.
        """
        shell, name, code = self.shell, words[0].text, "".join(word.text for word in words[1:2])
        status = code == "0" if code.isdecimal() else None if code else shell.blocks.last
        if code and name in ("return", "exit"):
            shell.blocks.code = code if code.isdecimal() else None
        if name == "return":
            shell.left, shell.blocks.status = name if shell.returns else "", status
        elif name != "exit":
            levels = min(int(code), shell.loops) if code.isdecimal() else 1
            left = f"{name} {levels}".removesuffix(" 1")
            shell.left, shell.blocks.status = left if shell.loops else "", True
        elif self.is_submitted:
            pass  # of the shell that hands the text to the scheduler
        elif shell.groups and not shell.blocks.of_arguments:
            shell.blocks.leave_group(shell.groups[-1], words, status)
        elif self.is_behind and not self._may_continue():
            shell.left = "exit"
        elif not shell.blocks.of_arguments:
            shell.lack(refusals.explain_early_end(words))
        shell.dropped += [f"{name}: {side_programs.NOTHING}"] if name in ("exit", "return") else []

    def _may_continue(self) -> bool:
        """Whether a text whose condition ends it may continue: nothing in front surely trains."""
        is_asked = self.shell.blocks.open or self.shell.blocks.list.operator
        return bool(is_asked) and not any(side_commands.starts_training(one.words) for one in self.found)

    def _line(self, words: tuple[Word, ...]) -> ShellLine:
        """Return a command as what came before it has prepared it."""
        shell = self.shell
        return ShellLine(
            words,
            shell.place.path,
            shell.list_exported_words(),
            tuple(shell.unset),
            shell.environment,
            unknown=tuple(dict.fromkeys(shell.unknown)),
            exported=shell.list_exported(),
            functions={
                name: shell.functions[name] for name in shell.visible_functions & shell.functions.keys()
            },
        )

    def line(self, text: str, number: int | None) -> ShellLine:
        """Return the one command of the text. Raises CommandRefused for none and for several."""
        shell, found = self.shell, self.found
        shell.dropped += [f"{kind}: {_BLOCK}" for kind in shell.blocks.kinds]
        shell.dropped += batch_script.explain_directives(text)
        shell.dropped += _unexported(text, shell)
        shell.dropped += [_BLANK_BEHIND] if _BLANK_BEHIND_SIGN.search(text) else []
        shell.dropped += [_JOINED] if re.search(r"^(?![ \t]*#)[^\n]*[^\s\\]\\\n-", text, re.MULTILINE) else []
        without = sorted(shell.visible - shell.values.keys() - shell.exports.keys())
        shell.dropped += [f"export {name}: {side_commands.WITHOUT_VALUE}" for name in without]
        if _OWN_FOLDER.search(text) and _PARENT.search(text):
            shell.dropped.append(_OF_SCRIPT)
        if _ARGUMENTS.search(text) and _ARGUMENTS.search(self.commands):  # `$@` of make is its target
            shell.dropped.append(_NO_ARGUMENTS)
        if all(side_commands.is_setup(one.words) for one in found):
            for name, body in shell.written.items():
                if body is not None and LAUNCH_LINE.search(body.text):
                    raise refusals.explain_written(name)
            has_uncalled = any(map(LAUNCH_LINE.search, shell.functions.values()))
            if not (shell.doubtful or has_uncalled):
                refusals.refuse_without_arguments(self.commands)
            if shell.doubtful or has_uncalled or not found:
                raise shell.doubtful[0][1] if shell.doubtful else _no_command(shell)
        if len(found) > 1 and _COMMENT_INSIDE.search(text):
            raise refusals.cut_command(found[1].words[0].text)
        choice = choose_launch(found, number, is_batch=batch_script.is_batch_script(text))
        line = found[choice.at].line
        shell.dropped += choice.said
        shell.dropped += [after if at > choice.at else before for at, after, before in self.behind]
        unknown = (*line.unknown, *list_unwritten(line.words, shell))
        for at, (words, error) in enumerate(shell.doubtful):
            why = side_commands.BEHIND if at in self.late else _IN_CONDITION
            if not side_commands.is_preparation(words, line.words):
                if number is None:
                    raise error
                why = side_commands.UNDECIDED
            shell.dropped.append(f"{' '.join(word.text for word in words[:3])}: {why}")
        dropped = tuple(filter(None, dict.fromkeys(shell.dropped)))
        exports = (*batch_script.list_counts(text), *line.exports)
        return replace(line, exports=exports, dropped=dropped, unknown=unknown, commands=choice.commands)


def _unexported(text: str, shell: ShellState) -> Iterator[str]:
    """Yield what is said of variables that a text sets for itself, never reads and that trainings read."""
    for name, value in shell.values.items():
        if _OF_TRAINING.fullmatch(name) and name not in shell.visible and value != shell.environ.get(name):
            others = re.sub(rf"(?<![\w$-]){name}=(?:\"[^\"\n]*\"|'[^'\n]*'|[^\s;&]*)", "", text)
            is_read = re.search(rf"\$\{{?[!#]?{name}\b|\b(?:export|declare)[^\n]*\b{name}\b", others)
            if is_read is None and not any(name in said.partition(":")[0] for said in shell.dropped):
                yield f"{name}: set for the text alone and not exported, no rank gets it"


def _no_command(shell: ShellState) -> CommandRefused:
    if shell.functions:
        return CommandRefused(
            f"the text has a shell function, {next(iter(shell.functions))}", "paste the command inside of it"
        )
    if shell.blocks.kinds:
        return refusals.explain_undecided(tuple(shell.blocks.kinds)[-1])
    for name, value in shell.values.items():
        text = value.text if isinstance(value, Word) else "" if isinstance(value, tuple) else value
        if name not in shell.environ and LAUNCH_LINE.match(text):
            return refusals.explain_unstarted(f"keeps its launch in {name}, and does not start it", text)
    return refusals.explain_empty()


def _starts_launch(words: tuple[Word, ...]) -> bool:
    """Whether a command is a launcher that starts something, or a program in front of one."""
    at = next((at for at, word in enumerate(words) if "=" not in word.text), 0)
    names_one = strips_program(words[at].text) and side_commands.has_launcher(words[at + 1 :])
    starts = any(not word.text.startswith("-") for word in words[at + 1 :])
    return (
        starts
        and (names_one or side_commands.has_launcher(words[at : at + 1]))
        and (not side_commands.explain_drop(words, after=False) and side_commands.is_launch(words))
    )
