"""`${...}`: variables with a default, a part, an element of an array. Pure."""

import fnmatch
from collections.abc import Callable

from launcher.engines.command_line.shell.arithmetic import evaluate_arithmetic
from launcher.engines.command_line.shell.associative_arrays import get_elements, is_associative
from launcher.engines.command_line.shell.bracket_tests import OF_SHELL
from launcher.engines.command_line.shell.variables import (
    DEEPEST,
    Expansion,
    Split,
    Value,
    Values,
    Variables,
    are_decided,
    get_args,
    get_argument,
    join_tokens,
    split_before,
)
from launcher.engines.command_line.shell.words import Word
from preflight import regex as re
from preflight.frozen import dataclass

_INDEX = r"(?:[^\[\]]|\[[^\[\]]{0,60}\]){1,100}"  # `${#LIST[@]}-1` too
_SUBJECT = rf"!?(?:[A-Za-z_]\w*|[0-9]+|[@*])(?:\[{_INDEX}\])?"
_PARAMETER = re.compile(
    rf"(?P<pointer>!?)(?P<name>[A-Za-z_]\w*|[0-9]+|[@*])(?:\[(?P<index>{_INDEX})\])?"
    r"(?:(?P<mark>:?[-=+?])(?P<word>.*))?",
    re.ASCII | re.DOTALL,
)
SUBMITTED = "SLURM_SUBMIT_DIR|PBS_O_WORKDIR|SGE_O_WORKDIR|LS_SUBCWD|PJM_O_WORKDIR"
"""The directory that a batch script is submitted in: set in every job, whatever default it is given."""

_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_CLASS = r"\[[!^]?[\w.,: -]{1,40}\]"
_LENGTH = re.compile(rf"#(?P<subject>{_SUBJECT})(?P<mark>)(?P<word>)", re.ASCII)
_CHANGE = re.compile(
    rf"(?P<subject>{_SUBJECT})(?P<mark>##?|%%?|/[/#%]?|\^\^?|,,?|:(?![-=+?]))(?P<word>.*)",
    re.ASCII | re.DOTALL,
)
_REPLACED = re.compile(
    r"(?P<old>(?:\\.|\"[^\"]*\"|'[^']*'|\$\{[^{}]*\}|\$(?!\{)|[^$/\\\"'])*)(?:/(?P<new>.*))?", re.DOTALL
)
_SLICE = re.compile(r"(?P<first>[^:?]*)(?::(?P<count>[^:?]+))?", re.DOTALL)
_PATTERN = re.compile(rf"(?:\\.|(?![?*+@!]\()[^\\\[\]{{}}$`\"']|{_CLASS}){{0,200}}")
_NEW = re.compile(r"(?:\\.|[^\\{}$`\"'&]){0,200}")
_PLAIN = re.compile(r"[^\\{}$`\"'&*?\[\]]*")
_ANY = re.compile(r".*", re.DOTALL)
_LONGEST_CUT = 1024


@dataclass(frozen=True, slots=True)
class WrittenPart:
    """An expansion in a text, and what it is read with."""

    shown: str
    end: int
    values: Values
    split: Split
    depth: int
    is_quoted: bool = False  # it is in double quotes, in which a single one is a character

    def as_unresolved(self) -> Expansion:
        """Return it as what only a running shell knows."""
        return Expansion(self.end, unresolved=self.shown)

    def expand_value(self, value: Value | None) -> Expansion:
        """Return what a variable of this value stands for."""
        if value is None:
            return self.as_unresolved()
        if isinstance(value, tuple):
            return Expansion(self.end, words=value[:1])
        return Expansion(self.end, open=value) if isinstance(value, Word) else Expansion(self.end, text=value)


def expand_parameter(inner: str, place: WrittenPart) -> Expansion:
    """Return what `${INNER}` stands for; unresolved where only a running shell knows it."""
    given, values = get_args(place.values), place.values
    if inner == "#" and are_decided(given or ()) and split_before(given or (), len(given or ())) is None:
        return Expansion(place.end, text=str(len(given or ())), is_count=given is None)
    if inner == "?" and isinstance(values, Variables):
        return place.expand_value(None if values.ends else values.code())
    match = _CHANGE.fullmatch(inner) or _LENGTH.fullmatch(inner) or _PARAMETER.fullmatch(inner)
    if match is None or place.depth >= DEEPEST:
        return place.as_unresolved()
    if subject := match.groupdict().get("subject"):
        base = expand_parameter(subject, place)
        found = None if base.unresolved or base.open else _changed(match, base, place)
        return place.as_unresolved() if found is None else found
    if match["name"] not in values and OF_SHELL.fullmatch(match["name"]):
        return place.as_unresolved()
    if is_associative(match["name"], values) and match["index"]:
        return _of_associative(match, place)
    if match["index"] or match["name"] in ("@", "*"):
        return _element(match, place, given or ())
    return _parameter(match, place, given)


