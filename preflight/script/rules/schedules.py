"""Rule R414: a scheduler that accelerate steps once for each rank."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import UNCALLED
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.values import TRUE, Const, text_of
from preflight.script.rules.own_measures import named
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.source import all_names
from preflight.script.syntax_trees import walk

_BY_RANKS = re.compile(r"(?i)process|world|gpu|rank|replica|device|loader|split_batch|gather")
"""Names in what a schedule is made of that count the ranks, or the batches of all of them."""
_COUNTS = frozenset({"range", "trange"})
_FLAT = re.compile(r"(?i)^constant")


@rule("R414", "schedule")
def stepped_once_for_each_rank(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A scheduler from accelerator.prepare() makes a step for each rank, and counts epochs or steps of one.

    Its step() makes as many steps as there are ranks: right where num_training_steps comes from the length
    of a loader before prepare(). One that counts epochs, or the steps at which the loop ends, is through
    after 1/N of the training on N GPUs. Nothing raises. With split_batches=True step() makes one.
    Source: accelerate/scheduler.py, AcceleratedScheduler.step; reproduced with accelerate 1.15.
    """
    scheduler = it.thing(event.ref)
    accelerator = it.thing(scheduler.get("accelerator")) if scheduler is not None else None
    alone = it.target.processes == 1 or UNCALLED in it.contexts
    if scheduler is None or accelerator is None or alone or accelerator.get("steps_for_each") != TRUE:
        return
    kind = text_of(scheduler.get("kind"))
    source = it.sources.get(scheduler.place.path)
    calls = it.sources.parser.of_kinds(source.tree, ast.Call) if source else []
    given = [
        part for call in calls if source and source.place(call) == scheduler.place for part in _parts(call)
    ]
    if kind is None or _FLAT.match(kind) or any(map(_BY_RANKS.search, all_names(_makers(it, given)))):
        return
    if _is_of_an_epoch(it):
        counts = "epochs"
    elif isinstance(scheduler.get("steps"), Const) and _ends_by(it, given):
        counts = "the steps of the loop"
    else:
        return
    message = f"this scheduler counts {counts}, and step() of a prepared one makes a step for each rank"
    fix = "leave it out of prepare(), or multiply its steps by accelerator.num_processes"
    yield RuleHit(scheduler.place, message, fix, Level.WARNING, (event.place,))


def _parts(call: ast.Call) -> list[ast.AST]:
    """Return the arguments of what makes a schedule, without its optimizer, part by part."""
    given = [*call.args, *(word.value for word in call.keywords if word.arg != "optimizer")]
    return [part for each in given if "opt" not in named(each) for part in walk(each)]


def _makers(it: Interpreter, given: list[ast.AST]) -> list[ast.AST]:
    """Return what a schedule is given, what the names in it are, and the functions that it calls."""
    names = {named(part) for part in given} - {""}
    values = [
        node.value
        for source in it.sources.files()
        for node in it.sources.parser.of_kinds(source.tree, ast.Assign)
        if any(named(target) in names for target in node.targets)
    ]
    return [*given, *(part for each in (*values, *it.functions_named(names)) for part in walk(each))]


def _is_of_an_epoch(it: Interpreter) -> bool:
    """Whether the loop around the current point counts epochs: `for epoch in range(epochs):`."""
    loop = next((each for each in reversed(it.loops) if not each.number), None)
    source = it.sources.get(loop.place.path) if loop else None
    turns = it.sources.parser.of_kinds(source.tree, ast.For) if source else []
    around = next((node for node in turns if source and loop and source.place(node) == loop.place), None)
    counted = around is not None and any(named(part) in _COUNTS for part in walk(around.iter))
    return counted and around is not None and "epoch" in named(around.target)


def _ends_by(it: Interpreter, given: list[ast.AST]) -> bool:
    """Whether a loop ends by a number that a schedule is given: `if step >= args.max_steps: break`."""
    numbers = {ast.unparse(part) for part in given if isinstance(part, (ast.Name, ast.Attribute))}
    parser = it.sources.parser
    asked = [
        side
        for source in it.sources.files()
        for node in parser.of_kinds(source.tree, ast.Compare)
        if isinstance(node.ops[0], (ast.GtE, ast.Gt, ast.Lt, ast.LtE, ast.Eq))
        for side in (node.left, *node.comparators)
    ]
    calls = [call for source in it.sources.files() for call in parser.of_kinds(source.tree, ast.Call)]
    asked += [each for call in calls if named(call) in _COUNTS for each in call.args]
    return any(ast.unparse(each) in numbers for each in asked)
