"""The script's text and the modules of its own that it imports, found beside it. Nothing is executed."""

import ast
import posixpath
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TypeVar, cast

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.frozen import dataclass
from preflight.script.bounds import MAX_MODULE, MAX_WORDS
from preflight.script.library_names import KNOWN_ROOTS, QUIET_ROOTS
from preflight.script.pattern_words import is_found, may_be_found
from preflight.script.syntax_trees import Parser, walk

T = TypeVar("T")
Finder = Callable[[str], str | None]
"""Returns the text of a file by its path, and by FOLDER/* the names of the modules in it; None: none."""

_MODULES = 60  # modules that are read whatever they hold, as far as MAX_WORDS goes
_TRAINS = re.compile(
    r"\bbackward\(|\bGradScaler\b|\binit_process_group\(|\bset_device\(|\boptim\.[A-Z]\w+\(|\bDistributedDataParallel\b"
)
_WORDS = MAX_WORDS * 3 // 4  # beyond, modules are read only if they train, scale or place
_INSTALLED = sys.stdlib_module_names | KNOWN_ROOTS - {"datasets", "evaluate", "value"}
"""Packages that hide a folder of their name without an `__init__.py`. Scripts name folders like the three."""
_JOINS = frozenset({"init_process_group", "set_device", "init_distributed", "init_distributed_mode"})
_CALLS_START = re.compile(r"spawn\b|start_processes\b|launch\s*[(\\)]|Process\s*[(\\)]")
"""Texts without these start no ranks; of others the tree decides."""
PLACE = "gpulaunch_place"  # where a node keeps its place: a quarter of all evaluated asks for it
_LINES = "gpulaunch_lines"  # where a tree keeps its lines: each branch left out is looked at in them
_COMMENT = re.compile(r"[^'\"#]*#")
_MAGIC = re.compile(r"^([ \t]*)([!%][^\r\n]*)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Source:
    """One parsed file."""

    path: str
    text: str
    tree: ast.Module
    package: str  # folder that its absolute imports of neighbours start from
    folder: str  # that it is in

    @property
    def lines(self) -> Sequence[str]:
        """The lines of the text."""
        of_tree = self.tree.__dict__
        if _LINES not in of_tree:
            text = self.text.replace("\r\n", "\n").replace("\r", "\n")  # as Python's parser counts lines
            of_tree[_LINES] = text.split("\n")
        lines: Sequence[str] = of_tree[_LINES]
        return lines

    def place(self, node: ast.AST) -> CodeLocation:
        """Return where a piece of syntax is."""
        of_node = node.__dict__
        if PLACE not in of_node:
            if "lineno" not in of_node:  # a module; or a context or operator, which all trees share
                return CodeLocation(self.path, 1)
            of_node[PLACE] = CodeLocation(self.path, of_node["lineno"], of_node.get("col_offset", 0) + 1)
        place: CodeLocation = of_node[PLACE]
        return place


class Sources:
    """The files of one script: itself, and what it imports from its own folders."""

    def __init__(self, find: Finder | None = None, parser: Parser | None = None) -> None:
        self._find = find
        self.parser = parser or Parser()
        self._read: dict[str, Source | None] = {}
        self._imported: dict[tuple[str, int, str, str], Source | None] = {}
        self._problems: list[str] = []
        self._left = 0  # modules beyond the limit
        self._mentions: dict[re.Pattern[str], tuple[int, bool]] = {}  # with how many files were read by then
        self.magics: list[CodeLocation] = []  # lines of a notebook, which Python does not read

    @property
    def problems(self) -> list[str]:
        """What could not be read, and so was not judged."""
        many = f"more than {_WORDS} words and signs in all: {self._left} modules were not read"
        return [*self._problems, *([many] if self._left else [])]

    def add(self, path: str, text: str) -> Source:
        """Parse the script itself, notebook lines passed over. Raises SyntaxError."""
        try:
            source = self._parse(path, text, self.parser.root)
        except SyntaxError:
            plain = _MAGIC.sub(r"\1pass", text)
            if plain == text:
                raise
            source = self._parse(path, plain, self.parser.root)
            self.magics = [
                CodeLocation(path, number)
                for number, line in enumerate(text.split("\n"), start=1)
                if _MAGIC.match(line)
            ]
        self._read[path] = source
        return source

    def get(self, path: str) -> Source | None:
        """Return a file that was read."""
        return self._read.get(path)

    def files(self) -> list[Source]:
        """Return all files that were read."""
        return [source for source in self._read.values() if source is not None]

    def mention(self, pattern: re.Pattern[str]) -> bool:
        """Whether any file that was read has what a pattern looks for."""
        count, known = self._mentions.get(pattern, (0, False))
        if not known and count < len(self._read):
            known = any(self.is_in_code(pattern, source) for source in self.files())
            self._mentions[pattern] = len(self._read), known
        return known

    def is_in_code(self, pattern: re.Pattern[str], source: Source) -> bool:
        """Whether a file has what a pattern looks for, elsewhere than in comments and free-standing texts."""
        known, key = self.parser.mentions, (pattern.pattern, pattern.flags, id(source.tree))
        if key not in known:
            known[key] = self._has(pattern, source)
        return known[key]

    def _has(self, pattern: re.Pattern[str], source: Source) -> bool:
        if not may_be_found(pattern, source.text):
            return False
        for found in pattern.finditer(source.text):
            before = source.text[: found.start()]
            if not _COMMENT.match(before.rpartition("\n")[2]):
                line = before.count("\n") + 1
                if line not in self.parser.find(_texts, source.tree):
                    return True
        return False

    def text(self, path: str) -> str | None:
        """Return the text of a file that is not a module."""
        return self._find(path) if self._find is not None else None

    def modules_in(self, name: str, level: int, importer: Source) -> list[str]:
        """Return the names of the modules in a package or folder of the script's own."""
        for path in _candidates(name, level, importer.package, importer.folder)[1::2]:
            if text := self.text(f"{posixpath.dirname(path)}/*"):
                return text.split("\n")
        return []

    def find_import(self, name: str, level: int, importer: Source) -> Source | None:
        """Return the script's own module of that name, None when it is a library or not found."""
        key = name, level, importer.package, importer.folder
        if key not in self._imported:
            root, _, part = name.partition(".")
            installed = (
                part and not level and root in _INSTALLED and self.find_import(root, 0, importer) is None
            )
            self._imported[key] = None if installed else self._found(name, level, importer)
        return self._imported[key]

    def _found(self, name: str, level: int, importer: Source) -> Source | None:
        for path in _candidates(name, level, importer.package, importer.folder):
            source = self._load(path, importer.package)
            if source is not None:
                return source
        return None

    def list_own_modules(self, source: Source) -> list[str]:
        """Return the paths of the modules of its own that a file imports, directly or through others."""
        waiting, found = [source], [source.path]
        while waiting:
            one = waiting.pop()
            for name, level in self.parser.imports(one.tree):
                module = self.find_import(name, level, one)
                if module is not None and module.path not in found:
                    found.append(module.path)
                    waiting.append(module)
        return found[1:]

    def has_unread(self) -> bool:
        """Whether the script imports code that was not read and is not a library known to leave GPUs alone.

        Such a module may open GPU 0, or set the rank's device, when it is imported or called.
        """
        return any(self.list_unread_imports(source) for source in self.files())

    def list_unread_imports(self, source: Source) -> list[tuple[str, int]]:
        """Return the imports not read nor known to be quiet; a folder is read where its modules are."""
        unread = []
        for name, level in self.parser.imports(source.tree):
            root = name.partition(".")[0]
            known = root in KNOWN_ROOTS or root in QUIET_ROOTS or root in sys.stdlib_module_names
            if (known and not level) or self.find_import(name, level, source) is not None:
                continue
            places = _candidates(name, level, source.package, source.folder)
            if not {posixpath.dirname(place) for place in places[1::2]} & {
                source.folder for source in self.files()
            }:
                unread.append((name, level))
        return unread

    def _load(self, path: str, package: str) -> Source | None:
        if path in self._read:
            return self._read[path]
        text = self._find(path) if self._find is not None else None
        if text is not None and not self._has_room(path, text):
            self._left += 1
            text = None
        source: Source | None = None
        if text is not None:
            try:
                source = self._parse(path, text, package)
            except (RecursionError, MemoryError):
                self._problems.append(f"{path}: nested too deeply")
            except (SyntaxError, ValueError) as error:
                self._problems.append(f"{path}: {error}")
        self._read[path] = source
        return source

    def _has_room(self, path: str, text: str) -> bool:
        """Whether a module is read, or has a reason of its own not to be."""
        if len(self.files()) < _MODULES or len(text) > MAX_MODULE:
            return True
        if is_found(_TRAINS, text):
            return True
        return self.parser.has_room(path, text, _WORDS)

    def _parse(self, path: str, text: str, package: str | None = None) -> Source:
        folder = posixpath.dirname(path)
        tree = self.parser.parse(path, text)
        return Source(path, text.removeprefix("\ufeff"), tree, folder if package is None else package, folder)


@lru_cache(maxsize=4096)
def _candidates(name: str, level: int, package: str, folder: str) -> tuple[str, ...]:
    """Return where a module may be, in the order of sys.path: each reading asks for the same ones again."""
    if level:
        for _ in range(level - 1):
            folder = posixpath.dirname(folder)
        folders = [folder]
    else:
        folders = list(dict.fromkeys((package, folder)))
        root = name.partition(".")[0]
        if root not in KNOWN_ROOTS:
            folders += _project_folders(package, root)
    parts = name.split(".") if name else []
    stems = [posixpath.join(base, *parts) for base in folders]
    return tuple(path for stem in stems for path in (f"{stem}.py", posixpath.join(stem, "__init__.py")))


def _project_folders(folder: str, root: str) -> Iterator[str]:
    """Yield what the script, PYTHONPATH or an installed project puts on sys.path besides the script's folder.

    It is the folder above, that of the package which the script is a part of, or a `src` beside them.
    """
    above = _above(folder)
    outside, found, _ = f"/{folder}/".rpartition(f"/{root}/")
    beside = (posixpath.join(base, "src") for base in (folder, above))
    for item in dict.fromkeys((above, *([outside[1:]] if found else []), *beside, _above(above))):
        if item != "/" and (item or not folder.startswith("/")):
            yield item


def _above(folder: str) -> str:
    """Return the folder above one, "" for the current directory, as that of its own files is named."""
    above = posixpath.normpath(posixpath.join(folder, ".."))
    return "" if above == "." else above


def find_used_by_program(nodes: list[ast.AST]) -> frozenset[str] | None:
    """Return the names that a file reads, None where no part of it runs and calls only as the program."""
    body = cast("ast.Module", nodes[0]).body
    own = {node.name for node in body if isinstance(node, (ast.FunctionDef, ast.ClassDef))}
    guards = [node for node in body if isinstance(node, ast.If) and "__name__" in ast.dump(node.test)]
    has_main = any(own & list_used_names(walk(ast.Module(guard.body, []))) for guard in guards)
    return list_used_names(nodes) if has_main else None


def _texts(nodes: Sequence[ast.AST]) -> frozenset[int]:
    """Return the lines of texts that nothing takes: what a module, class or function says of itself."""
    texts = (node for node in nodes if type(node) is ast.Expr and type(node.value) is ast.Constant)
    return frozenset(line for node in texts for line in range(node.lineno, (node.end_lineno or 0) + 1))


def list_names(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Return the names that code uses, imports and passes by: no comment and no text."""
    names: set[str | None] = set()
    for node in nodes:
        if (kind := type(node)) in _NAMING:
            names.add(getattr(node, _NAMING[kind]))
        elif isinstance(node, ast.alias):
            names.update(node.name.split("."))
    return frozenset(name for name in names if name)


_NAMING = {ast.Name: "id", ast.Attribute: "attr", ast.keyword: "arg", ast.arg: "arg"}


def list_used_names(nodes: Iterable[ast.AST]) -> frozenset[str]:
    """Return the names that a file reads, in strings too: some programs call a function by its name."""
    used = set()
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            used.add(node.id)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            used.add(node.value)
    return frozenset(used)


def spawns_ranks(source: Source, parser: Parser) -> bool:
    """Whether a script starts its ranks itself, as torch.multiprocessing.spawn does."""
    if not is_found(_CALLS_START, source.text):
        return False
    calls = parser.list_nodes(source.tree, ast.Call)
    names = {getattr(node.func, "attr", getattr(node.func, "id", "")): node for node in calls}
    attributes = parser.list_nodes(source.tree, ast.Attribute)
    if "spawn" in names or any(node.attr == "start_processes" for node in attributes):
        return True
    launch = names.get("launch")
    if launch and launch.args and len(launch.args) + len(launch.keywords) > 1:
        of_fabric = isinstance(launch.func, ast.Attribute) and "Fabric(" in source.text
        return isinstance(launch.args[0], ast.Name) and not of_fabric  # launch(main, gpus) of detectron2
    target = any(word.arg == "target" for node in calls for word in node.keywords)
    return target and "Process" in names and bool(names.keys() & _JOINS)
