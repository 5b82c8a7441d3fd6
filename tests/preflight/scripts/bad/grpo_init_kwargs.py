# target: trl=0.24.0
from trl import GRPOConfig, GRPOTrainer
import torch
args = GRPOConfig(output_dir="o", bf16=True, fp16=False, model_init_kwargs={"torch_dtype": torch.float16})  # expect: P131 info, P102 warning
trainer = GRPOTrainer(model="Qwen/Qwen2-0.5B-Instruct", args=args, reward_funcs=len, train_dataset=None)  
trainer.train()
