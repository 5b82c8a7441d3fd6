"""Rules R414 and P147: schedulers that accelerate steps once for each rank, and that start behind step 0."""

import ast
from collections.abc import Iterator, Sequence

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.script.interpreter.branch_conditions import UNCALLED
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.builtin_functions import LENGTH_OF_ALL, LENGTH_OF_PART
from preflight.script.rules.own_measures import get_last_name, list_stores, list_turn_nodes
from preflight.script.rules.own_names import call_at
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.source import list_names
from preflight.script.syntax_trees import unparse, walk
from preflight.script.values import Const
from preflight.script.values.constants import TRUE
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_text, list_values

_BY_RANKS = re.compile(r"(?i)process|world|gpu|rank|replica|device|loader|split_batch|gather|^len$|len\(")
"""Words in what a schedule is made of that count the ranks, or the batches of all of them."""
_COUNTS_ALL = re.compile(
    r"assert [^\n]*num_processes *== *1\b|\+=[^\n]*(?:num_processes|world_size)|DeepSpeedPlugin"
)
"""What allows one rank alone, counts what all ranks have done, or steps in DeepSpeed's engine."""
_FLAT = re.compile(r"(?i)^constant|^lambda \w+: [\d.]+$")
_ENDS_BY = (
    r"[<>]=? *(?:{0})\b|== *(?:{0})\b|\b(?:{0}) *[<>]|range\((?:[^()\n]*, *)?(?:[\w.\[\"']+[.\"'])?(?:{0})\b"
)
_OF_EPOCHS = re.compile(r"\s*for \w*epoch\w* in [^:]*range\(")


