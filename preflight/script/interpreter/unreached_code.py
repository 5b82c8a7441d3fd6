"""What trains and was not reached: classes looked up by a name, methods of unknown objects, files of classes.

A reading that came upon no training reads them after the rest, each from what the script has left behind:
with the arguments of the call that may mean it, else with its defaults, and nothing known of what has none.
"""

import ast
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.frozen import dataclass
from preflight.script.bounds import TooLong
from preflight.script.interpreter import calls, classes
from preflight.script.interpreter.branch_conditions import UNCALLED, UNREACHED
from preflight.script.interpreter.choices import is_model_use
from preflight.script.interpreter.events import Call, ModuleName, ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter, unwrap_value
from preflight.script.library_names import TRAINS
from preflight.script.source import Source, find_used_by_program
from preflight.script.values import Class, Func, Value
from preflight.script.values.operations import as_text

_MAX_READ = 12  # functions and classes that are read so, at most
_MAX_ALIKE = 4  # classes of which any may be the one whose method is called
_MAX_STEPS = 100_000  # work for all of them
_OF_TRAINING = frozenset(
    {
        *("backward", "manual_backward", "zero_grad", "GradScaler", "init_process_group", "DataParallel"),
        *("DistributedDataParallel", "FullyShardedDataParallel", "fully_shard"),
    }
)
_MAY_TRAIN = re.compile(rf"(?:{'|'.join(sorted(_OF_TRAINING))}|Trainer|TrainingArguments)\(")
_UNSAID = frozenset(
    {"forward", "step", "update", "backward", "train", "eval", "get", "append", "run", "main"}
)
"""Names that call too many things to say that the caller trains."""
_OF_ANYTHING = frozenset(
    {"forward", "step", "update", "backward", "eval", "get", "append", "loss", "__call__"}
)
"""Methods of so many things that a call says nothing of what it is called on."""
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Definition:
    """A function at the top of a file, or a method of a class at the top; `calls` are names that it calls."""

    node: _Function
    calls: frozenset[str]


def list_definitions(nodes: Sequence[ast.AST]) -> tuple[Definition, ...]:
    """Return what a file defines at its top."""
    found = list[_Function]()
    for statement in getattr(nodes[0], "body", ()):
        for node in statement.body if isinstance(statement, ast.ClassDef) else (statement,):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                found.append(node)
    starts = [min(part.lineno for part in (node, *node.decorator_list)) for node in found]
    names = [set[str]() for _ in found]
    for call in (node for node in nodes if type(node) is ast.Call):  # by their lines: no function is walked
        number = bisect_right(starts, call.lineno) - 1
        if number >= 0 and call.lineno <= (found[number].end_lineno or 0):
            names[number].add(getattr(call.func, "attr", getattr(call.func, "id", "")))
    return tuple(map(Definition, found, map(frozenset, names)))


def _trains(names: frozenset[str]) -> bool:
    """Whether a function by what it calls takes a part in a training itself, or starts a Trainer."""
    return not names.isdisjoint(_OF_TRAINING) or any(
        name.endswith(("Trainer", "TrainingArguments")) for name in names
    )


