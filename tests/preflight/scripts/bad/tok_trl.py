# target: trl=0.19.0
from trl import SFTTrainer, SFTConfig
def go(model, tokenizer, ds):
    SFTTrainer(
        model=model,
        args=SFTConfig(output_dir="o", bf16=False),
        train_dataset=ds,
        tokenizer=tokenizer,  # expect: V301 error
    ).train()
