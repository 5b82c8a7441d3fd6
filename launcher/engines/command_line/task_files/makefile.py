"""The recipes of a Makefile as a shell would get them. Pure."""

import posixpath
from collections.abc import Mapping, Sequence
from functools import partial

from launcher.engines.command_line.parsed_command import Task
from launcher.engines.command_line.side_commands import NEEDED_TASK, say_left_out
from launcher.engines.command_line.task_files.recipe_lines import without_lost
from preflight import regex as re

TARGET = re.compile(
    r"^(?P<name>[\w./%-]+)[ \t]*::?(?![=:])(?P<needs>[^=#\n]*)(?:#[^\n]*)?\n(?=(?:[ \t]*(?:#[^\n]*)?\n)*\t)",
    re.MULTILINE,
)
_BODY = re.compile(r"(?:(?:\t(?:[^\n]*\\\n)*[^\n]*|[ \t]*(?:#[^\n]*)?)(?:\n|\Z))*")
_DEFINED = re.compile(
    r"^(?:(?:export|override)[ \t]+)?define[ \t]+(?P<name>\w+)[ \t]*:?=?[ \t]*\n"
    r"(?P<lines>(?:(?!endef)[^\n]*\n){0,50}?)endef[ \t]*$",
    re.MULTILINE,
)
_OF_MACRO = re.compile(  # `$(NAME)` alone, or `$(call NAME,1,2)`
    r"(?P<start>^\t[ \t@+-]*)?\$[({](?P<call>call[ \t]+)?(?P<name>\w+)"
    r"(?P<given>(?:,(?:[^(){}$,\n]|\$[({]\w+[)}])*)*)[)}](?P<end>[ \t]*$)?",
    re.MULTILINE,
)
_GIVEN_WORD = re.compile(r"(?<!\$)\$(?:(\d)|[({](\d)[)}])")
_MACRO = re.compile(r"^[ ]*(?P<name>\w+)[ \t]*\??=[^\n]*\n", re.MULTILINE)
_PREFIX = re.compile(r"^\.RECIPEPREFIX[ \t]*:?=[ \t]*(?P<mark>\S)[ \t]*$\n?", re.MULTILINE)
_BESIDE = re.compile(
    r"^(?P<head>[\w./%-]+[ \t]*:(?:[ \t\w./%-]*(?=;.*\$[({]))?[ \t]*);[ \t]*(?=\S)", re.MULTILINE
)
_SPECIAL = re.compile(r"^\.[A-Z_]+[ \t]*[:=?+][^\n]*$", re.MULTILINE)
_VARIABLE = re.compile(
    r"(?<!\\\n)^[ ]*(?:override[ \t]+)?(?P<export>export[ \t]+)?"
    r"(?P<name>[A-Za-z_]\w*)[ \t]*(?P<mark>[:?+]{0,2}=)[ \t]*(?P<value>[^\n]*)$",
    re.MULTILINE | re.ASCII,
)
_SHARED = re.compile(
    r"^(?P<kind>export|-?include|sinclude)(?:[ \t]+(?P<names>[^=#\n]*[^=#\s]))?[ \t]*(?:#[^\n]*)?$",
    re.MULTILINE,
)
"""What holds for all variables, or comes from another file."""

_OF_TARGET = re.compile(
    r"^(?P<target>[\w./%-]+)[ \t]*:[ \t]*(?P<line>(?:export[ \t]+)?[A-Za-z_]\w*[ \t]*[:?+]{0,2}=[^\n]*)$",
    re.MULTILINE | re.ASCII,
)
_UNREAD = "it has variables and rules that gpulaunch does not read"
_OTHER_VALUES = "the file calls it so, too; the launch has the values of the file alone"
_CALL = re.compile(r"^\t[ @+-]*\$[({]MAKE[)}](?P<said>[^\n;&|]*)$", re.MULTILINE)
_CALLED = "another call of make: do it on each host yourself, where the training needs it"
_TO_ALL = re.compile(r"^(?:export[ \t]*(?:#[^\n]*)?|\.EXPORT_ALL_VARIABLES[ \t]*:.*)$", re.MULTILINE)
_ALIAS = re.compile(r"^[\w.-]+[ \t]*:(?P<needs>[ \t\w./-]+)$", re.MULTILINE)  # `all: train`
_ONE_SHELL = re.compile(r"^\.ONESHELL[ \t]*:", re.MULTILINE)
_TARGET_NAME = re.compile(r"[a-z][\w-]*", re.ASCII)  # of a task, not of a file

