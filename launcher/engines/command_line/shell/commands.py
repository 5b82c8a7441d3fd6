"""The commands of a text in the order in which a shell runs them: loops, functions, files of settings.

A loop whose words the text gives yields its commands once for each of them, the call of a function yields
those of the function. Nothing is run; the values of variables decide, see `ShellState`.
"""

from collections.abc import Generator, Iterable, Iterator, Mapping

from launcher.engines.command_line import refusals, side_commands
from launcher.engines.command_line.shell import redirections
from launcher.engines.command_line.shell.aliases import join_aliases
from launcher.engines.command_line.shell.arithmetic import evaluate_arithmetic, read_assignment
from launcher.engines.command_line.shell.block_extents import CLOSERS, find_keyword
from launcher.engines.command_line.shell.blocks import ALONE, Command, ShellBlocks
from launcher.engines.command_line.shell.bracket_tests import Answer
from launcher.engines.command_line.shell.doubts import define_functions, forget_counter
from launcher.engines.command_line.shell.read_loops import list_rounds
from launcher.engines.command_line.shell.replay_limits import Replays
from launcher.engines.command_line.shell.state import ShellState, Surroundings
from launcher.engines.command_line.shell.subshells import ENDS, Subshells, is_subshell, may_have_subshell
from launcher.engines.command_line.shell.terminals import SENTENCE, extract_locked, extract_typed
from launcher.engines.command_line.shell.tokens import ShellTokens
from launcher.engines.command_line.shell.variables import get_args
from launcher.engines.command_line.shell.words import ASSIGNMENT, Word, is_assignment
from launcher.engines.command_line.tables.wrappers import TRANSPARENT
from preflight import regex as re

_ASSIGNED_BEHIND = re.compile(r"(?:[ \t]|\\\r?\n)+[A-Za-z_]\w*\+?=", re.ASCII)
_REDIRECTION = re.compile(r"&?\d{0,3}(>[>|]?|<)(&(\d|-)?)?$")
_FUNCTION = re.compile(r"[ \t]*\)\s*(?:\{(?=\s)|\((?!\())")
_NAME = re.compile(r"[A-Za-z_][\w:.-]*", re.ASCII)
_ARGUMENTS = re.compile(r"\$(?:[@*]|\{[@*])")
_GETOPTS = re.compile(r"\s*getopts[ \t]+\S+[ \t]+(\w+)[\s;]*(?P<given>[^\s;]?)")
_TEXT_OF_EVAL = "its text is the command"


