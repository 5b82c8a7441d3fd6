# target: trl=0.20.0
from trl import SFTConfig, SFTTrainer
args = SFTConfig(
    output_dir="o", bf16=False,
    model_init_kwargs={"device_map": "auto"},  # expect: D204 warning
)
trainer = SFTTrainer(model="Qwen/Qwen2.5-0.5B", args=args, train_dataset=None)
trainer.train()
