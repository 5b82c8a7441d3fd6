"""What a script writes: files of weights, and folders."""

from collections.abc import Callable

from preflight.script.interpreter.events import Call, ScriptEvent
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.values import NONE, UNKNOWN, Value
from preflight.script.interpreter.written_files import note_folder, note_result


def emit_write(it: Interpreter, call: Call, path: Value | None, name: str) -> None:
    """Send the rules a file that is written, where the script is one of several ranks."""
    if it.state.grouped or it.state.wrapped:
        it.emit(ScriptEvent("write", call.place, None, call, name, {"path": path or UNKNOWN}))


def _save(it: Interpreter, call: Call) -> Value:
    emit_write(it, call, call.get("f", 1) or call.get("filename", 1), "file")
    return NONE


def _make_folder(it: Interpreter, call: Call) -> Value:
    note_folder(it, call.get("name", 0) or call.get("path", 0) or UNKNOWN, call)
    return NONE


def _save_array(it: Interpreter, call: Call) -> Value:
    note_result(it, call.get("file", 0) or call.get("fname", 0) or UNKNOWN, call)
    return NONE


def note_saved_model(it: Interpreter, call: Call) -> None:
    """model.save_pretrained(folder): nothing where `is_main_process` or accelerate's own function decides."""
    if not call.open and not {"is_main_process", "save_function"} & set(call.kwargs):
        emit_write(it, call, call.get("save_directory", 0), "file")


CALLS: dict[str, Callable[[Interpreter, Call], Value]] = {
    "torch.save": _save,
    "safetensors.torch.save_file": _save,
    **{f"numpy.{name}": _save_array for name in ("save", "savez", "savez_compressed", "savetxt")},
    "os.mkdir": _make_folder,
    "os.makedirs": _make_folder,
}
