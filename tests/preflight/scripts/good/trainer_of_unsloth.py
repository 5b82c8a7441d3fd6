from unsloth import FastLanguageModel  # isort: skip
from trl import SFTConfig, SFTTrainer

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/llama-3-8b", load_in_4bit=True)
arguments = SFTConfig("out", max_seq_length=2048, bf16=True)
SFTTrainer(model, train_dataset=[], dataset_text_field="text", max_seq_length=2048, args=arguments).train()
