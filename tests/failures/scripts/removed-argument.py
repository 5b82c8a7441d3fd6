from transformers import Trainer, TrainingArguments
from transformers import LlamaConfig, LlamaForCausalLM
model = LlamaForCausalLM(LlamaConfig(vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1,
                                     num_attention_heads=2, num_key_value_heads=2))
Trainer(model=model, args=TrainingArguments(output_dir='out', report_to='none'), tokenizer=None)