class RemainderReader:
    """Reads, one after the other, what may train and was not read."""

    def __init__(self, it: Interpreter, main: Source) -> None:
        self._it = it
        self._main = main
        self._read = 0
        self._known: dict[int, Definition] = {}
        self._training = set[int]()  # functions that train, or call by its name one that does
        self.names = list[str]()  # of what was read

    def read(self) -> list[str]:
        """Read them, and return their names."""
        it, before = self._it, self._it.work.steps
        if not self._may_read():
            return []
        self._find()
        for name, func, call in self._roots():
            if self._read >= _MAX_READ or it.work.steps - before > _MAX_STEPS:
                break
            self._read += 1
            try:
                self._read_one(name, func, call)
            except (TooLong, RecursionError):
                break
        it.contexts = []
        return self.names

    def _may_read(self) -> bool:
        """Whether anything was not reached, before files are looked through for what trains."""
        it = self._it
        if it.unread_calls.modules:
            return True
        if not it.sources.mention(_MAY_TRAIN):
            return False
        if it.unread_calls.functions:
            return True
        names = it.state.frames.get(it.modules.get(self._main.path, 0), {}).values()
        if any(
            isinstance(value, Class) or (isinstance(value, Func) and value.key not in it.called)
            for value in names
        ):
            return True
        return any(it.unread_calls.methods.keys() & info.names.keys() for info in it.classes.values())

    def _find(self) -> None:
        """Find the functions that train in the files that were read, and in those that may be."""
        it = self._it
        it.contexts = [UNCALLED]
        with it.enter_source(self._main, it.modules[self._main.path]):
            read_modules(it)
        files = self._define(it.sources.files(), _OF_TRAINING | {"Trainer", "TrainingArguments"})
        own = {key: each for key, each in self._known.items() if _trains(each.calls)}
        while own:
            self._training |= own.keys()
            names = {each.node.name for each in own.values()}
            files = self._define(files, names)
            names -= _UNSAID
            own = {
                key: each
                for key, each in self._known.items()
                if key not in self._training and not names.isdisjoint(each.calls)
            }

    def _define(self, files: list[Source], names: Iterable[str]) -> list[Source]:
        """Note what files define that write any of these names; return the others."""
        written = re.compile("|".join(map(re.escape, names)))
        for source in filter(lambda file: written.search(file.text), files):
            for each in self._it.sources.parser.find(list_definitions, source.tree):
                self._known[id(each.node)] = each
        return [source for source in files if not written.search(source.text)]

    def _roots(self) -> Iterator[tuple[str, Func | Class, Call | None]]:
        """Yield what to read, with the name of a method of a class, and the call that may mean it."""
        it, methods = self._it, self._method_names()
        for name, call in list(it.unread_calls.methods.items()):
            if name not in methods or name in _OF_ANYTHING or is_model_use(name):
                continue
            for cls in self._classes_with(name):
                yield name, cls, call
                methods = self._method_names()  # what was read may have defined more
        for func in list(it.unread_calls.functions.values()):
            if func.key in self._training:
                yield "", func, None
        yield from self._of_main()

    def _method_names(self) -> set[str]:
        """Return the names that any class has for what trains."""
        bodies = (info.names for info in self._it.classes.values())
        return {
            name
            for names in bodies
            for name, value in names.items()
            if isinstance(value, Func) and value.key in self._training
        }

    def _of_main(self) -> Iterator[tuple[str, Func | Class, Call | None]]:
        """Yield what the script's own file defines and names, or all of it where nothing in it runs."""
        it = self._it
        names = it.state.frames.get(it.modules.get(self._main.path, 0), {})
        used = it.sources.parser.find(find_used_by_program, self._main.tree)
        for name, value in list(names.items()):
            if used is not None and name not in used:
                continue
            if isinstance(value, Func) and value.key in self._training and self._is_own(value.key):
                yield "", value, None
            elif isinstance(value, Class) and self._is_own(value.key):
                for method in self._methods(value):
                    yield method, value, None

    def _is_own(self, key: int) -> bool:
        it = self._it
        info = it.functions.get(key) or it.classes.get(key)
        name = getattr(info.node, "name", "") if info else ""
        return info is not None and info.source is self._main and not is_model_use(name)

    def _methods(self, cls: Class) -> list[str]:
        """Return the methods of a class that train: those that scripts call to start one, else the first."""
        it = self._it
        found = [
            name
            for info in it.mro(cls.key)
            for name, value in info.names.items()
            if isinstance(value, Func) and value.key in self._training and not is_model_use(name)
        ]
        keys = (
            value.key for info in it.mro(cls.key) for value in info.names.values() if isinstance(value, Func)
        )
        inner = frozenset[str]().union(*(self._known[key].calls for key in keys if key in self._known))
        starts = [name for name in dict.fromkeys(found) if TRAINS.search(name)] or found[:1]
        return sorted(starts, key=inner.__contains__)  # fit() before the train_epoch() that it calls

    def _classes_with(self, name: str) -> list[Class]:
        """Return the classes whose method of that name trains, none that others of them derive from."""
        it = self._it
        found = dict[int, Class]()
        for key, info in it.classes.items():
            frame = it.modules.get(info.source.path)
            method = self._method(key, name) if frame is not None and not info.node.col_offset else None
            if frame is not None and method is not None and method.key in self._training:
                found[key] = Class(key, frame)
        bases = {id(info.node) for key in found for info in list(it.mro(key))[1:]}
        return [cls for key, cls in found.items() if key not in bases][:_MAX_ALIKE]

    def _was_read(self, key: int) -> bool:
        """Whether each method of a class that trains was read."""
        methods = (value for info in self._it.mro(key) for value in info.names.values())
        keys = {value.key for value in methods if isinstance(value, Func)}
        return (keys & self._training) <= self._it.called

    def _method(self, key: int, name: str) -> Func | None:
        """Return a method of a class, None where the script defines none of that name."""
        found = next((info.names[name] for info in self._it.mro(key) if name in info.names), None)
        return found if isinstance(found, Func) else None

    def _read_one(self, name: str, func: Func | Class, call: Call | None) -> None:
        it = self._it
        target = self._method(func.key, name) if isinstance(func, Class) else func
        if target is None or (target.key in it.called and (call is None or self._was_read(func.key))):
            return
        info = it.classes[func.key] if isinstance(func, Class) else it.functions[func.key]
        what = getattr(info.node, "name", "") + (f".{name}" if name else "")
        before, it.state = it.state, it.state.fork()
        it.state.dead = False
        it.contexts = [UNCALLED, f"{UNREACHED}{what}"]
        with it.enter_source(info.source, func.frame):
            made: Value = func
            if isinstance(func, Class):
                empty = unwrap_value(it, info.node, ())
                made = classes.instantiate(it, func, empty)
                it.state.dead = False
                target = classes.find_method(it, made, name) or target
            calls.call_function(it, target, call or unwrap_value(it, info.node, ()))
            it.emit(ScriptEvent("end", CodeLocation(self._main.path, 1)))
        it.state = before
        self.names.append(what)


