"""Files of a tree that a script reads and a sync leaves out: what kept them back, and what sends them."""

import ast
import json
import os
import posixpath
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path, PurePosixPath

from launcher.sync import git
from launcher.sync.ignore import Ignore, Rules, add_rules, find_rule
from launcher.text import format_size, one_line
from preflight import regex as re
from preflight.checks.message_text import format_rsync, quote_path
from preflight.frozen import dataclass

_OUTPUT = re.compile(
    r"(?:^|[-_.])(?:out|outputs?|logs?|logging|saves?|dest|results?|cache|tmp|works?|runs?|exp|ckpts?|checkpoints?)"
    r"(?:[-_.]|$)"
)
_INPUT = re.compile(r"resume|load|from|init|restore|pretrained|input")
_PLACE = re.compile(r"data|dir|path|file|folder|root|input|model|resume")
"""Of an option whose value is a path without a slash; others, such as --report_to wandb, are names."""
_WRITE = re.compile(
    r"""["'][wax]b?\+?b?["']|mkdir|makedirs|\bto_[a-z]+\(|dump|[Ss]ave|[Ww]rite|FileHandler|basicConfig"""
)
_EXCLUDE = "sync.exclude"
_PLAIN = re.compile(r"(?!(?:null|~)\Z)[\w~./](?:[\w./ -]*[\w./-])?", re.IGNORECASE)
_MAX_FILES = 20_000  # of a directory whose size is summed; with more it is not for a sync anyway


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A path of the tree that no sync sends."""

    path: str
    rule: str  # which line leaves it out
    top: str  # it, or the highest directory above it that is left out as a whole
    place: Path  # where `top` is on this machine
    link: str = ""  # what `top` is or points at, out of the tree: that is never sent

    def command(self, root: Path, host: str, target: str, room: int, include: Sequence[str] = ()) -> str:
        """Return what brings it to the host, which is a name or the `ssh -p 22 user@name` that reaches it.

        `room`: the bytes that a sync may send besides the tree; `include`: what it includes already.
        """
        if self.link:
            end = "/" * (root / self.top).is_dir()
            above = posixpath.dirname(self.top.rstrip("/"))
            goal = posixpath.normpath(posixpath.join(target, above, self.link))
            source = str((root / self.top).resolve())
            if self.top == goal + end:  # above it, the host may lack any directory
                return format_rsync("-aR --no-implied-dirs", goal + end, host, "/")
            return format_rsync("-a", source + end, host, goal + end)
        is_excluded = self.rule.startswith(_EXCLUDE)  # by the user's own word, which counts more
        if self.size is not None and self.size <= room and not is_excluded:
            paths = [*dict.fromkeys((*include, self.top))]
            value = json.dumps(paths, ensure_ascii=False) if len(paths) > 1 else quote_yaml(self.top)
            return f"gpulaunch run ... --set sync.include={quote_path(value)}"
        here = "./" if root == Path.cwd() else f"{root}/./"  # no option, and no host: -x, a:b
        return format_rsync("-aR", here + self.top, host, f"{target}/")

    def follow_link(self) -> "LeftOut":
        """Return it with the path that hosts need where the link itself is sent: its target."""
        inner = posixpath.relpath(self.path, self.top)
        target = posixpath.join(posixpath.dirname(self.top), self.link, inner)
        return replace(self, path=posixpath.normpath(target))

    @property
    def size(self) -> int | None:
        """The bytes of `top`; None: too many files to count."""
        return _size(self.place)

    @property
    def amount(self) -> str:
        """What a send would carry: `data/, 3.2 GiB`."""
        size = f"over {_MAX_FILES} files" if self.size is None else format_size(self.size)
        return f"{one_line(self.top, 120)} ({size})"


def quote_yaml(text: str) -> str:
    """Return what stands for this text in a run config; quotes of a shell would become a part of it."""
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def find_left_out(root: Path, path: str, exclude: Sequence[str]) -> LeftOut | None:
    """Return why a path that exists below `root` is not sent; None where it is, or no rule is known."""
    name = posixpath.normpath(path)
    if name.startswith(("..", "/", ".git/")) or name == "." or not os.path.exists(root / name):  # noqa: PTH110 - no path raises
        return None
    parts = name.split("/")
    for count in range(1, len(parts) + 1):
        top = "/".join(parts[:count])
        is_link = (root / top).is_symlink()
        if is_link and not (root / top).resolve().is_relative_to(root):
            link = str((root / top).readlink())
            return LeftOut(name, f"{top} is a link to {link}", top, root / top, link)
        is_directory = (root / top).is_dir() and not is_link
        if rule := _rule(root, top, exclude, is_directory=is_directory):
            return LeftOut(name, rule, top + "/" * is_directory, root / top)
    return None


def find_outside(root: Path, path: str) -> LeftOut | None:
    """Return the file or directory beside the tree that an argument names locally, None for any other.

    What the tree itself lies in, such as / or a home, does not count as data of one run.
    """
    name = posixpath.normpath(path)
    place = root / name
    is_data = os.path.isfile(place) or os.path.isdir(place)  # noqa: PTH112, PTH113 - as above
    if not name.startswith(("../", "/")) or not is_data or place.resolve() in root.parents:
        return None
    inside = name.startswith("/") and place.is_relative_to(root)
    rule = f"in the tree it is {place.relative_to(root)}" if inside else "it lies outside the tree"
    link = name if name.startswith("/") else posixpath.basename(name)
    return LeftOut(name, rule, name + "/" * place.is_dir(), place, link)


def list_inputs(script: str, args: Sequence[str], subdirectory: str, output: str) -> tuple[str, ...]:
    """Return the paths that a script seems to read, by its arguments and its text, relative to the tree.

    What it writes, by an option's name or the call that names it, is none.
    """
    written = {posixpath.normpath(output)} if output else set[str]()
    found = dict.fromkeys(_of_args(args))
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        lines = script.splitlines()
        for call in (node for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Call)):
            text = "\n".join(lines[call.lineno - 1 : call.end_lineno])
            words = [node.value for node in ast.walk(call) if isinstance(node, ast.Constant)]
            names = [word for word in words if isinstance(word, str) and 1 < len(word) < 300]
            options = [name for name in names if name.startswith("-")]
            options += [keyword.arg or "" for keyword in call.keywords]
            if _WRITE.search(text) or any(_is_output(name) for name in options):
                written.update(posixpath.normpath(name) for name in names)
            else:
                found.update(dict.fromkeys(name for name in names if "/" in name or "." in name))
    written -= {".", "/"}
    return tuple(
        posixpath.normpath(posixpath.join(subdirectory, name))
        for name in found
        if written.isdisjoint((path := posixpath.normpath(name), *map(str, PurePosixPath(path).parents)))
    )


def list_modules(root: Path, script: str) -> tuple[str, ...]:
    """Return the modules of the tree that a script of it imports, directly or through others."""
    from launcher.local.source_files import read_source  # noqa: PLC0415 - it imports the reader of scripts
    from preflight.script.source import Sources  # noqa: PLC0415 - as above

    place, sources = (root / script).as_posix(), Sources(read_source)
    with suppress(SyntaxError, ValueError, RecursionError, MemoryError):  # preflight reports it
        found = sources.list_own_modules(sources.add(place, read_source(place) or ""))
        return tuple(each.removeprefix(f"{root.as_posix()}/") for each in found)
    return ()


def is_write(root: Path, place: str) -> bool:
    """Whether a line of a script, "train.py:12", writes by its look: what it names need not be sent.

    The place is of a log and untrusted: no device, no pipe and nothing outside the tree is read.
    """
    name, _, number = place.rpartition(":")
    with suppress(OSError, ValueError, IndexError, RuntimeError):
        path = (root / name).resolve()
        if path.is_relative_to(root) and path.is_file():
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
            return _WRITE.search(lines[int(number) - 1]) is not None
    return False


def _of_args(args: Sequence[str]) -> Iterator[str]:
    option = ""
    for word in args:
        name, equals, value = word.partition("=")
        if word.startswith("-") and not equals:
            option = word
            continue
        named, text = (name, value) if equals else (option, word)
        if not _is_output(named) and ("/" in text or "." in text or _PLACE.search(named)):
            yield text
        option = ""


def _is_output(option: str) -> bool:
    return _OUTPUT.search(option) is not None and _INPUT.search(option) is None


def _rule(root: Path, name: str, exclude: Sequence[str], *, is_directory: bool) -> str:
    said = Ignore.from_lines(exclude).says(name, is_directory=is_directory)
    if said is not None and said.excludes:
        return f"{_EXCLUDE} ({one_line(said.line, 80)})"
    above = [*Path(name).parents][:-1]
    base = next((root / path for path in above if (root / path / ".git").exists()), root)
    if git.is_checkout(base):
        rule = git.find_ignore_rule(base, (root / name).relative_to(base).as_posix())
        below = "" if base == root or not rule or rule.startswith("/") else f"{base.relative_to(root)}/"
        return below + rule
    rules: Rules = ()
    for path in ("", *(f"{path.as_posix()}/" for path in reversed(above))):
        rules = add_rules(rules, root, path)
    found = find_rule(rules, name, is_directory=is_directory)
    if found is None or not found[1].excludes:
        return ""
    return f"{found[0]}.gitignore:{found[1].number} ({one_line(found[1].line, 80)})"


@lru_cache(maxsize=16)
def _size(path: Path) -> int | None:
    if not path.is_dir():
        return path.stat().st_size
    total = count = 0
    for folder, _, names in os.walk(path):
        count += len(names) + 1
        if count > _MAX_FILES:
            return None
        for name in names:
            with suppress(OSError):
                total += os.lstat(os.path.join(folder, name)).st_size  # noqa: PTH118 - a hundred times as fast
    return total
