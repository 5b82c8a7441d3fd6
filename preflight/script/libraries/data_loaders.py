"""torch.utils.data: loaders and samplers, and which loader a loop trains on."""

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import UNCALLED, UNREACHED
from preflight.script.interpreter.events import Call, Draw
from preflight.script.interpreter.interpreter import CallModel, ConstructorModel, Interpreter, MethodModel
from preflight.script.source import list_names
from preflight.script.syntax_trees import ByKind, unparse, walk
from preflight.script.values import Class, Const, Element, ExternalName, OneOf, Ref, Value
from preflight.script.values.constants import FALSE, NONE, TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_bool, get_id, is_by_rank, list_values

_OF_ALL_RANKS = frozenset({"SequentialSampler", "RandomSampler", "WeightedRandomSampler"})
"""Samplers of torch that know nothing of ranks."""
_BASES = {ExternalName(f"torch.utils.data.{name}") for name in ("Sampler", "sampler.Sampler", "BatchSampler")}
OF_PARTS = re.compile(
    r"^(?!\w*(?:print|warn|(?:^|_)log(?:_|ger|$)|rank_?(?:zero|0)_))"
    r".*(?:rank|world|shard|process_index|num_replicas|worker_info|node)",
    re.IGNORECASE,
)
"""Names in a dataset or sampler of the script's own that holds a part of the data only: no rank_zero_info."""
_VALIDATES = re.compile(
    r"(?:^|_)(?:val|valid|validation|dev|test|eval|evaluation|infer|inference|pred|predict|query|gallery"
    r"|calib|calibration|demo|probe|sanity|fid|metric|metrics)(?:_|\d|$)|(?:val|valid|eval|test)(?:_?set|_?data)",
    re.IGNORECASE,
)


def _loader(it: Interpreter, ref: Ref, _name: str, call: Call) -> None:
    names = ("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers")
    values: dict[str, Value] = {}
    for position, keyword in enumerate(names):
        given = call.get(keyword, position)
        values[keyword] = given if given is not None else (UNKNOWN if call.open else NONE)
    values["validates"] = Const(is_of_validation(call.node))
    it.change(ref.id, **values)
    it.emit(call.event("loader", ref.id))


def is_of_validation(node: ast.AST) -> bool:
    """Whether a call makes a loader or a sampler of validation data, by the names in it."""
    names = (getattr(each, "id", getattr(each, "attr", "")) for each in walk(node))
    return any(_VALIDATES.search(name) for name in names if isinstance(name, str))


def _sampler(it: Interpreter, ref: Ref, name: str, call: Call) -> None:
    last = name.rsplit(".", 1)[-1]
    if last != "DistributedSampler":
        inner = call.get("sampler", 0) if last == "BatchSampler" else None
        alike = last in _OF_ALL_RANKS or (inner is not None and not _gives_parts(it, inner))
        it.change(ref.id, divides=Const(not alike), sampler=inner or NONE)
        return
    rank = call.get("rank", 2) or (UNKNOWN if call.open else NONE)
    shuffle = call.get("shuffle", 3) or (UNKNOWN if call.open else TRUE)
    reshuffles = FALSE if is_of_validation(call.node) else shuffle  # the order of no training
    replicas = call.get("num_replicas", 1) or NONE
    it.change(ref.id, divides=TRUE, reshuffles=reshuffles, rank=rank, replicas=replicas)
    it.emit(call.event("sampler", ref.id, rank=rank, replicas=replicas))
    if is_by_rank(call.get("seed", 4) or NONE):
        it.emit(replace(call, place=call.get_place("seed")).event("random split", ref.id, "seeded by rank"))


ONE_EPOCH = "one epoch"  # what is said of a call of set_epoch with a constant, or before the loop over epochs