_SILENT = re.compile(r"(?<!\\\n)^\t[@+-]{1,3}[ \t]*", re.MULTILINE)
_CONDITION = re.compile(
    r"^[ ]*(?:(?P<else>else[ \t]+)?(?P<kind>ifn?def|ifn?eq)\b[ \t]*(?P<rest>[^\n]*)"
    r"|(?P<end>else|endif)[ \t]*(?:#.*)?)$",
    re.MULTILINE,
)
_PAIR = re.compile(
    r"\((?P<left>[^,\n]*),(?P<right>[^\n]*)\)"
    r"|[\"'](?P<first>[^\"'\n]*)[\"'][ \t]+[\"'](?P<second>[^\"'\n]*)[\"']"
)
_CONTINUED = re.compile(r"[ \t]*\\\n[ \t]*")
_CONTINUED_VARIABLE = re.compile(
    r"^[ ]*(?:(?:export|override)[ \t]+)?[A-Za-z_]\w*(?:[ \t]+|(?=[:?+]))[:?+]{0,2}=(?:[^\n]*\\\n)+[^\n]*$",
    re.MULTILINE,
)
_WITHOUT_TABS = re.compile(
    r"^(?P<head>[\w./%-]+[ \t]*:(?![=:])[^=\n]*\n)(?P<body>(?:[ ]+\S[^\n]*(?:\n|\Z))+)", re.MULTILINE
)
_SURE = re.compile(r"^(?:\.PHONY[ \t]*:|[A-Za-z_]\w*[ \t]*\?=)", re.MULTILINE)
_PROGRAM = re.compile(r"\b(?:torchrun|accelerate|deepspeed|python[\d.]*|mpirun|srun|composer|colossalai)\b")
_GIVEN = re.compile(
    r"(?<!\$)\$[({](?P<name>(?:\w+_)?(?:ARGS|FLAGS|OPTS|OPTIONS)|(?:\w+_)?(?:args|flags|opts))[)}]", re.ASCII
)
"""What a user adds behind `make train`: empty where nothing does."""

_NAME = re.compile(r"(?<!\$)\$[({](?P<name>[A-Za-z_]\w*)[)}]", re.ASCII)
_QUOTED = re.compile(r"\"(?:[^\"\\\n]|\\[^\n])*\"|'[^'\n]*'|\\.")
_OR = re.compile(
    r"(?<!\$)\$\(or[ \t]+\$[({](?P<name>[A-Za-z_]\w*)[)}],[ \t]*(?P<other>[^(),${}\n]*)\)", re.ASCII
)
_EXPORTED = re.compile(r"^[^\t\n]*\bexport[ \t]+([A-Za-z_]\w*)[ \t]*[:?+]{0,2}=", re.MULTILINE | re.ASCII)
_OF_SHELL = re.compile(
    r"\$\$\{?([A-Za-z_]\w*)|(?:^\t[ \t@+-]*|[;&|(][ \t]*)(?:(?:export|do|then)[ \t]+)?([A-Za-z_]\w*)=",
    re.ASCII | re.MULTILINE,
)
_IF = re.compile(
    r"(?<!\$)\$\(if[ \t]+\$[({](?P<name>[A-Za-z_]\w*)[)}],(?P<then>(?:[^(),{}\n;&|<>]|\$[({]\w+[)}])*)\)",
    re.ASCII,
)
_DEEPEST, _LONGEST = 5, 500_000  # variables within variables, characters of a filled recipe
_MOST = 20  # lines of recipes that a `define` fills

_COMMENT = re.compile(r"(?<!\\)#.*")  # within a word and within quotes, too
_SHELL = re.compile(r"(?<!\$)\$\(shell[ \t]+(?=[^()\n]*\))")


