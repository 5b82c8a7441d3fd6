"""Rule R419: names and attributes that rank 0 alone has, and all ranks use."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.script.interpreter.branch_conditions import MAYBE, OF_SOME, RANK_0, UNCALLED, asks_rank
from preflight.script.interpreter.contexts import SUPPRESS
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.files import may_be_of_rank_0, tests_around
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import unparse, walk
from preflight.script.values import Class, ExternalName

_ASKS_NAMES = re.compile(r"\b(?:locals|globals|vars|setattr)\(|__dict__|__getattr(?:ibute)?__")
_PLAIN_BASES = frozenset({"builtins.object", "torch.nn.Module", "abc.ABC"})
"""Classes of libraries of which it is known what attributes they have."""
_STARTED, _STARTED_BY_ALL, _LOGGED = "a run of rank 0", "a run of all", "logged to a run"
_ASKS_RUN = re.compile(r"\brun\b|wandb|track|log_to|logger")
_OWN_RUNS = re.compile(r"wandb\.(?:log|run)\b *=[^=]|wandb\.setup")
_CATCHES = re.compile(r"Exception|NameError|UnboundLocalError|AttributeError")


@rule("R419", "use of rank 0's", "run", "end")
def used_without_being_there(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A name or attribute that only the branch of rank 0 gives a value is used by all ranks.

    So is its run of wandb. The others stop ("cannot access local variable", "name 'writer' is not defined",
    "object has no attribute", "You must call wandb.init() before wandb.log()"), and rank 0 waits for them
    until the time-out of the process group.
    Source: Python's language reference, naming and binding; wandb/sdk/lib/preinit.py.
    """
    if it.target.processes == 1:
        return
    if event.name == "run":
        _note_run(it, event)
        return
    if event.name == "end":
        hits = it.held_back.get("R419", ())
        if hits and not it.sources.mention(_ASKS_NAMES):
            seen = set[str]()
            for name, hit in hits:
                if name not in seen and (not name.startswith("self.") or _is_nowhere_else(it, name)):
                    seen.add(name)
                    yield hit
        yield from _find_logs_without_run(it) if it.notes.get(_STARTED) and it.notes.get(_LOGGED) else ()
        return
    if MAYBE in it.contexts or any(loop.catches("NameError") for loop in it.loops):
        return
    name = event.what
    if all(_says_nothing_of_ranks(test, name) for test in (*it.tests, *_tests_around(it, event.place))):
        if name.startswith("self.") and not _is_own_class(it):
            return
        message = f"only rank 0 has given {name} a value, and all ranks come to this"
        fix = f"use {name} in a branch of rank 0 too, or give it a value on every rank before"
        hit = RuleHit(event.place, message, fix, Level.WARNING)
        it.held_back.setdefault("R419", []).append((name, hit))


def _note_run(it: Interpreter, event: ScriptEvent) -> None:
    """Note who starts a run of wandb, and where all ranks log to one."""
    if event.what == "init":
        it.note(_STARTED if RANK_0 in it.contexts else _STARTED_BY_ALL, event.place)
    elif event.call is not None and {*OF_SOME, SUPPRESS, UNCALLED}.isdisjoint(it.contexts):
        around = list(tests_around(it, event.call.node))
        caught = None in around or any(loop.catches("Error") for loop in it.loops)
        asked = any(_ASKS_RUN.search(unparse(test)) for test in (*it.tests, *around) if test)
        if not (caught or asked or may_be_of_rank_0(it, around)):
            it.note(_LOGGED, event.place)


def _find_logs_without_run(it: Interpreter) -> Iterator[RuleHit]:
    started = it.notes[_STARTED]
    trees = [source.tree for source in it.sources.files()]
    calls = (call for tree in trees for call in it.sources.parser.list_nodes(tree, ast.Call))
    inits = [call for call in calls if unparse(call.func) == "wandb.init"]
    if it.notes.get(_STARTED_BY_ALL) or len(inits) > len(set(started)) or it.sources.mention(_OWN_RUNS):
        return  # where no reading comes to one of them, all ranks may
    for place in dict.fromkeys(it.notes[_LOGGED]):
        message = "every rank logs to the run that rank 0 alone has started, and the others stop"
        yield RuleHit(place, message, "if wandb.run is not None: before it", Level.WARNING, (started[0],))


def _tests_around(it: Interpreter, place: CodeLocation) -> Iterator[ast.expr]:
    """Yield the conditions around a place in the function that is read; a bare name for a `try`."""
    for node in it.list_nodes(ast.If):
        if node.body[0].lineno <= place.line <= (node.end_lineno or 0):
            yield node.test
    for loop in it.list_nodes(ast.While):
        if loop.body[0].lineno <= place.line <= (loop.end_lineno or 0):
            yield loop.test
    for choice in it.list_nodes(ast.IfExp):
        if choice.lineno <= place.line <= (choice.end_lineno or 0):
            yield choice.test
    for tried in it.list_nodes(ast.Try):
        caught = (unparse(each.type) if each.type else "Exception" for each in tried.handlers)
        if tried.lineno <= place.line <= tried.body[-1].lineno and any(map(_CATCHES.search, caught)):
            yield ast.Name(id="caught", ctx=ast.Load())


def _says_nothing_of_ranks(test: ast.expr, name: str) -> bool:
    """Whether a condition counts, as `step % 100 == 0` does, and so holds on all ranks alike."""
    if asks_rank(test):  # `rank == 0 and files`
        return False
    parts = walk(test)
    counts = (isinstance(part, (ast.Compare, ast.BinOp)) for part in parts)
    return any(counts) and name not in (
        unparse(part) for part in parts if isinstance(part, (ast.Name, ast.Attribute))
    )


def _is_own_class(it: Interpreter) -> bool:
    """Whether the object of the method that is read is of a class whose attributes are all known."""
    thing = it.thing(it.lookup("self"))
    cls = thing.get("__class__") if thing is not None else None
    infos = list(it.mro(cls.key)) if isinstance(cls, Class) else []
    bases = (base for info in infos for base in info.bases if not isinstance(base, Class))
    return bool(infos) and all(isinstance(base, ExternalName) and base.name in _PLAIN_BASES for base in bases)


def _is_nowhere_else(it: Interpreter, name: str) -> bool:
    """Whether no other file, class body or text has the name of an attribute."""
    word = name.removeprefix("self.")
    stores, names = 0, 0
    for source in it.sources.files():
        parser, tree = it.sources.parser, source.tree
        held = (node for node in parser.list_nodes(tree, ast.Attribute) if node.attr == word)
        stores += any(not isinstance(node.ctx, ast.Load) for node in held)
        plain = (node.id for node in parser.list_nodes(tree, ast.Name) if not isinstance(node.ctx, ast.Load))
        texts = (node.value for node in parser.list_nodes(tree, ast.Constant))
        defined = (node.name for node in parser.list_nodes(tree, ast.FunctionDef))
        names += any(word == each for part in (plain, texts, defined) for each in part)
    return stores == 1 and not names
