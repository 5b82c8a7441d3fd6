"""What `$(...)` prints where its answer follows from the text alone. Pure, and nothing is run.

The directory of the text's script (`$(dirname $0)`) is the one that it is pasted in, and `$(date +%F)` is the
time that EPOCHSECONDS gives, as in bash.
"""

import posixpath
import time

from launcher.engines.command_line.shell.arithmetic import evaluate_arithmetic
from launcher.engines.command_line.shell.braces import expand_braces
from launcher.engines.command_line.shell.pipelines import predict_output
from launcher.engines.command_line.shell.variables import DEEPEST, Split, Values, join_tokens
from launcher.engines.command_line.shell.words import Operator, Word
from preflight import regex as re

_LOOKUP = re.compile(
    r"(?:which|command -v|type -[pP]) (torchrun|accelerate|deepspeed|fabric|python[\d.]*)", re.ASCII
)
_PATH_PART = re.compile(
    r"(?P<part>basename|dirname) (?:-- )?(?P<path>\$\(.*\)|\S+|\"[^\"]*\")(?: (?P<suffix>[\w.\"'-]+))?"
)
_SILENT = re.compile(r"#.*|true|false|:|exit \d{1,3}")
_EXPR = re.compile(r"expr (.+)")
_DATE = re.compile(r"date (?P<around>[\"']?)\+(?P<quote>[\"']?)(?P<format>[^\"']*)(?P=quote)(?P=around)")
_OWN_PATH = r"[\"']?\$(?:0|\{0\}|\{BASH_SOURCE(?:\[0\])?(?::-\$0)?\}|BASH_SOURCE)[\"']?"
_OWN_FOLDER = re.compile(
    rf"dirname (?:-- )?[\"']?(?:\$\((?:realpath|readlink -f) (?:-- )?{_OWN_PATH}\)|{_OWN_PATH})[\"']?"
)
_ENTERED = re.compile(
    r"cd (?:-P )?(?:-- )?(?P<folder>.+?)(?P<below>(?: ?(?:&&|;) ?cd [\w./][\w./-]*){0,9})"
    r"(?: [&1]?>\s*/dev/null(?: 2>&1)?)? ?(?:&&|;) ?pwd(?: -P)?"
)
_JOINED_ARRAY = re.compile(
    r"(?:local )?IFS=(?P<quote>[\"']?)(?P<mark>[^\s\"';$]?)(?P=quote) ?; ?(?P<command>(?:echo|printf) .*)",
    re.ASCII,
)
_ARRAY = re.compile(r"(?:echo|printf (?:\"%s\"|'%s'|%s)) \"?\$\{(?P<name>[A-Za-z_]\w*)\[\*\]\}\"?", re.ASCII)
_REAL_PATH = re.compile(r"(?:realpath|readlink -f)(?: -[sm-])* (?P<path>[^-].*)")
_FROM_TEXT = re.compile(
    r"(?:(?P<eval>eval\s+)?echo|printf|seq)\s|cat\s*<<|(?:tr|wc|cut|awk|sed|head|tail|grep)\s.*<<<", re.DOTALL
)

_SUBSTITUTED = r"(?:\$\((?!\()|`)"
_FAILING = re.compile(
    rf"{_SUBSTITUTED}(?:[^()`|]*[;&\n])?\s*(?:false|exit\s+[1-9]\d*)\s*[)`](?!.*{_SUBSTITUTED})", re.DOTALL
)


def assigned_status(written: str) -> bool | None:
    """Return whether assignments succeed, as the last command in them does; None where that is not known."""
    return (False if _FAILING.search(written) else None) if re.search(_SUBSTITUTED, written) else True


def substitute(shown: str, values: Values, split: Split, depth: int) -> str | None:
    """Return what `$(...)` or a command in backticks prints; None where the text does not say it."""
    written = shown[2:-1].strip() if shown[0] == "$" else re.sub(r"\\([$`\\])", r"\1", shown[1:-1]).strip()
    command = " ".join(written.split())
    if _SILENT.fullmatch(command):
        return ""
    joined = _JOINED_ARRAY.fullmatch(command)
    if joined is not None:
        return _joined_array(joined["mark"], joined["command"], values)
    program = _LOOKUP.fullmatch(command)
    if program is not None:
        return program[1]
    said = _FROM_TEXT.match(written)
    if said is not None and depth < DEEPEST:
        tokens = split(written[said.end("eval") if said["eval"] else 0 :], depth + 1)
        return _printed_by(_again(tokens) if said["eval"] else tokens)
    return _named(command, values) or _computed_path(command, values, split, depth)


