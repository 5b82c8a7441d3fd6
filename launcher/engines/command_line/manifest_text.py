"""The command in a manifest: of a container of Kubernetes or Compose, of a step of CI, of a task. Pure.

Only the keys that hold commands are looked for, so a part of a manifest is read as the whole is.
"""

import json
import re
import shlex
from collections.abc import Iterator

from launcher.engines.command_line.manifest_counts import (
    count_variables,
    document_of,
    is_of_cluster,
    refuse_ray,
)
from launcher.engines.command_line.manifest_keys import set_variable, texts_of_keys, unset_variables
from launcher.engines.command_line.manifest_lines import (
    end_of_value,
    indent_of,
    is_behind,
    levels_around,
    mapping_around,
)
from launcher.engines.command_line.manifest_remainder import unread_of_manifest
from launcher.engines.command_line.yaml_scalars import whole_value
from launcher.errors import CommandRefused
from preflight.frozen import dataclass

_TEXT = r"[^ \t]+(?:[ \t]+[^ \t]+)*"
"""A value without the blanks around it: `.*?[ \\t]*` takes the square of the time for many blanks."""
_KEY = re.compile(
    r"(?P<indent>[ ]*(?:- +)*)(?P<key>command|args|run|script|commands|cmds|entrypoint|cmd"
    r"|env|envs|environment|environment_variables|variables|secrets|Entrypoint|Args)"
    rf"[ \t]*:(?:[ \t]+(?P<value>(?:{_TEXT})?))?[ \t]*"
)
_BLOCK = re.compile(r"(?P<kind>[|>])[+-]?\d?[ \t]*(?:#.*)?")
_ITEM = re.compile(rf"(?P<indent>[ ]*)-[ \t]+(?P<value>(?:{_TEXT})?)[ \t]*")
_NAMED = re.compile(r"[ ]*(?:- +)?name:[ \t]*(?P<name>[\"']?[A-Za-z_]\w*[\"']?)[ \t]*")
_VALUE = re.compile(rf"[ ]*value:[ \t]*(?P<value>{_TEXT})[ \t]*")
_PAIR = re.compile(rf"[ ]*(?:- )?(?P<name>[A-Za-z_]\w*)(?:=|:[ \t]+)(?P<value>[ \t]*{_TEXT}|)[ \t]*")
_FLOW_PAIR = re.compile(
    r"[ ]*- +\{[ ]*name:[ ]*(?P<name>[\"']?[A-Za-z_]\w*[\"']?)[ ]*,"
    r"[ ]*value:[ ]*(?P<value>(?:[^{} ]+(?:[ ]+[^{} ]+)*)?)[ ]*\}[ \t]*"
)
_OF_CONTAINER = re.compile(r"\\\$\((?P<name>[A-Za-z_]\w*)\)", re.ASCII)
"""A variable that Kubernetes fills in, behind `\\`: `$(MASTER_ADDR)`."""
_BARE_WORD = re.compile(r"(?<=[\[,])[ \t]*([^\"'\[\],\s](?:[^,\]\" \t]|[ \t]+(?=[^,\] \t]))*)[ \t]*(?=[,\]])")
_SINGLE_QUOTED = re.compile(r"'([^'\"\\]*)'")
# No possessive group: Python before 3.11.5 finds nothing with one that has alternatives.
_QUOTED_COMMENT = re.compile(
    r"(?P<value>(?:\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\"'\s]|[ \t]+(?![ \t#]))*)[ \t]+#.*"
)
_PLAIN_COMMENT = re.compile(r"(?<![ \t])[ \t]+#.*")
_SHELL = re.compile(r"(?:/[\w/]+/)?(?:ba|z|da|k)?sh")
_VARIABLES = ("env", "envs", "environment", "environment_variables", "variables", "secrets")
"""`envs` and `secrets` of SkyPilot, `environment_variables` of Azure ML."""

_INPUT = re.compile(r"\$\{\{[ ]*(?P<of_parent>parent\.)?inputs\.(?P<name>\w+)[ ]*\}\}")
_INPUTS = re.compile(r"(?P<indent>[ ]*)inputs:[ \t]*(?:#.*)?")
_GIVEN = re.compile(r"[ ]*(?P<name>\w+):(?:[ \t]+(?P<value>[^#\s]+(?:[ \t]+[^#\s]+)*)?)?[ \t]*(?:#.*)?")
_DEFAULTS = ("value", "default")
"""Of an input of Azure ML that has a type."""

