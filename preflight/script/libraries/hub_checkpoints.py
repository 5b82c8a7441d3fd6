"""Checkpoints of Hugging Face's hub that are float32, by their names."""

from preflight import regex as re
from preflight.script.interpreter.events import Call
from preflight.script.interpreter.values import UNKNOWN, as_text, list_values

_IN_FLOAT32 = re.compile(
    r"(?:(?:google-bert|FacebookAI|distilbert|openai-community|google-t5)/)?"
    r"(?:bert-(?:base|large)-|(?:xlm-)?roberta-(?:base|large)|distil(?:bert|roberta)-base|(?:distil)?gpt2"
    r"|t5-(?:small|base|large)$)"
)
"""Those of the first years of transformers, which were saved in float32."""

_TRAINED_IN_FLOAT16 = re.compile(
    r"facebook/(?:opt|galactica|wav2vec2|hubert|xglm)-|openai/(?:whisper|clip)-|EleutherAI/gpt-neox-"
    r"|EleutherAI/pythia-(?!1b\b)|bigscience/bloomz?-\d|(?:.*/)?(?:xlm-)?roberta-"
)
"""Families that their authors trained with float16 activations, by their papers (Pythia's 1B in bf16)."""


def is_in_float32(call: Call) -> bool:
    """Whether from_pretrained() is given checkpoints only that are float32."""
    return _all_match(_IN_FLOAT32, call)


def fits_float16(call: Call) -> bool:
    """Whether from_pretrained() is given checkpoints only whose activations float16 can hold."""
    return _all_match(_TRAINED_IN_FLOAT16, call) or is_in_float32(call)


def _all_match(pattern: re.Pattern[str], call: Call) -> bool:
    given = call.get("pretrained_model_name_or_path", 0) or call.get("model_name") or UNKNOWN
    names = [as_text(item) for item in list_values(given)]
    return all(name is not None and pattern.match(name) for name in names)
