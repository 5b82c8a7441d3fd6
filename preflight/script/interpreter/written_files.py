"""What a script writes beside its weights: folders, files that it opens, tables and arrays."""

import ast

from preflight import regex as re
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.values import Const, Ref, Value
from preflight.script.values.constants import FALSE, UNKNOWN
from preflight.script.values.heap import HeapObject
from preflight.script.values.operations import as_bool, as_text, list_values

_OF_TABLES = frozenset({"to_csv", "to_parquet", "to_pickle", "to_excel", "to_feather"})
"""Methods of pandas whose first argument is the file."""
_OF_PATHS = frozenset({"write_text", "write_bytes"})
_OF_PIPELINES = re.compile(r"(?:^|_)pipe(?:line)?s?(?:_|\d|$)", re.IGNORECASE)
"""Names of what saves the weights of several models, where a tokenizer of no known class saves none."""
OF_ADAPTERS = frozenset({"save_lora_weights", "save_lora_adapter"})
"""How diffusers writes adapters: of the pipeline's class, and of the model."""
METHODS = frozenset({"mkdir", "open", "savefig", "save_pretrained", *OF_ADAPTERS, *_OF_TABLES, *_OF_PATHS})
"""Methods by whose name a call may write, whatever object they are of."""
_REPLACES = re.compile(r"[bt+]{0,2}[wx][bt+]{0,2}")
"""A mode; what `open` of an unknown object has first may be a path that starts with the same letter."""


def note_method(it: Interpreter, name: str, owner: Value, call: Call) -> Value:
    """Note what a method of a path or table writes (`owner`: a path, or by rank); return the opened file."""
    if name == "mkdir":
        note_folder(it, owner, call)
    elif name in _OF_PATHS:
        note_result(it, owner, call)
    elif name in _OF_TABLES:
        path = call.get("path_or_buf", 0) or call.get("path", 0)
        if path is not None:
            note_result(it, path, call)
    elif name in OF_ADAPTERS:
        note_weights(it, call)
    elif name == "save_pretrained":
        _note_pipeline(it, call)
    elif name == "savefig" and call.args:
        note_result(it, call.args[0], call)
    elif name == "open" and len(call.args) + ("mode" in call.kwargs) > 1:
        if replaces_file(call.get("mode", 1)):
            return open_file(it, call.args[0], call.get("mode", 1), call)  # of a file system
    elif name == "open" and replaces_file(call.get("mode", 0)):
        return open_file(it, owner, call.get("mode", 0), call)
    return UNKNOWN


def _note_pipeline(it: Interpreter, call: Call) -> None:
    """pipeline.save_pretrained(folder) of diffusers."""
    func = call.node.func
    owner = func.value if isinstance(func, ast.Attribute) else func
    named = getattr(owner, "attr", getattr(owner, "id", ""))
    if _OF_PIPELINES.search(named):
        note_weights(it, call)


def note_weights(it: Interpreter, call: Call) -> None:
    """model.save_pretrained(folder): nothing where `is_main_process` or accelerate's own function decides."""
    if not call.open and not {"is_main_process", "save_function"} & set(call.kwargs):
        note_write(it, call, call.get("save_directory", 0), "file")


def note_write(it: Interpreter, call: Call, path: Value | None, what: str, *, opened: bool = False) -> None:
    """Send the rules what is written, before the script joins its ranks too."""
    event = "write" if it.state.grouped or it.state.wrapped else "early write"
    it.emit(call.event(event, None, what, path=path or UNKNOWN, opened=Const(opened)))


def open_file(it: Interpreter, path: Value, mode: Value | None, call: Call) -> Value:
    """Return a file that is open; the rules are sent it where it is written from its start."""
    if replaces_file(mode):
        note_result(it, path, call)
    elif mode is None or as_text(mode) in ("r", "rb", "rt"):
        note_read(it, path, call)
    return it.allocate(HeapObject("file", call.place, {"path": path, "replaces": Const(replaces_file(mode))}))


def note_folder(it: Interpreter, path: Value, seen: Call) -> None:
    """Send the rules a folder that is made and may exist."""
    if as_bool(seen.get("exist_ok", 2) or FALSE) is False and not seen.open:
        note_write(it, seen, path, "folder")


def note_result(it: Interpreter, path: Value, call: Call) -> None:
    """Send the rules a file other than weights; a file that is open was noted where it was opened."""
    if not any(isinstance(item, Ref) for item in list_values(path)):
        note_write(it, call, path, "result")


def note_read(it: Interpreter, path: Value, call: Call) -> None:
    """Send the rules a file or folder that is read."""
    it.emit(call.event("read", path=path))


def replaces_file(mode: Value | None) -> bool:
    """Whether a file is opened to be written from its start; what is appended to loses nothing."""
    return _REPLACES.fullmatch(as_text(mode or UNKNOWN) or "") is not None
