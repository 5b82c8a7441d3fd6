"""The command in a manifest: of a container of Kubernetes or Compose, of a step of CI, of a task. Pure.

Only the keys that hold commands are looked for, so a part of a manifest is read as the whole is.
"""

import shlex
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace

from launcher.engines.command_line import refusals
from launcher.engines.command_line.launch_patterns import LAUNCH_INSIDE
from launcher.engines.command_line.manifests import counts
from launcher.engines.command_line.manifests.command_keys import (
    KEY,
    TEXT,
    CommandKey,
    list_keys,
    parse_scalar,
)
from launcher.engines.command_line.manifests.keys import render_keys, set_variable, unset_variables
from launcher.engines.command_line.manifests.lines import (
    end_of_value,
    find_mapping,
    get_indent,
    is_behind,
    list_levels,
)
from launcher.engines.command_line.manifests.remainder import list_unread
from launcher.engines.command_line.side_commands import NEEDED_TASK, SHELL_SCRIPT, say_left_out
from launcher.engines.command_line.tables.shells import starts_posix_shell
from launcher.errors import CommandRefused
from preflight import regex as re

_NAMED = re.compile(r"[ ]*(?:- +)?name:[ \t]*(?P<name>[\"']?[A-Za-z_]\w*[\"']?)[ \t]*")
_VALUE = re.compile(rf"[ ]*value:[ \t]*(?P<value>{TEXT})[ \t]*")
_PAIR = re.compile(rf"[ ]*(?:- )?(?P<name>[A-Za-z_]\w*)(?:=|:[ \t]+)(?P<value>[ \t]*{TEXT}|)[ \t]*")
_FLOW_PAIR = re.compile(
    r"[ ]*- +\{[ ]*name:[ ]*(?P<name>[\"']?[A-Za-z_]\w*[\"']?)[ ]*,"
    r"[ ]*value:[ ]*(?P<value>(?:[^{} ]+(?:[ ]+[^{} ]+)*)?)[ ]*\}[ \t]*"
)
_OF_CONTAINER = re.compile(r"\\\$\((?P<name>[A-Za-z_]\w*)\)", re.ASCII)
"""A variable that Kubernetes fills in, behind `\\`: `$(MASTER_ADDR)`."""
_VARIABLES = ("env", "envs", "envvars", "environment", "environment_variables", "variables", "secrets")
"""`envs` and `secrets` of SkyPilot, `envVars` of Beaker, `environment_variables` of Azure ML."""

_FLOW_MAPPING = re.compile(
    rf"^(?P<head>(?P<indent>[ ]*(?:- +)*)(?:{'|'.join(_VARIABLES)}|vars):)[ ]+"
    r"(?:\{[ ]*(?P<pairs>(?:\"[^\"\n]*\"|'[^'\n]*'|[^{}\"'\n])*)\}"
    r"|\[(?P<items>[ ]*\{[^{}\n]*\}(?:[ ]*,[ ]*\{[^{}\n]*\})*)[ ]*\])[ ]*$",
    re.MULTILINE,
)
_OF_FLOW = re.compile(r"(\w+:[ ]+(?:\"[^\"]*\"|'[^']*'|[^\s,\"'\[\]][^,\"'\[\]]*?))[ ]*(?:,[ ]*|\Z)")
_ELSE = r"(?:[ ]*\|[ ]*default[ ]+[\"']?(?P<default>[^\"'{}| ]+)[\"']?)"
_INPUT = re.compile(
    r"(?:\$\{\{[ ]*(?P<of_parent>parent\.)?inputs\.|\{\{[ ]*\.?)(?P<name>\w+)" + rf"{_ELSE}?[ ]*\}}\}}"
)
"""Of Azure ML, and the variables of a Taskfile, `{{.GPUS}}`, and of Ansible, `{{ gpus }}`."""

_GIVEN_ELSE = re.compile(rf"\{{\{{[ ]*\.\w+{_ELSE}[ ]*\}}\}}")
_TASK = re.compile(r"task:[ ]+([\w:-]+)[ ]*\Z")  # another task of a Taskfile, among its commands

_TYPED = {"CLI_ARGS": ""}  # what a person types behind the name of a task

