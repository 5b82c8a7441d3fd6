"""The recipes of a justfile as a shell would get them. Pure."""

import shlex
import textwrap
from collections.abc import Collection, Iterator, Mapping, Sequence

from launcher.engines.command_line.parsed_command import Task
from launcher.engines.command_line.side_commands import say_left_out
from launcher.engines.command_line.task_files.recipe_lines import get_marks, join_continued, split_lines
from preflight import regex as re

_HEAD = re.compile(
    r"@?(?P<name>[A-Za-z_][\w-]*)"
    r"(?P<given>(?:[ \t]+[+*$]*[A-Za-z_]\w*(?:=(?:\"[^\"\n]*\"|'[^'\n]*'|[\w./-]+))?){0,20})"
    r"[ \t]*:(?!=)(?P<needs>(?:[ \t]+(?:&&|[A-Za-z_][\w-]*|\([^()\n]*\))){0,20})[ \t]*"
)
_VARIABLE = re.compile(r"(?:export[ \t]+)?(?P<name>[A-Za-z_][\w-]*)[ \t]*:=[ \t]*(?P<value>.+)")
_SETTING = re.compile(r"(?:set|alias|import\??|mod\??|unexport)[ \t]+\S.*|\[[\w-]+(?:\(.*\)|:.*)?\]")
_OF_ALL = re.compile(
    r"^set[ \t]+(?P<name>export|working-directory|dotenv-[a-z]+)"
    r"(?:[ \t]*:=[ \t]*(?P<value>\S[^#\n]*?))?[ \t]*(?:#.*)?$",
    re.MULTILINE,
)
_OF_DOTENV = "a file of variables that is not read: env: of a run config sets them"
_GIVEN = re.compile(
    r"(?P<mark>[+*$]*)(?P<name>[A-Za-z_]\w*)(?:=(?P<default>\"[^\"\n]*\"|'[^'\n]*'|[\w./-]+))?"
)
_FILLED = re.compile(r"\{\{(?P<inside>[^{}\n]+)\}\}")
_FROM_ENVIRONMENT = re.compile(
    r"env(?:_var_or_default)?\([ \t]*([\"'])(?P<name>\w+)\1[ \t]*,"
    r"[ \t]*([\"'])(?P<default>[^\"'\n]*)\3[ \t]*\)"
)
_QUOTED = re.compile(r"([\"'])(?P<text>[^\"'\n]*)\1")
_COMMAND = re.compile(r"`(?P<text>[^`\n]+)`")
_PAIR = re.compile(r"\s+(?:- )?[\w.-]+:(?:\s|$)|\s+- ")  # a line of YAML, whose mappings look like recipes

_OF_MAKE = re.compile(
    r"\$\((?:MAKE\)|(?:shell|or|and|if|wildcard|patsubst|abspath|notdir)[ \t])|\$\((?P<name>[A-Za-z_]\w*)\)"
)
"""A function of make, or a variable as make fills it in: in a justfile `$(...)` is a command."""

_ONLY_MAKE = re.compile(r"\t.*(?:\$(?:[@<^*+?](?![\w{])|[({][@<^*+?][DF]?[)}])|\$\$[A-Za-z_({])")
"""A name that make fills in, or a dollar of its shell, behind a tab: just has blanks in front of recipes."""

_SHEBANG = re.compile(r"#!.*/(?:env[ \t]+(?:-S[ \t]+)?)?(?:ba|z|da|k)?sh\b")