@rule("R414", "schedule")
def stepped_once_for_each_rank(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A scheduler from accelerator.prepare() makes a step for each rank, and counts epochs or steps of one.

    Its step() makes as many steps as there are ranks: right where num_training_steps comes from the length
    of a loader before prepare(). One that counts epochs, the steps at which the loop ends, or the length of
    a loader behind prepare(), is through after 1/N of the training on N GPUs. Nothing raises. With
    split_batches=True step() makes one.
    So is one of torch that counts the steps of an optimizer, `len(loader) // accumulate`, and makes its own
    in each batch, of which several make one step of the optimizer.
    Source: accelerate/scheduler.py, AcceleratedScheduler.step; reproduced with accelerate 1.15.
    """
    scheduler = it.thing(event.ref)
    accelerator = it.thing(scheduler.get("accelerator")) if scheduler is not None else None
    alone = it.target.processes == 1 or UNCALLED in it.contexts
    if scheduler is not None and accelerator is None and _counts_updates(it, event):
        message = "this counts the steps of the optimizer, and makes its own in each batch"
        yield RuleHit(event.place, message, "move it to the step of the optimizer", Level.WARNING)
    if (
        scheduler is None
        or accelerator is None
        or alone
        or TRUE in map(accelerator.get, ("open", "steps_once"))
    ):
        return
    kind, given, steps = (as_text(scheduler.get(name)) for name in ("kind", "given", "steps"))
    if kind is None or given is None or any(map(_FLAT.match, (kind, given))):
        return
    if lengths := _list_lengths_of_parts(it, scheduler):
        message = (
            "this scheduler counts the batches of one rank, and a prepared one makes a step for each rank"
        )
        fix = "count them before prepare(), or multiply them by accelerator.num_processes"
        yield RuleHit(scheduler.place, message, fix, Level.WARNING, (*lengths, event.place))
        return
    loop = next((each for each in reversed(it.loops) if not each.number), None)
    source = it.sources.get(loop.place.path) if loop else None
    lines = source.lines[loop.place.line - 1 : loop.place.line + 2] if source and loop else []
    of_epochs = _OF_EPOCHS.match(" ".join(lines)) is not None
    if not of_epochs and not (steps and it.sources.mention(re.compile(_ENDS_BY.format(steps)))):
        return
    if it.sources.mention(_COUNTS_ALL) or _counts_ranks(it, given):
        return
    counts = "epochs" if of_epochs else "the steps of the loop"
    message = f"this scheduler counts {counts}, and step() of a prepared one makes a step for each rank"
    fix = "leave it out of prepare(), or multiply its steps by accelerator.num_processes"
    yield RuleHit(scheduler.place, message, fix, Level.WARNING, (event.place,))


_NAMES_RANKS = re.compile(r"(?i)process|world|gpu|rank|replica|device|split_batch|gather")
_MOST_MAKINGS = 40


def _list_lengths_of_parts(it: Interpreter, scheduler: HeapObject) -> list[CodeLocation]:
    """Return where the lengths are taken that a schedule is made of, if all are of loaders of one rank."""
    parts, source = it.notes.get(LENGTH_OF_PART, []), it.sources.get(scheduler.place.path)
    call = call_at(it, scheduler.place) if parts and source is not None else None
    if call is None or source is None:
        return []
    stores = it.sources.parser.find(_stores_by_last_name, source.tree)
    nodes, seen = [part for given in (*call.args, *call.keywords) for part in walk(given)], set[str]()
    for node in nodes:  # which grows
        name = get_last_name(node) if type(node) in (ast.Name, ast.Attribute) else ""
        if name and name not in seen:
            seen.add(name)
            values = stores.get(name, ())
            nodes += [part for value in values for part in walk(value)] if len(seen) < _MOST_MAKINGS else []
    if any(map(_NAMES_RANKS.search, list_names(nodes))):
        return []
    calls = [node for node in nodes if type(node) is ast.Call and get_last_name(node) == "len"]
    places = [source.place(node) for node in calls]
    of_all = it.notes.get(LENGTH_OF_ALL, [])
    return places if all(place in parts and place not in of_all for place in places) else []


def _stores_by_last_name(nodes: Sequence[ast.AST]) -> dict[str, list[ast.expr]]:
    """Return what is given to each name of a file, those of attributes too, that counts something."""
    found: dict[str, list[ast.expr]] = {}
    for node in nodes:
        if isinstance(node, (ast.Assign, ast.AugAssign)):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                if isinstance(target, (ast.Name, ast.Attribute)) and not _is_loader(node.value):
                    found.setdefault(get_last_name(target), []).append(node.value)
    return found


def _is_loader(value: ast.expr) -> bool:
    """Whether something else than a number is made: `loader = accelerator.prepare(DataLoader(...))`."""
    return isinstance(value, ast.Call) and (
        "repare" in get_last_name(value) or "oader" in get_last_name(value)
    )


def _counts_updates(it: Interpreter, event: ScriptEvent) -> bool:
    """Whether what makes a schedule divides by every how many batches an optimizer in the same loop steps."""
    call = event.call.node if event.call else None
    find = it.sources.parser.nodes
    choices = [node for node in list_turn_nodes(it, call) if type(node) is ast.If] if call else []
    some = [node for node in choices if any(_steps(it, part) for part in find(node))]
    asked = {name for node in some for name in list_names(walk(node.test))}
    around = (part for node in choices if call in find(node) for part in walk(node.test))
    left = any(type(part) is ast.Continue for node in some for part in find(node))
    if call is None or not some or left or not asked.isdisjoint(list_names(around)):
        return False
    rests = [part for node in some for part in _list_makings(it, node.test, ast.Mod)]
    every = {get_last_name(part.right) for part in rests if it.evaluate(part.right) != Const(1)} - {""}
    made = _list_makings(it, getattr(call.func, "value", call), ast.FloorDiv, ast.Div) if every else []
    return any(get_last_name(part.right) in every for part in made)


def _steps(it: Interpreter, node: ast.AST) -> bool:
    func = node.func if type(node) is ast.Call else None
    if not isinstance(func, ast.Attribute) or func.attr != "step":
        return False
    return it.kind(it.evaluate(func.value)) in ("optimizer", "scaler")


def _list_makings(it: Interpreter, expr: ast.expr, *ops: type[ast.operator]) -> list[ast.BinOp]:
    """Return such operations in an expression, and in what its names are given in the file."""
    stores = it.sources.parser.find(list_stores, it.source.tree)
    parts, seen = walk(expr), set[str]()
    for part in parts:  # which grows
        name = unparse(part) if type(part) in (ast.Name, ast.Attribute) else ""
        if name in stores and name not in seen:
            seen.add(name)
            parts += [inner for value, _ in stores[name] for inner in walk(value)]
    return [part for part in parts if type(part) is ast.BinOp and type(part.op) in ops]


def _counts_ranks(it: Interpreter, given: str) -> bool:
    """Whether a schedule is given a number of ranks, through names and functions of the script too."""
    names = {*re.compile(r"\w+").findall(given)}
    values = [
        node.value
        for source in it.sources.files()
        for node in it.sources.parser.list_nodes(source.tree, ast.Assign)
        if any(get_last_name(target) in names for target in node.targets)
    ]
    makers = [part for each in (*values, *it.list_functions(names)) for part in walk(each)]
    return any(map(_BY_RANKS.search, (given, *list_names(makers))))


_RESTORES = re.compile(
    r"opt\w*(?:\[[^\]\n]*\]|\.\w+)*\.load_state_dict\(|accelerator\.load_state\("
    r"|(?:engine|model)\w*\.load_checkpoint\(|set_optimizer_state"
)


@rule("P147", "schedule from")
def scheduler_that_continues_nothing(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A scheduler is made with last_epoch for an optimizer that is new.

    From last_epoch=0 on it takes the rates of before from the optimizer: "param 'initial_lr' is not specified
    in param_groups[0] when resuming an optimizer". The state of one that had a scheduler brings them.
    Source: torch/optim/lr_scheduler.py; reproduced with torch 2.13.
    """
    optimizer, values = it.thing(event.ref), list_values(event.values["last"])
    known = [item.value for item in values if isinstance(item, Const) and type(item.value) is int]
    late = [number for number in known if number >= 0]
    new = optimizer is not None and late and optimizer.get("restored") != TRUE
    if (len(known) == len(values) and not late) or it.sources.mention(_FIRST_RATES):
        return
    if new or not it.sources.mention(_RESTORES):
        message = "the optimizer is new, and has no initial_lr for a scheduler with last_epoch"
        message += f"={late[0]}" if new else ", where that is not -1"
        fix = "leave last_epoch out, and scheduler.load_state_dict(...) from the checkpoint"
        yield RuleHit(
            event.place_of("last_epoch"),
            message,
            fix,
            Level.ERROR if len(late) == len(values) else Level.WARNING,
        )


_FIRST_RATES = re.compile("initial_lr")