_INPUTS = re.compile(r"(?P<indent>[ ]*)(?:inputs|vars):[ \t]*(?:#.*)?")
_GIVEN = re.compile(r"[ ]*(?P<name>\w+):(?:[ \t]+(?P<value>[^#\s]+(?:[ \t]+[^#\s]+)*)?)?[ \t]*(?:#.*)?")
_DEFAULTS = ("value", "default")  # of an input of Azure ML that has a type

_NO_VALUE = ("null", "~")
_TEXT_KEYS = ("run", "script", "commands", "cmds", "cmd")
_STARTS = ("command", "entrypoint")
_KNOWN = (*_TEXT_KEYS, *_STARTS, *_VARIABLES, "args", "shell", "raw", "bash")
_PREPARING = re.compile(r"[ ]*initContainers:[ \t]*(?:#.*)?")
_NODE_RANK = re.compile(r"(?<![ \t])[ \t]+--(?:node|machine)[_-]rank[= \t]\d{1,4}(?=[\s\\]|$)")
"""In which the commands of a master and of its workers differ."""

_OPEN = re.compile(
    r"(\{\{[^{}\n]{1,80}\}\}|(?<==)\{[A-Za-z]\w*\}$|\$[A-Za-z_]\w*"
    r"|\$\{[A-Za-z_]\w*(?::?[-+?](?:[^{}\n]|\$\{[^{}\n]{0,80}\}){0,80})?\})"
)
"""What a template fills in within a word: `--lr={{ .Values.lr }}`, `--n={nodes}`, `$NODES` of envsubst."""

_COMPOSE = re.compile(r"^services:", re.MULTILINE)
_DOLLAR = "\ue000"  # stands for the `$$` of Compose while a word is quoted: a dollar of its shell

_DECIDES = re.compile(r"[ \t]*\{[{%]-?[ \t]*(?:if|range|with|for)\b.*[%}]\}[ \t]*")
"""A line of Helm or Jinja that decides whether the text has the lines below it."""

_IMAGE = re.compile(r"[ \t]*(?:- )?image:")
_MOST_LINES = 5_000
_LONGEST_INPUT, _MOST_FILLED = 1000, 100_000  # characters of an input, of all in one command
_MOST_LAUNCHES, _MOST_ALIKE = 50, 4
"""Of one manifest, and places of one command whose variables are compared: a master and its workers."""

_SHOWN, _LISTED = 50, 6
_NOT_STARTED = "another command of the manifest: it is not started"


def extract_manifest(text: str) -> str | None:
    """Return the commands of a manifest that launch something, each in a group; None for any other text.

    Raises CommandRefused for a manifest of too many launches or none.
    """
    if text.startswith("#!"):
        return None  # a script, which may write one
    text = _FLOW_MAPPING.sub(_in_block, text)
    lines = (text.replace("$$", _DOLLAR) if _COMPOSE.search(text) else text).split("\n")
    if len(lines) > _MOST_LINES:
        return None
    if not any(KEY.fullmatch(line) for line in lines):
        _refuse_image(lines, text)
        return None
    keys = _with_places(_without_preparing(list(list_keys(lines)), lines), lines)
    found = _launches([key for key in keys if key.name in _KNOWN], lines) or _launches(keys, lines)
    if not found:
        return _only_command(keys, lines)
    counts.refuse_ray(lines, next(iter(found))[1])
    _refuse_template(keys, [key for places in found.values() for key in places], lines)
    if len(found) > _MOST_LAUNCHES:
        raise CommandRefused(
            f"the manifest has more than {_MOST_LAUNCHES} commands that launch something", "paste one of them"
        )
    texts = [_whole(lines, places, *said) for said, places in found.items()]
    started = {key.line for places in found.values() for key in places}
    return _others(keys, started, lines) + (
        texts[0] if len(texts) == 1 else "\n".join(f"(\n{text}\n)" for text in texts)
    )


