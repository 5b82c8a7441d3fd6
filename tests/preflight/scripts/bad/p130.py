from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained(
    "x",
    attn_implementation="flash_attention_2",  # expect: P130 info
)