_LITERAL = re.compile(r"[\w.,:/=+@%? -]*[&;|()#][\w.,:/=+@%&;|()# -]*")  # its operators are characters


def _filled(part: str, plain: re.Pattern[str], place: WrittenPart) -> str | None:
    """Return a pattern, or what takes its place, with the values of its variables; None without one."""
    if not re.search(r"[$\"'`]", part):
        return part if plain.fullmatch(part) else None
    tokens = place.split(part, place.depth + 1)
    text, lacking = join_tokens(tokens)
    is_one = len(tokens) == 1 and part == part.strip() and "`" not in part
    return text if is_one and not lacking and _PLAIN.fullmatch(text) else None


def _are_counted(words: tuple[Word, ...], name: str) -> bool:
    """Whether each word of an array stays one: what a command prints, or a condition adds, may be several."""
    added = ("$(", "`", "$@", f"${name} (")
    return not any(
        word.is_split or word.text.startswith(added) or (word.text.startswith("${") and " " in word.text)
        for word in words
        if not word.is_known
    )


def _parameter(match: re.Match[str], place: WrittenPart, given: tuple[Word, ...] | None) -> Expansion:
    name, values = match["name"], place.values
    if match["pointer"]:  # `${!NAME}`: the variable whose name is the value of NAME
        pointed = values.get(name)
        if not isinstance(pointed, str) or not _NAME.fullmatch(pointed):
            return place.as_unresolved()
        name = pointed
    value = values.get(name)
    value = None if value == () and match["mark"] else value
    if name.isdecimal():
        is_strict = isinstance(values, Variables) and values.is_strict and int(name) > len(given or ())
        value = None if name == "0" or given is None or is_strict else get_argument(given, int(name))
        value = None if value == "" and match["mark"] and int(name) > len(given or ()) else value  # not set
    return _defaulted(match, value, name, place)


def _element(match: re.Match[str], place: WrittenPart, given: tuple[Word, ...]) -> Expansion:
    """Return what `$@`, `${ARRAY[0]}`, `${ARRAY[@]}` or `${TABLE[key]}` stands for."""
    value = given if match["name"] in ("@", "*") else place.values.get(match["name"])
    index = match["index"] or match["name"]
    if match["pointer"]:
        is_indices = isinstance(value, tuple) and index in "@*" and _are_counted(value, match["name"])
        numbers = tuple(Word(str(number)) for number in range(len(value) if isinstance(value, tuple) else 0))
        return (
            Expansion(place.end, words=numbers, is_joined=index == "*")
            if is_indices
            else place.as_unresolved()
        )
    if isinstance(value, tuple) and index in "@*":
        return _listed(match, value, index, place)
    if index in "@*":
        return place.as_unresolved()
    if isinstance(value, tuple):
        shown, lacking = join_tokens(place.split(index, place.depth + 1))
        number = None if lacking else evaluate_arithmetic(shown, place.values)
        if number is None or not -len(value) <= number:
            return place.as_unresolved()
        if any(word.is_split for word in (value[:number] if number >= 0 else value[number:])):
            return place.as_unresolved()
        chosen = value[number:][:1]
        if not chosen and not all(word.is_known for word in value):
            return place.as_unresolved()  # the output of a command may be several words
        found: Value | None = chosen[0].value if chosen else None if match["mark"] else ""
        return _defaulted(match, found, match["name"], place)
    if isinstance(value, str) and index == "0":
        return Expansion(place.end, text=value)
    return _defaulted(match, None, "", place) if value is None else place.as_unresolved()


def _listed(match: re.Match[str], words: tuple[Word, ...], index: str, place: WrittenPart) -> Expansion:
    """Return what `${ARRAY[@]}` of these words stands for, and `${ARRAY[@]:-default}`."""
    mark, own = (match["mark"] or "")[-1:], f"${{{match['name']}[@]}}"
    is_set = bool(words) and not (words == (Word(""),) and (match["mark"] or "").startswith(":"))
    if (is_set and mark == "+" and (match["word"] or "").strip('"') != own) or (not is_set and mark == "-"):
        return _defaulted(match, "set" if is_set else None, "", place)
    has_quotes = mark == "+" and (match["word"] or "")[:1] == '"'
    return Expansion(place.end, words=words, is_joined=index == "*", has_quotes=has_quotes)


