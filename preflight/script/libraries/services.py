"""Calls that need a login, and checkpoints of Hugging Face's hub: gated ones, and those that are float32."""

from functools import partial

from preflight import regex as re
from preflight.probes.logins import GATED
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import CallModel, Interpreter
from preflight.script.syntax_trees import unparse
from preflight.script.values import Const, Element, Ref, Seq, Value
from preflight.script.values.constants import UNKNOWN
from preflight.script.values.operations import as_text, list_values

_OWN_WAY = {"token", "use_auth_token", "local_files_only"}
_TRACKERS = ("wandb", "comet_ml", "neptune", "swanlab", "clearml")
_WITHOUT_KEY = re.compile(r"\banonymous=|Settings\([^)]*mode=")


def load_from_hub(it: Interpreter, call: Call) -> Value:
    """Note a gated repository that from_pretrained() or load_dataset() reads without a token of its own."""
    given = call.get("pretrained_model_name_or_path", 0) or call.get("path") or UNKNOWN
    names = [as_text(item) or "" for item in list_values(given)]
    if all(map(GATED.match, names)) and not (call.open or call.kwargs.keys() & _OWN_WAY):
        it.emit(call.event("service", None, names[0]))
    return UNKNOWN


def find_trackers(targets: Value) -> list[str]:
    """Return the services that `report_to` or `log_with` surely names; "all" may be without the others."""
    items = targets.items if isinstance(targets, Seq) else (targets,)
    names = {"wandb" if name == "all" else name for name in map(as_text, items)}
    return [name for name in _TRACKERS if name in names]


def init_trackers(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """accelerator.init_trackers(...) starts what log_with names, on the first rank."""
    for name in find_trackers(it.attr(owner, "log_with")) if isinstance(owner, Ref) else ():
        it.emit(call.event("service", None, "log_with", service=Const(name)))
    return UNKNOWN


def _wandb_init(it: Interpreter, call: Call) -> Value:
    it.emit(call.event("run", None, "init"))
    return _start(it, call, service="wandb", what="wandb.init")


def _wandb_log(it: Interpreter, call: Call) -> Value:
    it.emit(call.event("run", None, "log"))
    return UNKNOWN


def _start(it: Interpreter, call: Call, *, service: str, what: str) -> Value:
    """Note a call that starts a run with what the user of the host is logged in with."""
    mode = call.get("mode")
    online = mode is None or all(as_text(item) in _ONLINE for item in list_values(mode))
    own = call.open or not call.kwargs.keys().isdisjoint(_KEYS) or (call.args and service == "comet_ml")
    if online and not own and not _WITHOUT_KEY.search(unparse(call.node)):
        it.emit(call.event("service", None, what, service=Const(service)))
    return UNKNOWN


def _logger(it: Interpreter, call: Call, *, name: str) -> Value:
    """Note Lightning's logger, which starts a run on the first rank once a Trainer trains."""
    if not call.open and call.kwargs.keys().isdisjoint(_LOGGERS_OWN):
        _start(it, call, service=LOGGERS[name], what=name)
    return UNKNOWN


_ONLINE = ("online", "cloud", "async", "sync", "create", "get_or_create")
_KEYS = {"api_key", "api_token", "online", "disabled"}
LOGGERS = {"WandbLogger": "wandb", "CometLogger": "comet_ml", "NeptuneLogger": "neptune"}
"""Those of Lightning, with their services."""
_LOGGERS_OWN = {
    *("offline", "mode", "experiment", "anonymous", "settings", "run", "save_dir", "offline_directory"),
    "experiment_key",
}
_STARTS = ("comet_ml.start", "comet_ml.Experiment", "neptune.init_run", "swanlab.init", "clearml.Task.init")
_IN_FLOAT32 = re.compile(
    r"(?:(?:google-bert|FacebookAI|distilbert|openai-community|google-t5)/)?"
    r"(?:bert-(?:base|large)-|(?:xlm-)?roberta-(?:base|large)|distil(?:bert|roberta)-base|(?:distil)?gpt2"
    r"|t5-(?:small|base|large)$)"
)
"""Those of the first years of transformers, which were saved in float32."""
_TRAINED_IN_FLOAT16 = re.compile(
    r"facebook/(?:opt|galactica|wav2vec2|hubert|xglm)-|openai/(?:whisper|clip)-|EleutherAI/gpt-neox-"
    r"|EleutherAI/pythia-(?!1b\b)|bigscience/bloomz?-\d|(?:.*/)?(?:xlm-)?roberta-"
)
"""Families that their authors trained with float16 activations, by their papers (Pythia's 1B in bf16)."""


def is_in_float32(call: Call) -> bool:
    """Whether from_pretrained() is given checkpoints only that are float32."""
    return _all_match(_IN_FLOAT32, call)


def fits_float16(call: Call) -> bool:
    """Whether from_pretrained() is given checkpoints only whose activations float16 can hold."""
    return _all_match(_TRAINED_IN_FLOAT16, call) or is_in_float32(call)


def _all_match(pattern: re.Pattern[str], call: Call) -> bool:
    given = call.get("pretrained_model_name_or_path", 0) or call.get("model_name") or UNKNOWN
    names = [as_text(item) for item in list_values(given)]
    return all(name is not None and pattern.match(name) for name in names)


CALLS: dict[str, CallModel] = {
    "wandb.init": _wandb_init,
    "wandb.log": _wandb_log,
    "datasets.load_dataset": load_from_hub,
    **{what: partial(_start, service=what.partition(".")[0], what=what) for what in _STARTS},
    **{
        f"{library}.loggers{of}.{name}": partial(_logger, name=name)
        for library in ("lightning.pytorch", "pytorch_lightning")
        for name, service in LOGGERS.items()
        for of in ("", f".{service.removesuffix('_ml')}")
    },
}
