"""Rule R416: what rank 0 alone makes, and all ranks use before, or where, they have it."""

import ast
from collections.abc import Iterable, Iterator

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import OF_SOME, UNCALLED
from preflight.script.interpreter.branches import FIRST, FIRST_OF_SOME
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.files import JOINED, may_be_of_rank_0, tests_around
from preflight.script.rules.own_measures import get_last_name
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.source import Source
from preflight.script.syntax_trees import walk

_STARTED, _STARTED_BY_ALL, _LOGGED = "a run of rank 0", "a run of all", "logged to a run"
_OWN_RUNS = re.compile(r"wandb\.(?:log|run)\b *=[^=]|WANDB_MODE|wandb\.setup")


@rule("R416", "run", "end")
def used_where_rank_0_has_it(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """All ranks use what rank 0 alone makes: a file that it may not have written yet, its run of wandb.

    The others come to the file while rank 0 writes it, and find none, an old one or a part of it
    ("FileNotFoundError", "PytorchStreamReader failed", "Parent directory does not exist"). A barrier() in
    between lets them wait, as any other exchange of all ranks does. wandb.log() stops on ranks that have not
    called wandb.init(): "You must call wandb.init() before wandb.log()".
    Source: torch's DDP tutorial; wandb/sdk/lib/preinit.py; reproduced on two gloo ranks with torch 2.13.
    """
    if it.target.processes == 1:
        return
    if event.name == "end":
        if it.notes.get(JOINED):
            yield from _find_early_uses(it)
        if it.notes.get(_STARTED) and not it.notes.get(_STARTED_BY_ALL) and not it.sources.mention(_OWN_RUNS):
            for place in dict.fromkeys(it.notes.get(_LOGGED, ())):
                message = "every rank logs to the run that rank 0 alone has started, and the others stop"
                level = Level.ERROR if it.target.processes else Level.WARNING
                fix = "if wandb.run is not None: before it"
                yield RuleHit(place, message, fix, level, tuple(it.notes[_STARTED][:1]))
    elif event.what == "init":
        it.note(_STARTED if not OF_SOME.isdisjoint(it.contexts) else _STARTED_BY_ALL, event.place)
    elif (
        event.call is not None
        and OF_SOME.isdisjoint(it.contexts)
        and UNCALLED not in it.contexts
        and not any(loop.caught for loop in it.loops)
        and not may_be_of_rank_0(it, list(tests_around(it, event.call.node)))
    ):
        it.note(_LOGGED, event.place)


_SYNCS = re.compile(
    r"(?i)barrier|wait|sync|sleep|gather|reduce|broadcast|scatter|first|init|prepare|setup|parallel|ddp|fsdp"
    r"|backward|train|fit$|valid|evaluat|forward|step|epoch|launch|spawn|poll|exists|lock|download"
)
"""Names of what all ranks may meet in, or in which they may wait for a file."""
_SAVES = frozenset(
    {"save", "save_file", "dump", "save_to_disk", "save_pretrained", "savez", "to_csv", "open"}
)
_MAKES = re.compile(r"save|dump|to_csv|mkdir|makedirs|open\(")
_FOLDERS = frozenset({"makedirs", "mkdir"})
_READS = frozenset({"load", "load_file", "load_from_disk", "from_pretrained", "read_csv", "open"})
_PUTS = frozenset({"save", "save_file", "savefig", "to_csv", "FileHandler", "open", "save_image"})


def _find_early_uses(it: Interpreter) -> Iterator[RuleHit]:
    of_some = it.notes.get(FIRST_OF_SOME, ())
    for place in dict.fromkeys(it.notes.get(FIRST, ())):
        source = it.sources.get(place.path) if place not in of_some else None
        if source is None or not _MAKES.search("\n".join(source.lines[place.line - 1 : place.line + 20])):
            continue
        block, number = _find_block(source.tree.body, place.line)
        branch = block[number] if block[number + 1 :] else None
        if isinstance(branch, ast.If) and (made := list(_list_made_paths(branch))):
            asked = (node for node in block[:number] if type(node) in (ast.If, ast.With))
            for hit in _find_uses_behind(it, source, made, block[number + 1 :]):
                if not _may_wait((*asked, *branch.orelse)):
                    yield hit


def _find_block(block: list[ast.stmt], line: int) -> tuple[list[ast.stmt], int]:
    """Return the innermost block in which a statement starts at a line, and its number; no block for none."""
    for number, node in enumerate(block):
        if node.lineno <= line <= (node.end_lineno or 0):
            if node.lineno == line:
                return block, number
            parts = [node, *getattr(node, "handlers", ())]
            inner = [getattr(part, name, []) for part in parts for name in ("body", "orelse", "finalbody")]
            found = (each for each in inner if each and each[0].lineno <= line <= (each[-1].end_lineno or 0))
            return _find_block(next(found, []), line)
    return [], 0


def _may_wait(nodes: Iterable[ast.stmt]) -> bool:
    """Whether statements that not all ranks reach may let some wait for others."""
    calls = (part for node in nodes for part in walk(node) if type(part) is ast.Call)
    return any(_WAITS.search(ast.unparse(call.func)) for call in calls)


_WAITS = re.compile(r"(?i)barrier|wait|sleep|(?<!cuda\.)sync")


def _find_uses_behind(
    it: Interpreter, source: Source, made: list[tuple[str, ast.Call]], behind: list[ast.stmt]
) -> Iterator[RuleHit]:
    paths = [path for path, _ in made]
    for statement in behind:
        text = "\n".join(source.lines[statement.lineno - 1 : statement.end_lineno])
        plain = isinstance(statement, (ast.Assign, ast.Expr, ast.Return))
        if plain and any(path in text.replace('"', "'") for path in paths):
            calls = [part for part in walk(statement) if type(part) is ast.Call]
            uses = ((call, maker) for call in calls for path, maker in made if _uses_path(call, path, maker))
            for call, maker in uses:
                what = "folder" if get_last_name(maker) in _FOLDERS else "file"
                message = f"all ranks come to this {what} while rank 0 alone makes it"
                fix = "torch.distributed.barrier() before it: the others wait for rank 0"
                yield RuleHit(source.place(call), message, fix, Level.WARNING, (source.place(maker),))
                return
        own = it.functions_named(re.findall(r"\w+(?=\()", text)) if not _SYNCS.search(text) else ()
        if _SYNCS.search(text) or any(map(_SYNCS.search, (ast.unparse(node) for node in own))):
            return


def _list_made_paths(branch: ast.If) -> Iterator[tuple[str, ast.Call]]:
    for statement in branch.body:
        for call in (part for part in walk(statement) if type(part) is ast.Call):
            func, name, given = call.func, get_last_name(call), [ast.unparse(each) for each in call.args[:2]]
            if name == "mkdir" and isinstance(func, ast.Attribute) and getattr(func.value, "id", "") != "os":
                yield ast.unparse(func.value), call
            elif name in _FOLDERS or (name in _SAVES and (name != "open" or "w" in "".join(given[1:]))):
                yield from ((path, call) for path in given)


def _uses_path(call: ast.Call, path: str, maker: ast.Call) -> bool:
    """Whether a call reads a file that another call makes, or writes into a folder."""
    given = [ast.unparse(each) for each in call.args]
    mode = given[1] if get_last_name(call) == "open" and len(given) > 1 else "'r'"
    if get_last_name(maker) not in _FOLDERS:
        return get_last_name(call) in _READS and given[:1] == [path] and "r" in mode
    starts = (f"os.path.join({path}, ", f"{path} / ", f"f'{{{path}}}/", f"{path} + '/")
    at = given[1:2] if get_last_name(call) in ("save", "save_file") else given[:1]
    return get_last_name(call) in _PUTS and any(each.startswith(starts) for each in at)
