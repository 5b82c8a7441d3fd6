# target: processes=4 launch=fp16
import argparse

import torch
from accelerate import Accelerator
from transformers import AutoModelForSequenceClassification, get_scheduler


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--mixed_precision", type=str, default=None, choices=["no", "fp16", "bf16", "fp8"])
    parser.add_argument("--cpu", action="store_true")
    args = parser.parse_args()
    accelerator = Accelerator(cpu=args.cpu, mixed_precision=args.mixed_precision)
    model = AutoModelForSequenceClassification.from_pretrained("m", dtype=torch.float32)
    model = model.to(accelerator.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    schedule = get_scheduler("linear", optimizer)
    model, optimizer, schedule = accelerator.prepare(model, optimizer, schedule)
    for epoch in range(3):
        model.train()
        for batch in range(10):
            with accelerator.accumulate(model):
                loss = model(**{}).loss
                accelerator.backward(loss)
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        model.eval()
        with torch.no_grad():
            model(1)
    if accelerator.is_main_process:
        accelerator.unwrap_model(model).half().save_pretrained("out")


if __name__ == "__main__":
    main()
