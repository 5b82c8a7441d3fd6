"""Rule D205: a process group whose ranks set no device."""

from collections.abc import Iterator

from preflight.script.interpreter.branch_conditions import UNCALLED
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.rules.certainty import list_doubts
from preflight.script.rules.placement import OWN_GPU, SEEN_GPUS, find_level
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.values import Device, Seq, Value
from preflight.script.values.constants import NONE, TRUE
from preflight.script.values.operations import is_by_rank

_NAMED_BY_DDP = "device named by ddp"
_ON_FIRST = "on the first gpu"  # what names no GPU, where no device was set
_NCCL = "a group of nccl alone"
_OBJECTS = "objects exchanged before a device is set"


@rule(
    "D205",
    "process group",
    "set device",
    "ddp",
    "sharded",
    "cuda",
    "accelerator",
    "arguments",
    "exchange",
    "end",
)
def process_group_without_a_device(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A process group is made and no rank ever sets its device.

    Every rank then works on the first GPU. all_gather_object() and the like exchange through the current one,
    wherever model and batches are.
    Source: torch.distributed's documentation; see D201 for the errors.
    """
    if event.name == "process group":
        if event.what in ("nccl", "") and UNCALLED not in it.contexts and find_level(it) is not None:
            it.note("process group", event.place)
            it.note(_NCCL, *([event.place] if event.what else []))
        if it.state.device_set:
            it.note("device set", event.place)
    elif event.name == "exchange":
        whole = event.call is not None and event.call.get("group") is None
        if "_object" in event.what and whole and it.notes.get(_NCCL) and not it.state.device_set:
            it.note(_OBJECTS, *([] if list_doubts(it, event.place) else [event.place]))
    elif event.name == "cuda":
        it.note("cuda used", event.place)
        sure = TRUE in (event.values.get("literal"), event.values.get("alone")) and event.what != "work"
        first = event.values.get("device") == Device("cuda") and not it.state.device_set
        if sure and first and not list_doubts(it, event.place):
            it.note(_ON_FIRST, event.place)
    elif event.name == "sharded" or (event.name == "ddp" and _names_no_device(event.values.get("ids", NONE))):
        it.note(_ON_FIRST, *([event.place] if _is_sharded_on_first(it, event) else []))
    elif event.name != "end":
        it.note("device set", event.place)
        if event.name == "ddp" and is_by_rank(event.values.get("ids")) and not it.notes.get(SEEN_GPUS):
            it.note(_NAMED_BY_DDP, event.place)
    elif it.notes.get("process group") and it.notes.get("cuda used"):
        yield from _judge_group(it)


def _judge_group(it: Interpreter) -> Iterator[RuleHit]:
    """Yield that no rank sets its device, or none before objects are exchanged, where that is so."""
    named = it.notes.get(_NAMED_BY_DDP, [])
    by_rank = it.notes.get("rank device")
    meets = it.notes.get(_ON_FIRST, [])[:1] if by_rank else []  # of what else names the rank's own GPU
    placed = len(it.notes.get("device set", [])) > len(named) or (by_rank and not meets)
    level = find_level(it) or Level.WARNING  # of ranks that the script starts
    objects = it.notes.get(_OBJECTS, [])[:1] if len(it.notes.get("device set", [])) == len(named) else []
    if (not placed or objects) and not it.notes.get(OWN_GPU):
        message = "no rank sets its device: all of them use the first GPU" + (" too" if meets else "")
        own = "rank" if it.target.spawns else 'int(os.environ["LOCAL_RANK"])'
        fix = f"torch.cuda.set_device({own}) after this"
        level = (
            Level.WARNING if named or meets or placed else level
        )  # DDP stops at a model that is not where it says
        if placed:
            message = "no rank sets its device, and objects are exchanged through the first GPU by all"
        if it.sources.has_unread():
            level, message = Level.WARNING, f"{message}, unless a module that could not be read does it"
        yield RuleHit(it.notes["process group"][0], message, fix, level, tuple(objects or meets))


def _is_sharded_on_first(it: Interpreter, event: ScriptEvent) -> bool:
    """Whether FSDP takes a model from the CPU, and to the current GPU, which is still the first.

    Where something is on a GPU before, the model, or what holds it, or is a part of it, may be too.
    """
    if event.name != "sharded" or event.ref is None or event.call is None or it.state.device_set:
        return False
    named = event.call.open or event.call.get("device_id") is not None
    return not named and not it.notes.get("cuda used")


def _names_no_device(ids: Value) -> bool:
    """Whether DDP takes the current device: by no device_ids, or by [None], of torch.device("cuda").index."""
    return ids == NONE or (isinstance(ids, Seq) and not ids.open and set(ids.items) == {NONE})
