"""Keys of a manifest with a command or variables, and their values, over several lines or not. Pure."""

import json
from collections.abc import Iterator, Sequence

from launcher.engines.command_line.manifests.lines import get_indent
from preflight import regex as re
from preflight.frozen import dataclass

TEXT = r"[^ \t]+(?:[ \t]+[^ \t]+)*"
"""A value without the blanks around it: `.*?[ \\t]*` takes the square of the time for many blanks."""
KEY = re.compile(
    r"(?P<indent>[ ]*(?:- +)*)(?P<key>command|args|run|script|commands|cmds|entrypoint|cmd"
    r"|env|envs|envVars|environment|environment_variables|variables|secrets|Entrypoint|Args"
    r"|arguments(?=[ \t]*:[ \t]*\[)|ansible\.builtin\.(?:shell|command|raw)"
    r"|(?:shell|bash)(?=:[ \t]+(?:[|>]|\S+[ \t]+[^{ \t]))"  # of Ansible, and no `shell: bash` of a workflow
    r"|(?!(?:name|label|title|desc|help|usage|note|example|comment)\w*:)[a-z][\w-]*"  # of any other file
    r"(?=:[ \t]+[\"']?"
    r"(?:cd[ \t]+[^\s&]+[ \t]*&&[ \t]*|(?:env|exec|nohup)[ \t]+|[A-Za-z_]\w*=\S*[ \t]+){0,9}"
    r"(?:(?:torchrun|accelerate[ \t]+launch|deepspeed|(?:ba)?sh)[ \t]+[-\w./]"
    r"|python[\d.]*[ \t]+(?:-[a-zA-Z]+[ \t]+)*?(?:-m[ \t]|[\w./-]+\.py\b))))"
    rf"[ \t]*:(?:[ \t]+(?P<value>(?:{TEXT})?))?[ \t]*"
)
_TAKEN = re.compile(r"(?<!\S)(?P<key>chdir|creates|removes)=(?P<value>[^\s{}]+)(?!\S)")
_PLAY = re.compile(r"[ ]*(?:- )?(?:hosts|become|register|ansible\.builtin\.command):")
_BLOCK = re.compile(r"(?P<kind>[|>])[+-]?\d?[ \t]*(?:#.*)?")
_ITEM = re.compile(rf"(?P<indent>[ ]*)-[ \t]+(?P<value>(?:{TEXT})?)[ \t]*")
_FLOW_WORD = re.compile(
    r"\"(?:[^\"\\]|\\.)*\"|'(?P<quoted>(?:[^']|'')*)'"
    r"|(?<=[\[,])[ \t]*(?P<bare>[^\"'\[\],\s](?:[^,\]\" \t]|[ \t]+(?=[^,\] \t]))*)[ \t]*(?=[,\]])"
)
# No possessive group: Python before 3.11.5 finds nothing with one that has alternatives.
_QUOTED_COMMENT = re.compile(
    r"(?P<value>(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\"'\s]|[ \t]+(?![ \t#]))*)[ \t]+#.*"
)
_PLAIN_COMMENT = re.compile(r"(?<![ \t])[ \t]+#.*")


@dataclass(frozen=True, slots=True)
class CommandKey:
    """A key that holds a command, and its value: one text or several words."""

    name: str
    indent: int
    line: int  # index of its own line
    text: str | None
    words: tuple[str, ...] = ()
    around: range = range(0)  # the lines of the mapping that it is in
    arguments: "CommandKey | None" = None  # the key of what a program gets that this one starts


def list_keys(lines: list[str]) -> Iterator[CommandKey]:
    """Yield the keys of a manifest that hold a command or variables, in its order."""
    at = 0
    modules = ("shell", "raw", *["command"] * any(map(_PLAY.match, lines)))
    while at < len(lines):
        found = KEY.fullmatch(lines[at])
        if found is None:
            at += 1
            continue
        name = found["key"].lower().replace("arguments", "args").rpartition(".")[2]  # those of Beaker
        indent, value = len(found["indent"]), found["value"] or ""
        block = _BLOCK.fullmatch(value)
        if block is not None:
            body, end = _block(lines, at + 1, indent)
            yield CommandKey(name, indent, at, _joined(body, block["kind"]))
        elif value and not value.startswith("#"):
            value, end = join_value(lines, at, value, indent)
            value = _without_comment(value)
            listed = parse_flow_words(value)
            text = _of_module(parse_scalar(value)) if name in modules else parse_scalar(value)
            yield CommandKey(name, indent, at, None if listed else text, listed)
        else:
            words, end = _items(lines, at + 1, indent)
            yield CommandKey(name, indent, at, None, words)
        at = max(end, at + 1)


def _of_module(text: str) -> str:
    """Return a text without what a module of Ansible takes of it: `torchrun a.py chdir=/srv creates=/x`."""
    changed = [found["value"] for found in _TAKEN.finditer(text) if found["key"] == "chdir"]
    return "".join(f"cd {folder}\n" for folder in changed[-1:]) + _TAKEN.sub("", text)


