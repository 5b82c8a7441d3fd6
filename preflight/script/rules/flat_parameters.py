"""Rule R420: FullyShardedDataParallel flattens parameters of which some are frozen."""

from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import MAYBE
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.casts import list_parts
from preflight.script.libraries.distributed import FLAT
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.syntax_trees import unparse
from preflight.script.values import Const, Ref
from preflight.script.values.constants import FALSE, NONE, TRUE
from preflight.script.values.operations import as_bool

_CHOOSES = re.compile(
    r"auto_wrap_policy|ignored_(?:modules|states)|enable_wrap"
    r"|(?s:\b(?:FSDP|FullyShardedDataParallel)\(.+\b(?:FSDP|FullyShardedDataParallel)\()"  # parts apart
)
_MESSAGE = "FSDP flattens the parameters of this model together, and some of them are frozen"


@rule("R420", "sharded", "prepare")
def frozen_parts_flattened(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """FullyShardedDataParallel flattens parameters of which some are frozen.

    Without use_orig_params=True all parameters of a wrapped module become one, and it stops: "Must flatten
    tensors with uniform `requires_grad` when `use_orig_params=False`". Adapters of PEFT are trained beside
    frozen weights. peft's fsdp_auto_wrap_policy wraps both apart.
    Source: torch/distributed/fsdp/_flat_param.py; reproduced with torch 2.13.
    """
    call = event.call
    if call is None or event.ref is None or MAYBE in it.contexts or it.sources.mention(_CHOOSES):
        return
    if event.name == "sharded":
        func = unparse(call.node.func)
        if call.open or not (func.endswith(("FSDP", "FullyShardedDataParallel"))):
            return
        if as_bool(call.get("use_orig_params") or FALSE) is not False:
            return
        place = call.get_place("use_orig_params")
    else:
        found = it.notes.get(FLAT)
        if not found:
            return
        place = found[0]
    if _is_partly_frozen(it, event.ref):
        yield RuleHit(place, _MESSAGE, "use_orig_params=True", Level.WARNING, (event.place,))


def _is_partly_frozen(it: Interpreter, model: int) -> bool:
    """Whether some weights of a model are frozen and others are not, without parts that are wrapped apart."""
    parts = list_parts(it, model)
    wrapped = [part for part in parts[1:] if it.attr(Ref(part), "sharded") == TRUE]
    apart = {inner for part in wrapped for inner in list_parts(it, part)}
    things = [thing for part in parts if part not in apart and (thing := it.thing(part)) is not None]
    if any(thing.get("adapters", NONE) != NONE for thing in things):
        return True
    frozen = {thing.get("trainable") == Const("none") for thing in things if thing.get("trainable") != NONE}
    return frozen == {True, False}
