"""How many processes a Trainer or Fabric of Lightning is to be: `devices` and `num_nodes`."""

from preflight.facts.script import CodeLocation, LightningSize
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.values import NONE, Const, Seq, Value, as_text

_ALL = ("auto", "-1")
_FABRIC_PLACES = {"accelerator": 0, "devices": 2, "num_nodes": 3}


def parse_size(call: Call, place: CodeLocation, *, is_fabric: bool) -> LightningSize:
    """Return what a call of Trainer or Fabric says; both default to all devices of one node."""

    def given(name: str) -> Value | None:
        return call.get(name, _FABRIC_PLACES[name] if is_fabric else None)

    devices, nodes = given("devices"), given("num_nodes")
    return LightningSize(
        place=place,
        call="Fabric" if is_fabric else "Trainer",
        devices=_devices(devices) if devices is not None else (0 if call.open else -1),
        nodes=_count(nodes) if nodes is not None else (0 if call.open else 1),
        on_cpu=as_text(given("accelerator")) == "cpu",
    )


def _devices(value: Value) -> int:
    """Return the number of devices; -1 is all, 0 not known. Indices can be a list or text: "0,1"."""
    if value in (NONE, Const(-1)):
        return -1
    if isinstance(value, Seq):
        return 0 if value.open else len(value.items)
    text = as_text(value)
    if text in _ALL:
        return -1
    if text is not None and "," in text:
        return len([part for part in text.split(",") if part.strip()])
    if text is not None and text.isascii() and text.isdecimal():
        return int(text)
    return _count(value)


def _count(value: Value) -> int:
    number = value.value if isinstance(value, Const) else None
    return number if isinstance(number, int) and number > 0 else 0
