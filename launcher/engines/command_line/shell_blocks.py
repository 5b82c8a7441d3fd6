"""Conditions and loops of a text: which of its commands run. Pure, and nothing is run for it.

The text's own values decide a condition where they can (`[ -z "$NAME" ]`, `[ "$N" -gt 1 ]`): the commands of
the other branch are left out. A file that exists, a loop and the answer of a program decide nothing.
"""

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from launcher.engines.command_line.expansions import Values, arithmetic
from launcher.engines.command_line.words import Word

_TESTS = ("[", "[[", "test", "((")
_OPENING = ("if", "while", "until", "for", "select", "case", "{")
_ENDING = ("fi", "done", "esac", "}")
_ALONE = ("if", "elif", "then", "else", "while", "until", "do", "{")
"""Words of a shell that a command follows without an operator."""

_POSITIONAL = re.compile(r"\$(?:[0-9@*]|\{[0-9@*]+\})")
_NAMED = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})", re.ASCII)
_NUMBER = re.compile(r"-?[0-9]{1,12}")
_COMPARISONS: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": int.__eq__,
    "-ne": int.__ne__,
    "-lt": int.__lt__,
    "-le": int.__le__,
    "-gt": int.__gt__,
    "-ge": int.__ge__,
}


Answer: TypeAlias = bool | None
"""Of a condition; None where the text does not decide it."""

_ANSWERS: Mapping[str, Answer] = {"true": True, ":": True, "false": False, "getopts": False}
"""Of commands; `getopts` finds no argument in a text that has none."""


class _Block:
    """One condition, loop or group that is open."""

    def __init__(self, kind: str, guard: Answer, *, in_condition: bool) -> None:
        self.kind = kind
        self.guard = guard  # of a group: the test in front of it
        self.in_condition = in_condition
        self.runs: Answer = True  # the branch that is read
        self.value: Answer = None  # of the condition, as far as it has been read
        self.taken: Answer = False  # whether an earlier branch has run
        self.operator = ""  # in front of the next command of the condition


class ShellBlocks:
    """Follows the conditions and loops of a text, command by command."""

    def __init__(self) -> None:
        self.open: list[_Block] = []
        self.guard: Answer = True  # of the next command: `TEST && command`
        self.is_guarded = False
        self.in_test = False  # inside of `[[ a && b ]]`
        self.test = "test"  # the last one, as the text has it
        self.kinds: dict[str, None] = {}  # what the text has had, in its order

    @property
    def runs(self) -> Answer:
        """Whether the next command runs; None where the text does not decide it."""
        result = self.guard
        for block in self.open:
            result = _both(result, block.runs)
        return result

    @property
    def kind(self) -> str:
        """The innermost condition or loop that the text does not decide."""
        undecided = [block.kind for block in self.open if block.runs is None]
        return undecided[-1] if undecided else self.test

    @property
    def in_case(self) -> bool:
        """Whether a word before `)` is a pattern of `case`."""
        return bool(self.open) and self.open[-1].kind == "case"

    def take(self, words: tuple[Word, ...], end: str, values: Values) -> bool:
        """Take a command that is of the shell alone; return False for any other. `end` is what follows it."""
        name = words[0].text
        if name == "((" and is_assignment(words[1].text):
            return False
        if self.in_test or name in _TESTS or (name == "!" and len(words) > 1 and words[1].text in _TESTS):
            self._take_test(words, end, values)
        elif name in _OPENING:
            self._begin(name, is_empty=name == "for" and [word.text for word in words[2:]] in ([], ["in"]))
        elif name in ("elif", "else", "then", "do") and self.open:
            self._next_branch(self.open[-1], name)
        elif name in _ENDING and self.open:
            block = self.open.pop()
            self._after(end, block.guard, is_guarded=block.kind == "{")
        elif self.in_case and end == "|":
            return True  # one of several patterns
        elif self.open and self.open[-1].in_condition:
            self._condition(_ANSWERS.get(name), end)
        else:
            return False
        return True

    def after(self, end: str) -> None:
        """Take what follows a command that was none of the shell's."""
        self._after(end, self.guard, is_guarded=self.is_guarded)

    def _after(self, end: str, guard: Answer, *, is_guarded: bool) -> None:
        self.is_guarded = is_guarded and end in ("&&", "||")
        self.guard = True
        if self.is_guarded:
            self.guard = guard if end == "&&" else _opposite(guard)

    def _begin(self, kind: str, *, is_empty: bool) -> None:
        is_condition = kind in ("if", "while", "until")
        block = _Block(kind, self.guard, in_condition=is_condition)
        if is_condition:
            block.taken = _opposite(self.guard)
        else:
            block.value = False if is_empty else None
            block.runs = self.guard if kind == "{" else False if is_empty else None
        self.guard, self.is_guarded = True, False
        self.open.append(block)
        if kind != "{":
            self.kinds[kind] = None

    def _next_branch(self, block: _Block, name: str) -> None:
        block.in_condition = name == "elif"
        if name == "then":
            block.runs = _both(_opposite(block.taken), block.value)
            block.taken = _either(block.taken, block.value)
        elif name == "do":
            is_never = block.value is (block.kind == "until") and block.value is not None
            block.runs = False if is_never else None
        else:
            block.runs = _opposite(block.taken)
        block.value, block.operator = None, ""

    def _take_test(self, words: tuple[Word, ...], end: str, values: Values) -> None:
        ends = words[-1].text == "]]"
        if words[0].text in _TESTS:
            self.test = words[0].text
        is_part = self.in_test or (words[0].text == "[[" and not ends)
        self.in_test = is_part and not ends
        value = None if is_part else decide(words, values)
        if self.in_test:
            return
        if self.open and self.open[-1].in_condition:
            self._condition(value, end)
        else:
            self._after(end, value, is_guarded=True)

    def _condition(self, value: Answer, end: str) -> None:
        block = self.open[-1]
        if block.operator == "&&":
            value = _both(block.value, value)
        elif block.operator == "||":
            value = _either(block.value, value)
        elif block.operator in ("|", "|&"):
            value = None
        block.value, block.operator = value, end


