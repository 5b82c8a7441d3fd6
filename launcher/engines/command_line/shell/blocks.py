"""Conditions and loops of a text: which of its commands run. Pure, and nothing is run for it.

The text's own values decide a condition where they can (`[ -z "$NAME" ]`, `case $NAME in`): the commands of
the other branch are left out. A loop whose words the text does not have and the answer of a program decide
nothing.
"""

import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from typing import TypeAlias

from launcher.engines.command_line.shell.arithmetic import is_true, list_assigned
from launcher.engines.command_line.shell.block_extents import CLOSERS
from launcher.engines.command_line.shell.bracket_tests import (
    Answer,
    Files,
    decide_test,
    expand_tested,
    join_and,
    join_or,
    match_pattern,
    negate,
)
from launcher.engines.command_line.shell.variables import ASIDE, PIPEFAIL, Values, get_args
from launcher.engines.command_line.shell.words import Word, is_assignment
from launcher.engines.command_line.tables.side_programs import PROBES
from launcher.errors import CommandRefused
from preflight import regex as re

Command: TypeAlias = tuple[tuple[Word, ...], str]  # the words of a command and the operator behind it

_TESTS = ("[", "[[", "test", "((")
ALONE = ("if", "elif", "then", "else", "while", "until", "do", "{")
"""Words of a shell that a command follows without an operator."""

_ANSWERS: Mapping[str, Answer] = {"true": True, ":": True, "export": True, "false": False, "getopts": False}
"""Of commands; `getopts` finds no argument in a text that has none."""

_OF_HOSTS = re.compile(
    r"(?:command -v|which|type(?: -[pP])?|hash) (?:torchrun|accelerate|deepspeed|python3?|nvidia-smi)"
)
"""What asks for programs that a launch needs on a host; preflight looks for them."""

_NOT, _GROUP = (Word("!"),), (Word("{ }"),)
LEAVES = ("break", "continue", "return", "exit")
_EXCUSES = ("&&", "||", "|", "|&", "&")  # behind a command that fails without an end of the text in `set -e`

_DEEPEST = 100  # of blocks within blocks: each command asks all that are around it

_ARGUMENT = re.compile(r"\$(?:[1-9@*]|\{[1-9@*])")


class _List:
    """Commands that `&&` and `||` join: whether the next of them runs."""

    def __init__(self) -> None:
        self.status: Answer = True  # of what has been read
        self.operator = ""  # in front of the next command
        self.is_negated = False  # the pipeline that is read: `! a | b`
        self.failed: tuple[Word, ...] = ()  # a part of it that fails, which `set -o pipefail` asks
        self.is_presumed = False  # a program would say whether it succeeds
        self.is_probed = False  # programs that are started for their answer alone leave it undecided
        self.of_arguments = False  # a test in it asks for arguments, which the text does not have

    @property
    def guard(self) -> Answer:
        """Whether the next command runs; None where the text does not decide it."""
        if self.operator == "||":
            return None if self.is_presumed else negate(self.status)
        return self.status if self.operator == "&&" else True

    def take(self, value: Answer, end: str, *, is_presumed: bool = False) -> Answer:
        """Take how a command ends, and what follows it; return how the list has ended so far.

        A program behind a test is one that succeeds: `[ A ] && program || other` is a choice.
        """
        if end in ("|", "|&"):
            return self.status
        if self.operator:
            value = (join_and if self.operator == "&&" else join_or)(self.status, value)
        else:
            self.is_presumed = is_presumed
        self.status, self.operator = value, end if end in ("&&", "||") else ""
        if not self.operator:
            self.of_arguments = self.is_probed = False
        return None if self.is_presumed else value


class Block:
    """One condition, loop or group that is open."""

    def __init__(self, kind: str, around: _List, *, in_condition: bool) -> None:
        self.kind = kind
        self.around = around  # the list that it is in
        self.in_condition = in_condition
        self.runs: Answer = True  # the branch that is read
        self.falls: Answer = False  # into the next branch of `case`: `;&`
        self.value: Answer = None  # of the condition, as far as it has been read
        self.taken: Answer = False  # whether an earlier branch has run
        self.ends: set[Answer] = set()  # of the branches that may run
        self.subject: str | None = None  # what `case` compares
        self.awaits_pattern = kind == "case"
        self.is_negated = False  # `! {`
        self.is_shell = False  # in parentheses
        self.of_arguments = around.of_arguments  # its condition asks for arguments
        self.failed: tuple[Word, ...] = ()  # a command in it that surely fails, and that nothing asks


