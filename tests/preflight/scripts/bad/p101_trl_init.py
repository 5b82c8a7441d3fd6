# target: trl=0.20.0
from trl import SFTTrainer, SFTConfig
cfg = SFTConfig(
    output_dir="o",
    fp16=True,
    model_init_kwargs={
        "torch_dtype": "float16",  # expect: P101 error
    },
)
SFTTrainer("x", args=cfg, train_dataset=None).train()
