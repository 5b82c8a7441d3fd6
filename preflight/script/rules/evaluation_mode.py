"""Rule P149: a model that an evaluation leaves in eval() for the training behind it."""

import ast
from collections.abc import Iterator

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.pytorch import list_trained_models
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.values import Ref
from preflight.script.values.constants import TRUE
from preflight.script.values.operations import list_values

_OWN_MODE = re.compile(r"def train\(self, *mode\b")  # which says itself what stays in eval()
_TRAINED = "stepped in train()"


@rule("P149", "step", "scaler step")
def training_in_eval_mode(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """The model stays in eval() behind the first evaluation, and trains on so.

    Dropout is off from then on, and batch normalization keeps the means that it has. Nothing raises: the
    loss even falls faster. model.train() belongs at the start of each epoch, or behind the evaluation.
    Source: torch.nn.Module.eval; torch's training tutorials, which call train() in each epoch.
    """
    if not it.loop_depth or "no_grad" in it.contexts or it.sources.mention(_OWN_MODE):
        return
    optimizers = list_values(event.values.get("optimizer", Ref(event.ref or 0)))
    models = (each.id for optimizer in optimizers for each in list_trained_models(it, optimizer))
    for model in dict.fromkeys(models):
        thing, places = it.thing(model), it.notes.get(("eval", model), [])
        if thing is None:
            continue
        if TRUE not in list_values(thing.get("only_used")):
            it.note((_TRAINED, model), event.place)
        elif (
            it.notes.get((_TRAINED, model))
            and it.notes.get(("train", model))
            and places
            and not _is_put_back(it, places[-1])
        ):
            message = "the model stays in eval() behind this, and the next epoch trains it so"
            yield RuleHit(
                places[-1], message, "model.train() behind the evaluation", Level.WARNING, (event.place,)
            )


def _is_put_back(it: Interpreter, place: CodeLocation) -> bool:
    """Whether the function that calls eval() calls train() behind it, under a condition perhaps."""
    source = it.sources.get(place.path)
    functions = it.sources.parser.list_nodes(source.tree, ast.FunctionDef) if source is not None else []
    around = [node for node in functions if node.lineno <= place.line <= (node.end_lineno or 0)]
    scope = max(around, key=lambda node: node.lineno, default=None)
    calls = it.sources.parser.list_nodes(scope, ast.Call) if scope is not None else []
    return any(node.lineno > place.line and getattr(node.func, "attr", "") == "train" for node in calls)