def _of_associative(match: re.Match[str], place: WrittenPart) -> Expansion:
    """Return what `${NAME[KEY]}`, `${NAME[@]}` or `${!NAME[@]}` of an associative array stands for."""
    elements, index, mark = get_elements(match["name"], place.values), match["index"], match["mark"] or ""
    if elements is None:
        return place.as_unresolved()
    if index in "@*":
        words = tuple(map(Word, elements)) if match["pointer"] else tuple(elements.values())
        return _listed(match, words, index, place)
    key, lacking = join_tokens(place.split(index, place.depth + 1))
    found = elements.get(key)
    is_strict = isinstance(place.values, Variables) and place.values.is_strict
    if lacking or match["pointer"] or (found is None and (mark.endswith("=") or (is_strict and not mark))):
        return place.as_unresolved()
    value = "" if found is None and not mark else None if found is None else found.value
    return _defaulted(match, value, "", place)


def _defaulted(match: re.Match[str], value: Value | None, name: str, place: WrittenPart) -> Expansion:
    mark, values = match["mark"] or "", place.values
    is_set = value is not None and not (value == "" and mark.startswith(":"))
    if mark.endswith("?"):  # the shell would end with the text behind it
        return place.expand_value(value) if is_set else place.as_unresolved()
    if mark == ":+" and isinstance(value, Word) and not value.is_known:
        return place.as_unresolved()  # it may be empty
    if mark.endswith("+") or (mark and not is_set):
        if is_set is not mark.endswith("+"):
            return Expansion(place.end, text="")
        word = match["word"]
        has_own = place.is_quoted and not re.search(r"[\"`]|\$\(", word)
        tokens = place.split(word.replace("'", "\\'") if has_own else word, place.depth + 1)
        text, lacking = (word, ()) if _LITERAL.fullmatch(word) else join_tokens(tokens)
        if text and text != word:  # `${LIST:+$LIST }`: blanks around it stay
            text = f"{' ' * word[0].isspace()}{text}{' ' * word[-1].isspace()}"
        if not text and name in SUBMITTED.split("|"):
            return place.as_unresolved()
        if mark.endswith("=") and name and isinstance(values, Variables) and values.runs() is not False:
            shown = f"${name} (set in a condition)"
            values[name] = Word(text, lacking).value if values.runs() else Word(shown, (shown,))
            values.export(name)
        words = tuple(one for one in tokens if isinstance(one, Word))
        if not lacking and words == tokens and any(char.isspace() for one in words for char in one.text):
            return Expansion(place.end, words=words, is_joined=True, has_quotes=True)
        if lacking and mark != ":+" and "\\" not in text:  # it stays the text around what lacks a value
            return Expansion(place.end, open=Word(text, lacking))
        return place.as_unresolved() if lacking else Expansion(place.end, text=text)
    return place.expand_value(value)


def _expression(pattern: str) -> str:
    """Return a pattern of a shell as a regular expression, which takes no more than quadratic time."""

    def plain(found: re.Match[str]) -> str:
        return "[!" if found[1] is None else f"[{found[1]}]" if found[1] in "*?[" else found[1]

    return fnmatch.translate(re.sub(r"\\(.)|\[\^", plain, pattern, flags=re.DOTALL))[4:-3]


def _without_part(text: str, mark: str, pattern: str) -> str:
    """Return what `${NAME#PATTERN}` and `${NAME%PATTERN}` leave; a double mark takes off the longest part."""
    matched = re.compile(_expression(pattern), re.DOTALL)
    for size in sorted(range(len(text) + 1), reverse=len(mark) > 1):
        cut = size if mark[0] == "#" else len(text) - size
        part, rest = (text[:cut], text[cut:]) if mark[0] == "#" else (text[cut:], text[:cut])
        if matched.fullmatch(part):
            return rest
    return text


def _replaced(text: str, mark: str, pattern: str, new: str) -> str:
    """Return what `${NAME/PATTERN/NEW}` makes of a text; `//` is each place, `/#` the start, `/%` the end."""
    if not pattern and mark not in ("#", "%"):
        return text
    start = {"#": r"\A", "%": ""}.get(mark, r"(?!\Z)" * bool(text))
    found = start + _expression(pattern) + r"\Z" * (mark == "%")
    to = re.sub(r"\\(.)", r"\1", new, flags=re.DOTALL)
    return re.sub(found, lambda _: to, text, count=0 if mark == "/" else 1, flags=re.DOTALL)


