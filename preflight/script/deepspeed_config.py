"""The DeepSpeed config that a script gives to DeepSpeed itself, found by reading the script. Pure.

A dictionary in the script (`deepspeed.initialize(config={...})`, `TrainingArguments(deepspeed={...})`), or
the name of a file. What the script computes is left out of it, so that no check judges a guess.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from preflight.frozen import dataclass
from preflight.job import DeepSpeedConfig
from preflight.script.bounds import pause_collector
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.interpreter import Interpreter
from preflight.script.interpreter.program import ProgramReader
from preflight.script.libraries.call_table import LibraryModel
from preflight.script.library_names import is_arguments_class, root_and_last
from preflight.script.source import Sources
from preflight.script.syntax_trees import Parser
from preflight.script.target import RankTarget
from preflight.script.values import Const, Map, OneOf, Seq, Value

_KEYWORDS = {
    "initialize": ("config", "config_params"),
    "DeepSpeedPlugin": ("hf_ds_config",),
    "HfDeepSpeedConfig": ("config_file_or_dict",),
}
_BATCH_SIZES = ("train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps")
_UNKNOWN = object()
_TARGETS = (RankTarget(processes=7), RankTarget(capability=(8, 0), processes=12))
"""What a script makes of the world's size or of the GPU differs between them, and so counts as computed."""


@dataclass(frozen=True, slots=True)
class ScriptConfig:
    """What a script names as its DeepSpeed config: one of both."""

    file: str = ""
    config: DeepSpeedConfig | None = None


@pause_collector()
def find_script_config(text: str, path: str, args: tuple[str, ...] = ()) -> ScriptConfig | None:
    """Return the config that a script gives to DeepSpeed with these arguments, None where reading shows none.

    Keys whose value the script computes are left out; of the three batch sizes all, where one is computed,
    since DeepSpeed derives them from each other (deepspeed/runtime/config.py).
    """
    found, parser = list[tuple[int, Any]](), Parser()
    for target in _TARGETS:
        library, sources = _Library(), Sources(None, parser)
        try:
            reading = ProgramReader(sources, replace(target, args=args), library, lambda _it, _event: None)
            reading.run(sources.add(path, text))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None
        if library.found is None:
            return None
        found.append(library.found)
    known = _shared([value for _, value in found])
    if isinstance(known, str):
        return ScriptConfig(file=known)
    certain = _certain(known) if isinstance(known, dict) else {}
    if not certain:
        return None
    source = f"the DeepSpeed config of {path}:{found[0][0]}"
    return ScriptConfig(config=DeepSpeedConfig(source, json.dumps(certain)))


class _Library(LibraryModel):
    """Keeps the first config that a call of a library is given, with its line."""

    found: tuple[int, Any] | None = None

    def call(self, it: Interpreter, name: str, call: Call) -> Value:
        """Return what the call gives, once its config is kept."""
        for line, value in _given(name, call) if self.found is None else ():
            known = _json_of(value)
            if known.endswith(".json") if isinstance(known, str) else isinstance(known, dict) and known:
                self.found = line, known
        return super().call(it, name, call)


def _given(name: str, call: Call) -> Iterator[tuple[int, Value]]:
    root, last = root_and_last(name)
    keywords = () if last == "initialize" and root != "deepspeed" else _KEYWORDS.get(last, ())
    for word in (*keywords, *(("deepspeed",) if is_arguments_class(name) else ())):
        value = call.get(word, 0 if last == "HfDeepSpeedConfig" else None)
        if value is not None:
            yield call.get_place(word).line, value


def _json_of(value: Value) -> Any:
    """Return a value as JSON holds it; `_UNKNOWN` for one that is computed."""
    if isinstance(value, Const) and not isinstance(value.value, bytes):
        return value.value
    if isinstance(value, Seq) and not value.open:
        items = [_json_of(item) for item in value.items]
        return items if all(map(_is_known, items)) else _UNKNOWN
    if isinstance(value, Map) and not value.open and all(isinstance(key, str) for key, _ in value.items):
        return {key: _json_of(item) for key, item in value.items}
    if isinstance(value, OneOf):
        return _shared([_json_of(item) for item in value.values])
    return _UNKNOWN


def _is_known(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_known, value.values()))
    return value is not _UNKNOWN


def _shared(choices: list[Any]) -> Any:
    """Return the value that is one of these: what differs between them, in dicts key by key, is computed."""
    if all(isinstance(each, dict) for each in choices):
        keys = dict.fromkeys(key for each in choices for key in each)
        return {key: _shared([each.get(key, _UNKNOWN) for each in choices]) for key in keys}
    return choices[0] if all(each == choices[0] for each in choices) else _UNKNOWN


def _certain(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return a config without what is computed."""
    unsure = any(config.get(name) is _UNKNOWN for name in _BATCH_SIZES)
    return {
        key: _certain(value) if isinstance(value, dict) else value
        for key, value in config.items()
        if value is not _UNKNOWN and not (unsure and key in _BATCH_SIZES)
    }
