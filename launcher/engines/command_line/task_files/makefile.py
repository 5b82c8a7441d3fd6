"""The recipes of a Makefile as a shell would get them. Pure."""

import posixpath
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from launcher.engines.command_line.parsed_command import Task
from launcher.engines.command_line.shell.bracket_tests import Files
from launcher.engines.command_line.side_commands import NEEDED_TASK, say_left_out
from launcher.engines.command_line.task_files.make_lines import STEM, Makefile
from launcher.engines.command_line.task_files.make_values import (
    MakeValue,
    MakeValues,
    as_shell,
    match_stem,
    quote_word,
)
from launcher.engines.command_line.task_files.recipe_lines import get_marks, join_continued, split_lines
from launcher.errors import CommandRefused
from preflight import regex as re

_TARGET = re.compile(
    r"^(?P<name>[\w./%${}()-]+)(?:[ \t]+[\w./%][\w./%-]*)*[ \t]*::?(?![=:])(?P<needs>[^=#\n]*)(?:#[^\n]*)?\n"
    r"(?=(?:[ \t]*(?:(?:#|ifn?def|ifn?eq|else|endif)[^\n]*)?\n)*\t)",
    re.MULTILINE,
)
_PREFIX = re.compile(r"^\.RECIPEPREFIX[ \t]*:?=[ \t]*(?P<mark>\S)[ \t]*$\n?", re.MULTILINE)
_BESIDE = re.compile(r"^[\w./%-]+[ \t]*:(?:[ \t\w./%-]*(?=;.*\$[({]))?[ \t]*;[ \t]*\S", re.MULTILINE)
_NAME = re.compile(r"(?<!\$)\$[({](?P<name>[A-Za-z_]\w*)[)}]", re.ASCII)
_WITHOUT_TABS = re.compile(
    r"^(?P<head>[\w./%-]+[ \t]*:(?![=:])[^=\n]*\n)(?P<body>(?:[ ]+\S[^\n]*(?:\n|\Z))+)", re.MULTILINE
)
_SURE = re.compile(r"^(?:\.[A-Z_]+[ \t]*[:=?+]|[A-Za-z_]\w*[ \t]*\?=)", re.MULTILINE)
_TARGET_NAME = re.compile(r"[a-z][\w-]*", re.ASCII)  # of a task, not of a file
_CALL = re.compile(r"[ \t@+-]*\$[({]MAKE[)}](?P<said>[^\n;&|]*)")
_OTHER_VALUES = "the file calls it so, too; the launch has the values of the file alone"
_CALLED = "another call of make: do it on each host yourself, where the training needs it"
_ENV = re.compile(r"^\s*\S*\benv\s+(?:-\S+\s+)*")  # in front of a shell
_UNDECIDED = '[ "$(ifeq)" = true ]'  # a condition of make that the text does not decide
_SHELLS = ("sh", "bash", "dash", "ash", "zsh", "ksh")


def _task(file: Makefile, name: str) -> Task:
    """Return the recipe of a target."""
    values = file.values
    needs = file.needs[name]
    values.own = {one: MakeValue(text, is_simple=True) for one, text in _own_names(file, name).items()}
    exported = dict(file.exported)
    if file.exports_all:
        exported |= dict.fromkeys(filter(str.isidentifier, values.values))
    exported |= dict.fromkeys(one for one in values.values if one in values.environ)
    exported = {one: None for one in exported if one not in file.hidden and one != "SHELL"}
    settings = [
        own for names, own in file.settings.items() if "%" in names and match_stem(name, names) is not None
    ]
    for setting in chain(*settings, file.settings.get(name, ())):
        own = file.make_value(setting.name, setting.mark.replace(":", ""), setting.value)
        is_simple = setting.mark.startswith(":") or own.is_simple
        values.own = {**values.own, setting.name: MakeValue(own.text, is_simple=is_simple)}
        exported |= {setting.name: None} if setting.is_exported else {}
    head = [*file.said, *_of_shell(values)]
    for one in exported:
        found = values.find(one)
        value = "" if found is None else f"={quote_word(values.expand(f'$({one})'))}"
        head.append(f"export {one}{value}")
    commands = [
        (line if is_sure else f"if {_UNDECIDED}; then\n{line}\nfi", is_ignored)
        for raw, is_sure in tuple(file.recipes[name])
        for line, is_ignored in _commands(values, raw)
    ]
    _require_read(values)
    values.own = {}
    lines = [line for line, _ in commands] if file.has_one_shell else split_lines(commands)
    return Task(name, "\n".join(lines), tuple(needs), head="\n".join(head), is_certain=False)


def _own_names(file: Makefile, name: str) -> dict[str, str]:
    """Return the names that make fills in: of its target, of what that needs, of its stem."""
    stem = file.stems[name]
    needs = " ".join(file.needs[name]).partition("|")[0].split()
    given = {"@": [name], "<": needs[:1], "^": list(dict.fromkeys(needs)), "*": [stem] * bool(stem)}
    return {sign: " ".join(word.replace("%", STEM) for word in words) for sign, words in given.items()}


