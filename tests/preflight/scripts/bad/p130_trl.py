# target: trl=0.24.0
from trl import SFTConfig, SFTTrainer
cfg = SFTConfig(output_dir="o", bf16=False, fp16=True, model_init_kwargs=dict(attn_implementation="flash_attention_2"))  # expect: P130 info
SFTTrainer("x", args=cfg).train()