def _block(lines: list[str], start: int, indent: int) -> tuple[list[str], int]:
    """Return the lines that are deeper than `indent`, without what they have in common."""
    end = start
    while end < len(lines) and (not lines[end].strip() or get_indent(lines[end]) > indent):
        end += 1
    body = lines[start:end]
    common = min((get_indent(line) for line in body if line.strip()), default=0)
    return [line[common:] for line in body], end


def _joined(body: list[str], kind: str) -> str:
    if kind == "|":
        return "\n".join(body)
    return "\n".join(" ".join(part.split("\n")) for part in "\n".join(body).strip("\n").split("\n\n"))


def _items(lines: list[str], start: int, indent: int) -> tuple[tuple[str, ...], int]:
    """Return the words of a list below a key: each a line, a block or a quoted text."""
    words: list[str] = []
    at = end = start
    while at < len(lines):
        if not lines[at].strip() or lines[at].lstrip().startswith("#"):
            at += 1
            continue
        item = _ITEM.fullmatch(lines[at])
        if item is None or len(item["indent"]) + 2 < indent:
            break
        block = _BLOCK.fullmatch(item["value"])
        if block is not None:
            body, at = _block(lines, at + 1, len(item["indent"]))
            words.append(_joined(body, block["kind"]))
        else:
            value, at = join_value(lines, at, item["value"], len(item["indent"]))
            words.append(parse_scalar(value))
        end = at
    return tuple(words), end


def parse_flow_words(value: str) -> tuple[str, ...]:
    """Return the words of `[a, "b"]`, as YAML and JSON write lists; () for any other value."""
    if not value.startswith("["):
        return ()
    for text in (value, _FLOW_WORD.sub(_as_json, value)):
        try:
            words = json.loads(text)
        except (ValueError, RecursionError):
            continue
        return tuple(map(str, words)) if all(isinstance(word, str | int | float) for word in words) else ()
    return ()


def _as_json(word: re.Match[str]) -> str:
    """Return a word of a list as JSON has it."""
    quoted, bare = word["quoted"], word["bare"]
    return word[0] if quoted is bare is None else json.dumps(bare or (quoted or "").replace("''", "'"))


def _without_comment(value: str) -> str:
    """Return a value without the comment behind it."""
    if not value.startswith(("[", "{", '"', "'")):
        return _PLAIN_COMMENT.sub("", value)
    found = _QUOTED_COMMENT.fullmatch(value)
    return value if found is None else found["value"]


def parse_scalar(value: str) -> str:
    """Return a value without its quotes and the comment behind it."""
    value = _without_comment(value)
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        inner = value[1:-1]
        return inner.replace("''", "'") if value[0] == "'" else re.sub(r"\\([\"\\])", r"\1", inner)
    return value


_PART = re.compile(r"[^\"'\[\]\\#]+|\\.|.", re.DOTALL)
_STARTS = re.compile(r"[ ]*(?:#|- |[\w.-]+:(?:[ \t]|$)|-?\t)")  # continues no plain value

_MOST_LINES, _LONGEST = 60, 20_000


def join_value(lines: Sequence[str], at: int, value: str, indent: int) -> tuple[str, int]:
    """Return a value that starts on line `at`, on one line, and the first line behind it.

    Lines deeper than `indent`, of its key or its `-`, continue a plain value. In double quotes a backslash at
    the end of a line joins it to the next one without a blank. A value whose quotes or brackets do not end in
    time is returned as far as its own line.
    """
    if not value.startswith(('"', "'", "[")):
        return _plain_value(lines, at, value, indent)
    text, quote, depth = "", "", 0
    for end in range(at, min(len(lines), at + _MOST_LINES)):
        line = (value if end == at else lines[end]).strip()
        part, quote, depth = _read(line, quote, depth)
        is_joined = quote == '"' and part.endswith("\\") and not part.endswith("\\\\")
        text += part[:-1] if is_joined else part
        if len(text) > _LONGEST:
            break
        if not quote and depth <= 0:
            return text, end + 1
        text += "" if is_joined else " "
    return value, at + 1


def _plain_value(lines: Sequence[str], at: int, value: str, indent: int) -> tuple[str, int]:
    """Return a value without quotes, with the lines that continue it."""
    end = at + 1
    while end < min(len(lines), at + _MOST_LINES) and " #" not in value:
        line = lines[end]
        depth = len(line) - len(line.lstrip(" "))
        if depth <= indent or not line.strip() or _STARTS.match(line):
            break
        value, end = f"{value} {line.strip()}", end + 1
    return value, end


def _read(line: str, quote: str, depth: int) -> tuple[str, str, int]:
    """Return a line without its comment, the quote that is open behind it, and how many brackets."""
    kept: list[str] = []
    for found in _PART.finditer(line):
        part = found[0]
        if part == "#" and not quote and (not kept or kept[-1].endswith((" ", "\t"))):
            break
        if quote:
            quote = "" if part == quote else quote
        elif part in "\"'":
            quote = part
        elif part in "[]":
            depth += 1 if part == "[" else -1
        kept.append(part)
    return "".join(kept).rstrip(), quote, depth
