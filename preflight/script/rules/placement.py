"""Rules D201 to D204: every rank its own GPU."""

import ast
from collections.abc import Iterator
from dataclasses import replace

from preflight import regex as re
from preflight.facts.script import CodeLocation
from preflight.frozen import dataclass
from preflight.script.interpreter.branch_conditions import MAYBE, SPAWNED_RANK
from preflight.script.interpreter.events import ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.libraries.casts import list_parts
from preflight.script.libraries.models import as_device
from preflight.script.libraries.training_step import list_trainings
from preflight.script.rules.certainty import is_of_one_process
from preflight.script.rules.child_processes import has_numbered_gpus
from preflight.script.rules.own_names import describe_own_device, get_assigned_name
from preflight.script.rules.registry import Level, RuleHit, rule
from preflight.script.source import list_names
from preflight.script.syntax_trees import unparse, walk
from preflight.script.values import Const, Device, Map, Ref, Seq, Value
from preflight.script.values.constants import NONE, TRUE
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_text, is_by_rank, list_values, place_of

_MAP_FIX = 'remove device_map, or device_map={"": PartialState().local_process_index}'
SEEN_GPUS = "visible devices"
OWN_GPU = "own gpu"  # a rank that sees one GPU only, chosen by its rank: to this rank it is GPU 0
_COUNTS_GPUS = re.compile(r"device_count|rank\w* *%")
_ONLY_GPU = "own gpu on every path"
_SPREAD = frozenset({"auto", "balanced", "balanced_low_0", "sequential"})


@dataclass(frozen=True, slots=True)
class _Made:
    """Note of where a device is made that is one GPU for all ranks."""

    device: Device


@dataclass(frozen=True, slots=True)
class _SiteOf:
    """Note of where a device is used that is named at a place."""

    place: CodeLocation


def find_level(it: Interpreter) -> Level | None:
    """An error where several ranks are sure, nothing where there is one, a warning where it is not known.

    Of a script that starts its ranks itself there is one, unless the launch says otherwise; in what it starts
    there are several.
    """
    if it.target.capability is None or it.target.processes == 1 or it.notes.get(OWN_GPU):
        return None
    if it.target.processes is None and it.target.spawns and SPAWNED_RANK not in it.contexts:
        return None
    return Level.ERROR if it.target.processes else Level.WARNING


def _fixed(value: Value | None) -> Device | None:
    """Return a device that is the same for every rank; -1 is how scripts say that they have no ranks."""
    items = [item for item in list_values(value or NONE) if isinstance(item, Device)]
    if any(item.of_rank for item in items):
        return None
    return next((item for item in items if item.kind == "cuda" and _numbered(item)), None)


def _numbered(device: Device) -> bool:
    return device.index is not None and device.index >= 0


