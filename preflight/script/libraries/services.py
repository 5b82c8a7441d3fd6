"""Calls that need a login: services for experiments, and gated repositories of Hugging Face's hub."""

import ast
from functools import partial

from preflight import regex as re
from preflight.probes.logins import GATED
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import CallModel, Interpreter
from preflight.script.interpreter.values import UNKNOWN, Const, Element, Ref, Seq, Value, as_text, list_values

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


def _start(it: Interpreter, call: Call, *, service: str, what: str) -> Value:
    """Note a call that starts a run with what the user of the host is logged in with."""
    mode = call.get("mode")
    online = mode is None or all(as_text(item) in _ONLINE for item in list_values(mode))
    own = call.open or not call.kwargs.keys().isdisjoint(_KEYS) or (call.args and service == "comet_ml")
    if online and not own and not _WITHOUT_KEY.search(ast.unparse(call.node)):
        it.emit(call.event("service", None, what, service=Const(service)))
    return UNKNOWN


def _wandb_log(it: Interpreter, call: Call) -> Value:
    it.emit(call.event("run", None, "log"))
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
    *(
        "offline",
        "mode",
        "experiment",
        "anonymous",
        "settings",
        "run",
        "save_dir",
        "offline_directory",
        "experiment_key",
    )
}
_STARTS = ("comet_ml.start", "comet_ml.Experiment", "neptune.init_run", "swanlab.init", "clearml.Task.init")
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
