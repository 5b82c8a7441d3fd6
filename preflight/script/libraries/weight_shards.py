"""Weights of which each rank holds a part, under ZeRO-3 and FSDP: what reads them waits for all ranks."""

from preflight.script.interpreter.config_files import load_config
from preflight.script.interpreter.contexts import GATHERED
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import CallModel, Interpreter
from preflight.script.libraries.collectives import emit_collective
from preflight.script.libraries.hf_arguments import is_surely_sharded
from preflight.script.values import Const, Element, Map, Ref, Value
from preflight.script.values.constants import NONE, TRUE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_text, get_id, list_values

_PLUGIN = "deepspeed plugin"


def is_of_parts(it: Interpreter, given: Value) -> bool:
    """Whether a config is that of ZeRO-3, where each rank holds a part of every weight."""
    config = given if isinstance(given, Map) else load_config(it, given)
    zero = config.get("zero_optimization") if isinstance(config, Map) else None
    return isinstance(zero, Map) and zero.get("stage") == Const(3)


def _keeps_whole(it: Interpreter, given: Value) -> bool | None:
    """Whether a config of DeepSpeed leaves whole weights on each rank, None where it cannot be read."""
    known = isinstance(given, Map) or isinstance(load_config(it, given), Map)
    return not is_of_parts(it, given) if known else None


def shards_by_arguments(it: Interpreter, args: Value) -> bool:
    """Whether a Trainer with these arguments parts the weights on all paths."""
    items = list_values(args)
    return all(
        is_of_parts(it, it.attr(item, "deepspeed")) or "shard" in (as_text(it.attr(item, "fsdp")) or "")
        for item in items
    )


def shards_by_plugins(it: Interpreter, call: Call) -> bool:
    """Whether an Accelerator is made for parted weights, by its DeepSpeedPlugin or that of FSDP."""
    for plugin in list_values(call.get("deepspeed_plugin") or NONE):
        stage, config = it.attr(plugin, "zero_stage"), it.attr(plugin, "hf_ds_config")
        if stage != Const(3) and not is_of_parts(it, config):
            return NONE not in list_values(call.get("fsdp_plugin") or NONE)
    return True


def note_use(it: Interpreter, model: Value, call: Call, name: str) -> None:
    """Note that all ranks take part where a model of parts computes, outside of blocks that gather it."""
    if it.attr(model, "parts") == TRUE and GATHERED not in it.contexts:
        emit_collective(it, call, name)


def save_model(it: Interpreter, owner: Ref | Element, call: Call) -> Value:
    """trainer.save_model(): under ZeRO-3 and FSDP all ranks gather the weights in it."""
    items = [item for item in list_values(it.attr(get_id(owner), "args")) if is_surely_sharded(it, item)]
    if any(_keeps_whole(it, it.attr(item, "deepspeed")) is not True for item in items):
        emit_collective(it, call, "save_model")
    return NONE


def _plugin(it: Interpreter, call: Call) -> Value:
    given = {
        name: call.get(name) or (UNKNOWN if call.open else NONE) for name in ("zero_stage", "hf_ds_config")
    }
    return it.allocate(HeapObject(_PLUGIN, call.place, given))


PLUGINS: dict[str, CallModel] = {
    f"accelerate.{module}DeepSpeedPlugin": _plugin for module in ("", "utils.", "utils.dataclasses.")
}
