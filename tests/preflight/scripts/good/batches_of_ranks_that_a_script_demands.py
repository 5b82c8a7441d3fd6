import deepspeed
import torch
import torch.distributed as dist
from transformers import AutoModel, Trainer, TrainingArguments

CARDS = 8
deepspeed.init_distributed()
if dist.get_world_size() != CARDS:
    raise SystemExit(f"start {CARDS} processes")
model = torch.nn.Linear(4, 1)
config = {
    "train_batch_size": 128,
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 4,
    "optimizer": {"type": "Adam"},
}
engine, *_ = deepspeed.initialize(model=model, config=config, model_parameters=model.parameters())
beside = {
    "zero_optimization": {"stage": 2},
    "train_micro_batch_size_per_gpu": 2,
    "gradient_accumulation_steps": "auto",
}
args = TrainingArguments("out", per_device_train_batch_size=2, bf16=True, deepspeed=beside)
Trainer(AutoModel.from_pretrained("bert", dtype=torch.float32), args).train()