class ShellBlocks:
    """Follows the conditions and loops of a text, command by command."""

    def __init__(self, files: Files | None = None) -> None:
        self.files = files
        self.open: list[Block] = []
        self.list = _List()
        self.last: Answer = True  # how the last list ended
        self.is_question = False  # the last command, whose answer the text does not decide
        self.asked = False  # the call of a function is behind a test of arguments
        self.excuses = 0  # calls of functions around the next command whose end something asks
        self.status: Answer = None  # of the command that `after` takes
        self.code: str | None = "0"  # `$?`; None where the text does not decide it
        self.is_behind_pipe = False
        self.fatal: frozenset[str] = frozenset()  # what ends the text where a command fails: `set -e`
        self.failed: tuple[Word, ...] = ()  # a command that surely fails, and that nothing asks
        self.test = "test"  # the last one, as the text has it
        self.kinds: dict[str, None] = {}  # what the text has had, in its order
        self.depth = 0  # of loops, functions and files whose commands are read
        self.doubts: dict[int, str] = {}  # what a condition that the text does not decide may have left

    @property
    def runs(self) -> Answer:
        """Whether the next command runs; None where the text does not decide it."""
        around = (block.runs for block in self.open)
        return reduce(join_and, around, join_and(self.list.guard, None if self.doubts else True))

    @property
    def is_probed(self) -> bool:
        """Whether only the answer of a program decides the next command: `ping -c1 gpu1 && torchrun a.py`."""
        is_reached = not self.doubts and all(block.runs for block in self.open)
        return self.list.is_probed and self.list.operator == "&&" and is_reached

    @property
    def kind(self) -> str:
        """The innermost condition or loop that the text does not decide."""
        undecided = (block.kind for block in self.open if block.runs is None)
        return [self.test, *self.doubts.values(), *undecided][-1]

    @property
    def awaits_pattern(self) -> bool:
        """Whether the next words are a pattern of `case`."""
        return bool(self.open) and self.open[-1].awaits_pattern

    @property
    def in_condition(self) -> bool:
        """Whether the next command is the condition of a block."""
        return bool(self.open) and self.open[-1].in_condition

    @property
    def asks_next(self) -> Answer:
        """Whether the next command runs, which is the condition of a block; a loop may ask it again."""
        if not self.in_condition:
            return False
        is_certain = self.open[-1].kind == "if" and not self.is_behind_pipe
        return join_and(is_certain or None, join_and(self.runs, negate(self.open[-1].taken)))

    @property
    def of_arguments(self) -> bool:
        """Whether a condition around the next command asks for arguments of the text."""
        return self.asked or self.list.of_arguments or any(block.of_arguments for block in self.open)

    def take(self, words: tuple[Word, ...], end: str, values: Values) -> bool:
        """Take a command that is of the shell alone; return False for any other. `end` is what follows it."""
        name, *rest = texts = [word.text for word in words]
        bare = rest if name == "!" else texts
        if name == "let" or (name == "((" and any(list_assigned(words[1].text))):
            self.status = is_true(words[1 if name == "((" else -1].text, values)
            return False
        if bare and bare[0] in _TESTS:
            self._take_test(words, end, values)
        elif name == "case":
            self._begin(name)
            self.open[-1].subject = _joined_text(words[1:-1], values)
            self.open[-1].of_arguments |= any(map(_asks_arguments, words))
        elif texts == ["!", "{"]:
            self._begin("{")
            self.open[-1].is_negated = True
        elif name in CLOSERS:
            self._begin(name, is_empty=name == "for" and rest[1:] in ([], ["in"]))
        elif name in ("elif", "else", "then", "do") and self.open:
            self._next_branch(self.open[-1], name)
        elif name in CLOSERS.values() and self.open:
            self._end(self.open.pop(), end)
        elif self.in_condition or (
            "".join(bare[:1]) in ("true", "false", ":") and (end in ("&&", "||") or len(bare) == 1)
        ):
            status, self.status = self.status, None
            is_open = bare[:1] == ["getopts"] and (get_args(values) or len(bare) > 3)  # which are not read
            self._follow(words, None if is_open else _answered(texts) if status is None else status, end)
        else:
            return False
        return True

    def take_pattern(self, words: tuple[Word, ...], values: Values) -> None:
        """Take the patterns in front of `)`, which `|` has separated."""
        block = self.open[-1]
        block.awaits_pattern = False
        hit: Answer = False
        for word in words:
            hit = join_or(hit, None if block.subject is None else match_pattern(block.subject, word, values))
        block.runs = join_or(block.falls, join_and(negate(block.taken), hit))
        block.taken, block.falls = join_or(block.taken, hit), False

    def end_pattern(self, operator: str) -> None:
        """Take `;;`, behind the commands of a pattern, or what continues with the next (`;&`, `;;&`)."""
        if self.open and self.open[-1].kind == "case":
            block = self.open[-1]
            self._end_branch(block)
            block.awaits_pattern, block.falls = True, operator == ";&" and block.runs
            block.taken = negate(block.around.guard) if operator == ";;&" else block.taken
            block.runs = False
        self.list = _List()

    def take_program(self, end: str, words: tuple[Word, ...] = (), *, is_question: bool = False) -> None:
        """Take what follows a command that was none of the shell's: outside of conditions, it succeeds.

        One that is for its answer, or a function that ends in one (`is_question`), does where nothing asks.
        """
        status, self.status, runs = self.status, None, self.runs
        is_negated = words[:1] == _NOT
        bare = words[is_negated:]
        is_question = is_question or _is_probe(bare)
        asks = end in ("&&", "||") and is_question
        status = _answered([word.text for word in words]) if asks and words else status
        self.test = bare[0].text if asks and bare else self.test
        is_presumed = status is None and not self.in_condition and not asks
        code = self.code
        self.list.is_probed |= asks
        self._follow(words, not is_negated if is_presumed else status, end, is_presumed=is_presumed)
        self.is_question |= is_question and status is None and runs is not False
        if words and words[0].text in LEAVES:
            self.code = code
        elif is_question or (words and all(map(is_assignment, words)) and status is not True):
            self.code = None  # that of a command in an assignment

    def follow(self, commands: Iterator[Command], words: tuple[Word, ...], end: str) -> Iterator[Command]:
        """Yield the commands that one stands for, whose end is that of the last of them."""
        conditions = self.open[-1:] if self.in_condition else []
        is_asked = bool(conditions) or end in _EXCUSES
        self.last, self.excuses = True, self.excuses + is_asked
        for block in conditions:
            block.in_condition = False
        yield from commands
        for block in conditions:
            block.in_condition = True
        self.excuses -= is_asked
        self.last = None if self.is_question else self.last
        self.status = negate(self.last) if words[0].text == "!" else self.last
        if words[0].text != "for":  # whose end is behind its `done`
            code = self.code if self.last is not None else None
            self.take_program(end, words, is_question=self.is_question)
            self.code = code if words[0].text != "!" else self.code

    def _follow(self, words: tuple[Word, ...], value: Answer, end: str, *, is_presumed: bool = False) -> None:
        """Take how a command ends, and what is behind it."""
        is_negated, is_piped, failed = words[:1] == _NOT, end in ("|", "|&"), self.list.failed
        value, is_presumed = (False, False) if failed and not is_piped else (value, is_presumed)
        if is_piped:
            self.list.is_negated |= is_negated
            self.list.failed = words or _GROUP if PIPEFAIL in self.fatal and value is is_negated else failed
        elif self.list.is_negated:
            value, is_negated, self.list.is_negated = negate(value), True, False
        if value is False and words and not is_negated:
            self._fail(failed or words, end)
        runs, self.last = self.runs, self.list.take(value, end, is_presumed=is_presumed)
        self.is_question = self.list.status is None
        if runs is not False:
            self.code = None if failed else {True: "0", False: "1", None: None}[runs and self.list.status]
        self.is_behind_pipe, self.list.failed = is_piped, self.list.failed if is_piped else ()
        if self.in_condition:
            self.open[-1].value = self.last

    def _fail(self, words: tuple[Word, ...], end: str) -> None:
        """Take a command that fails: where nothing asks, it ends a text of `set -e`."""
        is_asked = end in _EXCUSES or self.excuses or self.in_condition or self.of_arguments
        if self.fatal - ASIDE and self.runs and not is_asked:
            (self.open[-1] if self.open else self).failed = words

    def leave_group(self, at: int, words: tuple[Word, ...], status: Answer) -> None:
        """Take `exit CODE` in parentheses, which ends their commands alone; `at` blocks are around them."""
        if at < len(self.open):
            block = self.open[at]
            block.ends, block.runs = {status}, False  # and not that of its last command
            block.failed = words if status is False else ()

    def enter_body(self) -> Callable[[], None]:
        """Start the commands of a loop, a function or a file; return what leaves them again."""
        opened, around, asked, depth = len(self.open), self.list, self.asked, self.depth
        self.depth += 1
        self.asked = self.of_arguments
        self.list = _List()

        def leave() -> None:
            del self.open[opened:]
            self.list, self.asked, self.depth = around, asked, depth
            self.doubts = {at: kind for at, kind in self.doubts.items() if at <= depth}

        return leave

    def _begin(self, kind: str, *, is_empty: bool = False) -> None:
        if len(self.open) == _DEEPEST:
            raise CommandRefused(
                f"the text has more than {_DEEPEST} conditions within each other", "paste the launch alone"
            )
        is_condition = kind in ("if", "while", "until")
        guard = self.list.guard
        block = Block(kind, self.list, in_condition=is_condition)
        if is_condition:
            block.runs, block.taken = guard, negate(guard)
        elif kind == "case":
            block.runs, block.taken = False, negate(guard)
        else:
            block.value = False if is_empty else None
            block.runs = guard if kind == "{" else False if is_empty else None
        self.list = _List()
        self.open.append(block)
        if kind == "{":
            self.last = None  # of a group without commands
        else:
            self.kinds[kind] = None

    def _end(self, block: Block, end: str) -> None:
        self.list = block.around
        self._end_branch(block)
        block.ends |= {True} if block.kind in ("if", "case") and block.taken is not True else set()
        is_question = False in block.ends and len(block.ends) > 1
        value = block.ends.pop() if len(block.ends) == 1 else None
        value = negate(value) if block.is_negated else value
        self.list.is_negated |= block.is_negated and end in ("|", "|&")
        failed = block.failed or (Word("( )"),) * (block.is_shell and value is False)
        if failed and not block.is_negated:
            self._fail(failed, end)
        is_presumed = value is None and not self.in_condition and not (is_question and end in ("&&", "||"))
        value = True if is_presumed and not block.is_negated else value
        code = self.code if block.kind == "{" and not is_presumed else None
        if block.kind in ("if", "case"):
            code = {True: self.code, False: "0", None: None}[block.taken]
        self._follow((), value, end, is_presumed=is_presumed)
        self.is_question |= is_question
        self.code = self.code if block.is_negated else code

    def _end_branch(self, block: Block) -> None:
        if block.runs is not False and not block.in_condition and block.kind in ("if", "case", "{"):
            block.ends |= {True, False} if self.is_question else {self.last}

    def _next_branch(self, block: Block, name: str) -> None:
        self._end_branch(block)
        block.in_condition = name == "elif"
        if name == "then":
            block.runs = join_and(negate(block.taken), block.value)
            block.taken = join_or(block.taken, block.value)
        elif name == "do":
            is_never = block.value is (block.kind == "until") and block.value is not None
            block.runs = False if is_never else None
        else:
            block.runs = negate(block.taken)
            block.taken = join_or(block.taken, block.runs if name == "else" else False)
        block.value = None
        self.list = _List()

    def _take_test(self, words: tuple[Word, ...], end: str, values: Values) -> None:
        self.test = words[0].text if words[0].text in _TESTS else self.test
        value = decide_test(words, values, self.files)
        asks = any(map(_asks_arguments, words))
        (self.open[-1] if self.in_condition else self.list).of_arguments |= asks
        self.list.is_probed &= value is not None
        self._follow(words, value, end)


def _answered(texts: Sequence[str]) -> Answer:
    """Return what a command answers in a condition, where every host has the same."""
    if texts[0] == "!" and len(texts) > 1:
        return negate(_answered(texts[1:]))
    return True if _OF_HOSTS.fullmatch(" ".join(texts)) else _ANSWERS.get(texts[0])


def _is_probe(words: Sequence[Word]) -> bool:
    """Whether a command is started for its answer: `grep -q NAME FILE`, `command -v NAME`."""
    name = posixpath.basename(words[0].text) if words else ""
    return name in PROBES or (name == "command" and words[1:2] in ((Word("-v"),), (Word("-V"),)))


def _joined_text(words: tuple[Word, ...], values: Values) -> str | None:
    texts = [expand_tested(word, values) for word in words]
    return None if None in texts else " ".join(text for text in texts if text is not None)


def _asks_arguments(word: Word) -> bool:
    return word.is_count or "$#" in word.text or any(_ARGUMENT.match(part) for part in word.unresolved)
