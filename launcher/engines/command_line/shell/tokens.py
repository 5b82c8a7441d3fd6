"""Split text as a POSIX shell does: words and operators, quotes and variables. Pure; nothing is executed."""

from collections import deque
from collections.abc import Iterator

from launcher.engines.command_line.shell import block_extents
from launcher.engines.command_line.shell.expansions import (
    decode_escapes,
    escape_quoted,
    expand,
    expand_braces,
    fill_parts,
)
from launcher.engines.command_line.shell.variables import Split, Values, get_separators
from launcher.engines.command_line.shell.words import DECLARATIONS, Operator, Word, split_fields, split_open
from launcher.errors import CommandRefused
from preflight import regex as re

# `\` as in POSIX, `\\` as pages show it that escape it, `^` of cmd.exe, a backtick of PowerShell; and a `\`
# whose end of the line is lost, as what follows shows: `torchrun \ --nnodes=1 \ train.py`
_CONTINUED = re.compile(
    r"(?:\\{1,2}|(?<=[ \t])[\^`])[ \t\u00a0]*(?:\r?\n|\Z)"
    r"|(?<=[^\\][ \t])\\[ \t\u00a0]+(?=--[A-Za-z]|-m[ \t]|[\w./-]+\.py\b|[A-Za-z][\w.]*=)"
)
_JOINED = re.compile(r"\\\n(?=[^\s-])")
"""What ends a line within a word; a page may lack the blank in front of it, as an option behind it shows."""

_PLACEHOLDER = re.compile(
    r"<[^\W\d_](?:[^<>|&;()\n]|\([^<>|&;()\n]{0,80}\)){0,80}(?<![\s])>"
    r"|<\.\w[^<>|&;()\n]{0,80}>|(?<!%q)\{(?!\w+\.\.)[A-Za-z][\w ./|-]*\}"
    r"|<[A-Z][A-Z0-9 _./-]{0,60}(?:\| ?[A-Z0-9 _./-]{1,60}){0,5}>|<\\?# ?\w[\w -]{0,40}>"
    r"|<<<[A-Z][A-Z0-9 _-]{0,40}>>>"
    r"|\[[A-Za-z][\w-]{0,30}(?:[ |][A-Za-z][\w-]{0,30}){1,8}\]|\{\{[^{}\n]{1,80}\}\}"
)
_BRACKETED = re.compile(r"\[[A-Z][A-Z0-9]*(?:[_-][A-Z0-9]+)+\]")
_QUOTED_DRIVE = re.compile(r"[A-Za-z]:\\(?!n[A-Z ])(?:[\w. -]{3,}|[\w. -]+[\\/][\w. \\/-]*)")  # no "Q:\nWhy"
_WINDOWS_VARIABLE = re.compile(r"%[A-Z][A-Z_]{2,}%")
_WINDOWS_DRIVE = re.compile(r"[A-Za-z]:\\[^\s'\"|&;<>]*")
_OTHER_HOME = re.compile(r"~(?:[a-z_][a-z\d_-]*(?=/)|(?:root|[+-])(?=[/:\s;&|()<>]|\Z))")  # of a user
_PRODUCT = re.compile(r"(?<=\d)\*(?=\d)")  # `--size 1280*720`, and no name of a file
_LONE = re.compile(r"\?+(?=[\s;&|()<>]|\Z)")  # a file whose name has one character; `what?` is a text
_HOME = re.compile(r"~(?=[/\s;&|()<>]|\Z)")
_ESCAPED_TEXT = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_HAS_BRACES = re.compile(r"[^\s;&|()<>{}]*(?:\$\{[^{}\s]*\}[^\s;&|()<>{}]*)*\{[^{}\s]*(?:,|\.\.)[^{}\s]*\}")
_BRACES = re.compile(r"\{[^{}\s'\"]{0,200}(?:,|\.\.)[^{}\s'\"]{0,200}\}")
_OPERATOR = re.compile(r"&&|\|\||\|&|&>>|&>|;;&?|;&|<<[<-]?|\d{0,3}(?:>[>|]|>&[\d-]?|[<>])|[;&|()\n]")
_PLAIN = re.compile(r"[\w=:./,+@%-]+|\$(?=\")", re.ASCII)  # `$"TEXT"` is translated
_ASSIGNED = re.compile(r"[A-Za-z_]\w*(?:\[[^\[\]=\s]{1,100}\])?\+?=", re.ASCII)
_PAIR = re.compile(r"\[[^\[\]]{1,100}\]\+?=")
_ELLIPSIS = re.compile(r"(?:[^\s=]*=)?(?:\.{3,}|\u2026)|\[(?:--?[a-z][\w-]*|(?i:options|args|arguments))\]")
_ARITHMETIC = re.compile(r"\(\((?P<inner>(?:[^()\n]|\([^()\n]*\))*)\)\)")
_PROCESS = re.compile(r"[<>]\((?!\()")
_ENDS = frozenset(("\n", ";", ";;", ";&", ";;&", "&", "&&", "|", "||", "(", ")"))
_BEFORE_COMMAND = frozenset(("if", "elif", "then", "else", "while", "until", "do", "for", "{", "!"))
_LIST = re.compile(r"\$(?:@|\{@|\{!?[A-Za-z_]\w*\[@\])", re.ASCII)
"""Every word of it is a word in quotes, and none where it has none."""

