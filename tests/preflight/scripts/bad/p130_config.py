from transformers import AutoConfig, AutoModelForCausalLM
config = AutoConfig.from_pretrained("x")
config._attn_implementation = "flash_attention_2"  # expect: P130 info
model = AutoModelForCausalLM.from_pretrained("x", config=config)
