"""`${...}`: variables with a default, a part, an element of an array. Pure."""

import fnmatch

from launcher.engines.command_line.shell.arithmetic import evaluate_arithmetic
from launcher.engines.command_line.shell.variables import (
    DEEPEST,
    Expansion,
    Split,
    Value,
    Values,
    Variables,
    arguments,
    given_argument,
    join_tokens,
)
from launcher.engines.command_line.shell.words import Word
from preflight import regex as re
from preflight.frozen import dataclass

_PARAMETER = re.compile(
    r"(?P<pointer>!?)(?P<name>[A-Za-z_]\w*|[0-9]+|[@*])(?:\[(?P<index>[^\[\]]{1,100})\](?P<slice>:\s*\d{1,4}(?::\d{1,4})?)?)?"
    r"(?:(?P<mark>:?[-=+?])(?P<word>.*))?",
    re.ASCII | re.DOTALL,
)
SUBMITTED = "SLURM_SUBMIT_DIR|PBS_O_WORKDIR|SGE_O_WORKDIR|LS_SUBCWD|PJM_O_WORKDIR"
"""The directory that a batch script is submitted in: set in every job, whatever default it is given."""

_ARGUMENTS = re.compile(r"[@*](?::(?P<first>\d{1,4})(?::(?P<count>\d{1,4}))?)?")
_COUNT = re.compile(r"#(?P<name>[A-Za-z_]\w*)\[[@*]\]", re.ASCII)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_CLASS = r"\[[!^]?[\w.,: -]{1,40}\]"
_PART = re.compile(
    rf"(?P<name>[A-Za-z_]\w*)(?P<mark>##?|%%?)(?P<pattern>(?:[^\[\]{{}}$`\"'\\]|{_CLASS}){{1,200}})", re.ASCII
)
_REPLACED = re.compile(
    rf"(?P<name>[A-Za-z_]\w*)/(?P<mark>[/#%]?)(?P<pattern>(?:\\.|[^/\\\[\]{{}}$`\"']|{_CLASS})+)"
    r"(?:/(?P<new>(?:\\.|[^\\{}$`\"'&])*))?",
    re.ASCII,
)
_WITH_VARIABLES = re.compile(
    r"(?P<head>[A-Za-z_]\w*(?:##?|%%?|(?P<mark>/[/#%]?)))"
    r"(?P<old>(?(mark)(?:\\.|[^/\\`])*(?=/)|[^\\`]{1,200}))(?:/(?P<new>[^\\`]{0,200}))?",
    re.ASCII,
)
"""`${NAME%"$END"}` and `${NAME/$OLD/$NEW}`: a part or what takes its place comes from variables."""

_PLAIN = re.compile(r"[^\\{}$`\"'&*?\[\]]*")
_CASE = re.compile(r"(?P<name>[A-Za-z_]\w*)(?P<mark>\^\^?|,,?)", re.ASCII)
_SLICE = re.compile(r"(?P<name>[A-Za-z_]\w*):(?P<first>\d{1,4}| -\d{1,4})(?::(?P<count>\d{1,4}))?", re.ASCII)
_LENGTH = re.compile(r"#(?P<name>[A-Za-z_]\w*)", re.ASCII)
_LONGEST_CUT = 1024


@dataclass(frozen=True, slots=True)
class _Place:
    """An expansion in a text, and what it is read with."""

    shown: str
    end: int
    values: Values
    split: Split
    depth: int

    def unresolved(self) -> Expansion:
        return Expansion(self.end, unresolved=self.shown)

    def of(self, value: Value | None) -> Expansion:
        return expand_value(value, self.shown, self.end)


def expand_value(value: Value | None, shown: str, end: int) -> Expansion:
    """Return what a variable of this value stands for."""
    if value is None:
        return Expansion(end, unresolved=shown)
    if isinstance(value, Word):
        return Expansion(end, open=value)
    if isinstance(value, tuple):
        return Expansion(end, words=value[:1])
    return Expansion(end, text=value)


