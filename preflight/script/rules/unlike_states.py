"""Rule R424: weights or the state of an optimizer that rank 0 alone reads from a checkpoint."""

from collections.abc import Iterator

from preflight import regex as re
from preflight.script.interpreter.branch_conditions import OTHER_RANKS, RANK_0
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.values import Const
from preflight.script.values.constants import TRUE

_SENT = re.compile(
    r"broadcast|_sync_|sync_module|sync_param|scatter_object|from_rank0|rank0_only|load_state\(|full_state_dict"
)
"""Words of code that gives the other ranks what rank 0 has read."""
_READ = "read by all ranks"


@rule("R424", "weights read", "restored", "end")
def read_by_rank_0_alone(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """Rank 0 alone reads a checkpoint into a model in DistributedDataParallel, or into its optimizer.

    The wrapper sends the weights of rank 0 when it is made, and gradients alone from then on: the ranks
    train unlike weights with averaged gradients, and rank 0 saves its own. Nothing raises. All ranks read
    the checkpoint, or rank 0 does before the model is wrapped.
    Source: torch.nn.parallel.DistributedDataParallel's documentation; reproduced on two gloo ranks.
    """
    if it.target.processes == 1:
        return
    if event.name == "end":
        if it.state.wrapped and not it.sources.mention(_SENT):
            yield from dict.fromkeys(it.held_back.get("R424", ()))
        return
    thing = it.thing(event.ref)
    if RANK_0 not in it.contexts or OTHER_RANKS in it.contexts:
        it.note((_READ, event.ref), event.place)
        return
    of_wrapped = event.name == "restored" or (
        thing is not None and TRUE in (thing.get("wrapped"), thing.get("inside"))
    )
    is_copy = thing is not None and thing.get("role") == Const(
        "copy"
    )  # an average of rank 0, which none trains
    if thing is not None and of_wrapped and thing.get("sharded") != TRUE and not is_copy:
        what = "the state of this optimizer" if event.name == "restored" else "these weights"
        message = f"rank 0 alone reads {what}: the ranks train apart from the first step on"
        fix = 'read it on every rank, with map_location="cpu" and a barrier behind what wrote it'
        guard = (it.guard,) if it.guard is not None else ()
        it.held_back.setdefault("R424", []).append(RuleHit(event.place, message, fix, Level.WARNING, guard))