def _set_epoch(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    given = [*call.node.args, *(word.value for word in call.node.keywords), None][0]
    fixed = isinstance(given, ast.Constant) or (
        isinstance(given, (ast.Name, ast.Attribute)) and _is_fixed(it, given)
    )
    before = not it.loop_depth and not any(name.startswith((UNCALLED, UNREACHED)) for name in it.contexts)
    what = ONE_EPOCH if fixed or before else ""
    it.emit(call.event("epoch set", get_id(owner), what))
    return NONE


def _is_fixed(it: Interpreter, name: ast.Name | ast.Attribute) -> bool:
    """Whether a name that its function or file sets, or an option, is the same in all turns of its loops.

    None of an option that any file may set, or that code has had which is not read.
    """
    owner = it.thing(it.evaluate(name.value)) if isinstance(name, ast.Attribute) else None
    if isinstance(name, ast.Attribute) and (owner is None or owner.kind != "namespace"):
        return False
    word = name.attr if isinstance(name, ast.Attribute) else name.id
    parser = it.sources.parser
    loops = [parser.nodes(node) for node in it.list_nodes(ast.For, ast.While)]
    loops = [parts for parts in loops if any(part is name for part in parts)]
    if not loops or len(loops) != it.loop_depth:
        return False  # a loop calls the function again, where it may give the name another value
    if owner is not None:
        trees = [source.tree for source in it.sources.files()]
        is_set = any(word in parser.find_by_kind(_stored, tree) for tree in trees)
        is_set = is_set or it.sources.mention(_SETS)
        return owner.get("touched") != TRUE and not is_set
    stored = parser.find_by_kind(_stored, it.scope).get(word, [])
    shared = (isinstance(part, (ast.Global, ast.Nonlocal)) for part in stored)
    outermost: list[ast.AST] = max(loops, key=len)
    return bool(stored) and not any(shared) and set(stored).isdisjoint(outermost)


_SETS = re.compile(r"setattr\(|(?:vars\([\w.]*\)|__dict__)(?:\[|\.update)")  # any attribute


def _stored(kinds: ByKind) -> Mapping[str, list[ast.AST]]:
    """Return where code gives names and attributes a value, or declares them as those of others."""
    found: defaultdict[str, list[ast.AST]] = defaultdict(list)
    for node in (*kinds.get(ast.Name, ()), *kinds.get(ast.Attribute, ())):
        if isinstance(node.ctx, ast.Store):
            found[getattr(node, "id", getattr(node, "attr", ""))].append(node)
    for node in (*kinds.get(ast.Global, ()), *kinds.get(ast.Nonlocal, ())):
        for name in node.names:
            found[name].append(node)
    return found


def note_draw(it: Interpreter, iterable: Value) -> None:
    """Note that the loop around the current point draws from a data loader, if that is what it goes over."""
    if "no_grad" in it.contexts:
        return
    items = list_values(iterable)
    if all(isinstance(item, Ref) and it.kind(item) == "loader" for item in items):
        loaders = tuple(item.id for item in items if isinstance(item, Ref))
        new = Draw(loaders, it.loop_depth, by_steps=any(loop.by_condition for loop in it.loops))
        if new not in it.drawn:
            it.drawn = (*it.drawn, new)
            if it.worker_draws is not None:
                it.worker_draws.append(new)


def may_draw(it: Interpreter, iterable: Value) -> bool:
    """Whether a value is, or may be, a data loader."""
    if isinstance(iterable, Ref):
        return it.kind(iterable) == "loader"
    return isinstance(iterable, OneOf) and any(it.kind(item) == "loader" for item in iterable.values)


def is_divided(it: Interpreter, loader: HeapObject) -> bool:
    """Whether a loader gives each rank its part of the data, or something that is not known may see to it."""
    if loader.get("touched") == TRUE or loader.get("accelerator") != NONE:
        return True
    return any(_gives_parts(it, loader.get(name)) for name in ("batch_sampler", "sampler"))


def _gives_parts(it: Interpreter, sampler: Value) -> bool:
    """Whether a sampler may give each rank its part: all but those of torch that know nothing of ranks."""
    for item in list_values(sampler):
        thing = it.thing(item) if isinstance(item, Ref) else None
        if item != NONE and (thing is None or thing.get("divides", _may_part(it, thing)) != FALSE):
            return True
    return False


def _may_part(it: Interpreter, sampler: HeapObject) -> Value:
    """Whether a sampler may give each rank its part: not the script's own that names nothing of ranks."""
    cls = sampler.get("__class__")
    infos = list(it.mro(cls.key)) if isinstance(cls, Class) else []
    bases = {base for info in infos for base in info.bases if not isinstance(base, Class)}
    held = [item for value in sampler.attrs.values() for item in list_values(value)]
    parts = any(is_by_rank(item) or ((at := it.thing(item)) and at.get("divides") == TRUE) for item in held)
    if parts or not bases or not bases <= _BASES:
        return TRUE
    return Const(any(map(OF_PARTS.search, list_names(node for info in infos for node in walk(info.node)))))


def _random_split(it: Interpreter, call: Call) -> Value:
    """torch.utils.data.random_split(dataset, lengths): by torch's own seed where no generator is given."""
    if (call.get("generator", 2) or NONE) == NONE and not call.open:
        it.emit(call.event("random split"))
    return UNKNOWN


_AT_RANDOM = frozenset(
    {
        *("torch.randperm", "random.sample", "random.shuffle", "random.choices"),
        *(f"numpy.random.{name}" for name in ("permutation", "shuffle", "choice", "randint")),
    }
)
"""What draws by a seed that every process has for itself."""


def _subset(it: Interpreter, call: Call) -> Value:
    """torch.utils.data.Subset(dataset, indices): a division of the data where indices are drawn at random."""
    words = [word.value for word in call.node.keywords if word.arg == "indices"]
    for given in [*call.node.args[1:2], *words][:1]:
        before = [node for node in it.nodes if getattr(node, "lineno", 0) <= call.node.lineno]
        if not is_of_validation(call.node) and is_drawn(it, given, before, set()):
            it.emit(call.event("random split"))
    return UNKNOWN


def is_drawn(it: Interpreter, node: ast.AST, nodes: list[ast.AST], known: set[str]) -> bool:
    """Whether an expression is drawn at random, or made in the same function of names that are."""
    for part in walk(node):
        if isinstance(part, ast.Call) and all(word.arg != "generator" for word in part.keywords):
            of_module = isinstance(part.func, ast.Attribute) and not any(
                isinstance(each, ast.Call) for each in walk(part.func)
            )
            called = it.evaluate(part.func) if of_module else UNKNOWN
            if isinstance(called, ExternalName) and called.name in _AT_RANDOM:
                return True
        if isinstance(part, ast.Name) and part.id not in known:
            known.add(part.id)
            makes = [made for each in nodes for made in _makes(each, part.id)]
            agreed = any(map(_AGREES.search, list_names(each for made in makes for each in walk(made))))
            if not agreed and any(is_drawn(it, made, nodes, known) for made in makes):
                return True
    return False


_AGREES = re.compile(r"^(?:broadcast|(?:all_)?gather|scatter|load|read)(?:_|s?$)")
"""Names of functions that give all ranks the indices which one of them has drawn."""


def _makes(node: ast.AST, name: str) -> Iterator[ast.expr]:
    """Yield what a statement gives a name, or what changes in place what has it: random.shuffle(indices)."""
    if isinstance(node, ast.Assign):
        names = (getattr(part, "id", "") for target in node.targets for part in walk(target))
        yield from (node.value,) if name in names else ()
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        first = next(iter(node.value.args), node)
        given = first.elts if isinstance(first, ast.List) else [first]
        yield from (node.value,) if name in (getattr(each, "id", "") for each in given) else ()


OWN_ORDER = "in an order of its own"  # what is said of data that a sampler or the like then divides


def _shuffle(it: Interpreter, call: Call) -> Value:
    """random.shuffle(items) by the constructor of a dataset of the script that has items by number."""
    owner = it.attr(it.state.frames[it.frame].get("self"), "__class__")
    items = unparse(call.node.args[0]) if call.node.args else ""
    kept = (node for node in it.list_nodes(ast.Assign) if unparse(node.targets[0]).startswith("self."))
    held = items.startswith("self.") or any(items in map(unparse, walk(node.value)) for node in kept)
    by_number = isinstance(owner, Class) and any("__getitem__" in info.names for info in it.mro(owner.key))
    if held and by_number and getattr(it.scope, "name", "") == "__init__":
        it.emit(call.event("random split", None, OWN_ORDER))
    return UNKNOWN


def _train_test_split(it: Interpreter, call: Call) -> Value:
    """Sklearn's function, and a method of datasets of Hugging Face: by numpy's own seed without another."""
    seeds = (call.get(word) or NONE for word in ("random_state", "seed", "generator"))
    if all(seed == NONE for seed in seeds) and call.get("shuffle") != FALSE and not call.open:
        it.emit(call.event("random split"))
    return UNKNOWN


def make_divided_loader(it: Interpreter, call: Call, shares: Value, shuffles: Value) -> Ref:
    """Return the loader that a library makes, whose DistributedSampler it makes too where the ranks share."""
    shared = as_bool(shares)
    validates = is_of_validation(call.node) or as_bool(shuffles) is False
    reshuffles = FALSE if validates or shared is not True else shuffles
    sampler = HeapObject("sampler", call.place, {"divides": TRUE, "reshuffles": reshuffles})
    held = {"dataset": call.first, "shuffle": NONE if shared else shuffles, "validates": Const(validates)}
    held["sampler"] = NONE if shared is False else it.allocate(sampler)
    return it.allocate(HeapObject("loader", call.place, held))


def _timm_loader(it: Interpreter, call: Call) -> Value:
    """timm.data.create_loader(dataset, ..., is_training=, distributed=)."""
    unknown = UNKNOWN if call.open else FALSE
    training = call.get("is_training", 3) or unknown
    return make_divided_loader(it, call, call.get("distributed") or unknown, training)


def _split_by_node(it: Interpreter, call: Call) -> Value:
    """datasets.distributed.split_dataset_by_node(dataset, rank, world_size)."""
    given = unparse(call.node.args[0]) if call.node.args else ""
    made = (node for node in it.list_nodes(ast.Assign) if given in map(unparse, node.targets))
    for part in (part for node in made for part in walk(node.value) if isinstance(part, ast.Call)):
        seeded = part.args or {word.arg for word in part.keywords} & {"seed", "generator", None}
        if getattr(part.func, "attr", "") == "shuffle" and not seeded and part.lineno < call.node.lineno:
            it.emit(replace(call, place=it.place(part)).event("random split", None, OWN_ORDER))
    it.emit(
        call.event(
            "part of data", rank=call.get("rank", 1) or NONE, replicas=call.get("world_size", 2) or NONE
        )
    )
    return UNKNOWN


CALLS: dict[str, CallModel] = {
    "datasets.distributed.split_dataset_by_node": _split_by_node,
    **dict.fromkeys(("random.shuffle", "numpy.random.shuffle"), _shuffle),
    **dict.fromkeys(("timm.data.create_loader", "timm.data.loader.create_loader"), _timm_loader),
    "torch.utils.data.random_split": _random_split,
    "torch.utils.data.dataset.random_split": _random_split,
    **dict.fromkeys(("torch.utils.data.Subset", "torch.utils.data.dataset.Subset"), _subset),
    "sklearn.model_selection.train_test_split": _train_test_split,
    "datasets.Dataset.train_test_split": _train_test_split,
}

_SAMPLERS = (
    *("RandomSampler", "SequentialSampler", "SubsetRandomSampler", "WeightedRandomSampler"),
    *("DistributedSampler", "BatchSampler"),
)

CLASSES = {
    **dict.fromkeys(("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader"), "loader"),
    **{f"torch.utils.data.{name}": "sampler" for name in _SAMPLERS},
    **{f"torch.utils.data.sampler.{name}": "sampler" for name in _SAMPLERS},
    "torch.utils.data.distributed.DistributedSampler": "sampler",
}

CONSTRUCT: dict[str, ConstructorModel] = {"loader": _loader, "sampler": _sampler}

METHODS: dict[tuple[str, str], MethodModel] = {
    ("sampler", "set_epoch"): _set_epoch,
    ("loader", "next"): lambda it, owner, call: it.library.call(
        it, "builtins.next", replace(call, args=(owner,))
    ),
}