def is_assignment(expression: str) -> bool:
    """Whether `((EXPRESSION))` sets a variable and asks nothing."""
    return re.search(r"\+\+|--|(?<![<>=!])=(?!=)", expression) is not None


def is_alone(word: str) -> bool:
    """Whether a command may follow a word of the shell without an operator between them."""
    return word in _ALONE


def decide(words: tuple[Word, ...], values: Values) -> Answer:
    """Return what a test says: `[ -n "$A" ]`, `[[ $A == b ]]`, `test 1 -lt 2`; None where it is not known."""
    is_opposite = words[0].text == "!"
    rest = words[1:] if is_opposite else words
    if rest[0].text == "((":
        number = arithmetic(rest[1].text, values)
        return None if number is None else (number != 0) is not is_opposite
    rest = rest[1:-1] if rest[-1].text in ("]", "]]") else rest[1:]
    if rest and rest[0].text == "!":
        is_opposite, rest = not is_opposite, rest[1:]
    value = _value(rest, values)
    return _opposite(value) if is_opposite else value


def _value(words: tuple[Word, ...], values: Values) -> Answer:
    if len(words) == 1 and words[0].text in ("-z", "-n"):  # of an array or variable that is empty
        return words[0].text == "-z"
    if len(words) == 2 and words[0].text in ("-z", "-n"):
        text = _text(words[1], values, is_unset_empty=True)
        return None if text is None else (text == "") is (words[0].text == "-z")
    if len(words) < 2 and not any(word.text.startswith("-") for word in words):  # `[ $NAME ]`
        text = _text(words[0], values, is_unset_empty=True) if words else ""
        return None if text is None else text != ""
    if len(words) != 3:
        return None
    left, right = (_text(words[place], values, is_unset_empty=False) for place in (0, 2))
    operator = words[1].text
    if left is None or right is None:
        return None
    if operator in _COMPARISONS:
        are_numbers = _NUMBER.fullmatch(left) and _NUMBER.fullmatch(right)
        return _COMPARISONS[operator](int(left), int(right)) if are_numbers else None
    if operator in ("=", "==", "!=") and not re.search(r"[*?\[]", right):
        return (left == right) is (operator != "!=")
    return None


def _text(word: Word, values: Values, *, is_unset_empty: bool) -> str | None:
    """Return the text of a word, arguments of the text and variables that it does not set being empty."""
    text = word.text
    for part in word.unresolved:
        named = _NAMED.fullmatch(part)
        is_unset = named is not None and (named[1] or named[2]) not in values
        if not (_POSITIONAL.fullmatch(part) or (is_unset and is_unset_empty)):
            return None
        text = text.replace(part, "", 1)
    return text


def _both(left: Answer, right: Answer) -> Answer:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _either(left: Answer, right: Answer) -> Answer:
    return _opposite(_both(_opposite(left), _opposite(right)))


def _opposite(value: Answer) -> Answer:
    return None if value is None else not value
