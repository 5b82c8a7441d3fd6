"""Checkpoints of Hugging Face's hub that are float32, by their names."""

import re

from preflight.script.interpreter.events import Call
from preflight.script.interpreter.values import UNKNOWN, alternatives, text_of

_IN_FLOAT32 = re.compile(
    r"(?:(?:google-bert|FacebookAI|distilbert|openai-community|google-t5)/)?"
    r"(?:bert-(?:base|large)-|(?:xlm-)?roberta-(?:base|large)|distil(?:bert|roberta)-base|(?:distil)?gpt2"
    r"|t5-(?:small|base|large)$)"
)
"""Those of the first years of transformers, which were saved in float32."""


def is_in_float32(call: Call) -> bool:
    """Whether from_pretrained() is given checkpoints only that are float32."""
    given = call.get("pretrained_model_name_or_path", 0) or UNKNOWN
    names = [text_of(item) for item in alternatives(given)]
    return all(name is not None and _IN_FLOAT32.match(name) for name in names)
