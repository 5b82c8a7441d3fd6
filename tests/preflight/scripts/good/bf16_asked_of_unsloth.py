# target: capability=7.5 capability=8.0
from transformers import TrainingArguments
from unsloth import is_bf16_supported

# Not torch's, which counts the emulation of bf16: this one leaves it out.
args = TrainingArguments("out", bf16=is_bf16_supported(), fp16=not is_bf16_supported())
