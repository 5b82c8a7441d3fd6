from transformers import LlamaConfig, LlamaForCausalLM
LlamaForCausalLM._from_config(LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
    num_attention_heads=2, num_key_value_heads=2), attn_implementation="flash_attention_2")