def _of_shell(values: MakeValues) -> Iterator[str]:
    """Yield what `SHELL` and `.SHELLFLAGS` set for the lines of recipes."""
    program, *given = _ENV.sub("", as_shell(values.expand("$(SHELL)"))).split() or [""]
    given.append(as_shell(values.expand("$(.SHELLFLAGS)")) if ".SHELLFLAGS" in values.values else "-c")
    shell, flags = posixpath.basename(program), " ".join(given)
    if shell not in _SHELLS or not re.search(r"(?:^|\s)-\w*c(?:\s|$)", flags):
        raise CommandRefused(
            f"the Makefile gives its recipes to {shell} {flags}, which runs no commands of a shell",
            "paste the command alone, or make .SHELLFLAGS end in -c",
        )
    if re.search(r"(?:^|\s)-\w*e", flags):
        yield "set -e"
    if "pipefail" in flags:
        yield "set -o pipefail"


def _commands(values: MakeValues, raw: str) -> Iterator[tuple[str, bool]]:
    """Yield the commands of one line of a recipe, and whether make continues where they fail."""
    called = _CALL.fullmatch(raw)
    if called is not None:
        yield say_left_out(f"make{called['said']}: {_CALLED}"), True
        return
    mark = get_marks(raw)
    filled = as_shell(values.expand(raw[len(mark) :].replace("\\\n\t", "\\\n")))
    for line in join_continued(filled):
        own = get_marks(line)
        if line[len(own) :].strip():
            yield line[len(own) :], "-" in mark + own


def parse_makefile(
    text: str, environ: Mapping[str, str] | None = None, files: Files | None = None
) -> tuple[Task, ...] | None:
    """Return the targets of a Makefile that has several, none of one with one; None for other texts."""
    makefile = _read(text, environ or {}, files)
    if makefile is None:
        return None
    names = [name for name, lines in makefile.recipes.items() if lines]
    if len(names) < 2:
        return () if names and "{{" not in text else None
    calls = [one["said"] for one in re.compile(rf"^\t{_CALL.pattern}$", re.MULTILINE).finditer(text)]
    return tuple(
        replace(task, head="\n".join((*_said_of(task.name, calls, makefile), task.head)))
        for task in (_task(makefile, name) for name in names)
    )


def _said_of(name: str, calls: Sequence[str], file: Makefile) -> Iterator[str]:
    """Yield what is said of what gives a target other values: `$(MAKE) train N=3`, `debug: N = 3`."""
    others = [one for one in file.settings if name in file.needs.get(one, ())]
    of_targets = [f" {one} {own.name}={own.value}" for one in others for own in file.settings[one]]
    for said in dict.fromkeys((*calls, *of_targets)):
        if "=" in said and (name in said.split() or said in of_targets):
            yield say_left_out(f"make{said}: {_OTHER_VALUES}")


def _read(text: str, environ: Mapping[str, str], files: Files | None) -> Makefile | None:
    """Return what a text sets and has rules for; None for any other text."""
    text = _with_tabs(text)
    if not _TARGET.search(text) and not _BESIDE.search(text):
        return None
    makefile = Makefile(environ, files)
    if not makefile.read(text):
        return None
    _require_read(makefile.values)
    return makefile


def _require_read(values: MakeValues) -> None:
    if values.unread:
        raise CommandRefused(
            f"the Makefile has {values.unread}, which is not read, and may set anything",
            "paste what make -n TARGET prints",
        )


def _with_tabs(text: str) -> str:
    """Return a text with tabs in front of its recipes, where another sign is, or pasting lost them."""
    prefix = _PREFIX.search(text)
    if prefix is not None:
        text = re.sub(rf"^{re.escape(prefix['mark'])}", "\t", _PREFIX.sub("", text), flags=re.MULTILINE)
    if "\n\t" in text or not (_SURE.search(text) or _names_own_variable(text)):
        return text
    return _WITHOUT_TABS.sub(
        lambda one: one["head"] + re.sub(r"^[ ]+", "\t", one["body"], flags=re.MULTILINE), text
    )


def _names_own_variable(text: str) -> bool:
    named = {one["name"] for one in _NAME.finditer(text)}
    return any(re.search(rf"^[ ]*{name}[ \t]*[:?+]{{0,2}}=", text, re.MULTILINE) for name in named)


def extract_recipe(text: str, environ: Mapping[str, str] | None = None, files: Files | None = None) -> str:
    """Return the commands of a text with a target; any other text as it is."""
    makefile = _read(text, environ or {}, files)
    if makefile is None or not any(makefile.recipes.values()):
        return _TARGET.sub("", text)
    is_sure = _SURE.search(text) is not None or _NAME.search(text) is not None
    texts: list[str] = []
    for name in [name for name, commands in makefile.recipes.items() if commands]:
        task = _task(makefile, name)
        needed = (f"{NEEDED_TASK} {need}" for need in select_task_names(task.needs, is_sure=is_sure))
        texts.append("\n".join((*needed, task.head, task.text)))
    return texts[0] if len(texts) == 1 else "\n".join(f"(\n{text}\n)" for text in texts)


def select_task_names(needs: Sequence[str], *, is_sure: bool) -> list[str]:
    """Return which needs of a target are tasks, not files; of a text that may be a label, one alone."""
    return [name for name in needs if _TARGET_NAME.fullmatch(name)] if is_sure or len(needs) == 1 else []
