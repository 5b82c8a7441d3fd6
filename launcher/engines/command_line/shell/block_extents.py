"""Where loops, functions and files in place end in a text, before anything in it is expanded. Pure."""

from collections.abc import Collection

from launcher.errors import CommandRefused
from preflight import regex as re
from preflight.frozen import dataclass

OPENERS = {"$(": ")", "${": "}", "$[": "]", "<(": ")", ">(": ")"}  # of expansions, and what closes each

CLOSERS = {"if": "fi", "case": "esac", "{": "}", **dict.fromkeys(("for", "while", "until", "select"), "done")}
_CASE = re.compile(r"(?<![\w$./-])(?:case(?=[ \t]+[^\n;&|()]{1,200}[ \t\n]in\b)|esac\b)")
_MOST_TEXTS = 50  # in place, within one expansion: each is a search to the end of the text

_BEFORE_COMMAND = frozenset(("if", "elif", "then", "else", "while", "until", "do", "{", "!", "time"))
_QUOTE, _ESCAPED_QUOTE = re.compile(r"'[^']*'"), re.compile(r"'(?:[^'\\]|\\.)*'", re.DOTALL)
_PLAIN = re.compile(r"[^\s;&|()<>\\'\"`$]+")
_BLANK = re.compile(r"(?:[ \t\r\u00a0]|\\\r?\n|#[^\n]*)+")  # in front of a word, with comments
_HERE = re.compile(r"<<(?!<)(?P<tabs>-?)[ \t]*(?P<quote>['\"]?)\\?(?P<tag>[\w.!-]+)(?P=quote)", re.ASCII)
_ARRAY = re.compile(r"[A-Za-z_]\w*\+?=$", re.ASCII)


@dataclass(frozen=True, slots=True)
class HereText:
    """A text in place: `<<TAG`, and the lines up to TAG."""

    body: str
    is_quoted: bool  # no variable in it is replaced
    operator_end: int  # behind the tag in the line of the command
    start: int  # of the first line
    end: int  # behind the last one, TAG included


def find_here_text(text: str, at: int, after: int = 0) -> HereText | None:
    """Return the text of the `<<` at `at`, behind what ends at `after`. Raises CommandRefused for no end."""
    found = _HERE.match(text, at)
    if found is None:
        return None
    line_end = text.find("\n", found.end())
    start = after or (len(text) if line_end < 0 else line_end + 1)
    last = re.compile(rf"^[ \t]*{re.escape(found['tag'])}[ \t]*\r?$", re.MULTILINE).search(text, start)
    if last is None:
        raise explain_open("<<", found[0])
    body = text[start : last.start()]
    body = re.sub(r"^\t+", "", body, flags=re.MULTILINE) if found["tabs"] else body
    is_quoted = bool(found["quote"]) or "\\" in found[0]
    return HereText(body, is_quoted, found.end(), start, last.end())


def find_closing(text: str, at: int) -> int:
    """Return the place behind the expansion or double quote that starts at `at`. Raises CommandRefused."""
    open_: list[str] = []
    here = at
    skip = (0, 0)  # a text in place, whose quotes are characters
    texts = 0
    while here < len(text):
        char, pair = text[here], text[here : here + 2]
        top = open_[-1] if open_ else ""
        here += 1
        if char == "\\":
            here += 1
        elif char == "\n" and skip[0] == here:
            here = skip[1]
        elif pair == "<<" and top == ")" and skip[0] < here and texts < _MOST_TEXTS:
            skip, texts = _skipped_text(text, here - 1), texts + 1
            here += 1
        elif char == top:
            open_.pop()
            if not open_:
                return here
        elif pair in OPENERS:
            open_.append(OPENERS[pair])
            here += 1
        elif char in '`"':
            open_.append(char)
        elif top in (")", "esac") and char in "#(ce":
            here = _past_command_mark(text, here, open_)
        elif char == "'" and top not in ('"', ""):
            here = _quote_end(text, here - 1, is_escaped=False)
    raise explain_open(text[at : at + 2].strip("\n"), text[at : at + 20])