_MOST_WORDS = 100_000
_LONGEST_WORD = 1_000_000
_SPACE = " \t\r\u00a0"
_SMART = {"\u201c": '"', "\u201d": '"', "\u2018": "'", "\u2019": "'", "\u2013": "--", "\u2014": "--"}
_SMART |= dict.fromkeys("\u2010\u2011\u2212\uff0d", "-")
_BEFORE_DASH = re.compile(r"(?:\A|\d[eE]|=)\Z")


class ShellTokens(Iterator[Word | Operator]):
    """The words and operators of a text, variables filled in from `values` when a word is reached.

    Iterating raises CommandRefused for a quote that does not end, for typographic quotes and dashes, and for
    a text whose variables make more of it than a command can be.
    """

    def __init__(self, text: str, values: Values, depth: int = 0) -> None:
        self.text = text
        self.at = 0  # behind the last token
        self._values = values
        self._depth = depth
        self.splits = True  # the values of variables at their blanks; not between `[[` and `]]`
        self._waiting: deque[Word | Operator] = deque()
        self._count = 0
        self._is_first = True  # of its command
        self._assigns = True  # whether `A=$B` is one word, in front of a command or behind `export`
        self._declares = False
        self._in_array = False
        self._here: block_extents.HereText | None = None  # below the line that is read

    def __next__(self) -> Word | Operator:
        while not self._waiting:
            if self.at >= len(self.text):
                raise StopIteration
            self._read()
        return self._waiting.popleft()

    def seek(self, at: int) -> None:
        """Continue behind a loop or a function that was read elsewhere."""
        self.at, self._is_first = at, False

    def _read(self) -> None:
        text, at = self.text, self.at
        continued = _CONTINUED.match(text, at)
        calculated = _ARITHMETIC.match(text, at) if self._is_first else None
        if continued is not None:
            self.at = continued.end()
        elif text[at] in _SPACE:
            self.at += 1
        elif text[at] == "#":
            end = text.find("\n", at)
            self.at = len(text) if end < 0 else end
        elif calculated is not None:
            inner = fill_parts(calculated["inner"], self._values, _splitter(self._values), self._depth)
            self._waiting += (Word("(("), Word(inner), Word("))"))
            self.at, self._is_first = calculated.end(), False
        elif (
            _PLACEHOLDER.match(text, at) is None
            and not _PROCESS.match(text, at)
            and (operator := _OPERATOR.match(text, at)) is not None
        ):
            self._read_operator(operator[0])
        else:
            self._read_word()

    def _read_operator(self, operator: str) -> None:
        self._waiting.append(Operator(operator))
        here = block_extents.find_here_text(self.text, self.at, self._here.end + 1 if self._here else 0)
        if operator in ("<<", "<<-") and here is not None:
            self._waiting.append(self._body(here))
            self.at, self._here = here.operator_end, here
            return
        is_array = operator == "(" and self.text[self.at - 1 : self.at] == "="
        self._in_array = is_array or (self._in_array and operator == "\n")
        self.at, self._is_first = self.at + len(operator), operator in _ENDS
        self._assigns, self._declares = self._is_first and not is_array, False
        if operator == "\n" and self._here is not None:
            self.at, self._here = self._here.end, None

    def _body(self, here: block_extents.HereText) -> Word:
        """Return a text in place as one word."""
        if here.is_quoted or not re.search(r"[$`\\]", here.body):
            return Word(here.body)
        quoted = f'"{escape_quoted(here.body)}"'
        return _joined(tuple(_WordReader(quoted, 0, self._values, self._depth).words()), " ")

    def _read_word(self) -> None:
        written = _written_words(self.text, self.at, is_assigned=self._assigns)
        if written:
            end, parts = written
            words = tuple(
                word for part in parts for word in _WordReader(part, 0, self._values, self._depth).words()
            )
        else:
            reader = _WordReader(
                self.text, self.at, self._values, self._depth, splits=self.splits, assigns=self._assigns
            )
            reader.in_array = self._in_array
            words, end = tuple(reader.words()), reader.at
        text = words[0].text if words else ""
        self._declares |= self._assigns and text in DECLARATIONS
        is_before = text in _BEFORE_COMMAND or _ASSIGNED.match(text) is not None
        self._assigns = self._declares or (self._assigns and is_before)
        self._count += len(words)
        if self._count > _MOST_WORDS or any(len(word.text) > _LONGEST_WORD for word in words):
            raise CommandRefused("the variables of the text grow without end", "paste one launch")
        self._waiting += words
        self.at, self._is_first = end, len(words) == 1 and words[0].text in _BEFORE_COMMAND