def _changed(match: re.Match[str], base: Expansion, place: WrittenPart) -> Expansion | None:
    """Return what `${#NAME}`, `${NAME#a}`, `${NAME/a/b}` or `${NAME:0:2}` makes of a text or of words."""
    mark, word, subject, words = *match.group("mark", "word", "subject"), base.words
    if not mark and base.text is None:
        is_count = subject in ("@", "*") and get_args(place.values) is None
        is_list = subject[-1] in "@*" or subject.endswith(("[@]", "[*]"))
        is_known = is_list and _are_counted(words, subject.partition("[")[0])
        return Expansion(place.end, text=str(len(words)), is_count=is_count) if is_known else None
    is_joined = subject.endswith(("*", "[*]"))
    if mark == ":" and base.text is None:
        if not are_decided(words) or split_before(words, len(words)):
            return None
        if is_associative(subject.partition("[")[0], place.values):  # of no order that bash promises
            return None
        chosen = _chosen(words, _numbers(word, place), is_given=subject in ("@", "*"))
        return None if chosen is None else Expansion(place.end, words=chosen, is_joined=is_joined)
    change = _change(mark, word, place)
    whole = "".join(word.text for word in words) if base.text is None else base.text
    is_same = whole.isascii() or mark[:1] in ("#", "%", "/")  # elsewhere the locale decides what a letter is
    if change is None or not is_same or len(whole) > _LONGEST_CUT or not all(word.is_known for word in words):
        return None
    if base.text is None:
        changed = tuple(Word(change(word.text) or "") for word in words)
        return Expansion(place.end, words=changed, is_joined=is_joined)
    text = change(base.text)
    return None if text is None else Expansion(place.end, text=text)


def _change(mark: str, word: str, place: WrittenPart) -> Callable[[str], str | None] | None:
    """Return what a mark and the word behind it make of a text; None where the word has no value."""
    if not mark:
        return lambda text: str(len(text))
    if mark[0] in "#%":
        pattern = _filled(word, _PATTERN, place)
        return None if pattern is None else lambda text: _without_part(text, mark, pattern)
    if mark[0] == "/":
        parts = _REPLACED.fullmatch(word)
        old = _filled(parts["old"], _PATTERN, place) if parts is not None else None
        new = _filled(parts["new"] or "", _NEW, place) if parts is not None else None
        return None if old is None or new is None else lambda text: _replaced(text, mark[1:], old, new)
    if mark == ":":
        numbers = _numbers(word, place)
        return None if numbers is None else lambda text: _part_of(text, *numbers)
    end = None if len(mark) > 1 else 1
    letters = str.upper if mark[0] == "^" else str.lower
    return None if word else lambda text: letters(text[:end]) + text[len(text[:end]) :]


def _numbers(word: str, place: WrittenPart) -> tuple[int, int | None] | None:
    """Return the two numbers of `${NAME:FIRST:COUNT}`; None where one has no value."""
    match = _SLICE.fullmatch(word)
    numbers: list[int | None] = []
    for part in filter(None, (match["first"].strip() or "0", match["count"]) if match is not None else ()):
        text = _filled(part, _ANY, place)
        numbers.append(None if text is None else evaluate_arithmetic(text, place.values))
    first, count = (*numbers, None, None)[:2]
    return None if first is None or None in numbers else (first, count)


def _part_of(text: str, first: int, count: int | None) -> str | None:
    start = first if first >= 0 else len(text) + first
    end = len(text) if count is None else start + count if count >= 0 else len(text) + count
    if start < 0 or start > len(text):
        return ""
    return text[start:end] if end >= start else None  # an error of the shell


def _chosen(
    words: tuple[Word, ...], numbers: tuple[int, int | None] | None, *, is_given: bool
) -> tuple[Word, ...] | None:
    """Return what `${ARRAY[@]:1}` and `${@:2:1}` stand for; the first of arguments is `$0`."""
    first, count = numbers or (0, -1)
    words = (Word("$0"),) * is_given + words
    start = first if first >= 0 else len(words) + first
    if (count or 0) < 0 or start < is_given:
        return None
    return words[start:] if count is None else words[start : start + count]