def _launches(keys: list[CommandKey], lines: list[str]) -> dict[tuple[str, str], list[CommandKey]]:
    """Return what is said around each command that launches something, the command, and its keys."""
    commands: dict[str, list[CommandKey]] = {}
    of_any_node: dict[str, str] = {}
    of_another = {key.arguments.line for key in keys if key.arguments is not None}
    for key in keys:
        command = _command(key) if key.name != "args" or key.line not in of_another else None
        if command is not None and LAUNCH_INSIDE.search(command):
            command = of_any_node.setdefault(_NODE_RANK.sub("", command), command)
            commands.setdefault(command, []).append(key)
    found: dict[tuple[str, str], list[CommandKey]] = {}
    for command, places in list(commands.items())[: _MOST_LAUNCHES + 1]:
        for key in places[:_MOST_ALIKE]:
            said = "".join(_surroundings(keys, key, lines, command))
            found.setdefault((said, _with_inputs(command, key, lines)), []).append(key)
        found[next(reversed(found))] += places[_MOST_ALIKE:]
    return found


def _refuse_template(keys: list[CommandKey], started: list[CommandKey], lines: list[str]) -> None:
    """Raise CommandRefused for words or variables of a command that a template may leave out."""
    mappings = {(key.around, key.indent) for key in started}
    for key in keys:
        end = end_of_value(lines, key.line, key.indent) if (key.around, key.indent) in mappings else 0
        for at in range(key.line + 1, min(end + 1, len(lines) - 1)):
            if _DECIDES.fullmatch(lines[at]) and (at < end or lines[at + 1].lstrip().startswith("- ")):
                raise refusals.explain_template_choice(lines[at + 1])


def _others(keys: list[CommandKey], started: Collection[int], lines: list[str]) -> str:
    """Return a line of a shell that names the commands of a manifest on other lines than those."""
    places = {(key.around, key.indent) for key in keys if key.line in started}
    beside = {(line, indent) for around, indent in places for line in around}
    named = {line.strip("- ") for line in lines}
    left = (key for key in keys if key.name != "args" and (key.line, key.indent) not in beside)
    left = (key for key in left if key.name != "entrypoint" or f"name: {key.text}" not in named)  # of Argo
    texts = [_command(key) for key in left]
    shown = dict.fromkeys(" ".join(text.split())[:_SHOWN] for text in texts if text and text.strip())
    if not shown:
        return ""
    more = f" and {len(shown) - _LISTED} more" if len(shown) > _LISTED else ""
    return say_left_out(f"{'; '.join(list(shown)[:_LISTED])}{more}: {_NOT_STARTED}") + "\n"


def _whole(lines: list[str], places: list[CommandKey], said: str, command: str) -> str:
    """Return a command with what its keys say in front, and the names of those that nothing has read."""
    around = [(key.line, key.indent) for key in places]
    return "".join((said, *list_unread(lines, around, said), command)).replace(_DOLLAR, "$")


def _refuse_image(lines: list[str], text: str) -> None:
    """Raise CommandRefused for a manifest of containers that start what their image says."""
    is_of_image = counts.is_of_cluster(lines) and any(map(_IMAGE.match, lines))
    is_object = all(any(line.startswith(key) for line in lines) for key in ("apiVersion:", "kind:", "spec:"))
    if (is_of_image or is_object) and not LAUNCH_INSIDE.search(text):
        raise CommandRefused(
            f"the manifest has no command: its {'image' if is_of_image else 'cluster'} says what starts",
            "write the command that trains: gpulaunch run --hosts A,B -- torchrun SCRIPT",
        )


def _only_command(keys: list[CommandKey], lines: list[str]) -> str | None:
    """Return what the one container or step of a manifest starts: `command: ["./train.sh"]`.

    None for other texts. Raises CommandRefused for a container with arguments alone.
    """
    commands: dict[str, CommandKey] = {}
    for key in keys:
        command = _command(key) if key.name in (*_STARTS, *_TEXT_KEYS) else None
        if command:
            commands.setdefault(command, key)
    of_cluster = counts.is_of_cluster(lines)
    if of_cluster and not commands and any(key.name == "args" for key in keys):
        raise CommandRefused(
            "the manifest has arguments and no command: the image says what starts with them",
            "write the command: gpulaunch run --hosts A,B -- torchrun SCRIPT ARGUMENTS",
        )
    scripts = {command: key for command, key in commands.items() if SHELL_SCRIPT.search(command)}
    chosen = commands if of_cluster and len(commands) == 1 else scripts
    if len(chosen) != 1:
        _refuse_commands(commands if of_cluster else ())
        return None
    ((command, key),) = chosen.items()
    text = _whole(lines, [key], "".join(_surroundings(keys, key, lines, command)), command)
    return _others(keys, [key.line for key in keys if _command(key) == command], lines) + text


