from transformers import AutoConfig, AutoModelForCausalLM
config = AutoConfig.from_pretrained("x", attn_implementation="flash_attention_2")  # expect: P130 info
model = AutoModelForCausalLM.from_config(config)