def tasks_of_makefile(text: str) -> tuple[Task, ...] | None:
    """Return the targets of a Makefile that has several; None for any other text."""
    text = _restored(text)
    targets = list(TARGET.finditer(text))
    if len(targets) < 2:
        return None
    bodies: list[tuple[re.Match[str], str]] = []
    around: list[str] = []
    at = 0
    for target in targets:
        body = _BODY.match(text, target.end())
        if target.start() < at or body is None:
            continue
        around.append(text[at : target.start()])
        bodies.append((target, body[0]))
        at = body.end()
    head = "".join((*around, text[at:]))
    kept = (_VARIABLE, _CONDITION, _SHARED)
    variables = "\n".join(line for line in _joined(head) if any(one.match(line) for one in kept))
    to_all = "set -a\n" * (_TO_ALL.search(head) is not None)
    own = without_lost if _ONE_SHELL.search(head) is None else str
    values = _texts(head)
    calls = [one["said"] for _, body in bodies for one in _CALL.finditer(body) if "=" in one["said"]]
    return tuple(
        Task(
            target["name"],
            _as_shell(_with_texts(_with_own_names(own(body), target), values)),
            tuple(target["needs"].split()),
            head="".join(
                say_left_out(f"make{said}: {_OTHER_VALUES}") + "\n"
                for said in dict.fromkeys(calls)
                if target["name"] in said.split()
            )
            + to_all
            + _head("\n".join((variables, *_own_variables(target["name"], head)))),
            is_certain=False,
        )
        for target, body in bodies
    )


def _restored(text: str) -> str:
    """Return a text with tabs that pasting lost, and what `define NAME` holds in place of `$(NAME)`."""
    prefix = _PREFIX.search(text)
    if prefix is not None:
        text = re.sub(rf"^{re.escape(prefix['mark'])}", "\t", _PREFIX.sub("", text), flags=re.MULTILINE)
    text = _BESIDE.sub("\\g<head>\n\t", text)
    named = {one["name"] for one in _NAME.finditer(text)}
    is_sure = _SURE.search(text) or any(one["name"] in named for one in _VARIABLE.finditer(text))
    if "\n\t" not in text and is_sure:
        text = _WITHOUT_TABS.sub(
            lambda one: one["head"] + re.sub(r"^[ ]+", "\t", one["body"], flags=re.MULTILINE), text
        )
    defined = {one["name"]: _joined(one["lines"].strip()) for one in _DEFINED.finditer(text)}
    one_line = {name: f"{name} = {lines[0]}" for name, lines in defined.items() if len(lines) == 1}
    text = _DEFINED.sub(lambda one: one_line.get(one["name"], ""), text)
    if "$(call " in text or "${call " in text:
        defined = {one["name"]: [one["value"]] for one in _VARIABLE.finditer(text)} | defined

    def filled(one: re.Match[str]) -> str:
        lines, given = defined.get(one["name"], ()), [one["name"], *one["given"].split(",")[1:]]
        is_alone = one["start"] is not None and one["end"] is not None
        if not (is_alone if one["call"] is None else len(lines) == 1 or is_alone):
            return one[0]
        words = (
            _GIVEN_WORD.sub(lambda at: "".join(given[int(at[1] or at[2]) :][:1]), line) for line in lines
        )
        return "\n".join(f"{one['start'] or ''}{line.strip()}" for line in words) or one[0]

    called = {one["name"] for one in _OF_MACRO.finditer(text) if one["call"]}
    text = _OF_MACRO.sub(filled, text, _MOST)
    return _with_own_shell(_MACRO.sub(lambda one: one[0] * (one["name"] not in called), text))


def _with_own_shell(text: str) -> str:
    """Return a text in which variables of make have other names than those of its shell: `$(A)` and `$$A`."""
    if _TO_ALL.search(text):
        return text
    shared = " ".join(found["names"] or "" for found in _SHARED.finditer(text) if found["kind"] == "export")
    exported = {*shared.split(), *_EXPORTED.findall(text)}
    of_make = {found["name"] for found in _VARIABLE.finditer(_OF_TARGET.sub(r"\g<line>", text))} - exported
    for name in {found[1] or found[2] for found in _OF_SHELL.finditer(text)} & of_make:
        text = re.sub(
            rf"(?<!\$)(\$[({{]){name}(?=[)}}])|^([ ]*(?:else[ \t]+)?ifn?def[ \t]+){name}\b"
            rf"|^([ ]*(?:override[ \t]+|[\w./%-]+[ \t]*:[ \t]*)?){name}(?=[ \t]*[:?+]{{0,2}}=)",
            rf"\1\2\3{name}_of_make",
            text,
            flags=re.MULTILINE,
        )
    return text


