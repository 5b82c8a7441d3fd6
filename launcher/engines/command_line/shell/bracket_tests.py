"""What a test of a shell says: `[ -z "$A" ]`, `[[ $A == b* && -f c ]]`, `((N > 1))`. Pure.

The text's own values decide it where they can. A file decides it only where the text may read files: see
`Files`.
"""

import fnmatch
from collections.abc import Callable, Mapping
from typing import TypeAlias

from launcher.engines.command_line.shell.arithmetic import evaluate_arithmetic
from launcher.engines.command_line.shell.associative_arrays import get_elements
from launcher.engines.command_line.shell.variables import Values, Variables
from launcher.engines.command_line.shell.words import Word
from preflight import regex as re

Answer: TypeAlias = bool | None  # of a condition; None where the text does not decide it

Files: TypeAlias = Callable[[str], str | None]  # a small file beside the text, None where none is

_POSITIONAL = re.compile(r"\$(?:[0-9@*]|\{[0-9@*]+(?::?-)?\})")
_NAMED = re.compile(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})", re.ASCII)
_CHANGED = re.compile(
    r"\$(?:([A-Za-z_]\w*)|\{#?([A-Za-z_]\w*)(?:(?::(?![-=+?])|[/%#^,]).*)?\})", re.ASCII | re.DOTALL
)
"""A variable, or a part of one, that needs a value: not `${NAME:-default}`."""

_KEYED = re.compile(r"\$\{([A-Za-z_]\w*)\[([\w.-]+)\]\}", re.ASCII)

OF_SHELL = re.compile(
    r"HOSTNAME|HOSTTYPE|OSTYPE|MACHTYPE|E?UID|PPID|RANDOM|SECONDS|LINENO|EPOCH(?:SECONDS|REALTIME)|BASH\w*|SHELLOPTS|IFS"
)
"""Variables that every shell sets."""

_DEMAND = re.compile(r"\$\{\w+:?\?")
_OF_JOB = re.compile(
    r"(?:SLURM|PBS|LSB|SGE|PJM|OMPI|PMIX?|KUBERNETES|POD|SM|CONDA|CUDA|NVIDIA|MASTER|NPROC)_\w+"
    r"|(?:SKY|SKYPILOT|DSTACK|RUNPOD|AZUREML|AZ|AIP|LWS|VC|MLP|PET|RAY|COBALT|FLUX|JSM|MV2|MPI|JOB)_\w+"
    r"|(?:\w+_)?(?:RANK|INDEX)|(?:LOCAL_)?WORLD_SIZE|NNODES|NUM_NODES|VIRTUAL_ENV"
    r"|USER|LOGNAME|SHELL|TERM|DISPLAY|TMPDIR|LANG|PATH|HOME|PWD"
)
"""Variables that a scheduler, a container or a login sets: empty only where a test asks for that."""

_NUMBER = re.compile(r"[+-]?[0-9]{1,12}")
_NUMBERS: Mapping[str, Callable[[int, int], bool]] = {
    "-eq": int.__eq__,
    "-ne": int.__ne__,
    "-lt": int.__lt__,
    "-le": int.__le__,
    "-gt": int.__gt__,
    "-ge": int.__ge__,
}
_TEXTS = ("=", "==", "!=", "=~", "<", ">")
_FILE_TESTS = ("-f", "-e", "-r", "-s", "-a")


def decide_test(words: tuple[Word, ...], values: Values, files: Files | None = None) -> Answer:
    """Return what a test says, its brackets included; None where it is not known."""
    is_opposite = words[0].text == "!"
    rest = words[1:] if is_opposite else words
    if rest[0].text == "((":
        number = evaluate_arithmetic(rest[1].text, values)
        return None if number is None else (number != 0) is not is_opposite
    is_double = rest[0].text == "[["
    rest = rest[1:-1] if rest[-1].text in ("]", "]]") else rest[1:]
    answer = _Test(rest, values, files, is_double=is_double).answer()
    return negate(answer) if is_opposite else answer


