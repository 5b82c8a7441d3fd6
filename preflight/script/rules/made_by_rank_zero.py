"""Rule R416: what rank 0 alone makes, and all ranks use before, or where, they have it."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import OF_SOME, RANK_0, UNCALLED
from preflight.script.interpreter.branches import FIRST, FIRST_OF_SOME
from preflight.script.interpreter.contexts import SUPPRESS
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.files import JOINED, catches_files, may_be_of_rank_0, tests_around
from preflight.script.rules.own_measures import get_last_name
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import walk

_STARTED, _STARTED_BY_ALL, _LOGGED = "a run of rank 0", "a run of all", "logged to a run"
_ASKS_RUN = re.compile(r"\brun\b")
_OWN_RUNS = re.compile(r"wandb\.(?:log|run)\b *=[^=]|wandb\.setup")


@rule("R416", "run", "end")
def used_where_rank_0_has_it(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """All ranks use what rank 0 alone makes: a file that it may not have written yet, its run of wandb.

    The others come to the file while rank 0 writes it, and find none, an old one or a part of it
    ("FileNotFoundError", "PytorchStreamReader failed", "Parent directory does not exist"). A barrier() in
    between lets them wait, as any other exchange of all ranks does. wandb.log() stops on ranks that have not
    called wandb.init(): "You must call wandb.init() before wandb.log()".
    Source: torch's DDP tutorial, reproduced on two gloo ranks with torch 2.13; wandb/sdk/lib/preinit.py.
    """
    if it.target.processes == 1:
        return
    if event.name == "end":
        yield from _find_early_uses(it) if it.notes.get(JOINED) else ()
        yield from _find_logs_without_run(it) if it.notes.get(_STARTED) and it.notes.get(_LOGGED) else ()
    elif event.what == "init":
        it.note(_STARTED if RANK_0 in it.contexts else _STARTED_BY_ALL, event.place)
    elif event.call is not None and {*OF_SOME, SUPPRESS, UNCALLED}.isdisjoint(it.contexts):
        around = list(tests_around(it, event.call.node))
        caught = None in around or any(loop.catches("Error") for loop in it.loops)
        asked = any(_ASKS_RUN.search(ast.unparse(test)) for test in (*it.tests, *around) if test)
        if not (caught or asked or may_be_of_rank_0(it, around)):
            it.note(_LOGGED, event.place)


def _find_logs_without_run(it: Interpreter) -> Iterator[RuleHit]:
    started = it.notes[_STARTED]
    trees = [source.tree for source in it.sources.files()]
    calls = (call for tree in trees for call in it.sources.parser.list_nodes(tree, ast.Call))
    inits = [call for call in calls if ast.unparse(call.func) == "wandb.init"]
    if it.notes.get(_STARTED_BY_ALL) or len(inits) > len(set(started)) or it.sources.mention(_OWN_RUNS):
        return  # where no reading comes to one of them, all ranks may
    for place in dict.fromkeys(it.notes[_LOGGED]):
        message = "every rank logs to the run that rank 0 alone has started, and the others stop"
        level = Level.ERROR if it.target.processes else Level.WARNING
        yield RuleHit(place, message, "if wandb.run is not None: before it", level, (started[0],))


_FOLDERS = frozenset({"makedirs", "mkdir"})
_MAKES = re.compile(r"(?:^|[._])savez?$|save_(?:file|to_disk|pretrained)$|to_csv$|joblib\.dump$|^open$")
_READS = re.compile(
    r"(?:torch|np|numpy|joblib)\.load$|load_(?:file|from_disk)$|from_pretrained$|read_csv$|^open$"
)
_PUTS = re.compile(r"(?:torch|np|numpy)\.save$|save_(?:file|image)$|savefig$|to_csv$|FileHandler$|^open$")
_QUIET = re.compile(
    r"^(?:print|len|str|int|float|bool|dict|list|tuple|sorted|range|zip|enumerate|getattr|hasattr|min|max|sum"
    r"|Path|format|vars|open|setattr)$|^(?:os\.(?:path|environ|getenv)|time\.(?!sleep)|math|json|np|numpy|random"
    r"|logging|(?:torch\.)?nn\.(?:Linear|functional|Parameter))\b"
    r"|^torch\.(?:device|load|save|tensor|zeros|ones|no_grad|inference_mode|cuda|manual_seed)\b"
    r"|(?:^|\.)(?:get_(?:rank|world_size)|is_initialized|info|warning|debug|error|append|update|join|format|items"
    r"|keys|values|to|cuda|cpu|eval|half|float|numpy|detach|item|split|strip|replace|write|close|load_state_dict)$"
)
"""Calls in which no rank waits for another. Any other call may be, or hold, an exchange of all ranks."""
_WAITS = re.compile(r"(?i)barrier|wait|sync|sleep")
_LEAVES = (ast.Return, ast.Raise, ast.While, ast.Break, ast.Continue)


def _find_early_uses(it: Interpreter) -> Iterator[RuleHit]:
    for place in {*it.notes.get(FIRST, ())}.difference(it.notes.get(FIRST_OF_SOME, ())):
        source = it.sources.get(place.path)
        before, block = _find_block(source.tree.body, place.line) if source else ([], [])
        if source is None or not block[1:] or not isinstance(branch := block[0], ast.If):
            continue
        made = {path: call for call in _list_calls(*branch.body) for path in _list_made_paths(call)}
        calls = it.sources.parser.list_nodes(source.tree, ast.Call) if made else ()
        others = (call for call in calls if get_last_name(call) in _FOLDERS and call not in made.values())
        by_all = {path for call in others for path in _list_made_paths(call)}
        made = {path: made[path] for path in made.keys() - by_all if _passes(path, *branch.orelse)}
        for statement in block[1:] if made and not any(map(_may_wait, before)) else ():
            plain = isinstance(statement, (ast.Assign, ast.Expr, ast.Return))
            calls = _list_calls(statement) if plain else ()
            used = {path: call for path in made for call in calls if _uses_path(call, path, made[path])}
            for path, call in used.items():
                what = "folder" if get_last_name(made[path]) in _FOLDERS else "file"
                message = f"all ranks come to this {what} while rank 0 alone makes it"
                fix = "torch.distributed.barrier() before it: the others wait for rank 0"
                yield RuleHit(source.place(call), message, fix, Level.WARNING, (source.place(made[path]),))
            made = {path: made[path] for path in made.keys() - used if _passes(path, statement)}


def _find_block(block: list[ast.stmt], line: int) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """Return what is before the statement at a line, and from it on; nothing where some wait around it."""
    for number, node in enumerate(block):
        if node.lineno <= line <= (node.end_lineno or 0):
            if node.lineno == line:
                return block[:number], block[number:]
            if isinstance(node, ast.With) and not all(_is_quiet(item.context_expr) for item in node.items):
                break
            if isinstance(node, ast.Try) and any(map(catches_files, node.handlers)):
                break
            inner = [getattr(node, name, []) for name in ("body", "orelse", "finalbody")]
            found = (each for each in inner if each and each[0].lineno <= line <= (each[-1].end_lineno or 0))
            return _find_block(next(found, []), line)
    return [], []


def _may_wait(node: ast.stmt) -> bool:
    """Whether a condition or context, through which not all ranks may go, has some wait for others."""
    return isinstance(node, (ast.If, ast.With)) and _WAITS.search(ast.unparse(node)) is not None


def _list_calls(*nodes: ast.AST) -> list[ast.Call]:
    """Return the calls that statements surely make, none of `a if b else c`."""
    pending = list(nodes)
    for node in pending:  # which grows
        pending += () if isinstance(node, (ast.IfExp, ast.BoolOp, ast.Lambda)) else ast.iter_child_nodes(node)
    return [node for node in pending if isinstance(node, ast.Call)]


def _passes(path: str, *nodes: ast.AST) -> bool:
    """Whether all ranks go through statements without waiting, and what they do leaves a path as it is."""
    parts = [part for node in nodes for part in walk(node)]
    stores = (part for part in parts if isinstance(getattr(part, "ctx", None), ast.Store))
    quiet = (_is_quiet(part) for part in parts if isinstance(part, ast.Call))
    leaves = any(isinstance(part, _LEAVES) for part in parts)
    return not leaves and all(quiet) and not any(ast.unparse(part) in path for part in stores)


def _is_quiet(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and _QUIET.search(ast.unparse(node.func)) is not None


def _list_made_paths(call: ast.Call) -> list[str]:
    """Return how a call writes the file or folder that it makes: either of its arguments, or its owner."""
    func, given = ast.unparse(call.func), [ast.unparse(each) for each in call.args[:2]]
    owner, _, name = func.rpartition(".")
    if name in _FOLDERS:
        return given[:1] if owner in ("", "os") else [owner]
    return given if _MAKES.search(func) and (func != "open" or "w" in "".join(given[1:])) else []


def _uses_path(call: ast.Call, path: str, maker: ast.Call) -> bool:
    """Whether a call reads a file that another call makes, or writes into a folder."""
    func, given = ast.unparse(call.func), [ast.unparse(each) for each in call.args[:2]]
    reads = func != "open" or "r" in "".join(given[1:] or ["r"])
    if get_last_name(maker) not in _FOLDERS:
        return given[:1] == [path] and reads and _READS.search(func) is not None
    starts = (f"os.path.join({path}, ", f"{path} / ", f"f'{{{path}}}/", f"{path} + '/")
    puts = _PUTS.search(func) is not None and (func != "open" or not reads)
    return puts and any(each.startswith(starts) for each in given)
