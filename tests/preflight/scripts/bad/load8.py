from transformers import AutoModelForCausalLM
model = AutoModelForCausalLM.from_pretrained(
    "x",
    load_in_8bit=True,  # expect: V301 warning
    device_map={"": 0} if False else None,
)
