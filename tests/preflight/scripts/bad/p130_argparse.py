import argparse
from transformers import AutoModelForCausalLM
p = argparse.ArgumentParser()
p.add_argument("--attn", default="flash_attention_2")  # expect: P130 info
a = p.parse_args()
model = AutoModelForCausalLM.from_pretrained("x", attn_implementation=a.attn)  # expect: P130 info
