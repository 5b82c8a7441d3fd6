"""The variables and rules of a Makefile, its lines read as make reads them. Pure."""

from collections.abc import Iterator, Mapping

from launcher.engines.command_line.shell.bracket_tests import Files
from launcher.engines.command_line.side_commands import say_left_out
from launcher.engines.command_line.task_files.make_values import (
    MakeValue,
    MakeValues,
    as_shell,
    decide_text,
    find_closing,
    list_words,
    open_text,
    split_given,
)
from preflight import regex as re
from preflight.frozen import dataclass

_MOST_FILES = 50
STEM = "<your-stem>"  # of `make train-STEM`
_ASSIGNMENT = re.compile(
    r"(?P<words>(?:(?:override|export|private)[ \t]+)*)(?P<name>[^\s:#=?+!]+)[ \t]*"
    r"(?P<mark>:{0,3}=|[?+!]=)[ \t]*(?P<value>.*)",
    re.DOTALL,
)
_DEFINE = re.compile(
    r"(?P<words>(?:(?:override|export)[ \t]+)*)define[ \t]+(?P<name>\S+)[ \t]*(?P<mark>:{0,3}=|[?+]=)?[ \t]*"
)
_CONDITION = re.compile(r"(?P<else>else[ \t]+)?(?P<kind>ifn?def|ifn?eq)\b[ \t]*(?P<rest>.*)", re.DOTALL)
_OTHER_END = re.compile(r"(?P<end>else|endif)[ \t]*")
_PAIR = re.compile(r"\"(?P<a>[^\"]*)\"[ \t]+[\"'](?P<b>.*)[\"']|'(?P<c>[^']*)'[ \t]+[\"'](?P<d>.*)[\"']")
_INCLUDE = re.compile(r"(?P<kind>-?include|sinclude)[ \t]+(?P<names>.*)")
_OTHER = re.compile(r"(?:un(?:export|define)|export|vpath|load|-load)\b[ \t]*(?P<names>.*)")
_CALLS = re.compile(r"\$[({](?:call|foreach|if)[ \t]")
_COMMENT = re.compile(r"(?<!\\)#.*", re.DOTALL)
_CONTINUED = re.compile(r"(?:(?<![ \t])[ \t]++)?\\\n[ \t]*")
_UNDECIDED = "the text does not decide it, and what it sets has no value"
_UNREAD = "it has variables and rules that gpulaunch does not read"


@dataclass(frozen=True, slots=True)
class Setting:
    """A variable that holds for one target: `train: export A = 1`."""

    name: str
    mark: str
    value: str
    is_exported: bool