def _splitter(values: Values) -> Split:
    """Return what reads the default of a variable, or a command whose output takes its place."""
    return lambda text, depth: tuple(ShellTokens(text, values, depth))


def _written_words(text: str, at: int, *, is_assigned: bool) -> tuple[int, tuple[str, ...]] | None:
    """Return where the word at a place ends and what its braces make of it; None for one without braces."""
    if not _HAS_BRACES.match(text, at) or _PLACEHOLDER.match(text, at):
        return None
    if is_assigned and _ASSIGNED.match(text, at):
        return None
    end = block_extents.find_word_end(text, at)
    parts = expand_braces(text[at:end])
    return (end, parts) if parts != (text[at:end],) else None


def _joined(words: tuple[Word, ...], mark: str) -> Word:
    """Return the words of an array as the value of a variable has them."""
    return Word(
        mark.join(word.text for word in words), tuple(part for word in words for part in word.unresolved)
    )


class _WordReader:
    """Reads the word that starts at a place, which can become several or none."""

    def __init__(
        self, text: str, at: int, values: Values, depth: int, *, splits: bool = True, assigns: bool = False
    ) -> None:
        self.text = text
        self.at = at
        self.values = values
        self.depth = depth
        self.splits = splits
        self.assigns = assigns
        self.in_array = False
        self.done: list[Word] = []
        self.current: str | None = None
        self.unresolved: list[str] = []
        self.is_count = False
        self.is_split = False
        self.empty = (0, 0)  # the span of an array without words
        self.patterns = False  # whether a shell would look for files, or write several words

    def words(self) -> list[Word]:
        while self.at < len(self.text) and self._read_part():
            pass
        self._finish()
        return self.done

    def _read_part(self) -> bool:
        """Read a quote, a variable or a character; return False where the word ends."""
        char = self.text[self.at]
        if self._read_windows_drive():
            return True
        if plain := _PLAIN.match(self.text, self.at):
            self._add(plain[0].rstrip("$"))
            self.at = plain.end()
            return True
        if continued := _CONTINUED.match(self.text, self.at):
            self.at = continued.end()
            return self.current is not None and _JOINED.match(self.text, continued.start()) is not None
        placeholder = _PLACEHOLDER.match(self.text, self.at)
        if placeholder is not None:
            self._add_unresolved(placeholder[0])
            self.at = placeholder.end()
        elif self.current is None and _PROCESS.match(self.text, self.at):
            end = block_extents.find_closing(self.text, self.at)
            self._add_unresolved(self.text[self.at : end])
            self.at = end
        elif char in _SPACE or char in "\n;&|()<>":
            return False
        elif self.text.startswith("$'", self.at):
            self._read_escaped()
        elif char == "'":
            self._read_single_quoted()
        elif char == '"':
            self._read_double_quoted()
        elif char == "\\":
            self._add(self.text[self.at + 1 : self.at + 2])
            self.at += 2
        elif char in "$`" and self._read_expansion(is_quoted=not self.splits):
            pass
        else:
            self._read_character(char)
        return True

    def _read_windows_drive(self) -> bool:
        """Read a path of a drive of Windows, which no host has."""
        is_start = self.current is None or self.current.endswith("=")
        drive = _WINDOWS_DRIVE.match(self.text, self.at) if is_start else None
        if drive is not None:
            self._add_unresolved(drive[0])
            self.at = drive.end()
        return drive is not None

    def _read_character(self, char: str) -> None:
        """Take a character as it is, but for `~`, `*` and `{a,b}`."""
        self._check_typographic(char)
        is_assigned = re.fullmatch(r"(?a:[A-Za-z_]\w*)=(?:.*:)?", self.current or "", re.DOTALL) is not None
        home = self.values.get("HOME")
        is_start = self.current is None or (is_assigned and not self.in_array)
        other = _OTHER_HOME.match(self.text, self.at) if is_start and char == "~" else None
        if is_start and _HOME.match(self.text, self.at):
            self._add(home if isinstance(home, str) else char)
        elif other is not None:
            self._add_unresolved(other[0])
            self.at += len(other[0]) - 1
        else:
            self._add(char)
        if (
            (char == "*" and not _PRODUCT.match(self.text, self.at))
            or (char == "?" and _LONE.match(self.text, self.at) and is_start)
            or (char == "{" and _BRACES.match(self.text, self.at))
        ):
            self.patterns = True
        self.at += 1

    def _read_single_quoted(self) -> None:
        end = self.text.find("'", self.at + 1)
        if end < 0:
            raise block_extents.explain_open("'", self.text[self.at : self.at + 20])
        quoted = self.text[self.at + 1 : end]
        (self._add_unresolved if _QUOTED_DRIVE.fullmatch(quoted) else self._add)(quoted)  # paths of Windows
        self.at = end + 1

    def _read_escaped(self) -> None:
        """Read `$'...'`, in which a backslash stands for more than itself."""
        found = _ESCAPED_TEXT.match(self.text, self.at)
        if found is None:
            raise block_extents.explain_open("'", self.text[self.at : self.at + 20])
        self._add(decode_escapes(found[1]))
        self.at = found.end()

    def _read_double_quoted(self) -> None:
        start, before = self.at, self.current
        self.at += 1
        self._add("")
        while self.at < len(self.text):
            char = self.text[self.at]
            if char == '"':
                self.at += 1
                if self.empty == (start + 1, self.at - 1):
                    self.current = before
                quoted = (self.current or "")[len(before or "") :]
                if not self.unresolved and _QUOTED_DRIVE.fullmatch(quoted):
                    self.unresolved.append(quoted)
                return
            following = self.text[self.at + 1 : self.at + 2]
            if char == "\\" and following == "\n":
                self.at += 2
            elif char == "\\" and following and following in '"\\$`':
                self._add(following)
                self.at += 2
            elif char not in "$`" or not self._read_expansion(is_quoted=True):
                self._add(char)
                self.at += 1
        raise block_extents.explain_open('"', self.text[start : start + 20])

    def _read_expansion(self, *, is_quoted: bool) -> bool:
        quoted = is_quoted and self.splits
        found = expand(self.text, self.at, self.values, _splitter(self.values), self.depth, is_quoted=quoted)
        if found is None:
            return False
        is_none = not found.words and found.text is None and _LIST.match(self.text, self.at)
        self.empty = (self.at, found.end) if is_none and not (found.open or found.unresolved) else (0, 0)
        self.at = found.end
        self.is_count = self.is_count or found.is_count
        pair = _PAIR if self.in_array else _ASSIGNED if self.assigns else None
        is_assigned = pair is not None and pair.match(self.current or "") is not None
        self.is_split |= bool(found.unresolved or found.open) and not (is_quoted or is_assigned)
        if found.unresolved:
            self._add_unresolved(found.unresolved)
            return True
        words = found.words if found.text is None else (Word(found.text),)
        words = words if found.open is None else (found.open,)
        is_one = (is_quoted and found.is_joined) or is_assigned or not self.splits
        if is_one and words:
            words = (_joined(words, get_separators(self.values)[:1] if found.is_joined else " "),)
        self._add_words(words, splits=not (is_quoted or is_one or found.has_quotes))
        return True

    def _add_words(self, words: tuple[Word, ...], *, splits: bool) -> None:
        """Add what an expansion stands for; without quotes each word of it is split."""
        for number, word in enumerate(words[:_MOST_WORDS]):
            if number:
                self._finish()
            if splits and word.is_known:
                self._add_split(word.text)
            else:
                for at, part in enumerate(split_open(word) if splits else (word,)):
                    if at:
                        self._finish()
                    self._add(part.text)
                    self.unresolved += part.unresolved

    def _add_split(self, value: str) -> None:
        for number, part in enumerate(split_fields(value, get_separators(self.values))):
            if number:
                self._finish()
            if part is not None:
                self._add(part)

    def _add(self, text: str) -> None:
        self.current = (self.current or "") + text

    def _add_unresolved(self, text: str) -> None:
        self._add(text)
        self.unresolved.append(text)

    def _finish(self) -> None:
        if self.current is not None:
            is_open = self.patterns and not (self.assigns and _ASSIGNED.match(self.current))
            value = self.current.rpartition("=")[2] if self.current.startswith("-") else self.current
            if is_open or _ELLIPSIS.fullmatch(self.current) or _BRACKETED.fullmatch(value):
                self.unresolved.append(self.current)
            self.unresolved += _WINDOWS_VARIABLE.findall(self.current)
            self.done.append(Word(self.current, tuple(self.unresolved), self.is_count, self.is_split))
        self.current, self.unresolved, self.patterns = None, [], False
        self.is_count = self.is_split = False

    def _check_typographic(self, char: str) -> None:
        if char in _SMART and (_SMART[char] in "'\"" or _BEFORE_DASH.search(self.current or "")):
            raise CommandRefused(
                f"the line has a typographic {char!r} at {self.text[self.at : self.at + 20]!r}, no ASCII one",
                f"write {_SMART[char]}",
            )