_OWN_NAME = re.compile(
    r"(?<!\$)\$(?P<open>[({](?=.[DF]?[)}]))?(?P<sign>[@<^*?+])(?(open)(?P<part>[DF]?)[)}])"
)
_STEM = "<your-stem>"  # of `make train-STEM`


def _with_own_names(body: str, target: re.Match[str]) -> str:
    """Return a recipe with the names that make fills in: of its target, of what that needs, of its stem."""
    needs = target["needs"].partition("|")[0].split()
    names = {
        "@": target["name"],
        "<": "".join(needs[:1]),
        "^": " ".join(dict.fromkeys(needs)),
        "+": " ".join(needs),
        "?": "<your-newer-files>" * bool(needs),
        "*": "%" * ("%" in target["name"]),
    }

    def filled(one: re.Match[str]) -> str:
        paths = names[one["sign"]].replace("%", _STEM).split(" ")
        part = {"D": lambda path: posixpath.dirname(path) or ".", "F": posixpath.basename}.get(
            one["part"], str
        )
        return " ".join(map(part, paths))

    return _OWN_NAME.sub(filled, body)


def _own_variables(target: str, head: str) -> list[str]:
    """Return the variables that a Makefile sets for one target: `train: export A = 1`."""
    return [found["line"] for found in _OF_TARGET.finditer(head) if found["target"] == target]


def _shared(found: re.Match[str]) -> str:
    """Return a line of a shell for `export NAMES` and `include FILE`."""
    kind, names = found["kind"], found["names"] or ""
    if kind == "export":
        return f"export {names}" if names else ""
    if re.fullmatch(r"[\w./-]*\.?env[\w.-]*", names):
        return f"source {names}" if kind == "include" else f"[ -f {names} ] && source {names}"
    return say_left_out(f"{kind} {names}: {_UNREAD}")


def recipe(text: str) -> str:
    """Return the commands of a text with a target, variables as a shell has them; any other text as it is."""
    other, text = text, _restored(text)
    if not TARGET.search(text):
        return other
    is_sure = _SPECIAL.search(text) is not None or _NAME.search(text) is not None
    to_all = "set -a\n" * (_TO_ALL.search(text) is not None)
    text = _CONTINUED_VARIABLE.sub(lambda one: _CONTINUED.sub(" ", one[0]), text)
    text = text if _ONE_SHELL.search(text) else without_lost(text)
    text = _SPECIAL.sub("", text)
    targets = list(TARGET.finditer(text))
    if len({found["name"] for found in targets}) == 1:
        own = targets[0]["name"]
        text = _OF_TARGET.sub(lambda one: one["line"] if one["target"] == own else one[0], text)
        text = _with_own_names(text, targets[0])
        text = _ALIAS.sub(lambda one: one[0] * (own not in one["needs"].split()), text)
    text = TARGET.sub(partial(_needed, is_sure=is_sure), _with_variables_above(text))
    return to_all + _head(_with_texts(text, _texts(text)))


def _with_variables_above(text: str) -> str:
    """Return a text with the variables below its first target above it: make reads all before a recipe."""
    first = TARGET.search(text)
    if first is None or _CONDITION.search(text):
        return text
    above, below = text[: first.start()], text[first.start() :]
    lines = [one[0] + "\n" for one in _VARIABLE.finditer(below) if not one[0].endswith("\\")]
    return above + "".join(lines) + _VARIABLE.sub(lambda one: one[0] * one[0].endswith("\\"), below)


def _needed(target: re.Match[str], *, is_sure: bool) -> str:
    return "".join(
        f"{NEEDED_TASK} {name}\n" for name in names_of_tasks(target["needs"].split(), is_sure=is_sure)
    )


def names_of_tasks(needs: Sequence[str], *, is_sure: bool) -> list[str]:
    """Return which needs of a target are tasks, not files; of a text that may be a label, one alone."""
    return [name for name in needs if _TARGET_NAME.fullmatch(name)] if is_sure or len(needs) == 1 else []


def _joined(text: str) -> list[str]:
    return _CONTINUED.sub(" ", text).split("\n")