def _joined_array(mark: str, command: str, values: Values) -> str | None:
    """Return what `IFS=,; echo "${NAME[*]}"` prints: the words of an array with a mark between them."""
    found = _ARRAY.fullmatch(command)
    words = values.get(found["name"]) if found is not None else None
    if not isinstance(words, tuple) or not all(word.is_known for word in words):
        return None
    text = mark.join(word.text for word in words)
    return None if text.startswith("-") or "\\" in text else text


def _named(command: str, values: Values) -> str | None:
    """Return what a program prints that asks for a name, a number or the time."""
    now = values.get("EPOCHSECONDS")
    if command in ("pwd", "whoami"):
        value = values.get("PWD" if command == "pwd" else "USER")
        return value if isinstance(value, str) else None
    if _OWN_FOLDER.fullmatch(command):
        own = values.get("BASH_SOURCE") if "BASH_SOURCE" in command else None
        return (posixpath.dirname(own) or ".") if isinstance(own, str) else "."
    expression = _EXPR.fullmatch(command)
    if expression is not None:
        number = evaluate_arithmetic(expression[1].replace("\\*", "*"), values)
        return None if number is None else str(number)
    date = _DATE.fullmatch(command)
    if date is not None and isinstance(now, str) and now.isdecimal():
        return time.strftime(date["format"], time.localtime(int(now)))
    return None


def _computed_path(command: str, values: Values, split: Split, depth: int) -> str | None:
    """Return what a program prints that makes a path of another."""
    here = values.get("PWD")
    if depth >= DEEPEST:
        return None
    entered = _ENTERED.fullmatch(command)
    if entered is not None and isinstance(here, str):
        folder, lacking = join_tokens(split(entered["folder"], depth + 1))
        below = re.findall(r" ([\w./-]+)", entered["below"])[1::2]
        return None if lacking else posixpath.normpath(posixpath.join(here, folder, *below))
    named = _PATH_PART.fullmatch(command)
    if named is not None:
        parts = split(named["path"], depth + 1)
        path, lacking = join_tokens(parts)
        if lacking and _OWN_FOLDER.fullmatch(
            f"{named['part']} {path}"
        ):  # DIR=$(dirname $FILE) of $(realpath $0)
            return _named(f"{named['part']} {path}", values)
        is_option = path.startswith("-") and " -- " not in command
        if lacking or is_option or len(parts) != 1 or (named["suffix"] and named["part"] == "dirname"):
            return None
        if named["part"] == "dirname" and path == "." != named["path"].strip("\"'"):
            return None  # above the directory of the script, which may have any name
        return _path_part(named["part"], path, (named["suffix"] or "").strip("\"'"))
    real = _REAL_PATH.fullmatch(command)
    if real is not None:
        path, lacking = join_tokens(split(real["path"], depth + 1))
        return None if lacking else posixpath.normpath(path)
    return None


def _again(tokens: tuple[Word | Operator, ...]) -> tuple[Word | Operator, ...]:
    """Return words as `eval` reads them once more: `{$FIRST..$LAST}` is a range by then."""
    found: list[Word | Operator] = []
    for token in tokens:
        is_plain = isinstance(token, Word) and not re.search(r"[$`]", token.text)
        braces = expand_braces(token.text) if is_plain else ()
        found += [Word(part) for part in braces] if braces and braces != (token.text,) else [token]
    return tuple(found)


def _printed_by(tokens: tuple[Word | Operator, ...]) -> str | None:
    """Return what the programs of a pipeline print, None where the text does not say it."""
    commands: list[list[str]] = [[]]
    before = ""
    if tokens[:1] == (Word("cat"),):
        return _text_in_place(tokens[1:])
    for token in tokens:
        if isinstance(token, Operator):
            before = token.text
            if before == "|":
                commands.append([])
            elif before not in ("2>", "<<<") or (before == "<<<" and len(commands) > 1):
                return None
            continue
        if before != "2>" and not token.is_known:
            return None
        if before == "<<<":
            commands.insert(0, ["printf", "%s\\n", token.text])
        elif before != "2>":
            commands[-1].append(token.text)
        before = ""
    return predict_output(commands)


def _text_in_place(tokens: tuple[Word | Operator, ...]) -> str | None:
    """Return what `cat` prints of a text in place (`<<EOF`), None for any other use of it."""
    words = tuple(token for token in tokens if isinstance(token, Word))
    marks = tuple(token.text for token in tokens if isinstance(token, Operator) and token.text != "\n")
    is_alone = len(words) == 1 and marks in (("<<",), ("<<-",), ("<<<",)) and words[0].is_known
    return words[0].text.rstrip("\n") if is_alone else None


def _path_part(part: str, path: str, suffix: str) -> str:
    """Return what basename and dirname of coreutils print."""
    path = path.rstrip("/") or path
    if part == "dirname":
        return posixpath.dirname(path) or "."
    name = posixpath.basename(path)
    return name.removesuffix(suffix) if name != suffix else name