def _refuse_commands(commands: Iterable[str]) -> None:
    """Raise CommandRefused for several commands of which none surely trains."""
    shown = [" ".join(command.split())[:_SHOWN] for command in commands]
    if shown:
        raise CommandRefused(
            f"the manifest has {len(shown)} commands, and none is a launcher, Python or a script: "
            + "; ".join(shown[:_LISTED]),
            "paste the one that trains",
        )


def _without_preparing(keys: list[CommandKey], lines: list[str]) -> list[CommandKey]:
    """Return keys without those of containers that run before the others, where others are left."""
    starts = [at for at, line in enumerate(lines) if _PREPARING.fullmatch(line)]
    inside = {
        at for start in starts for at in range(start, end_of_value(lines, start, get_indent(lines[start])))
    }
    return [key for key in keys if key.line not in inside] or keys


def _command(key: CommandKey) -> str | None:
    """Return what a key runs as a text of a shell: `args` belong to the `command` in the same mapping."""
    if key.name in _VARIABLES:
        return None
    if key.name in _TEXT_KEYS and key.words:
        return "\n".join(_TASK.sub(rf"{NEEDED_TASK} \1", word) for word in key.words)
    more = key.arguments
    if key.text is not None:
        behind = more.text if more is not None and key.name == "entrypoint" else None
        return f"{key.text} {behind}" if behind else key.text
    words = key.words
    if more is not None:
        words += more.words or _split(more.text or "", is_line=key.name == "entrypoint")
    if len(words) > 2 and starts_posix_shell(words[0]) and re.fullmatch(r"-\w*c", words[-2]):
        return words[-1]
    return " ".join(map(_quoted, words)) if len(words) > 1 else "".join(words)


def _split(text: str, *, is_line: bool) -> tuple[str, ...]:
    """Return the words of arguments that are one text; of Compose it is a line, which is split."""
    with suppress(ValueError):
        return tuple(shlex.split(text)) if is_line else (text,) * bool(text)
    return (text,)


def _in_block(found: re.Match[str]) -> str:
    """Return variables on one line, `env: {A: 1, B: x}` or `[{name: A, value: 1}]`, each on its own."""
    pairs = re.findall(r"\{[^{}]*\}", found["items"] or "")
    pairs = [f"- {pair}" for pair in pairs] or _OF_FLOW.findall(found["pairs"])
    if found["pairs"] and _OF_FLOW.sub("", found["pairs"]).strip():
        return found[0]
    return "\n".join((found["head"], *(" " * (len(found["indent"]) + 2) + pair for pair in pairs)))


def _with_places(keys: list[CommandKey], lines: list[str]) -> list[CommandKey]:
    """Return keys with the lines of their mappings, and with the key of a program's arguments."""
    around: dict[int, range] = {}
    first: dict[tuple[range, int, str], CommandKey] = {}
    placed: list[CommandKey] = []
    for key in keys:
        if key.line not in around.get(key.indent, ()):
            around[key.indent] = find_mapping(lines, key.line, key.indent)
        placed.append(replace(key, around=around[key.indent]))
        first.setdefault((around[key.indent], key.indent, key.name), placed[-1])

    def arguments(key: CommandKey) -> CommandKey | None:
        names = ("args", "command") if key.name == "entrypoint" else ("args",) if key.name in _STARTS else ()
        found = (first.get((key.around, key.indent, name)) for name in names)
        return min((one for one in found if one is not None), key=lambda one: one.line, default=None)

    return [replace(key, arguments=arguments(key)) for key in placed]


def _quoted(word: str) -> str:
    """Return a word of a container's command as a shell has it."""
    escaped = re.sub(r"([\\\"`$])", r"\\\1", word)
    if _OF_CONTAINER.search(escaped) is None:
        parts = _OPEN.split(word)
        return "".join(part if at % 2 else shlex.quote(part) for at, part in enumerate(parts) if part) or "''"
    return '"' + _OF_CONTAINER.sub(r"${\g<name>}", escaped) + '"'