@rule("D201", "device", "cuda", "set device", "ddp", "end")
def one_gpu_for_all_ranks(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A GPU is named by a literal index, so every rank of a node uses the same one.

    In Exclusive Process mode the second rank fails ("all CUDA-capable devices are busy or unavailable");
    otherwise they share its memory, and NCCL says "Duplicate GPU detected".
    Source: reproduced in public threads; accelerate/state.py sets the device from LOCAL_RANK.
    """
    device = event.values.get("device")
    if isinstance(device, Device) and device.of_rank:
        it.note("rank device", event.place)
    level, fixed = find_level(it), _fixed(device)
    if fixed is not None and (any(map(_asks_for_index, it.tests)) or has_numbered_gpus(it)):
        fixed = None
    if event.name == "end":
        yield from _never_replaced(it, level or Level.WARNING)
    if event.name == "end" or level is None:
        return
    if (
        event.name == "device"
        and event.call
        and (it.is_named(event.call.node) or event.call.node is it.passed_value)
    ):  # judged where it is used: until then a device of the rank may replace it
        if fixed is not None:
            it.note(_Made(fixed), fixed.place or event.place)
            it.note(_SiteOf(fixed.place or event.place), event.place)
        return
    if event.name == "cuda" and TRUE not in (event.values.get("literal"), event.values.get("alone")):
        return
    if event.name == "ddp":
        ids = event.values.get("ids")
        item = ids.items[0] if isinstance(ids, Seq) and len(ids.items) == 1 else NONE
        found = as_device(item)
        fixed = found if isinstance(found, Device) and _numbered(found) else None
    if fixed is not None:
        message = f"every rank uses GPU {fixed.index}"
        place = fixed.place or event.place
        if is_of_one_process(it, place):
            return
        if event.values.get("doubt") == TRUE:
            level, message = Level.WARNING, f"{message}, unless a value that lint does not know names another"
        sites = it.notes.get(_SiteOf(place), [])
        used = tuple(spot for spot in (*sites, event.place) if spot.line != place.line)
        fix = describe_own_device(it, place, it.frame if place.path == event.place.path else None)
        yield _unless_by_task(it, fixed, RuleHit(place, message, fix, level, used))


def _unless_by_task(it: Interpreter, device: Device, hit: RuleHit) -> RuleHit:
    """Return a hit a level lower where Slurm starts the ranks, which may show each one GPU, its number 0."""
    if device.index or not it.sources.mention(_TASK_OF_SLURM) or it.sources.mention(_RANK_OF_LAUNCH):
        return hit
    level = Level.WARNING if hit.level is Level.ERROR else Level.INFO
    message = f"{hit.message}, unless srun --gpus-per-task=1 gives each its own"
    return replace(hit, level=level, message=message)


_TASK_OF_SLURM = re.compile(r"[\"']SLURM_PROCID[\"']")
_RANK_OF_LAUNCH = re.compile(r"[\"']LOCAL_RANK[\"']")


def _asks_for_index(test: ast.expr) -> bool:
    """Whether a condition is of a device that names no GPU: one that names the rank's is not replaced."""
    return _NO_INDEX.search(unparse(test)) is not None


_NO_INDEX = re.compile(r"\.index (?:is|==) None")


def _never_replaced(it: Interpreter, level: Level) -> Iterator[RuleHit]:
    """Yield the devices that a script names by number and never by its rank, wherever they are used."""
    if it.notes.get(OWN_GPU) or it.notes.get("rank device") or it.notes.get("device set"):
        return
    for key, places in list(it.notes.items()):
        if isinstance(key, _Made):
            message = f"every rank uses GPU {key.device.index}"
            for place in dict.fromkeys(spot for spot in places if _is_used(it, spot)):
                sites = tuple(spot for spot in it.notes.get(_SiteOf(place), ()) if spot.line != place.line)
                hit = RuleHit(place, message, describe_own_device(it, place, None), level, sites)
                hit = _unless_by_task(it, key.device, hit)
                unread = not sites and place.path != it.sources.files()[0].path  # by what the script calls
                yield replace(hit, level=Level.INFO, message=f"{message}, if it is used") if unread else hit


def _is_used(it: Interpreter, place: CodeLocation) -> bool:
    """Whether some line that was read may use what a line assigns: of a constant none may."""
    assigned = get_assigned_name(it, place, of_module=True)
    if not assigned.isidentifier():
        return True
    word = re.compile(rf"\b{assigned}\b")
    return sum(len(word.findall(source.text)) for source in it.sources.files()) > 1


@rule("D202", "cuda", "accelerator", "arguments", "set device")
def cuda_before_the_device_is_set(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """CUDA is used before the rank has set its device.

    Every rank then opens a context on the first GPU, where the second fails in Exclusive Process mode and
    memory is lost otherwise.
    Source: accelerate/state.py: the device is set when Accelerator() is made.
    """
    level = find_level(it)
    if event.name == "cuda":
        device = event.values.get("device")
        if (
            level is not None  # and not of the process that starts the ranks
            and not it.state.device_set
            and not it.notes.get("device set")  # on some path before, as where several GPUs are seen
            and isinstance(device, Device)
            and device.index is None
            and not device.of_rank
            and not (
                not it.state.grouped and any(map(_asks_for_group, it.tests))
            )  # made where the device is set
        ):
            it.state.early_cuda += (event.place,)
    if event.name == "cuda" or event.what == "for a while":  # on a tensor's own device, as kernels run
        return
    early, it.state.early_cuda = it.state.early_cuda, ()
    for place in early if level is not None else ():
        message = "CUDA is used before the rank has set its device: all ranks meet on the first GPU"
        fix = "create the Accelerator (or set_device(LOCAL_RANK)) first"
        yield RuleHit(place, message, fix, level if level and event.name != "arguments" else Level.WARNING)


def _asks_for_group(test: ast.expr) -> bool:
    return "is_initialized" in list_names(walk(test))


@rule("D203", "environ", "set device", "device")
def visible_devices_set_by_the_script(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """The script sets CUDA_VISIBLE_DEVICES itself, to the same value in every rank.

    It overrules the launch: ranks share GPUs (accelerate maps by modulo) or have none. Where it shows each
    rank one GPU, by its rank, that GPU is number 0 to all of them, and "cuda:1" an "invalid device ordinal".
    Source: accelerate/state.py.
    """
    value, device = event.values.get("value"), event.values.get("device")
    if event.name != "environ" and (alone := it.notes.get(_ONLY_GPU)):
        counts = it.sources.mention(_COUNTS_GPUS)
        if isinstance(device, Device) and device.of_rank and not (counts or it.tests or MAYBE in it.contexts):
            message = "each rank sees one GPU, its number 0, and this names it by the rank"
            yield RuleHit(event.place, message, "0 in place of the rank", Level.WARNING, (alone[0],))
    if event.what != "CUDA_VISIBLE_DEVICES":
        return
    it.note(SEEN_GPUS, event.place)
    if is_by_rank(value):
        it.note(OWN_GPU, event.place)
        it.note(_ONLY_GPU, *([] if it.tests or MAYBE in it.contexts else [event.place]))
        return
    level = find_level(it)
    if level is not None and isinstance(value, Const) and value.value not in ("", "-1"):
        if len(str(value.value).split(",")) >= it.target.world:
            level = Level.WARNING  # enough for the ranks, though not those that were chosen
        message = f"CUDA_VISIBLE_DEVICES={value.value!s} overrules the launch's choice of GPUs"
        yield RuleHit(event.place, message, "remove it; choose GPUs with --gpus", level)


@rule("D204", "train", "prepare", "spread", "step", "scaler step", "sharded", "ddp")
def model_spread_over_gpus(it: Interpreter, event: ScriptEvent) -> Iterator[RuleHit]:
    """A trained model is loaded with device_map="auto" or the like.

    It spreads one model over all GPUs of a rank, which accelerate refuses in a launch of several processes
    ("You can't train a model that has been loaded with `device_map='auto'` in any distributed mode"); a small
    model lands whole on GPU 0 for every rank.
    Source: accelerate/accelerator.py, verify_device_map; reproduced with accelerate 1.15.
    """
    if it.target.capability is None:
        return
    if event.name == "spread":
        level = find_level(it)
        if level is not None:
            message = "the model's layers are spread over GPUs by number, the same in every rank"
            yield RuleHit(event.place, message, "remove .parallelize(); one GPU per rank", level)
        return
    models = list(_trained(it, event))
    for model in models:
        value = model.get("device_map")
        spot = getattr(model.get("device_map_at"), "place", None) or model.place
        both = len(models) > 1 and all(_spreads(other.get("device_map")) for other in models)
        doubtful = not both and _is_left_out(it, spot)
        for hit in _judge_map(it, value, spot):
            yield _doubtful(hit) if doubtful and MAYBE not in it.contexts else hit


def _doubtful(hit: RuleHit) -> RuleHit:
    """Return a hit about a model that may not be the one: it, or its map, is made in one of two branches."""
    if hit.level is not Level.ERROR:
        return hit
    return replace(hit, level=Level.WARNING, message=f"{hit.message}, where this branch is taken")


def _is_left_out(it: Interpreter, place: CodeLocation) -> bool:
    """Whether a line is in a branch that some path to what is judged now goes past."""
    return any(path == place.path and first <= place.line <= last for path, first, last in it.open_branches)


def _trained(it: Interpreter, event: ScriptEvent) -> Iterator[HeapObject]:
    """Yield the models that an event trains: a Trainer's, what is prepared, or what an optimizer steps.

    accelerate asks the modules within them too.
    """
    if event.name in ("step", "scaler step"):
        yield from (training.model for training in list_trainings(it, event))
        return
    trainer = it.thing(event.ref) if event.name == "train" else None
    for item in list_values(trainer.get("model") if trainer else Ref(event.ref or 0)):
        if isinstance(item, Ref) and it.kind(item) == "model":
            yield from (it.state.heap[number] for number in list_parts(it, item.id))


def _spreads(value: Value) -> bool:
    return all(as_text(item) in _SPREAD for item in list_values(value))


def _judge_map(it: Interpreter, value: Value, place: CodeLocation) -> Iterator[RuleHit]:
    related = _origins(value, place)
    options = list_values(value)
    level = Level.ERROR if it.target.processes else Level.WARNING
    if any(as_text(item) in _SPREAD for item in options):
        level = level if _spreads(value) else Level.WARNING
        whole = [_whole(item) for item in options]
        by_rank = any(is_by_rank(item) or (isinstance(item, Device) and item.of_rank) for item in whole)
        if by_rank or it.target.processes == 1:
            level = Level.INFO  # the other path is the one of ranks
        message = "the trained model is spread over all GPUs, which no launch of several processes can train"
        yield RuleHit(place, message, _MAP_FIX, level, related)
        return
    for item in () if it.notes.get(OWN_GPU) else options:
        index = _map_index(item)
        if index is not None and it.target.processes != 1:
            yield RuleHit(place, f"every rank loads the model onto GPU {index}", _MAP_FIX, level, related)


def _origins(value: Value, place: CodeLocation) -> tuple[CodeLocation, ...]:
    """Return where a fixed map is written, when it is not where it is used."""
    written = [
        item.places.get("") if isinstance(item, Map) else place_of(item)
        for item in list_values(value)
        if as_text(item) in _SPREAD or _map_index(item) is not None
    ]
    return tuple(spot for spot in written if spot and (spot.path, spot.line) != (place.path, place.line))


def _whole(value: Value) -> Value:
    """Return where a device_map puts the whole model: {"": 0} says what 0 does."""
    return value.get("") or NONE if isinstance(value, Map) else value


def _map_index(value: Value) -> int | None:
    """Return the GPU of a device_map that puts the whole model on one: 0, "cuda:0", {"": 0}."""
    inner = _whole(value)
    if isinstance(inner, Const) and isinstance(inner.value, int) and not isinstance(inner.value, bool):
        return inner.value
    text = as_text(inner) or ""
    index = text.removeprefix("cuda:")
    return int(index) if text.startswith("cuda:") and index.isdigit() else None
