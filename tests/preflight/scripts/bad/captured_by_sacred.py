import torch
from accelerate import Accelerator
from sacred import Experiment
from transformers import AutoModelForCausalLM

experiment = Experiment("train")
experiment.add_config({"name": "gpt2", "half": False}, precision="fp16")


@experiment.config
def settings():
    half = False
    half = True
    lr = 1e-5


@experiment.capture
def load(name, half):
    dtype = torch.float16 if half else torch.float32
    return AutoModelForCausalLM.from_pretrained(name, torch_dtype=dtype)  # expect: P101 error


@experiment.capture(prefix=None)
def accelerate(precision):
    return Accelerator(mixed_precision=precision)


@experiment.automain
def main(lr):
    accelerator = accelerate()
    model = load()
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    model, optimizer = accelerator.prepare(model, optimizer)
    for batch in range(3):
        accelerator.backward(model(batch).loss)
        optimizer.step()