_NO_VALUE = ("null", "~")
_TEXT_KEYS = ("run", "script", "commands", "cmds", "cmd")
_STARTS = ("command", "entrypoint")
_PREPARING = re.compile(r"[ ]*initContainers:[ \t]*(?:#.*)?")
_NODE_RANK = re.compile(r"[ \t]+--(?:node|machine)[_-]rank[= \t]\d{1,4}(?=[\s\\]|$)")
"""In which the commands of a master and of its workers differ."""

_OPEN = re.compile(r"(\{\{[^{}\n]{1,80}\}\}|(?<==)\{[A-Za-z]\w*\}$)")
"""What a template fills in within a word: `--lr={{ .Values.lr }}`, `--nnodes={nodes}`."""

_IMAGE = re.compile(r"[ \t]*(?:- )?image:")
_MOST_LINES = 5_000
_LONGEST_INPUT, _MOST_FILLED = 1000, 100_000
"""Characters of an input that is filled in, and of all of them in one command."""
_MOST_COMMANDS = 4
"""Of one manifest, whose variables are compared: a master and its workers have the same."""


@dataclass(frozen=True, slots=True)
class _Key:
    """A key that holds a command, and its value: one text or several words."""

    name: str
    indent: int
    line: int  # index of its own line
    end: int  # index of the first line behind its value
    text: str | None
    words: tuple[str, ...] = ()


def command_of_manifest(text: str, launch: re.Pattern[str]) -> str | None:
    """Return the one command of a manifest that launches something; None for any other text.

    `launch` matches a launch. Raises CommandRefused for a manifest of several or none.
    """
    lines = text.split("\n")
    if len(lines) > _MOST_LINES:
        return None
    if not any(_KEY.fullmatch(line) for line in lines):
        _refuse_image(lines, text, launch)
        return None
    keys = _without_preparing(list(_keys(lines)), lines)
    commands: dict[str, list[_Key]] = {}
    of_any_node: dict[str, str] = {}
    for key in keys:
        command = _command(key, keys, lines)
        if command is not None and launch.search(command):
            command = of_any_node.setdefault(_NODE_RANK.sub("", command), command)
            commands.setdefault(command, []).append(key)
    found: dict[tuple[str, str], list[_Key]] = {}
    for command, places in list(commands.items())[:_MOST_COMMANDS]:
        for key in places[:_MOST_COMMANDS]:
            said = "".join(_surroundings(keys, key, lines, command))
            found.setdefault((said, _with_inputs(command, key, lines)), []).append(key)
    if found:
        refuse_ray(lines, next(iter(commands)))
    elif surely := _only_command(keys, lines):
        return surely
    if len(found) > 1:
        count = max(len(found), len(commands))
        raise CommandRefused(f"the manifest has {count} commands that launch something", "paste one of them")
    return next((_whole(lines, places, *texts) for texts, places in found.items()), None)


def _whole(lines: list[str], places: list[_Key], said: str, command: str) -> str:
    """Return a command with what its keys say in front, and the names of those that nothing has read."""
    around = [(key.line, key.indent) for key in places]
    return "".join((said, *unread_of_manifest(lines, around, said), command))


def _refuse_image(lines: list[str], text: str, launch: re.Pattern[str]) -> None:
    """Raise CommandRefused for a manifest of containers that start what their image says."""
    if is_of_cluster(lines) and any(map(_IMAGE.match, lines)) and not launch.search(text):
        raise CommandRefused(
            "the manifest has no command: its image says what starts",
            "write the command that trains: gpulaunch run --hosts A,B -- torchrun SCRIPT",
        )


def _only_command(keys: list[_Key], lines: list[str]) -> str | None:
    """Return what the one container of a manifest starts that is not a launcher: `command: ["./train.sh"]`.

    None for other texts. Raises CommandRefused for a container with arguments alone.
    """
    if not is_of_cluster(lines):
        return None
    commands: dict[str, _Key] = {}
    for key in keys:
        command = _command(key, keys, lines) if key.name in _STARTS else None
        if command:
            commands.setdefault(command, key)
    if not commands and any(key.name == "args" for key in keys):
        raise CommandRefused(
            "the manifest has arguments and no command: the image says what starts with them",
            "write the command: gpulaunch run --hosts A,B -- torchrun SCRIPT ARGUMENTS",
        )
    if len(commands) != 1:
        return None
    ((command, key),) = commands.items()
    return _whole(lines, [key], "".join(_surroundings(keys, key, lines, command)), command)


