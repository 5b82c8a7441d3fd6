"""Rule R405: files that every rank writes."""

import ast
from collections.abc import Iterator
from dataclasses import replace

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import (
    MAYBE,
    OF_SOME,
    RANK_0,
    SPAWNED,
    UNCALLED,
    find_branch_places,
)
from preflight.script.interpreter.contexts import SUPPRESS
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.certainty import apply_doubts
from preflight.script.rules.collectives import OTHERS
from preflight.script.rules.own_measures import get_last_name, list_stores
from preflight.script.rules.own_names import name_of
from preflight.script.rules.rank_folders import list_early_writes
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.source import spawns_ranks
from preflight.script.syntax_trees import ByKind, unparse, walk
from preflight.script.values import ExternalName, RankValue, Seq, Unknown, Value
from preflight.script.values.constants import NONE, TRUE
from preflight.script.values.operations import as_text, is_by_rank, list_values

_OF_RANK_0 = r"writer|logger|tracker|verbose|wandb|\brun\b|progress|\bbar\b|saves|should_save"
"""Names in conditions that scripts make on rank 0 only."""
_EXISTS = r"(?i)exists|is_?dir|is_?file"
_ENDS = re.compile(r"^raise\b|\b_?exit\(|\babort\(")
_OF_PATHS = re.compile(r"path|file|dest|out", re.IGNORECASE)
_FIRST_RANK = {
    "accelerator": ("is_main_process", "PartialState().is_main_process"),
    "trainer": ("is_world_process_zero()", "PartialState().is_main_process"),
    "lightning trainer": ("is_global_zero", "rank_zero_only.rank == 0"),
    "fabric": ("is_global_zero", "rank_zero_only.rank == 0"),
}
"""What is true on rank 0 alone: an attribute of what makes the ranks, and what is where that has no name."""
_OF_KERNEL = re.compile(r"/(?:dev/(?!shm/|mqueue/)|proc/|sys/)")
"""Files that keep nothing of what is written: every process may write to them."""
JOINED = "joins a launch's ranks"  # where the script becomes one of a launch's ranks
_SAID = {
    "folder": (
        "every rank makes this folder, and all but the first find that it exists",
        "os.makedirs(..., exist_ok=True)",
    ),
    "removal": (
        "every rank removes or renames this, and all but the first find that it is gone",
        "if {first}: before it, or pathlib.Path(...).unlink(missing_ok=True)",
    ),
    "tree": (
        "every rank removes this folder, and stops at files that another has removed before",
        "if {first}: before it, and torch.distributed.barrier() behind it",
    ),
    "fetch": (
        "every rank downloads and converts this in one place, at the first run",
        "make it where {first} first, a barrier, and on the others after it",
    ),
    "download": (
        "every rank downloads this into one place, at the first run",
        "rank 0 first: download={first}, a barrier, and the others after it",
    ),
}
_FETCHES = ("download", "fetch")
_FETCHED = "downloaded by some ranks first"
_GROUP = "a group on every path"


