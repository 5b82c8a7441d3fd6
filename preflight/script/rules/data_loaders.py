"""Rules R401 and R403: what each rank gets of the data."""

import ast
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.frozen import dataclass
from preflight.script.interpreter.branch_conditions import OF_SOME
from preflight.script.interpreter.classes import find_method
from preflight.script.interpreter.events import Draw, ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.rank_values import PARTED, SEEDED
from preflight.script.libraries.data_loaders import OF_PARTS, ONE_EPOCH, is_divided
from preflight.script.rules.archives import find_archives_of_all
from preflight.script.rules.certainty import apply_doubts
from preflight.script.rules.method_calls import has_unknown_call, list_owners, note_call
from preflight.script.rules.own_names import call_at, describe_division, find_call_words, get_assigned_name
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.source import list_names
from preflight.script.syntax_trees import unparse, walk
from preflight.script.values import Class, Const, ExternalName, Ref, Value
from preflight.script.values.constants import FALSE, NONE, TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_bool, as_text, is_by_rank, list_values, place_of

_STEPS = ("backward", "scaled", "step", "scaler step")
_DIVIDES = re.compile(
    r"split_(?:dataset_)?by_node|node_?split|^(?:resampled|webdataset|ffcv|dali|ResumableDataLoader)$"
    r"|(?<!fully_)shard(?!ed)",
    re.IGNORECASE | re.MULTILINE,
)
"""Names in code, a line each, of functions and libraries that give ranks unlike data without a sampler."""
_OF_STORES = re.compile(r"file|path|data|line|sample|example|record|document|shard|url", re.IGNORECASE)
_BY_CHANCE = re.compile(
    r"rand|shuffle|choice|perm|seed|sampl(?!es)|queue|stream|sock|stdin|http|recv|env|kafka|_rng|^rng",
    re.IGNORECASE,
)
_FILLS = re.compile(r"^(?:push|append|extend|store|remember)$|_(?:rollout|experience|transition|episode)s?$")
_MAX_DEPTH = 3  # datasets in one another that are looked into
_OF_STEPS = re.compile(r"(?:num_samples=|WeightedRandomSampler\([^,]+,)[^,]*(?:batch|step|iter)")
"""Of a sampler that draws what some steps need by chance, and does not go through the data."""
_LIGHTNING_FIX = "remove use_distributed_sampler=False, or give each DataLoader a DistributedSampler"