_MAX_MODULES = 16  # modules that may have such a name and are read, at most
_MAX_DEPTH = 4


def note_module_name(it: Interpreter, node: ast.expr) -> None:
    """Note `importlib.import_module(f"models.{name}_model")`, whose name is not known."""
    head, tail = _ends(it, node, _MAX_DEPTH)
    if "." in head:
        it.unread_calls.modules[ModuleName(head, tail, it.source)] = None


def _ends(it: Interpreter, node: ast.expr, depth: int) -> tuple[str, str]:
    """Return the head and the tail of a text, as far as they are known."""
    parts: list[ast.expr] = []
    if isinstance(node, ast.JoinedStr):
        parts = node.values
    elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        parts = [node.left, node.right]
    elif isinstance(node, ast.Name) and depth and as_text(it.lookup(node.id)) is None:
        given = it.sources.parser.find(_assigned_texts, it.source.tree).get(node.id)
        return _ends(it, given, depth - 1) if given is not None else ("", "")
    if parts and depth:
        return _ends(it, parts[0], depth - 1)[0], _ends(it, parts[-1], depth - 1)[1]
    text = as_text(it.evaluate(node.value if isinstance(node, ast.FormattedValue) else node)) or ""
    return text, text


def _assigned_texts(nodes: list[ast.AST]) -> dict[str, ast.expr]:
    """Return the last text that a file puts together for each name."""
    return {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.JoinedStr, ast.BinOp))
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def read_modules(it: Interpreter) -> None:
    """Read the modules that have such names: any of them may be the one."""
    for name in list(it.unread_calls.modules):
        package, _, begin = name.head.rpartition(".")
        level = len(package) - len(package.lstrip("."))
        package = package.lstrip(".")
        found = [
            word
            for word in it.sources.modules_in(package, level, name.source)
            if word.startswith(begin) and word.endswith(name.tail)
        ]
        for word in found[:_MAX_MODULES]:
            source = it.sources.find_import(f"{package}.{word}".lstrip("."), level, name.source)
            if source is not None:
                it.module_frame(source)