def _past_command_mark(text: str, here: int, open_: list[str]) -> int:
    """Take a comment, a parenthesis or a `case` that starts in front of `here`; return the end."""
    mark = text[here - 1]
    if mark == "#":
        return max(text.find("\n", here), here) if text[here - 2] in " \t\n;(" else here
    if mark == "(":
        open_.append(")")
    elif (word := _CASE.match(text, here - 1)) is not None:
        if word[0] == "case":
            open_.append("esac")
        elif open_[-1] == "esac":
            open_.pop()
    return here


def _skipped_text(text: str, at: int) -> tuple[int, int]:
    """Return the lines of a text in place whose `<<` is at `at`; two equal places for a shift of numbers."""
    try:
        here = find_here_text(text, at)
    except CommandRefused:
        return at, at
    return (at, at) if here is None else (here.start, here.end)


def find_keyword(text: str, at: int, wanted: Collection[str]) -> tuple[int, int] | None:
    """Return the span of the first of some words of a shell that belongs to the block around `at`."""
    try:
        return _find(text, at, wanted)
    except CommandRefused:
        return None  # said when the text is read


def _find(text: str, at: int, wanted: Collection[str]) -> tuple[int, int] | None:
    open_: list[str] = []
    is_first = True
    skip = (0, 0)
    while at < len(text):
        blank = _BLANK.match(text, at)
        if blank is not None:
            at = blank.end()
        elif text[at] == "\n" and skip[0] == at + 1:
            at, is_first = skip[1], True
        elif text.startswith("<<<", at):
            at, is_first = at + 3, False
        elif (here := find_here_text(text, at, skip[1] if skip[0] > at else 0)) is not None:
            skip = (skip[0] if skip[0] > at else here.start, here.end)
            at = here.operator_end
        elif text[at] in ";&|()<>\n":
            is_first = text[at] not in "<>"
            if ")" in wanted and text[at] in "()" and _ends_group(open_, text[at]):
                return at, at + 1
            at += 1
        else:
            end = find_word_end(text, at)
            word = text[at:end]
            if is_first and not open_ and word in wanted:
                return at, end
            if is_first:
                _nest(open_, word)
            is_first = is_first and word in _BEFORE_COMMAND
            at = _array_end(text, end) if _ARRAY.match(word) and text[end : end + 1] == "(" else end
    return None


def _nest(open_: list[str], word: str) -> None:
    """Take the first word of a command, which may open a block or close the innermost one."""
    if word in CLOSERS:
        open_.append(CLOSERS[word])
    elif open_[-1:] == [word]:
        open_.pop()


def _ends_group(open_: list[str], mark: str) -> bool:
    """Take a parenthesis, unless of a pattern of `case`; return whether it ends the group around all."""
    if mark == "(":
        open_.append(")")
    elif open_ and open_[-1] == ")":
        open_.pop()
    else:
        return not open_
    return False


def find_word_end(text: str, at: int) -> int:
    """Return where the word at `at` ends, its quotes and expansions included."""
    start = at
    while at < len(text):
        plain = _PLAIN.match(text, at)
        if plain is not None:
            at = plain.end()
        elif text[at] in " \t\r\n;&|()<>\u00a0":
            break
        elif text[at] == "\\":
            at += 2
        elif text[at] == "'":
            at = _quote_end(text, at, is_escaped=text[at - 1 : at] == "$")
        elif text[at] in '"`' or text[at : at + 2] in ("$(", "${", "$["):
            at = find_closing(text, at)
        else:
            at += 1
    return max(at, start + 1)


def _quote_end(text: str, at: int, *, is_escaped: bool) -> int:
    inside = (_ESCAPED_QUOTE if is_escaped else _QUOTE).match(text, at)
    return len(text) if inside is None else inside.end()


def _array_end(text: str, at: int) -> int:
    """Return the place behind the words of an array, whose parenthesis is at `at`."""
    at += 1
    while at < len(text) and text[at] != ")":
        if text[at] == "#":
            at = max(text.find("\n", at), at + 1)
        elif text[at].isspace() or text[at] in ";&|(<>":
            at += 1
        else:
            at = find_word_end(text, at)
    return at + 1


def explain_open(quote: str, start: str) -> CommandRefused:
    """Return the error for a quote or bracket that is open where the text ends."""
    return CommandRefused(f"the quote {quote} at {start!r} has no end", "close it, or paste the whole line")
