from transformers import LlamaForCausalLM
from transformers import LlamaConfig, LlamaForCausalLM
model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
                                     num_attention_heads=2, num_key_value_heads=2))
model.save_pretrained('tiny')
LlamaForCausalLM.from_pretrained('tiny', load_in_8bit=True)