def _surroundings(keys: list[CommandKey], command: CommandKey, lines: list[str], text: str) -> Iterator[str]:
    """Yield what counts nodes around a command of a text, and the variables that are set beside it."""
    beside = find_mapping(lines, command.line, command.indent)
    yield from counts.count_variables(lines, beside, text)
    yield from render_keys(lines, beside, counts.find_document(lines, beside), command.indent)
    levels = list(list_levels(lines, command.line, command.indent))
    for around, indent, _ in reversed(levels):  # a step's own variables count before those of its job
        for key in keys:
            if key.name in _VARIABLES and key.indent == indent and key.line in around:
                quoted = _quoted if any(map(_COMPOSE.match, lines)) else shlex.quote
                for name, value in _variables(lines, key):
                    yield set_variable(name, parse_scalar(value), quoted)
                yield from unset_variables(lines[key.line + 1 : end_of_value(lines, key.line, key.indent)])


def _is_variable(line: str, key: CommandKey, column: int, named: str) -> bool:
    """Whether a pair in small letters is a variable: `http_proxy: URL` of a mapping, not `optional: true`."""
    is_mapping = not named and get_indent(line) == column and not line.lstrip().startswith("- ")
    return is_mapping and key.name in ("env", "envs", "environment_variables")


def _with_inputs(command: str, key: CommandKey, lines: list[str]) -> str:
    """Return a command with the inputs that the job or its pipeline gives as plain values."""
    if _INPUT.search(command) is None:
        return command
    outer, own = _TYPED | _inputs(lines, len(lines) - 1, 0), dict[str, str]()
    for around, indent, _ in list_levels(lines, key.line, key.indent):
        own = _inputs(lines, around.start, indent) | own
    room = _MOST_FILLED

    def given(found: re.Match[str]) -> str:
        nonlocal room
        value = (outer if found["of_parent"] else own).get(found["name"], found[0])
        value = _INPUT.sub(lambda one: outer.get(one["name"], one["default"] or one[0]), value)
        value = value if room > 0 else found[0]
        room -= len(value)
        return value

    return _INPUT.sub(given, command)


def _inputs(lines: list[str], line: int, indent: int) -> dict[str, str]:
    """Return the plain values of the `inputs:` with an indent that are beside a line."""
    beside = find_mapping(lines, line, indent)
    heads = (at for at in beside if (head := _INPUTS.fullmatch(lines[at])) and len(head[1]) == indent)
    start = next(heads, len(lines)) + 1
    depth = next((get_indent(each) for each in lines[start:] if each.strip()), 0)
    found: dict[str, str] = {}
    name = ""
    for each in lines[start:] if depth > indent else ():
        if each.strip() and get_indent(each) < depth:
            break
        pair = _GIVEN.fullmatch(each)
        value = parse_scalar((pair["value"] or "").strip()) if pair is not None else ""
        value = _GIVEN_ELSE.sub(r"\g<default>", value)
        if pair is not None and get_indent(each) == depth:
            name = pair["name"]
        elif pair is None or pair["name"] not in _DEFAULTS:
            continue
        if value and value[0] not in "{[|>&*" and len(value) <= _LONGEST_INPUT:
            found[name] = value
    return found


def _variables(lines: list[str], key: CommandKey) -> Iterator[tuple[str, str]]:
    at = key.line + 1
    named = ""
    column = next((get_indent(line) for line in lines[at:] if line.strip()[:1] not in ("", "#")), 0)
    while at < len(lines) and not is_behind(lines[at], key.indent):
        line, at = lines[at], at + 1
        name, value, pair = _NAMED.fullmatch(line), _VALUE.fullmatch(line), _PAIR.fullmatch(line)
        both = _FLOW_PAIR.fullmatch(line)
        if KEY.fullmatch(line):
            return
        if both is not None:
            yield parse_scalar(both["name"]), both["value"]
            continue
        if name is not None:
            named = parse_scalar(name["name"])
        elif value is not None and named:
            yield named, value["value"]
            named = ""
        elif (
            pair is not None
            and pair["value"] not in ("", *_NO_VALUE)
            and (pair["name"].isupper() or _is_variable(line, key, column, named))
        ):
            yield pair["name"], pair["value"]
