from transformers import LlamaConfig, LlamaForCausalLM
m = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
                                     num_attention_heads=2, num_key_value_heads=2))
from transformers import BitsAndBytesConfig
m.save_pretrained('tiny')
LlamaForCausalLM.from_pretrained('tiny', quantization_config=BitsAndBytesConfig(load_in_4bit=True))