def expand_parameter(shown: str, end: int, values: Values, split: Split, depth: int) -> Expansion:
    """Return what `${...}` stands for; unresolved where only a running shell knows it."""
    inner, place = shown[2:-1], _Place(shown, end, values, split, depth)
    given = arguments(values)
    of_arguments = _ARGUMENTS.fullmatch(inner)
    if given and inner[:1] in ("@", "*") and inner[1:].startswith((":-", "-")):
        return Expansion(end, words=given, is_joined=inner[0] == "*")
    if of_arguments is not None:
        first, count = int(of_arguments["first"] or 1), of_arguments["count"]
        words = ("", *(given or ()))[first:] if first else ()
        chosen = tuple(word for word in words if isinstance(word, Word))
        chosen = chosen[: int(count)] if count else chosen
        return Expansion(end, words=chosen, is_joined=inner[0] == "*")
    if inner == "#":
        return Expansion(end, text=str(len(given or ())), is_count=given is None)
    counted = _COUNT.fullmatch(inner)
    counted_words = values.get(counted["name"]) if counted is not None else None
    if isinstance(counted_words, tuple) and all(map(_is_one_word, counted_words)):
        return Expansion(end, text=str(len(counted_words)))
    changed = _changed(_with_known_words(inner, split, depth), values)
    if changed is not None:
        return Expansion(end, text=changed)
    match = _PARAMETER.fullmatch(inner)
    if match is None or depth >= DEEPEST:
        return place.unresolved()
    if match["index"]:
        return _element(match, place)
    return _parameter(match, place, given)


_LITERAL = re.compile(r"[\w.,:/=+@%? -]*[&;|()#][\w.,:/=+@%&;|()# -]*")
"""A word whose operators are characters within `${...}`."""


def _with_known_words(inner: str, split: Split, depth: int) -> str:
    """Return an expansion with the values of the variables in its words; as it is where one has none."""
    found = _WITH_VARIABLES.fullmatch(inner) if depth < DEEPEST and ("$" in inner or '"' in inner) else None
    if found is None:
        return inner
    parts: list[str] = []
    for part in filter(None, (found["old"], found["new"])):
        is_open = part.strip('"') != part or "$" in part
        tokens = split(part, depth + 1) if is_open else ()
        text, lacking = join_tokens(tokens) if is_open else (part, ())
        if part != part.strip() or lacking or (is_open and (len(tokens) != 1 or not _PLAIN.fullmatch(text))):
            return inner
        parts.append(text)
    return found["head"] + "/".join(parts)


def _is_one_word(word: Word) -> bool:
    """Whether a word of an array stays one: what a command prints may be none or several."""
    return word.is_known or not word.text.startswith(("$(", "`"))


def _parameter(match: re.Match[str], place: _Place, given: tuple[Word, ...] | None) -> Expansion:
    name, values = match["name"], place.values
    if match["pointer"]:  # `${!NAME}`: the variable whose name is the value of NAME
        pointed = values.get(name)
        if not isinstance(pointed, str) or not _NAME.fullmatch(pointed):
            return place.unresolved()
        name = pointed
    if not name.isdecimal():
        value = values.get(name)
        is_unset = value == () and match["mark"]  # `${@:-default}`
        return _defaulted(match, None if is_unset else value, name, place)
    if name == "0" or given is None:
        return _defaulted(match, None, name, place)
    one = given_argument(given, int(name), place.end)
    return _defaulted(match, one.open or one.text or "", name, place)


def _element(match: re.Match[str], place: _Place) -> Expansion:
    """Return what `${ARRAY[0]}`, `${ARRAY[@]:1}` or `${TABLE[key]}` stands for."""
    value, index = place.values.get(match["name"]), match["index"]
    if match["pointer"]:
        is_indices = isinstance(value, tuple) and index in "@*" and all(map(_is_one_word, value))
        numbers = tuple(Word(str(number)) for number in range(len(value) if isinstance(value, tuple) else 0))
        return (
            Expansion(place.end, words=numbers, is_joined=index == "*") if is_indices else place.unresolved()
        )
    if isinstance(value, tuple) and index in "@*":
        mark, own = (match["mark"] or "")[-1:], f'"${{{match["name"]}[@]}}"'
        if (value and mark == "+" and match["word"] != own) or (not value and mark == "-"):
            return _defaulted(match, "set" if value else None, "", place)
        first, _, count = (match["slice"] or ":0").removeprefix(":").partition(":")
        chosen = value[int(first) :]
        chosen = chosen[: int(count)] if count else chosen
        return Expansion(place.end, words=chosen, is_joined=index == "*", has_quotes=mark == "+")
    if match["slice"] or index in "@*":
        return place.unresolved()
    if isinstance(value, tuple):
        shown, lacking = join_tokens(place.split(index, place.depth + 1))
        number = None if lacking else evaluate_arithmetic(shown, place.values)
        if number is None or not -len(value) <= number:
            return place.unresolved()
        chosen = value[number:][:1]
        if not chosen and not all(word.is_known for word in value):
            return place.unresolved()  # the output of a command may be several words
        found: Value | None = chosen[0].value if chosen else ""
        return _defaulted(match, found if chosen or match["mark"] else "", match["name"], place)
    if isinstance(value, str) and index == "0":
        return Expansion(place.end, text=value)
    key, lacking = join_tokens(place.split(index, place.depth + 1))
    return (
        place.unresolved()
        if lacking
        else _defaulted(match, place.values.get(f"{match['name']}[{key}]"), "", place)
    )


