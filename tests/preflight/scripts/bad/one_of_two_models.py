# target: capability=8.0 processes=2
import argparse
import torch
from transformers import AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--pretrained", type=str)
args = parser.parse_args()
if args.pretrained is not None:
    model = AutoModelForCausalLM.from_pretrained(args.pretrained, torch_dtype=torch.bfloat16)  # expect: P106 warning
else:
    model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD([{"params": list(model.parameters())}], lr=0.1)
scaler = torch.amp.GradScaler("cuda")
for batch in range(4):
    scaler.scale(model(batch)).backward()
    scaler.step(optimizer)
    scaler.update()