def _without_preparing(keys: list[_Key], lines: list[str]) -> list[_Key]:
    """Return keys without those of containers that run before the others, where others are left."""
    starts = [at for at, line in enumerate(lines) if _PREPARING.fullmatch(line)]
    inside = {
        at for start in starts for at in range(start, end_of_value(lines, start, indent_of(lines[start])))
    }
    return [key for key in keys if key.line not in inside] or keys


def _command(key: _Key, keys: list[_Key], lines: list[str]) -> str | None:
    """Return what a key runs as a text of a shell: `args` belong to the `command` in the same mapping."""
    if key.name in _VARIABLES:
        return None
    if key.name in _TEXT_KEYS and key.words:
        return "\n".join(key.words)
    more = _arguments(key, keys, lines) if key.name in _STARTS else None
    if key.text is not None:
        behind = more.text if more is not None and key.name == "entrypoint" else None
        return f"{key.text} {behind}" if behind else key.text
    words = key.words
    if more is not None:
        words += more.words or (() if more.text is None else (more.text,))
    if len(words) > 2 and _SHELL.fullmatch(words[0]) and re.fullmatch(r"-\w*c", words[-2]):
        return words[-1]
    return " ".join(map(_quoted, words)) if len(words) > 1 else "".join(words)


def _arguments(key: _Key, keys: list[_Key], lines: list[str]) -> _Key | None:
    """Return the key with the arguments of one that starts a program, wherever it is in the mapping."""
    names = ("args", "command") if key.name == "entrypoint" else ("args",)
    around = mapping_around(lines, key.line, key.indent)
    beside = range(around.start - 1, around.stop)  # with the line of its `- `
    return next(
        (one for one in keys if one.indent == key.indent and one.name in names and one.line in beside), None
    )


def _quoted(word: str) -> str:
    """Return a word of a container's command as a shell has it."""
    escaped = re.sub(r"([\\\"`$])", r"\\\1", word)
    if _OF_CONTAINER.search(escaped) is None:
        parts = _OPEN.split(word)
        return "".join(part if at % 2 else shlex.quote(part) for at, part in enumerate(parts) if part) or "''"
    return '"' + _OF_CONTAINER.sub(r"${\g<name>}", escaped) + '"'


def _keys(lines: list[str]) -> Iterator[_Key]:
    at = 0
    while at < len(lines):
        found = _KEY.fullmatch(lines[at])
        if found is None:
            at += 1
            continue
        indent, value = len(found["indent"]), found["value"] or ""
        block = _BLOCK.fullmatch(value)
        if block is not None:
            body, end = _block(lines, at + 1, indent)
            yield _Key(found["key"], indent, at, end, _joined(body, block["kind"]))
        elif value and not value.startswith("#"):
            value, end = whole_value(lines, at, value, indent)
            value = _without_comment(value)
            listed = _flow(value)
            yield _Key(found["key"].lower(), indent, at, end, None if listed else _scalar(value), listed)
        else:
            words, end = _items(lines, at + 1, indent)
            yield _Key(found["key"].lower(), indent, at, end, None, words)
        at = max(end, at + 1)


def _block(lines: list[str], start: int, indent: int) -> tuple[list[str], int]:
    """Return the lines that are deeper than `indent`, without what they have in common."""
    end = start
    while end < len(lines) and (not lines[end].strip() or indent_of(lines[end]) > indent):
        end += 1
    body = lines[start:end]
    common = min((indent_of(line) for line in body if line.strip()), default=0)
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
            value, at = whole_value(lines, at, item["value"], len(item["indent"]))
            words.append(_scalar(value))
        end = at
    return tuple(words), end


def _flow(value: str) -> tuple[str, ...]:
    """Return the words of `[a, "b"]`; () for any other value."""
    if not value.startswith("["):
        return ()
    quoted = _BARE_WORD.sub(lambda one: json.dumps(one[1]), _SINGLE_QUOTED.sub(r'"\1"', value))
    for text in (value, quoted):
        try:
            words = json.loads(text)
        except (ValueError, RecursionError):
            continue
        return tuple(map(str, words)) if all(isinstance(word, str | int | float) for word in words) else ()
    return ()


