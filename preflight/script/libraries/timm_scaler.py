"""timm.utils.NativeScaler: called with the loss and the optimizer it scales, clips, steps and updates."""

from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import ConstructorModel, Interpreter, MethodModel
from preflight.script.interpreter.values import NONE, TRUE, UNKNOWN, Element, Ref, Value, get_id


def _step(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    number = get_id(owner)
    it.emit(call.event("scaled", number))
    values = {"optimizer": call.get("optimizer", 1) or UNKNOWN}
    it.emit(call.event("scaler step", number, **values))
    it.emit(call.event("scaler update", number))
    return NONE


CLASSES = dict.fromkeys(("timm.utils.NativeScaler", "timm.utils.cuda.NativeScaler"), "timm scaler")
CONSTRUCT: dict[str, ConstructorModel] = {
    "timm scaler": lambda it, ref, _name, _call: it.change(ref.id, enabled=TRUE)
}
METHODS: dict[tuple[str, str], MethodModel] = {("timm scaler", "__call__"): _step}