def parse_justfile(text: str) -> tuple[Task, ...] | None:
    """Return the recipes of a text that has only recipes, variables and settings; None for others."""
    values: dict[str, str] = {}
    found: list[tuple[re.Match[str], list[str]]] = []
    exports: list[str] = []
    settings = {one["name"]: (one["value"] or "true").strip("\"'") for one in _OF_ALL.finditer(text)}
    for line in text.split("\n"):
        if not line.strip() or line.startswith("#"):
            if found:
                found[-1][1].append("")
            continue
        head, variable = _HEAD.fullmatch(line), _VARIABLE.fullmatch(line)
        if line[0].isspace():
            if not found:
                return None
            found[-1][1].append(line)
        elif variable is not None:
            values[variable["name"]] = _value(variable["value"].strip(), values)
            if line.startswith("export"):
                exports.append(f'export {variable["name"]}="{values[variable["name"]]}"')
        elif head is not None:
            found.append((head, []))
        elif not _SETTING.fullmatch(line):
            return None
    if _is_other_file(text, [line for _, body in found for line in body if line], values):
        return None
    shared = (*_said_by(settings, values), *exports)
    return tuple(task for one, body in found if (task := _task(one, body, values, shared)) is not None)


def _is_other_file(text: str, lines: Sequence[str], values: Collection[str]) -> bool:
    """Whether a text with such lines in its recipes is one of make or of YAML, or has none."""
    if any(one["name"] is None or one["name"] in values for one in _OF_MAKE.finditer(text)):
        return True
    if "positional-arguments" not in text and any(map(_ONLY_MAKE.match, lines)):
        return True
    return 2 * sum(_PAIR.match(line) is not None for line in lines) >= len(lines)


def _said_by(settings: Mapping[str, str], values: Mapping[str, str]) -> Iterator[str]:
    """Yield lines of a shell for settings that hold for all recipes."""
    if settings.get("export", "false") != "false":
        yield from (f'export {name}="{value}"' for name, value in values.items() if "-" not in name)
    if folder := settings.get("working-directory"):
        yield f"cd {shlex.quote(folder)}"
    for name, value in settings.items():
        if name.startswith("dotenv") and value != "false":
            yield say_left_out(f"set {name}: {_OF_DOTENV}")


def _task(
    head: re.Match[str], body: list[str], values: Mapping[str, str], shared: Sequence[str]
) -> Task | None:
    lines = textwrap.dedent("\n".join(body)).strip("\n").split("\n")
    if not lines[0].startswith("#!"):
        found = [
            (line[len(get_marks(line)) :], "-" in get_marks(line))
            for line in join_continued("\n".join(lines))
        ]
        lines = list(split_lines([one for one in found if one[0]]))
    elif not _SHEBANG.match(lines[0]):
        return None
    given = _arguments(head["given"], values)
    exports = [
        f'export {one["name"]}="{given[one["name"]]}"'
        for one in _GIVEN.finditer(head["given"])
        if "$" in one["mark"]
    ]
    known = {**values, **given}
    filled = _FILLED.sub(lambda one: _value(one["inside"].strip(), known), "\n".join(lines))
    needs = tuple(re.findall(r"[A-Za-z_][\w-]*", head["needs"]))
    is_certain = bool(values) or any("{{" in line for line in body)
    return Task(head["name"], "\n".join((*shared, *exports, filled)), needs, is_certain=is_certain)


def _arguments(given: str, values: Mapping[str, str]) -> Mapping[str, str]:
    """Return what the arguments of a recipe are where none is given: a text, or what a variable is."""
    found: dict[str, str] = {}
    for one in _GIVEN.finditer(given):
        default = one["default"]
        nothing = "" if "*" in one["mark"] else f"<your-{one['name']}>"
        found[one["name"]] = nothing if default is None else values.get(default, default.strip("\"'"))
    return found


def _value(expression: str, values: Mapping[str, str]) -> str:
    """Return what an expression is to a shell: a text, a variable, a command; else one without a value."""
    quoted, command = _QUOTED.fullmatch(expression), _COMMAND.fullmatch(expression)
    from_environment = _FROM_ENVIRONMENT.fullmatch(expression)
    if quoted is not None:
        return quoted["text"]
    if command is not None:
        return f"$({command['text']})"
    if from_environment is not None:
        return f"${{{from_environment['name']}:-{from_environment['default']}}}"
    return values.get(expression, f"{{{{{expression}}}}}")