@rule("R405", "write", "early write", "process group", "accelerator", "joined", "train", "end")
def one_file_of_every_rank(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Every rank writes the same file, or makes the same folder.

    Ranks of a host, and of all hosts on a shared file system, write over each other: the checkpoint is torn
    ("PytorchStreamReader failed", "unexpected EOF") where one ends later than another reads. Of a folder only
    the first rank makes it; the others stop with FileExistsError, behind `if not os.path.exists(...)` now and
    then. What FSDP or DeepSpeed gathers, all ranks gather and rank 0 writes. Files that are opened to be
    written, arrays and tables count as weights do, where the path is known to be the same on every rank. So
    do datasets of torchvision and torchaudio with download=True, and those of PyTorch Geometric and OGB,
    unless rank 0 comes first: the others read half of an archive, or one of two writers. So does
    urlretrieve(); of a file that all remove or rename, all but the first stop at what is gone, and
    shutil.rmtree() of all meets files that are gone at any moment. A folder that rank 0 makes may not be made
    yet where others write into it.
    Source: torch.distributed's tutorials: rank 0 saves; Python's os.makedirs; torchvision/datasets/utils.py,
    which downloads into the file's own place.
    """
    if event.name == "write":
        yield from _of_all(it, event)
    elif event.name == "early write":
        for hit in _of_all(it, event):
            level = (
                apply_doubts(it, hit, "R405").level if event.what in _SAID else Level.INFO
            )  # the same by all
            it.held_back.setdefault("R405", []).append(replace(hit, level=level))
    elif event.name != "end":
        if event.name == "process group" and event.call and MAYBE not in it.contexts:
            tests = (unparse(test) for test in tests_around(it, event.call.node) if test)
            it.note(_GROUP, *([] if any("__name__" not in test for test in tests) else [event.place]))
        by_launch = event.name != "train" or (it.target.processes or 1) > 1
        if by_launch and it.contexts.count(SPAWNED) + it.contexts.count(UNCALLED) == 0:
            it.note(JOINED, event.place)
    elif it.notes.get(JOINED):
        yield from it.held_back.get("R405", ())
        for source in it.sources.files() if it.target.processes != 1 else ():
            for call, made in it.sources.parser.find_by_kind(list_early_writes, source.tree):
                message = "rank 0 makes this folder, and nothing lets the other ranks wait for it"
                fix = "torch.distributed.barrier() in front of it, or the folder made by every rank"
                yield RuleHit(source.place(call), message, fix, Level.WARNING, (source.place(made),))


def _of_all(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Yield what is wrong where all ranks write, if the script is one of several ranks."""
    if it.target.processes == 1 or event.call is None:
        return
    if event.what in _FETCHES and _is_fetched_before(it, event):
        return
    if not OF_SOME.isdisjoint(it.contexts):
        return
    if it.target.processes is None and it.target.spawns and SPAWNED not in it.contexts:
        return  # of the process that starts the ranks
    if is_by_rank(event.values["path"]) or _is_of_kernel(event.values["path"]):
        return
    around = list(tests_around(it, event.call.node))
    if may_be_of_rank_0(it, around):
        return
    made_first = it.notes.get(OTHERS) and _asks_for_file(it, around)  # and the others, who waited, find it
    if made_first or (event.values.get("opened") != TRUE and _in_memory(it, event.call.node)):
        return
    if event.what in _SAID:
        tests = " ".join("exists" if test is None else unparse(test) for test in around)
        slow = event.what in ("tree", "download")  # which takes too long for one to find what another made
        late = not slow and re.search(_EXISTS, tests)
        level = Level.INFO if SUPPRESS in it.contexts or None in around or late else Level.WARNING
        message, fix = _SAID[event.what]
        yield RuleHit(event.place, message, fix.format(first=_first_rank(it)), level)
        return
    message = "every rank writes this file, and no path by rank or branch of rank 0 keeps them apart"
    level = Level.WARNING
    if _is_of_an_item(it, event.call.node) or _is_of_a_sample(it, event.values["path"]):
        level, message = Level.INFO, f"{message}, unless each has items of its own"
    elif _is_of_a_failure(it, event.call.node):
        level, message = Level.INFO, f"{message}, where all fail"
    elif event.what == "result" and any(as_text(item) is None for item in list_values(event.values["path"])):
        level, message = Level.INFO, f"{message}, unless the path does"  # of weights it seldom does
    yield RuleHit(event.place, message, f"if {_first_rank(it)}: before it", level)


def may_be_of_rank_0(it: Interpreter, around: list[ast.expr | None]) -> bool:
    """Whether conditions around a call, those of its function or of callers, may hold on rank 0 alone."""
    tests = [test for test in around if test is not None]
    if any(_is_of_rank_0(it, test) for test in tests):
        return True
    attributes = {
        part.attr for test in (*it.tests, *tests) for part in walk(test) if isinstance(part, ast.Attribute)
    }
    find, files = it.sources.parser.find_by_kind, it.sources.files() if attributes else ()
    return any(not attributes.isdisjoint(find(_set_by_rank, each.tree)) for each in files)


def _asks_for_file(it: Interpreter, around: list[ast.expr | None]) -> bool:
    """Whether a condition around a call, in its function or around that of a caller, asks what exists."""
    tests = (test for test in (*it.tests, *around) if test is not None)
    return any(re.search(_EXISTS, unparse(test)) for test in tests)


def _is_fetched_before(it: Interpreter, event: ScriptEvent) -> bool:
    """Whether one rank, or what starts them, comes to a download first, or alone, as Lightning sees to."""
    starts = SPAWNED not in it.contexts and spawns_ranks(it.sources.files()[0], it.sources.parser)
    if starts or not OF_SOME.isdisjoint(it.contexts):
        it.note(_FETCHED, event.place)
        return True
    names = {getattr(it.functions[key].node, "name", "") for key in it.stack if key in it.functions}
    return bool(it.notes.get(_FETCHED) or it.notes.get(OTHERS)) or "prepare_data" in names


def _first_rank(it: Interpreter) -> str:
    """Return what is true on rank 0 alone, in the words of what the script makes its ranks with."""
    names = {kind: name for kind in _FIRST_RANK if (name := name_of(it, kind, it.frame))}
    for kind, name in names.items():
        return f"{name}.{_FIRST_RANK[kind][0]}"
    kinds = {thing.kind for thing in it.state.heap.values()}
    words = (unnamed for kind, (_, unnamed) in _FIRST_RANK.items() if kind in kinds)
    if not it.notes.get(_GROUP):  # get_rank() stops where a script runs, or is still, in one process
        return next(words, "rank == 0" if it.target.spawns else 'int(os.environ.get("RANK", 0)) == 0')
    return next(words, "torch.distributed.get_rank() == 0")


def _is_of_kernel(path: Value) -> bool:
    """Whether a path is /dev/null or the like."""
    return path == ExternalName("os.devnull") or _OF_KERNEL.match(as_text(path) or "") is not None


def tests_around(it: Interpreter, node: ast.Call) -> Iterator[ast.expr | None]:
    """Yield the conditions around a call, in the function that holds it; a `try`, of what exists, is None."""
    for each in it.nodes:
        if not isinstance(each, (ast.If, ast.While, ast.Try)):
            continue
        if each.body[0].lineno <= node.lineno <= (each.end_lineno or 0):
            if not isinstance(each, ast.Try):
                yield each.test
            elif any(map(catches_files, each.handlers)):
                yield None


def catches_files(handler: ast.ExceptHandler) -> bool:
    """Whether a handler is reached where a folder or file exists, or no run does: not an interrupt's."""
    named = unparse(handler.type) if handler.type else "Exception"
    return re.search(r"Exception|(?:OS|IO|Environment)Error|File(?:Exists|NotFound)|wandb", named) is not None


def _is_of_rank_0(it: Interpreter, test: ast.expr) -> bool:
    """Whether a condition may hold on rank 0 only: by its names, unless they are the same on every rank."""
    if not re.search(_OF_RANK_0, unparse(test)):
        return False
    named = [
        part
        for part in walk(test)
        if isinstance(part, (ast.Name, ast.Attribute)) and re.search(_OF_RANK_0, unparse(part))
    ]
    return not named or any(_may_differ(it.evaluate(part)) for part in named)


def _set_by_rank(kinds: ByKind) -> set[str]:
    """Return the attributes that are given, somewhere in a file, what is true on rank 0 alone."""
    stored = (node for node in kinds.get(ast.Assign, ()) if isinstance(node.targets[0], ast.Attribute))
    return {node.targets[0].attr for node in stored if find_branch_places(node.value)[0] == RANK_0}


def _may_differ(value: Value) -> bool:
    """Whether a value may be another on other ranks: it is by rank, not known, or None on some path."""
    may_be = (NONE, ExternalName("wandb.run"))
    return any(isinstance(item, (RankValue, Unknown)) or item in may_be for item in list_values(value))


def _is_of_a_failure(it: Interpreter, node: ast.Call) -> bool:
    """Whether a branch around a call ends by an exception or exit: the rank writes that fails."""
    bodies = [body for each in it.list_nodes(ast.If) for body in (each.body, each.orelse) if body]
    around = (body[-1] for body in bodies if body[0].lineno <= node.lineno <= (body[-1].end_lineno or 0))
    return any(isinstance(last, (ast.Raise, ast.Expr)) and _ENDS.search(unparse(last)) for last in around)


def _is_of_an_item(it: Interpreter, node: ast.Call) -> bool:
    """Whether the path is what a loop over unknown data gives: a file for each item, and ranks have parts."""
    given = (*node.args, *(word.value for word in node.keywords))
    names = {each.id for each in given if isinstance(each, ast.Name)}
    for each in it.nodes:
        if isinstance(each, ast.For) and each.lineno < node.lineno <= (each.end_lineno or 0):
            bound = {part.id for part in walk(each.target) if isinstance(part, ast.Name)}
            bound = _made_of({name for name in bound if _OF_PATHS.search(name)}, each)
            sources = [it.lookup(part.id) for part in walk(each.iter) if isinstance(part, ast.Name)]
            lists = [item for value in sources for item in list_values(value) if isinstance(item, Seq)]
            known = any(not item.open for item in lists)
            if not known and bound & names:
                return True
    return False


def _is_of_a_sample(it: Interpreter, path: Value) -> bool:
    """Whether a dataset's item, or what a loop over data asks for, is kept in a file not known by name.

    The function asks whether there is one: a cache of what is computed of a sample, and ranks have others.
    """
    known = all(as_text(item) is not None for item in list_values(path))
    if known or not isinstance(it.scope, ast.FunctionDef):
        return False
    if it.scope.name == "__getitem__" or not it.drawn:
        return it.scope.name == "__getitem__"
    given = {each.arg for each in (*it.scope.args.args, *it.scope.args.kwonlyargs)} - {"self", "cls"}
    asks = [node for node in it.list_nodes(ast.Call) if re.search(_EXISTS, get_last_name(node))]
    names = {part.id for node in asks for part in walk(node) if isinstance(part, ast.Name)}
    made = it.sources.parser.find(list_stores, it.scope)
    used = {
        part.id
        for name in names
        for value, _ in made.get(name, ())
        for part in walk(value)
        if isinstance(part, ast.Name)
    }
    return not given.isdisjoint(names | used)


def _made_of(names: set[str], loop: ast.For) -> set[str]:
    """Return names, and those that a loop makes of them in its order."""
    made = [node for node in walk(loop) if isinstance(node, ast.Assign)]
    for node in sorted(made, key=lambda each: each.lineno):
        if any(isinstance(part, ast.Name) and part.id in names for part in walk(node.value)):
            names = names | {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


def _in_memory(it: Interpreter, node: ast.Call) -> bool:
    """Whether a call writes to a buffer or to a file that is open, by the name that it has."""
    names, text = [each.id for each in node.args if isinstance(each, ast.Name)], it.source.text
    if "BytesIO(" in text and any(re.search(rf"\b{name} *=[^\n]*BytesIO\(", text) for name in names):
        return True
    return any(f"as {name}:" in text and re.search(rf"\bas {name}:", text) for name in names)
