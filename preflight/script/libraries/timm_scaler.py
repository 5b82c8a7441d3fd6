"""timm.utils.NativeScaler: called with the loss and the optimizer it scales, clips, steps and updates."""

from collections.abc import Callable

from preflight.script.interpreter.events import Call, ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.values import NONE, TRUE, UNKNOWN, Element, Ref, Value, heap_id


def _construct(it: Interpreter, ref: Ref, _name: str, _call: Call) -> None:
    it.change(ref.id, enabled=TRUE)


def _step(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    number = heap_id(owner)
    it.emit(ScriptEvent("scaled", call.place, number, call))
    values = {"optimizer": call.get("optimizer", 1) or UNKNOWN}
    it.emit(ScriptEvent("scaler step", call.place, number, call, "", values))
    it.emit(ScriptEvent("scaler update", call.place, number, call))
    return NONE


CLASSES = dict.fromkeys(("timm.utils.NativeScaler", "timm.utils.cuda.NativeScaler"), "timm scaler")
CONSTRUCT: dict[str, Callable[[Interpreter, Ref, str, Call], None]] = {"timm scaler": _construct}
METHODS: dict[tuple[str, str], Callable[[Interpreter, Ref | Element, Call], Value]] = {
    ("timm scaler", "__call__"): _step
}
