"""Which row an exception belongs to by the module that raised it, where its message says little. Pure."""

import re
from collections.abc import Sequence
from dataclasses import replace

from preflight.diagnosis.signatures.table import Signature, signature
from preflight.diagnosis.tracebacks import ParsedException

_ANY = frozenset[str]()
_READING_ERRORS = frozenset({
    "JSONDecodeError", "UnicodeDecodeError", "EOFError", "BadZipFile", "error", "IncompleteReadError",
})  # fmt: skip
_READS_MODELS = re.compile(
    r"/(?:torch/serialization|safetensors/|transformers/(?:tokenization|configuration_utils|modeling_utils|feature_extraction"
    r"|image_processing|processing_utils|convert_slow|generation/configuration)|tokenizers/|peft/(?:config|utils/save_and_load|peft_model))"
)
# A library that makes an object of another one.
_CALLS_LIBRARIES = re.compile(
    r"/(?:transformers|trl|accelerate|peft|datasets|diffusers|lightning|lightning_fabric|pytorch_lightning|optimum|sentence_transformers|composer)/"
)
# These hand on what the script gave them.
_PASSES_ON = re.compile(r"^(?:_?from_\w+|\w*wrapper\w*|_?inner\w*)$")
_REFUSED_ARGUMENT = re.compile(r"^(?:\w+\.)*__init__\(\) got an unexpected keyword argument")
# (code, types or any, the file of the innermost frame): what raised it is about one thing only.
_RAISED_IN: tuple[tuple[str, frozenset[str], re.Pattern[str]], ...] = (
    ("S85", frozenset({"RuntimeError"}), _READS_MODELS),
    ("S85", _ANY, re.compile(r"/torch/distributed/checkpoint/")),
    ("S88", frozenset({"KeyError", "ValueError"}), re.compile(r"/torch/optim/(?:lr_scheduler|optimizer)\.py:load_state_dict$")),
    ("S68", _ANY, re.compile(r"/torch/_(?:inductor|dynamo)/|/triton/(?:compiler|runtime|backends|language)/|/torch/utils/cpp_extension")),
    ("S46", frozenset({"AssertionError"}), re.compile(r"/deepspeed/runtime/zero/(?:stage3|partition|parameter_offload|utils)")),
    ("S91", _ANY, re.compile(r"/bitsandbytes/(?:cextension|cuda_setup|cuda_specs)")),
    ("S100", frozenset({"RuntimeError", "AssertionError"}), re.compile(r"/torch/cuda/__init__\.py:(?:_lazy_init|_lazy_new|init|set_device|current_device)$")),
    ("S49", frozenset({"RuntimeError", "ValueError"}), re.compile(r"/torch/distributed/(?:rendezvous|elastic/rendezvous/)")),
    ("S89", frozenset({"OSError", "FileNotFoundError"}), re.compile(r"/ctypes/__init__\.py:")),
    ("S90", frozenset({"TypeError"}), _CALLS_LIBRARIES),
    ("S81", frozenset({"ValueError"}), re.compile(r"/huggingface_hub/_login\.py:")),
    ("S106", frozenset({"TypeError", "AttributeError", "PicklingError"}), re.compile(r"/multiprocessing/reduction\.py:")),
)  # fmt: skip


def calling_library(chain: Sequence[ParsedException]) -> str:
    """Return the library that gave another one an argument that it does not take, "" where the script did."""
    for each in chain:
        found = _CALLS_LIBRARIES.search(each.frames[-1].path) if each.frames else None
        if found and not _PASSES_ON.match(each.frames[-1].function) and _REFUSED_ARGUMENT.match(each.message):
            return found[0].strip("/")
    return ""


def row_of_place(chain: Sequence[ParsedException]) -> Signature | None:
    """Return the row of an exception that says little, but was raised where a library does one thing only."""
    for each in chain:
        if each.name in _READING_ERRORS and any(_READS_MODELS.search(frame.path) for frame in each.frames):
            return signature("S85")
        if each.frames:
            at = each.frames[-1]
            for code, types, place in _RAISED_IN:
                if place is _CALLS_LIBRARIES and not calling_library([each]):
                    continue
                if (not types or each.name in types) and place.search(f"{at.path}:{at.function}"):
                    row = signature(code)
                    return row if row is None or place is _READS_MODELS else replace(row, broad=True)
    return None
