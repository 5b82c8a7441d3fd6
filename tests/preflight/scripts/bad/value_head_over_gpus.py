# target: capability=8.0 processes=4
from trl import AutoModelForCausalLMWithValueHead, PPOConfig, PPOTrainer
from unsloth import FastLanguageModel

policy = AutoModelForCausalLMWithValueHead.from_pretrained("gpt2", device_map="auto")  # expect: D204 error
trainer = PPOTrainer(PPOConfig(), policy, None, None)
for queries in range(3):
    trainer.step(queries, queries, queries)

other, tokenizer = FastLanguageModel.from_pretrained("m", device_map="balanced")  # expect: D204 error
other = FastLanguageModel.get_peft_model(other, r=8)
later = PPOTrainer(PPOConfig(), tokenizer, other, None)
later.train()
