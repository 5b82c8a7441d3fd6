"""The environment of a rank: what its variables hold, and what a script sets in it."""

from preflight import regex as re
from preflight.script.interpreter.events import Call, ScriptEvent
from preflight.script.interpreter.interpreter import CallModel, Interpreter
from preflight.script.values import Const, ExternalName, Map, RankValue, Value
from preflight.script.values.constants import GIVEN, NONE, OF_LAUNCH, OF_NODE, OF_RANK, TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_text, build_map, join, list_values, merge_maps

_RANK_NAMES = {
    "RANK": OF_LAUNCH,
    "SLURM_PROCID": OF_LAUNCH,
    **dict.fromkeys(("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK"), OF_NODE),
}
_OF_RANKS = frozenset({"WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "LOCAL_WORLD_SIZE"})
_OF_ONE_PROCESS = (
    *("os.getpid", "socket.gethostname", "platform.node", "uuid.uuid1", "uuid.uuid4"),
    *("tempfile.mkdtemp", "tempfile.mkstemp", "tempfile.mktemp"),
    *("tempfile.TemporaryDirectory", "tempfile.NamedTemporaryFile"),
)
"""What gives each process another value: paths that are made of it are not those of another rank."""
_VARIABLES = -1  # the thing on the heap that holds what the script has put into variables


_SET_BY_LAUNCHES = re.compile(
    r"RANK|WORLD|LOCAL|NODE|HOST|MASTER|GPU|CUDA|NCCL|SLURM|OMPI|^PMI|^MPI|^MV2|ACCELERATE|FSDP|DEEPSPEED|TORCHELASTIC|DIST|JOB|PROC"
)


def read_variable(
    it: Interpreter, key: Value, *, contains: bool = False, default: Value | None = None
) -> Value:
    """Return what an environment variable holds in a rank of a launch."""
    name = as_text(key)
    own = find_set_value(it, name)
    if own is not None:
        return TRUE if contains else own
    if name in _RANK_NAMES:
        return TRUE if contains else RankValue(of=_RANK_NAMES[name])
    if name in _OF_RANKS or name == "CUDA_VISIBLE_DEVICES":
        if contains:
            return TRUE
        return Const(str(it.target.world)) if name == "WORLD_SIZE" else ExternalName(f"{GIVEN}{name}")
    if name == "ACCELERATE_MIXED_PRECISION" and it.target.launch and not contains:
        return Const(it.target.launch)
    if default is None:
        return UNKNOWN
    if name and not it.changed_variables & {"", name} and _SET_BY_LAUNCHES.search(name) is None:
        return default  # nothing but the user sets it: the default counts, as that of an option does
    return join((default, UNKNOWN))


def find_set_value(it: Interpreter, name: str | None) -> Value | None:
    """Return what the script itself has put into a variable on every path, None where it has not."""
    value = it.attr(_VARIABLES, str(name)) if name in it.changed_variables else NONE
    return None if NONE in list_values(value) else value


def _note_set(it: Interpreter, name: str, value: Value) -> None:
    it.changed_variables.add(name)
    if not name or name in _RANK_NAMES or name in _OF_RANKS:
        return
    if it.thing(_VARIABLES) is None:
        it.put(_VARIABLES, HeapObject("environment", it.source.place(it.source.tree)))
    it.change(_VARIABLES, **{name: value})


def _environ_get(it: Interpreter, call: Call) -> Value:
    default = call.get("default", 1)
    return read_variable(it, call.get("key", 0) or UNKNOWN, default=NONE if default is None else default)


def _environ_setdefault(it: Interpreter, call: Call) -> Value:
    before = _environ_get(it, call)
    it.changed_variables.add(as_text(call.get("key", 0) or UNKNOWN) or "")
    return before


def _load_dotenv(it: Interpreter, _call: Call) -> Value:
    """Take any variable as changed: the file of values that it reads is unknown."""
    it.changed_variables.add("")
    return UNKNOWN


def _environ_update(it: Interpreter, call: Call) -> Value:
    it.changed_variables.add("")
    given = merge_maps(build_map(call.args[0]) if call.args else Map(()), call.get_keywords())
    for name, value in given.items:
        _note_set(it, str(name), value)
        place = given.places.get(name, call.place)
        it.emit(ScriptEvent("environ", place, None, call, str(name), {"value": value}))
    return NONE


def _environ_set(it: Interpreter, call: Call) -> Value:
    key, value = call.args
    _note_set(it, as_text(key) or "", value)
    it.emit(call.event("environ", None, as_text(key) or "", value=value))
    return NONE


def launch_precision(it: Interpreter) -> Value:
    """Return the mixed precision that counts where the script names none, Unknown where that is not known."""
    own = find_set_value(it, "ACCELERATE_MIXED_PRECISION")
    if own is not None:
        return own
    return Const(it.target.launch) if it.target.launch else UNKNOWN


def resolve_precision(it: Interpreter, requested: Value) -> Value:
    """Return the mixed precision where this one is requested: of None the launch decides.

    So it does where an option is passed on that is None by default, and may be given.
    """
    launch, items = launch_precision(it), list_values(requested)
    known = (item for item in items if item != UNKNOWN or NONE not in items)
    return join(launch if item == NONE else item for item in known)


CALLS: dict[str, CallModel] = {
    "os.getenv": _environ_get,
    "os.environ.get": _environ_get,
    "os.environ.pop": _environ_setdefault,
    "os.environ.setdefault": _environ_setdefault,
    "dotenv.load_dotenv": _load_dotenv,
    "os.environ.__setitem__": _environ_set,
    "os.environ.update": _environ_update,
    "os.putenv": _environ_set,
    **dict.fromkeys(_OF_ONE_PROCESS, lambda _it, _call: OF_RANK),
}
