"""Calls that need a login: Weights & Biases, and gated repositories of Hugging Face's hub."""

import ast

from preflight import regex as re
from preflight.probes.logins import GATED
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import CallModel, Interpreter
from preflight.script.interpreter.values import UNKNOWN, Element, Ref, Seq, Value, as_text, list_values

_OWN_WAY = {"token", "use_auth_token", "local_files_only"}
_WITHOUT_KEY = re.compile(r"\banonymous=|Settings\([^)]*mode=")


def load_from_hub(it: Interpreter, call: Call) -> Value:
    """Note a gated repository that from_pretrained() or load_dataset() reads without a token of its own."""
    given = call.get("pretrained_model_name_or_path", 0) or call.get("path") or UNKNOWN
    names = [as_text(item) or "" for item in list_values(given)]
    if all(map(GATED.match, names)) and not (call.open or call.kwargs.keys() & _OWN_WAY):
        it.emit(call.event("service", None, names[0]))
    return UNKNOWN


def uses_wandb(targets: Value) -> bool:
    """Whether `report_to` or `log_with` surely names Weights & Biases."""
    return any(
        as_text(item) in ("wandb", "all")
        for item in (targets.items if isinstance(targets, Seq) else (targets,))
    )


def init_trackers(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """accelerator.init_trackers(...) starts what log_with names, on the first rank."""
    if isinstance(owner, Ref) and uses_wandb(it.attr(owner, "log_with")):
        it.emit(call.event("service", None, "log_with"))
    return UNKNOWN


def _wandb_init(it: Interpreter, call: Call) -> Value:
    it.emit(call.event("run", None, "init"))
    mode = call.get("mode")
    online = mode is None or all(as_text(item) == "online" for item in list_values(mode))
    if online and not call.open and not _WITHOUT_KEY.search(ast.unparse(call.node)):
        it.emit(call.event("service", None, "wandb.init"))
    return UNKNOWN


def _wandb_log(it: Interpreter, call: Call) -> Value:
    it.emit(call.event("run", None, "log"))
    return UNKNOWN


def _wandb_logger(it: Interpreter, call: Call) -> Value:
    """Note Lightning's logger, which starts a run on the first rank once a Trainer trains."""
    if not call.open and call.kwargs.keys().isdisjoint(_LOGGERS_OWN):
        it.emit(call.event("service", None, "WandbLogger"))
    return UNKNOWN


_LOGGERS_OWN = {"offline", "mode", "experiment", "anonymous", "settings"}
_LIGHTNING = ("lightning.pytorch", "pytorch_lightning")
CALLS: dict[str, CallModel] = {
    "wandb.init": _wandb_init,
    "wandb.log": _wandb_log,
    "datasets.load_dataset": load_from_hub,
    **{f"{name}.loggers{of}.WandbLogger": _wandb_logger for name in _LIGHTNING for of in ("", ".wandb")},
}
