"""Rules R410 and R417: data that each rank divides at random for itself, or that is divided twice."""

import ast
from collections.abc import Iterable, Iterator, Sequence

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import OF_SOME, SPAWNED, UNCALLED
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.rank_values import SEEDED, SEEDED_ALIKE
from preflight.script.libraries.data_loaders import OWN_ORDER, is_drawn
from preflight.script.rules.files import JOINED
from preflight.script.rules.own_measures import get_last_name
from preflight.script.rules.own_names import find_call_words
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.source import list_names
from preflight.script.syntax_trees import walk
from preflight.script.values import Const, Ref
from preflight.script.values.constants import TRUE
from preflight.script.values.operations import list_values

_SPLITS = "divided at random"
_OF_STARTED = "divided at random by ranks that the script starts"
_APART = "divided at random after seeds by rank"
_TRAINED = "trained by a Trainer"
_MESSAGE = "each rank divides the data in its own way: some validate on what others train on"
_MESSAGE_OF_PARTS = (
    "each rank shuffles in its own way before it takes its part: parts overlap, and samples are left out"
)
_SEEDS = {r"(?<!\.)\btrain_test_split|model_selection": "random_state=0", "train_test_split": "seed=0"}
_SEEDS |= {r"\brandom\.shuffle": "random.Random(0).shuffle(...)", r"\.shuffle\(": "seed=0"}
"""What gives a function that divides a seed, by its call; others take a generator."""
_DIVIDES = re.compile(r"DistributedSampler\(|\bprepare\(|setup_dataloaders|split_dataset_by_node")
_FORKS = re.compile(r"ddp_(?:spawn|fork|notebook)")  # strategies whose ranks get what one process has divided
_GENERATOR = "generator=torch.Generator().manual_seed(0)"


@rule("R410", "random split", "part by rank", "train", "fit", "end")
def split_of_each_rank(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Each rank divides the data at random for itself, and nothing seeds all ranks alike.

    Every process draws from a seed of its own. What one rank keeps for validation others train on, so the
    validation loss says nothing; a sampler over parts that differ leaves samples out and repeats others. A
    list that each rank shuffles before it, or a sampler, takes `files[rank::world]` parts so too, and so does
    a DistributedSampler whose seed has the rank in it. A generator with a seed, or one seed for all ranks
    before the split, divides alike; a seed by rank does not.
    Source: torch.utils.data.random_split; two processes of torch 2.13 have unlike seeds.
    """
    if event.what not in ("", OWN_ORDER) and OF_SOME.isdisjoint(it.contexts):
        yield RuleHit(event.place, _MESSAGE_OF_PARTS, "one seed for all ranks", Level.WARNING)
    elif event.name == "part by rank" and not _is_drawn(it, event):
        return
    elif event.name in ("train", "fit"):
        it.note(_TRAINED, *([] if it.sources.mention(_FORKS) else [event.place]))
    elif event.name != "end" and OF_SOME.isdisjoint(it.contexts) and UNCALLED not in it.contexts:
        it.note(_OF_STARTED if SPAWNED in it.contexts else _SPLITS, event.place)
        it.note(OWN_ORDER, *([event.place] if event.what else []))
        if it.notes.get(SEEDED):
            it.note(_APART, event.place)
    if event.name != "end":
        return
    of_launch = it.notes.get(_SPLITS, ()) if it.notes.get(JOINED) else ()
    places = dict.fromkeys((*of_launch, *it.notes.get(_OF_STARTED, ())))
    if not places or it.target.processes == 1 or not (it.state.wrapped or it.notes.get(_TRAINED)):
        return
    find = it.sources.parser.find
    seeded = any(
        find(_seeds, source.tree) or (it.sources.has_unread() and find(_names_a_seed, source.tree))
        for source in it.sources.files()
    )
    apart = () if it.notes.get(SEEDED_ALIKE) else it.notes.get(_APART, ())
    ordered = it.notes.get(OWN_ORDER, ())
    divided = it.notes.get(_TRAINED) or not ordered or it.sources.mention(_DIVIDES)
    for place in places:
        if (not seeded or place in apart) and (divided or place not in ordered):
            call = find_call_words(it, place)
            seed = next((seed for form, seed in _SEEDS.items() if re.search(form, call)), _GENERATOR)
            message = _MESSAGE_OF_PARTS if place in ordered else _MESSAGE
            yield RuleHit(place, message, seed, Level.WARNING)


def _is_drawn(it: Interpreter, event: ScriptEvent) -> bool:
    """Whether a function shuffles, by no seed of its own, the list of which it takes each rank's part."""
    calls = (node for node in it.list_nodes(ast.Call) if node.lineno <= event.place.line)
    if any(_AGREES.search(get_last_name(node)) for node in calls):
        return False
    before = [node for node in it.nodes if getattr(node, "lineno", 0) <= event.place.line]
    parts = (node for node in it.list_nodes(ast.Subscript) if it.place(node) == event.place)
    return any(is_drawn(it, node.value, before, set()) for node in parts)


_ONE = Const(1)


@rule("R417", "prepared")
def divided_twice(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """accelerator.prepare() divides a DataLoader among the ranks whose DistributedSampler has done so before.

    prepare() gives each rank every N-th batch of what its sampler draws, whatever that is. Of N ranks each
    then trains on 1/N of its own part, and an epoch sees 1/N of the data. Nothing raises.
    Source: accelerate/data_loader.py, prepare_data_loader; reproduced with accelerate 1.15 on two gloo ranks.
    """
    if it.target.processes == 1 or event.call is None or it.attr(event.ref or 0, "open") == TRUE:
        return
    given = [item for value in event.call.args for item in list_values(value)]
    for loader in filter(None, (it.thing(item) for item in given if isinstance(item, Ref))):
        samplers = filter(None, map(it.thing, list_values(loader.get("sampler"))))
        if loader.kind == "loader" and any(each.get("replicas", _ONE) != _ONE for each in samplers):
            message = "prepare() divides this among the ranks, and its DistributedSampler has done so already"
            fix = "shuffle=True in place of the sampler, or leave the loader out of prepare()"
            yield RuleHit(loader.place, message, fix, Level.WARNING, (event.place,))


_AGREES = re.compile(r"broadcast|gather|scatter")
_SEED = re.compile("seed|determinis", re.IGNORECASE)
_DECLARES = frozenset({"add_argument", "print", "info", "field", "Field", "Option"})


def _names_a_seed(nodes: Iterable[ast.AST]) -> bool:
    return any(map(_SEED.search, list_names(nodes)))


def _seeds(nodes: Sequence[ast.AST]) -> bool:
    """Whether a call may seed what divides: by its name, or by a seed that it, and no sampler in it, gets."""
    sampler = {"DistributedSampler"}
    sampler.update(
        item.asname or "" for item in nodes if isinstance(item, ast.alias) and item.name in sampler
    )
    calls = (node for node in nodes if isinstance(node, ast.Call))
    parts = (walk(node) for node in calls if not _DECLARES.intersection(list_names([node.func])))
    return any(_names_a_seed(part) and sampler.isdisjoint(list_names(part)) for part in parts)
