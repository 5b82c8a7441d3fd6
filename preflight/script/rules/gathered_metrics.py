"""Rule R423: an evaluation that counts the samples twice which fill the last batch."""

import ast
from collections.abc import Iterator, Sequence

from preflight import regex as re
from preflight.script.interpreter.events import Call, ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.own_measures import list_turn_nodes
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.source import list_names
from preflight.script.syntax_trees import unparse, walk
from preflight.script.values import Const, ExternalName
from preflight.script.values.constants import FALSE, NONE
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_bool

_OF_SAMPLES = re.compile(
    r"(?i)pred|label|logit|target|gold|guess|truth|argmax|answer|hypothes|(?:^|_)refs?(?:$|_|erence)|prob"
)
"""Names of what is one for each sample; losses are seldom, and weigh little."""
_LOSS = re.compile(r"(?i)loss|nll|perplex")
_EVALUATES = re.compile(r"no_grad|inference_mode|^eval$|^generate$")
"""Names in functions that train nothing in the loop."""
_CUTS = re.compile(
    r"samples_seen|remainder|even_batches|drop_last|dedup|unique|total_dataset_length|join_uneven|seen_ids"
)
"""Words of code that leaves the samples out which are twice."""


@rule("R423", "collective")
def samples_that_fill_the_last_batch(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """accelerator.gather() in an evaluation keeps the samples that fill the last batch.

    A prepared loader repeats samples until all ranks have a whole batch. gather() returns these as well: the
    metric counts them twice, and is another with another number of GPUs. gather_for_metrics() leaves them
    out.
    Source: accelerate's guide to metrics in distributed evaluation; accelerate/data_loader.py, even_batches.
    """
    call = event.call
    if call is None or event.what != "gather" or it.target.processes == 1:
        return
    if not _is_of_accelerate(it, call) or not _is_of_samples(call):
        return
    turns = list_turn_nodes(it, call.node)
    source = getattr(turns[0], "iter", None) if turns else None
    parts = [part for part in walk(source) if type(part) in (ast.Name, ast.Attribute)] if source else []
    values = [it.evaluate(part) for part in parts if isinstance(part, ast.expr)]
    loaders = [thing for value in values if (thing := it.thing(value)) is not None and thing.kind == "loader"]
    if not loaders or not all(map(_repeats, loaders)) or "backward" in list_names(turns):
        return
    words = [*list_names(it.nodes), *it.contexts]
    if not any(map(_EVALUATES.search, words)):
        return
    if any(it.sources.parser.find(_cuts, source.tree) for source in it.sources.files()):
        return
    message = "gather() keeps the samples that fill the last batch: this metric counts them twice"
    owner = unparse(call.node.func).rpartition(".")[0]
    fix = f"{owner}.gather_for_metrics(...)" if owner else "accelerator.gather_for_metrics(...)"
    yield RuleHit(event.place, message, fix, Level.WARNING, tuple(loader.place for loader in loaders))


def _is_of_accelerate(it: Interpreter, call: Call) -> bool:
    func = call.node.func
    if isinstance(func, ast.Attribute) and func.attr == "gather":
        owner = it.evaluate(func.value) if isinstance(func.value, (ast.Name, ast.Attribute)) else NONE
        if it.kind(owner) in ("accelerator", "trainer's accelerator"):
            return True
    value = it.evaluate(func) if isinstance(func, (ast.Name, ast.Attribute)) else NONE
    return isinstance(value, ExternalName) and value.name.startswith("accelerate.")


def _is_of_samples(call: Call) -> bool:
    given = call.node.args[:1]
    words = [*list_names(part for node in given for part in walk(node))]
    words += [
        part.value
        for node in given
        for part in walk(node)
        if isinstance(part, ast.Constant) and isinstance(part.value, str)
    ]
    return any(map(_OF_SAMPLES.search, words)) and not any(map(_LOSS.search, words))


def _repeats(loader: HeapObject) -> bool:
    """Whether a loader that prepare() has divided gives samples of its start again at its end."""
    plain = as_bool(loader.get("shuffle")) is not True and as_bool(loader.get("drop_last", FALSE)) is False
    return plain and loader.get("accelerator") != NONE and loader.get("batch_size") != Const(None)


def _cuts(nodes: Sequence[ast.AST]) -> bool:
    """Whether a file has a word of such code, or takes as many as the data have: `preds[:len(dataset)]`."""
    if any(map(_CUTS.search, list_names(nodes))):
        return True
    slices = (node for node in nodes if isinstance(node, ast.Slice) and node.lower is None and node.upper)
    return any(_COUNTS_DATA.search(unparse(node.upper)) for node in slices if node.upper is not None)


_COUNTS_DATA = re.compile(r"len\(|num_\w*(?:samples|examples)|total|n_samples|dataset_size")
