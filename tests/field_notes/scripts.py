"""The five failures in the smallest honest scripts. `FIXED` in the environment takes the corrected line."""

NOTE_0 = """
import os, sys, torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

model = AutoModelForCausalLM.from_pretrained(
    sys.argv[1],
    torch_dtype=torch.float16,
    device_map="auto",
)
torch.manual_seed(0)
data = [{"input_ids": torch.arange(8) % 4, "labels": torch.arange(8) % 4} for _ in range(32)]
args = TrainingArguments(output_dir="out", max_steps=6, learning_rate=5e-3, fp16=True,
    lr_scheduler_type="constant", logging_steps=1, report_to=[], save_strategy="no", disable_tqdm=True,
    per_device_train_batch_size=4)
trainer = Trainer(model=model, args=args, train_dataset=data)
trainer.train()
print("LOSSES", [each["loss"] for each in trainer.state.log_history if "loss" in each])
"""

NOTE_0_FIXED = NOTE_0.replace('torch_dtype=torch.float16,\n    device_map="auto"', "dtype=torch.float32")

NOTE_1 = """
import argparse
import torch
from accelerate import Accelerator

parser = argparse.ArgumentParser()
parser.add_argument("--fp16", action="store_true")
options = parser.parse_args()
accelerator = Accelerator(mixed_precision="fp16" if options.fp16 else None)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).to(torch.float16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
x = torch.randn(64, 8); y = x.sum(1, keepdim=True)
x, y = x.to(accelerator.device), y.to(accelerator.device)
model, optimizer = accelerator.prepare(model, optimizer)
losses = []
for _ in range(12):
    optimizer.zero_grad()
    with accelerator.autocast():
        out = model(x)
    loss = torch.nn.functional.mse_loss(out.float(), y)
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    losses.append(loss.item())
print("LOSSES", losses)
"""

NOTE_1_FIXED = NOTE_1.replace(".to(torch.float16)", "")

NOTE_2 = """
import sys, torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

torch.manual_seed(0)  # adapters begin at random
LAYERS = ["q_proj", "v_proj", "o_proj", "lm_head"]
base = AutoModelForCausalLM.from_pretrained(sys.argv[1], dtype=torch.float16)
model = get_peft_model(base, LoraConfig(r=4, lora_alpha=64, target_modules=LAYERS, task_type="CAUSAL_LM"))
model = model.half()
data = [{"input_ids": torch.arange(8) % 4, "labels": torch.arange(8) % 4} for _ in range(32)]
args = TrainingArguments(output_dir="out", max_steps=8, learning_rate=1e-2, lr_scheduler_type="constant",
    optim="adamw_torch", logging_steps=1, report_to=[], save_strategy="no", disable_tqdm=True,
    per_device_train_batch_size=4)
trainer = Trainer(model=model, args=args, train_dataset=data)
trainer.train()
print("LOSSES", [each["loss"] for each in trainer.state.log_history if "loss" in each])
"""

NOTE_2_FIXED = NOTE_2.replace("dtype=torch.float16", "dtype=torch.float32").replace(
    "model = model.half()\n", ""
)

NOTE_3 = """
import argparse
import torch

parser = argparse.ArgumentParser()
parser.add_argument("--model_dtype", default="float16")
parser.add_argument("--no_check", action="store_true")
options = parser.parse_args()
device = "cuda" if torch.cuda.is_available() else "cpu"
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).to(device)
model.to(getattr(torch, options.model_dtype))
has_fp16_params = any(p.dtype == torch.float16 for p in model.parameters())
use_scaler = options.no_check or not has_fp16_params
scaler = torch.amp.GradScaler(device, enabled=use_scaler)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
x = torch.randn(64, 8); y = x.sum(1, keepdim=True)
x, y = x.to(device), y.to(device)
losses = []
for step in range(12):
    optimizer.zero_grad()
    with torch.autocast(device, dtype=torch.float16, enabled=use_scaler):
        out = model(x if use_scaler else x.to(next(model.parameters()).dtype))
    loss = torch.nn.functional.mse_loss(out.float(), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    losses.append(loss.item())
print("LOSSES", losses)
"""

NOTE_3_FIXED = NOTE_3.replace('default="float16"', 'default="float32"')

NOTE_4 = """
import torch
from accelerate import Accelerator

accelerator = Accelerator()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, foreach=True)
x = torch.randn(64, 8); y = x.sum(1, keepdim=True)
x, y = x.to(accelerator.device), y.to(accelerator.device)
model, optimizer = accelerator.prepare(model, optimizer)

def demo(model):
    model.eval()
    model.to(torch.bfloat16)
    with torch.no_grad():
        model(x.to(torch.bfloat16))
    model.train()

losses = []
for step in range(1, 13):
    if step == 8:
        demo(model)
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(model(x.to(next(model.parameters()).dtype)).float(), y)
    accelerator.backward(loss)
    optimizer.step()
    losses.append(loss.item())
print("LOSSES", losses)
"""

NOTE_4_FIXED = NOTE_4.replace("    model.to(torch.bfloat16)\n", "").replace(
    "model(x.to(torch.bfloat16))", "model(x)"
)

NOTE_4_CODEC = NOTE_4_FIXED.replace(
    "accelerator = Accelerator()",
    'codec = torch.nn.Linear(8, 8).to(torch.device("cuda:0"))\naccelerator = Accelerator()',
)