@rule("R401", *_STEPS, "own data", "sampler", "end")
def all_data_on_every_rank(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A model is trained by several ranks, and its DataLoader gives each of them all of the data.

    An epoch is then as many epochs as there are ranks, and with one seed all ranks train on the same batches:
    N GPUs do the work of one. So they do with DistributedSampler(rank=0), and with an IterableDataset that
    reads all of its files, or divides them among the workers of its loader alone. One that divides them among
    ranks alone gives each worker of a rank all of its part. DistributedSampler, accelerator.prepare(loader)
    or a dataset that is split by rank gives each rank its own part.
    Source: torch.utils.data's documentation of DistributedSampler; the DDP tutorial of pytorch.org.
    """
    if it.target.processes == 1:
        return
    if event.name == "end":
        yield from find_archives_of_all(it)
        return
    if event.name == "sampler":
        yield from _one_part(it, event)
        return
    if event.name == "own data" and (loader := it.thing(event.ref)) is not None:
        if not is_divided(it, loader) and not _is_divided_elsewhere(it, loader, again=True):
            yield replace(_undivided(it, loader), fix=_LIGHTNING_FIX)
        return
    if not it.state.wrapped or "no_grad" in it.contexts:
        return
    if event.name in ("backward", "scaled") and is_measuring_loop(it):
        return
    for drawn in it.drawn:
        loaders = [thing for number in drawn.loaders if (thing := it.thing(number)) is not None]
        if any(is_divided(it, loader) or loader.get("validates") == TRUE for loader in loaders):
            continue
        for loader in loaders:
            again = _goes_over_again(drawn) and not drawn.by_steps
            if not _is_divided_elsewhere(it, loader, again=again):
                yield _undivided(it, loader)
            elif (count := _repeated_by_workers(it, loader)) > 1:
                message = (
                    f"each of the {count} workers goes through all of it: every sample comes {count} times"
                )
                fix = "get_worker_info() in __iter__: number the workers of all ranks, and take each its part"
                yield RuleHit(loader.place, message, fix, Level.WARNING)


def _one_part(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Yield a DistributedSampler that the script gives one rank's number; of an option a launch decides."""
    rank, replicas = event.values["rank"], event.values["replicas"]
    literal = isinstance(rank, Const) and type(rank.value) is int and place_of(rank) not in it.options.places
    several = replicas != Const(1) and place_of(replicas) not in it.options.places
    if literal and several and event.call and it.state.grouped and OF_SOME.isdisjoint(it.contexts):
        message = "every rank takes this one part of the data, and none the others"
        yield RuleHit(event.call.get_place("rank"), message, "leave rank= out", Level.WARNING)


_MAKES_STEPS = re.compile(r"step|optim|updat|engine|hook|callback|after_|apply", re.IGNORECASE)


def is_measuring_loop(it: Interpreter) -> bool:
    """Whether a loop is read whose function by its names steps nothing: a Fisher mask, a probe."""
    inside = [loop for loop in it.loops if not loop.caught][-1:]
    turns = it.function is not None and bool(inside) and not inside[0].number
    return turns and not it.sources.parser.find(_makes_steps, it.scope)


def _makes_steps(nodes: list[ast.AST]) -> bool:
    return _MAKES_STEPS.search("\n".join(list_names(nodes))) is not None


def _undivided(it: Interpreter, loader: HeapObject) -> RuleHit:
    """Return the finding: what a rank divides itself is seldom shuffled, or drawn from by a sampler."""
    message = "every rank goes through all of this data: no sampler gives each its part"
    level = Level.WARNING
    samplers = [thing for item in list_values(loader.get("sampler")) if (thing := it.thing(item)) is not None]
    drawn = any((as_text(thing.get("__name__")) or "").endswith("RandomSampler") for thing in samplers)
    shuffles = drawn or as_bool(loader.get("shuffle")) is True
    datasets = filter(None, map(it.thing, list_values(loader.get("dataset"))))
    given = [value for thing in datasets for name, value in thing.attrs.items() if not name.startswith("__")]
    plain = bool(given) and all(isinstance(item, Const) for value in given for item in list_values(value))
    if drawn and any(_OF_STEPS.search(find_call_words(it, thing.place)) for thing in samplers):
        level, message = Level.INFO, f"{message}, unless each draws its own by chance"
    elif not shuffles and not plain and it.sources.has_unread():
        level, message = Level.INFO, f"{message}, unless a module that could not be read does it"
    iterable = any(is_iterable(it, item) for item in list_values(loader.get("dataset")))
    return RuleHit(loader.place, message, describe_division(it, loader, iterable=iterable), level)


def _is_divided_elsewhere(it: Interpreter, loader: HeapObject, *, again: bool) -> bool:
    """Whether the dataset may be the rank's own part already, or the order of its batches the rank's own."""
    datasets = list_values(loader.get("dataset"))
    iterable = [is_iterable(it, dataset) for dataset in datasets]
    if None in iterable or (True in iterable and not all(map(partial(_goes_through_all, it), datasets))):
        return True
    if it.notes.get(PARTED) or (not again and it.notes.get(SEEDED)):
        return True
    if any(_holds_rank(it, dataset, _MAX_DEPTH) for dataset in datasets):
        return True
    if all(_class_of(it, dataset) for dataset in datasets):
        nodes = [node for dataset in datasets for node in _code_of(it, dataset)]
        taken = [getattr(node, "iter", node) for node in nodes if type(node) in (ast.For, ast.Assign)]
        helpers = it.list_functions(list_names(part for each in taken for part in walk(each)))
        nodes += [node for each in helpers for node in walk(each)]
        if any(_FILLS.search(getattr(node, "name", None) or "") for node in nodes):
            return True  # with what the rank itself has seen
        parts = (name for name in list_names(nodes) if "worker" not in name.lower())
        return any(map(OF_PARTS.search, parts))
    parser = it.sources.parser
    return any(parser.find(_names_division, source.tree) for source in it.sources.files())


def _goes_through_all(it: Interpreter, dataset: Value, *, itself: bool = False) -> bool:
    """Whether a dataset reads files or lists from start to end, and draws nothing by chance.

    `itself`: what it is given may be one worker's, but not the files that it opens or divides.
    """
    nodes = _code_of(it, dataset)
    if itself:
        read = any(isinstance(node, ast.Slice) and node.step is not None for node in nodes)
    else:
        loops = [node for node in nodes if isinstance(node, ast.For)]
        read = any(_OF_STORES.search(name) for node in loops for name in list_names(walk(node.iter)))
    opens = any(isinstance(node, ast.With) and "open(" in unparse(node.items[0]) for node in nodes)
    return (read or opens) and not any(map(_BY_CHANCE.search, list_names(nodes)))


def _code_of(it: Interpreter, dataset: Value) -> list[ast.AST]:
    """Return the code of the class that made a dataset, with its bases, none of a library's."""
    cls = _class_of(it, dataset)
    return [node for info in it.mro(cls.key) for node in walk(info.node)] if cls is not None else []


def _repeated_by_workers(it: Interpreter, loader: HeapObject) -> int:
    """Return how many workers go through all files or lines that an IterableDataset of the script gives."""
    count = loader.get("num_workers")
    number = count.value if isinstance(count, Const) and type(count.value) is int else 0
    for item in list_values(loader.get("dataset")) if number > 1 else ():
        own = find_method(it, item, "__iter__") is not None and _goes_through_all(it, item, itself=True)
        if not own or not is_iterable(it, item):
            return 0
    return 0 if number < 2 or it.sources.mention(_OF_WORKERS) else number


_OF_WORKERS = re.compile(r"worker_info\(|worker_init_fn|worker_id")


def _names_division(nodes: list[ast.AST]) -> bool:
    used = list_names(node for node in nodes if not isinstance(node, ast.alias))
    imported = (name for name in list_names(nodes) if not name.startswith("split_"))
    return _DIVIDES.search("\n".join((*used, *imported))) is not None


def _holds_rank(it: Interpreter, value: Value, depth: int) -> bool:
    """Whether a value is made with the rank, or holds something that is."""
    if is_by_rank(value):
        return True
    thing = it.thing(value) if isinstance(value, Ref) and depth else None
    return thing is not None and any(_holds_rank(it, item, depth - 1) for item in thing.attrs.values())


def _class_of(it: Interpreter, dataset: Value) -> Class | None:
    """Return the class of the script that made a dataset, None of any other."""
    cls = it.attr(dataset, "__class__") if isinstance(dataset, Ref) else NONE
    return cls if isinstance(cls, Class) else None


def is_iterable(it: Interpreter, dataset: Value) -> bool | None:
    """Whether a dataset is an IterableDataset, None where its class has a base that is not known."""
    cls = _class_of(it, dataset)
    if cls is None:
        return False
    bases = [base for info in it.mro(cls.key) for base in info.bases]
    names = [base.name for base in bases if isinstance(base, ExternalName)]
    if any(name.endswith("IterableDataset") for name in names):
        return True
    return None if UNKNOWN in bases else False


@dataclass(frozen=True, slots=True)
class _EpochSet:
    """Note of calls of set_epoch of the sampler that is made at a place, and what is said of them."""

    sampler: CodeLocation | None
    what: str


@rule("R403", *_STEPS, "epoch set", "end")
def same_order_in_every_epoch(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A DistributedSampler shuffles, and set_epoch is never called in the loop over epochs.

    The order depends on the seed and the epoch alone, so without set_epoch(epoch) every epoch has the same
    batches in the same order. accelerate, Lightning and the Trainer call it themselves.
    Source: torch.utils.data.distributed's documentation.
    """
    if event.name == "epoch set":
        sampler = it.thing(event.ref)
        owner = sampler.place if sampler is not None else None
        if sampler is not None and (event.what or sampler.get("reshuffles") == FALSE):
            owner = event.place  # what is made at one place may shuffle for training alone
            it.note(_EpochSet(sampler.place, event.what), event.place)
        note_call(it, "set_epoch", owner, event.place)
    elif event.name == "end":
        yield from _shuffled_alike(it)
    elif "no_grad" not in it.contexts:
        for sampler in (thing for drawn in it.drawn for thing in _reshuffled(it, drawn)):
            doubt = apply_doubts(it, RuleHit(sampler.place, "", "", Level.WARNING), "R403", event.place)
            note_call(it, f"{_ALIKE} {doubt.level.value}", sampler.place, event.place)


def _shuffled_alike(it: Interpreter) -> Iterator[RuleHit]:
    for level in (Level.WARNING, Level.INFO):
        samplers = list_owners(it, f"{_ALIKE} {level.value}") - list_owners(it, "set_epoch")
        if samplers and not has_unknown_call(it, "set_epoch", *_OF_SAMPLERS):
            for place in sorted(samplers, key=str):
                numbers = it.notes.get(_EpochSet(place, ONE_EPOCH), [])
                why = "set_epoch gets one number for all epochs" if numbers else "set_epoch is never called"
                message = f"{why}: this sampler shuffles every epoch alike"
                name = get_assigned_name(it, place) or "sampler"
                fix = f"{name}.set_epoch(epoch) at the start of each epoch"
                yield RuleHit(place, message, fix, level, tuple(numbers[:1]))


_ALIKE = "shuffles alike"
_OF_SAMPLERS = (
    r"(?<!def )\bset_epoch\b|sampler\.epoch \+?=(?!=)",
    (
        r"^(?!.*train)(?:.*[._])?(?:val|valid|validation|dev|test|eval)(?:[._\d]|set|data|loader|sampler)"
        r"|(?:crit|loss|model|optim|sched|data_?set)(?!\w*(?:sampler|loader))\w*\.$"
    ),
)
"""How an epoch is set, and what has one without being the sampler of a training."""


def _goes_over_again(drawn: Draw) -> bool:
    return drawn.depth > 0 and not drawn.by_next


def _samplers(it: Interpreter, loader: HeapObject) -> Iterator[Value]:
    """Yield what draws the items of a loader, of which a BatchSampler makes batches too."""
    yield from list_values(loader.get("sampler"))
    for item in list_values(loader.get("batch_sampler")):
        yield from (item, *(list_values(it.attr(item, "sampler")) if isinstance(item, Ref) else ()))


def _reshuffled(it: Interpreter, drawn: Draw) -> Iterator[HeapObject]:
    """Yield the samplers that shuffle by epoch, of loaders that a loop starts again and again."""
    for loader in filter(None, map(it.thing, drawn.loaders)):
        again = _goes_over_again(drawn) or TRUE in list_values(loader.get("restarts"))
        owned = loader.get("touched") == TRUE or loader.get("accelerator") != NONE
        for item in _samplers(it, loader) if again and not owned else ():
            sampler = it.thing(item) if isinstance(item, Ref) else None
            told = sampler.get("reshuffles", _counts_epochs(it, item, sampler)) if sampler else NONE
            if sampler and as_bool(told) is True and not _is_of_new_data(it, item, sampler.place):
                yield sampler


def _is_of_new_data(it: Interpreter, sampler: Value, place: CodeLocation) -> bool:
    """Whether a sampler is made anew for each epoch, of data that are, too: they may be shuffled before."""
    number = sampler.id if isinstance(sampler, Ref) else 0
    if sum(loop.newest >= number for loop in it.loops if not loop.number) > 1:
        return False  # an epoch's loop, beside that over its batches, began when there was this sampler
    made, source = call_at(it, place), it.sources.get(place.path)
    data = getattr(made.args[0], "id", "") if made is not None and made.args else ""
    if not data or source is None:
        return False
    loops = it.sources.parser.list_nodes(source.tree, ast.For)
    around = [node for node in loops if node.lineno < place.line <= (node.end_lineno or 0)]
    stores = it.sources.parser.list_nodes(source.tree, ast.Assign) if around else ()
    return any(
        node.lineno < store.lineno < place.line and isinstance(store.value, ast.Call)
        for store in stores
        if any(getattr(target, "id", "") == data for target in store.targets)
        for node in around
    )


def _counts_epochs(it: Interpreter, item: Value, sampler: HeapObject) -> Const:
    """Return whether a sampler of the script's own shuffles by an epoch that its set_epoch() alone changes.

    Not where another's is called: of a sampler within it.
    """
    cls, (draws, takes) = _class_of(it, item), (find_method(it, item, name) for name in _OF_EPOCHS[:2])
    if cls is None or draws is None or takes is None or list_owners(it, "set_epoch"):
        return FALSE
    methods = (part for info in it.mro(cls.key) for part in info.node.body)
    others = (each for each in methods if getattr(each, "name", "") not in _OF_EPOCHS[1:])
    attributes = (part for each in others for part in walk(each) if isinstance(part, ast.Attribute))
    counts = any(part.attr == "epoch" and isinstance(part.ctx, ast.Store) for part in attributes)
    told = not isinstance(sampler.get("epoch", FALSE), Const)  # by an assignment in the loop
    names = list_names(walk(it.functions[draws.key].node))
    shuffles = all(as_bool(sampler.get(name, TRUE)) is True for name in names if "shuffle" in name)
    return Const("epoch" in names and shuffles and not (counts or told))


_OF_EPOCHS = ("__iter__", "set_epoch", "__init__", "load_state_dict")
"""What draws by the epoch of a sampler, and what may set it without counting on."""