def _defaulted(match: re.Match[str], value: Value | None, name: str, place: _Place) -> Expansion:
    mark, values = match["mark"] or "", place.values
    is_set = value is not None and not (value == "" and mark.startswith(":"))
    if mark.endswith("?"):  # the shell would end with the text behind it
        return place.of(value) if is_set else place.unresolved()
    if mark == ":+" and isinstance(value, Word) and not value.is_known:
        return place.unresolved()  # it may be empty
    if mark.endswith("+") or (mark and not is_set):
        if is_set is not mark.endswith("+"):
            return Expansion(place.end, text="")
        tokens = place.split(match["word"], place.depth + 1)
        word = match["word"]
        text, lacking = (word, ()) if _LITERAL.fullmatch(word) else join_tokens(tokens)
        if text and text != word:  # `${LIST:+$LIST }`: blanks around it stay
            text = f"{' ' * word[0].isspace()}{text}{' ' * word[-1].isspace()}"
        if not text and name in SUBMITTED.split("|"):
            return place.unresolved()
        if mark.endswith("=") and name and not lacking and isinstance(values, Variables) and values.runs():
            values[name] = text
        words = tuple(one for one in tokens if isinstance(one, Word))
        if not lacking and words == tokens and any(char.isspace() for one in words for char in one.text):
            return Expansion(place.end, words=words, is_joined=True, has_quotes=True)
        if lacking and mark != ":+" and "\\" not in text:  # it stays the text around what lacks a value
            return Expansion(place.end, open=Word(text, lacking))
        return place.unresolved() if lacking else Expansion(place.end, text=text)
    return place.of(value)


def _without_part(text: str, mark: str, pattern: str) -> str:
    """Return what `${NAME#PATTERN}` and `${NAME%PATTERN}` leave; a double mark takes off the longest part."""
    matched = re.compile(fnmatch.translate(pattern.replace("[^", "[!")))
    for size in sorted(range(len(text) + 1), reverse=len(mark) > 1):
        cut = size if mark[0] == "#" else len(text) - size
        part, rest = (text[:cut], text[cut:]) if mark[0] == "#" else (text[cut:], text[:cut])
        if matched.fullmatch(part):
            return rest
    return text


def _one_of(part: str) -> str:
    """Return `[!ab]` of a pattern as a regular expression has it; "" for any other part."""
    if len(part) < 3 or part[0] != "[":
        return ""
    return fnmatch.translate(part.replace("[^", "[!")).removeprefix("(?s:").rpartition(")")[0]


def _replaced(text: str, mark: str, pattern: str, new: str) -> str:
    """Return what `${NAME/PATTERN/NEW}` makes of a text; `//` is each place, `/#` the start, `/%` the end."""
    globs = {"*": ".*", "?": "."}
    parts = re.findall(rf"\\.|{_CLASS}|.", pattern, re.DOTALL)
    found = "".join(globs.get(part) or _one_of(part) or re.escape(part[-1]) for part in parts)
    found = {"#": rf"\A{found}", "%": rf"{found}\Z"}.get(mark, found)
    to = re.sub(r"\\(.)", r"\1", new, flags=re.DOTALL)
    return re.sub(found, lambda _: to, text, count=0 if mark == "/" else 1, flags=re.DOTALL)


def _changed(inner: str, values: Values) -> str | None:
    """Return what `${NAME#a}`, `${NAME/a/b}`, `${NAME^^}`, `${NAME:0:2}` and `${#NAME}` make of a text."""
    for kind in (_PART, _REPLACED, _CASE, _SLICE, _LENGTH):
        match = kind.fullmatch(inner)
        whole = values.get(match["name"]) if match is not None else None
        if match is None or not isinstance(whole, str) or len(whole) > _LONGEST_CUT:
            continue
        if kind is _PART:
            return _without_part(whole, match["mark"], match["pattern"])
        if kind is _REPLACED:
            return _replaced(whole, match["mark"], match["pattern"], match["new"] or "")
        if not whole.isascii():  # the locale decides what a letter is
            return None
        if kind is _LENGTH:
            return str(len(whole))
        if kind is _SLICE:
            rest = whole[int(match["first"]) :] if -int(match["first"]) <= len(whole) else ""
            return rest[: int(match["count"])] if match["count"] else rest
        end = len(whole) if len(match["mark"]) > 1 else 1
        start = whole[:end].upper() if match["mark"][0] == "^" else whole[:end].lower()
        return start + whole[end:]
    return None
