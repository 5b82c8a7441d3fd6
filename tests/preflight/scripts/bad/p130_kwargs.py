from transformers import AutoModelForCausalLM
kw = dict(
    use_cache=False,
    attn_implementation="flash_attention_2",  # expect: P130 info
)
model = AutoModelForCausalLM.from_pretrained("x", **kw)
