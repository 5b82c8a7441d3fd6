"""torch's devices: which one a script names, sets, asks about, and puts things on."""

import ast
from collections.abc import Iterable
from dataclasses import replace

from preflight import regex as re
from preflight.script.interpreter.events import Call, ScriptEvent
from preflight.script.interpreter.interpreter import CallModel, Interpreter
from preflight.script.libraries.models import as_device, describe_use
from preflight.script.values import Const, Device, RankValue, Seq, Value
from preflight.script.values.constants import FALSE, NONE, ON_CPU, ON_GPU, TRUE, UNKNOWN
from preflight.script.values.operations import as_bool, as_text, join, list_values


def _cuda_available(it: Interpreter, _call: Call) -> Value:
    return Const(it.target.capability is not None)


def _bf16_supported(it: Interpreter, call: Call) -> Value:
    it.emit(call.event("bf16 asked"))
    if it.target.capability is None:
        return FALSE
    strict = as_bool(call.get("including_emulation", 0) or TRUE) is False
    old = it.target.is_at_least("torch", 2, 3) is False
    it.asked_gpu = it.asked_gpu or strict or old
    return Const(not it.target.before_ampere if strict or old else True)


def _capability(it: Interpreter, _call: Call) -> Value:
    capability = it.target.capability
    it.asked_gpu = it.asked_gpu or capability is not None
    return UNKNOWN if capability is None else Seq(tuple(map(Const, capability)))


def _device(it: Interpreter, call: Call) -> Value:
    kind, index = call.get("type", 0) or UNKNOWN, call.get("index", 1)
    result = join(_one_device(item, index) for item in list_values(kind))
    devices = [item for item in list_values(result) if isinstance(item, Device) and item.kind == "cuda"]
    of_rank = any(item.of_rank for item in devices)
    for item in devices:
        if item.of_rank or not of_rank:  # a launch of ranks replaces the default
            it.emit(call.event("device", device=item))
    return result


def _one_device(kind: Value, index: Value | None) -> Value:
    if isinstance(kind, RankValue) or (isinstance(index, RankValue) and as_text(kind) == "cuda"):
        return Device("cuda", of_rank=True)
    found = as_device(kind)
    if isinstance(found, Device) and isinstance(index, Const) and isinstance(index.value, int):
        return Device(found.kind, index.value, place=index.place)
    if isinstance(found, Device):
        return UNKNOWN if index is not None and index != NONE else replace(found, is_text=False)
    return found


def _set_device(it: Interpreter, call: Call, what: str = "") -> Value:
    target = call.get("device", 0) or call.first
    device = Device("cuda", of_rank=True) if isinstance(target, RankValue) else as_device(target)
    it.emit(call.event("set device", None, what, device=device, index=target))
    it.state.device_set = True
    return NONE


def _set_default_device(it: Interpreter, call: Call) -> Value:
    """Only a number is a use: the device without one is the rank's own when it is used."""
    device = as_device(call.get("device", 0) or UNKNOWN)
    if isinstance(device, Device) and (device.of_rank or device.index is not None):
        note_placed(it, call, call.get("device", 0), "device")
    return NONE


def _mesh(it: Interpreter, call: Call) -> Value:
    """init_device_mesh(device_type, ...), which sets the rank's own GPU where no rank has."""
    it.state.device_set = it.state.device_set or as_text(call.get("device_type", 0)) == "cuda"
    return UNKNOWN


def _cuda_work(it: Interpreter, call: Call) -> Value:
    it.emit(call.event("cuda", None, "work", device=Device("cuda"), literal=TRUE))
    return UNKNOWN


def _generator(it: Interpreter, call: Call) -> Value:
    note_placed(it, call, call.get("device"), "device")
    return UNKNOWN


def make_tensor_on(places: Iterable[Value]) -> Value:
    """Return a tensor that is surely where one of these says, of any that is not known nothing."""
    kinds = {
        found.kind if isinstance(found := as_device(item), Device) else ""
        for place in places
        for item in list_values(place)
    }
    return ON_GPU if kinds == {"cuda"} else ON_CPU if kinds == {"cpu"} else UNKNOWN


def _tensor(it: Interpreter, call: Call) -> Value:
    """torch.zeros(3), torch.tensor([1.0]): on the CPU where nothing says otherwise."""
    device = call.get("device") or NONE
    note_placed(it, call, device, "device")
    if device != NONE or call.open:
        return make_tensor_on((device,))
    copies = getattr(call.node.func, "attr", "").endswith("tensor")  # of a tensor it is where that is
    return UNKNOWN if copies and not _is_of_numbers(it, call) else ON_CPU