def _without_comment(value: str) -> str:
    """Return a value without the comment behind it."""
    if not value.startswith(("[", "{", '"', "'")):
        return _PLAIN_COMMENT.sub("", value)
    found = _QUOTED_COMMENT.fullmatch(value)
    return value if found is None else found["value"]


def _scalar(value: str) -> str:
    value = _without_comment(value)
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        inner = value[1:-1]
        return inner.replace("''", "'") if value[0] == "'" else re.sub(r"\\([\"\\])", r"\1", inner)
    return value


def _surroundings(keys: list[_Key], command: _Key, lines: list[str], text: str) -> Iterator[str]:
    """Yield what counts nodes around a command of a text, and the variables that are set beside it."""
    beside = mapping_around(lines, command.line, command.indent)
    yield from count_variables(lines, beside, text)
    yield from texts_of_keys(lines, beside, document_of(lines, beside), command.indent)
    levels = list(levels_around(lines, command.line, command.indent))
    for around, indent, _ in reversed(levels):  # a step's own variables count before those of its job
        for key in keys:
            if key.name in _VARIABLES and key.indent == indent and key.line in around:
                for name, value in _variables(lines, key):
                    yield set_variable(name, _scalar(value))
                yield from unset_variables(lines[key.line + 1 : end_of_value(lines, key.line, key.indent)])


def _is_variable(line: str, key: _Key, column: int, named: str) -> bool:
    """Whether a pair in small letters is a variable: `http_proxy: URL` of a mapping, not `optional: true`."""
    is_mapping = not named and indent_of(line) == column and not line.lstrip().startswith("- ")
    return is_mapping and key.name in ("env", "envs", "environment_variables")


def _with_inputs(command: str, key: _Key, lines: list[str]) -> str:
    """Return a command with the inputs that the job or its pipeline gives as plain values."""
    if "inputs." not in command:
        return command
    own, outer = _inputs(lines, key.line, key.indent), _inputs(lines, len(lines) - 1, 0)
    room = _MOST_FILLED

    def given(found: re.Match[str]) -> str:
        nonlocal room
        value = (outer if found["of_parent"] else own).get(found["name"], found[0])
        value = _INPUT.sub(lambda one: outer.get(one["name"], one[0]), value) if room > 0 else found[0]
        room -= len(value)
        return value

    return _INPUT.sub(given, command)


def _inputs(lines: list[str], line: int, indent: int) -> dict[str, str]:
    """Return the plain values of the `inputs:` with an indent that are beside a line."""
    beside = mapping_around(lines, line, indent)
    heads = (at for at in beside if (head := _INPUTS.fullmatch(lines[at])) and len(head[1]) == indent)
    start = next(heads, len(lines)) + 1
    depth = next((indent_of(each) for each in lines[start:] if each.strip()), 0)
    found: dict[str, str] = {}
    name = ""
    for each in lines[start:] if depth > indent else ():
        if each.strip() and indent_of(each) < depth:
            break
        pair = _GIVEN.fullmatch(each)
        value = _scalar((pair["value"] or "").strip()) if pair is not None else ""
        if pair is not None and indent_of(each) == depth:
            name = pair["name"]
        elif pair is None or pair["name"] not in _DEFAULTS:
            continue
        if value and value[0] not in "{[|>&*" and len(value) <= _LONGEST_INPUT:
            found[name] = value
    return found


def _variables(lines: list[str], key: _Key) -> Iterator[tuple[str, str]]:
    at = key.line + 1
    named = ""
    column = next((indent_of(line) for line in lines[at:] if line.strip()[:1] not in ("", "#")), 0)
    while at < len(lines) and not is_behind(lines[at], key.indent):
        line, at = lines[at], at + 1
        name, value, pair = _NAMED.fullmatch(line), _VALUE.fullmatch(line), _PAIR.fullmatch(line)
        both = _FLOW_PAIR.fullmatch(line)
        if _KEY.fullmatch(line):
            return
        if both is not None:
            yield _scalar(both["name"]), both["value"]
            continue
        if name is not None:
            named = _scalar(name["name"])
        elif value is not None and named:
            yield named, value["value"]
            named = ""
        elif (
            pair is not None
            and pair["value"] not in ("", *_NO_VALUE)
            and (pair["name"].isupper() or _is_variable(line, key, column, named))
        ):
            yield pair["name"], pair["value"]