class Makefile:
    """What a text sets and has rules for, read from its start to its end."""

    def __init__(self, environ: Mapping[str, str], files: Files | None) -> None:
        self.files = files
        self.values = MakeValues(environ, files)
        self.needs: dict[str, list[str]] = {}
        self.recipes: dict[str, list[tuple[str, bool]]] = {}  # lines, and whether they surely are in it
        self.stems: dict[str, str] = {}
        self.settings: dict[str, list[Setting]] = {}
        self.exported: dict[str, None] = {}
        self.hidden: set[str] = set()
        self.overridden: set[str] = set()
        self.exports_all = False
        self.has_one_shell = False
        self.said: list[str] = []
        self.targets: tuple[str, ...] | None = None  # of the rule whose recipe is read
        self.branches: list[tuple[bool | None, bool | None]] = []  # whether it is read, and one before it was
        self.depth = 0  # how many of them are around that rule
        self.included = 0

    @property
    def _runs(self) -> bool | None:
        now = [runs for runs, _ in self.branches]
        return False if False in now else None if None in now else True

    def read(self, text: str) -> bool:
        """Take the lines of a text; return False for one that has others than a Makefile has."""
        lines = iter(text.split("\n"))
        for first in lines:
            line = first
            while line.endswith("\\") and (len(line) - len(line.rstrip("\\"))) % 2:
                following = next(lines, None)
                line = line[:-1] if following is None else f"{line}\n{following}"
            if not self._take(line, lines):
                return False
        return True

    def _take(self, line: str, lines: Iterator[str]) -> bool:
        if line.startswith("\t") and self.targets is not None:
            if self._runs is not False:
                self.values.charge(len(line) * len(self.targets))
                for target in self.targets:
                    is_sure = all(runs for runs, _ in self.branches[self.depth :])
                    self.recipes[target].append((line[1:], is_sure))
            return True
        line = _CONTINUED.sub(" ", line).lstrip()
        plain = line if _DEFINE.match(line) else _COMMENT.sub("", line)
        if not plain.strip():
            return True
        if self._take_condition(plain):
            return True
        defined = _DEFINE.fullmatch(_COMMENT.sub("", line))
        if defined is not None:
            body = list(iter(lambda: next(lines, "endef"), "endef"))
            while body and body[-1].strip() == "":
                body.pop()
            self._set(defined, "\n".join(body))
            return True
        if self._runs is False:
            return True
        assigned = _ASSIGNMENT.fullmatch(plain)
        if assigned is not None and "$" not in assigned["words"]:
            self._set(assigned, assigned["value"].replace("\\#", "#"))
            return True
        return self._take_directive(plain.strip()) or self._take_rule(plain)

    def _take_condition(self, line: str) -> bool:
        """Take `ifeq`, `else` and `endif`; return False for any other line."""
        asked, end = _CONDITION.fullmatch(line), _OTHER_END.fullmatch(line)
        if end is not None and self.branches:
            _, before = self.branches.pop()
            if end["end"] == "else":
                self.branches.append((False if before else None if before is None else True, True))
            return True
        if asked is None or (asked["else"] and not self.branches):
            return False
        before = self.branches.pop()[1] if asked["else"] else False
        is_read = False if before or self._runs is False else self._answer(asked["kind"], asked["rest"])
        runs = None if before is None and is_read is not False else is_read
        if is_read is None:
            self.said.append(say_left_out(f"{line.strip()}: {_UNDECIDED}"))
        self.branches.append(
            (runs, True if before or is_read else None if None in (before, is_read) else False)
        )
        return True

    def _answer(self, kind: str, rest: str) -> bool | None:
        if kind.endswith("def"):
            name = decide_text(self.values.expand(rest.strip()))
            found = None if name is None else self.values.find(name)
            is_true = None if name is None or (found is None and self.values.is_open) else False
            if found is not None:
                is_true = None if found.text == _undecided(name or "").text else bool(found.text)
        else:
            pair = _PAIR.match(rest.strip())
            if pair is not None:
                sides = [side for side in pair.groups() if side is not None]
            else:
                end = find_closing(rest, 0) if rest.startswith("(") else -1
                first, *behind = split_given(rest[1:end] if end > 0 else rest, 2)
                sides = [first.rstrip(), "".join(behind).lstrip()]
            left, right = (decide_text(self.values.expand(side)) for side in sides)
            is_true = None if left is None or right is None else left == right
        return is_true if is_true is None else is_true is not kind.startswith("ifn")

    def _set(self, found: re.Match[str], value: str) -> None:
        self.targets = None
        if self._runs is False:
            return
        name = as_shell(self.values.expand(found["name"]))
        if "export" in found["words"]:
            self.exported[name] = None
            self.hidden.discard(name)
        if "override" not in found["words"] and name in self.overridden:
            return
        self.overridden |= {name} if "override" in found["words"] else set()
        self.values.values[name] = (
            _undecided(name) if self._runs is None else self.make_value(name, found["mark"] or "=", value)
        )

    def make_value(self, name: str, mark: str, value: str) -> MakeValue:
        """Return a variable behind an assignment."""
        values = self.values
        before = values.find(name)
        if mark == "?=" and (before is not None or values.is_open):
            return before or _undecided(name)  # what a file that is not read may set
        if mark == "!=":
            return MakeValue(open_text(f"$({values.expand(value)})"), is_simple=True)
        if mark.startswith(":") or (mark == "+=" and before is not None and before.is_simple):
            value = values.expand(value)
        if mark == "+=" and before is not None:
            return MakeValue(f"{before.text} {value}" if before.text else value, is_simple=before.is_simple)
        return MakeValue(value, is_simple=mark.startswith(":"))

    def _take_directive(self, line: str) -> bool:
        """Take `include FILE`, `export NAMES` and their like; return False for any other line."""
        included, other = _INCLUDE.fullmatch(line), _OTHER.fullmatch(line)
        if included is not None:
            self.targets = None
            for name in list_words(self.values.expand(included["names"])):
                self._include(included["kind"], name)
        elif other is not None and not other["names"].startswith((":", "=")):
            names = list_words(self.values.expand(other["names"]))
            word = line.split(maxsplit=1)[0]
            if word == "export":
                self.exports_all |= not names
                self.exported |= dict.fromkeys(names)
                self.hidden -= set(names)
            elif word == "unexport":
                self.hidden |= set(names)
            elif word == "undefine":
                for name in names:
                    self.values.values.pop(name, None)
        elif line.startswith("$") and find_closing(line, 1) == len(line) - 1 if len(line) > 1 else False:
            text = self.values.expand(line)
            if _CALLS.match(line) and decide_text(text) is None:
                self.said.append(say_left_out(f"{line}: {_UNREAD}"))
            elif as_shell(text).strip():
                return False
            if self.values.fails and self._runs:
                self.said.append("exit 1")
        else:
            return False
        return True

    def _include(self, kind: str, name: str) -> None:
        name = name.removeprefix(f"{self.values.expand('$(CURDIR)')}/")
        text = self.files(name) if self.files is not None else None
        self.included += 1
        if text is not None and self.included < _MOST_FILES:
            self.read(text)
            self.targets = None
        elif self.files is None or kind == "include" or self._runs is None or re.search(r"^/|[$*?\[]", name):
            is_settings = re.fullmatch(r"[\w./-]*\.?env[\w.-]*", name) is not None
            guard = "" if kind == "include" and self._runs else f"[ -f {name} ] && "
            self.said.append(
                f"{guard}source {name}" if is_settings else say_left_out(f"{kind} {name}: {_UNREAD}")
            )
            self.values.is_open = True

    def _take_rule(self, line: str) -> bool:
        """Take `TARGETS: NEEDS`, or a variable of targets; return False for any other line."""
        colon = _colon(line)
        if colon < 0:
            return False
        names = list_words(self.values.expand(line[:colon].rstrip("&")))
        rest = line[colon:].lstrip(":").lstrip()
        special = [name for name in names if name.startswith(".") and name[1:2].isupper()]
        if special:
            self.has_one_shell |= ".ONESHELL" in special
            self.exports_all |= ".EXPORT_ALL_VARIABLES" in special
            self.targets = None
            return True
        if not names:
            return False
        assigned = _ASSIGNMENT.fullmatch(rest)
        if assigned is not None and ":" not in assigned["name"]:
            mark, value = assigned["mark"], assigned["value"].replace("\\#", "#")
            if mark.startswith(":"):
                value = self.values.expand(value)
            if self._runs is None:
                mark, value = ":=", _undecided(assigned["name"]).text
            setting = Setting(assigned["name"], mark, value, "export" in assigned["words"])
            for name in names:
                self.settings.setdefault(name, []).append(setting)
            return True
        needs, has_recipe, recipe = rest.partition(";")
        before, has_pattern, behind = needs.partition(":")
        needs = behind if has_pattern else before
        words = list_words(self.values.expand(needs))
        self.values.charge(len(names) * len(needs))
        for name in names:
            self.needs[name] = [*self.needs.get(name, []), *words]
            self.recipes.setdefault(name, [])
            self.stems[name] = STEM if "%" in name or has_pattern else ""
        self.targets, self.depth = tuple(names), len(self.branches)
        if has_recipe:
            for name in names:
                self.recipes[name].append((recipe.lstrip(), True))
        return True


def _undecided(name: str) -> MakeValue:
    """Return the value of a variable that a condition sets which the text does not decide."""
    return MakeValue(open_text(f"$({name})"), is_simple=True)


def _colon(line: str) -> int:
    """Return the place of the colon behind the targets of a rule, -1 without one."""
    at = 0
    while at < len(line):
        if line[at] == "$" and line[at + 1 : at + 2] in ("(", "{"):
            at = find_closing(line, at + 1)
            if at < 0:
                return -1
        elif line[at] == ":":
            return at
        at += 1
    return -1