def _joined(_it: Interpreter, call: Call) -> Value:
    """torch.stack([a, b]): on the CPU where all of them are."""
    given = call.get("tensors", 0)
    items = given.items if isinstance(given, Seq) else ()
    return ON_CPU if items and all(item is ON_CPU for item in items) else UNKNOWN


def _is_of_numbers(it: Interpreter, call: Call) -> bool:
    """Whether torch.tensor(x) gets numbers: a list, a constant, a sum of what item() gave."""
    node = call.node.args[0] if call.node.args else None
    if isinstance(node, (ast.List, ast.ListComp, ast.Tuple, ast.Constant)):
        return True
    if isinstance(node, ast.Call):
        func = node.func
        made = func.id if isinstance(func, ast.Name) else getattr(func, "attr", "")
        return made in (_OF_NUMBERS if isinstance(func, ast.Name) else ("item", "tolist"))
    if isinstance(node, ast.BinOp):
        return all(_is_number(each) for each in (node.left, node.right))
    if not isinstance(node, ast.Name):
        return False
    added = re.findall(rf"\b{node.id} *(?:\+=|=(?!=))([^\n]*)", it.source.text)
    return bool(added) and all(
        re.search(r"\.item\(\)|len\(|\.size\(|^ *[\d.]+ *(?:#.*)?$", value) for value in added
    )


_OF_NUMBERS = ("list", "tuple", "sorted", "float", "int", "len")


def _is_number(node: ast.expr) -> bool:
    """Whether a part of a sum is a number for sure."""
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    if isinstance(node, ast.Call):
        return getattr(node.func, "id", getattr(node.func, "attr", "")) in ("float", "int", "len", "item")
    return isinstance(node, ast.Constant)


def note_placed(it: Interpreter, call: Call, device: Value | None, keyword: str) -> None:
    """Note the GPU on which a call puts what it makes or reads."""
    for item in list_values(device or NONE):
        found = as_device(item)
        if isinstance(found, Device) and found.kind == "cuda":
            values = describe_use(found, item, device or NONE)
            it.emit(ScriptEvent("cuda", call.get_place(keyword), None, call, "tensor", values))


def _load(it: Interpreter, call: Call) -> Value:
    where = call.get("map_location", 1)
    if where is None and len(call.args) < 2:
        it.emit(call.event("load without map"))
    said = call.open or not call.kwargs.keys().isdisjoint(("weights_only", "pickle_module"))
    it.emit(call.event("weights only", None, "said" if said else "", path=call.get("f", 0) or UNKNOWN))
    note_placed(it, call, where, "map_location")
    return UNKNOWN


_TENSOR_MAKERS = (
    "tensor as_tensor zeros ones empty full randn rand randint arange linspace Tensor FloatTensor LongTensor"
)

CALLS: dict[str, CallModel] = {
    "torch.cuda.is_available": _cuda_available,
    "torch.accelerator.is_available": _cuda_available,
    "torch.cuda.is_bf16_supported": _bf16_supported,
    "transformers.utils.is_torch_bf16_gpu_available": _bf16_supported,
    "accelerate.utils.is_bf16_available": _bf16_supported,
    "torch.cuda.get_device_capability": _capability,
    "torch.device": _device,
    "torch.cuda.set_device": _set_device,
    "torch.accelerator.set_device_index": _set_device,
    "torch.cuda.device": lambda it, call: _set_device(it, call, "for a while"),
    "torch.set_default_device": _set_default_device,
    "torch.Generator": _generator,
    "torch.from_numpy": lambda _it, _call: ON_CPU,
    "torch.distributed.device_mesh.init_device_mesh": _mesh,
    "torch.distributed.init_device_mesh": _mesh,
    **dict.fromkeys(
        ("torch.cuda.current_device", "torch.accelerator.current_device_index"),
        lambda it, _: Device("cuda", of_rank=True) if it.state.device_set else UNKNOWN,
    ),
    "torch.accelerator.current_accelerator": lambda it, _: Device("cuda") if it.target.capability else NONE,
    "torch.cuda.synchronize": _cuda_work,
    "torch.cuda.mem_get_info": _cuda_work,
    "torch.load": _load,
    **{f"torch.{name}": _tensor for name in _TENSOR_MAKERS.split()},
    **dict.fromkeys(("torch.stack", "torch.cat"), _joined),
}
