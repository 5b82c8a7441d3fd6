import argparse, torch
from accelerate import Accelerator
from transformers import AutoModelForCausalLM
parser = argparse.ArgumentParser()
parser.add_argument("--precision", choices=["fp32", "fp16", "bf16"], default="fp16")
args = parser.parse_args()
match args.precision:
    case "fp16":
        dtype = torch.float16
    case "bf16":
        dtype = torch.bfloat16
    case _:
        dtype = torch.float32
accelerator = Accelerator(mixed_precision="no" if args.precision == "fp32" else args.precision)
model = AutoModelForCausalLM.from_pretrained("gpt2", torch_dtype=dtype)  # expect: P101 error
optim = torch.optim.AdamW(model.parameters(), lr=1e-5)
model, optim = accelerator.prepare(model, optim)
for batch in load():
    accelerator.backward(model(**batch).loss)
    optim.step()