def _head(text: str) -> str:
    """Return variables, and the conditions around them, as a shell has them."""
    names = (
        dict.fromkeys(found["name"] for found in _VARIABLE.finditer(text)) if _CONDITION.search(text) else ()
    )
    nothing = "".join(f'{name}="${{{name}:-}}"\n' for name in names)  # where no branch sets it
    text = _SHARED.sub(_shared, _CONDITION.sub(_condition, text))
    return nothing + _as_shell(_VARIABLE.sub(_assignment, text))


def _condition(found: re.Match[str]) -> str:
    """Return a condition of make; what `ifdef` asks for is set where it is not empty."""
    kind = found["kind"]
    if kind is None:
        return "fi" if found["end"] == "endif" else "else"
    negated, word = kind.startswith("ifn"), "elif" if found["else"] else "if"
    if kind in ("ifdef", "ifndef"):
        return f'{word} [ -{"z" if negated else "n"} "${{{found["rest"].strip()}:-}}" ]; then'
    pair = _PAIR.fullmatch(found["rest"].strip())
    if pair is None:
        return f"{word} condition-of-make; then"
    left, right = (pair["left"] or pair["first"] or ""), (pair["right"] or pair["second"] or "")
    return f'{word} [ "{left.strip()}" {"!=" if negated else "="} "{right.strip()}" ]; then'


def _as_shell(body: str) -> str:
    body = _CALL.sub(lambda one: "\t" + say_left_out(f"make{one['said']}: {_CALLED}"), body)
    body = _IF.sub(r"${\g<name>:+\g<then>}", body)
    body = _OR.sub(r"${\g<name>:-\g<other>}", body)
    given = _GIVEN.sub(r"${\g<name>:-}", _SILENT.sub("\t", body))
    given = _QUOTED.sub(lambda one: _NAME.sub("'\"\\g<0>\"'", one[0]) if one[0][0] == "'" else one[0], given)
    return _SHELL.sub("$(", _NAME.sub(r"${\g<name>}", given)).replace("$$", "$")


def _without_comment(value: str) -> str:
    return _COMMENT.sub("", value).rstrip().replace("\\#", "#")


def _texts(head: str) -> Mapping[str, str]:
    """Return variables that a shell reads again where make puts them: programs, and values with quotes.

    Of a text with conditions, programs alone: a branch that is not taken sets nothing.
    """
    values: dict[str, str] = {}
    late: set[str] = set()  # `A = $(B)`, whose B may be set below it
    for found in _VARIABLE.finditer(head):
        name, value = found["name"], _without_comment(found["value"])
        is_kept = name in values and found["mark"] == "?="
        before = f"{values[name]} " if name in values and found["mark"] == "+=" else ""
        values[name] = values[name] if is_kept else f"{before}{value}"
        late |= {name} if found["mark"] in ("=", "+=") and _NAME.search(value) else set()
    has_conditions = _CONDITION.search(head) is not None
    return {
        name: value
        for name, value in values.items()
        if ("$" not in value and _PROGRAM.search(value))
        or (not has_conditions and (not {*"\"'~;&|<>"}.isdisjoint(value) or name in late))
    }


def _with_texts(body: str, values: Mapping[str, str]) -> str:
    """Return a recipe with the texts of variables in their places: `$(PYTHON) train.py $(ARGS)`."""
    longest = max(map(len, values.values()), default=0)
    for _ in range(_DEEPEST):
        if len(body) + body.count("$") * longest > _LONGEST:
            break
        body = _NAME.sub(lambda one: values.get(one["name"], one[0]), body)
    return body


def _assignment(found: re.Match[str]) -> str:
    value = _without_comment(found["value"])
    if found["mark"] == "=" and found[0].startswith(f"{found['name']}={value}") and " " not in value:
        return found[0]
    return f"{found['export'] or ''}{_assigned(found['name'], found['mark'], value)}"


def _assigned(name: str, mark: str, value: str) -> str:
    quoted = '"' + value.replace('"', r"\"") + '"'
    if mark == "?=":
        return f"{name}={quoted}" if '"' in value else f'{name}="${{{name}:-{value}}}"'
    return f'{name}="${name} {value}"' if mark == "+=" else f"{name}={quoted}"