class _Test:
    """Reads the words between the brackets, `-o` and `||` binding less than `-a` and `&&`."""

    def __init__(
        self, words: tuple[Word, ...], values: Values, files: Files | None, *, is_double: bool
    ) -> None:
        self.words = words
        self.values = values
        self.files = files
        self.is_double = is_double
        self.at = 0

    def answer(self) -> Answer:
        value = self._either()
        if self.at == len(self.words):
            return value
        # a shell refuses such a test, and continues as after a "no"
        return None if self.is_double or not all(word.is_known for word in self.words) else False

    def _next(self) -> str:
        return self.words[self.at].text if self.at < len(self.words) else ""

    def _either(self) -> Answer:
        value = self._both()
        while self._next() == ("||" if self.is_double else "-o"):
            self.at += 1
            value = join_or(value, self._both())
        return value

    def _both(self) -> Answer:
        value = self._one()
        while self._next() == ("&&" if self.is_double else "-a"):
            self.at += 1
            value = join_and(value, self._one())
        return value

    def _one(self) -> Answer:
        left = len(self.words) - self.at
        if self._next() == "!" and left > 1:
            self.at += 1
            return negate(self._one())
        if self._next() == "(" and left > 2:
            self.at += 1
            value = self._either()
            is_closed = self._next() == ")"
            self.at += 1
            return value if is_closed else None
        second = self.words[self.at + 1].text if left > 1 else ""
        if left > 2 and (second in _NUMBERS or second in _TEXTS):
            self.at += 3
            return self._compared(self.words[self.at - 3], second, self.words[self.at - 1])
        first = self._next()
        ends = (*(("&&", "||", ")") if self.is_double else ("-a", "-o", ")")), "")
        if re.fullmatch(r"-[a-zA-Z]", first) and (second not in ends or (left > 1 and second == "")):
            self.at += 2
            return self._asked(first, self.words[self.at - 1])
        if left < 1:
            return False  # `[ $NAME ]`, where NAME is empty
        self.at += 1
        if first in ("-z", "-n"):  # of an array or variable that is empty
            return first == "-z"
        text = _text(self.words[self.at - 1], self.values, is_asked=True)
        return None if text is None or re.fullmatch(r"-[a-zA-Z]", first) else text != ""

    def _asked(self, operator: str, word: Word) -> Answer:
        if operator == "-v":
            known = expand_tested(word, self.values)
            name, bracket, key = (known or "").partition("[")
            elements = get_elements(name, self.values) if bracket else None
            if elements is not None:
                return key.removesuffix("]") in elements
            return None if not known or known not in self.values else True
        text = _text(word, self.values, is_asked=operator in ("-z", "-n"))
        if operator in ("-z", "-n"):
            return None if text is None else (text == "") is (operator == "-z")
        if operator in _FILE_TESTS and self.files is not None and text and self.files(text) is not None:
            return True
        return None

    def _compared(self, first: Word, operator: str, second: Word) -> Answer:
        left, right = expand_tested(first, self.values), expand_tested(second, self.values)
        if operator in ("=", "==", "!=") and left is not None:
            plain = None if right is None else left == right
            answer = match_pattern(left, second, self.values) if self.is_double else plain
            return answer if operator != "!=" else negate(answer)
        if left is None or right is None:
            return None
        if operator == "=~" and self.is_double and "shopt nocasematch" not in self.values:
            return _contains(left, right)
        if operator in ("<", ">") and self.is_double and (left + right).isdecimal() and left and right:
            return left < right if operator == "<" else left > right
        if operator not in _NUMBERS:
            return None
        if self.is_double:  # as in arithmetic, where nothing is 0
            left, right = left or "0", right or "0"
        are_numbers = _NUMBER.fullmatch(left) and _NUMBER.fullmatch(right)
        return _NUMBERS[operator](int(left), int(right)) if are_numbers else None


def _contains(text: str, pattern: str) -> Answer:
    """Return what `=~` says of a pattern that says the same in quotes, which make it a plain text."""
    if re.search(r"[*+?()\[\]{}|\\]", pattern):
        return None
    answer = re.search(pattern, text) is not None
    return answer if answer == (pattern in text) else None


def match_pattern(text: str, pattern: Word, values: Values) -> Answer:
    """Return whether a text is what a pattern of `case` or `[[` says; None where the pattern has no value."""
    is_glob = pattern.unresolved == (pattern.text,) and not re.search(r"[$`<]", pattern.text)
    shown = pattern.text if is_glob else expand_tested(pattern, values)
    if shown is None or re.search(r"[@!+?*]\(|\[[:.=]", shown):
        return None
    if "shopt nocasematch" in values:
        text, shown = text.lower(), shown.lower()
    if re.search(r"[*?\[]", shown):
        return fnmatch.fnmatchcase(text, shown.replace("[^", "[!"))
    return text == shown


def expand_tested(word: Word, values: Values) -> str | None:
    """Return the text of a word as a test compares it; None where a part of it has no value.

    Arguments of the text are empty, and so are variables that nothing sets.
    """
    return _text(word, values, is_asked=False)


def _text(word: Word, values: Values, *, is_asked: bool) -> str | None:
    text = word.text
    for part in word.unresolved:
        named = _NAMED.fullmatch(part)
        name = (named[1] or named[2]) if named is not None else ""
        is_set = not name or name in values or OF_SHELL.fullmatch(name)
        if not _POSITIONAL.fullmatch(part) and (is_set or (not is_asked and _OF_JOB.fullmatch(name))):
            return None
        text = text.replace(part, "", 1)
    return text


def ends_unset(part: str, values: Variables) -> bool:
    """Whether a text ends at a part without a value: `${NAME:?}`; in a strict one (`set -u`) `$NAME`, too.

    But for a variable that a job, a shell or a login sets.
    """
    named = _CHANGED.fullmatch(part) if values.is_strict else None
    name = (named[1] or named[2]) if named is not None else ""
    keyed = _KEYED.fullmatch(part) if values.is_strict else None
    elements = get_elements(keyed[1], values) if keyed is not None else None
    if _DEMAND.match(part) or (keyed is not None and elements is not None and keyed[2] not in elements):
        return True
    is_set = name in values or OF_SHELL.fullmatch(name) or _OF_JOB.fullmatch(name)
    return bool(name) and not is_set


def join_and(left: Answer, right: Answer) -> Answer:
    """Return `left && right`."""
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def join_or(left: Answer, right: Answer) -> Answer:
    """Return `left || right`."""
    return negate(join_and(negate(left), negate(right)))


def negate(value: Answer) -> Answer:
    """Return `! value`."""
    return None if value is None else not value
