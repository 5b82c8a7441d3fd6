# target: capability=7.5
from transformers import AutoModelForCausalLM

model = AutoModelForCausalLM.from_pretrained(
    "m",
    dtype="float32",
    attn_implementation="flash_attention_2",  # expect: P130 error
)