class CommandReader:
    """Reads the commands of a text; what they leave behind is in `shell`."""

    def __init__(self, text: str, shell: ShellState, replays: Replays) -> None:
        self.text = text
        self.shell = shell
        self.replays = replays
        self.may_have_subshell = may_have_subshell(text)
        self.tokens = ShellTokens(text, shell.values)
        self.words: list[Word] = []
        self.groups: list[Surroundings] = []
        self.subshells = Subshells(shell)
        self.before: Surroundings | None = None  # a list that `&` may put aside: `cd DIR && serve &`
        self.has_array = self.is_behind_loop = False
        self.start = 0  # of the command that is read
        self.status: Answer = True  # of the last substitution in it

    def commands(self) -> Iterator[Command]:
        """Yield every command, without redirections and arrays. Raises CommandRefused."""
        for token in self.tokens:
            yield from self._word(token) if isinstance(token, Word) else self._operator(token.text)
            if self.shell.left:
                if self.groups:  # of a function in parentheses
                    self.shell.restore(self.groups[0], len(self.groups))
                self.subshells.leave(is_left=True)
                return
        if self.words or self.is_behind_loop:
            yield from self._finish("")

    def _word(self, word: Word) -> Iterator[Command]:
        words, blocks = self.words, self.shell.blocks
        if words == [Word("}")]:  # of a page, as no shell takes it
            yield self._taken(), ";"
        self._drop_first(word.text)
        words.append(word)
        self.shell.values.uncover()
        if _ASSIGNED_BEHIND.match(self.text, self.tokens.at) and all(map(is_assignment, words)):
            self.shell.values.cover(words)
        first = words[0].text
        self.tokens.splits = not (self._is_in_test() or (first == "case" and word.text != "in"))
        if blocks.awaits_pattern:
            blocks.open[-1].awaits_pattern = words != [Word("esac")]
        elif first == "case" and word.text == "in" and len(words) > 2:
            self._enter_subshell(first)
            yield self._taken(), ";"
        elif first == "function" and word.text == "{" and len(words) == 3:
            self._define(words[1].text)
        elif len(words) == 1 and first in ("while", "until") and blocks.runs and not blocks.in_condition:
            yield from self._while(first)
        elif (len(words) == 1 and first in ALONE) or (first == "!" and word.text == "{" and len(words) == 2):
            self._enter_subshell(word.text)
            yield self._taken(), ";"

    def _drop_first(self, following: str) -> None:
        """Leave out `! !`, and `time` in front of a command of the shell; with options it is a program."""
        texts = [word.text for word in self.words[:3]]
        if texts == ["!", "!"] or (texts in (["time"], ["time", "-p"]) and following[:1] != "-"):
            self.words.clear()
            self.shell.dropped += [TRANSPARENT["time"]] if texts[0] == "time" else []

    def _is_in_test(self) -> bool:
        """Whether the command is a `[[` without its end, whose operators are its own."""
        start = self.words[:2] if self.words[:1] == [Word("!")] else self.words[:1]
        return Word("[[") in start and self.words[-1].text != "]]"

    def _taken(self) -> tuple[Word, ...]:
        words, self.words[:] = tuple(self.words), ()
        self.status, self.shell.values.ends = (True, *self.shell.values.ends)[-1], ()
        return words

    def _operator(self, operator: str) -> Iterator[Command]:
        words, shell = self.words, self.shell
        if shell.blocks.awaits_pattern:
            if operator == ")":
                shell.blocks.take_pattern(self._taken(), shell.values)
        elif self._is_in_test() and not operator.startswith("<<"):
            words += [Word(operator)] if operator != "\n" else []  # a test may continue below
        elif operator == "(" and words and ASSIGNMENT.fullmatch(words[-1].text):
            redirections.read_array(shell, words, self.tokens)
            self.has_array = not words
        elif operator == "(" and self._is_function():
            self._define(words[-1].text)
        elif operator in ("<<", "<<-"):
            redirections.read_here(shell, words, redirections.read_target(self.tokens))
        elif operator == "<<<":
            redirections.read_text(shell, words, redirections.read_string(self.tokens))
            self.has_array = not words
        elif _REDIRECTION.fullmatch(operator):
            ends_loop = self.is_behind_loop or self.words[:1] == [Word("done")]
            redirections.read_redirection(shell, words, operator, self.tokens, is_end_of_loop=ends_loop)
        elif operator in (";;", ";&", ";;&"):
            yield from self._finish(";")
            shell.blocks.end_pattern(operator)
        else:
            yield from self._group(operator)

    def _group(self, operator: str) -> Iterator[Command]:
        """Take what ends a command, or a parenthesis. Raises CommandRefused for one of no group."""
        words, shell = self.words, self.shell
        self._drop_first(operator if operator == "(" else "-")
        if operator == "(" and words in ([], [Word("!")]):
            self.groups.append(shell.enter_group())
            yield (*self._taken(), Word("{")), ";"
            shell.blocks.open[-1].is_shell = True
            return
        if operator in "()" and not (operator == ")" and self.groups):
            raise refusals.explain_parenthesis(operator, words)
        if operator == "&":
            redirections.choose_remarks(shell, words).append(f"&: {SENTENCE}")
        before = self.before or (shell.enter_group(0) if operator == "&&" else None)
        yield from self._finish(";" if operator in ("\n", ")") else operator)
        self.before = before if operator == "&&" else None
        if operator == "&" and before is not None:
            shell.restore(before, 0)
        if operator == ")":
            shell.restore(self.groups.pop())
            self.words.append(Word("}"))

    def _finish(self, end: str) -> Iterator[Command]:
        """Yield the command that ends, or the commands of the loop, the function or the file that it is."""
        shell, words = self.shell, self._taken()
        shell.writing, shell.body, inner = [], None, None
        if self.is_behind_loop or (not words and self.has_array):
            shell.blocks.take_program(end, is_question=self.is_behind_loop and shell.blocks.is_question)
            self.is_behind_loop = False
        elif words:
            inner = self._inner(words)
            if inner is None or words[0].text != "for":
                self._enter_subshell(words[0].text, end)
            if inner is None:
                forget_counter(shell, words)
                if all(map(is_assignment, words)):
                    shell.blocks.status = self.status
                yield words, end
            else:
                shell.dropped += shell.redirected
                yield from shell.blocks.follow(inner, words, end)
            self.subshells.leave()
        shell.is_piped = end in ("|", "|&") and (not words or inner is not None)
        self.has_array, self.start, shell.redirected = False, self.tokens.at, []

    def _enter_subshell(self, name: str, end: str = "") -> None:
        """Start what has a shell of its own, where the command whose first word is `name` has one."""
        is_part = end in ENDS or self.subshells.is_behind_pipe
        if not is_part and name in CLOSERS and self.may_have_subshell:
            block = self._find(self.tokens.at, CLOSERS[name])
            is_part = block is not None and is_subshell(self.text, block[1])
        if is_part and name not in CLOSERS.values():
            self.subshells.enter(is_block=name in CLOSERS)

    def _inner(self, words: tuple[Word, ...]) -> Iterator[Command] | None:
        """Return the commands that one stands for; None for any other."""
        shell, name = self.shell, words[0].text
        runs = shell.blocks.asks_next if shell.blocks.in_condition else shell.blocks.runs
        at = next((at for at, word in enumerate(words) if not is_assignment(word) and (at or name != "!")), 0)
        if words[at].text in shell.functions and runs is not False:
            return self._call(words[name == "!" : at], words[at:], runs)
        if runs is False or shell.blocks.in_condition:
            return None
        if name == "for" and runs:
            return self._for(words)
        text, said = extract_typed(words), SENTENCE
        lacking = " ".join(part for word in words for part in word.unresolved)
        if name == "eval" and len(words) > 1 and not re.search(r"[$`<]", lacking):
            text, said = " ".join(word.text for word in words[1:]), _TEXT_OF_EVAL
        if text is None and (text := extract_locked(words)) is not None:
            said = TRANSPARENT["flock"].partition(": ")[2]
        if text is not None:
            shell.dropped.append(f"{name}: {said}")
            return self._replay(self.replays.clean(text), shell.blocks.kind, is_certain=runs is True)
        if name in ("source", ".") and len(words) > 1 and not side_commands.explain_drop(words, after=False):
            settings = redirections.find_settings(shell, words[1])
            return None if settings is None else self._sourced(words, runs, settings)
        return None

    def _replay(self, text: str, kind: str, *, is_certain: bool = True) -> Generator[Command, None, bool]:
        """Yield the commands of a text within the text, and leave the conditions that are open at its end.

        Returns whether a condition that the text does not decide has left it early.
        """
        shell = self.shell
        leave = shell.blocks.enter_body()
        depth, around = shell.blocks.depth, (shell.loops, shell.returns)
        self.replays.count(text)
        self.replays.depth += 1
        if not is_certain:
            shell.blocks.doubts[depth] = kind
        has_doubts, shell.may_leave = False, None
        for command in CommandReader(text, shell, self.replays).commands():
            yield command  # and then the outermost of these texts continues first
            if shell.may_leave is not None and all(map(int.__ge__, around, shell.may_leave)):
                shell.blocks.doubts[depth], has_doubts = kind, True
            shell.may_leave = None if depth == shell.blocks.depth else shell.may_leave
        self.replays.depth -= 1
        shell.blocks.last = None if has_doubts else shell.blocks.last
        shell.blocks.is_question |= has_doubts
        leave()
        return has_doubts

    def _find(self, at: int, word: str) -> tuple[int, int] | None:
        """Return the span of a word of the block around `at`. Raises CommandRefused as `Replays.count`."""
        found = find_keyword(self.text, at, (word,))
        self.replays.look((len(self.text) if found is None else found[1]) - at)
        return found

    def _loop_body(self) -> str | None:
        """Return what is between the next `do` and its `done`, and continue behind it; None without one."""
        start = self._find(self.tokens.at, "do")
        end = self._find(start[1], "done") if start is not None else None
        if start is None or end is None or self.text[self.tokens.at : start[0]].strip(" \t\r\n;"):
            return None
        self.tokens.seek(end[1])
        self.is_behind_loop = True
        return self.text[start[1] : end[0]]

    def _for(self, words: tuple[Word, ...]) -> Iterator[Command] | None:
        """Return the commands of `for NAME in WORDS`, once for each word; None where a word has no value."""
        if len(words) > 1 and words[1].text == "((":
            return self._count(words[2].text)
        values = words[3:] if len(words) > 2 else get_args(self.shell.values) or ()
        is_known = all(word.is_known for word in (*words, *values))
        if not is_known or len(words) < 2 or not _NAME.fullmatch(words[1].text):
            return None
        name, body = words[1].text, self._loop_body()
        return None if body is None else self._rounds(({name: word.text} for word in values), body)

    def _rounds(self, rounds: Iterable[Mapping[str, str]], body: str) -> Iterator[Command]:
        shell = self.shell
        is_certain = shell.blocks.last = True
        shell.blocks.kinds["for"] = None
        if self.subshells.is_behind_pipe or is_subshell(self.text, self.tokens.at):
            self.subshells.enter(is_block=False)
        for values in rounds:
            shell.values.update(values)
            for name in values if not is_certain else ():
                shell.forget(name, is_exported=False)
            shell.loops += 1
            has_doubts = yield from self._replay(body, "for", is_certain=is_certain)
            shell.loops -= 1
            is_certain = is_certain and not has_doubts
            left, _, count = shell.left.partition(" ")
            if left in ("break", "continue"):
                shell.left = f"{left} {int(count) - 1}".removesuffix(" 1") if count else ""
            if left not in ("", "continue") or count:
                break
        shell.blocks.status = shell.blocks.last
        self.subshells.leave()

    def _count(self, expression: str) -> Iterator[Command] | None:
        """Return the commands of `for ((i = 0; i < 4; i++))`; None where a number has no value."""
        start, *rest = [part.strip() for part in expression.split(";")]
        values = self.shell.values
        name, first = read_assignment(start, values)
        if first is None or len(rest) != 2:
            return None
        condition, step = rest
        is_known = evaluate_arithmetic(condition, {**values, name: str(first)}) is not None
        body = self._loop_body() if is_known else None

        def rounds() -> Iterator[Mapping[str, str]]:
            values[name] = str(first)
            while evaluate_arithmetic(condition, values):
                yield {}
                self.replays.count(step)
                if not self.shell.prepare((Word("let"), Word(step))):
                    return

        return None if body is None else self._rounds(rounds(), body)

    def _while(self, kind: str) -> Iterator[Command]:
        """Yield the commands of a loop whose condition the values of the text decide, or its first word."""
        start = self.tokens.at
        do = self._find(start, "do")
        condition = self.text[start : do[0]] if do is not None else ""
        wanted = kind == "while"
        done = self._find(do[1], "done") if do is not None and wanted else None
        given = list_rounds(self.text, condition, (do[1], done[1]), self.shell) if do and done else None
        if do is not None and given is not None:
            self.words.clear()
            self.tokens.seek(do[0])
            body, _, _ = self._loop_body() or "", next(self.tokens), next(self.tokens)
            yield from self._rounds(given, body)
            return
        is_test = re.match(r"\s*(?:!\s*)?(?:\[|\(\(|test\b)", condition)
        if do is None or not (is_test and self._decided(condition) is wanted):
            options = _GETOPTS.match(condition)
            if options is not None and (options["given"] or get_args(self.shell.values)):
                for name in (options[1], "OPTARG", "OPTIND"):  # which are not read
                    self.shell.forget(name, is_exported=False, why="set by getopts")
            self._enter_subshell(kind)
            yield self._taken(), ";"
            return
        self.words.clear()
        self.tokens.seek(do[0])
        body = self._loop_body() or ""
        again = iter(lambda: self._decided(condition) is wanted, False)
        yield from self._rounds(({} for _ in again), body)

    def _decided(self, condition: str) -> Answer:
        """Return what the condition of a loop says."""
        blocks, other = self.shell.blocks, ShellBlocks(self.shell.files)
        self.replays.count(condition)
        self.shell.blocks = other
        answer: Answer = None
        try:
            reader = CommandReader(f"if {condition}\nthen :\nfi", self.shell, self.replays)
            for words, end in reader.commands():
                if words[0].text == ":" and not other.in_condition:
                    answer = other.runs
                    break
                other.take(words, end, self.shell.values)
        finally:
            self.shell.blocks = blocks
        return answer

    def _is_function(self) -> bool:
        *before, name = self.words or [Word("")]
        is_named = before in ([], [Word("function")]) and _NAME.fullmatch(name.text) is not None
        return is_named and _FUNCTION.match(self.text, self.tokens.at) is not None

    def _define(self, name: str) -> None:
        """Take a function, whose name or brace has just been read."""
        head = _FUNCTION.match(self.text, self.tokens.at)
        start = self.tokens.at if head is None or self.words[-1].text == "{" else head.end()
        is_group = self.text[start - 1] == "("
        end = self._find(start, ")" if is_group else "}")
        if end is None:
            raise refusals.explain_endless_function(name)
        body = self.text[start : end[0]]
        define_functions(self.shell, {name: f"({body})" if is_group else body})
        self.words.clear()
        self.tokens.seek(end[1])
        self.is_behind_loop = True

    def _call(self, given: tuple[Word, ...], words: tuple[Word, ...], runs: Answer) -> Iterator[Command]:
        """Yield the commands of a function that is `given` variables (`A=1 f`), where the call runs."""
        shell = self.shell
        text, words = join_aliases(shell.functions, words)
        has_words = any(word.text for word in words[1:]) or "@" in shell.values
        is_of_text = not has_words and _ARGUMENTS.search(self.text, self.start, self.tokens.at)
        shell.enter_function(None if is_of_text else words[1:])
        if given:
            shell.prepare((Word("local"), Word("-x"), *given))
        yield from self._returning(text, runs)
        shell.leave_function()

    def _returning(self, text: str, runs: Answer) -> Iterator[Command]:
        """Yield the commands of a function or a file, which `return` leaves."""
        shell = self.shell
        shell.returns += 1
        yield from self._replay(text, shell.blocks.kind, is_certain=runs is True)
        shell.returns -= 1
        shell.left = "" if shell.left == "return" else shell.left

    def _sourced(self, words: tuple[Word, ...], runs: Answer, text: str) -> Iterator[Command]:
        """Yield the commands of a file of settings."""
        shell = self.shell
        hidden = {name: shell.values.get(name) for name in ("BASH_SOURCE", "@")}
        shell.values["BASH_SOURCE"] = words[1].text
        if len(words) > 2:
            shell.values["@"] = words[2:]
        shell.dropped.append(f"{words[0].text} {words[1].text}: read as it is on this machine")
        yield from self._returning(self.replays.clean(text), runs)
        shell.give_back(hidden)
