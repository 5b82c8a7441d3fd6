from trl import SFTConfig, SFTTrainer
from unsloth import FastLanguageModel

model, tokenizer = FastLanguageModel.from_pretrained("unsloth/llama-3-8b", load_in_4bit=True)
model = FastLanguageModel.get_peft_model(model, r=16)
SFTTrainer(model=model, processing_class=tokenizer, args=SFTConfig(bf16=False, fp16=True)).train()
