"""Calls that need a login: Weights & Biases, and gated repositories of Hugging Face's hub."""

from preflight.probes.logins import GATED
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import CallModel, Interpreter
from preflight.script.interpreter.values import UNKNOWN, Value, alternatives, text_of

_OWN_WAY = {"token", "use_auth_token", "local_files_only"}


def load_from_hub(it: Interpreter, call: Call) -> Value:
    """Note a gated repository that from_pretrained() or load_dataset() reads without a token of its own."""
    given = call.get("pretrained_model_name_or_path", 0) or call.get("path") or UNKNOWN
    names = [text_of(item) or "" for item in alternatives(given)]
    if all(map(GATED.match, names)) and not (call.open or call.kwargs.keys() & _OWN_WAY):
        it.emit(call.event("service", None, names[0]))
    return UNKNOWN


def _wandb_init(it: Interpreter, call: Call) -> Value:
    mode = call.get("mode")
    online = mode is None or all(text_of(item) == "online" for item in alternatives(mode))
    if online and not call.open:
        it.emit(call.event("service", None, "wandb.init"))
    return UNKNOWN


CALLS: dict[str, CallModel] = {"wandb.init": _wandb_init, "datasets.load_dataset": load_from_hub}
